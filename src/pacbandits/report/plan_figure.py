"""A plan as a picture that a product manager understands."""

from __future__ import annotations

import math
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.planning import StudyPlan
from pacbandits.planning.playing import RIVALS
from pacbandits.planning.study import BAND
from pacbandits.report.figures import BEST_COLOUR, GREY, UNIFORM_COLOUR, pyplot, save_figure
from pacbandits.report.numbers import show_in_figure
from pacbandits.report.planned import CALLED, called, people

COLOURS = {"coda": BEST_COLOUR, "uniform": UNIFORM_COLOUR}
POINTS = 300
DARK = "#555555"
PLATE = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}  # so that words stand out from lines
LEGEND = {"facecolor": "white", "edgecolor": "none", "framealpha": 0.8, "fontsize": 9}
LABEL_WIDTH = 20  # characters of a scenario's name, in a line


def draw_plan(plan: StudyPlan, *, path: Path) -> None:
    """Write the picture in the format of the path's suffix."""
    save_figure(plan_figure(plan), path)


def plan_figure(plan: StudyPlan) -> Any:
    """The chance to be done over people, scenario by scenario, and what is proven by when."""
    plt = pyplot()
    rows = [["chances", "scenarios"]] + ([["proven", "proven"]] if plan.simulated else [])
    heights = (4.6, 3.8)[: len(rows)]
    figure, axes = plt.subplot_mosaic(rows, figsize=(11.0, sum(heights)), height_ratios=heights, layout="constrained")
    _draw_chances(axes["chances"], plan)
    _draw_scenarios(axes["scenarios"], plan)
    if plan.simulated:
        _draw_proven(axes["proven"], plan)
    s = plan.supposed
    figure.suptitle(
        f"What a trial takes: {s.n_actions} actions, a rule within {s.epsilon:g} of the best one, "
        f"{100 * (1 - s.delta):g} % confidence\n",
        fontsize=12,
    )
    return figure


def _draw_chances(axis: Any, plan: StudyPlan) -> None:
    """How likely each way to explore is done by so many people."""
    counts = _range(plan)
    for one in RIVALS:
        chances = [100 * plan.chance(float(n), one) for n in counts]
        axis.plot(counts, chances, color=COLOURS[one], lw=2.2, label=CALLED[one])
        median = plan.quantiles(one).median
        if math.isfinite(median):
            axis.plot([median], [50], "o", color=COLOURS[one], ms=7)
            up = one == "coda"
            axis.annotate(
                people(median),
                (median, 50),
                xytext=(-8 if up else 8, 6 if up else -14),
                textcoords="offset points",
                ha="right" if up else "left",
                color=COLOURS[one],
                fontsize=10,
                bbox=PLATE,
            )
    if plan.budget is not None:
        _draw_budget(axis, plan.budget, chance=plan.chance(plan.budget), last=float(counts[-1]))
    axis.set_title("Chance to be done")
    axis.set_ylabel("trials that are done by then, %")
    axis.set_ylim(0, 102)
    _people_axis(axis, plan, counts)
    axis.legend(**LEGEND, loc="lower right")


def _draw_budget(axis: Any, budget: int, *, chance: float, last: float) -> None:
    """What one can afford, with words where no curve is: above them on the left, or below them on the right."""
    axis.axvline(budget, color=GREY, ls="--", lw=1.2, zorder=0)
    early = chance < 0.5
    axis.annotate(
        f"with your {budget:,} people\n{100 * chance:.0f} % of trials are done",
        (budget, 97 if early else 36),
        xytext=(5 if budget < 0.75 * last else -5, 0),
        textcoords="offset points",
        ha="left" if budget < 0.75 * last else "right",
        va="top",
        color=DARK,
        fontsize=9,
        bbox=PLATE,
    )


def _draw_scenarios(axis: Any, plan: StudyPlan) -> None:
    """The middle case, and up to what 4 of 5 trials take, in each scenario."""
    names = [fill(show_in_figure(called(one)), LABEL_WIDTH) for one in plan.supposed.scenarios]
    for row in range(len(names)):
        for k, one in enumerate(RIVALS):
            made, y = plan.quantiles(one, row), row + (0.18 if k else -0.18)
            if not math.isfinite(made.median):
                axis.text(
                    0.98, y, "not done", transform=axis.get_yaxis_transform(), ha="right", va="center", fontsize=9
                )
                continue
            far = made.p80 if math.isfinite(made.p80) else plan.max_samples
            axis.plot([made.median, far], [y, y], color=COLOURS[one], lw=3, alpha=0.45, solid_capstyle="butt")
            axis.plot([made.median], [y], "o", color=COLOURS[one], ms=8)
            axis.annotate(
                people(made.median),
                (made.median, y),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=8.5,
            )
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_title("How many people, if this is true")
    low, high = axis.get_xlim()
    axis.set_xlim(0, high + 0.08 * (high - low))
    _thousands(axis)
    axis.set_xlabel("people (dot: middle case; line: up to 4 of 5 cases)")
    axis.spines[["top", "right"]].set_visible(False)


def _draw_proven(axis: Any, plan: StudyPlan) -> None:
    """What is proven after so many people: the middle case and a band that 4 of 5 trials are in."""
    for one in RIVALS:
        counts, bands = plan.curve(one)
        axis.fill_between(counts, bands[0], bands[-1], color=COLOURS[one], alpha=0.15, lw=0)
        axis.plot(counts, bands[BAND.index(0.5)], color=COLOURS[one], lw=2.2, label=CALLED[one])
    epsilon = plan.supposed.epsilon
    axis.axhline(epsilon, color=GREY, ls="--", lw=1.2)
    axis.text(
        0.01, epsilon, f"wanted: {epsilon:g}", transform=axis.get_yaxis_transform(), va="bottom", color=GREY, fontsize=9
    )
    axis.set_ylim(0, min(8 * epsilon, plan.unit))
    axis.set_title("How near to the best is proven (line: middle case; band: 4 of 5 trials)")
    axis.set_ylabel("at most this far from the best rule")
    _people_axis(axis, plan, _range(plan))
    axis.legend(**LEGEND, loc="upper right")


def _range(plan: StudyPlan) -> FloatArray:
    """Numbers of people from none to where nearly all is done."""
    ends = [plan.quantiles(one).p95 for one in RIVALS] + [plan.foretold(one).p95 for one in RIVALS]
    finite = [end for end in ends if math.isfinite(end)]
    if plan.budget is not None:
        finite.append(float(plan.budget))
    return np.linspace(1.0, 1.25 * max(finite), POINTS)


def _people_axis(axis: Any, plan: StudyPlan, counts: FloatArray) -> None:
    """People below, and time above where traffic is known."""
    axis.set_xlim(0, float(counts[-1]))
    _thousands(axis)
    axis.set_xlabel("people")
    axis.spines[["top", "right"]].set_visible(False)
    traffic = plan.supposed.traffic
    if traffic is not None:
        axis.set_xlabel(f"people ({traffic.people:,} a {traffic.period})")

        def periods(count: FloatArray) -> FloatArray:
            return count / traffic.people

        def back(length: FloatArray) -> FloatArray:
            return length * traffic.people

        top = axis.secondary_xaxis("top", functions=(periods, back))
        top.xaxis.set_major_locator(pyplot().MaxNLocator(8, steps=[1, 2, 5, 10]))
        top.set_xlabel(f"{traffic.period}s" + (f", {traffic.delay} of them for late rewards" if traffic.delay else ""))


def _thousands(axis: Any) -> None:
    axis.xaxis.set_major_locator(pyplot().MaxNLocator(5))

    def words(value: float, _: int) -> str:
        return f"{value:,.0f}"

    axis.xaxis.set_major_formatter(words)

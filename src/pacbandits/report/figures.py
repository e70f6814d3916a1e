"""Figures: the sample complexity of a problem with its best design, and the result of an analysis."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.worth import Interval
from pacbandits.complexity import Complexity
from pacbandits.complexity.gaps import table_gaps
from pacbandits.design import Objective
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import sum_scores
from pacbandits.problems import Problem
from pacbandits.records.policy import call
from pacbandits.report.numbers import show_bracket, show_in_figure, show_samples
from pacbandits.report.summary import Summary

FIGURE_FORMATS = ("png", "pdf", "svg")
BEST_COLOUR = "#1b6ca8"
UNIFORM_COLOUR = "#d1732e"
GREY = "#8a8a8a"
DOTS_AN_INCH = 130
# Larger numbers of contexts or policies are drawn as an evenly spaced sample of this size.
_MAX_CONTEXTS_SHOWN = 400
_MAX_POLICIES_SHOWN = 4000


def check_figure_path(path: Path) -> Path:
    """Return the path if a figure can be written to it; raise InputError otherwise. Called before any computation."""
    if path.suffix.lstrip(".").lower() not in FIGURE_FORMATS:
        raise InputError(f"a figure must end in {', '.join('.' + f for f in FIGURE_FORMATS)}, got '{path}'")
    if not path.parent.is_dir():
        raise InputError(f"the folder of '{path}' does not exist; make it first")
    if path.is_dir():
        raise InputError(f"'{path}' is a folder")
    return path


def draw_complexity(problem: Problem, policies: PolicyClass, measured: Complexity, *, path: Path) -> None:
    """Draw three panels: samples needed, each policy's variance against its gap, and the design's propensities."""
    propensities = measured.solution.design.propensities(problem.population)
    figure = new_figure(16, 5.2)
    axes = figure.subplots(1, 3, width_ratios=[1.05, 1.1, 1.0])
    _draw_samples(axes[0], measured)
    _draw_policies(axes[1], problem, policies, measured, propensities)
    _draw_design(figure, axes[2], problem, measured, propensities)
    rho = show_bracket(measured.rho_lower, measured.rho_upper)
    figure.suptitle(
        f"{show_in_figure(problem.name)}\nε = {measured.epsilon:g}, δ = {measured.delta:g}, ρ = {rho}", fontsize=11
    )
    save_figure(figure, path)


def new_figure(width: float, height: float) -> Any:
    """Return an empty Matplotlib figure of this size in inches.

    It does not use pyplot: it needs no display, changes no backend that a notebook has chosen, and a notebook shows it
    once, where it is the value of a cell.
    """
    return _figure_class()(figsize=(width, height), layout="constrained")


@cache
def _figure_class() -> Any:
    """Import Matplotlib, only when something is drawn; return figures that notebooks show without pyplot."""
    from matplotlib.figure import Figure

    def png(figure: Any) -> bytes:
        made = io.BytesIO()
        figure.savefig(made, format="png")
        return made.getvalue()

    return type("Figure", (Figure,), {"_repr_png_": png})


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format of the path's suffix."""
    try:
        figure.savefig(path, dpi=DOTS_AN_INCH)
    except OSError as error:
        raise InputError(f"cannot write '{path}': {error.strerror or error}") from None


def svg_text(figure: Any) -> str:
    """Return a figure as SVG, the same text for the same data."""
    matplotlib: Any = import_module("matplotlib")
    made = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "pacbandits"}):
        figure.savefig(made, format="svg", metadata={"Date": None})
    return made.getvalue()


def _draw_samples(axis: Any, m: Complexity) -> None:
    bars = [
        ("lower bound", m.lower_bound, GREY),
        ("best design,\nunion bound", m.union_price, BEST_COLOUR),
        ("randomised trial,\nunion bound", m.union_price_uniform, UNIFORM_COLOUR),
        ("main theorem,\nconstant 1", m.upper_bound, GREY),
        ("minimax,\nconstant 1", m.minimax_bound, GREY),
    ]
    draw_bars(axis, bars)


def draw_bars(axis: Any, bars: Sequence[tuple[str, float | None, str]]) -> None:
    """Draw bars (label, value, colour) on a common scale; values that are 0 or not finite are left out."""
    shown = [(label, value, colour) for label, value, colour in bars if value is not None and 0 < value < np.inf]
    axis.set_title("samples needed")
    if not shown:
        say(axis, "no finite number of samples above zero")
        return
    for row, (_, value, colour) in enumerate(shown):
        axis.barh(row, value, color=colour, height=0.62)
        axis.text(value * 1.12, row, show_samples(value), va="center", fontsize=9)
    axis.set_yticks(range(len(shown)), [label for label, _, _ in shown])
    axis.set_xscale("log")
    values = [value for _, value, _ in shown]
    axis.set_xlim(min(values) / 4, max(values) * 8)
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)


def _draw_policies(axis: Any, problem: Problem, policies: PolicyClass, m: Complexity, propensities: FloatArray) -> None:
    listed = policies.lists_policies
    axis.set_title("policies: variance against gap" if listed else "worst policies: variance against gap")
    axis.set_xlabel("gap to the best policy, Δ(π)")
    axis.set_ylabel("variance of the difference, V_π")
    uniform = np.full_like(propensities, 1.0 / m.n_actions)
    highest = -1.0
    for label, p, colour in (
        ("uniform exploration", uniform, UNIFORM_COLOUR),
        ("best design", propensities, BEST_COLOUR),
    ):
        gaps, variances = _points(problem, policies, m, p)
        axis.scatter(gaps, variances, s=9, color=colour, alpha=0.55, linewidths=0, label=label)
        highest = max(highest, float(gaps.max(initial=-1.0)))
    if highest < 0:
        say(axis, "every policy acts alike")
        return
    if 0 < m.rho_upper < np.inf:
        grid = np.linspace(0, highest * 1.03 if highest > 0 else 1.0, 300)
        curve = m.rho_upper * np.maximum(grid, m.gap_epsilon) ** 2
        axis.plot(grid, curve, color="black", linewidth=1, label="ρ max(Δ, ε)²: the best design keeps below")
    axis.set_yscale("log")
    axis.legend(frameon=False, fontsize=9, loc="lower right", markerscale=2.5)
    axis.spines[["top", "right"]].set_visible(False)


def say(axis: Any, text: str) -> None:
    """Write text in place of a panel that has nothing to show."""
    axis.clear()
    axis.text(0.5, 0.5, text, ha="center", va="center", transform=axis.transAxes)
    axis.set_axis_off()


def _points(
    problem: Problem, policies: PolicyClass, m: Complexity, propensities: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (Δ, V) of every policy (or of a sample) if the class is enumerated, else of the frontier's policies."""
    contexts = problem.population
    ones = np.ones_like(propensities)
    objective = Objective(reference=m.gaps.best_actions, weights=contexts.weights, noise=ones)
    costs = objective.costs(propensities)
    if policies.lists_policies:
        table = np.asarray(policies.actions(contexts))
        table = np.ascontiguousarray(table[_evenly(len(table), most=_MAX_POLICIES_SHOWN)])
        gaps = table_gaps(table, contexts, m.gaps)[0]
        variances = sum_scores(table, np.where(np.isfinite(costs), costs, 0.0))
        lost = sum_scores(table, (~np.isfinite(costs)).astype(np.float64)) > 0
        shown = ~lost & (variances > 0)
        return gaps[shown], variances[shown]
    if policies.has_frontier:
        finite = np.where(np.isfinite(costs), costs, 0.0)
        frontier = policies.frontier(contexts, finite, -m.gaps.scores)
        # Values below half of the smallest real difference are rounding errors.
        shown = frontier.first > finite[finite > 0].min(initial=np.inf) / 2
        return -frontier.second[shown], frontier.first[shown]
    return np.empty(0), np.empty(0)


def _draw_design(figure: Any, axis: Any, problem: Problem, m: Complexity, propensities: FloatArray) -> None:
    contexts = problem.population
    order = np.lexsort((-propensities.max(axis=1), m.gaps.best_actions))
    order = order[contexts.weights[order] > 0]
    rows = order[_evenly(len(order), most=_MAX_CONTEXTS_SHOWN)]
    image = axis.imshow(propensities[rows], aspect="auto", cmap="viridis", vmin=0, interpolation="nearest")
    axis.set_title("best design: p(action | context)")
    axis.set_xlabel("action")
    axis.set_ylabel("contexts, grouped by the best policy's action")
    if m.n_actions <= 20:
        axis.set_xticks(range(m.n_actions))
    axis.set_yticks([])
    figure.colorbar(image, ax=axis, shrink=0.85)


def _evenly(count: int, *, most: int) -> IntArray:
    """Return 0 … count − 1, or at most `most` of them, evenly spaced."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


# The figure of an analysis: mean outcomes and gains with their intervals.


MAX_DRAWN_ACTIONS = 12


def draw_result(summary: Summary) -> Any:
    """Draw the mean outcome of the policy and of single actions, and the policy's gains over them."""
    if summary.worth is None:
        raise InputError("this log cannot tell how good the policy is, so that there is nothing to draw")
    worth, scale = summary.worth, 100.0 if summary.percent else 1.0
    shown = range(min(len(summary.actions), MAX_DRAWN_ACTIONS))
    names = [show_in_figure(call(action, summary.actions)) for action in shown]
    means = [("the rule", worth.value), *((f"always {name}", worth.singles[k]) for k, name in enumerate(names))]
    gains = [(f"over always {name}", worth.over_each[k]) for k, name in enumerate(names)]
    height = 1.6 + 0.42 * max(len(means), len(gains))
    figure = new_figure(12, height)
    axes = figure.subplots(1, 2)
    outcome = show_in_figure(summary.outcome)
    _draw_intervals(axes[0], means, scale=scale, highlighted=range(1))
    axes[0].set_xlabel(f"mean {outcome}" + (" (%)" if summary.percent else ""))
    _draw_intervals(axes[1], gains, scale=scale, highlighted=range(len(gains)))
    axes[1].axvline(0.0, color=GREY, linestyle="--", linewidth=1)
    axes[1].set_xlabel("gain of the rule" + (" (percentage points)" if summary.percent else f" in {outcome}"))
    figure.suptitle(show_in_figure(summary.answer()[0]), fontsize=11, wrap=True)
    return figure


def _draw_intervals(axis: Any, rows: list[tuple[str, Interval]], *, scale: float, highlighted: range) -> None:
    """Draw intervals below one another; an empty one is labelled as empty."""
    for place, (_, one) in enumerate(rows):
        colour = BEST_COLOUR if place in highlighted else GREY
        if not one.empty:
            axis.plot([scale * one.low, scale * one.high], [place, place], color=colour, linewidth=3)
        axis.plot([scale * one.estimate], [place], "o", color=colour)
        if one.empty:
            axis.annotate(
                "empty interval", (scale * one.estimate, place), (8, 0), textcoords="offset points", va="center"
            )
    axis.set_yticks(np.arange(len(rows)), [name for name, _ in rows])
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)

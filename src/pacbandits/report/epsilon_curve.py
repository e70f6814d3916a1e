"""A figure of certified ε by number of samples."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pacbandits.report.figures import BEST_COLOUR, DOTS_AN_INCH, GREY, UNIFORM_COLOUR, new_figure, save_figure, say
from pacbandits.report.numbers import show_in_figure, show_name, show_samples
from pacbandits.report.run_report import (
    CONFIDENCE_FORMULA,
    CONFIDENCE_LABEL,
    EMPTY_EPSILON,
    UNION_FORMULA,
    UNION_LABEL,
    Comparison,
    times_words,
)
from pacbandits.simulation import Run

DARK_GREY = "#5f5f5f"
# Background of labels that lines may cross.
_WORDS_BACKGROUND = {"facecolor": "white", "edgecolor": "none", "pad": 1}
_RHO_SIGMA_TEX = r"$\rho_\sigma$"
_WIDTH_DOTS = 1200


@dataclass(frozen=True, eq=False)
class _Curve:
    """The curve of a run that certifies.

    run: the run.
    samples: the number of samples at the end of each round.
    certified: the ε certified at that point.
    """

    run: Run
    samples: list[int]
    certified: list[float]

    @property
    def colour(self) -> str:
        return UNIFORM_COLOUR if self.run.algorithm == "uniform" else BEST_COLOUR


def certified_steps(run: Run) -> tuple[list[int], list[float]]:
    """Return sample counts and certified ε, one entry per round; ε is 1 if none. Empty if the run does not certify."""
    rounds = [figures for figures in run.history if "certified_epsilon" in figures]
    certified = [min(float(figures["certified_epsilon"]), EMPTY_EPSILON) for figures in rounds]
    return [int(figures["total"]) for figures in rounds], certified


def draw_certified(comparison: Comparison, *, path: Path) -> None:
    """Write the figure in the format of the path's suffix."""
    save_figure(certified_figure(comparison), path)


def certified_figure(comparison: Comparison) -> Any:
    """Return the figure of certified ε against samples for the runs that certify, with the yardsticks."""
    figure = new_figure(_WIDTH_DOTS / DOTS_AN_INCH, 5.4)
    axis = figure.subplots()
    curves = [curve for curve in (_Curve(run, *certified_steps(run)) for run in comparison.runs) if curve.samples]
    if curves:
        marks, asked = _yardstick_marks(comparison), comparison.run.epsilon
        bottom = _lowest_drawn(curves) if asked == 0 else asked  # a logarithmic axis has no 0
        if asked == 0:
            curves = [replace(one, certified=[max(epsilon, bottom) for epsilon in one.certified]) for one in curves]
        _frame(axis, curves, marks, asked=bottom)
        _draw_asked(axis, bottom, words="asked: the best itself" if asked == 0 else f"asked: ε = {asked:g}")
        _draw_yardsticks(axis, marks)
        _draw_curves(axis, curves)
        _dress(axis)
        _head(axis, comparison, lift=40 if marks else 8)
    else:
        say(axis, "nothing was certified")
    return figure


def _frame(axis: Any, curves: list[_Curve], marks: list[tuple[float, str]], *, asked: float) -> None:
    """Set logarithmic axes whose limits fit the curves and marks."""
    axis.set_xscale("log")
    axis.set_yscale("log")
    spots = [n for curve in curves for n in curve.samples] + [n for n, _ in marks]
    lowest = min([asked, *(epsilon for curve in curves for epsilon in curve.certified)])
    axis.set_xlim(min(spots) / 1.35, max(spots) * 1.9)
    axis.set_ylim(lowest / 1.9, 1.12)


def _lowest_drawn(curves: list[_Curve]) -> float:
    """Return the height at which a certified ε of 0 is drawn: half of the smallest positive one."""
    return 0.5 * min([EMPTY_EPSILON, *(one for curve in curves for one in curve.certified if one > 0)])


def _draw_asked(axis: Any, epsilon: float, *, words: str) -> None:
    axis.axhline(epsilon, color="black", linewidth=0.9)
    axis.annotate(
        words,
        (0, epsilon),
        xycoords=("axes fraction", "data"),
        xytext=(6, -5),
        textcoords="offset points",
        va="top",
        fontsize=10,
        bbox=_WORDS_BACKGROUND,
    )


def _draw_yardsticks(axis: Any, marks: list[tuple[float, str]]) -> None:
    for samples, words in marks:
        axis.axvline(samples, color=GREY, linewidth=1.2, linestyle=":")
        axis.annotate(
            words,
            (samples, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=9,
            color=DARK_GREY,
        )


def _draw_curves(axis: Any, curves: list[_Curve]) -> None:
    """Draw the first run's curve last, so that it lies above the other one."""
    low, high = axis.get_xlim()
    sides = _sides([curve.samples[-1] for curve in curves], width=math.log(high / low))
    for curve, side in reversed(list(zip(curves, sides, strict=True))):
        hidden = curve is not curves[0] and curve.certified == curves[0].certified  # drawn wider, else covered
        finished = curve.run.stopped == "done"
        end = (curve.samples[-1], curve.certified[-1])
        axis.step(curve.samples, curve.certified, where="post", color=curve.colour, linewidth=5 if hidden else 2)
        axis.plot(
            *end,
            marker="o",
            markersize=12 if hidden else 8,
            color=curve.colour,
            markerfacecolor=curve.colour if finished else "white",
            markeredgewidth=1.8,
        )
        axis.annotate(
            f"{curve.run.algorithm}{'' if finished else ', stopped early'}\n{curve.samples[-1]:,} samples",
            end,
            xytext=({"right": -6, "center": 0, "left": 6}[side], -9),
            textcoords="offset points",
            ha=side,
            va="top",
            color=curve.colour,
            fontsize=11,
            fontweight="bold",
            linespacing=1.15,
            bbox=_WORDS_BACKGROUND,
        )


def _sides(ends: list[int], *, width: float) -> list[str]:
    """Return the alignment of each end label: centred, or apart from one another if the ends are close."""
    if len(ends) < 2 or abs(math.log(ends[0] / ends[1])) > width / 5:
        return ["center"] * len(ends)
    return ["right", "left"] if ends[0] <= ends[1] else ["left", "right"]


def _head(axis: Any, comparison: Comparison, *, lift: int) -> None:
    """Write the headline and the settings of the run, `lift` points above the axes."""
    one = comparison.run
    axis.annotate(
        f"{show_in_figure(show_name(one.problem))}\nε = {one.epsilon:g}, δ = {one.delta:g}, seed {one.seed}",
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, lift),
        textcoords="offset points",
        va="bottom",
        fontsize=8.5,
        color=DARK_GREY,
    )
    axis.set_title(_headline(comparison), loc="left", fontsize=13, fontweight="bold", pad=lift + 30)


def _dress(axis: Any) -> None:
    """Format the ticks as plain numbers, label the axes, and remove needless lines."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_xlim()
    for side, steps in ((axis.xaxis, (1.0, 2.0, 5.0) if high / low < 1000 else (1.0,)), (axis.yaxis, (1.0, 2.0, 5.0))):
        side.set_major_locator(LogLocator(base=10, subs=steps))
        side.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("samples")
    axis.set_ylabel("certified ε of the policy chosen so far (1: none)")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(which="major", color="#ececec", linewidth=0.8)
    axis.set_axisbelow(True)


def _yardstick_marks(comparison: Comparison) -> list[tuple[float, str]]:
    """Return the yardsticks' numbers of samples with their labels."""
    m = comparison.measured
    if m is None:
        return []
    named = ((m.confidence_price, CONFIDENCE_LABEL, CONFIDENCE_FORMULA), (m.union_price, UNION_LABEL, UNION_FORMULA))
    return [
        (value, f"{name}\n{formula.replace('ρ_σ', _RHO_SIGMA_TEX)} = {show_samples(value)}")
        for value, name, formula in named
        if 1 <= value < math.inf
    ]


def _headline(comparison: Comparison) -> str:
    one, rival = comparison.run, comparison.against
    if any(run.certificate is not None and run.certificate.alarms for run in comparison.runs):
        return "ALARM: the data of a run speak against an assumption"
    if rival is None or comparison.times_fewer is None:
        return "Certified ε as samples come in"
    words = times_words(comparison)
    return f"{one.algorithm} takes {words} samples {'as' if words.endswith('many') else 'than'} {rival.algorithm}"

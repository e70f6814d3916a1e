"""A picture of certified ε over samples."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pacbandits.report.comparison import NOTHING_CERTIFIED, Comparison, times_words
from pacbandits.report.figures import BEST, DOTS, GREY, UNIFORM, pyplot, save_figure, say
from pacbandits.report.numbers import show_name, show_samples
from pacbandits.report.tables import CONFIDENCE, CONFIDENCE_FORMULA, UNION, UNION_FORMULA
from pacbandits.simulation import Run

DARK_GREY = "#5f5f5f"
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # behind words that lines may cross
SIGMA = r"$\rho_\sigma$"


def certified_steps(run: Run) -> tuple[list[int], list[float]]:
    """After how many samples which ε was certified, a round an entry; 1 for none. Empty where no one certifies."""
    rounds = [figures for figures in run.history if "certified_epsilon" in figures]
    certified = [min(float(figures["certified_epsilon"]), NOTHING_CERTIFIED) for figures in rounds]
    return [int(figures["total"]) for figures in rounds], certified


def draw_certified(comparison: Comparison, *, path: Path) -> None:
    """Certified ε over samples for the runs that certify, down to where each stops, with the yardsticks."""
    plt = pyplot()
    figure: Any
    axis: Any
    figure, axis = plt.subplots(figsize=(1200 / DOTS, 5.4), layout="constrained")
    one = comparison.run
    curves = [
        (run, *certified_steps(run), UNIFORM if run.algorithm == "uniform" else BEST)
        for run in comparison.runs
        if certified_steps(run)[0]
    ]
    if not curves:
        say(axis, "nothing was certified")
        save_figure(figure, path)
        return
    axis.set_xscale("log")
    axis.set_yscale("log")
    marks = _yardstick_marks(comparison)
    spots = [n for _, samples, _, _ in curves for n in samples] + [n for n, _ in marks]
    lowest = min([one.epsilon, *(e for _, _, certified, _ in curves for e in certified)])
    low, high = min(spots) / 1.35, max(spots) * 1.9
    axis.set_xlim(low, high)
    axis.set_ylim(lowest / 1.9, 1.12)
    axis.axhline(one.epsilon, color="black", linewidth=0.9)
    axis.annotate(
        f"asked: ε = {one.epsilon:g}",
        (0, one.epsilon),
        xycoords=("axes fraction", "data"),
        xytext=(6, -5),
        textcoords="offset points",
        va="top",
        fontsize=10,
        bbox=PAPER,
    )
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
    sides = _sides([samples[-1] for _, samples, _, _ in curves], width=math.log(high / low))
    for (run, samples, certified, colour), side in reversed(list(zip(curves, sides, strict=True))):
        hidden = run is not curves[0][0] and certified == curves[0][2]  # seen only if it is the wider
        axis.step(samples, certified, where="post", color=colour, linewidth=5 if hidden else 2)
        finished = run.stopped == "done"
        axis.plot(
            samples[-1],
            certified[-1],
            marker="o",
            markersize=12 if hidden else 8,
            color=colour,
            markerfacecolor=colour if finished else "white",
            markeredgewidth=1.8,
        )
        axis.annotate(
            f"{run.algorithm}{'' if finished else ', stopped early'}\n{samples[-1]:,} samples",
            (samples[-1], certified[-1]),
            xytext=({"right": -6, "center": 0, "left": 6}[side], -9),
            textcoords="offset points",
            ha=side,
            va="top",
            color=colour,
            fontsize=11,
            fontweight="bold",
            linespacing=1.15,
            bbox=PAPER,
        )
    _dress(axis)
    lift = 40 if marks else 8
    axis.annotate(
        f"{show_name(one.problem)}\nε = {one.epsilon:g}, δ = {one.delta:g}, seed {one.seed}",
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, lift),
        textcoords="offset points",
        va="bottom",
        fontsize=8.5,
        color=DARK_GREY,
    )
    axis.set_title(_headline(comparison), loc="left", fontsize=13, fontweight="bold", pad=lift + 30)
    save_figure(figure, path)


def _sides(ends: list[int], *, width: float) -> list[str]:
    """How to align the labels of the curves' ends: below them, or away from one another where they are close."""
    if len(ends) < 2 or abs(math.log(ends[0] / ends[1])) > width / 5:
        return ["center"] * len(ends)
    return ["right", "left"] if ends[0] <= ends[1] else ["left", "right"]


def _dress(axis: Any) -> None:
    """Plain numbers on logarithmic axes, and nothing that is not needed."""
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
    """Where on the axis of samples the yardsticks stand, and what to call them."""
    m = comparison.measured
    if m is None:
        return []
    named = ((m.confidence_price, CONFIDENCE, CONFIDENCE_FORMULA), (m.union_price, UNION, UNION_FORMULA))
    return [
        (value, f"{name}\n{formula.replace('ρ_σ', SIGMA)} = {show_samples(value)}")
        for value, name, formula in named
        if 1 <= value < math.inf
    ]


def _headline(comparison: Comparison) -> str:
    one, rival = comparison.run, comparison.against
    if rival is None or comparison.times_fewer is None:
        return "Certified ε as samples come in"
    words = times_words(comparison)
    return f"{one.algorithm} takes {words} samples {'as' if words.endswith('many') else 'than'} {rival.algorithm}"

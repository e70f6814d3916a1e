"""Figures of a benchmark: the stopping time of each algorithm, and the reward it loses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.benchmark.cases import Row
from pacbandits.benchmark.results import CaseFacts
from pacbandits.benchmark.standings import (
    BASELINE,
    OURS,
    CaseStanding,
    IntervalEstimate,
    Line,
    Score,
    Yardstick,
    mean_interval,
    regret_curve,
)
from pacbandits.report.figures import BEST_COLOUR, GREY, UNIFORM_COLOUR, new_figure, say
from pacbandits.report.numbers import show_count, show_in_figure

OTHERS = ("#3a7d44", "#93304e", "#7a4f9e", "#a8881a", "#0f8b8d", "#c2185b", "#5d4037", "#455a64", "#689f38", "#b35c00")
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
BEYOND_SHARE = 1.22  # times `most`: the position of marks for values beyond it
CURVE_POINTS = 120
LINE_INCHES = 0.29
TITLES: dict[Yardstick, str] = {"certified": "until it is proven", "oracle": "until it is right"}


def case_figure(one: CaseStanding, *, rows: Sequence[Row], facts: CaseFacts | None) -> Any:
    """Return the figure of a case: certified stopping, oracle stopping, and reward lost over interactions.

    rows: the rows of the case.
    """
    lines = one.lines(one.yardstick)
    yardsticks: tuple[Yardstick, ...] = ("certified", "oracle") if one.row.certified else ("oracle",)
    height = 1.45 + LINE_INCHES * max(len(lines), 7)
    figure = new_figure(5.0 + 3.9 * len(yardsticks), height)
    axes = figure.subplots(1, len(yardsticks) + 1, width_ratios=[1.0] * len(yardsticks) + [1.15])
    bound = None if facts is None else facts.lower_bound
    for axis, yardstick in zip(axes, yardsticks, strict=False):
        _draw_stopping(axis, one, lines, yardstick, bound=bound, named=yardstick == yardsticks[0])
    _draw_lost(axes[-1], one, lines, rows)
    figure.suptitle(
        f"{show_in_figure(one.case)}: within {one.row.epsilon:g} of the best, but for probability {one.row.delta:g}",
        fontsize=11,
        x=0.01,
        ha="left",
    )
    return figure


def colour_of(entry: str, place: int) -> str:
    """Return the colour of an algorithm; place: its position among all but ours and the baseline."""
    if entry == OURS:
        return BEST_COLOUR
    return UNIFORM_COLOUR if entry == BASELINE else OTHERS[place % len(OTHERS)]


def _styles(one: CaseStanding) -> dict[str, tuple[str, Any]]:
    """Return the colour and dashes of each algorithm, the same in every order of a figure."""
    names = sorted({score.entry for score in one.scores} - {OURS, BASELINE})
    places = {name: place for place, name in enumerate(names)}
    styles: dict[str, tuple[str, Any]] = {name: (colour_of(name, 0), "-") for name in (OURS, BASELINE)}
    return styles | {
        name: (colour_of(name, at), DASHES[at // len(OTHERS) % len(DASHES)]) for name, at in places.items()
    }


def _draw_stopping(
    axis: Any, one: CaseStanding, lines: Sequence[Line], yardstick: Yardstick, *, bound: float | None, named: bool
) -> None:
    """Draw a dot with an interval for each algorithm with its best options; a ring for its default ones."""
    styles, most = _styles(one), one.row.most
    for place, line in enumerate(lines):
        own = one.line(line.entry, yardstick)
        assert own is not None
        colour = styles[line.entry][0]
        if own.default is not None and own.default is not own.best:
            _mark(axis, _samples(own.default, yardstick), place, colour=colour, most=most, hollow=True)
        _mark(axis, _samples(own.best, yardstick), place, colour=colour, most=most, hollow=False)
    if bound is not None and 1 <= bound < math.inf:
        axis.axvline(bound, color="black", lw=1.1, ls=":", zorder=0)
        words = f"lower bound of any proof: {show_count(math.ceil(bound), most=most)}"
        axis.annotate(
            words, (bound, 1), xycoords=("data", "axes fraction"), xytext=(4, -3), textcoords="offset points",
            va="top", fontsize=8, color="#444444", bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip
    if any(not math.isfinite(_samples(line.best, yardstick).high) for line in lines):
        axis.axvline(most, color=GREY, lw=0.8, zorder=0)
        axis.axvspan(most, most * BEYOND_SHARE * 1.25, color="#f3f3f3", zorder=-1, lw=0)
    axis.set_yticks(range(len(lines)), [show_in_figure(line.entry) for line in lines] if named else [""] * len(lines))
    for label, line in zip(axis.get_yticklabels(), lines, strict=True):
        label.set_fontweight("bold" if line.entry == OURS else "normal")
    axis.set_ylim(len(lines) - 0.4, -1.0)
    axis.set_title(f"Interactions {TITLES[yardstick]}", fontsize=10, loc="left")
    _logarithmic(axis)
    axis.set_xlabel(
        "median, 90 % interval" if yardstick == "certified" else "1 − δ of the seeds, 90 % interval", fontsize=9
    )
    axis.grid(axis="y", color="#eeeeee", lw=0.8)
    axis.tick_params(axis="y", length=0)


def _samples(score: Score, yardstick: Yardstick) -> IntervalEstimate:
    if yardstick == "oracle" or score.certified is None:
        return score.oracle.samples
    return score.certified.samples


def _mark(axis: Any, found: IntervalEstimate, place: int, *, colour: str, most: int, hollow: bool) -> None:
    """Draw a dot with its interval, or a triangle if it lies beyond the budget."""
    beyond = most * BEYOND_SHARE
    known = found.low > 0 or math.isfinite(found.high)
    at, low, high = (x if math.isfinite(x) else beyond for x in (found.value, found.low, found.high))
    if known and not hollow and low < high:
        axis.plot([low, high], [place, place], color=colour, lw=2.4, alpha=0.45, solid_capstyle="butt")
    shape = "o" if math.isfinite(found.value) else ">"
    axis.plot([at], [place], shape, ms=7, mfc="white" if hollow else colour, mec=colour, mew=1.5)


def _draw_lost(axis: Any, one: CaseStanding, lines: Sequence[Line], rows: Sequence[Row]) -> None:
    """Draw the mean reward lost over interactions with published defaults; bands are 90 % intervals."""
    from matplotlib.ticker import FuncFormatter

    styles, ends = _styles(one), [row.points[-1] for row in rows if row.points]
    axis.set_title("Reward lost, published defaults", fontsize=10, loc="left")
    if not ends:
        say(axis, "nothing was played")
        return
    counts = np.geomspace(10, max(11, *ends), CURVE_POINTS)
    drawn = False
    for line in reversed(lines):
        score = line.default or line.best
        played = [row for row in rows if row.algorithm == score.spec and row.points]
        if not played:
            continue
        lost = np.array([regret_curve(row, counts) for row in played])
        drawn = drawn or bool((lost > 0).any())
        _curve(
            axis,
            counts,
            lost,
            played,
            style=styles[line.entry],
            label=show_in_figure(line.entry),
            ours=line.entry == OURS,
        )
    if not drawn:
        say(axis, "nothing was lost")
        return
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.set_ylim(max(low, high / 1e5), high)
    axis.yaxis.set_major_formatter(FuncFormatter(_short))
    _logarithmic(axis)
    axis.set_xlabel("interactions; dot: half of the runs are done", fontsize=9)
    axis.legend(
        fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5), reverse=True, handlelength=2.4
    )
    axis.grid(color="#eeeeee", lw=0.8)


def _curve(
    axis: Any,
    counts: FloatArray,
    lost: FloatArray,
    played: Sequence[Row],
    *,
    style: tuple[str, Any],
    label: str,
    ours: bool,
) -> None:
    """Draw a curve; thinner and without a band once more than half of the runs are done and play their answer."""
    colour, dashes = style
    mean: FloatArray = lost.mean(axis=0)
    half = float(np.median([row.points[-1] for row in played]))
    shown = mean > 0
    playing = shown & (counts <= half)
    axis.plot(counts[shown], mean[shown], color=colour, lw=0.8, ls=dashes, alpha=0.8)
    axis.plot(counts[playing], mean[playing], color=colour, lw=2.6 if ours else 1.7, ls=dashes, label=label)
    if len(lost) > 1:
        ends = [mean_interval(lost[:, at].tolist()) for at in np.flatnonzero(playing)]
        low = [max(one.low, 0.0) for one in ends]
        axis.fill_between(counts[playing], low, [one.high for one in ends], color=colour, alpha=0.13, lw=0)
    at = float(np.interp(half, counts, mean))
    if at > 0:
        axis.plot([half], [at], "o", color=colour, ms=4.5)


def _logarithmic(axis: Any) -> None:
    """Set a logarithmic axis of counts with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_xscale("log")
    low, high = axis.get_xlim()
    steps = (1.0, 2.0, 5.0) if high / low < 60 else (1.0,)
    axis.xaxis.set_major_locator(LogLocator(base=10, subs=steps))
    axis.xaxis.set_major_formatter(FuncFormatter(_short))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.tick_params(labelsize=8.5)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_axisbelow(True)


def _short(value: float, _: object = None) -> str:
    """Return a count in few characters: 500, 20k, 3M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"

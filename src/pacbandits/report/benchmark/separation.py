"""Tables and a figure of the paper's separation, from logged results alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pacbandits.benchmark.cases import Row
from pacbandits.benchmark.separation import SHAPES, Separation, SeparationCurve, SeparationPoint, Shape, separations
from pacbandits.benchmark.standings import BASELINE, OURS, IntervalEstimate
from pacbandits.report.benchmark.figures import colour_of
from pacbandits.report.benchmark.report import Chapter
from pacbandits.report.benchmark.tables import NONE, result_table
from pacbandits.report.document import Table
from pacbandits.report.figures import GREY, new_figure
from pacbandits.report.numbers import show_count, show_in_figure

MARKERS = ("s", "^", "v", "D", "P", "X", "<", ">", "p", "h")
LINE_POINTS = 60
WORDS = {"right": "", "proven": ", proven"}
FIGURE_WORDS = "interactions and reward lost until the best policy is found, against m, with lower bounds"


def separation_chapters(rows: Sequence[Row]) -> tuple[Chapter, ...]:
    """Return the separation as a chapter of the report; none if it was not run."""
    tables = separation_tables(rows)
    if not tables:
        return ()
    figures = tuple((figure, FIGURE_WORDS) for figure in separation_figures(rows))
    return (Chapter("The paper's separation, seen", tables, figures),)


def separation_tables(rows: Sequence[Row]) -> tuple[Table, ...]:
    """Return, for each family of hard instances, the interactions of each algorithm and their growth with m."""
    return tuple(table for one in separations(rows) for table in (samples_table(one), growth_table(one)))


def separation_figures(rows: Sequence[Row]) -> tuple[Any, ...]:
    """Return a figure for each family of hard instances that was run."""
    return tuple(draw_separation(one) for one in separations(rows))


def samples_table(one: Separation) -> Table:
    """Return interactions by m, and the lower bounds."""
    lines = [(_name(curve), *(_samples(curve, m) for m in one.sizes)) for curve in one.curves]
    family = one.family
    low = ("at least, regret √(2n log m)", *(show_count(family.low_regret_bound(m), most=0) for m in one.sizes))
    all_ = ("at least, any algorithm", *(show_count(family.lower_bound(m), most=0) for m in one.sizes))
    return result_table(
        f"The hard instance, {family.words}: interactions by m",
        ("algorithm", *(f"{m:,}" for m in one.sizes)),
        (*lines, low, all_),
        f"Until {100 * (1 - family.delta):g} % of the seeds hold the best policy; “proven”: until it is, the median "
        "over seeds. The bounds are on the mean of a stopping time, of whoever is right but for "
        f"{family.delta:g} on every such instance: they know when to stop, which oracle stopping is told.",
    )


def growth_table(one: Separation) -> Table:
    """Return the slopes and shapes of the growth with m."""
    head = ("algorithm", "slope of log n", *(f"c · {shape}" for shape in SHAPES), "slope of log lost")
    like = ("a curve of that shape", NONE, *(f"slope {one.shape_slope(shape):.2f}" for shape in SHAPES), NONE)
    lines = [
        (
            _name(curve),
            _slope(curve.slope),
            *(_fit(curve, shape) for shape in SHAPES),
            NONE if math.isnan(curve.lost_slope) else f"{curve.lost_slope:.2f}",
        )
        for curve in one.curves
    ]
    return result_table(
        f"The hard instance, {one.family.words}: growth with m",
        head,
        (*lines, like),
        "Least squares of log n over log m, 90 % interval by a bootstrap over seeds. A fitted c, and in brackets the "
        "factor by which the shape misses what was measured, typically. Lost: reward against the best policy, until "
        "then; every algorithm must lose an amount that grows like m.",
    )


def draw_separation(one: Separation) -> Any:
    """Return the figure: interactions and reward lost over m, both logarithmic, with the bounds."""
    figure = new_figure(13.6, 5.2)
    axes = figure.subplots(1, 2)
    names = sorted({curve.entry for curve in one.curves} - {OURS, BASELINE})
    places = {name: place for place, name in enumerate(names)}
    for curve in one.curves:
        place = places.get(curve.entry, 0)
        marker = MARKERS[place % len(MARKERS)] if curve.entry in places else "o"
        colour = colour_of(curve.entry, place)
        _draw_curve(axes[0], curve, colour=colour, marker=marker, value=lambda point: point.samples)
        _draw_beyond(axes[0], curve)
        if curve.until == "right":
            _draw_curve(axes[1], curve, colour=colour, marker=marker, value=_lost)
    sizes = np.unique(np.geomspace(one.sizes[0], one.sizes[-1], LINE_POINTS).round()).astype(np.int64)
    family = one.family
    bounds: tuple[tuple[Any, Callable[[int], float], str, Any], ...] = (
        (axes[0], family.low_regret_bound, "at least, regret √(2n log m)", "--"),
        (axes[0], family.lower_bound, "at least, any algorithm", ":"),
        (axes[1], family.least_regret, "at least, any algorithm", ":"),
    )
    for axis, bound, label, dashes in bounds:
        axis.plot(sizes, [bound(int(m)) for m in sizes], color="black", lw=1.3, ls=dashes, label=label, zorder=1)
    axes[0].set_title(
        f"Interactions until {100 * (1 - family.delta):g} % of the seeds are right", fontsize=10, loc="left"
    )
    axes[1].set_title("Reward lost until then", fontsize=10, loc="left")
    for axis in axes:
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(one.sizes, [f"{m:,}" for m in one.sizes])
        axis.minorticks_off()
        axis.set_xlabel("m: contexts, and policies")
        axis.grid(color="#eeeeee", lw=0.8)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    _draw_legend(figure, axes[0], one)
    figure.suptitle(
        f"The hard instance: {show_in_figure(family.words)}, δ = {family.delta:g}", fontsize=11, x=0.01, ha="left"
    )
    return figure


def _draw_legend(figure: Any, axis: Any, one: Separation) -> None:
    """Draw the legend beside the panels, the steepest curve first, then the bounds."""
    known = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    steepest = sorted(one.curves, key=lambda curve: -np.nan_to_num(curve.slope.value, nan=-1.0))
    labels = list(dict.fromkeys([*map(_legend, steepest), *known]))
    figure.legend(
        [known[label] for label in labels],
        labels,
        frameon=False,
        fontsize=9,
        loc="outside right upper",
        title="slope of log n over log m",
        title_fontsize=9,
        alignment="left",
    )


def _draw_curve(
    axis: Any, curve: SeparationCurve, *, colour: str, marker: str, value: Callable[[SeparationPoint], IntervalEstimate]
) -> None:
    """Draw points with intervals and the fitted power law."""
    proven, ours = curve.until == "proven", curve.entry == OURS
    found = [(point.m, value(point)) for point in curve.reached]
    m = np.array([size for size, _ in found], dtype=np.float64)
    n = np.array([one.value for _, one in found])
    style = {"color": colour, "mfc": "white" if proven else colour, "mec": colour, "ms": 6.5 if ours else 5.5}
    axis.plot(m, n, marker, ls="none", zorder=4 if ours else 3, label=_legend(curve), **style)
    for size, one in found:
        low, high = max(one.low, 1.0), min(one.high, 10.0 * one.value)
        if low < high:
            axis.plot([size, size], [low, high], color=colour, lw=2.2, alpha=0.35, solid_capstyle="butt", zorder=2)
    if len(m) > 1 and (n > 0).all():
        power = np.polyfit(np.log(m), np.log(n), 1)
        ends = np.array([m[0], m[-1]])
        fitted = np.exp(np.polyval(power, np.log(ends)))
        axis.plot(ends, fitted, color=colour, lw=2.0 if ours else 1.2, ls="--" if proven else "-", zorder=2)


def _draw_beyond(axis: Any, curve: SeparationCurve) -> None:
    """Draw a mark at the budget for each m at which an algorithm does not finish."""
    beyond = [point for point in curve.points if point not in curve.reached]
    axis.plot([point.m for point in beyond], [point.most for point in beyond], "2", color=GREY, ms=9, zorder=1)


def _lost(point: SeparationPoint) -> IntervalEstimate:
    return IntervalEstimate(point.lost, point.lost, point.lost)


def _legend(curve: SeparationCurve) -> str:
    slope = "" if math.isnan(curve.slope.value) else f"  {curve.slope.value:.2f}"
    return show_in_figure(_name(curve)) + slope


def _name(curve: SeparationCurve) -> str:
    return curve.algorithm + WORDS[curve.until]


def _samples(curve: SeparationCurve, m: int) -> str:
    found = next((point for point in curve.points if point.m == m), None)
    return NONE if found is None else show_count(found.samples.value, most=found.most)


def _slope(slope: IntervalEstimate) -> str:
    return NONE if math.isnan(slope.value) else f"{slope.value:.2f} ({slope.low:.2f}–{slope.high:.2f})"


def _fit(curve: SeparationCurve, shape: Shape) -> str:
    if shape not in curve.fits:
        return NONE
    fit = curve.fits[shape]
    return f"{fit.constant:.3g} (× {fit.misses:.2f})" + (" ◂" if shape == curve.nearest_shape else "")

"""The picture of an analysis: mean outcomes and gains with their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.certificate.worth import Interval
from pacbandits.errors import InputError
from pacbandits.records.naming import call
from pacbandits.report.figures import BEST_COLOUR, GREY, pyplot
from pacbandits.report.numbers import show_in_figure
from pacbandits.report.summary import Summary

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
    plt = pyplot()
    figure: Any
    axes: Any
    height = 1.6 + 0.42 * max(len(means), len(gains))
    figure, axes = plt.subplots(1, 2, figsize=(12, height), layout="constrained")
    outcome = show_in_figure(summary.outcome)
    _draw_intervals(axes[0], means, scale=scale, highlighted=range(1))
    axes[0].set_xlabel(f"mean {outcome}" + (" (%)" if summary.percent else ""))
    _draw_intervals(axes[1], gains, scale=scale, highlighted=range(len(gains)))
    axes[1].axvline(0.0, color=GREY, linestyle="--", linewidth=1)
    axes[1].set_xlabel("gain of the rule" + (" (percentage points)" if summary.percent else f" in {outcome}"))
    figure.suptitle(show_in_figure(summary.answer()[0]), fontsize=11, wrap=True)
    return figure


def _draw_intervals(axis: Any, rows: list[tuple[str, Interval]], *, scale: float, highlighted: range) -> None:
    """Draw intervals below one another; an empty one is said to be empty."""
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

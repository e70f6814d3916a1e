"""Two runs side by side, and what theory asks for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pacbandits.complexity import Complexity
from pacbandits.report.document import Block, Cell, Document, Note, Table, Text
from pacbandits.report.numbers import show_number
from pacbandits.report.tables import NARROW_WIDTHS, yardstick_table
from pacbandits.simulation import Run

YARDSTICKS = ("lower_bound", "confidence_price", "union_price")
# Ratios of samples nearer to 1 than this are not spoken of.
_MIN_TOLD_RATIO = 1.05
# No gap is larger than this ε, and so it certifies nothing.
EMPTY_EPSILON = 1.0


@dataclass(frozen=True, eq=False)
class Comparison:
    """A run, its rival if there is one, and the problem as measured.

    run: the run.
    against: its rival.
    measured: what the problem costs.
    unmeasured: why `measured` is None.
    compiled: whether the first run had kernels to compile.
    """

    run: Run
    against: Run | None = None
    measured: Complexity | None = None
    unmeasured: str = ""
    compiled: bool = False

    @property
    def runs(self) -> tuple[Run, ...]:
        """The run and its rival."""
        return (self.run,) if self.against is None else (self.run, self.against)

    @property
    def times_fewer(self) -> float | None:
        """By what factor the run took fewer samples than its rival; None unless both ended by themselves."""
        rival = self.against
        if rival is None or min(self.run.samples, rival.samples) == 0:
            return None
        return rival.samples / self.run.samples if self.run.stopped == rival.stopped == "done" else None

    def to_json(self) -> dict[str, Any]:
        """Both runs, their ratio, and the yardsticks with the reasons for those that cannot be had."""
        if self.measured is None:
            yardsticks: dict[str, Any] = {
                **dict.fromkeys(YARDSTICKS),
                "notes": dict.fromkeys(YARDSTICKS, self.unmeasured),
            }
        else:
            whole = self.measured.to_json()
            notes = {name: self.measured.notes[name] for name in YARDSTICKS if name in self.measured.notes}
            yardsticks = {name: whole[name] for name in YARDSTICKS} | {"notes": notes}
        return {
            "run": self.run.to_json(),
            "against": None if self.against is None else self.against.to_json(),
            "times_fewer": self.times_fewer,
            "yardsticks": yardsticks,
        }


def comparison_document(comparison: Comparison) -> Document:
    """Return both runs side by side, then the yardsticks."""
    blocks: list[Block] = []
    if comparison.against is not None:
        blocks += _side_by_side(comparison, comparison.against)
    if comparison.measured is not None:
        blocks.append(yardstick_table(comparison.measured))
    elif comparison.unmeasured:
        blocks.append(Text(f"no yardsticks: {comparison.unmeasured}", "dim"))
    return Document("", tuple(blocks))


def _side_by_side(comparison: Comparison, rival: Run) -> Iterable[Block]:
    one = comparison.run
    compiling = f"{one.algorithm}'s include compiling, once" if comparison.compiled else ""
    rows: tuple[tuple[str | Cell, ...], ...] = (
        ("samples", f"{one.samples:,}", f"{rival.samples:,}", Cell(times_words(comparison), "chosen")),
        ("rounds", f"{one.rounds:,}", f"{rival.rounds:,}"),
        ("certified ε", _certified(one), _certified(rival)),
        ("truly below the best by", _two_digits(one.value_gap), _two_digits(rival.value_gap)),
        ("right", *(Cell("yes") if run.correct else Cell("no", "warning") for run in (one, rival))),
        ("seconds", f"{one.seconds:.1f}", f"{rival.seconds:.1f}", Cell(compiling, "dim")),
    )
    title, head = f"{one.algorithm} against {rival.algorithm}", ("", one.algorithm, rival.algorithm, "")
    sides = ("left", "right", "right", "left")
    yield Table(head, rows, title=title, sides=sides, widths=(NARROW_WIDTHS[0], NARROW_WIDTHS[1], NARROW_WIDTHS[1]))
    for run in (one, rival):
        if run.reason:
            yield Note("warning", f"{run.algorithm} stopped early ({run.stopped}): {run.reason}")


def times_words(comparison: Comparison) -> str:
    """The ratio of samples, from the point of view of the run; nothing where there is no ratio."""
    ratio = comparison.times_fewer
    if ratio is None:
        return ""
    if abs(math.log(ratio)) < math.log(_MIN_TOLD_RATIO):
        played = {run.algorithm for run in comparison.runs}
        alike = "as many: no design was worth it" if played == {"coda", "uniform"} else "as many"
        return alike if ratio == 1 else "about as many"
    return f"{_two_digits(ratio)} times fewer" if ratio > 1 else f"{_two_digits(1 / ratio)} times more"


def _two_digits(value: float) -> str:
    return show_number(value, digits=2)


def _certified(run: Run) -> str:
    made = run.certificate
    return "—" if made is None or made.certified_epsilon >= EMPTY_EPSILON else f"{made.certified_epsilon:.3g}"

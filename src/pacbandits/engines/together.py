"""Several questions in one pass over the rows: reading them is what takes longest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from pacbandits.engines.base import Aggregation, Engine, Source, Sums
from pacbandits.records import Log


@dataclass(frozen=True, eq=False)
class Together:
    """Questions that are asked together.

    questions: these.
    lengths: how many arrays each adds to.
    """

    questions: tuple[Aggregation, ...]
    lengths: tuple[int, ...]

    def begin(self) -> Sums:
        return tuple(array for question in self.questions for array in question.begin())

    def add(self, number: int, block: Log, sums: Sums) -> None:
        for question, own in zip(self.questions, self.split(sums), strict=True):
            question.add(number, block, own)

    def split(self, sums: Sums) -> list[Sums]:
        """The sums of each question."""
        ends = list(accumulate(self.lengths, initial=0))
        return [sums[start:end] for start, end in pairwise(ends)]


def ask_together(engine: Engine, source: Source, questions: Sequence[Aggregation], *, what: str) -> list[Sums]:
    """The sums of several questions, in one pass."""
    asked = Together(tuple(questions), tuple(len(question.begin()) for question in questions))
    return asked.split(engine.ask(source, asked, what=what))

"""Facts about all rows of a table, for code that has only some of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pacbandits.records.identifiers import Counts


@dataclass(frozen=True)
class Whole:
    """Facts from a survey of all rows on which the treatment of columns depends.

    rows: how many there are.
    counted: how many values columns have that may be identifiers.
    clocks: the columns of dates or times in whose order the rows stand.
    clipped: how many rewards lie below the range, and how many above, where they are clipped.
    """

    rows: int
    counted: Mapping[str, Counts]
    clocks: frozenset[str]
    clipped: tuple[int, int]

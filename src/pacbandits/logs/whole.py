"""What is known of all rows of a table of which only some are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pacbandits.records.identifiers import Counts


@dataclass(frozen=True)
class Whole:
    """What was seen of a table while it went by, where what becomes of a column depends on all of its rows.

    rows: how many there are.
    counted: how many values columns have that may be identifiers.
    clocks: the columns of dates or times in whose order the rows stand.
    clipped: how many rewards lie below the range, and how many above, where they are clipped.
    """

    rows: int
    counted: Mapping[str, Counts]
    clocks: frozenset[str]
    clipped: tuple[int, int]

"""Remarks of a log on the order and the draw of its rows, by which it is certified and tested for drift."""

from __future__ import annotations

from collections.abc import Sequence

from pacbandits.errors import InputError

NO_ORDER = "the order of the rows in the file means nothing"
BY_BLOCK = "everybody was given an action at random, with the probabilities of their block"
COUNTED = "each action was given to as many "  # the start of both
COUNTED_ROWS = f"{COUNTED}rows of each block as the log counts, every arrangement equally likely"
COUNTED_UNITS = f"{COUNTED}units of each block as the log counts, every arrangement equally likely"


def says(remarks: Sequence[str], words: str) -> bool:
    """Return whether one of a log's remarks begins with these words."""
    return any(one.startswith(words) for one in remarks)


def stands_in_order(remarks: Sequence[str], *, ordered: bool, shuffle: bool) -> bool:
    """Return whether rows count in the order in which they stand; raise InputError if the remarks contradict that.

    ordered: whether they are said to stand in the order in which they occurred. shuffle: whether any order will do.
    """
    if ordered and says(remarks, COUNTED):
        raise InputError("rows of counted blocks are read in a random order; leave out --ordered")
    if ordered and shuffle:
        raise InputError("rows that stand in the order in which they occurred need no shuffle; leave one of them out")
    if ordered and says(remarks, NO_ORDER):
        raise InputError("--order none says that the order of rows means nothing; leave it out, or --ordered")
    return ordered

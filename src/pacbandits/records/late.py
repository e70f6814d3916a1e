"""Delayed and missing rewards: when each was known, and the log as it stood at a given round.

Rows stand in the order of assignment, whenever their rewards came. `known` (n,) is the first round before which the
reward of a row was in, -1 where it is not in yet: so 0 ≤ known ≤ t are the rows whose rewards whoever planned round t
could use, and no others. A log without it is one all of whose rewards of a round were in before the next began.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, IntArray, check_shape, integers
from pacbandits.errors import ROW, InputError, RowError, count_of, plain
from pacbandits.fields import Fields
from pacbandits.records.arrow import Columns
from pacbandits.records.columns import pop_numbers_or_missing

KNOWN_COLUMN = "known"  # of our own files, which say so, as others may have a feature of this name
NOT_IN = -1
KNOWN_REMARK = "each reward was known from the round on that the log says, and not before"


def check_known(known: ArrayLike, *, rewards: FloatArray, rounds: IntArray, repeats: IntArray) -> IntArray:
    """From which round on each reward was known (n,), -1 where it is not in; rewards are NaN there and nowhere else."""
    given = np.asarray(known)
    check_shape(given, name="known", shape=rewards.shape)
    if (numbers := given.dtype.kind in "iuf") and (low := np.flatnonzero(given < NOT_IN)).size:
        row = int(low[0])
        raise RowError(f"known must be a round, or -1 where a reward is not in; got {given[row]} in {ROW}", row)
    # Shifted by one, as what is checked there starts at 0.
    shifted = given.astype(np.float64 if given.dtype.kind == "f" else np.int64) + 1 if numbers else given
    out = integers(shifted, name="known", shape=rewards.shape) - 1
    out.setflags(write=False)
    if repeats.max() > 1:
        raise InputError(
            f"row {int(repeats.argmax())} counts {repeats.max():,} interactions, whose rewards may each have come at "
            "another time; where rewards come late, each row stands for one interaction: leave out repeats, or known"
        )
    missing = np.isnan(rewards)
    if (bad := np.flatnonzero(missing != (out == NOT_IN))).size:
        row = int(bad[0])
        words = (
            f"{ROW} has no reward, but says that one was known before round {out[row]}; its known must be -1"
            if missing[row]
            else f"{ROW} has a reward, but its known is -1, as if it were not in; say before which round it was, or "
            "leave the reward out (NaN)"
        )
        raise RowError(words, row)
    if (bad := np.flatnonzero(~missing & (out <= rounds))).size:
        row = int(bad[0])
        words = f"the reward of {ROW}, of round {rounds[row]}, cannot have been known before round {out[row]} began"
        raise RowError(f"{words}; known must be a later round than that of the row", row)
    return out


def known_or_rounds(known: IntArray | None, rounds: IntArray) -> IntArray:
    """From which round on each reward was known (n,): where a log does not tell, from the round after its own."""
    return rounds + 1 if known is None else known


def joined_known(mine: IntArray | None, theirs: IntArray | None, rounds: tuple[IntArray, IntArray]) -> IntArray | None:
    """The same of two logs, one after the other; rounds: of their rows."""
    if mine is None and theirs is None:
        return None
    return np.concatenate([known_or_rounds(mine, rounds[0]), known_or_rounds(theirs, rounds[1])])


def known_column(about: Fields) -> str | None:
    """The column that tells from which round on rewards were known, as far as a file says so beside its columns."""
    return about.text("known") if "known" in about else None


def pop_known(table: Columns, column: str | None) -> IntArray | None:
    """Take that column out (n,); it is checked with the rest of its log."""
    if column is None:
        return None
    if column not in table:
        raise InputError(f"the file says that '{plain(column)}' tells when rewards were known, and has no such column")
    numbers = pop_numbers_or_missing(table, column)
    if np.isnan(numbers).any() or (numbers != np.floor(numbers)).any():
        raise InputError(f"column '{plain(column)}' must hold rounds, or -1 where a reward is not in")
    return np.asarray(numbers, dtype=np.int64)


def late_words(known: IntArray | None) -> tuple[str, ...]:
    """What claims have to say of a log whose rewards come late; nothing where they do not."""
    if known is None:
        return ()
    out = int((known == NOT_IN).sum())
    if out == 0:
        return (KNOWN_REMARK,)
    verb = "is" if out == 1 else "are"
    words = f"{count_of(out, 'reward')} of {len(known):,} {verb} not in, and counted at the worst for the claim"
    return (KNOWN_REMARK, f"{words}: nothing is assumed of why")


def check_all_in(rewards: FloatArray, *, by: str) -> None:
    """Raise where a reward (n,) is not in; by: who cannot do without."""
    if (out := int(np.isnan(rewards).sum())) > 0:
        raise InputError(
            f"{count_of(out, 'reward')} of {len(rewards):,} not in yet, and {by} needs all of them; wait until they "
            "are, or take the first rounds whose rewards are (log.only(…))"
        )


def as_known(rewards: FloatArray, known: IntArray, *, before: int) -> tuple[FloatArray, IntArray]:
    """Rewards (n,) and when they were known, as they stood when the round of this number began."""
    later: BoolArray = known > before
    return np.where(later, np.nan, rewards), np.where(later, NOT_IN, known)

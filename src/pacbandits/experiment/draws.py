"""The random numbers of assignments: two uniforms each, for the holdout and for the action, from the sealed seed.

By unit (protocols say `"draws": "unit"`), they are keyed hashes of the unit's mark and visit under the seed. So what a
unit would get from a design depends neither on when it is asked for nor on who else is: nobody who knows the seed can
wait for a draw that suits. By row, as in protocols that say nothing of it, they are those of the row's number.

Once the seed is disclosed, every draw of an export can be computed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Literal

import numpy as np

from pacbandits.arrays import FloatArray, IntArray

Drawing = Literal["row", "unit"]
DRAWINGS: tuple[Drawing, ...] = ("row", "unit")
ROWS_DRAWN_AT_ONCE = 1024
HOLDOUT, ACTION = 0, 1  # columns of the two random numbers of a row


def choose(propensities: FloatArray, drawn: FloatArray) -> IntArray:
    """Return actions (n,) drawn by propensities (n, A) from uniforms (n,) in [0, 1); never one of probability 0."""
    bounds = np.cumsum(propensities, axis=1)
    bounds /= bounds[:, -1:]
    return (bounds <= drawn[:, None]).sum(axis=1).astype(np.int64)


@lru_cache(maxsize=16)
def _block(seed: int, number: int) -> FloatArray:
    out = np.random.default_rng([seed, number]).random((ROWS_DRAWN_AT_ONCE, 2))
    out.setflags(write=False)
    return out


def draws(seed: int, *, first: int, count: int) -> FloatArray:
    """Return two uniforms in [0, 1) for each row from `first` on, as (count, 2)."""
    blocks = range(first // ROWS_DRAWN_AT_ONCE, (first + count - 1) // ROWS_DRAWN_AT_ONCE + 1) if count else range(0)
    parts = [_block(seed, number) for number in blocks]
    if not parts:
        return np.empty((0, 2))
    start = first - blocks[0] * ROWS_DRAWN_AT_ONCE
    return np.concatenate(parts)[start : start + count]


def unit_draws(seed: int, marks: Iterable[bytes], visits: Iterable[int]) -> FloatArray:
    """Return two uniforms in [0, 1) for each unit and visit, as (n, 2); that of the holdout is the same at all visits.

    marks: keyed hashes of the units.
    """
    key = _key(seed)
    numbers = [
        (_hashed(b"holdout:" + mark, key), _hashed(b"action:%d:" % visit + mark, key))
        for mark, visit in zip(marks, visits, strict=True)
    ]
    return np.array(numbers, dtype=np.float64).reshape(-1, 2) * 2.0**-53


@lru_cache(maxsize=16)
def _key(seed: int) -> bytes:
    return sha256(b"pacbandits draws %d" % seed).digest()


def _hashed(words: bytes, key: bytes) -> int:
    """Return 53 bits of a keyed hash."""
    return int.from_bytes(blake2b(words, key=key, digest_size=8).digest(), "little") >> 11

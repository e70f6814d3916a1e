"""What files of every format are made with: a name and bytes, a choice, a little damage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class File:
    """A file to be read.

    name: what it is called, which tells its format.
    data: what it holds.
    """

    name: str
    data: bytes


def broken(data: bytes, rng: np.random.Generator) -> bytes:
    """The bytes with a little damage, or with none."""
    kind = rng.integers(10)
    if kind < 5 or not data:
        return data
    kind -= 3
    place = int(rng.integers(len(data)))
    if rng.random() < 0.5:  # ends are where files tell of themselves
        place = max(len(data) - 1 - int(rng.integers(300)), 0)
    if kind == 2:
        return data[:place]
    if kind == 3:
        return data[:place] + data[place + 1 :]
    if kind == 4:
        return data[:place] + rng.bytes(int(rng.integers(1, 5))) + data[place:]
    flipped = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        flipped[place] ^= 1 << int(rng.integers(8))
        place = min(place + int(rng.integers(20)), len(data) - 1)
    return bytes(flipped)


def some(rng: np.random.Generator, values: list) -> object:
    """One of the values."""
    return values[int(rng.integers(len(values)))]

"""Small sums for workers of a cluster: what is asked, and rows that lie in a file."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import pacbandits as pb
from pacbandits.engines.base import ROWS_PER_BLOCK, even_stripes
from pacbandits.errors import InputError

ROWS = 5 * ROWS_PER_BLOCK + 1234
TICKS = 2**40  # in which real numbers are counted


@dataclass(frozen=True)
class Sums:
    """How often each action earned how much, and rewards weighted by the block's number: (4, 2) and (1,)."""

    def begin(self):
        return np.zeros((4, 2), dtype=np.int64), np.zeros(1, dtype=np.int64)

    def add(self, number, block, sums):
        np.add.at(sums[0], (block.actions, (block.contexts.features[:, 0] > 0.3).astype(int)), 1)
        sums[1][0] += (1 + number) * int(np.rint(block.rewards * TICKS / 2**20).sum())


@dataclass(frozen=True)
class Slow(Sums):
    """The same, but so slowly that a worker can die meanwhile; each block leaves a mark.

    folder: where marks are left.
    seconds: that a block takes.
    """

    folder: str
    seconds: float

    def add(self, number, block, sums):
        (Path(self.folder) / f"{number}-{os.getpid()}").touch()
        time.sleep(self.seconds)
        super().add(number, block, sums)


@dataclass(frozen=True)
class Deadly(Sums):
    """A question that no worker survives."""

    def add(self, number, block, sums):
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Refused(Sums):
    """A question that a row does not answer."""

    def add(self, number, block, sums):
        raise InputError(f"block {number} cannot be read; say --reward NAME")


@dataclass(frozen=True)
class Stored:
    """Rows in files of NumPy, one a stripe.

    folder: where they are.
    n_rows: how many.
    """

    folder: str
    n_rows: int

    def blocks(self, first, last):
        for number in range(first, last):
            start = number * ROWS_PER_BLOCK
            features, actions, rewards = np.load(Path(self.folder) / f"{number}.npy")
            assert len(actions) == min(ROWS_PER_BLOCK, self.n_rows - start)
            yield log_of(features, actions.astype(int), rewards)

    def stripes(self, *, most_blocks):
        return even_stripes(self.n_rows, most_blocks=min(most_blocks, 2))


def log_of(features, actions, rewards):
    return pb.Log.of(
        pb.Contexts.of(features[:, None]),
        actions=actions,
        rewards=rewards,
        propensities=np.full((len(actions), 4), 0.25),
    )


def made_log(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return log_of(rng.random(rows), rng.integers(4, size=rows), rng.random(rows))


def store(log, folder):
    """The rows of a log as files."""
    for number, start in enumerate(range(0, len(log), ROWS_PER_BLOCK)):
        rows = slice(start, start + ROWS_PER_BLOCK)
        columns = (log.contexts.features[rows, 0], log.actions[rows].astype(float), log.rewards[rows])
        np.save(folder / f"{number}.npy", np.stack(columns))
    return Stored(str(folder), len(log))


def look_up(name, _):
    """A variable of the process that this is done in."""
    return os.environ.get(name)

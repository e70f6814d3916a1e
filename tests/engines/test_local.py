"""Sums made by the cores of this machine: every block once, whoever takes it and however many there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import pytest

from pacbandits.compiled import using_cores
from pacbandits.engines import ROWS_PER_BLOCK, Local, LogSource
from pacbandits.engines.base import ask_together, count_blocks, even_stripes
from pacbandits.engines.local import digest_source
from pacbandits.engines.registry import ENGINES, using_engine
from pacbandits.errors import InputError
from pacbandits.progress import heard_by
from pacbandits.records import Contexts, Log


def made(n):
    return Log.of(
        Contexts.of(np.arange(n, dtype=float)[:, None]),
        actions=np.arange(n) % 2,
        rewards=np.zeros(n),
        propensities=np.full((n, 2), 0.5),
    )


@dataclass(frozen=True, eq=False)
class Numbers:
    """The sum of all features, how many rows there are, and which blocks were seen."""

    n_blocks: int
    seen: Counter = field(default_factory=Counter)
    lock: Lock = field(default_factory=Lock)

    def begin(self):
        return np.zeros(2, dtype=np.int64), np.zeros(self.n_blocks, dtype=np.int64)

    def add(self, number, block, sums):
        first = number * ROWS_PER_BLOCK
        assert block.contexts.features[0, 0] == first
        sums[0][0] += int(block.contexts.features.sum())
        sums[0][1] += len(block)
        sums[1][number] += 1
        with self.lock:
            self.seen[number] += 1


@dataclass(frozen=True, eq=False)
class Cut(LogSource):
    """Rows in stripes of any length."""

    length: int

    def stripes(self, *, most_blocks):
        return even_stripes(self.n_rows, most_blocks=self.length)


@pytest.mark.first(3)
@pytest.mark.parametrize("n", [1, ROWS_PER_BLOCK, ROWS_PER_BLOCK + 1, 5 * ROWS_PER_BLOCK + 7])
@pytest.mark.parametrize("cores", [1, 2, 3])
def test_every_block_is_added_once(n, cores):
    log = made(n)
    for length in (1, 2, 9):
        asked = Numbers(count_blocks(n))
        with using_cores(cores):
            sums, blocks = Local("threads").ask(Cut(log, length), asked, what="adding")
        assert sums.tolist() == [n * (n - 1) // 2, n]
        assert blocks.tolist() == [1] * count_blocks(n)
        assert set(asked.seen.values()) == {1}


def test_several_questions_take_one_pass():
    log = made(ROWS_PER_BLOCK + 5)
    asked = [Numbers(2), Numbers(2), Numbers(2)]
    found = ask_together(Local("stream"), LogSource(log), asked, what="adding")
    assert [part[0].tolist() for part in found] == [[len(log) * (len(log) - 1) // 2, len(log)]] * 3
    assert [len(part) for part in found] == [2, 2, 2]


def test_an_error_of_any_block_comes_out():
    class Failing(Numbers):
        def add(self, number, block, sums):
            if number == 2:
                raise InputError("the third block is bad")

    for cores in (1, 3):
        with using_cores(cores), pytest.raises(InputError, match="the third block is bad"):
            Local("threads").ask(LogSource(made(4 * ROWS_PER_BLOCK)), Failing(4), what="adding")


def test_it_says_how_far_it_has_come():
    heard = []
    with heard_by(heard.append, every_seconds=0.0):
        Local("threads").ask(LogSource(made(2 * ROWS_PER_BLOCK)), Numbers(2), what="adding")
    assert heard[-1].startswith(f"adding: {2 * ROWS_PER_BLOCK:,} of {2 * ROWS_PER_BLOCK:,} rows")


def test_digests_name_rows_in_their_order():
    log = made(ROWS_PER_BLOCK + 10)
    known = digest_source(LogSource(log))
    with using_cores(1):
        assert digest_source(Cut(log, 1)) == known
    swapped = np.arange(len(log))
    swapped[[3, ROWS_PER_BLOCK + 4]] = swapped[[ROWS_PER_BLOCK + 4, 3]]
    names = {
        known,
        digest_source(LogSource(log.take(swapped))),
        digest_source(LogSource(log.take(np.arange(len(log) - 1)))),
    }
    assert len(names) == 3


def test_engines_by_their_names():
    for name in ("threads", "stream"):
        with using_engine(name) as engine:
            assert engine.name == name
    mine = Local("mine")
    with using_engine(mine) as engine:
        assert engine is mine
    with pytest.raises(InputError, match="no engine 'dusk'"), using_engine("dusk"):
        pass
    assert set(ENGINES) == {"threads", "stream", "dask", "cuda"}

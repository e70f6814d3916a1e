"""Sums by a real Dask cluster on this machine: the same bits, whoever works and whoever dies."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.engines import Local, LogSource
from pacbandits.engines.dask import DaskEngine
from tests.engines.clusters import Sums, made_log


@pytest.fixture(scope="module")
def engine():
    with DaskEngine(workers=2) as made:
        yield made


@pytest.fixture(scope="module")
def log():
    return made_log()


@pytest.fixture(scope="module")
def wanted(log):
    return Local("threads").ask(LogSource(log), Sums(), what="adding")


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_rows_in_memory_give_the_same_bits(engine, log, wanted):
    assert same(engine.ask(LogSource(log), Sums(), what="adding"), wanted)

"""Rows brought into memory through sums are those rows to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from logs.set_cases import same
from pacbandits.certificate.summed.arrangement import in_rows, in_shuffled_rows
from pacbandits.certificate.summed.survey import EarlyPlaces, EverySo, gather, in_memory
from pacbandits.engines import ROWS_PER_BLOCK, LogSource
from pacbandits.logs.data_set import open_set
from pacbandits.rewards.base import scrambled
from tests.certificate.summed.cases import (
    THREADS,
    Scattered,
    in_files,
    log_of_people,
    log_with_ids,
    played_alone,
)

LOGS = {
    "missing values": lambda: log_of_people(500, 1, missing=True),
    "ids and repeats": lambda: log_with_ids(500, 1, repeats=np.arange(500) % 3 + 1, rounds=np.arange(500) % 7),
    "played alone": lambda: played_alone(log_of_people(500, 2), 0.01),
    "two blocks": lambda: log_of_people(ROWS_PER_BLOCK + 100, 3),
}


def as_taken(log, rows):
    part = log.take(rows)
    return replace(part, contexts=replace(part.contexts, weights=np.full(len(rows), 1.0 / len(rows))))


@pytest.mark.first(7)
@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("engine", [THREADS, Scattered(3)], ids=lambda engine: engine.name)
def test_some_rows_are_those_rows(name, engine):
    log, source = LOGS[name](), LogSource(LOGS[name]())
    n, wanted = len(log), (EverySo(3, len(log)), EverySo(1, len(log)))
    some, everything = gather(source, wanted, engine=engine, head=log.take(np.arange(10)), what="reading")
    same(some, as_taken(log, np.arange(0, n, 3)))
    same(everything, as_taken(log, np.arange(n)))


@pytest.mark.parametrize("name", LOGS)
def test_early_rows_come_in_the_order_in_which_rows_count(name):
    log = LOGS[name]()
    n = len(log)
    head, wanted = (
        log.take(np.arange(5)),
        (EarlyPlaces(in_shuffled_rows(n, early=200)), EarlyPlaces(in_rows(n, early=200))),
    )
    mixed, first = gather(LogSource(log), wanted, engine=Scattered(1), head=head, what="reading")
    order = np.argsort(scrambled(np.arange(n, dtype=np.uint64)))[:200]
    np.testing.assert_array_equal(mixed.contexts.features, log.contexts.features[order])
    np.testing.assert_array_equal(first.rewards, log.rewards[:200])
    assert set(mixed.rounds) == {0}
    assert set(first.rounds) == {0}


def test_files_are_brought_into_memory_whole(tmp_path):
    log = log_of_people(400, 1, missing=True)
    paths = in_files(log, tmp_path, 1)
    whole, read = in_memory(open_set([tmp_path / "whole.parquet"])), in_memory(open_set(paths))
    same(read, whole)
    np.testing.assert_array_equal(read.contexts.features, log.contexts.features)
    np.testing.assert_array_equal(read.rewards, log.rewards)

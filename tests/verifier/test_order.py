"""The verifier orders rows as those do who certify, by code of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacbandits.certificate.conventions import block_ends as certified_ends
from pacbandits.certificate.conventions import planned_ends, rearrange, settling_round, sizes_beforehand
from pacbandits.certificate.summed.survey import arrange_rows, facts_of
from pacbandits.engines import ROWS_PER_BLOCK, LogSource
from pacbandits.records import Log
from pacbandits.records.log import digest_log
from pacbandits.verifier.figures import wrong_value
from pacbandits.verifier.order import (
    block_ends,
    order_by_hash,
    order_by_label,
    order_by_number,
    order_log,
    order_rows_by_content,
    planned_sizes,
)
from pacbandits.verifier.order import settling_round as settling_again
from tests.certificate.summed.cases import THREADS, Scattered, log_of_people
from tests.verifier.test_sums import disputed

N = ROWS_PER_BLOCK + 900  # two blocks


@pytest.mark.parametrize("rows", [1, 255, 256, 257, 465, 466, 1000, 70_001, 3_000_000])
def test_blocks_end_where_they_do_for_those_who_certify(rows):
    np.testing.assert_array_equal(block_ends(rows, shuffled=False), certified_ends(rows))
    np.testing.assert_array_equal(block_ends(rows, shuffled=True), planned_ends(rows))


@pytest.mark.parametrize(
    ("rounds", "ordered", "shuffled"),
    [(True, False, False), (False, False, False), (False, True, False), (False, True, True)],
)
@pytest.mark.parametrize("by_content", [False, True])
@pytest.mark.parametrize("people", [False, True])
def test_a_log_in_memory_is_ordered_alike(ordered, shuffled, people, rounds, by_content):
    rng = np.random.default_rng(5)
    columns = {"rounds": rng.integers(0, 4, 900)} if rounds else {}
    columns |= {"units": rng.integers(0, 500, 900)} if people else {}
    log = log_of_people(900, 1, fixed=True, **columns)
    mine, theirs = (
        order_log(log, ordered=ordered, shuffled=shuffled, by_content=by_content),
        rearrange(log, ordered=ordered, shuffle=shuffled, by_content=by_content),
    )
    assert digest_log(mine) == digest_log(theirs)
    assert mine.assumed == theirs.assumed
    counts, in_order = theirs.round_sizes, ordered
    planned = planned_sizes(counts, mine.n_units, ordered=in_order, shuffled=shuffled)
    assert planned == sizes_beforehand(theirs, in_order=in_order, shuffled=shuffled)
    assert settling_again(log.n_units, spared=1) == settling_round(log, 1)


def numbered(log: Log) -> list[tuple[int, Log]]:
    starts = range(0, len(log), ROWS_PER_BLOCK)
    return list(enumerate(log.take(np.arange(start, min(start + ROWS_PER_BLOCK, len(log)))) for start in starts))


@pytest.mark.parametrize("kind", ["rising labels", "mixed labels", "numbers", "hashes", "contents"])
@pytest.mark.parametrize("early", [700, 2 * N])
def test_rows_read_by_an_engine_are_ordered_alike(kind, early):
    labels = np.random.default_rng(2).integers(0, 9, N) * 2
    labels = np.sort(labels) if kind == "rising labels" else labels
    log = log_of_people(N, 1, fixed=kind in ("hashes", "contents"), **({"rounds": labels} if "labels" in kind else {}))
    source, facts = LogSource(log), facts_of(LogSource(log))
    asked = {"ordered": kind == "numbers", "shuffle": False, "spared": 0, "early": early}
    asked["by_content"] = kind == "contents"
    theirs, _ = arrange_rows(source, facts, engine=THREADS, **asked)
    if kind == "numbers":
        mine = order_by_number(block_ends(N, shuffled=False), rows=N, early=early)
    elif kind == "hashes":
        mine = order_by_hash(N, early=early)
    elif kind == "contents":
        mine = order_rows_by_content(source, early=early, engine=Scattered(1))
    else:
        told = {"rising": facts.rounds_rise, "source": source, "engine": Scattered(1)}
        mine = order_by_label(facts.rounds, facts.round_counts, early=early, **told)
    assert mine.early == theirs.early
    np.testing.assert_array_equal(mine.counts, theirs.counts)
    for number, block in numbered(log):
        start = number * ROWS_PER_BLOCK
        np.testing.assert_array_equal(mine.rounds_of(number, block), theirs.rounds_of(start, block))
        np.testing.assert_array_equal(mine.places_of(number, block), theirs.places_of(start, block))


def test_sums_that_both_sides_round_down_may_differ_by_a_unit_a_row():
    """With 10⁶ rows that is 1.5·10⁻⁵ nats, more than figures in memory may be off by."""
    found = disputed()[0]
    rounding, value = float(np.ldexp(1e6, -36)), found.threshold + 0.5
    lower = replace(found, value=value - 0.9 * rounding)
    assert wrong_value(lower, value, needed=found.threshold, rounding=rounding) == []
    assert wrong_value(lower, value, needed=found.threshold) != []
    higher = replace(found, value=value + 0.5 * rounding)
    assert wrong_value(higher, value, needed=found.threshold, rounding=rounding) != []

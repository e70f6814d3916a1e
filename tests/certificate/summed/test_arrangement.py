"""Rows of a large log count in the rounds that they have in memory, and early ones come before all that they teach."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.certificate.content_order import MEMORY_BYTES_PER_ROW, order_by_content
from pacbandits.certificate.conventions import arrange
from pacbandits.certificate.learning import first_rows
from pacbandits.certificate.summed.arrangement import NOT_EARLY, check_order_fits, scramble, values_at_ranks
from pacbandits.certificate.summed.limits import RowLimits
from pacbandits.certificate.summed.survey import arrange_rows, facts_of, learn_policies, survey
from pacbandits.engines import ROWS_PER_BLOCK, LogSource
from pacbandits.errors import InputError
from pacbandits.rewards.base import scrambled
from tests.certificate.summed.cases import THREADS, Scattered, log_of_people

N = ROWS_PER_BLOCK + 900  # two blocks


def row_log(n, *, fixed=True, rounds=None, repeats=None):
    return log_of_people(n, 1, fixed=fixed, rounds=rounds, repeats=repeats)


def arranged(log, *, early, engine=THREADS, spared=0, **order):
    """Rounds and places (n,) of all rows; the arrangement, and whether it is a shuffle."""
    source = LogSource(log)
    asked = {"ordered": False, "shuffle": False, **order}
    found, shuffled = arrange_rows(source, facts_of(source), engine=engine, spared=spared, early=early, **asked)
    starts = range(0, len(log), ROWS_PER_BLOCK)
    blocks = [(start, log.take(np.arange(start, min(start + ROWS_PER_BLOCK, len(log))))) for start in starts]
    rounds = np.concatenate([found.rounds_of(start, block) for start, block in blocks])
    places = np.concatenate([found.places_of(start, block) for start, block in blocks])
    assert sorted(places[places != NOT_EARLY].tolist()) == list(range(found.early))
    np.testing.assert_array_equal(found.counts, np.bincount(rounds, weights=log.weights))
    return rounds, places, found, shuffled


def in_memory(log, *, ordered=False, shuffle=False):
    """The round (n,) of each row as it stood, by the arrangement of a log in memory."""
    blocks, shuffled = arrange(log, ordered=ordered, shuffle=shuffle)
    rows = order_by_content(log) if shuffled else np.arange(len(log))
    rounds = np.empty(len(log), dtype=np.int64)
    rounds[rows] = np.unique(blocks.rounds, return_inverse=True)[1]
    order = np.empty(len(log), dtype=np.int64)
    order[rows] = np.arange(len(log))
    return rounds, order


def test_scrambled_numbers_are_those_of_conventions():
    numbers = np.r_[np.arange(1000), 2**40 + np.arange(10)].astype(np.uint64)
    assert [int(scramble(int(number))) for number in numbers] == scrambled(numbers).tolist()


@pytest.mark.thorough
@pytest.mark.parametrize("n", [1, 2, 5, 1000, 70_001])
def test_values_at_ranks_are_those_of_a_sort(n):
    ordered = np.sort(scrambled(np.arange(n, dtype=np.uint64)))
    ranks = np.unique(np.r_[0, n // 3, n // 2, n - 1, n])
    found = values_at_ranks(n, ranks)
    assert found[:-1].tolist() == ordered[ranks[:-1]].tolist()
    assert found[-1] == np.uint64(2**64 - 1)


@pytest.mark.first(3)
@pytest.mark.parametrize(("n", "early"), [(10, 7), (300, 300), (300, 100), (2000, 512), (N, 700)])
def test_shuffled_rows_count_as_in_memory(n, early):
    log = row_log(n)
    rounds, places, found, shuffled = arranged(log, early=early)
    known, order = in_memory(log)
    assert shuffled
    np.testing.assert_array_equal(rounds, known)
    np.testing.assert_array_equal(places, np.where(order < early, order, NOT_EARLY))
    assert found.early == min(early, n)


def test_rows_that_cannot_be_ordered_in_memory_are_refused_with_a_remedy():
    check_order_fits(10**6, free_bytes=MEMORY_BYTES_PER_ROW * 10**6)
    with pytest.raises(InputError, match=r"order 1,000,000,000 rows .* 80\.0 GB .* 4\.0 GB are free.*(ordered)"):
        check_order_fits(10**9, free_bytes=4 * 10**9)
    with pytest.raises(InputError, match=r"4\.0 GB are free.*contexts.*ordered"):
        check_order_fits(10**9, teaching=True, free_bytes=4 * 10**9)


@pytest.mark.parametrize(("n", "early"), [(10, 7), (3000, 512), (N, 700)])
def test_rows_in_order_count_as_in_memory(n, early):
    log = row_log(n, fixed=False)
    rounds, places, _, shuffled = arranged(log, early=early, ordered=True)
    assert not shuffled
    np.testing.assert_array_equal(rounds, in_memory(log, ordered=True)[0])
    np.testing.assert_array_equal(places, np.where(np.arange(n) < early, np.arange(n), NOT_EARLY))


@pytest.mark.first(25)
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("how", ["rising", "falling", "mixed"])
@pytest.mark.parametrize(("n", "early"), [(900, 10_000), (900, 100), (900, 350), (900, 10), (N, 700)])
def test_early_rows_are_those_of_the_first_rounds_wherever_they_stand(n, early, how, repeats):
    """All rows of some rounds, of the next one those that stand first, and none of later ones."""
    rng = np.random.default_rng(early)
    numbers = np.sort(rng.choice([3, 4, 8, 11, 90], n))
    numbers = {"rising": numbers, "falling": numbers[::-1], "mixed": rng.permutation(numbers)}[how]
    log = row_log(n, rounds=numbers, repeats=rng.integers(1, 3, n) if repeats else None)
    rounds, places, found, shuffled = arranged(log, early=early, engine=Scattered(n))
    assert not shuffled
    np.testing.assert_array_equal(rounds, in_memory(log)[0])
    chosen = places != NOT_EARLY
    last = rounds[chosen].max()
    assert chosen[rounds < last].all()
    of_last = chosen[rounds == last]
    assert of_last[: int(of_last.sum())].all()
    assert found.early <= early
    # In this order they also teach a class that is learnt from the log in memory.
    if n > early:
        np.testing.assert_array_equal(np.argsort(places, kind="stable")[n - found.early :], first_rows(log, most=early))
    if not repeats:
        assert found.early == min(early, n)


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_later_has_no_say_in_which_rows_are_early(seed):
    """Wherever rows of later rounds are put between those of earlier ones, the same of these are early."""
    rng = np.random.default_rng(seed)
    log = row_log(900, rounds=np.sort(rng.integers(0, 4, 900)))
    later, first = np.flatnonzero(log.rounds > 1), np.flatnonzero(log.rounds <= 1)
    found = []
    for _ in range(3):
        where = np.sort(rng.choice(900, len(first), replace=False))
        order = np.empty(900, dtype=np.int64)
        order[where] = first
        order[np.setdiff1d(np.arange(900), where)] = rng.permutation(later)
        places = arranged(log.take(order), early=300)[1]
        found.append(sorted(order[places != NOT_EARLY].tolist()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("how", ["rising", "falling", "mixed"])
def test_rows_that_teach_a_class_do_not_bet(how):
    """The contexts that it is learnt from are of the rounds that are spared, whichever way rows stand."""
    rng = np.random.default_rng(5)
    numbers = np.arange(1500) // 150
    numbers = {"rising": numbers, "falling": numbers[::-1], "mixed": rng.permutation(numbers)}[how]
    log = row_log(1500, rounds=numbers)
    surveyed = survey(
        LogSource(log),
        engine=THREADS,
        spec="trees:depth=1",
        ordered=False,
        shuffle=False,
        limits=RowLimits(400, 100, 400),
    )
    learnt = learn_policies(surveyed, "trees:depth=1,bins=4", None)
    assert learnt.learning is not None
    assert (learnt.learning.spared, learnt.learning.contexts, learnt.learning.in_order) == (2, 300, True)
    early = surveyed.early
    taught = early.contexts.features[early.rounds < 2, 0]
    np.testing.assert_array_equal(np.sort(taught), np.sort(log.contexts.features[numbers < 2, 0]))


def test_rows_without_an_order_are_one_round_or_two():
    log = row_log(500, fixed=False)
    assert set(arranged(log, early=300)[0]) == {0}
    for by_content, order in ((False, np.arange(500)), (True, order_by_content(log))):
        rounds, places, _, shuffled = arranged(log, early=300, spared=256, by_content=by_content)
        assert not shuffled
        np.testing.assert_array_equal(rounds[order], np.arange(500) >= 256)
        np.testing.assert_array_equal(places[order], np.where(np.arange(500) < 300, np.arange(500), NOT_EARLY))
    often = row_log(500, fixed=False, repeats=np.r_[np.ones(499, dtype=int), 7])
    assert arranged(often, early=300)[2].counts.tolist() == [506.0]
    with pytest.raises(InputError, match="no sample"):
        arranged(often, early=300, spared=256)

"""A certificate by sums is rechecked by sums, and whatever was altered is noticed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate.certify import Request, certify, certify_survey
from pacbandits.certificate.conventions import Bets
from pacbandits.certificate.learning import LearntClass
from pacbandits.certificate.summed.leading import Leading
from pacbandits.certificate.summed.survey import survey
from pacbandits.engines import LogSource
from pacbandits.errors import InputError
from pacbandits.logs.data_set import open_set
from pacbandits.policies.base import PolicyClass
from pacbandits.verifier.figures import keep_book
from pacbandits.verifier.sums import MAX_SIZE_SUM, check_room, read_rows, round_down
from pacbandits.verifier.wealth import least_wealth
from tests.certificate.summed.cases import (
    KINDS,
    QUICK,
    SMALL,
    THREADS,
    Scattered,
    by_sums,
    in_files,
    log_of_people,
    means_of,
    rechecked,
    with_row,
)

SLOW = {
    "a fixed split",
    "large leaves",
    "no order, a class from before",
    "in order, a single policy",
    "one action for all",
}
ASKED = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in KINDS]


def proven(name: str):
    """The certificate of a kind of log, its rows, and its class."""
    kind = KINDS[name]
    log = kind.log(kind.rows, 3)
    found = by_sums(kind, LogSource(log), **QUICK)
    return found, log, class_of(name, log, found)


@cache
def disputed():
    """The same of a log with many rounds and several leaders, of whom some are chosen by passes over its rows."""
    log = log_of_people(4000, 3, gap=0.15, rounds=2 * (np.arange(4000) // 250))
    spec = "trees:depth=2,bins=4"
    found = certify(LogSource(log), spec, engine=THREADS, limits=SMALL, **QUICK)
    assert found.leaders is not None
    assert len(found.leaders.policies) > 1
    assert found.certified
    return found, log, pb.learn_class(spec, log).policies


def class_of(name, log, found) -> PolicyClass:
    """The class of a kind of log, as whoever verifies is told it."""
    asked = KINDS[name].policies()
    if not isinstance(asked, str):
        return asked
    order = {"ordered": found.ordered and not found.shuffled, "shuffle": found.shuffled}
    return pb.learn_class(asked, log, **order).policies


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ASKED)
def test_what_is_certified_is_found_again(name):
    found, log, policies = proven(name)
    verdict = rechecked(found, LogSource(log), policies, Scattered(1), **QUICK)
    assert verdict.faults == ()
    assert verdict.value == pytest.approx(found.value, abs=1e-7)
    assert any("stakes and leaders follow" in words for words in verdict.checked)
    if found.learning is not None:
        assert any("is what trees" in words for words in verdict.checked)


@pytest.mark.thorough
def test_files_and_memory_are_verified_alike(tmp_path):
    log = log_of_people(600, 3, rounds=np.arange(600) // 200)
    trees = pb.learn_class("trees:depth=1,bins=4", log)
    found = pb.certify(log, trees, engine="threads").certificate
    paths = in_files(log, tmp_path, 1)
    assert pb.verify(found, log, trees.policies).good
    assert pb.verify(found, open_set(paths), trees.policies, engine="threads").good
    swapped = open_set([paths[1], paths[0], *paths[2:]])
    assert any("digest" in fault for fault in pb.verify(found, swapped, trees.policies).faults)
    in_memory = pb.certify(log, trees).certificate
    with pytest.raises(InputError, match="was made of rows in memory"):
        pb.verify(in_memory, open_set(paths), trees.policies)
    for other in (replace(in_memory, summed=True), replace(found, summed=False)):
        assert any("digest" in fault for fault in pb.verify(other, log, trees.policies).faults)


def altered_leader(c):
    """The same with another policy in the place of the first leader."""
    other = c.leaders.policies[1]
    return replace(c.leaders, policies=(other, *c.leaders.policies[1:]))


ALTERED = {
    "more wealth": (lambda c: {"value": c.value + 0.01}, "the least log-wealth is"),
    "a nearer distance": (lambda c: {"certified_epsilon": c.certified_epsilon / 2}, "do not certify"),
    "less doubt": (lambda c: {"delta": c.delta / 10}, "the threshold"),
    "another order": (lambda c: {"shuffled": True, "ordered": True}, "another order of rows"),
    "no order": (lambda c: {"ordered": True}, "another order of rows"),
    "bolder stakes": (
        lambda c: {"bets": Bets(tuple(1.1 * m for m in c.bets.multipliers), c.bets.scales, spared=c.bets.spared)},
        "",
    ),
    "rows that taught bet": (lambda c: {"bets": replace(c.bets, spared=0)}, "must not bet"),
    "another model": (lambda c: {"model": {"kind": "none"}}, "not the one that the certificate describes"),
    "another leader": (lambda c: {"leaders": altered_leader(c)}, ""),
    "more rows": (lambda c: {"rows": c.rows + 1}, "interaction"),
    "another class": (lambda c: {"class_digest": "0" * 64}, "digest differs"),
    "another spec": (
        lambda c: {"learning": replace(c.learning, spec="trees:bins=5")},
        "is not what trees:bins=5 learns",
    ),
}


def test_as_it_is_it_is_good():
    found, log, policies = disputed()
    assert rechecked(found, LogSource(log), policies, limits=SMALL, **QUICK).faults == ()


@pytest.mark.first(5)
@pytest.mark.parametrize("name", ALTERED)
def test_whatever_was_altered_is_noticed(name):
    change, words = ALTERED[name]
    found, log, policies = disputed()
    try:
        verdict = rechecked(replace(found, **change(found)), LogSource(log), policies, limits=SMALL, **QUICK)
        faults = verdict.faults
    except InputError as error:
        faults = (str(error),)
    assert faults
    assert any(words in fault for fault in faults), faults


CHANGED = {"rewards": 0.5, "actions": 2, "rounds": 8, "repeats": 2, "propensities": np.full(3, 1 / 3)}


@pytest.mark.parametrize("column", CHANGED)
def test_a_changed_row_is_noticed(column):
    found, log, policies = disputed()
    row = next(i for i in range(1500, len(log)) if np.any(getattr(log, column)[i] != CHANGED[column]))
    other = with_row(log, row, **{column: CHANGED[column]})
    verdict = rechecked(found, LogSource(other), policies, limits=SMALL, **QUICK)
    assert any("digest" in fault for fault in verdict.faults)


@pytest.mark.thorough
def test_leaders_that_the_rows_do_not_favour_are_noticed(monkeypatch):
    """All figures are right, but who led was not chosen by the rows before: who knows the end could lead by it."""
    _, log, policies = disputed()
    surveyed = survey(LogSource(log), engine=THREADS, spec=None, ordered=False, shuffle=False, limits=SMALL)
    learnt, model = LearntClass(policies, None), QUICK["model"]
    known = policies.argmax(log.contexts, means_of(log.contexts, 0.15))
    chosen = Leading.choose
    for choose, good in ((chosen, True), (lambda self, leader, number: known, False)):
        monkeypatch.setattr(Leading, "choose", choose)
        made = certify_survey(surveyed, learnt, Request(epsilon=0.2, model=model)).certificate
        verdict = rechecked(made, LogSource(log), policies, limits=SMALL, **QUICK)
        assert verdict.value == pytest.approx(made.value)
        assert verdict.good == good
        assert good or any("not the policy that the rows before it favour" in fault for fault in verdict.faults)


def test_sums_that_do_not_fit_are_noticed_by_whoever_verifies():
    """Also those of a single row, whose wealth is no whole number of 64 bits: as one it could be anything."""
    scores, size = round_down(np.array([[1.5, -2.25], [0.0, -0.1]]), 2)
    assert (scores.tolist(), size) == ([[6, -9], [0, -1]], 0)
    for wealth in (2.0**40, -(2.0**40), np.nan, -np.inf):
        assert round_down(np.array([[0.0, wealth]]), 36)[1] == MAX_SIZE_SUM
    with pytest.raises(InputError, match="more than can be counted"):
        check_room(MAX_SIZE_SUM)
    check_room(MAX_SIZE_SUM - 1)


def test_sums_that_may_have_wrapped_are_no_proof():
    """Rows that count for very many and win much each: what 64 bits leave of their sum could be anything."""
    kind, n = KINDS["no order, repeats"], 40
    rare, first = np.tile([1e-9, 0.5, 0.5 - 1e-9], (n, 1)), np.zeros(n, dtype=int)
    log = replace(log_of_people(n, 1), actions=first, rewards=np.ones(n), propensities=rare)
    policies = kind.policies()
    policy = policies.argmax(log.contexts, np.tile([1.0, 0.0, 0.0], (n, 1)))
    for often, fits in ((1, True), (2**40, False)):
        source = LogSource(replace(log, repeats=np.full(n, often)))
        one = {"leaders": None, "learning": None, "bets": Bets((0.4,), (1.0,)), "experts": (0,), "share": None}
        claim = replace(disputed()[0], policy=policy, **one)
        rows = read_rows(claim, source, engine=THREADS).with_model(QUICK["model"])
        book = keep_book(claim, rows.counts)
        if fits:
            # Where it acts otherwise a row wins log(1 + 0.4/1e-9) or so; a policy that acts alike wins log(1 + 0.4 ε).
            wealth = rows.wealth(claim, book, policies, epsilon=0.2)
            assert least_wealth(claim, wealth, [0.0]) == pytest.approx(n * np.log1p(0.4 * 0.2), abs=1e-6)
            continue
        with pytest.raises(InputError, match="more than can be counted"):
            rows.wealth(claim, book, policies, epsilon=0.2)

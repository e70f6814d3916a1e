"""Certificates by sums: those of the log in memory, but for rounding, and the same bits wherever sums are made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate.certificate import leaders_to_json
from pacbandits.certificate.certify import certify
from pacbandits.certificate.summed.limits import RowLimits
from pacbandits.compiled import using_cores
from pacbandits.engines import Engine, Local, LogSource
from pacbandits.errors import InputError
from pacbandits.logs.data_set import open_set
from pacbandits.policies import Linear, Trees
from pacbandits.records import Contexts
from tests.certificate.summed.cases import (
    KINDS,
    QUICK,
    SMALL,
    THREADS,
    Scattered,
    Striped,
    by_sums,
    fixed_trees,
    in_files,
    log_of_people,
    log_with_ids,
    people,
)

ROUNDING = 2.0**-36  # of a row, downwards
FLOATS = 1e-9  # of sums of numbers that are not rounded at all


@pytest.mark.first(1)
@pytest.mark.parametrize("name", KINDS)
def test_a_certificate_by_sums_is_that_of_the_log_in_memory(name):
    """Same class, leaders, experts and model; wealth is less by what rounding down of every row takes."""
    kind, log = KINDS[name], KINDS[name].log(KINDS[name].rows, 1)
    mine, theirs = by_sums(kind, LogSource(log)), pb.certify(log, kind.policies(), **kind.asked).certificate
    assert mine.summed
    assert not theirs.summed
    for part in ("experts", "share", "slack", "threshold", "log_size", "samples", "rows", "bets", "ordered"):
        assert getattr(mine, part) == pytest.approx(getattr(theirs, part)), part
    for part in ("shuffled", "by_rule", "learning", "class_digest", "remarks", "checks", "assumptions"):
        assert getattr(mine, part) == getattr(theirs, part), part
    assert (mine.leaders is None) == (theirs.leaders is None)
    if mine.leaders is not None:
        assert leaders_to_json(mine.leaders) == leaders_to_json(theirs.leaders)
        assert mine.model == theirs.model
        assert 1 <= max(mine.leaders.turns) + 1 == len(mine.leaders.policies)
    assert mine.policy.to_json() == theirs.policy.to_json()
    assert mine.epsilon == theirs.epsilon
    # Of two experts the sum of e^wealth falls by no more than each of them does.
    lost = theirs.value - mine.value
    assert -FLOATS <= lost <= len(log) * ROUNDING + FLOATS
    assert mine.certified_epsilon == pytest.approx(theirs.certified_epsilon, rel=0.03)
    assert mine.digest != theirs.digest


LARGE = 135_000  # rows: three blocks


@pytest.fixture(scope="module")
def large():
    """A log of several blocks, and its certificate."""
    log = log_of_people(LARGE, 5, fixed=True)
    return log, certified(LogSource(log))


def certified(source, engine: Engine = THREADS):
    trees = Trees.learn(people(200, 99), n_actions=3, bins=3)
    return certify(source, trees, engine=engine, epsilon=0.02, limits=SMALL, **QUICK).to_json()


ENGINES = [
    Scattered(1),
    pytest.param(Scattered(2), marks=pytest.mark.slow),
    pytest.param(Scattered(3), marks=pytest.mark.slow),
    pytest.param(Local("stream"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_every_engine_gives_the_same_bits(large, engine):
    log, known = large
    assert certified(LogSource(log), engine) == known
    assert known["certified_epsilon"] < 0.02


@pytest.mark.thorough
@pytest.mark.parametrize("cores", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow), 3])
def test_any_number_of_cores_and_stripes_of_any_length_give_the_same_bits(large, cores):
    log, known = large
    with using_cores(cores):
        assert certified(Striped(log, length=cores)) == known


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_files_cut_anywhere_give_the_same_bits(large, seed, tmp_path):
    log, known = large
    assert certified(open_set(in_files(log, tmp_path, seed))) == known


QUICKLY_READ = ("rounds with repeats, mixed", "played alone, in order", "a fixed split, missing values", "a list")
READ = [name if name in QUICKLY_READ else pytest.param(name, marks=pytest.mark.slow) for name in KINDS]


@pytest.mark.thorough
@pytest.mark.parametrize("name", READ)
def test_files_give_the_same_bits_whatever_the_log(name, tmp_path):
    kind, log = KINDS[name], KINDS[name].log(KINDS[name].rows, 2)
    asked = {**QUICK, "limits": RowLimits(early=400, neighbours=100, watched=500)}
    found = by_sums(kind, open_set(in_files(log, tmp_path, 3)), Scattered(4), **asked)
    known = by_sums(kind, LogSource(pb.Log.read(tmp_path / "whole.parquet")), **asked)
    assert found.to_json() == known.to_json()


def refused(words, source, policies="trees:depth=2", **asked):
    with pytest.raises(InputError) as caught:
        certify(LogSource(source), policies, engine=THREADS, **{**QUICK, **asked})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_needs_all_rows_at_once_is_refused_in_a_sentence():
    log = log_of_people(400, 1)
    refused("DeepTrees", log, "trees:depth=3")
    refused("searched with all rows at once", log, Linear.learn(log.contexts.take([0, 1, 2]), n_actions=3, levels=1))
    refused("searched with all rows at once", log, "trees:costs=0/0.5/1,budget=1", contexts=log.contexts)
    refused("returning users", replace(log, units=np.arange(len(log)) // 2))
    late = replace(log, rounds=np.arange(len(log)) // 100, known=np.arange(len(log)) // 100 + 1)
    refused("rewards came late", late)
    phi = Contexts.of(np.zeros((400, 0)), phi=np.zeros((400, 3, 1)))
    refused("features for each action", replace(log, contexts=phi), fixed_trees(1))


def test_what_cannot_be_asked_is_refused_in_a_sentence(tmp_path):
    log = log_of_people(400, 1)
    refused("proven in memory", log, epsilon=0.0)
    refused("need no shuffle", log, ordered=True, shuffle=True)
    refused("cannot stand in the order", replace(log, repeats=np.full(400, 2)), ordered=True)
    refused("no sample", replace(log, repeats=np.r_[np.ones(399, dtype=int), 2]))
    refused("the log has 200", log_of_people(200, 1))
    refused("the log has 3 actions", log, pb.policies.Trivial(5, 4))
    refused("between", log, delta=1.5)
    with pytest.raises(InputError, match="no engine 'thread'; did you mean 'threads'"):
        pb.certify(log, engine="thread")
    with pytest.raises(InputError, match="blocks of 65,536"):
        certify(open_set(in_files(log, tmp_path, 1), block_rows=7), "trees", engine=THREADS)
    empty = tmp_path / "empty.csv"
    empty.write_text("action,reward,propensity,age\n")
    with pytest.raises(InputError) as caught:
        pb.certify(str(empty), engine="stream")
    assert "\n" not in str(caught.value)


def test_rewards_beyond_their_range_are_refused():
    log = log_of_people(400, 1)
    spoilt = log.take(np.arange(400))
    object.__setattr__(spoilt, "rewards", np.where(np.arange(400) == 7, 1.5, log.rewards))
    refused("range from 0 to 1.5", spoilt)


def test_a_first_round_longer_than_what_is_learnt_from():
    """The class is learnt from its first rows; all of them are spared, and the rounds after it bet."""
    log = log_of_people(3000, 4, rounds=(np.arange(3000) >= 2000).astype(int))
    found = certify(LogSource(log), "trees:depth=1,bins=4", engine=THREADS, limits=SMALL, **QUICK)
    assert found.learning is not None
    assert (found.learning.spared, found.learning.contexts, found.learning.in_order) == (1, SMALL.early, True)
    assert found.bets.spared == 1
    assert found.certified


@pytest.mark.thorough
def test_a_log_of_one_block_has_no_order_to_learn_in():
    """As in memory: a union over all policies, which has its own part of δ."""
    log = log_of_people(200, 4)
    mine = certify(LogSource(log), fixed_trees(2), engine=THREADS, ordered=True)
    theirs = pb.certify(log, fixed_trees(2), ordered=True).certificate
    assert mine.leaders is theirs.leaders is None
    assert mine.threshold == theirs.threshold


def test_ids_beyond_the_class_are_refused():
    refused("ids", log_with_ids(300, 1), pb.policies.Trivial(3, 3))


@pytest.mark.slow
@pytest.mark.parametrize("mixed", [False, True])
def test_a_class_learnt_in_memory_is_the_one_that_is_certified(mixed):
    """Also where the first round is longer than what teaches, as whoever verifies learns it again."""
    n = 400_000
    rounds = (np.arange(n) >= 300_000).astype(int)
    log = log_of_people(n, 4, rounds=np.random.default_rng(0).permutation(rounds) if mixed else rounds)
    learnt = pb.learn_class("trees:depth=1,bins=3", log)
    assert learnt.learning is not None
    assert learnt.learning.contexts == 2**18
    by_name = pb.certify(log, "trees:depth=1,bins=3", epsilon=0.1).certificate
    assert by_name.to_json() == pb.certify(log, learnt, epsilon=0.1).certificate.to_json()
    assert by_name.summed
    assert pb.verify(by_name, log, learnt.policies).faults == ()

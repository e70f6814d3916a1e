"""Intervals of a policy's value by sums are those of the log in memory, but for rounding outward."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate.certify import evaluate, measure_worth
from pacbandits.certificate.conventions import Bets
from pacbandits.certificate.intervals import REST_BITS, add_whole
from pacbandits.certificate.stakes import Stakes
from pacbandits.certificate.summed.survey import survey
from pacbandits.certificate.worth import Decided, measure_policy
from pacbandits.compiled import using_cores
from pacbandits.engines import LogSource
from pacbandits.errors import InputError
from pacbandits.logs.data_set import open_set
from pacbandits.records import Mixture, parts_of
from tests.certificate.summed.cases import (
    KINDS,
    QUICK,
    SMALL,
    THREADS,
    Scattered,
    by_sums,
    fixed_trees,
    in_files,
    log_of_people,
    means_of,
    people,
)

SLOW = {"a fixed split", "large leaves", "rounds", "no order", "one action for all", "stumps in order"}
ASKED = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in KINDS]


def close(mine, theirs):
    """Whether two intervals are the same, but that the first may be a little wider."""
    assert mine.estimate == pytest.approx(theirs.estimate, abs=1e-6)
    assert -1e-9 <= theirs.low - mine.low < 1e-5
    assert -1e-9 <= mine.high - theirs.high < 1e-5


@pytest.mark.thorough
@pytest.mark.parametrize("name", ASKED)
def test_a_policy_is_worth_what_it_is_in_memory(name):
    kind = KINDS[name]
    log = kind.log(kind.rows, 1)
    asked = {key: value for key, value in kind.asked.items() if key in ("ordered", "shuffle")}
    rng = np.random.default_rng(0)
    policies = kind.policies() if not isinstance(kind.policies(), str) else fixed_trees(2)
    one, two = (policies.argmax(log.contexts, rng.normal(size=(len(log), 3))) for _ in range(2))
    policy = Mixture((one, two), (0.25, 0.75)) if "rounds" in name else one
    mine = evaluate(log, policy, engine="threads", **asked, **QUICK)
    theirs = evaluate(log, policy, **asked, **QUICK)
    close(mine.value, theirs.value)
    assert mine.assumptions == theirs.assumptions


@pytest.mark.thorough
@pytest.mark.parametrize("name", ASKED)
def test_a_certified_policy_is_worth_what_it_is_in_memory(name):
    kind = KINDS[name]
    log = kind.log(kind.rows, 1)
    found, known = (
        by_sums(kind, LogSource(log), **QUICK),
        pb.certify(log, kind.policies(), **kind.asked, **QUICK).certificate,
    )
    mine, theirs = measure_worth(found, log, **QUICK), measure_worth(known, log, **QUICK)
    assert (mine is None) == (theirs is None)
    if mine is not None and theirs is not None and found.policy.to_json() == known.policy.to_json():
        close(mine.value, theirs.value)


@pytest.mark.thorough
def test_files_are_evaluated_to_the_same_bits(tmp_path):
    log = log_of_people(67_000, 1, rounds=np.arange(67_000) // 5000)
    policy = fixed_trees(2).argmax(log.contexts, np.random.default_rng(0).normal(size=(len(log), 3)))
    source = open_set(in_files(log, tmp_path, 1))
    known = evaluate(log, policy, engine=THREADS, **QUICK)
    assert evaluate(source, policy, engine=Scattered(2), **QUICK).to_json() == known.to_json()
    with using_cores(3):
        assert evaluate(log, policy, engine="stream", **QUICK).to_json() == known.to_json()
    with pytest.raises(InputError, match="for 4 actions"):
        evaluate(source, pb.policies.Trivial(2, 4).argmax(pb.Contexts.finite(2), np.zeros((2, 4))), engine="stream")


@pytest.mark.thorough
def test_centres_are_of_earlier_rounds():
    """Whatever the last round earns, what it is centred by stays: it bounds by no more than its own rows."""
    log = log_of_people(3000, 1, rounds=np.arange(3000) // 500)
    policy = fixed_trees(1).argmax(log.contexts, np.random.default_rng(0).normal(size=(len(log), 3)))
    found = []
    for reward in (0.0, 1.0):
        changed = pb.Log.of(
            log.contexts,
            actions=log.actions,
            rewards=np.where(log.rounds == 5, reward, log.rewards),
            propensities=log.propensities,
            rounds=log.rounds,
        )
        surveyed = survey(LogSource(changed), engine=THREADS, spec=None, ordered=False, shuffle=False, limits=SMALL)
        decided = Decided.always(policy, np.ones(6, dtype=bool))
        stakes = Stakes(Bets((0.1,), (1.0,) * 6), (1.0,))
        weighing = surveyed.weigh(decided, stakes, QUICK["model"])
        found.append(weighing._bound(1.0)[0])
    np.testing.assert_array_equal(*found)
    assert np.abs(np.diff(found[0][0])).max() > 0.01


def test_rare_actions_do_not_make_sums_run_over():
    """Scores of a billion in every row, as no log has them that tells the truth: what is said of it is as in memory."""
    n = 2000
    log = log_of_people(n, 1)
    rare = np.tile([1e-9, 0.5, 0.5 - 1e-9], (n, 1))
    spoilt = pb.Log.of(log.contexts, actions=np.zeros(n, dtype=int), rewards=np.ones(n), propensities=rare)
    policy = fixed_trees(0).argmax(log.contexts, np.tile([1.0, 0.0, 0.0], (n, 1)))
    mine, theirs = (evaluate(spoilt, policy, engine=who, ordered=True, **QUICK) for who in ("threads", None))
    close(mine.value, theirs.value)


def test_whole_numbers_of_wealth_are_rounded_down():
    """Both parts together are the largest multiple of 2^−48 that is no more than a number."""
    rng = np.random.default_rng(0)
    for value in [*rng.normal(size=300), *(-(2.0 ** -np.arange(1.0, 90.0))), 0.0, 555.0, -18.4, -1e6 * np.pi]:
        wealth, rest = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        add_whole(float(value), 2.0**28, wealth, rest, 0)
        found = Fraction(int(wealth[0]), 2**28) + Fraction(int(rest[0]), 2**28 * 2**REST_BITS)
        assert 0 <= rest[0] < 2**REST_BITS
        assert found <= Fraction(float(value)) < found + Fraction(1, 2**28 * 2**REST_BITS)


def test_a_certificate_tells_what_its_policy_is_worth():
    """Of a log larger than what is learnt from: the interval holds the truth, which is known here."""
    kind = KINDS["rounds"]
    log = kind.log(4000, 2)
    found = by_sums(kind, LogSource(log), limits=SMALL, **QUICK)
    surveyed = survey(
        LogSource(log), engine=THREADS, spec=found.learning.spec, ordered=False, shuffle=False, limits=SMALL
    )
    made = measure_policy(surveyed, found, **QUICK)
    assert made is not None
    many = people(50_000, 11)
    value = sum(
        weight * means_of(many, 0.4)[np.arange(50_000), policy(many)].mean()
        for weight, policy in zip(getattr(found.policy, "weights", (1.0,)), parts_of(found.policy), strict=True)
    )
    assert made.value.low < value < made.value.high
    assert made.value.high - made.value.low < 0.3

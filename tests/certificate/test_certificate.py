"""Certificates: what they say, what they rest on, and that they say no more than the data do."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.certificate import Bets, Certificate, Evidence, Ledger, make_certificate
from pacbandits.certificate.certificate import ASSUMPTIONS, BETS_FIXED, INEXACT, ROUNDS
from pacbandits.certificate.claim import FIXED
from pacbandits.confidence import certificate_threshold, union_threshold
from pacbandits.errors import InputError
from pacbandits.policies import policy_from_json
from pacbandits.problems import load_problem
from pacbandits.records import Contexts, Design, Log
from pacbandits.records.log import digest, digest_log
from pacbandits.rewards import CellMeans, predict_by_round
from tests.certificate import plain
from tests.certificate.test_search import ArgmaxOnly, FrontierOnly
from tests.examples import examples
from tests.instances import seeds

MULTIPLIERS = (0.25, 0.5, 1.0, 2.0)


def played(seed, *, rounds=3, samples=150, spec="random:policies=12,contexts=5,actions=3,skew=1,seed=3"):
    """A problem, a log of rounds of uniform exploration, and the ledger of it."""
    problem = load_problem(spec)
    rng = np.random.default_rng(seed)
    uniform = Design((), np.empty(0), problem.best_policy())
    log = None
    for number in range(rounds):
        new = problem.interact(uniform, samples=samples, rng=rng, round_number=number)
        log = new if log is None else log.followed_by(new)
    return problem, log, Ledger.of(log, predict_by_round(log, CellMeans()))


def certify(problem, log, ledger, *, policies=None, epsilon=0.2, delta=0.1, reference=None, scale=0.1):
    policies = problem.policies if policies is None else policies
    bets = Bets(MULTIPLIERS, (scale,) * ledger.n_rounds)
    evidence = Evidence(log, ledger, policies, bets, epsilon, delta, model=CellMeans().to_json())
    reference = problem.best_policy() if reference is None else reference
    return make_certificate(evidence, reference)


@given(st.floats(0, 100), st.floats(1e-12, 0.999))
def test_the_threshold_is_a_union_over_references(log_size, delta):
    found = certificate_threshold(log_size=log_size, delta=delta)
    assert found == pytest.approx(math.log(math.exp(log_size) / delta))
    assert union_threshold(log_size=log_size, experts=7, delta=delta) == pytest.approx(found + math.log(7))
    problem, log, ledger = played(0, rounds=1, samples=5)
    made = certify(problem, log, ledger, delta=delta)[0].threshold
    assert made == pytest.approx(math.log(12 / delta))


@examples(25)
@given(seeds, st.sampled_from(["listed", "frontier", "argmax"]), st.sampled_from([60, 300, 3000]))
def test_the_certified_epsilon_is_the_smallest_to_two_percent(seed, kind, samples):
    """At it the experts named refute every policy; at 2 % less they do not."""
    problem, log, ledger = played(seed, samples=samples)
    kinds = {"listed": lambda x: x, "frontier": FrontierOnly, "argmax": ArgmaxOnly}
    policies = kinds[kind](problem.policies)
    made, _ = certify(problem, log, ledger, policies=policies)
    own = made.policy(ledger.contexts)
    table = problem.policies.actions(ledger.contexts)

    def value(epsilon):
        against = plain.against_one(own, rounds=ledger.n_rounds)
        used = [
            ledger.log_wealth(against, bets=made.bets.stakes(k), share=made.bets.share, epsilon=epsilon)
            for k in made.experts
        ]
        each = np.array([[score[np.arange(len(row)), row].sum() for row in table] for score in used])
        w = made.share
        if w is None:
            return np.logaddexp.reduce(each, axis=0).min() - math.log(len(MULTIPLIERS))
        spread = -w * math.log(w) - (1 - w) * math.log(1 - w)
        return (w * each[0] + (1 - w) * each[1]).min() + spread - math.log(len(MULTIPLIERS))

    assert value(made.epsilon) == pytest.approx(made.value, rel=1e-9, abs=1e-9)
    assert made.certified == (made.value >= made.threshold)
    assert made.certified == (made.certified_epsilon <= made.epsilon)
    for short, certified in ((0.0, True), (1e-9, False), (0.5, False)):
        assert replace(made, value=made.threshold - short).certified is certified
    if made.certified_epsilon < 1:
        assert value(made.certified_epsilon) >= made.threshold - 1e-9
        if made.certified_epsilon > 1.1e-3:
            assert value(made.certified_epsilon * 0.98) < made.threshold
    else:
        assert value(0.98) < made.threshold


def test_an_epsilon_of_the_bisections_kind_is_certified_itself():
    """What is certified at ε' is certified when ε' is asked for."""
    problem, log, ledger = played(1, samples=500)
    first = certify(problem, log, ledger)[0]
    assert first.certified
    assert first.certified_epsilon < first.epsilon
    again = certify(problem, log, ledger, epsilon=first.certified_epsilon)[0]
    assert again.certified
    assert not certify(problem, log, ledger, epsilon=first.certified_epsilon * 0.98)[0].certified
    # A policy that is worse is certified only further off.
    values = [problem.value(problem.policies.policy(i)) for i in range(12)]
    worst = certify(problem, log, ledger, reference=problem.policies.policy(int(np.argmin(values))))[0]
    assert worst.certified_epsilon > max(values) - min(values)


def test_more_confidence_needs_more():
    problem, log, ledger = played(2, samples=300)
    found = [certify(problem, log, ledger, delta=d)[0] for d in (0.5, 0.05, 1e-3, 1e-9)]
    assert all(one.value == found[0].value for one in found)
    assert np.all(np.diff([one.threshold for one in found]) > 0)
    assert np.all(np.diff([one.certified_epsilon for one in found]) >= 0)


def test_words_and_json_are_complete():
    problem, log, ledger = played(3)
    made, _ = certify(problem, log, ledger)
    text = json.dumps(made.to_json(), allow_nan=False)
    back = json.loads(text)
    assert back == made.to_json()
    names = {"bets": ("multipliers", "scales", "cap_share"), "experts": ("experts",), "share": ("expert_share",)}
    for field in fields(Certificate):
        if field.name in ("limits", "improvement", "by_content", "along_file", "pilot"):  # not always recorded
            continue
        for name in names.get(field.name, (field.name,)):
            assert name in back
    assert back["assumptions"] == [*ASSUMPTIONS, "rewards lie in [0, 1]", FIXED, ROUNDS, BETS_FIXED]
    assert back["claim"] == made.describe()
    rebuilt = policy_from_json(back["policy"])
    assert np.array_equal(rebuilt(problem.population), made.policy(problem.population))
    assert Bets(tuple(back["multipliers"]), tuple(back["scales"]), back["cap_share"]) == made.bets
    assert back["digest"] == digest_log(log)
    assert (back["samples"], back["rows"]) == (450, len(log))
    inexact = ArgmaxOnly(problem.policies)
    inexact.exact = False
    told = certify(problem, log, ledger, policies=inexact)[0]
    assert not told.exact
    assert told.assumptions == (*ASSUMPTIONS, told.within, FIXED, ROUNDS, BETS_FIXED, INEXACT)
    assert told.to_json()["assumptions"][-1] == INEXACT


def test_the_claim_says_what_was_certified():
    problem, log, ledger = played(4, samples=400)
    certified = certify(problem, log, ledger, epsilon=0.5)[0]
    assert certified.certified
    assert "the policy is within 0.5 of the best" in certified.describe()
    near = certify(problem, log, ledger, epsilon=1e-3)[0]
    assert not near.certified
    assert near.describe().startswith("not certified at 0.001")
    assert f"within {near.certified_epsilon:.3g} of the best" in near.describe()
    few = certify(*played(4, rounds=1, samples=3), epsilon=0.01)[0]
    assert few.certified_epsilon == 1
    assert few.describe() == "not certified at 0.01, nor at any smaller distance than 1"


@examples(30)
@given(seeds)
def test_the_digest_is_of_everything(seed):
    log, _ = plain.draw_log(seed)
    row = len(log) - 1
    changed = [
        replace(log, rewards=np.where(np.arange(len(log)) == row, 0.123456, log.rewards)),
        replace(log, rounds=log.rounds + (np.arange(len(log)) == row)),
        replace(log, repeats=log.repeats + (np.arange(len(log)) == row)),
        replace(log, contexts=replace(log.contexts, ids=log.contexts.ids + (np.arange(len(log)) == row))),
        replace(log, contexts=replace(log.contexts, ids=None)),
        replace(log, contexts=replace(log.contexts, features=log.contexts.features + 1e-12)),
        log.followed_by(log),
        log.take(np.append(np.arange(len(log)), 0)),
    ]
    nudged = log.propensities.copy()
    nudged[row, log.actions[row]] -= 1e-8
    changed.append(replace(log, propensities=nudged))
    other = int((log.actions[row] + 1) % log.n_actions)
    if log.propensities[row, other] > 0:
        changed.append(replace(log, actions=np.where(np.arange(len(log)) == row, other, log.actions)))
    assert all(digest_log(one) != digest_log(log) for one in changed)
    same = Log(log.contexts, log.actions, log.rewards, log.propensities, log.rounds, log.repeats)
    assert digest_log(same) == digest_log(log)
    assert digest_log(replace(log, contexts=replace(log.contexts, weights=np.eye(len(log))[0]))) == digest_log(log)
    assert len(digest_log(log)) == 64


@pytest.mark.parametrize("change", [{"names": ("dose", "age")}, {"categories": (None, ("yes", "no"))}])
def test_the_digest_is_of_what_features_mean(change):
    """Swap two names, and a tree of them is another policy on the same numbers."""
    contexts = Contexts.of([[0.5, 1.0], [0.1, 0.0]], names=["age", "dose"], categories=[None, ("no", "yes")])
    log = Log.of(contexts, actions=[0, 1], rewards=[0, 1], propensities=np.full((2, 2), 0.5))
    if "names" in change:
        change = change | {"categories": contexts.categories}
    assert digest_log(replace(log, contexts=replace(contexts, **change))) != digest_log(log)


def test_the_digest_tells_shapes_apart():
    """The same numbers in another form are another log: three rows of two actions are not two rows of three."""
    numbers = np.full(6, 0.5)
    assert digest([numbers.reshape(2, 3)]) != digest([numbers.reshape(3, 2)])
    assert digest([numbers[:2], numbers[2:]]) != digest([numbers[:3], numbers[3:]])


def test_rewards_outside_the_unit_interval_are_refused():
    with pytest.raises(InputError, match=r"rewards must lie in \[0, 1\], but they range from -.* rescale them"):
        played(5, spec="hard:m=4,noise=gaussian")


@pytest.mark.parametrize("bad", [{"delta": 5.0}, {"delta": 0.0}, {"delta": math.nan}, {"epsilon": -0.5}])
def test_epsilon_and_delta_must_make_sense(bad):
    """A δ above 1 lowers the threshold without end."""
    with pytest.raises(InputError):
        certify(*played(6), **bad)


def test_no_calls_are_counted_where_none_are_made():
    assert certify(*played(7))[1] == 0

"""That a policy is the best of its class (ε = 0): how often the claim errs, and what verify and files make of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits import confidence
from pacbandits.certificate import Bets, Evidence, Leaders, Ledger, making
from pacbandits.certificate.making import make_certificate
from pacbandits.compiled import using_cores
from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.policies.rivals import RivalClass
from pacbandits.records import Contexts, Log
from tests.certificate.boundary import fewest, most
from tests.certificate.plain import against_one

STAKE = 0.1


@pytest.fixture(autouse=True)
def _one_core():
    with using_cores(1):
        yield


def evidence_of(policies, counts, *, delta, stakes=(STAKE,), best=1):
    """Sure rewards and predictions: action `best` earns 1 and others nothing, in as many rows as counts (contexts,) of
    each context; best may be one action a context."""
    n, ids = policies.n_actions, np.flatnonzero(counts)
    earns = np.broadcast_to(best, counts.shape)[ids]
    means = np.zeros((len(ids), n))
    means[np.arange(len(ids)), earns] = 1.0
    log = Log.of(
        Contexts.finite(len(counts)).take(ids),
        actions=earns,
        rewards=np.ones(len(ids)),
        propensities=np.full((len(ids), n), 1.0 / n),
        repeats=counts[ids],
    )
    return Evidence(log, Ledger.of(log, means), policies, Bets(stakes, (1.0,)), 0.0, delta, model={})


def growth(policies, rival, reference, *, best):
    """What a row of each context adds to the log-wealth against a rival (contexts,), at ε = 0."""
    evidence = evidence_of(policies, np.ones(policies.n_contexts, dtype=int), delta=0.5, best=best)
    against = against_one(policies.policy(reference)(evidence.ledger.contexts), rounds=1)
    actions = policies.policy(rival)(evidence.ledger.contexts)
    return evidence.wealths((0,), against=against, epsilon=0.0)[0][np.arange(len(actions)), actions]


# Two contexts, two policies: each earns in one of the contexts, and they are worth the same.
TIED = Finite([[0, 1], [1, 0]], n_actions=2)


def certified_ties(runs, *, delta, seed=1, rows=6000):
    """Counts (2,) at which one of two policies that are worth the same is first taken for the best, a run an entry."""
    rng = np.random.default_rng(seed)
    first = rng.random((runs, rows)) < 0.5
    counts = np.stack([np.cumsum(first, axis=1), np.cumsum(~first, axis=1)], axis=2)
    needed = evidence_of(TIED, np.array([1, 1]), delta=delta).needed
    paths = [counts @ growth(TIED, 1 - q, q, best=1) for q in (0, 1)]
    crossed = np.maximum(*paths) >= needed
    return [(counts[run, crossed[run].argmax()]) for run in np.flatnonzero(crossed.any(axis=1))]


def test_ties_are_taken_for_the_best_no_more_often_than_delta_says():
    """Wealth against an equal is a martingale, and the bound nearly attained: 0.9 δ, less what the last row jumps."""
    delta, runs = 0.3, 600
    found = certified_ties(runs, delta=delta)
    assert fewest(runs, 0.7 * delta) <= len(found) <= most(runs, delta)
    for counts in found[:5]:  # so say the certificates themselves
        made = [make_certificate(evidence_of(TIED, counts, delta=delta), TIED.policy(q))[0] for q in (0, 1)]
        assert sum(one.certified for one in made) == 1


def test_without_the_price_of_names_ties_are_taken_for_the_best_too_often(monkeypatch):
    whole = confidence.best_threshold
    monkeypatch.setattr(making, "best_threshold", lambda *, delta, log_size: whole(delta=delta, log_size=0.0))
    assert len(certified_ties(600, delta=0.3)) > most(600, 0.3)


# Action 1 earns everywhere, so the last is best, if by one context in twenty; the first lags behind it alone.
NEAR = Finite([[1] * 19 + [0], [0] * 20, [1] * 20], n_actions=2)


def wrong_best(runs, *, delta, seed=2):
    """In how many runs the second best is taken for the best, at any of several looks."""
    rng, wrong = np.random.default_rng(seed), 0
    for _ in range(runs):
        looks = rng.multinomial(40, np.full(20, 1 / 20), size=5).cumsum(axis=0)
        evidences = (evidence_of(NEAR, counts, delta=delta, stakes=(0.4, 0.1)) for counts in looks)
        found = [make_certificate(one, NEAR.policy(0))[0] for one in evidences]
        wrong += any(one.certified and one.certified_epsilon < 1 / 20 for one in found)
    return wrong


@pytest.mark.thorough
def test_who_is_nearly_the_best_is_not_taken_for_it(monkeypatch):
    assert wrong_best(40, delta=0.3) <= most(40, 0.3)

    class Far(RivalClass):
        """Those who act otherwise on a tenth of the contexts: whoever leaves out the others errs."""

        def __init__(self, policies, contexts, reference):
            super().__init__(policies, contexts, reference)
            table = np.asarray(policies.actions(contexts))
            self._numbers = np.flatnonzero((table != reference).mean(axis=1) > 0.1)

    monkeypatch.setattr(making, "rivals_of", lambda policies, contexts, own: Far(policies, contexts, own))
    assert wrong_best(40, delta=0.3) > most(40, 0.3)


def test_the_parts_of_delta_are_one_whole():
    """Refuted though it is best, 0.9 δ; best and never seen to act otherwise, 0.1 δ, for all n at once."""
    delta, log_size = 0.05, math.log(40)
    refuted = 40 * math.exp(-confidence.best_threshold(delta=delta, log_size=log_size))
    for n in (1, 10, 1000):
        share = confidence.unseen_share(n, delta=delta, log_size=log_size)
        unseen = 40 * (1 - share) ** n  # a policy that differs on this share, and was not seen to
        assert refuted + unseen == pytest.approx(delta)


def test_what_was_not_seen_is_told():
    """The last context never came: who acts otherwise there alone is no rival, and the claim leaves room for that."""
    counts = np.array([300] * 19 + [0])
    made, _ = make_certificate(evidence_of(NEAR, counts, delta=0.05), NEAR.policy(0))
    assert made.certified
    assert made.certified_epsilon == confidence.unseen_share(5700, delta=0.05, log_size=math.log(3))
    assert made.describe() == (
        "except with probability 0.05 the policy is the best of its class, as far as the log can tell: those who are "
        "best act as it does on all but a share of 0.00113 of contexts, so that it is within 0.00113 of them"
    )
    counts[-1] = 300
    seen, _ = make_certificate(evidence_of(NEAR, counts, delta=0.05), NEAR.policy(2))
    assert (seen.certified, seen.certified_epsilon) == (True, 0.0)
    assert seen.describe().endswith("the policy is the best of its class, and no other is as good")
    lagging, _ = make_certificate(evidence_of(NEAR, counts, delta=0.05), NEAR.policy(0))
    assert not lagging.certified
    assert lagging.certified_epsilon > 1 / 20
    assert lagging.describe().startswith("not certified as the best itself; except with probability 0.05")


def test_of_a_class_whose_policies_act_alike_each_is_the_best():
    alone = Finite([[1, 1], [1, 0]], n_actions=2)
    made, _ = make_certificate(evidence_of(alone, np.array([50, 0]), delta=0.05), alone.policy(1))
    assert made.certified
    assert made.value == made.threshold
    assert made.certified_epsilon > 0


def test_leaders_prove_no_best():
    evidence = evidence_of(NEAR, np.full(20, 10), delta=0.05)
    with pytest.raises(InputError, match="without leaders"):
        replace(evidence, leaders=Leaders())


def uniform_log(problem, samples, *, seed=0, rounds=4):
    rng, n = np.random.default_rng(seed), problem.n_actions
    sampler = pb.Design.uniform(problem.best_policy())
    logs = [problem.interact(sampler, samples=samples // rounds, rng=rng) for _ in range(rounds)]
    whole = logs[0]
    for number, log in enumerate(logs[1:], 1):
        whole = whole.followed_by(replace(log, rounds=np.full(len(log), number)))
    assert whole.n_actions == n
    return whole


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("spec", "samples"),
    [
        ("trivial:contexts=4,actions=3,gap=0.4,seed=2", 4000),
        ("trivial:contexts=10,actions=3,gap=0.6,seed=2", 12_000),  # a class as large as those that have leaders
        ("hard:m=6,noise=bernoulli", 800),
        ("trees:contexts=12,features=2,bins=2,actions=2,competitive=2,depth=1", 2000),
    ],
)
def test_certify_proves_the_best_itself_and_verify_agrees(spec, samples, tmp_path):
    problem = pb.load_problem(spec)
    log = uniform_log(problem, samples)
    made = pb.certify(log, problem.policies, epsilon=0.0, delta=0.05).certificate
    assert made.certified == ("trees" not in spec)
    assert not made.certified or problem.value(made.policy) == problem.value(problem.best_policy())
    assert pb.verify(made, log, problem.policies).good
    pb.save_certificate(tmp_path / "proof.json", made, problem.policies)
    proof = pb.load_certificate(tmp_path / "proof.json")
    assert pb.verify(proof.certificate, log, proof.policies).good
    assert proof.certificate.describe() == made.describe()
    short = log.only(log.rounds == 0)
    early = pb.certify(short, problem.policies, epsilon=0.0, delta=0.05).certificate
    assert pb.verify(early, short, problem.policies).good


def test_verify_refuses_a_best_that_is_none():
    problem = pb.load_problem("trivial:contexts=4,actions=3,gap=0.4,seed=2")
    log = uniform_log(problem, 4000)
    made = pb.certify(log, problem.policies, epsilon=0.0, delta=0.05).certificate
    other = Trivial(4, 3).policy_of((made.policy.table + np.array([1, 0, 0, 0])) % 3)
    larger = made.threshold - math.log(0.9)
    for forged, words in (
        (replace(made, value=made.value + 1.0), "the least log-wealth is"),
        (replace(made, policy=other), "the least log-wealth is"),
        (replace(made, threshold=made.threshold + math.log(0.9)), "is not"),
        (replace(made, certified_epsilon=0.1), "what the log has not seen may cost 0, not 0.1"),
        (replace(made, epsilon=0.01, threshold=larger), "no confidence statement"),
        (replace(made, threshold=larger), "the threshold"),
    ):
        verdict = pb.verify(forged, log, problem.policies)
        assert any(words in fault for fault in verdict.faults), (words, verdict.faults)
    part = log.only(log.contexts.ids != 3)
    unseen = pb.certify(part, problem.policies, epsilon=0.0, delta=0.05).certificate
    assert unseen.certified
    assert unseen.certified_epsilon > 0
    assert pb.verify(unseen, part, problem.policies).good
    claimed = replace(unseen, certified_epsilon=0.0)
    assert any("has not seen" in fault for fault in pb.verify(claimed, part, problem.policies).faults)


def test_an_approximate_certificate_is_for_a_distance():
    problem = pb.load_problem("hard:m=6,noise=bernoulli")
    with pytest.raises(InputError, match="needs an epsilon above 0"):
        pb.certify_asymptotically(uniform_log(problem, 200), problem.policies, epsilon=0.0, delta=0.05, rng=0)

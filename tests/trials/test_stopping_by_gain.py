"""Trials that stop by a proven gain over today's practice: bets that no analysis changes, false proofs, refusals."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import pacbandits as pb
from pacbandits.certificate.certify import Request, certify_rows
from pacbandits.certificate.ledger import plan_moves
from pacbandits.certificate.stakes import even_stakes
from pacbandits.errors import InputError
from pacbandits.policies.trees.classes import Trees
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts
from pacbandits.rewards import CellMeans
from pacbandits.trials.coda import Coda, Uniform

KINDS = ("coda", "uniform")


def problem(means, *, by_person=0.0, n_contexts=24, depth=1) -> Problem:
    """Everybody has these means, and the last action earns more or less by the first feature."""
    rng = np.random.default_rng(7)
    features = rng.normal(size=(n_contexts, 2)).round(1)
    rewards = np.tile(np.array(means, dtype=float), (n_contexts, 1))
    rewards[:, -1] += by_person * np.where(features[:, 0] <= 0, -1.0, 1.0)
    contexts = replace(Contexts.of(features, names=["x", "y"]), ids=np.arange(n_contexts))
    policies = Trees.learn(contexts, n_actions=rewards.shape[1], depth=depth, bins=4)
    return Problem("test", "test", contexts, rewards, Bernoulli(), policies)


BETTER, BY_PERSON, ALIKE = ((0.3, 0.7, 0.4), 0.0), ((0.5, 0.3, 0.5), 0.35), ((0.3, 0.3, 0.3), 0.0)


@cache
def played(kind: str, case=BETTER, seed=1) -> tuple[Problem, pb.Run]:
    chosen = problem(case[0], by_person=case[1])
    return chosen, pb.run(chosen, algorithm=kind, delta=0.05, improve_on=0, rng=seed)


@pytest.mark.parametrize(("kind", "case"), [("coda", BETTER), ("uniform", BY_PERSON)])
def test_a_run_stops_at_the_first_analysis_that_proves_a_gain(kind, case):
    chosen, done = played(kind, case)
    improvement = done.certificate.improvement
    assert done.stopped == "done"
    assert done.correct
    assert [figures["proven_gain"] > 0 for figures in done.history] == [False] * (done.rounds - 1) + [True]
    assert improvement.recommended.low == done.proven_gain == done.history[-1]["proven_gain"]
    assert 0 < done.proven_gain <= done.true_gain == pytest.approx(chosen.value(done.policy) - case[0][0])
    assert done.policy.to_json() == improvement.policy.to_json() == done.certificate.policy.to_json()
    assert done.certificate.any_time
    told = done.to_json()
    assert (told["improve_on"], told["proven_gain"], told["true_gain"]) == (0, done.proven_gain, done.true_gain)


@pytest.mark.parametrize(("kind", "case"), [("coda", BETTER), ("uniform", BY_PERSON)])
def test_the_certificate_is_the_one_that_certify_makes_of_the_log_and_verifies(kind, case):
    """Also of the fixed split of `uniform`: its rows are not shuffled, as the end depends on rewards."""
    chosen, done = played(kind, case)
    again = certify_rows(done.log, Request(policies=chosen.policies, control="0")).certificate
    assert not again.shuffled
    assert again.to_json() == done.certificate.to_json()
    assert pb.verify(done.certificate, done.log, chosen.policies).good
    improvement = done.certificate.improvement
    most = max(improvement.candidates, key=lambda one: one.low)
    told = tuple(replace(one, low=one.low + 0.01) if one is most else one for one in improvement.candidates)
    forged = replace(done.certificate, improvement=replace(improvement, candidates=told))
    assert not pb.verify(forged, done.log, chosen.policies).good


def test_a_later_analysis_changes_no_earlier_bet():
    """Leaders, moved weight, predictions and stakes of the first rounds are those of an analysis of these alone."""
    chosen, rng = problem((0.5, 0.3, 0.5), by_person=0.2), np.random.default_rng(3)
    trial = Coda(0.1, 0.05, improve_on=0, gain=0.9, pilot=260)
    states = [trial.start(chosen.policies, chosen.population)]
    for _ in range(6):
        plan = trial.design(states[-1])
        log = chosen.interact(plan.sampler, samples=plan.samples, rng=rng)
        states.append(trial.absorb(states[-1], plan, log))
    last = states[-1]
    assert any(len(one.leaders.policies) > 1 for one in last.improvement.candidates)
    for state in (states[3], states[5]):
        n = state.round_number
        np.testing.assert_array_equal(state.predictions, last.predictions[: len(state.log)])
        assert last.improvement.scale == state.improvement.scale == 1.0
        for now, then in zip(last.improvement.candidates, state.improvement.candidates, strict=True):
            few, counts = len(then.leaders.policies), (last.log.round_sizes, state.log.round_sizes)
            assert (now.leaders.turns[:n], now.leaders.sizes[:n]) == (then.leaders.turns, then.leaders.sizes)
            for one, other in zip(now.leaders.policies, then.leaders.policies, strict=False):
                assert one.to_json() == other.to_json()
            moves, before = (
                plan_moves(one.leaders, units=even_stakes(len(each)).bets.units, counts=each)[0]
                for one, each in zip((now, then), counts, strict=True)
            )
            np.testing.assert_array_equal(moves[:n, :few], before)
            assert not moves[:n, few:].any()


def test_a_gain_asked_for_is_waited_for():
    chosen = problem(*BETTER[:1])
    done = pb.run(chosen, algorithm="uniform", delta=0.05, improve_on=0, gain=0.15, rng=1)
    assert done.stopped == "done"
    assert 0.15 <= done.proven_gain <= done.true_gain == pytest.approx(0.4)
    assert done.samples > played("uniform")[1].samples


def test_where_nothing_is_better_the_control_is_kept_and_the_budget_ends_the_run():
    chosen = problem((0.8, 0.3, 0.4))
    done = pb.run(chosen, delta=0.05, improve_on=0, rng=1, max_samples=800)
    assert done.stopped == "budget"
    assert done.certificate.improvement.recommended is None
    assert isinstance(done.policy, TreePolicy)
    assert done.policy.root == 0
    assert (done.proven_gain, done.true_gain) == (0.0, 0.0)
    assert "no gain over action 0 is proven" in done.guarantee
    assert pb.verify(done.certificate, done.log, chosen.policies).good
    first = pb.run(chosen, delta=0.05, improve_on=0, rng=1, max_samples=200)
    assert first.certificate is None
    assert "before the second round" in first.guarantee


def is_ever_wrong(kind: str, chosen: Problem, seed: int, *, delta: float, most: int) -> bool:
    """Return whether a bound exceeds the true gain of its candidate at any analysis, until a gain is proven."""
    trial = (Coda if kind == "coda" else Uniform)(0.1, delta, pilot=60, growth=0.4, model=CellMeans(), improve_on=0)
    rng, state = np.random.default_rng(seed), trial.start(chosen.policies, chosen.population)
    today = float(chosen.population.weights @ chosen.mean_rewards[:, 0])
    while (plan := trial.design(state)) is not None and state.samples + plan.samples <= most:
        state = trial.absorb(state, plan, chosen.interact(plan.sampler, samples=plan.samples, rng=rng))
        found = () if state.improvement is None else state.improvement.candidates
        if any(one.low > chosen.value(one.policy) - today + 1e-9 for one in found):
            return True
    return False


@pytest.mark.thorough
def test_false_proofs_of_short_runs_are_rare():
    chosen, runs, delta = problem(*ALIKE[:1], depth=0), 40, 0.3
    wrong = sum(is_ever_wrong("uniform", chosen, seed, delta=delta, most=700) for seed in range(runs))
    assert wrong <= stats.binom.ppf(0.999, runs, delta)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "case"), [("coda", ALIKE), ("uniform", ALIKE), ("uniform", ((0.5, 0.5, 0.5), 0.1))])
def test_false_proofs_are_rare_with_an_analysis_after_every_round(kind, case):
    """Runs that stop as soon as a gain seems proven, where no action is better for anybody, or one for some."""
    chosen, runs, delta = problem(case[0], by_person=case[1]), 300, 0.2
    wrong = sum(is_ever_wrong(kind, chosen, 1000 + seed, delta=delta, most=1500) for seed in range(runs))
    assert wrong <= stats.binom.ppf(0.99, runs, delta)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_in_pieces_is_a_run_in_one(kind, tmp_path):
    """The control of a design need not be a policy of the class."""
    spec = "two-of-many:actions=4,policies=12,contexts=8"
    asked = {"algorithm": kind, "delta": 0.05, "improve_on": 1}
    whole = pb.run(spec, rng=4, **asked)
    assert whole.rounds > 3
    part = pb.run(spec, rng=4, state=tmp_path / "state", max_samples=whole.history[-2]["total"], **asked)
    assert part.stopped == "budget"
    done = pb.run(spec, rng=4, state=tmp_path / "state", **asked)
    assert done.to_json() | {"seconds": 0} == whole.to_json() | {"seconds": 0}
    with pytest.raises(InputError, match="improve_on was 1, and is 0 now"):
        pb.run(spec, rng=4, state=tmp_path / "state", **asked | {"improve_on": 0})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"improve_on": 3}, "improve_on, the number of an action, must be at most 2, got 3"),
        ({"improve_on": -1}, "improve_on, the number of an action, must be 0 or more, got -1"),
        ({"improve_on": "new"}, "improve_on, the number of an action, must be a whole number"),
        ({"improve_on": 0, "gain": 1.0}, "gain must be"),
        ({"improve_on": 0, "gain": -0.1}, "gain must be"),
        ({"gain": 0.1, "epsilon": 0.1}, "name that action: improve_on=0"),
        ({"improve_on": 0, "epsilon": 0.1}, "leave out epsilon, or improve_on"),
        ({"improve_on": 0, "answer": "single"}, "leave out single, or improve_on"),
        (
            {"improve_on": 0, "algorithm": "coda-oracle"},
            "coda-oracle does not stop by a proven gain; coda and uniform do",
        ),
        ({"improve_on": 0, "algorithm": Coda(0.1, 0.05)}, "give 'improve_on' to it, not to run"),
    ],
)
def test_what_cannot_be_asked_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        pb.run(problem(*BETTER[:1]), delta=0.05, rng=1, **options)

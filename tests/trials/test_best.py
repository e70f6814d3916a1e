"""Trials that ask for the best policy itself (ε = 0)."""

from __future__ import annotations

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.certificate import Ledger, making
from pacbandits.policies.finite import Finite
from pacbandits.policies.rivals import rivals_of
from pacbandits.problems import Bernoulli, Problem
from pacbandits.trials.trial import find_hardest, mixture, nominal_hardest

KINDS = (pb.Coda, pb.Uniform)


def tie():
    """Two policies that are worth the same, and a third."""
    means = [[0.8, 0.2], [0.2, 0.8], [0.5, 0.5]]
    table = [[0, 0, 0], [1, 1, 0], [1, 0, 1]]
    return Problem("tie", "A tie.", pb.Contexts.finite(3), np.array(means), Bernoulli(), Finite(table, n_actions=2))


def nearly():
    """Of four policies the last is the best, by one context in ten; the first is next."""
    means, table = [[0.4, 0.9], [0.5, 0.5], [0.2, 0.8]], [[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 1]]
    contexts = pb.Contexts.finite(3, weights=[0.1, 0.4, 0.5])
    return Problem("nearly", "Nearly.", contexts, np.array(means), Bernoulli(), Finite(table, n_actions=2))


@pytest.mark.first(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "spec", ["hard:m=6,noise=bernoulli", "trivial:contexts=4,actions=3,gap=0.4,seed=2", "random:policies=8,contexts=6"]
)
def test_it_stops_with_the_best(kind, spec):
    problem = pb.load_problem(spec)
    done = pb.run(problem, algorithm=kind(0.0, 0.05), rng=1)
    assert (done.stopped, done.correct, done.value_gap) == ("done", True, 0.0)
    assert done.certificate.certified_epsilon == 0
    assert "the policy is the best of its class, and no other is as good" in done.guarantee
    assert pb.verify(done.certificate, done.log, problem.policies).good
    assert all(figures["certified_epsilon"] > 0 for figures in done.history[:-1])


@pytest.mark.thorough
def test_a_tie_goes_on_until_samples_end_with_what_is_known():
    done = pb.run(tie(), algorithm="coda", epsilon=0.0, delta=0.05, rng=1, max_samples=4000)
    assert done.stopped == "budget"
    assert not done.certificate.certified
    assert 0 < done.certificate.certified_epsilon < 0.2
    assert "not certified as the best itself; except with probability 0.05" in done.guarantee
    assert pb.verify(done.certificate, done.log, tie().policies).good


def test_a_tie_that_is_broken_for_those_who_look_ends():
    """One of the two is left out: the other is the best, and the same trial says so."""
    problem = tie()
    chosen = Finite(problem.policies.table[[0, 2]], n_actions=2)
    done = pb.run(problem, chosen, algorithm="coda", epsilon=0.0, delta=0.05, rng=1, max_samples=4000)
    assert (done.stopped, done.correct) == ("done", True)


def certified(problem, kind, *, runs, delta, samples):
    """The policies that are taken for the best within about so many samples, one a run that comes to that."""
    found = []
    for seed in range(runs):
        rng, trial = np.random.default_rng(seed), kind(0.0, delta, pilot=24, growth=1.0)
        state = trial.start(problem.policies, problem.population)
        while state.samples < samples and (plan := trial.design(state)) is not None:
            state = trial.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
        found += [state.policy] if state.finished else []
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_trials_err_no_more_often_than_delta_says(kind, monkeypatch):
    """Whoever takes one of two equals for the best errs, or who takes the second best: at a small δ one is too many.

    The same trials err where an equal is no rival.
    """
    problem, few = nearly(), 15
    assert not certified(tie(), kind, runs=few, delta=1e-4, samples=1000)
    found = certified(problem, kind, runs=few, delta=1e-4, samples=4000)
    assert len(found) > few / 2
    assert {problem.value(policy) for policy in found} == {problem.value(problem.best_policy())}

    def others(policies, contexts, own):
        """The rivals but for the two that are equal."""
        third = Finite(policies.table[2:], n_actions=2)
        return rivals_of(third, contexts, own)

    monkeypatch.setattr(making, "rivals_of", others)
    assert len(certified(tie(), kind, runs=few, delta=1e-4, samples=1000)) > few / 2


def test_states_are_saved_and_go_on(tmp_path):
    problem, trial = pb.load_problem("random:policies=8,contexts=6"), pb.Coda(0.0, 0.05)
    rng, state = np.random.default_rng(0), trial.start(problem.policies, problem.population)
    for _ in range(4):
        plan = trial.design(state)
        state = trial.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
    pb.save_state(tmp_path / "trial", trial, state)
    loaded, again = pb.load_state(tmp_path / "trial")
    assert loaded == trial
    assert trial.design(again).scale == trial.design(state).scale
    over = pb.load_problem("hard:m=6,noise=bernoulli")
    state = trial.start(over.policies, over.population)
    while (plan := trial.design(state)) is not None:
        state = trial.absorb(state, plan, over.interact(plan.sampler, samples=plan.samples, rng=rng))
    pb.save_state(tmp_path / "over", trial, state)
    assert pb.load_state(tmp_path / "over")[1].finished


def test_classes_that_cannot_be_asked_for_the_best():
    problem = pb.load_problem("trees:actions=3")
    with pytest.raises(pb.InputError, match="an epsilon of 0 asks for the best policy itself"):
        pb.Coda(0.0, 0.05).start(problem.policies, problem.population)


def test_the_hardest_rival_is_the_one_that_is_refuted_last():
    """By a list: of all stakes the one whose least growth is largest, and the rival it is of."""
    problem, trial = pb.load_problem("random:policies=8,contexts=6"), pb.Uniform(0.0, 0.05)
    rng, state = np.random.default_rng(0), trial.start(problem.policies, problem.population)
    for _ in range(5):
        plan = trial.design(state)
        state = trial.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
    ledger = Ledger.of(state.log, state.predictions)
    mixed, own = mixture(state.played, ledger.contexts), state.leader(ledger.contexts)
    gaps, squares = ledger.gaps(mixed, reference=own)
    rows = np.arange(len(own))
    unlike = [one for one in problem.policies.actions(ledger.contexts) if (one != own).any()]
    gap, variance = (np.array([part[rows, one].sum() for one in unlike]) for part in (gaps, ledger.samples * squares))
    stakes = 0.45 * 0.5 ** (np.arange(49) / 2)
    growth = (stakes[:, None] * gap - stakes[:, None] ** 2 * variance / 2).min(axis=1)
    found = find_hardest(problem.policies, ledger, mixed, own, delta=0.05)
    least = nominal_hardest(problem.policies, ledger.samples, delta=0.05).stake
    assert found.stake == pytest.approx(max(stakes[growth.argmax()], least))
    worst = (stakes[growth.argmax()] * gap - stakes[growth.argmax()] ** 2 * variance / 2).argmin()
    assert (found.gap, found.error**2 * ledger.samples) == pytest.approx((gap[worst], variance[worst]))
    alone = Finite(state.leader(problem.population)[None, :], n_actions=problem.n_actions)
    assert find_hardest(alone, ledger, mixed, own, delta=0.05) is None

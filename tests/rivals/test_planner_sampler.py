"""Planner and sampler: right with probability 1 − δ, blind to rewards until the end, and no dearer than d²/ε²."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, chi2

from pacbandits.confidence import fixed_design_bound
from pacbandits.errors import InputError
from pacbandits.policies.finite import Trivial
from pacbandits.policies.linear.policy import GreedyPolicy
from pacbandits.problems import Bernoulli, Problem, load_problem
from pacbandits.records import Contexts, RewardBounds
from pacbandits.rivals.planner_sampler import MixtureSampler, PlannerSampler, mean_uncertainty
from pacbandits.simulation import run

PROBLEMS = (
    "linear:dimension=3,actions=4,contexts=40,policies=60,seed=1",
    "linear:dimension=6,actions=12,contexts=60,policies=100,spread=2,seed=2",
    "linear:dimension=2,actions=2,contexts=30,policies=20,seed=3,noise=gaussian,variance=0.1",
)
RARE = 1e-6


def play(spec, *, every, epsilon=0.1, delta=0.1, seed=0, **more):
    problem = load_problem(spec) if isinstance(spec, str) else spec
    policies = Trivial(len(problem.population), problem.n_actions) if every else problem.policies
    return run(problem, policies, algorithm="planner-sampler", epsilon=epsilon, delta=delta, rng=seed, **more)


@pytest.mark.first(3)
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("spec", PROBLEMS)
def test_it_stops_right(spec, every):
    done = play(spec, every=every)
    assert done.stopped == "done"
    assert done.correct
    assert done.history[-1]["bound"] <= 0.1
    assert isinstance(done.policy, GreedyPolicy) is every
    assert "mean rewards are linear in the given features" in done.guarantee


@pytest.mark.parametrize("rank", [1, 2, 5, 30])
@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-3, 1e-9])
def test_the_bound_on_the_noise_holds_and_is_not_idle(rank, delta):
    """Of Gaussian noise ‖Σ φη‖²_{V⁻¹}/R² is a χ² of r degrees; half the last term would not do for small δ."""
    bound = fixed_design_bound(rank, noise=0.25, delta=delta) / 0.25
    assert chi2.sf(bound, rank) <= delta
    assert bound <= 3 * chi2.isf(delta, rank) + 3
    if delta == 1e-9:
        assert chi2.sf(bound + np.log(delta), rank) > delta


def test_uncertainty_is_its_definition():
    rng = np.random.default_rng(0)
    phi, weights = rng.standard_normal((7, 4, 3)), rng.dirichlet(np.ones(7))
    information = phi.reshape(-1, 3).T @ phi.reshape(-1, 3)
    inverse = np.linalg.inv(information)
    wanted = 0.0
    for c in range(7):
        pairs = [phi[c, a] - phi[c, b] for a in range(4) for b in range(4)]
        wanted += weights[c] * max(np.sqrt(x @ inverse @ x) for x in pairs)
    assert mean_uncertainty(phi, weights, information) == pytest.approx(wanted)
    assert mean_uncertainty(phi, weights, np.diag([1.0, 1.0, 0.0])) == np.inf


def test_many_contexts_go_in_blocks(monkeypatch):
    rng = np.random.default_rng(1)
    phi, weights, form = rng.standard_normal((50, 4, 3)), rng.dirichlet(np.ones(50)), np.diag([1.0, 2.0, 3.0])
    whole = mean_uncertainty(phi, weights, form)
    monkeypatch.setattr("pacbandits.rivals.planner_sampler._BLOCK_PAIRS", 16 * 7)
    assert mean_uncertainty(phi, weights, form) == pytest.approx(whole)


@pytest.mark.parametrize("spec", PROBLEMS)
def test_the_mixture_serves_all_directions_nearly_as_well_as_can_be(spec):
    """The best design has E max_a ‖φ(c, a)‖²_{A⁻¹} = r (Kiefer and Wolfowitz); the planner's is close to it."""
    problem = load_problem(spec)
    algorithm = PlannerSampler(0.05, 0.1, rewards=problem.reward_bounds)
    state = algorithm.start(problem.policies, problem.population)
    sampler, planned = algorithm.plan_mixture(state.population)
    phi, weights = state.population.phi, state.population.contexts.weights
    p = sampler.propensities(problem.population)
    a = np.einsum("c,ca,cai,caj->ij", weights, p, phi, phi)
    rank = phi.shape[2]
    largest = weights @ np.einsum("cai,ij,caj->ca", phi, np.linalg.inv(a), phi).max(axis=1)
    assert rank * (1 - 1e-9) <= largest <= 1.25 * rank
    # What is planned is just enough if it is spread as its mean is, and no more than theory says.
    assert 0.99 * 0.05 <= algorithm.bound(state.population, planned * a) <= 0.05 * (1 + 1e-9)
    bound = fixed_design_bound(rank, noise=algorithm.rewards.proxy, delta=0.1)
    assert planned <= 1.25 * 4 * rank * bound / 0.05**2
    assert planned >= 0.1 * rank * bound / 0.05**2
    # Policies as the planner defines them: each takes the action it knows least of.
    first = np.einsum("cai,cai->ca", phi, phi).argmax(axis=1)
    assert p[np.arange(len(p)), first].min() >= sampler.shares[0] - 1e-12


def test_neither_the_mixture_nor_the_stop_looks_at_rewards():
    problem = load_problem(PROBLEMS[0])
    algorithm = PlannerSampler(0.1, 0.1)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    assert isinstance(plan.sampler, MixtureSampler)
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    one, two = (algorithm.absorb(state, plan, replace(log, rewards=r)) for r in (log.rewards, 1 - log.rewards))
    assert (one.finished, one.history[-1]["bound"]) == (two.finished, two.history[-1]["bound"])
    assert one.policy.to_json() != two.policy.to_json()
    # A round that is too short by luck is followed by one of the same mixture.
    fewer = replace(plan, samples=plan.samples // 2)
    log = problem.interact(plan.sampler, samples=fewer.samples, rng=np.random.default_rng(0))
    again = algorithm.absorb(state, fewer, log)
    assert not again.finished
    later = algorithm.design(again)
    assert later.sampler is plan.sampler
    assert later.samples == pytest.approx(0.1 * fewer.samples, abs=1)


def two_good_directions(gap):
    """A single context with actions along the axes and their opposites: to be wrong is to take another axis."""
    phi = np.concatenate([np.eye(4), -np.eye(4)])[None]
    theta = np.array([gap, 0.0, 0.0, 0.0])
    phi = np.concatenate([np.ones((1, 8, 1)), phi], axis=2)
    means = phi @ np.concatenate([[0.5], theta])
    return Problem("axes", "", Contexts.finite(1, phi=phi), means, Bernoulli(), Trivial(1, 8))


def errors(*, runs, delta, **more):
    problem = two_good_directions(0.1)
    return sum(
        play(problem, every=True, epsilon=0.09, delta=delta, seed=s, **more).value_gap > 0.09 for s in range(runs)
    )


@pytest.mark.thorough
def test_errors_are_as_rare_as_delta_says(monkeypatch):
    """At so small a δ one is too many; with a bound on the noise that is far too small, they do occur."""
    assert errors(runs=15, delta=5e-8) == binom.ppf(1 - RARE, 15, 5e-8) == 0
    monkeypatch.setattr(
        "pacbandits.rivals.planner_sampler.fixed_design_bound", lambda rank, *, noise, delta: 0.01 * noise * rank
    )
    assert errors(runs=40, delta=0.1) > binom.ppf(1 - RARE, 40, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.5, 0.1])
def test_errors_are_as_rare_as_delta_says_over_many_runs(delta):
    assert errors(runs=300, delta=delta) <= binom.ppf(0.99, 300, delta)


def test_offline_contexts_and_a_sample_of_them():
    done = play(PROBLEMS[0], every=True, offline_contexts=500)
    assert done.stopped == "done"
    assert done.correct
    assert "500 contexts that were drawn stand well enough" in done.guarantee


def test_actions_that_are_all_alike_leave_nothing_to_learn():
    phi = np.repeat(np.random.default_rng(0).uniform(0.1, 0.5, size=(5, 1, 2)), 3, axis=1)
    contexts = Contexts.finite(5, phi=phi)
    problem = Problem("alike", "", contexts, phi.sum(axis=2), Bernoulli(), Trivial(5, 3))
    done = play(problem, every=True, epsilon=0.01)
    assert (done.stopped, done.samples) == ("done", 0)
    assert done.correct


def test_rewards_without_noise_need_every_direction_once():
    problem = load_problem(PROBLEMS[0])
    algorithm = PlannerSampler(0.1, 0.1, rewards=RewardBounds(1.0, proxy=0.0))
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    assert plan.samples < 100
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    exact = replace(log, rewards=problem.mean_rewards[log.contexts.ids, log.actions])
    after = algorithm.absorb(state, plan, exact)
    if after.finished:
        assert problem.value(after.policy) == pytest.approx(problem.value(problem.best_policy()))


def test_what_it_cannot_do_is_said():
    with pytest.raises(InputError, match="not of Trees"):
        run("trees:actions=3,contexts=50", algorithm="planner-sampler", epsilon=0.1, delta=0.1, rng=0)
    with pytest.raises(InputError, match="neither features nor phi"):
        run("hard:m=5", algorithm="planner-sampler", epsilon=0.1, delta=0.1, rng=0)
    with pytest.raises(InputError, match="epsilon above 0"):
        PlannerSampler(0.0, 0.1)
    with pytest.raises(InputError, match="regularisation must be positive"):
        PlannerSampler(0.1, 0.1, regularisation=0.0)
    with pytest.raises(InputError, match="sub-Gaussian proxy"):
        PlannerSampler(0.1, 0.1, rewards=RewardBounds(2.0, in_unit=False))
    stopped = play(PROBLEMS[1], every=True, epsilon=0.05, max_samples=100)
    assert stopped.guarantee.startswith("none: the contexts and actions of 0 samples do not tell enough yet")

"""RAGE for given features: its designs, estimates, sizes and stops, and what its theorem promises, on runs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from scipy.stats import binom
from tests.algorithms.cases import make, play
from tests.examples import examples
from tests.realizable.test_designs import convex_value, information, make_pool

from instances import seeds
from pacbandits.complexity import measure_gaps
from pacbandits.confidence import (
    RAGE_FREE_BEST_GAP,
    RAGE_FREE_FACTOR,
    RAGE_FREE_THEOREM_FACTOR,
    RAGE_THEOREM_FACTOR,
    catoni_scale,
    elimination_samples,
    has_catoni_radius,
    ratio_samples,
    round_epsilon,
    theorem_samples,
)
from pacbandits.errors import InputError
from pacbandits.paper.estimators import Cells, catoni_leads, catoni_means
from pacbandits.paper.given_features import catoni_along
from pacbandits.paper.rage_features import RageFeatures, RageFreeFeatures
from pacbandits.policies.features import Given
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem, load_problem
from pacbandits.realizable.complexity import measure_realizable
from pacbandits.realizable.moments import Population
from pacbandits.records import Contexts, RewardBounds
from pacbandits.simulation import repeat, run

NAMES = ("rage-features", "rage-free-features")
CONSTANT = {"rage-features": RAGE_THEOREM_FACTOR, "rage-free-features": RAGE_FREE_THEOREM_FACTOR}
PRECISION = 0.01  # to which their designs are solved
PROBLEMS = (
    "linear:dimension=3,actions=4,contexts=12,policies=20,spread=2,seed=5",
    "linear:dimension=4,actions=6,contexts=15,policies=10,spread=3,seed=2",
)
RARE, FEW, SMALL_DELTA, DELTA = 1e-6, 15, 5e-8, 0.1


def one_hot(problem):
    """The same problem with a feature for each context and action."""
    n, n_actions = problem.mean_rewards.shape
    phi = np.eye(n * n_actions).reshape(n, n_actions, n * n_actions)
    contexts = Contexts.finite(n, weights=problem.population.weights, phi=phi)
    return Problem("one-hot", "", contexts, problem.mean_rewards, Bernoulli(), problem.policies)


def first_plan(name, problem, **options):
    algorithm = make(name, problem, **options)
    state = algorithm.start(problem.policies, problem.population)
    return algorithm, state, algorithm.design(state)


@pytest.mark.parametrize("spec", ["random:policies=12,contexts=5,actions=3,skew=1,seed=3", "hard:m=6,noise=bernoulli"])
@pytest.mark.parametrize("name", ["rage", "rage-free"])
def test_one_hot_features_give_the_agnostic_designs_and_sizes(name, spec):
    problem = one_hot(load_problem(spec))
    key = "rho" if name == "rage" else "ratio"
    plain, given_features = first_plan(name, problem)[2], first_plan(f"{name}-features", problem)[2]
    assert given_features.details[key] == pytest.approx(plain.details[key], rel=1.2 * PRECISION)
    assert given_features.samples == pytest.approx(plain.samples, rel=1.2 * PRECISION)


@pytest.mark.thorough
def test_one_hot_features_give_the_agnostic_estimates():
    problem = one_hot(load_problem("random:policies=9,contexts=5,actions=3,skew=1,seed=3"))
    algorithm, state, plan = first_plan("rage-features", problem)
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    first, second = np.triu_indices(9, k=1)
    directions = state.points[first] - state.points[second]
    got = algorithm.estimate(state, plan, log, directions=directions)
    table, p = problem.policies.table.astype(int), plan.sampler.propensities(problem.population)
    weights, rows = problem.population.weights, np.arange(5)
    inverse = 1.0 / p[rows, table]
    spread = ((inverse[:, None] + inverse[None, :]) * (table[:, None] != table[None, :])) @ weights
    cells = Cells.of(log)
    alpha = catoni_scale(spread, samples=log.samples, confidence=algorithm.confidence(problem.policies, 1))
    wanted = catoni_leads(cells, problem.policies.actions(cells.contexts), alpha=alpha)
    assert np.allclose(got, wanted[first, second], rtol=0, atol=1e-9)
    assert np.abs(got).max() > 0.01


def test_estimates_are_catonis_mean_of_what_the_definition_says():
    problem = load_problem(PROBLEMS[1])
    algorithm, state, plan = first_plan("rage-free-features", problem)
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    phi, weights = problem.population.phi.array, problem.population.weights
    table, rows = problem.policies.table.astype(int), np.arange(len(phi))
    a = information(phi, weights, plan.sampler.propensities(problem.population))
    points = np.array([weights @ phi[rows, policy] for policy in table])
    x = points[0] - points
    values = x @ np.linalg.solve(a, (phi[log.contexts.ids, log.actions] * log.rewards[:, None]).T)
    v = np.einsum("ki,ij,kj->k", x, np.linalg.inv(a), x)
    alpha = catoni_scale(v, samples=log.samples, confidence=algorithm.confidence(problem.policies, 1))
    wanted = catoni_means(values, alpha=alpha, repeats=log.repeats.astype(float))
    after = algorithm.absorb(state, plan, log)
    assert np.allclose(after.gaps, wanted - wanted.min(), rtol=0, atol=1e-8)
    assert after.best == wanted.argmin()


def test_blocks_of_directions_and_rows_of_zero_change_nothing(monkeypatch):
    rng = np.random.default_rng(3)
    outcomes = rng.standard_normal((40, 3)) * rng.integers(0, 2, size=(40, 1))
    directions, repeats = rng.standard_normal((7, 3)), rng.integers(1, 5, size=40).astype(float)
    alpha = rng.uniform(0.1, 1.0, size=7)
    wanted = catoni_means(directions @ outcomes.T, alpha=alpha, repeats=repeats)
    assert np.allclose(catoni_along(outcomes, directions, alpha=alpha, repeats=repeats), wanted)
    monkeypatch.setattr("pacbandits.paper.given_features._BLOCK_VALUES", 50)
    assert np.allclose(catoni_along(outcomes, directions, alpha=alpha, repeats=repeats), wanted)
    with pytest.raises(InputError, match="no outcomes to take a mean of"):
        catoni_along(np.zeros((0, 3)), directions, alpha=alpha, repeats=np.zeros(0))


@pytest.mark.thorough
@given(seed=seeds)
@examples(12)
def test_designs_agree_with_a_convex_solver(seed):
    phi, weights, points, accuracies = make_pool(seed)
    if np.abs(points).max() < 1e-9:
        return
    contexts = Contexts.finite(len(phi), weights=weights, phi=phi)
    policies = Finite(np.zeros((1, len(phi)), dtype=int), n_actions=phi.shape[1])
    population = Population.of(policies, contexts, Given(*phi.shape[1:]))
    directions = population.span.coordinates(points)
    design = RageFeatures(0.1, 0.1).solve(population, directions, accuracies)
    best = convex_value(phi, weights, points, accuracies, noise=np.ones(phi.shape[:2]))
    assert design.lower <= best * (1 + 1e-4)
    assert best * (1 - 1e-4) <= design.value <= best * (1 + 1.05 * PRECISION)


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_by_what_the_design_attains(name):
    """Also where it was solved to no better than a half."""
    problem = load_problem(PROBLEMS[1])
    kind = {"rage-features": RageFeatures, "rage-free-features": RageFreeFeatures}[name]
    algorithm = kind(0.3, DELTA, precision=0.5)
    plan = algorithm.design(algorithm.start(problem.policies, problem.population))
    phi, weights = problem.population.phi.array, problem.population.weights
    inverse = np.linalg.inv(information(phi, weights, plan.sampler.propensities(problem.population)))
    rows = np.arange(len(phi))
    points = np.array([weights @ phi[rows, policy] for policy in problem.policies.table.astype(int)])
    others = points if name == "rage-features" else points[:1]
    worst = max((x - y) @ inverse @ (x - y) for x in points for y in others)
    factor = {"rage-features": 4, "rage-free-features": 2 * 28**2}[name]
    needed = factor * algorithm.confidence(problem.policies, 1) * worst / plan.epsilon**2
    assert plan.samples == pytest.approx(needed, rel=1e-6, abs=1)


# What holds of any features, and what does not.


@given(seed=seeds)
@examples(50)
def test_no_gap_is_larger_than_the_root_of_its_variance(seed):
    """Δ(π, π')² ≤ V for mean rewards in [0, 1], whatever the design, the features and the weights."""
    phi, weights, points, _ = make_pool(seed)
    rng = np.random.default_rng(seed)
    phi = np.concatenate([np.ones((*phi.shape[:2], 1)), phi], axis=2)
    points = np.concatenate([np.zeros((len(points), 1)), points], axis=1)
    theta = rng.standard_normal(phi.shape[2])
    rewards = phi @ theta
    size = np.abs(rewards - rewards.mean()).max()
    theta = theta / (2 * size)
    theta[0] += 0.5 - (rewards / (2 * size)).mean()
    assert (phi @ theta).min() >= -1e-9
    assert (phi @ theta).max() <= 1 + 1e-9
    p = rng.dirichlet(np.full(phi.shape[1], 0.5), size=len(phi)) * 0.99 + 0.01 / phi.shape[1]
    inverse = np.linalg.pinv(information(phi, weights, p), rcond=1e-13, hermitian=True)
    v = np.einsum("ki,ij,kj->k", points, inverse, points)
    assert ((points @ theta) ** 2 <= v * (1 + 1e-6) + 1e-9).all()


def test_two_facts_of_one_hot_features_that_fail_for_others():
    """One context, actions of features 0, 1, 2, p on the last: V is 1 for the outer ones, and 1/4 for neighbours."""
    phi = np.array([[[0.0], [1.0], [2.0]]])
    inverse = np.linalg.inv(information(phi, np.ones(1), np.array([[0.0, 0.0, 1.0]])))[0, 0]
    near, far = 1.0 * inverse, 4.0 * inverse
    assert far == 4 * near > near + near  # no triangle inequality of V, though one of √V: 2 = 1 + 1
    assert near < 4 * 1.0  # V ≥ 4P(π ≠ π'), with P = 1


@pytest.mark.parametrize("second", [1.0, 1.7])
def test_a_round_too_short_for_catoni_may_take_every_gap_for_nothing(second):
    """Where n < 4L, |Δ| ≤ √V is what the round has to attain: ε_l, or (√2/28)(ε_l + Δ̂/4)."""
    confidence, width = 9.0, np.sqrt(2) / 28
    short = 0
    for value in 10.0 ** np.linspace(-6, 2, 400):
        for epsilon in (0.5, 0.125):
            common = {"confidence": confidence, "second_moment": second, "scale": 1.0}
            n = elimination_samples(value, epsilon=epsilon, **common)
            if not has_catoni_radius(n, confidence=confidence, scale=1.0):
                assert np.sqrt(value) <= epsilon / np.sqrt(second)
                short += 1
        # Of the ratio V/(ε_l + Δ̂/4)².
        n = ratio_samples(value, factor=RAGE_FREE_FACTOR, **common)
        if not has_catoni_radius(n, confidence=confidence, scale=1.0):
            assert np.sqrt(value) <= width / np.sqrt(second) * (1 + 1e-12)
            short += 1
    assert short > 300
    assert has_catoni_radius(36, confidence=9.0, scale=1.0)
    assert not has_catoni_radius(35, confidence=9.0, scale=1.0)
    assert has_catoni_radius(4, confidence=9.0, scale=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_a_short_round_leaves_everything_as_it_is(name):
    """Policies that differ where contexts are rare: the first rounds are short, and the answer is right."""
    phi = np.eye(4).reshape(2, 2, 4)
    contexts = Contexts.finite(2, weights=[0.9999, 0.0001], phi=phi)
    policies = Finite([[0, 0], [0, 1]], n_actions=2)
    problem = Problem("rare", "", contexts, np.array([[0.5, 0.5], [0.1, 0.9]]), Bernoulli(), policies)
    algorithm = make(name, problem, epsilon=1e-5)
    done = play(algorithm, problem)
    short = [p.samples < 4 * algorithm.confidence(policies, p.round_number) for p in done.plans]
    assert short[0]
    assert not short[-1]
    for was_short, state in zip(short, done.states[1:], strict=True):
        if was_short and name == "rage-features":
            assert len(state.alive) == 2
        elif was_short:
            assert not state.gaps.any()
    assert problem.value(done.last.policy) == problem.value(policies.policy(1))


# Stops.


class Told(RageFreeFeatures):
    """What is estimated is told beforehand."""

    told = np.zeros(0)

    def estimate(self, state, plan, log, *, directions):
        return self.told


class ToldPairs(RageFeatures):
    """Likewise."""

    told = np.zeros(0)

    def estimate(self, state, plan, log, *, directions):
        return self.told


def three_policies():
    phi = np.eye(3)[None]
    policies = Finite([[0], [1], [2]], n_actions=3)
    return Problem("three", "", Contexts.finite(1, phi=phi), np.array([[0.9, 0.5, 0.1]]), Bernoulli(), policies)


def told_round(algorithm, told):
    problem = three_policies()
    algorithm.__class__.told = np.array(told)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    return algorithm.absorb(
        state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_without_elimination_it_ends_when_no_other_can_be_the_best(epsilon):
    most = RAGE_FREE_BEST_GAP * 0.5
    assert told_round(Told(epsilon, DELTA), [0.0, 1.01 * most, 0.9]).finished
    assert not told_round(Told(epsilon, DELTA), [0.0, 0.99 * most, 0.9]).finished
    assert not told_round(Told(epsilon, DELTA), [0.2, 0.2 + 0.99 * most, 0.9]).finished
    assert told_round(Told(0.5, DELTA), [0.0, 0.01, 0.01]).finished  # one round is enough for 1/2


def test_elimination_ends_with_one_policy_or_a_small_lead():
    """Leads of the pairs (0, 1), (0, 2), (1, 2); ε_1 = 1/2."""
    alone = told_round(ToldPairs(0.0, DELTA), [0.6, 0.6, 0.0])
    assert alone.finished
    assert list(alone.alive) == [0]
    two = told_round(ToldPairs(0.4, DELTA), [0.4, 0.6, 0.2])
    assert not two.finished
    assert list(two.alive) == [0, 1]
    # Nobody leads π̂ by more than ε − ε_l = 0.05; with 0.06 that is not shown.
    assert told_round(ToldPairs(0.55, DELTA), [0.05, -0.05, 0.05]).finished
    assert not told_round(ToldPairs(0.55, DELTA), [0.06, -0.06, 0.06]).finished


@pytest.mark.parametrize("name", NAMES)
def test_policies_of_equal_mean_features_are_one(name):
    """They act otherwise everywhere, but no reward can tell them apart: a run with ε = 0 comes to its end."""
    rng = np.random.default_rng(0)
    phi = np.concatenate([np.ones((6, 4, 1)), rng.standard_normal((6, 4, 2))], axis=2)
    phi[:, 1] = phi[:, 3]
    theta = np.array([0.5, 0.1, 0.05])
    table = [[0] * 6, [1] * 6, [2] * 6, [3] * 6]
    contexts = Contexts.finite(6, phi=phi)
    pair = Problem("pair", "", contexts, phi @ theta, Bernoulli(), Finite(table[1::2], n_actions=4))
    done = run(pair, algorithm=name, epsilon=0.0, delta=DELTA, rng=0)
    assert (done.stopped, done.samples) == ("done", 0)
    values = (phi @ theta).mean(axis=0)
    assert values[1] == values[3] > max(values[0], values[2]) + 0.02
    four = Problem("four", "", contexts, phi @ theta, Bernoulli(), Finite(table, n_actions=4))
    done = run(four, algorithm=name, epsilon=0.0, delta=DELTA, rng=0, max_samples=10**10)
    assert done.stopped == "done"
    assert done.correct
    assert done.guarantee.startswith("except with probability 0.1 the policy is the best of its class")


@pytest.mark.parametrize("name", NAMES)
def test_at_epsilon_zero_a_tie_goes_on(name):
    problem = three_policies()
    tied = Problem("tied", "", problem.population, np.array([[0.5, 0.5, 0.1]]), Bernoulli(), problem.policies)
    done = run(tied, algorithm=name, epsilon=0.0, delta=DELTA, rng=0, max_samples=10**8)
    assert done.stopped == "budget"
    assert done.guarantee.startswith("none: stopped after")
    for epsilon in (1e-3, 0.0):
        known = run(problem, algorithm=name, epsilon=epsilon, delta=DELTA, rng=0)
        assert known.stopped == "done"
        assert known.value_gap == 0
    assert known.samples == run(problem, algorithm=name, epsilon=1e-6, delta=DELTA, rng=0).samples


# What the theorem promises.


@cache
def adverse(spec):
    """A problem, its policies with the best one last and none of a gap below 0.01, and an ε just below their least."""
    problem = load_problem(spec)
    values = np.array([problem.value(problem.policies.policy(i)) for i in range(len(problem.policies))])
    gaps = values.max() - values
    keep = np.flatnonzero((gaps == 0) | (gaps > 0.01))
    order = keep[np.argsort(values[keep], kind="stable")]
    return problem, Finite(problem.policies.table[order], n_actions=problem.n_actions), 0.95 * gaps[gaps > 0.01].min()


def errors(name, spec, *, runs, delta, **options):
    problem, policies, epsilon = adverse(spec)
    done = repeat(problem, policies, runs=runs, seed=1000, algorithm=name, epsilon=epsilon, delta=delta, **options)
    assert all(one.stopped == "done" for one in done)
    assert len(policies) >= 4
    return sum(one.value_gap > epsilon for one in done)


@pytest.mark.thorough
@pytest.mark.parametrize("spec", [PROBLEMS[0], pytest.param(PROBLEMS[1], marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_as_rare_as_delta_says(name, spec):
    """At so small a δ a single error is too many; and with too few samples they do occur."""
    assert errors(name, spec, runs=FEW, delta=SMALL_DELTA) == binom.ppf(1 - RARE, FEW, SMALL_DELTA) == 0
    assert errors(name, spec, runs=40, delta=DELTA, scale=1e-5) > binom.ppf(1 - RARE, 40, DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("spec", PROBLEMS)
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_as_rare_as_delta_says_over_many_runs(name, spec):
    for delta in (0.3, 1e-3):
        assert errors(name, spec, runs=80, delta=delta) <= binom.ppf(0.99, 80, delta)
    # Also with what the constants give away: the factor for n ≥ 4L, and the slack of the induction.
    scale = {"rage-features": 0.5, "rage-free-features": 0.0475}[name]
    assert errors(name, spec, runs=80, delta=0.3, scale=scale) <= binom.ppf(0.99, 80, 0.3)


def test_gaussian_rewards_pay_for_their_second_moment():
    spec = "linear:dimension=3,actions=3,contexts=8,policies=6,seed=4,noise=gaussian,variance=0.5"
    algorithm, _, plan = first_plan("rage-features", load_problem(spec))
    assert algorithm.rewards.second_moment == 1.5
    bernoulli = first_plan("rage-features", load_problem(spec.partition(",noise")[0]))[2]
    assert plan.samples == pytest.approx(1.5 * bernoulli.samples, abs=2)
    assert run(load_problem(spec), algorithm="rage-features", epsilon=0.3, delta=DELTA, rng=0).correct


@cache
def complexities(spec, rounds):
    """ρ_lin,ε_l of rounds 1, 2, …: their lower ends, so that the bound is not helped."""
    problem = load_problem(spec)
    return [
        measure_realizable(
            problem, problem.realizable.features, problem.policies, epsilon=round_epsilon(number), delta=DELTA
        ).rho_lower
        for number in range(1, rounds + 1)
    ]


@pytest.mark.first(3)
@pytest.mark.parametrize("epsilon", [0.3, 0.01])
@pytest.mark.parametrize("spec", PROBLEMS)
@pytest.mark.parametrize("name", NAMES)
def test_runs_stay_within_the_theorem(name, spec, epsilon):
    """τ ≤ Σ_l (C ρ_lin,ε_l log(1/δ_l) + 1), with designs solved to 1 %; every round is as accurate as it says."""
    problem = load_problem(spec)
    gaps = measure_gaps(problem, problem.policies)
    true = gaps.best_value - np.array([problem.value(problem.policies.policy(i)) for i in range(len(problem.policies))])
    done = play(make(name, problem, epsilon=epsilon, delta=DELTA), problem, seed=1)
    bound = (1 + PRECISION) * theorem_samples(
        complexities(spec, len(done.plans)),
        constant=CONSTANT[name],
        delta=DELTA,
        log_size=problem.policies.log_size,
        second_moment=1.0,
    )
    assert bound / 3000 <= done.last.samples <= bound
    for plan, state in zip(done.plans, done.states[1:], strict=True):
        short = gaps.best_value - problem.value(state.policy)
        if name == "rage-features":
            assert true[state.alive].min() <= 1e-12
            assert true[state.alive].max() <= 2 * plan.epsilon
            assert short <= 2 * plan.epsilon
        else:
            assert short <= plan.epsilon
            assert (np.abs(state.gaps - true) <= 2 * plan.epsilon + true / 4).all()
    assert short <= epsilon


# What it is played on.


class BySign:
    """Policies that read features and know no ids: an action where the first feature is positive, another where not."""

    n_actions, exact = 3, True

    def __init__(self):
        self.pairs = [(a, b) for a in range(3) for b in range(3)]

    @property
    def log_size(self):
        return float(np.log(len(self.pairs)))

    def __len__(self):
        return len(self.pairs)

    def actions(self, contexts):
        positive = contexts.features[:, 0] > 0
        return np.array([np.where(positive, a, b) for a, b in self.pairs])

    def policy(self, index):
        outer = self

        class One:
            n_actions = 3

            def __call__(self, contexts):
                return outer.actions(contexts)[index]

            def describe(self):
                return f"policy {index}"

            def to_json(self):
                return {"kind": "sign", "index": index}

        return One()

    def argmax(self, contexts, scores):
        rows = np.arange(len(contexts))
        return self.policy(int(np.argmax([scores[rows, own].sum() for own in self.actions(contexts)])))


@pytest.mark.parametrize("name", NAMES)
def test_contexts_without_names_are_played_and_priced_by_gain(name):
    rng = np.random.default_rng(2)
    z = rng.standard_normal((40, 2))
    phi = np.concatenate([np.ones((40, 3, 1)), z[:, None, :] * np.array([1.0, -1.0, 0.2])[None, :, None]], axis=2)
    contexts = Contexts.of(z, phi=phi)
    assert contexts.ids is None
    algorithm = make(name, load_problem(PROBLEMS[0]), epsilon=0.3)
    state = algorithm.start(BySign(), contexts)
    plan = algorithm.design(state)
    p = plan.sampler.propensities(contexts)
    assert np.allclose(plan.sampler.propensities(contexts.take(np.arange(7, 20))), p[7:20])
    inverse = np.linalg.inv(information(phi, contexts.weights, p))
    rows = np.arange(40)
    points = np.array([contexts.weights @ phi[rows, own] for own in BySign().actions(contexts)])
    others = points if name == "rage-features" else points[:1]
    worst = max((x - y) @ inverse @ (x - y) for x in points for y in others)
    key = "rho" if name == "rage-features" else "ratio"
    assert plan.details[key] == pytest.approx(worst / (1.0 if key == "rho" else plan.epsilon**2), rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_offline_contexts(name):
    done = run(load_problem(PROBLEMS[0]), algorithm=name, epsilon=0.3, delta=DELTA, rng=0, offline_contexts=400)
    assert done.stopped == "done"
    assert done.correct
    assert "400 contexts stand well enough for their distribution" in done.guarantee


def test_words():
    problem = load_problem(PROBLEMS[0])
    for name in NAMES:
        done = run(problem, algorithm=name, epsilon=0.4, delta=0.05, rng=0)
        assert done.guarantee == (
            "except with probability 0.05 the policy is within 0.4 of the best of its class; assumes that mean rewards "
            "are linear in the given features, that contexts are independent, that rewards lie in [0, 1], and that the "
            "distribution of contexts is known"
        )
        with pytest.raises(InputError, match="neither features nor phi"):
            run("hard:m=5", algorithm=name, epsilon=0.1, delta=0.1, rng=0)
        with pytest.raises(InputError, match=f"{name} visits every policy, and the class Trees"):
            run("trees:actions=3,contexts=50", algorithm=name, epsilon=0.1, delta=0.1, rng=0)
    many = load_problem("linear:dimension=4,actions=5,contexts=100,policies=1500,spread=5")
    with pytest.raises(InputError, match=r"are too many \(at most 1000\); use rage-free-features or linear-rage"):
        run(many, algorithm="rage-features", epsilon=0.3, delta=0.1, rng=0)
    assert RageFeatures(0.1, 0.1, rewards=RewardBounds(2.0, in_unit=False)).rewards.second_moment == 2.0

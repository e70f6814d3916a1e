"""The bound on oracle calls of docs/algorithms.md: its lemma, its sum, and the run that stops by it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pacbandits.design import DesignTask, Shifted
from pacbandits.paper import frank_wolfe_oracle
from pacbandits.paper.frank_wolfe import SaddleProblem, descend
from pacbandits.paper.frank_wolfe_oracle import limits_on_grid, max_steps, max_steps_an_n, solve_by_steps
from pacbandits.paper.oracles import Estimates, constrained_argmax, frank_wolfe_step_free
from pacbandits.policies.base import CountedClass
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.records import Contexts

WIDTH = 8.0
CONFIDENCE = 9.0


def random_saddle(rng):
    """A saddle problem of any shape, a weighting λ, and n."""
    size, n_contexts, n_actions = (int(rng.integers(low, high)) for low, high in ((2, 12), (1, 8), (2, 6)))
    problem = SaddleProblem(
        rng.integers(n_actions, size=(size, n_contexts)),
        n_actions=n_actions,
        reference=rng.integers(n_actions, size=n_contexts),
        weights=rng.dirichlet(np.full(n_contexts, rng.choice([0.1, 1.0]))),
        gaps=rng.exponential(size=size) * rng.choice([0.0, 0.1, 1.0]),
        confidence=rng.uniform(1, 50),
        smoothing=10 ** rng.uniform(-7, -0.6),
        gap_weight=0.5,
    )
    weights = rng.dirichlet(np.ones(size)) if rng.random() < 0.5 else np.eye(size)[rng.integers(size)]
    return problem, weights, 10 ** rng.uniform(0, 5)


@pytest.mark.parametrize("seed", range(30))
def test_a_step_gains_what_the_lemma_says(seed):
    """H((1 − s)λ + s e) against its bound by leverages r, and against H + s g − s²C/2 for s ≤ 1/4."""
    rng = np.random.default_rng(seed)
    problem, weights, n = random_saddle(rng)

    def dual(at):
        return descend(problem, at, samples=n, precision=1e-13, residual=1e-12, max_steps=400)

    found = dual(weights)
    p, value = found.propensities, found.value
    slopes = problem.slopes(p, samples=n)
    to = int(slopes.argmax())
    gap = slopes[to] - value
    half_width = (value + 0.5 * weights @ problem.gaps) / 2
    uniform = problem.n_actions * (2 + problem.smoothing * problem.n_actions)
    assert half_width <= WIDTH * math.sqrt(problem.confidence * uniform / n) * (1 + 1e-9)
    curvature = (1 / problem.smoothing + 2) * half_width
    gamma = problem.best_gamma(p, samples=n)
    differ = problem.actions[:, :, None] == np.arange(problem.n_actions)
    differ = differ ^ (problem.reference[:, None] == np.arange(problem.n_actions))
    masses = differ + problem.smoothing
    x = np.einsum("k,kca->ca", weights * gamma, masses)
    leverage = gamma[to] * masses[to] / x
    toward = np.eye(len(problem))[to] - weights
    gains = []
    for step in (1e-6, 1e-4, 1e-2, 0.1, 0.25, 0.6, 0.99):
        ahead = dual(weights + step * toward).value
        inner = (p * (1 + step * (leverage - 1)) ** (2 / 3)).sum(axis=1) ** 1.5
        bound = 2 * WIDTH * problem.weights @ (np.sqrt(x).sum(axis=1) ** 2 * inner)
        bound -= 0.5 * (weights + step * toward) @ problem.gaps
        assert ahead >= bound - 1e-9 * (abs(bound) + 1)
        gains.append(ahead - value)
        if step <= 0.25:
            assert ahead >= value + step * gap - step**2 * curvature / 2 - 1e-9 * (abs(value) + 1)
    best = min(gap / curvature, 0.25) if gap > 0 else 0.0
    gain = dual(weights + best * toward).value - value
    assert gain >= min(gap**2 / (2 * curvature), gap / 8) - 1e-9 * (abs(value) + 1)


def random_task(seed, *, epsilon=None, policies=None):
    """A design task of any shape, with gaps of the reference's own of 0."""
    rng = np.random.default_rng(seed)
    n_contexts, n_actions = int(rng.integers(2, 9)), int(rng.integers(2, 6))
    contexts = Contexts.finite(n_contexts, weights=rng.dirichlet(np.full(n_contexts, 0.5)))
    if policies is None:
        table = rng.integers(n_actions, size=(int(rng.integers(2, 60)), n_contexts))
        policies = Finite(table, n_actions=n_actions) if seed % 3 else Trivial(n_contexts, n_actions)
    reference = policies.argmax(contexts, rng.uniform(size=(n_contexts, n_actions)))
    scores = rng.uniform(0, 1, size=(n_contexts, n_actions)) * rng.choice([0.0, 0.1, 1.0])
    scores[np.arange(n_contexts), reference(contexts)] = 0.0
    epsilon = float(rng.choice([0.5, 0.1, 0.01])) if epsilon is None else epsilon
    return DesignTask(policies, contexts, reference=reference, gaps=scores, scale=Shifted(epsilon, 0.5))


def solve(task):
    scale = task.scale
    smoothing = 0.01 * scale.epsilon**2 / task.policies.n_actions**4
    return solve_by_steps(task, confidence=CONFIDENCE, smoothing=smoothing), smoothing


def check(task, found, smoothing):
    """Calls are within both bounds, and every policy is as well resolved as a kept n promises."""
    epsilon, a = task.scale.epsilon, task.policies.n_actions
    whole = max_steps(epsilon=epsilon, confidence=CONFIDENCE, smoothing=smoothing, n_actions=a)
    assert found.steps <= found.most_steps <= whole
    # N + 1 + 7.7·10⁴ L A/(η ε²) and lower terms: polynomial in A, 1/ε and L.
    assert whole < 1e5 * CONFIDENCE * a / (smoothing * epsilon**2)
    # The sharper bound, of steps that are exact.
    widths = [WIDTH * math.sqrt(CONFIDENCE * a * (2 + smoothing * a) / 2**k) for k in range(100)]
    sizes = [2.0**k for k in range(100) if 2.0**k < 2 * (2 * widths[0] / epsilon) ** 2]
    sharper = 1 + sum(
        2 + 4.45 * 3 / epsilon * (1 / smoothing + 2) * width + 8.9 * max(math.log(44 * smoothing * math.sqrt(n)), 0)
        for n, width in zip(sizes, widths, strict=False)
    )
    assert found.steps <= sharper < whole
    limits = limits_on_grid(task.scale, largest_gap=float(task.gaps.max(axis=1).sum()))
    assert found.calls <= found.steps * len(limits)
    assert found.note == ""
    p = found.design.propensities(task.contexts)
    costs = task.possible.objective.costs(p)
    frontier = task.policies.frontier(task.contexts, costs, -task.gaps)
    widths = 2 * WIDTH * np.sqrt(np.maximum(frontier.first, 0) * CONFIDENCE / found.samples)
    allowed = (4 / 3 + frank_wolfe_oracle.LIMIT_FACTOR - 1) * (epsilon - 0.5 * frontier.second)
    assert (widths <= allowed * (1 + 1e-6)).all()


@pytest.mark.parametrize("seed", range(60))
def test_measured_calls_are_below_the_bound(seed):
    task = random_task(seed)
    check(task, *solve(task))


@pytest.mark.parametrize("seed", range(0, 12))
def test_limits_on_a_coarse_grid_are_enough(monkeypatch, seed):
    """With few limits, most frontiers have more points: the grid is asked, and its promise holds."""
    monkeypatch.setattr(frank_wolfe_oracle, "LIMIT_FACTOR", 1.5)
    task = random_task(3 * seed, epsilon=0.1)
    check(task, *solve(task))


@pytest.mark.parametrize("seed", range(5))
def test_a_step_at_limits_is_the_best_of_their_constrained_argmaxes(seed):
    rng = np.random.default_rng(seed)
    contexts, policies = Contexts.finite(8), Trivial(8, 3)
    costs, gaps = rng.uniform(size=(8, 3)), rng.uniform(size=(8, 3))
    costs[:, 0] = gaps[:, 0] = 0.0
    known = Estimates(gaps, costs, confidence=2.0, samples=1.0)
    limits = np.array([0.0, 0.3, 0.8, 2.0])

    def slope(policy):
        actions = policy(contexts)
        each = np.arange(8)
        return -2.0 * gaps[each, actions].sum() + 2 * math.sqrt(2.0 * costs[each, actions].sum())

    found = frank_wolfe_step_free(policies, contexts, known, gap_weight=2.0, width_weight=1.0, limits=limits)
    asked = [constrained_argmax(policies, contexts, costs, budget=gaps, limit=float(limit)) for limit in limits]
    assert found.value == found.bound == pytest.approx(max(slope(policy) for policy in asked))
    assert found.calls <= len(limits)
    every = frank_wolfe_step_free(policies, contexts, known, gap_weight=2.0, width_weight=1.0)
    assert found.value <= every.value
    assert every.calls > len(limits)


def test_a_grid_asks_fewer_limits_than_a_long_frontier_has_points(monkeypatch):
    contexts = Contexts.finite(10)
    rng = np.random.default_rng(1)
    scores = np.c_[np.zeros(10), rng.uniform(0.01, 0.2, size=(10, 2))]
    policies = Trivial(10, 3)
    reference = policies.policy_of(np.zeros(10, dtype=int))
    task = DesignTask(policies, contexts, reference=reference, gaps=scores, scale=Shifted(0.1, 0.5))
    fine, smoothing = solve(task)
    monkeypatch.setattr(frank_wolfe_oracle, "LIMIT_FACTOR", 1.5)
    coarse, _ = solve(task)
    assert coarse.calls < fine.calls / 3
    assert coarse.samples <= 2 * fine.samples
    check(task, coarse, smoothing)


@pytest.mark.parametrize("seed", [1, 2, 4, 5, 7])
def test_one_inner_step_is_enough_for_the_bound(monkeypatch, seed):
    """Plain Frank–Wolfe: the bound does not ask that the support be solved, so no step may be lost."""
    monkeypatch.setattr(frank_wolfe_oracle, "_MAX_ITERATIONS_A_STEP", 1)
    task = random_task(seed, epsilon=0.1)
    check(task, *solve(task))


def test_an_oracle_that_is_not_exact_ends_the_run_with_a_note():
    """Its frontier promises twice the variance of its policies: the gap never closes, and the bound is far off."""

    class Boasting(CountedClass):
        def frontier(self, contexts, first, second):
            found = super().frontier(contexts, first, second)
            return replace(found, first=2 * found.first, exact=False)

    task = random_task(4, epsilon=0.1)
    found, _ = solve(replace(task, policies=Boasting(task.policies)))
    assert "stopped after" in found.note
    assert found.steps < 200


def test_the_bound_for_one_n_counts_gains():
    """From a dual of 0 to ε, in gains of 0.9 τ²/(2C); at ε nothing is left but the last step."""
    options = {"epsilon": 0.1, "target": 0.1 / 3, "confidence": 9.0, "smoothing": 1e-4, "n_actions": 3}
    curvature = (1e4 + 2) * 8 * math.sqrt(9 * (6 + 9e-4) / 1000)
    expected = 1 + 0.1 / (0.9 * (0.1 / 3) ** 2 / (2 * curvature))
    assert max_steps_an_n(**options, samples=1000, start=0.0) == pytest.approx(expected)
    assert max_steps_an_n(**options, samples=1000, start=0.1) == 1.0
    # A far larger n has next to no width, hence no curvature: a step gains τ/8.
    assert max_steps_an_n(**options, samples=1e30, start=0.0) == pytest.approx(1 + 0.1 * 8 / (0.9 * 0.1 / 3))

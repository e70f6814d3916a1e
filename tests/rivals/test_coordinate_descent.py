"""Weights of policies: the constraints by brute force over all policies, and steps by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.policies.finite import Finite
from pacbandits.records import Contexts
from pacbandits.rivals.coordinate_descent import LEAST_WEIGHT, Constraint, PolicyWeights, action_weights, solve
from pacbandits.rivals.seen import Seen
from tests.rivals.oracle_cases import random_problem, seen_evenly


def losses_and_variances(policies, seen, found, *, floor):
    """Δ(π) and E_x[1/Q^μ(π(x)|x)] of every policy of a list, in plain loops; the rest of Q plays no part."""
    n_actions, samples = policies.n_actions, seen.samples
    weights = {}
    for policy, weight in zip(found.policies, found.weights, strict=True):
        for context, action in enumerate(policy(seen.contexts)):
            weights[context, action] = weights.get((context, action), 0.0) + weight
    values, variances = [], []
    for index in range(len(policies)):
        actions = policies.policy(index)(seen.contexts)
        values.append(sum(seen.scores[c, a] for c, a in enumerate(actions)) / samples)
        smoothed = [(1 - n_actions * floor) * weights.get((c, a), 0.0) + floor for c, a in enumerate(actions)]
        variances.append(sum(n / samples / p for n, p in zip(seen.counts, smoothed, strict=True)))
    return max(values) - np.array(values), np.array(variances)


def nowhere(problem, seen):
    return PolicyWeights.nothing(problem.policies.policy(0), n_contexts=len(seen.contexts))


@pytest.mark.first(9)
@pytest.mark.parametrize("slope", [0.0, 3.0, 50.0])
@pytest.mark.parametrize("floor", [0.12, 0.01, 0.001])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_both_constraints_hold_for_every_policy(slope, floor, seed):
    problem = random_problem(seed)
    constraint, start = Constraint(slope, floor), None
    for samples in (60, 700, 90):  # the later ones from the weights before
        seen = seen_evenly(problem, samples, seed=seed + samples)
        found = solve(problem.policies, seen, constraint=constraint, start=start or nowhere(problem, seen))
        losses, variances = losses_and_variances(problem.policies, seen, found, floor=floor)
        assert (variances <= (8 + slope * losses) * (1 + 1e-6)).all()
        tables = [policy.table.tolist() for policy in found.policies]
        spent = [losses[problem.policies.table.tolist().index(table)] for table in tables]
        assert slope * (found.weights @ np.array(spent)) <= 8 * (1 + 1e-9)
        assert found.weights.sum() <= 1 + 1e-9
        assert losses[problem.policies.table.tolist().index(found.best.table.tolist())] == pytest.approx(0, abs=1e-12)
        assert len({tuple(table) for table in tables}) == len(tables)
        start = found


def test_steps_by_hand():
    """One context, two actions: V = 1/μ = 5 for both, 4 allowed and 4.5; each gets (V + D)/(2(1 − 2μ)S), S = 25."""
    contexts, scores = Contexts.finite(1), np.array([[30.0, 20.0]])
    nothing = np.zeros((1, 2))
    seen = Seen(contexts, np.array([100.0]), nothing, nothing, nothing, scores, nothing)
    policies = Finite([[0], [1]], n_actions=2)
    start = PolicyWeights.nothing(policies.policy(1), n_contexts=1)
    found = solve(policies, seen, constraint=Constraint(5.0, 0.2), start=start)
    assert [policy.table.tolist() for policy in found.policies] == [[0], [1]]
    assert found.weights == pytest.approx([(5 + 1) / (2 * 0.6 * 25), (5 + 0.5) / (2 * 0.6 * 25)])
    assert found.best.table.tolist() == [0]
    assert found.oracle_calls == 4  # the best, two steps, and that none is left
    policies_drawn, weights = found.mixture()
    assert weights.sum() == pytest.approx(1)
    assert policies_drawn[-1] is found.best
    # Where the loss weighs so much that 5 is allowed, there is no step for the second.
    found = solve(policies, seen, constraint=Constraint(20.0, 0.2), start=start)
    assert [policy.table.tolist() for policy in found.policies] == [[0]]


def test_weights_that_have_become_too_dear_are_shrunk():
    """All weight on the worst policy, as if that had been the best until now."""
    problem = random_problem(4)
    seen = seen_evenly(problem, 5000)
    values = [problem.value(problem.policies.policy(index)) for index in range(25)]
    worst = problem.policies.policy(int(np.argmin(values)))
    start = PolicyWeights((worst,), np.ones(1), worst(seen.contexts)[None, :], worst)
    found = solve(problem.policies, seen, constraint=Constraint(100.0, 0.01), start=start)
    losses, variances = losses_and_variances(problem.policies, seen, found, floor=0.01)
    assert 100 * losses[np.argmin(values)] / 2 > 8  # half of it would cost too much
    table = problem.policies.table.tolist()
    spent = losses[[table.index(policy.table.tolist()) for policy in found.policies]]
    assert 100 * (found.weights @ spent) <= 8 * (1 + 1e-9)
    assert (variances <= (8 + 100 * losses) * (1 + 1e-6)).all()


def test_bad_policies_get_less_the_steeper_the_slope():
    problem = random_problem(5)
    seen = seen_evenly(problem, 20_000)
    costs = []
    for slope in (0.1, 10.0, 100.0, 1000.0):
        found = solve(problem.policies, seen, constraint=Constraint(slope, 0.002), start=nowhere(problem, seen))
        best = problem.value(problem.best_policy())
        costs.append(sum(w * (best - problem.value(p)) for p, w in zip(found.policies, found.weights, strict=True)))
    assert costs[0] > costs[1] > costs[2] > costs[3] >= 0
    assert costs[3] < costs[0] / 10


def test_a_start_keeps_half_of_all_but_the_least_and_learns_what_policies_do_on_new_contexts():
    policies = Finite([[0, 1, 0], [1, 1, 1], [0, 0, 1]], n_actions=2)
    weights = np.array([0.4, LEAST_WEIGHT, 0.2])
    both = PolicyWeights(tuple(map(policies.policy, range(3))), weights, policies.table[:, :2], policies.policy(1))
    start = both.halved(Contexts.finite(3))
    assert start.weights.tolist() == [0.2, 0.1]
    assert start.actions.tolist() == [[0, 1, 0], [0, 0, 1]]
    nothing = PolicyWeights.nothing(policies.policy(1), n_contexts=1).halved(Contexts.finite(3))
    assert nothing.actions.shape == (0, 3)


def test_weights_of_actions():
    table = np.array([[0, 2], [0, 1], [1, 1]], dtype=np.uint8)
    expected = [[0.5, 0.3, 0.0], [0.0, 0.6, 0.2]]
    assert np.allclose(action_weights(table, np.array([0.2, 0.3, 0.3]), n_actions=3), expected)
    assert action_weights(table[:0], np.zeros(0), n_actions=3).tolist() == [[0.0] * 3] * 2

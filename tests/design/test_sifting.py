"""Tables of very many policies, solved through a few of them."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.design import Objective
from pacbandits.design.weights import prune, sift_weights, solve_weights


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_sifting_many_policies_agrees_with_solving_all(seed):
    """Some actions are taken by few policies, so that the first designs leave them without probability."""
    rng = np.random.default_rng(seed)
    n, a = 10, 5
    table = np.unique(rng.choice(a, size=(7000, n), p=[0.5, 0.3, 0.15, 0.049, 0.001]), axis=0)
    assert len(table) > 4000
    weights = rng.dirichlet(np.full(n, 0.5))
    reference = np.zeros(n, dtype=np.int64)
    table = table[(table != reference).any(axis=1)].astype(np.uint8)
    objective = Objective(reference, weights, rng.random((n, a)))
    urgency = 1 / np.maximum(rng.random(len(table)), 0.1) ** 2
    few = sift_weights(objective, table, urgency, tolerance=1e-4)
    every = solve_weights(objective, table, urgency, tolerance=1e-4)
    assert few.gap <= 1e-4
    assert few.lower <= every.upper
    assert every.lower <= few.upper
    value, variances = objective.evaluate(table, few.weights * urgency)
    assert (urgency * variances).max() <= few.upper * (1 + 1e-9)
    assert value == pytest.approx(few.lower, rel=1e-3)


def test_a_pruned_solution_promises_what_it_keeps():
    """Fewer policies may serve some of the others worse: the upper end is that of the design without them."""
    rose = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        weights, table = rng.dirichlet(np.full(6, 0.3)), np.unique(rng.integers(3, size=(14, 6)), axis=0)
        table = np.ascontiguousarray(table[table.any(axis=1)].astype(np.uint8))
        objective = Objective(np.zeros(6, dtype=np.int64), weights, np.ones((6, 3)))
        urgency = 10 ** rng.uniform(0, 3, size=len(table))
        solved = solve_weights(objective, table, urgency, tolerance=0.1)
        fewer = prune(objective, table, urgency, solved=solved, tolerance=0.1)
        attained = (urgency * objective.evaluate(table, fewer.weights * urgency)[1]).max()
        assert fewer.upper == pytest.approx(attained, rel=1e-11)
        assert fewer.lower == solved.lower
        assert fewer.gap <= max(solved.gap, 0.1)
        rose += fewer.upper > solved.upper * (1 + 1e-8)
    assert rose > 3  # or nothing would be tested

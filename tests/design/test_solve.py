"""Column generation and pricing where a bracket is easily wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.examples import examples

from instances import make_instance, seeds
from pacbandits.complexity import measure_gaps, measure_rho
from pacbandits.design import Clipped, DesignTask, Shifted, price_by_argmax, price_by_frontier, solve_by_pricing
from pacbandits.policies.finite import Finite
from pacbandits.records import Contexts


@pytest.mark.parametrize("pricing", [price_by_argmax, price_by_frontier])
def test_policies_that_take_each_action_equally_often_differ_all_the_same(pricing):
    contexts = Contexts.finite(2)
    policies = Finite([[0, 1], [1, 0]], n_actions=2)
    gaps = np.array([[0.0, 0.4], [-0.1, 0.0]])
    solution = solve_by_pricing(
        DesignTask(policies, contexts, reference=policies.policy(0), gaps=gaps, scale=Clipped(0.1)),
        pricing=pricing(policies),
        tolerance=1e-3,
    )
    assert solution.lower == pytest.approx(4 / 0.3**2, rel=2e-3)
    assert solution.upper >= 4 / 0.3**2  # an argmax sees only the hull, and stops above
    assert solution.upper == pytest.approx(4 / 0.3**2, rel=2e-3) or pricing is price_by_argmax


@pytest.mark.thorough
@given(seed=seeds)
@examples(15)
def test_an_argmax_claims_no_more_than_it_knows_without_epsilon(seed):
    """With d(0) = 0 a policy inside the hull may have any ratio: the upper end must not come from the hull."""
    instance = make_instance(seed, n_policies=12, n_contexts=6, n_actions=3, awkward=False)
    gaps = measure_gaps(instance, instance.policies)
    listed = measure_rho(instance.policies, instance.population, gaps, epsilon=0.0)
    for scale, factor in ((Clipped(0.0), 1.0), (Shifted(0.0, slope=0.5), 4.0)):
        solution = solve_by_pricing(
            DesignTask(instance.policies, instance.population, reference=gaps.best, gaps=gaps.scores, scale=scale),
            pricing=price_by_argmax(instance.policies),
            max_rounds=10,
        )
        assert solution.lower <= factor * listed.upper * (1 + 1e-9)
        assert factor * listed.lower <= solution.upper * (1 + 1e-9)

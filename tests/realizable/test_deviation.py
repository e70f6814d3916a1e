"""How much better any policy may be, against a look at every policy there is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.realizable.deviation import largest_deviation


def instance(seed: int, *, n: int, n_actions: int, d: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal((n, n_actions, d))
    half = rng.standard_normal((d, d))
    parameter = rng.standard_normal(d)
    return {
        "phi": phi,
        "weights": rng.dirichlet(np.ones(n)),
        "reference": np.argmax(phi @ parameter, axis=1),
        "parameter": parameter,
        "shape": 0.3 * half @ half.T,
    }


def by_hand(phi, weights, reference, parameter, shape) -> float:
    rows = np.arange(len(phi))
    best = 0.0
    for actions in itertools.product(range(phi.shape[1]), repeat=len(phi)):
        x = weights @ (phi[rows, list(actions)] - phi[rows, reference])
        best = max(best, float(x @ parameter + np.sqrt(x @ shape @ x)))
    return best


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 3), st.integers(1, 4))
def test_search_and_bounds_enclose_the_maximum(seed: int, n: int, n_actions: int, d: int):
    case = instance(seed, n=n, n_actions=n_actions, d=d)
    truth = by_hand(**case)
    found = largest_deviation(**case)
    assert found.value <= truth + 1e-9
    assert found.value >= truth - 1e-9  # 100 starts are plenty here
    assert found.proven >= truth - 1e-9
    tried = largest_deviation(**case, target=1.02 * truth + 1e-6)
    assert truth - 1e-9 <= tried.proven <= found.proven + 1e-12


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_branch_and_bound_proves_what_is_true(d: int):
    case = instance(d, n=40, n_actions=4, d=d)
    found = largest_deviation(**case)
    tried = largest_deviation(**case, target=1.1 * found.value)
    assert found.value <= tried.proven <= 1.1 * found.value
    assert found.proven > 1.1 * found.value or d == 1


def test_points_are_those_of_policies():
    case = instance(7, n=6, n_actions=3, d=2)
    found = largest_deviation(**case)
    values = [x @ case["parameter"] + np.sqrt(x @ case["shape"] @ x) for x in found.points]
    assert max(values) == pytest.approx(found.value)


def test_a_singular_ellipsoid_and_nothing_to_gain():
    case = instance(3, n=6, n_actions=3, d=3)
    case["shape"] = np.diag([0.4, 0.0, 0.0])
    assert largest_deviation(**case).value == pytest.approx(by_hand(**case))
    case["shape"] = np.zeros((3, 3))
    found = largest_deviation(**case)
    assert found.value == 0
    assert found.proven == pytest.approx(0.0)
    assert len(found.points) == 0

"""Two coefficients or one: every direction, seen in one turn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.policies import Linear
from pacbandits.policies.features import Given
from pacbandits.policies.linear.classes import ListedLinear, SweptLinear
from pacbandits.policies.linear.enumeration import Turns, directions
from pacbandits.policies.linear.policy import rows_of
from tests.examples import examples
from tests.policies.linear.cases import brute_values, plain_actions, value, with_phi


@st.composite
def flat_problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """φ (n, A, 2) with ties, copies and points in line, scores, and levels."""
    n, n_actions = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    phi = rng.integers(-3, 4, (n, n_actions, 2)).astype(float)
    kind = draw(st.sampled_from(["whole", "tenths", "near", "real", "line"]))
    if kind == "tenths":
        phi /= 10
    if kind == "near":
        phi += rng.integers(-1, 2, phi.shape) * 1e-16 * np.abs(phi)
        phi[:, :, 0] = phi[:, :1, 0] * (1 + rng.integers(-1, 2, phi[:, :, 0].shape) * 2.0**-52)
    if kind == "real":
        phi = rng.normal(size=phi.shape)
    if kind == "line":
        phi = phi[:, :1] + rng.integers(-2, 3, (n, n_actions, 1)) * phi[:, :1, ::-1]
    scores = (
        rng.integers(-2, 3, (n, n_actions)).astype(float) if draw(st.booleans()) else rng.normal(size=phi.shape[:2])
    )
    return phi, scores, draw(st.integers(1, 9))


@pytest.mark.thorough
@examples(200)
@given(flat_problems())
def test_turning_once_around_sees_every_direction_as_it_acts(problem: tuple[np.ndarray, np.ndarray, int]) -> None:
    phi, scores, levels = problem
    contexts = with_phi(phi)
    listed = directions(2, levels)
    found = Turns.of(rows_of(Given(phi.shape[1], 2), contexts), listed).values(scores)
    actions = np.array([plain_actions(phi, theta) for theta in listed])
    wanted = scores[np.arange(len(phi)), actions].sum(axis=1)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    policies = Linear.of(Given(phi.shape[1], 2), levels=levels)
    assert value(policies.argmax(contexts, scores), contexts, scores) == pytest.approx(wanted.max(), abs=1e-11)


@pytest.mark.thorough
def test_many_levels_of_two_coefficients() -> None:
    """Too many to list, but not to turn through; against all of them with whole numbers, which are exact."""
    rng = np.random.default_rng(0)
    phi, scores = rng.integers(-9, 10, (40, 3, 2)).astype(float), rng.normal(size=(40, 3))
    policies = Linear.of(Given(3, 2), levels=60)
    assert type(policies) is SweptLinear
    assert policies.exact
    assert not policies.lists_policies
    contexts = with_phi(phi)
    best = policies.argmax(contexts, scores)
    wanted = max(scores[np.arange(40), (phi @ theta).argmax(axis=1)].sum() for theta in directions(2, 60))
    assert value(best, contexts, scores) == pytest.approx(wanted)
    front = policies.frontier(contexts, scores, -scores)
    assert front.first[0] == pytest.approx(wanted)
    assert policies.shortfall(contexts, scores).bound == pytest.approx(wanted)


@pytest.mark.thorough
def test_one_coefficient() -> None:
    rng = np.random.default_rng(0)
    phi, scores = rng.normal(size=(30, 3, 1)), rng.normal(size=(30, 3))
    policies = Linear.of(Given(3, 1), levels=500)
    assert isinstance(policies, ListedLinear)
    assert len(policies) == 3
    got = value(policies.argmax(with_phi(phi), scores), with_phi(phi), scores)
    assert got == pytest.approx(brute_values(phi, np.array([[-1], [0], [1]]), scores).max())

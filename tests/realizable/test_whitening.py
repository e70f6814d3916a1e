"""Coordinates of designs and of certificates: white under uniform exploration, and the same space."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.realizable.features import Span, change_coordinates


def make_features(seed: int):
    """Features of very different sizes, of which the last two are combinations of the others; and weights."""
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal((20, 3, 4)) * 10.0 ** rng.integers(-4, 5, size=4)
    scale = np.abs(phi).max(axis=(0, 1))
    mixed = (phi / scale) @ rng.standard_normal((4, 2))
    return np.concatenate([phi, mixed], axis=2), rng.dirichlet(np.ones(20))


@pytest.mark.parametrize("seed", range(5))
def test_uniform_exploration_has_the_identity_for_its_information(seed: int):
    phi, weights = make_features(seed)
    where, span = change_coordinates(phi, weights), Span.of(phi, weights)
    assert where.rank == span.rank == 4
    np.testing.assert_allclose(where.information(where.uniform()), np.eye(4), atol=1e-9)
    own = span.coordinates(phi)
    np.testing.assert_allclose(np.einsum("c,cai,caj->ij", weights / 3, own, own), np.eye(4), atol=1e-9)
    # Either is a rotation of the other, and the way back of a span leads back.
    turn = np.linalg.lstsq(where.points, own.reshape(-1, 4), rcond=None)[0]
    np.testing.assert_allclose(turn @ turn.T, np.eye(4), atol=1e-7)
    np.testing.assert_allclose(own @ span.back, phi, atol=1e-9 * np.abs(phi).max())


def test_features_that_hardly_ever_occur_are_refused_by_a_certificate_first():
    """Contexts of weight w leave a direction of which uniform exploration learns √w: doubles see it, noise hides it."""
    phi = np.zeros((2, 1, 2))
    phi[0, 0, 0] = phi[1, 0, 1] = 1.0
    rare, rarest = np.array([1 - 1e-20, 1e-20]), np.array([1 - 1e-30, 1e-30])
    assert change_coordinates(phi, rare).rank == 2
    with pytest.raises(InputError, match="least squares cannot tell them apart; give those contexts more weight"):
        Span.of(phi, rare)
    with pytest.raises(InputError, match="doubles cannot resolve them; give those contexts more weight"):
        change_coordinates(phi, rarest)

"""Designs: propensities on any contexts, against a direct computation of the closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.records import Contexts, Design


def direct(table: np.ndarray, weights: np.ndarray, reference: np.ndarray, n_actions: int) -> np.ndarray:
    """x_{c,a} = Σ_π κ_π · 1{exactly one of π(c), q(c) is a}, as the formula reads."""
    mass = np.zeros((table.shape[1], n_actions))
    for policy, weight in zip(table, weights, strict=True):
        for c, (action, other) in enumerate(zip(policy, reference, strict=True)):
            for a in range(n_actions):
                mass[c, a] += weight * ((action == a) != (other == a))
    return mass


@st.composite
def designs(draw: st.DrawFn) -> tuple[Finite, np.ndarray, float]:
    n_actions, n, size = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(1, 6))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    policies = Finite(rng.integers(n_actions, size=(size, n)), n_actions=n_actions)
    weights = rng.exponential(size=size) * rng.integers(0, 2, size=size) * 10.0 ** rng.integers(-6, 7)
    return policies, weights, draw(st.sampled_from([0.0, 0.3, 1.0])) / n_actions


@examples(100)
@given(designs())
def test_propensities_are_the_closed_form_and_respect_the_floor(
    case: tuple[Finite, np.ndarray, float],
) -> None:
    policies, weights, floor = case
    support = tuple(policies.policy(i) for i in range(len(policies)))
    contexts = Contexts.finite(policies.table.shape[1])
    design = Design(support=support, weights=weights, reference=support[0], floor=floor)
    propensities = design.propensities(contexts)
    assert propensities.shape == (len(contexts), policies.n_actions)
    assert np.allclose(propensities.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert propensities.min() >= floor
    mass = direct(policies.table, weights, policies.table[0], policies.n_actions)
    if floor == 0:
        root = np.sqrt(mass)
        total = root.sum(axis=1, keepdims=True)
        expected = np.where(total > 0, root / np.where(total > 0, total, 1), 1 / policies.n_actions)
        assert np.allclose(propensities, expected, rtol=1e-9, atol=1e-12)


class AtLeast:
    """A policy on features: plays `action` when the feature is at least a threshold, else 0."""

    n_actions = 3

    def __init__(self, threshold: float, action: int) -> None:
        self.threshold, self.action = threshold, action

    def __call__(self, contexts: Contexts) -> np.ndarray:
        return np.where(contexts.features[:, 0] >= self.threshold, self.action, 0)

    def describe(self) -> str:
        return "a threshold"

    def to_json(self) -> dict[str, Any]:
        return {}


def test_propensities_on_contexts_never_seen() -> None:
    design = Design(support=(AtLeast(1, 1), AtLeast(2, 2)), weights=[4.0, 1.0], reference=AtLeast(9, 1))
    propensities = design.propensities(Contexts.of([[0.0], [1.0], [2.0], [1e6]]))
    root5 = np.sqrt(5.0)
    assert propensities[0].tolist() == [1 / 3, 1 / 3, 1 / 3]
    assert propensities[1] == pytest.approx([0.5, 0.5, 0.0])
    assert propensities[2] == pytest.approx(np.array([root5, 2, 1]) / (root5 + 3))
    # Far out the reference plays 1 too: the first of the support agrees with it, the second does not.
    assert propensities[3] == pytest.approx([0.0, 0.5, 0.5])


def test_noise_weighs_the_actions() -> None:
    contexts = Contexts.finite(1)
    policies = Finite([[0], [1], [2]], n_actions=3)
    design = Design(support=(policies.policy(1), policies.policy(2)), weights=[1.0, 1.0], reference=policies.policy(0))
    noise = np.array([[2.0, 9.0, 0.0]])
    assert design.propensities(contexts, noise=noise)[0] == pytest.approx([0.4, 0.6, 0.0])
    with pytest.raises(InputError, match=r"noise must have shape \(1, 3\), got \(3,\)"):
        design.propensities(contexts, noise=noise[0])
    with pytest.raises(InputError, match="noise must not be negative"):
        design.propensities(contexts, noise=-noise)


def test_an_empty_support_is_played_uniformly() -> None:
    policy = Finite([[0, 1]], n_actions=4).policy(0)
    design = Design(support=(), weights=np.zeros(0), reference=policy)
    assert np.array_equal(design.propensities(Contexts.finite(2)), np.full((2, 4), 0.25))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": [1.0, 2.0]}, r"design weights must have shape \(1,\), got \(2,\)"),
        ({"weights": [-1.0]}, "design weights must not be negative"),
        ({"weights": [np.nan]}, "design weights must be finite"),
        ({"floor": -0.1}, "floor must lie between 0 and 1/2"),
        ({"floor": 0.6}, "floor must lie between 0 and 1/2"),
        ({"floor": np.nan}, "floor must lie between 0 and 1/2"),
        ({"support": (AtLeast(0, 1),)}, "same number of actions"),
        ({"even_share": -0.1}, "even_share must be (a number )?from 0 to 1, got"),
        ({"even_share": 1.5}, "even_share must be (a number )?from 0 to 1, got"),
        ({"even_share": np.nan}, "even_share must be (a number )?from 0 to 1, got"),
    ],
)
def test_refuses_what_does_not_fit(changes: dict[str, Any], message: str) -> None:
    policies = Finite([[0], [1]], n_actions=2)
    parts: dict[str, Any] = {
        "support": (policies.policy(1),),
        "weights": [1.0],
        "reference": policies.policy(0),
    }
    with pytest.raises(InputError, match=message):
        Design(**(parts | changes))


@pytest.mark.parametrize("eta", [0.0, 1e-6, 0.3, 10.0])
def test_smoothing_is_added_to_every_policy_and_action(eta: float) -> None:
    """x_{c,a} = Σ_π κ_π (1{exactly one of π(c), q(c) is a} + η): the paper's (λ⊙γ)ᵀ(t_a + η)."""
    rng = np.random.default_rng(4)
    policies = Finite(rng.integers(4, size=(5, 6)), n_actions=4)
    weights = rng.exponential(size=4)
    support = tuple(policies.policy(i) for i in range(1, 5))
    design = Design(support=support, weights=weights, reference=policies.policy(0), smoothing=eta)
    mass = direct(policies.table[1:], weights, policies.table[0], 4) + eta * weights.sum()
    root = np.sqrt(mass)
    contexts = Contexts.finite(6)
    assert np.allclose(design.propensities(contexts), root / root.sum(axis=1, keepdims=True), rtol=1e-12)
    if eta > 0:
        assert design.propensities(contexts).min() > 0


@pytest.mark.parametrize("eta", [-1.0, np.inf, np.nan])
def test_refuses_a_bad_smoothing(eta: float) -> None:
    policy = Finite([[0, 1]], n_actions=2).policy(0)
    with pytest.raises(InputError, match="smoothing must be 0 or more and finite"):
        Design((), np.empty(0), policy, smoothing=eta)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_share_is_played_evenly_beside_the_floor(share: float) -> None:
    rng = np.random.default_rng(5)
    policies = Finite(rng.integers(4, size=(5, 6)), n_actions=4)
    parts: dict[str, Any] = {
        "support": tuple(policies.policy(i) for i in range(1, 5)),
        "weights": rng.exponential(size=4),
        "reference": policies.policy(0),
        "floor": 0.02,
    }
    contexts, noise = Contexts.finite(6), rng.random((6, 4))
    alone = Design(**parts).propensities(contexts, noise=noise)
    mixed = Design(**parts, even_share=share).propensities(contexts, noise=noise)
    assert mixed == pytest.approx((1 - share) * alone + share / 4, rel=1e-12)
    assert alone.min() == pytest.approx(0.02)  # or nothing would be told of the two together

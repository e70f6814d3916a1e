"""Feature maps against φ spelled out by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.errors import InputError
from pacbandits.policies import Linear
from pacbandits.policies.features import (
    Category,
    CompactMap,
    Crossed,
    FeatureMap,
    Given,
    NumberEncoder,
    SpelledRows,
    learn_encoders,
    map_for,
    map_from_json,
)
from pacbandits.records import Contexts

LABELS = ("north", "east", "south")


def people(n: int = 7, seed: int = 0) -> Contexts:
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(50, 15, n), np.arange(n) % 3, np.full(n, 4.0)])
    weights = rng.dirichlet(np.ones(n))
    return Contexts.of(features, names=["age", "place", "same"], categories=[None, LABELS, None], weights=weights)


def test_encoders_standardise_by_weight_and_leave_out_what_never_varies() -> None:
    contexts = people()
    age, place = learn_encoders(contexts)
    assert isinstance(age, NumberEncoder)
    assert isinstance(place, Category)
    assert (age.feature, place.feature, place.labels) == ("age", "place", LABELS)
    (column,) = age.columns(contexts)
    assert contexts.weights @ column == pytest.approx(0, abs=1e-12)
    assert contexts.weights @ column**2 == pytest.approx(1)
    east, south = place.columns(contexts)
    np.testing.assert_array_equal(east, np.arange(7) % 3 == 1)
    np.testing.assert_array_equal(south, np.arange(7) % 3 == 2)


def test_labels_never_seen_count_as_the_first() -> None:
    (place,) = learn_encoders(Contexts.of([[0], [1]], names=["place"], categories=[LABELS[:2]]))
    other = Contexts.of([[0], [1], [2]], names=["place"], categories=[("east", "west", "north")])
    np.testing.assert_array_equal(place.columns(other), [[1, 0, 0]])


def test_labels_absent_at_first_make_no_column() -> None:
    (place,) = learn_encoders(Contexts.of([[0], [2]], names=["place"], categories=[LABELS]))
    assert isinstance(place, Category)
    assert place.labels == ("north", "south")


def test_blocks_spelled_out() -> None:
    contexts = people()
    crossed = Crossed.blocks(contexts, n_actions=3, relative=True)
    x = crossed.encode(contexts)
    phi = crossed(contexts)
    assert crossed.dimension == phi.shape[2] == 8
    assert len(crossed.names) == 8
    theta = np.random.default_rng(0).normal(size=(4, 2))
    wanted = np.column_stack([np.zeros(7), x @ theta])
    np.testing.assert_allclose(phi @ theta.reshape(-1), wanted)
    assert Crossed.blocks(contexts, n_actions=3).dimension == 12
    assert Crossed.blocks(contexts, n_actions=1, relative=True).dimension == 4


def maps(contexts: Contexts) -> dict[str, FeatureMap]:
    table = np.random.default_rng(1).normal(size=(3, 2))
    return {
        "blocks": Crossed.blocks(contexts, n_actions=3),
        "relative": Crossed.blocks(contexts, n_actions=3, relative=True),
        "shared": Crossed.shared(contexts, table),
        "given": Given(3, 5),
    }


@given(st.integers(0, 2**32), st.sampled_from(["blocks", "relative", "shared", "given"]))
def test_mapped_is_phi(seed: int, name: str) -> None:
    """Scores, pull and coordinates are products with φ (n, A, d), which is itself as its names say."""
    rng = np.random.default_rng(seed)
    plain = people(5, seed % 100)
    contexts = Contexts(
        plain.features,
        plain.names,
        plain.categories,
        None,
        plain.weights,
        Contexts.finite(5, phi=rng.normal(size=(5, 3, 5))).phi,
    )
    features = maps(contexts)[name]
    phi, mapped = features(contexts), features.on(contexts)
    d = features.dimension
    assert phi.shape == (5, 3, d)
    assert len(features.names) == d
    theta, weights = rng.normal(size=d), rng.normal(size=(5, 3))
    np.testing.assert_allclose(mapped.scores(theta), phi @ theta, atol=1e-12)
    np.testing.assert_allclose(mapped.pull(weights), np.einsum("na,nad->d", weights, phi), atol=1e-12)


@pytest.mark.parametrize("name", ["blocks", "relative", "shared", "given"])
def test_maps_survive_json(name: str) -> None:
    features = maps(people())[name]
    back = map_from_json(json.loads(json.dumps(features.to_json())))
    assert back.to_json() == features.to_json()
    assert (back.n_actions, back.dimension, back.names) == (features.n_actions, features.dimension, features.names)
    if name != "given":
        np.testing.assert_array_equal(back(people(4, 3)), features(people(4, 3)))


def test_the_map_that_fits() -> None:
    phi = np.random.default_rng(0).normal(size=(4, 3, 2))
    assert isinstance(map_for(Contexts.finite(4, phi=phi), n_actions=3, relative=True), Given)
    assert isinstance(map_for(people(), n_actions=3, relative=True), Crossed)
    with pytest.raises(InputError, match="neither features nor phi"):
        map_for(Contexts.finite(4), n_actions=3, relative=True)


def test_wrong_features_are_refused() -> None:
    phi = np.ones((4, 3, 2))
    with pytest.raises(InputError, match="zero everywhere"):
        Given.learn(Contexts.finite(4, phi=0 * phi), n_actions=3)
    with pytest.raises(InputError, match="3 actions"):
        Given.learn(Contexts.finite(4, phi=phi), n_actions=2)
    with pytest.raises(InputError, match="2 features"):
        Given(3, 5)(Contexts.finite(4, phi=phi))
    with pytest.raises(InputError, match="no features of actions"):
        Given(3, 2)(people())
    with pytest.raises(InputError, match="finite"):
        Crossed.shared(people(), [[1.0], [np.inf]])
    with pytest.raises(InputError, match="at least one"):
        Crossed((), np.empty((3, 0)))
    with pytest.raises(InputError, match="lack the feature 'age'"):
        Crossed.blocks(people(), n_actions=2)(Contexts.of([[1.0]], names=["height"]))
    with pytest.raises(InputError, match="must hold numbers"):
        Crossed.blocks(people(), n_actions=2)(Contexts.of([[0]], names=["age"], categories=[("young",)]))


class Squares:
    """A map from outside the package: x and its square, for the second of two actions."""

    n_actions, dimension, names = 2, 2, ("x", "x²")

    def __call__(self, contexts: Contexts) -> np.ndarray:
        x = contexts.features[:, 0]
        phi = np.column_stack([x, x**2])
        return np.stack([np.zeros_like(phi), phi], axis=1)

    def on(self, contexts: Contexts) -> SpelledRows:
        return SpelledRows(self(contexts))

    def played(self, contexts: Contexts, actions: np.ndarray) -> np.ndarray:
        return self(contexts)[np.arange(len(contexts)), actions]

    def to_json(self) -> dict[str, object]:
        return {"kind": "squares"}


@pytest.mark.first(1)
@pytest.mark.parametrize("oracle", ["auto", "search"])
def test_a_map_from_outside_is_spelled_out(oracle: str) -> None:
    features = Squares()
    assert isinstance(features, FeatureMap)
    assert not isinstance(features, CompactMap)
    contexts = Contexts.of(np.linspace(-2, 2, 9)[:, None], names=["x"])
    bent = Linear.of(features, levels=2, oracle=oracle)
    scores = np.column_stack([np.zeros(9), contexts.features[:, 0] ** 2 - contexts.features[:, 0]])
    policy = bent.argmax(contexts, scores)
    np.testing.assert_array_equal(policy(contexts), scores[:, 1] > 0)
    assert policy.describe() == "the action of largest −1·[x] + 1·[x²]"
    assert bent.has(policy)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"kind": "other"},
        {"kind": "given", "n_actions": 3},
        {"kind": "given", "n_actions": 3, "dimension": 1.5},
        {"kind": "crossed", "encoders": [], "actions": [["x"]]},
        {"kind": "crossed", "encoders": [{"feature": "age", "centre": 0, "spread": 0}], "actions": [[1.0]]},
        {"kind": "crossed", "encoders": [{"feature": "age"}], "actions": [[1.0]]},
    ],
)
def test_maps_in_json_are_checked(value: object) -> None:
    with pytest.raises(InputError):
        map_from_json(value)

"""Regression: fits against scikit-learn and closed forms, widths, radii, and draws that are what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from pacbandits.confidence import self_normalised_bound
from pacbandits.policies.finite import Finite
from pacbandits.records import Contexts, Log
from pacbandits.rivals.regression import ContextCoordinates, best_by_model, best_by_regression, fit_ridge
from pacbandits.rivals.seen import Seen

KINDS = ("joint", "lines", "table")


def contexts_of(kind, *, n=12):
    """Contexts that lead to one kind of regression or another, for three actions."""
    rng = np.random.default_rng(1)
    phi = rng.normal(size=(n, 3, 2)) if kind == "joint" else None
    features = rng.normal(size=(n, 2)) * [1, 50] + 3 if kind == "lines" else np.empty((n, 0))
    return Contexts.of(features, ids=np.arange(n), phi=phi)


def rows_of(kind, *, n=12, samples=200, seed=2):
    """Contexts, and what was seen of them: a log of random plays with repeats."""
    contexts, rng = contexts_of(kind, n=n), np.random.default_rng(seed)
    log = Log.of(
        contexts.take(rng.integers(0, n, size=samples)),
        actions=rng.integers(0, 3, size=samples),
        rewards=rng.random(samples),
        propensities=np.full((samples, 3), 1 / 3),
        repeats=rng.integers(1, 4, size=samples),
    )
    return contexts, log, Seen.nothing(contexts, n_actions=3).with_log(log)


def fitted(kind, *, ridge=1.0, **changes):
    contexts, _, seen = rows_of(kind, **changes)
    return contexts, fit_ridge(seen, coordinates=ContextCoordinates.of(contexts), ridge=ridge)


def design(kind, contexts):
    """Features φ(c, a) (n, A, d) under which every kind is one linear model."""
    n = len(contexts)
    if kind == "joint":
        return contexts.phi.array
    one = ContextCoordinates.of(contexts)(contexts) if kind == "lines" else np.eye(n)
    out = np.zeros((n, 3, 3 * one.shape[1]))
    for action in range(3):
        out[:, action, action * one.shape[1] : (action + 1) * one.shape[1]] = one
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ridge", [0.3, 1.0, 20.0])
def test_predictions_are_those_of_scikit_learn(kind, ridge):
    contexts, log, seen = rows_of(kind)
    model = fit_ridge(seen, coordinates=ContextCoordinates.of(contexts), ridge=ridge)
    features = design(kind, contexts)
    other = Ridge(alpha=ridge, fit_intercept=False).fit(
        features[log.contexts.ids, log.actions], log.rewards, sample_weight=log.repeats
    )
    assert np.allclose(model.predict(contexts), features @ other.coef_, atol=1e-9)
    assert (model.dimension, model.pieces) == {"joint": (2, 1), "lines": (9, 3), "table": (36, 36)}[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_widths_and_radii_are_those_of_the_formula(kind):
    contexts, model = fitted(kind, ridge=0.7)
    _, log, _ = rows_of(kind)
    features = design(kind, contexts)
    played = features[log.contexts.ids, log.actions]
    information = (played * log.repeats[:, None]).T @ played
    whole = information + 0.7 * np.eye(features.shape[2])
    wanted = np.sqrt(np.einsum("nad,de,nae->na", features, np.linalg.inv(whole), features))
    assert np.allclose(model.widths(contexts), wanted)
    radii = model.radii(contexts, noise=0.25, delta=0.05)
    block = features.shape[2] // model.pieces
    for action in range(3):
        for context in (0, 5):
            piece = {"joint": 0, "lines": action, "table": action * len(contexts) + context}[kind]
            part = slice(piece * block, (piece + 1) * block)
            bound = self_normalised_bound(
                information[part, part], 0.7 * np.eye(block), noise=0.25, delta=0.05 / model.pieces
            )
            assert radii[context, action] == pytest.approx(math.sqrt(bound) + math.sqrt(0.7))


@pytest.mark.parametrize("kind", KINDS)
def test_draws_spread_around_the_fit_as_widths_say(kind):
    contexts, model = fitted(kind)
    drawn = model.draws(contexts, np.random.default_rng(0), scale=2.0, count=4000)
    mean, deviation = drawn.mean(axis=0), drawn.std(axis=0)
    assert np.allclose((mean - model.predict(contexts)) / model.widths(contexts), 0, atol=0.2)
    assert np.allclose(deviation / model.widths(contexts), 2.0, atol=0.15)


@pytest.mark.parametrize("kind", KINDS)
def test_one_parameter_is_drawn_for_all_contexts_whichever_are_asked(kind):
    contexts, model = fitted(kind)
    few = contexts.take([7, 2])
    together = model.draws(contexts, np.random.default_rng(3), scale=1.0, count=5)
    rng = np.random.default_rng(3)
    one_by_one = np.stack([model.draw(few, rng, scale=1.0) for _ in range(5)])
    assert np.allclose(together[:, [7, 2]], one_by_one)
    assert not np.allclose(one_by_one[0], one_by_one[1])


def test_a_context_that_nobody_foresaw_is_drawn_by_its_id():
    _, _, seen = rows_of("table")
    model = fit_ridge(seen, coordinates=ContextCoordinates.of(seen.contexts), ridge=4.0)
    other = Contexts.of(np.empty((900, 0)), ids=np.arange(100, 1000))
    assert (model.predict(other) == 0).all()
    assert np.allclose(model.widths(other), 0.5)
    drawn = model.draws(other, np.random.default_rng(3), scale=3.0, count=20)
    assert drawn.std() == pytest.approx(1.5, rel=0.03)
    assert abs(drawn.mean()) < 0.03
    # Ids, actions and draws have nothing to do with one another.
    flat = np.corrcoef(drawn.reshape(20, -1))
    assert np.abs(flat - np.eye(20)).max() < 0.1
    assert np.abs(np.corrcoef(drawn.transpose(2, 0, 1).reshape(3, -1)) - np.eye(3)).max() < 0.05
    assert abs(np.corrcoef(drawn[:, 1:].ravel(), drawn[:, :-1].ravel())[0, 1]) < 0.05
    some = model.draws(other.take([7, 600]), np.random.default_rng(3), scale=3.0, count=20)
    assert np.array_equal(some, drawn[:, [7, 600]])


def test_features_are_centred_scaled_and_spread_out():
    contexts = Contexts.of(
        [[10, 0], [30, 1], [np.nan, 2]], names=["age", "device"], categories=[None, ("phone", "desktop", "other")]
    )
    rows = ContextCoordinates.of(contexts)(contexts)
    assert rows.tolist() == [[1, -1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 0, 0, 0, 1]]


def test_answers_do_not_hold_it_against_an_action_that_it_was_played_rarely():
    """One reward in one play, against 7 in 10: shrunk towards 0 that is 1/2 against 7/11, towards b it is more."""
    contexts, policies = Contexts.finite(1), Finite([[0], [1]], n_actions=2)
    log = Log.of(
        contexts.take([0, 0, 0]),
        actions=[0, 1, 1],
        rewards=[1.0, 1.0, 0.0],
        propensities=np.full((3, 2), 0.5),
        repeats=[1, 7, 3],
    )
    seen, coordinates = Seen.nothing(contexts, n_actions=2).with_log(log), ContextCoordinates.of(contexts)
    assert best_by_regression(policies, seen, coordinates=coordinates)[0](contexts).tolist() == [0]
    towards_nothing = fit_ridge(seen, coordinates=coordinates).predict(contexts)
    assert best_by_model(policies, seen, towards_nothing)[0](contexts).tolist() == [1]


def test_answers_by_joint_features_are_those_of_the_fit_as_they_need_not_have_a_constant():
    for seed in range(10):
        contexts, _, seen = rows_of("joint", samples=40, seed=seed)
        policies = Finite(np.random.default_rng(seed).integers(0, 3, size=(50, 12)), n_actions=3)
        coordinates = ContextCoordinates.of(contexts)
        wanted, _ = best_by_model(policies, seen, fit_ridge(seen, coordinates=coordinates).predict(seen.contexts))
        found, _ = best_by_regression(policies, seen, coordinates=coordinates)
        assert found(contexts).tolist() == wanted(contexts).tolist()


def test_the_model_says_which_policy_is_the_best_of_a_class():
    contexts = Contexts.finite(2, weights=[0.9, 0.1])
    policies = Finite([[0, 1], [1, 0]], n_actions=2)
    seen = Seen.nothing(contexts, n_actions=2)
    # The first is better in the rare context by more, in the common one worse by less.
    policy, calls = best_by_model(policies, seen, np.array([[0.5, 0.6], [0.1, 0.7]]))
    assert policy(contexts).tolist() == [1, 0]
    assert calls == 1

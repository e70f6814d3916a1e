"""Reward models where numbers are missing: that something is missing can say as much as what it is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rewards import Additive, Neighbours, PerAction, Regions, default_model
from pacbandits.rewards.base import codes_of, learn_cuts
from pacbandits.rewards.registry import model_from_json
from tests.rewards.logs import Line, error, uniform_log

NAN = float("nan")


def patchy(n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, 2) with holes in the first, and means (n, 2) of rewards that depend on those."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 2))
    gone = rng.random(n) < 0.4
    features[gone, 0] = NAN
    high = np.where(gone, 0.9, np.where(features[:, 0] > 0, 0.6, 0.2))
    return features, np.column_stack([high, 1.0 - high])


@pytest.mark.first(3)
@pytest.mark.parametrize(
    "make", [Regions.learn, Additive.learn, lambda contexts: Neighbours(), default_model], ids="ranb"
)
def test_models_learn_from_what_is_missing(make) -> None:
    features, means = patchy(600, seed=1)
    log = uniform_log(means, features, seed=2)
    others, theirs = patchy(500, seed=3)
    model = make(log.contexts)
    assert error(model.fit(log), Contexts.of(others), theirs) < 0.15
    again = model_from_json(json.loads(json.dumps(model.to_json(), allow_nan=False)))
    assert again == model
    np.testing.assert_array_equal(again.fit(log).predict(log.contexts), model.fit(log).predict(log.contexts))


@pytest.mark.parametrize("make", [Regions.learn, Additive.learn, lambda contexts: Neighbours(), default_model])
def test_what_is_missing_later_alone_is_predicted_too(make) -> None:
    features, means = patchy(400, seed=1)
    whole = uniform_log(means, np.nan_to_num(features), seed=2)
    found = make(whole.contexts).fit(whole).predict(Contexts.of([[NAN, NAN], [0.0, NAN], [NAN, 0.0]]))
    assert ((found > 0) & (found < 1)).all()


def test_steps() -> None:
    contexts = Contexts.of([[1.0, 5.0, NAN], [2.0, 6.0, NAN], [NAN, 7.0, NAN]])
    cuts = learn_cuts(contexts)
    assert cuts == ((1.5, None), (5.5, 6.5), (None,))
    assert codes_of(cuts, contexts).tolist() == [[0, 0, 1], [1, 1, 1], [2, 2, 1]]
    # Where nothing was missing, what is fails every "at most", as in trees.
    assert codes_of(cuts, Contexts.of([[NAN] * 3, [9.0] * 3])).tolist() == [[2, 2, 1], [1, 2, 0]]


def test_a_number_that_is_missing_is_as_far_from_others_as_labels_are() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    x[::4] = NAN
    coded = Contexts.of(np.isnan(x)[:, None].astype(float), categories=[("there", "missing")])
    steady = Contexts.of(np.where(np.isnan(x), NAN, 3.0)[:, None])
    actions, rewards = rng.integers(2, size=400), (rng.random(400) < 0.3 + 0.4 * np.isnan(x)).astype(float)
    found = [
        Neighbours((2.0,)).fit(log).predict(log.contexts)
        for log in (
            Log.of(c, actions=actions, rewards=rewards, propensities=np.full((400, 2), 0.5)) for c in (coded, steady)
        )
    ]
    np.testing.assert_allclose(*found, atol=1e-9)


@pytest.mark.parametrize("bad", [[None, 1.0], [1.0, None, None], [None] * 20, [float("inf"), None], [2.0, 1.0, None]])
def test_damaged_cuts_are_refused(bad: list[object]) -> None:
    with pytest.raises(InputError) as caught:
        model_from_json({"kind": "additive", "cuts": [bad], "strength": 1.0})
    assert "\n" not in str(caught.value)


class Strict(Line):
    """It takes no NaN, as most do."""

    def fit(self, features, rewards):
        if np.isnan(features).any():
            raise ValueError("Input X contains NaN.")
        return super().fit(features, rewards)

    def predict(self, features):
        if np.isnan(features).any():
            raise ValueError("Input X contains NaN.")
        return super().predict(features)


def test_an_estimator_of_ones_own_takes_what_is_missing_or_says_so() -> None:
    features, means = patchy(100, seed=1)
    log = uniform_log(means, features, seed=2)
    words = "is missing, and Strict cannot do without it; fill it, leave the feature out"
    with pytest.raises(InputError, match=words):
        PerAction(Strict()).fit(log)
    whole = uniform_log(means, np.nan_to_num(features), seed=2)
    with pytest.raises(InputError, match=words):
        PerAction(Strict()).fit(whole).predict(log.contexts)
    features[:, 0] = NAN
    only_second = Contexts.of(features[:, ::-1])
    kept = PerAction(Line()).fit(uniform_log(means, features[:, ::-1], seed=2)).predict(only_second)
    assert np.isfinite(kept).all()

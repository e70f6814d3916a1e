"""Sums of models."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.records import Contexts
from pacbandits.rewards import Additive, CellMeans, Constant, Neighbours, Regions, Stacked, model_from_json
from pacbandits.rewards.base import action_means
from tests.rewards.logs import by_region, by_sum, draw, error, uniform_log


class Shift:
    """A model that errs on purpose: another's deviations from the means, made larger."""

    def __init__(self, model, factor):
        self.model, self.factor = model, factor

    def fit(self, log):
        self.fitted, self.means = self.model.fit(log), action_means(log)
        return self

    def predict(self, contexts):
        return np.clip(self.means + self.factor * (self.fitted.predict(contexts) - self.means), 0, 1)

    def to_json(self):
        return {"kind": "shift"}


@pytest.mark.parametrize("means", [by_region, by_sum])
def test_a_sum_is_about_as_good_as_the_best_of_its_models(means):
    x = np.random.default_rng(0).normal(size=(4000, 3))
    log = uniform_log(means(x), x, seed=1)
    models = (Regions.learn(log.contexts), Additive.learn(log.contexts))
    alone = [error(model.fit(log), log.contexts, means(x)) for model in models]
    assert error(Stacked(models).fit(log), log.contexts, means(x)) < 1.1 * min(alone) < max(alone)


def test_weights_undo_what_is_out_of_scale():
    x = np.random.default_rng(0).normal(size=(4000, 3))
    log = uniform_log(by_region(x), x, seed=1)
    model = Regions.learn(log.contexts)
    straight = error(model.fit(log), log.contexts, by_region(x))
    assert error(Shift(model, 0.3).fit(log), log.contexts, by_region(x)) > 3 * straight
    assert error(Stacked((Shift(model, 0.3),)).fit(log), log.contexts, by_region(x)) < 1.2 * straight


def test_of_a_model_that_knows_nothing_nothing_is_left():
    x = np.random.default_rng(0).normal(size=(2000, 2))
    log = uniform_log(np.full((2000, 2), [0.3, 0.6]), x, seed=2)
    astray = Neighbours((0.01,))
    assert error(astray.fit(log), log.contexts, [0.3, 0.6]) > 0.25
    assert error(Stacked((astray, Additive.learn(log.contexts))).fit(log), log.contexts, [0.3, 0.6]) < 0.04


@pytest.mark.parametrize("right", [True, False], ids=["one of them is right", "good for all"])
def test_actions_speak_for_each_other(right):
    """Of three actions exactly one is right; or contexts are good for all of them or for none."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2))
    which = (np.arctan2(x[:, 0], x[:, 1]) * 1.5 / np.pi + 1.5).astype(int) % 3
    means = np.eye(3)[which] if right else np.repeat(0.25 + 0.5 * (x[:, :1] * x[:, 1:] > 0), 3, axis=1)
    log = uniform_log(means[:300], x[:300], seed=1)
    new = Contexts.of(x[300:])
    alone = error(Neighbours().fit(log), new, means[300:])
    assert error(Stacked((Neighbours(),)).fit(log), new, means[300:]) < 0.93 * alone


def test_a_row_alone_is_predicted_by_its_mean():
    log = draw(0, n=1)
    assert isinstance(Stacked((CellMeans(),)).fit(log), Constant)


def test_a_sum_comes_back_from_json_and_not_from_a_damaged_one():
    log = draw(2)
    model = Stacked((Regions.learn(log.contexts), CellMeans(2.0), Neighbours((3.0, 0.5))))
    told = model.to_json()
    assert model_from_json(told) == model
    cells = CellMeans().to_json()
    for models, message in (
        ([], "must be a list with a length between 1 and 8, got 0 entries"),
        ([cells] * 9, "between 1 and 8, got 9 entries"),
        ([cells, told], "a reward model that is part of another may not be of kind 'stacked' in JSON"),
        ([{"kind": "either", "first": cells, "second": cells}], "part of another may not be of kind 'either' in JSON"),
        ([{"kind": "magic"}], "a reward model of kind 'magic' cannot be made again from a file; pass it"),
        (cells, "must be a list, got an object"),
        ([3], "the reward model must be an object, got 3"),
    ):
        with pytest.raises(InputError, match=message):
            model_from_json({"kind": "stacked", "models": models})
    with pytest.raises(InputError, match="part of another may not be of kind 'stacked' in JSON"):
        model_from_json({"kind": "either", "first": cells, "second": told})


def test_a_sum_of_nothing_is_refused():
    with pytest.raises(InputError, match="a stacked reward model needs at least one to be made of"):
        Stacked(())

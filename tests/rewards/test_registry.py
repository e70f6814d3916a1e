"""Reward models and their JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.compiled import Kernel
from pacbandits.errors import InputError
from pacbandits.records import Contexts
from pacbandits.rewards import (
    Additive,
    CachedModel,
    CellMeans,
    Either,
    Neighbours,
    PerAction,
    Regions,
    Stacked,
    additive,
    base,
    can_be_made_again,
    default_model,
    fit_from_json,
    model_from_json,
    neighbours,
    no_idea,
    stored_fit,
)
from pacbandits.rewards.combined import WeightedModel
from pacbandits.rewards.registry import load_machine_code
from tests.rewards.logs import Line, draw


def test_models_come_back_from_json():
    log = draw(6)
    for model in (
        CellMeans(),
        CellMeans(3.5),
        Additive.learn(log.contexts, strength=7.0),
        Regions.learn(log.contexts),
        Neighbours((2.0, 0.1)),
        Either(Regions.learn(log.contexts), CellMeans()),
        default_model(log.contexts),
    ):
        told = json.loads(json.dumps(model.to_json(), allow_nan=False))
        back = model_from_json(told)
        assert back == model
        assert np.array_equal(back.fit(log).predict(log.contexts), model.fit(log).predict(log.contexts))
    given = PerAction(Line()).to_json()
    assert given == {"kind": "given", "estimator": "Line"}
    for bad in (given, {}, {"kind": "magic"}, {"kind": ["additive"]}, {"kind": "either", "first": given, "second": {}}):
        with pytest.raises(InputError, match="cannot be made again from a file; pass it"):
            model_from_json(bad)


def test_the_default_model_fits_the_contexts():
    assert default_model(Contexts.finite(3)) == CellMeans()
    model = default_model(draw(0).contexts)
    assert isinstance(model, Stacked)
    assert [type(part) for part in model.models] == [Regions, Additive, Neighbours]


class Mine:
    """A reward model from outside of the package: the mean of all rewards, whatever the context and action."""

    def fit(self, log):
        self.n_actions = log.n_actions
        self.mean = np.average(log.rewards, weights=log.repeats)
        return self

    def predict(self, contexts):
        return np.full((len(contexts), self.n_actions), self.mean)

    def to_json(self):
        return {"kind": "mine"}


def test_a_model_from_outside_is_passed_again():
    problem = pb.load_problem("two-of-many:actions=4,policies=12,contexts=8")
    done = pb.run(problem, algorithm=pb.Coda(0.2, 0.1, model=Mine()), rng=0)
    assert done.certificate.model == {"kind": "mine"}
    assert pb.verify(done.certificate, done.log, problem.policies, model=Mine()).good
    with pytest.raises(InputError, match="a reward model of kind 'mine' cannot be made again from a file; pass it"):
        pb.verify(done.certificate, done.log, problem.policies)
    assert can_be_made_again(CellMeans())
    assert not can_be_made_again(Mine())
    assert not can_be_made_again(Either(CellMeans(), Mine()))


@cache
def fits():
    """Fitted models of every kind that is stored, and the contexts of their log, with a missing number."""
    log = draw(7, n=200)
    features = log.contexts.features.copy()
    features[::7, 0] = np.nan
    log = replace(log, contexts=replace(log.contexts, features=features))
    models = (CellMeans(), Additive.learn(log.contexts), Regions.learn(log.contexts), Neighbours())
    made = [model.fit(log) for model in (*models, default_model(log.contexts))]
    # Of so few rows the sum may have parts of weight 0 only.
    parts = tuple(WeightedModel(one, 0.5 + j, 0.1 * j) for j, one in enumerate(made[1:4]))
    return [no_idea(3), *made, replace(made[-1], parts=parts)], log.contexts


def test_fitted_models_predict_the_same_after_json():
    made, contexts = fits()
    for fitted in made:
        told = json.loads(json.dumps(stored_fit(CachedModel(fitted, n_actions=3)).to_json(), allow_nan=False))
        back = fit_from_json(told, n_actions=3)
        assert back.to_json() == told
        assert np.array_equal(back.predict(contexts), fitted.predict(contexts))
        one_by_one = [back.predict(contexts.take(np.array([i]))) for i in range(30)]
        assert np.array_equal(np.concatenate(one_by_one), fitted.predict(contexts)[:30])


def test_fitted_models_predict_the_same_without_machine_code(monkeypatch):
    made, contexts = fits()
    expected = [fitted.predict(contexts) for fitted in made]
    monkeypatch.setattr(Kernel, "is_quicker_plain", lambda self, rows: True)
    for fitted, figures in zip(made, expected, strict=True):
        assert np.array_equal(fitted.predict(contexts), figures), type(fitted)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "magic"}, "kind"),
        ({"means": [0.5, 0.5]}, "means"),
        ({"played": [False, False, False]}, "some action"),
        ({"parts": [{"own": 1.0, "shared": 0.0, "fitted": {"kind": "stacked"}}]}, "kind"),
        ({"more": 1}, "means nothing here"),
    ],
)
def test_fitted_models_that_cannot_be_are_refused(change, words):
    told = fits()[0][-1].to_json()
    with pytest.raises(InputError, match=words):
        fit_from_json(told | change, n_actions=3)


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        (2, {"ids": [3, 3]}, "rise"),
        (2, {"table": [[0.5] * 3]}, "table"),
        (3, {"slopes": [[0.1] * 3]}, "slopes"),
        (4, {"root": {"feature": 9, "value": 0, "yes": {}, "no": {}}}, "feature"),
        (4, {"root": {"feature": 0, "value": 0, "yes": {"means": [0.5] * 3}}}, "no"),
        (5, {"rows": [[10**6], [], []]}, "rows"),
        (5, {"coefficients": [[], [], []]}, "coefficients"),
        (5, {"anchors": [[1.0]]}, "anchor"),
    ],
)
def test_parts_that_cannot_be_are_refused(number, change, words):
    told = fits()[0][number - 1].to_json()
    with pytest.raises(InputError, match=words):
        fit_from_json(told | change, n_actions=3)


def test_an_estimator_from_outside_is_not_stored():
    with pytest.raises(InputError, match="FittedEach cannot be written to a file"):
        stored_fit(PerAction(Line(), least=1).fit(draw(6)))
    with pytest.raises(InputError, match="Mine cannot be written to a file"):
        stored_fit(Mine().fit(draw(6)))
    part = WeightedModel(Mine().fit(draw(6)), 1.0, 0.0)
    with pytest.raises(InputError, match="Mine cannot be written to a file"):
        stored_fit(replace(fits()[0][-1], parts=(part,))).to_json()


def test_machine_code_of_predictions_is_loaded_before_it_is_needed():
    load_machine_code()
    assert base._count_edges.is_loaded
    assert additive._add_slopes.is_loaded
    assert neighbours._liken.is_loaded
    assert neighbours._add_anchors.is_loaded

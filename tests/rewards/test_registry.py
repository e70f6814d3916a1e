"""Reward models and their JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.errors import InputError
from pacbandits.records import Contexts
from pacbandits.rewards import (
    Additive,
    CellMeans,
    Either,
    Neighbours,
    PerAction,
    Regions,
    Stacked,
    can_be_made_again,
    default_model,
    model_from_json,
)
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

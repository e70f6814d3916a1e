"""Predictions by round are kept, and never taken for those of another log or model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import pacbandits as pb
from pacbandits.rewards import CellMeans, Constant, no_idea, predict_by_round


class Mine:
    """A model that says the same of itself as any other of its kind."""

    def __init__(self, guess: float) -> None:
        self.guess = guess

    def fit(self, log: pb.Log) -> Constant:
        return Constant(np.full(log.n_actions, self.guess))

    def to_json(self) -> dict[str, str]:
        return {"kind": "mine"}


def log(seed=0):
    rng = np.random.default_rng(seed)
    people = pb.Contexts.of(np.zeros((60, 0)), ids=rng.integers(0, 3, 60))
    actions, rewards = rng.integers(0, 2, 60), rng.random(60)
    rounds = np.repeat([0, 1, 2], 20)
    return pb.Log.of(people, actions=actions, rewards=rewards, propensities=np.full((60, 2), 0.5), rounds=rounds)


def test_the_same_is_given_again_and_nothing_else():
    one = log()
    first = predict_by_round(one, CellMeans())
    assert predict_by_round(replace(one), CellMeans()) is first
    other = replace(one, rewards=1 - one.rewards)
    assert not np.array_equal(predict_by_round(other, CellMeans()), first)
    assert np.array_equal(predict_by_round(one, CellMeans()), first)
    assert predict_by_round(one, Mine(0.3))[-1, 0] == 0.3
    assert predict_by_round(one, Mine(0.6))[-1, 0] == 0.6
    assert np.array_equal(first[:20], no_idea(2).predict(one.contexts)[:20])

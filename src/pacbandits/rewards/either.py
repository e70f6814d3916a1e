"""A reward model made of two: whichever predicts better what it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pacbandits.fields import Fields
from pacbandits.records import Log
from pacbandits.rewards.base import FittedModel, Json, RewardModel
from pacbandits.rewards.halves import half_of


@dataclass(frozen=True)
class Either:
    """Whichever of two models, fitted to half of the rows, predicts the other half better; of equals the first.

    first, second: the models.
    """

    kind: ClassVar[str] = "either"

    first: RewardModel
    second: RewardModel

    def fit(self, log: Log) -> FittedModel:
        heads = half_of(log)
        if heads.all() or not heads.any():
            return self.first.fit(log)
        halves = log.only(heads), log.only(~heads)
        errors = [
            sum(_error(model.fit(one), other) for one, other in (halves, halves[::-1]))
            for model in (self.first, self.second)
        ]
        return (self.second if errors[1] < errors[0] else self.first).fit(log)

    def to_json(self) -> Json:
        return {"kind": self.kind, "first": self.first.to_json(), "second": self.second.to_json()}

    @classmethod
    def from_json(cls, given: Fields, *, read: Callable[[object], RewardModel]) -> Either:
        given.check_known(("kind", "first", "second"))
        return cls(read(given["first"]), read(given["second"]))


def _error(fitted: FittedModel, log: Log) -> float:
    """The squared error of the predictions of what was played."""
    guesses = fitted.predict(log.contexts)[np.arange(len(log)), log.actions]
    return float((log.weights * (log.rewards - guesses) ** 2).sum())

"""A reward model made of two: whichever predicts better what it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pacbandits.arrays import BoolArray
from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.records import Log
from pacbandits.rewards.base import Fitted, Json, RewardModel


@dataclass(frozen=True)
class Either:
    """Whichever of two models, fitted to half of the rows, predicts the other half better; of equals the first.

    first, second: the models.
    """

    kind: ClassVar[str] = "either"

    first: RewardModel
    second: RewardModel

    def fit(self, log: Log) -> Fitted:
        coins = _coins(len(log))
        if coins.all() or not coins.any():
            return self.first.fit(log)
        halves = log.only(coins), log.only(~coins)
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
        for name in ("first", "second"):
            # Each is fitted three times, so that one within the other would take ever longer.
            if given.json_object(name).get("kind") == cls.kind:
                raise InputError(f"a reward model of kind '{cls.kind}' in JSON may not be made of another of that kind")
        return cls(read(given["first"]), read(given["second"]))


def _coins(n: int) -> BoolArray:
    """n coins, the same everywhere and always, as what is chosen by them must be checked by others.

    They are the top bits of scrambled row numbers (splitmix64), as rows may come in patterns.
    """
    bits = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (bits >> np.uint64(63)).astype(np.bool_)


def _error(fitted: Fitted, log: Log) -> float:
    """The squared error of the predictions of what was played."""
    guesses = fitted.predict(log.contexts)[np.arange(len(log)), log.actions]
    return float((log.repeats * (log.rewards - guesses) ** 2).sum())

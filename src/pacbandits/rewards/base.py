"""What a reward model is: a guess of r(c, a) from the past, to centre what is estimated from the future.

A model changes how many samples are needed and never what may be claimed: scores are unbiased whatever it says, as long
as it was fitted on earlier rounds only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray
from pacbandits.checks import instance
from pacbandits.fields import Fields
from pacbandits.records import Contexts, Log

Json = dict[str, Any]


class FittedModel(Protocol):
    """A fitted model."""

    def predict(self, contexts: Contexts) -> FloatArray:
        """A guess of every action's mean reward, in [0, 1], as (n, A)."""
        ...


@runtime_checkable
class RewardModel(Protocol):
    """What can be fitted to a log."""

    def fit(self, log: Log) -> FittedModel:
        """The model of this log."""
        ...

    def to_json(self) -> Json:
        """What makes the same model again, or names a model that must be handed in again."""
        ...


def fit_halves(model: RewardModel, log: Log, heads: BoolArray) -> tuple[FittedModel, FittedModel, FittedModel]:
    """The model of the rows (n,) marked true, that of the others, and that of all; there must be some of both.

    A model with a method `fit_halves(log, heads)` of its own fits all three at little more than the cost of the last.
    """
    if (own := getattr(model, "fit_halves", None)) is not None:
        return own(log, heads)
    return model.fit(log.only(heads)), model.fit(log.only(~heads)), model.fit(log)


class StoredModel(RewardModel, Protocol):
    """A reward model that a file can describe.

    kind: what its JSON calls it.
    """

    kind: ClassVar[str]

    @classmethod
    def from_json(cls, given: Fields, *, read: Callable[[object], RewardModel]) -> Self:
        """The model that `to_json` described; read: makes the models that it is made of, if it is made of any."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same guess for every context.

    means (A,): one number an action.
    """

    means: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        return np.tile(self.means, (len(contexts), 1))


def no_idea(n_actions: int) -> Constant:
    """The model before there are data: one half."""
    return Constant(np.full(n_actions, 0.5))


def check_model(model: object) -> RewardModel:
    """Raise unless this can be fitted to a log."""
    return instance(model, RewardModel, name="model", remedy="leave it out for one that suits the contexts")

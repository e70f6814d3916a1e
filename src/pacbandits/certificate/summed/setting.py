"""What the scores of every row of a large log are made from: its round, and the prediction made before it.

A reward model is fitted on early rows alone, as many of them as came before a round. Where there are many, models that
take long to predict are left out. Both are free: scores are unbiased whatever a model says, as long as it was fixed
before the round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.rows import Rows
from pacbandits.certificate.summed.arrangement import Arrangement
from pacbandits.certificate.summed.limits import LIMITS
from pacbandits.engines import ROWS_PER_BLOCK
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rewards import FittedModel, RewardModel, lighter, no_idea


@dataclass(frozen=True, eq=False)
class Setting:
    """What the scores of every row are made from.

    arrangement: the round of each row.
    fits: fitted models.
    fit_of (rounds,): which of them predicts the rewards of each round.
    early: the early rows, numbered by round; None in other processes than that which read them.
    """

    arrangement: Arrangement
    fits: tuple[FittedModel, ...]
    fit_of: IntArray
    early: Log | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without early rows, which are many, and of use to a card of this machine alone."""
        return self.__dict__ | {"early": None}

    @property
    def n_rounds(self) -> int:
        return len(self.fit_of)

    def predict(self, contexts: Contexts, rounds: IntArray, *, n_actions: int) -> FloatArray:
        """A guess (n, A) of every action's reward, by the model of the round (n,) of each context."""
        used = self.fit_of[rounds]
        which = np.unique(used)
        if len(which) == 1:
            return self.fits[int(which[0])].predict(contexts)
        out = np.empty((len(contexts), n_actions))
        for number in which:
            mine = np.flatnonzero(used == number)
            out[mine] = self.fits[int(number)].predict(contexts.take(mine))
        return out

    def rows_of(self, number: int, block: Log) -> Rows:
        """The rows of the block of this number as kernels take them, each a context of its own."""
        return self.rows_at(block, self.arrangement.rounds_of(number * ROWS_PER_BLOCK, block))

    def rows_at(self, block: Log, rounds: IntArray) -> Rows:
        """The same for rows whose rounds (n,) are known."""
        predictions = self.predict(block.contexts, rounds, n_actions=block.n_actions)
        check_rows(block, predictions)
        return Rows(
            starts=np.arange(len(block) + 1, dtype=np.int64),
            actions=np.require(block.actions, requirements=("C", "W")),
            rewards=np.require(block.rewards, requirements=("C", "W")),
            repeats=block.weights,
            rounds=rounds,
            played=block.played_propensities,
            propensities=np.require(block.bounds, requirements=("C", "W")),
            predictions=np.require(predictions, requirements=("C", "W")),
        )


def check_rows(block: Log, predictions: FloatArray) -> None:
    """Raise unless rewards and predictions lie in [0, 1]."""
    if not ((block.rewards >= 0) & (block.rewards <= 1)).all():
        low, high = block.rewards.min(), block.rewards.max()
        raise InputError(f"rewards must lie in [0, 1], but they range from {low:.6g} to {high:.6g}; rescale them")
    if predictions.shape != block.propensities.shape or not ((predictions >= 0) & (predictions <= 1)).all():
        raise InputError("predictions must have one number in [0, 1] for each row and action")


def make_setting(
    early: Log, model: RewardModel, arrangement: Arrangement, *, learns: bool, neighbours: int = LIMITS.neighbours
) -> Setting:
    """The model of every round, fitted on the early rows (numbered by round) that came before it.

    learns: whether rows have an order to learn in; else nothing is predicted but one half. neighbours: as of
    `Limits`.
    """
    rounds = len(arrangement.counts)
    fits: list[FittedModel] = [no_idea(early.n_actions)]
    fit_of, last = np.zeros(rounds, dtype=np.int64), 0
    for number in range(1, rounds if learns else 0):
        before = early.rounds < number
        seen = int(before.sum())
        if seen != last:
            used = model if seen <= neighbours else lighter(model)
            fits.append(used.fit(early.only(before)))
            last = seen
        fit_of[number] = len(fits) - 1
    return Setting(arrangement, tuple(fits), fit_of, early)

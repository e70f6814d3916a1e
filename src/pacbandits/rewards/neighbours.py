"""A reward model for contexts with features: what was seen nearby, the nearer the more it says.

For each action the prediction is the action's mean plus g(x), where g minimises

    Σ_i w_i (r_i − mean − g(x_i))² + strength · ‖g‖²,       g(x) = Σ_l α_l k(x, x_l)

with k the likeness of two contexts, ‖·‖ the norm that belongs to it, and x_l, the anchors, the contexts in which the
action was played: kriging, or ridge regression with a kernel. Of too many anchors a sample is kept, the same whatever
the order of rows (`anchor_limit`); rows of other contexts still count. No neighbour is either in or out, so that there
are no ties, and other machines get the same but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from pacbandits.arrays import BoolArray
from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.records import Log
from pacbandits.rewards.base import Json, RewardModel
from pacbandits.rewards.halves import half_of
from pacbandits.rewards.steps import MIN_STORED_STRENGTH
from pacbandits.rewards.surroundings import BOTH_HALVES, FittedNeighbours, Surroundings

DEFAULT_STRENGTHS = (20.0, 2.0, 0.2, 0.02)
MAX_STORED_STRENGTHS = 8
MIN_ANCHORS = 50  # of each action, if it was played in so many contexts
FEW_ANCHORS = 100  # of each action, enough to see whether neighbours have something to say
MIN_EXPLAINED_SHARE = 0.1  # of the variance of rewards about their means: with less, few anchors are enough
MAX_SUMMED_PRODUCTS = 2.5e9  # rows × anchors²
MAX_SOLVED_PRODUCTS = 6e8  # actions × anchors³


@dataclass(frozen=True)
class Neighbours:
    """For contexts with features: each action's mean, corrected by what was seen of it nearby.

    strengths: how many observations the pull toward the action's mean is worth; of several the one with which one half
        of the rows foretells the other best, and of equals the first.
    """

    kind: ClassVar[str] = "neighbours"

    strengths: tuple[float, ...] = DEFAULT_STRENGTHS

    def fit(self, log: Log) -> FittedNeighbours:
        return self._look(log, half_of(log)).fitted(BOTH_HALVES)

    def fit_halves(self, log: Log, heads: BoolArray) -> tuple[FittedNeighbours, FittedNeighbours, FittedNeighbours]:
        """The model of either half of the rows, and that of all, with the same anchors and strength."""
        seen = self._look(log, heads)
        return seen.fitted((0,)), seen.fitted((1,)), seen.fitted(BOTH_HALVES)

    def to_json(self) -> Json:
        return {"kind": self.kind, "strengths": list(self.strengths)}

    @classmethod
    def from_json(cls, given: Fields, *, read: Callable[[object], RewardModel]) -> Neighbours:
        given.check_known(("kind", "strengths"))
        strengths = given.numbers("strengths", shortest=1, longest=MAX_STORED_STRENGTHS, least=MIN_STORED_STRENGTH)
        if max(strengths) > 1.0 / MIN_STORED_STRENGTH:
            raise InputError(f"{given.name('strengths')} must be at most {1.0 / MIN_STORED_STRENGTH:g}")
        return cls(strengths)

    def _look(self, log: Log, heads: BoolArray) -> Surroundings:
        """The neighbourhoods of all actions, with the best of the strengths."""
        limit = anchor_limit(len(log), n_actions=log.n_actions)
        if len(self.strengths) == 1:
            return Surroundings.of(log, heads, most=limit, strength=self.strengths[0])
        few = Surroundings.of(log, heads, most=min(FEW_ANCHORS, limit), strength=self.strengths[0])
        chosen, error = few.best_strength(self.strengths)
        if few.complete or error > (1.0 - MIN_EXPLAINED_SHARE) * few.error_of_means():
            return replace(few, strength=chosen)
        many = Surroundings.of(log, heads, most=limit, strength=chosen)
        return replace(many, strength=many.best_strength(self.strengths)[0])


def anchor_limit(rows: int, *, n_actions: int) -> int:
    """How many contexts of an action its predictions are anchored at, at most: what takes a fraction of a second.

    They are the first in the order of scrambled features, which is as good as random and changes little from round to
    round.
    """
    limit = min((MAX_SUMMED_PRODUCTS / rows) ** (1 / 2), (MAX_SOLVED_PRODUCTS / n_actions) ** (1 / 3))
    return max(int(limit), MIN_ANCHORS)

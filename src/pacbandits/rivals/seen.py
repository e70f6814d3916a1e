"""Sums over the interactions of each context and action: sufficient for every baseline, whatever the number of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.records import Contexts, Log


@dataclass(frozen=True, eq=False)
class Seen:
    """Sums over interactions, one row per context; contexts are equal if their ids are, and all distinct without ids.

    contexts: those known beforehand, with their weights ν, and then any others that came, with weight 0.
    counts (n,): how often each came.
    plays (n, A): how often each action was played there.
    sums (n, A): of its rewards r.
    squares (n, A): of r².
    scores (n, A): of r/p, p the propensity of the played action.
    inverses (n, A): of 1/p.
    """

    contexts: Contexts
    counts: FloatArray
    plays: FloatArray
    sums: FloatArray
    squares: FloatArray
    scores: FloatArray
    inverses: FloatArray

    @classmethod
    def nothing(cls, contexts: Contexts, *, n_actions: int) -> Self:
        """Return sums over no interactions, for these contexts."""
        contexts = contexts.tallied()
        empty = np.zeros((len(contexts), n_actions))
        return cls(contexts, np.zeros(len(contexts)), empty, empty, empty, empty, empty)

    @property
    def samples(self) -> float:
        """The number of interactions."""
        return float(self.counts.sum())

    @property
    def n_actions(self) -> int:
        return self.plays.shape[1]

    @property
    def means(self) -> FloatArray:
        """Mean rewards (n, A); 0 if an action was not played."""
        return self.sums / np.maximum(self.plays, 1.0)

    def with_log(self, log: Log) -> Self:
        """Return the sums with one more round."""
        contexts, where = self.contexts.joined(log.contexts)
        n, n_actions = len(contexts), self.n_actions
        repeats, inverse = log.repeats.astype(np.float64), 1.0 / log.played_propensities
        cells = where * n_actions + log.actions

        def grown(before: FloatArray, weights: FloatArray) -> FloatArray:
            new = _added(cells, weights, size=n * n_actions).reshape(n, n_actions)
            new[: len(before)] += before
            return new

        counts = _added(where, repeats, size=n)
        counts[: len(self.counts)] += self.counts
        return replace(
            self,
            contexts=contexts,
            counts=counts,
            plays=grown(self.plays, repeats),
            sums=grown(self.sums, repeats * log.rewards),
            squares=grown(self.squares, repeats * log.rewards**2),
            scores=grown(self.scores, repeats * log.rewards * inverse),
            inverses=grown(self.inverses, repeats * inverse),
        )

    def doubly_robust(self, predictions: FloatArray) -> FloatArray:
        """Scores (n, A) that sum to samples × V(π): predictions m (n, A) where a context came, and (r − m)/p."""
        return self.counts[:, None] * predictions + self.scores - self.inverses * predictions

    def as_log(self) -> Log:
        """Return the data for a reward model: a row per context and action played, with its mean reward."""
        context, action = np.nonzero(self.plays)
        even = np.full((len(context), self.n_actions), 1.0 / self.n_actions)
        return Log.of(
            self.contexts.take(context),
            actions=action,
            rewards=self.means[context, action],
            propensities=even,
            repeats=np.rint(self.plays[context, action]).astype(np.int64),
        )


def _added(where: IntArray, weights: FloatArray, *, size: int) -> FloatArray:
    return np.bincount(where, weights=weights, minlength=size).astype(np.float64)

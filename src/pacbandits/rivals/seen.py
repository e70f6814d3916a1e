"""What was seen of each context and action, in sums: enough for every baseline, however many rows there were."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.records import Contexts, Log


@dataclass(frozen=True, eq=False)
class Seen:
    """Sums over interactions, one row a context: contexts are the same when their ids are, without ids none are.

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
        """Nothing seen of these contexts."""
        contexts = contexts.tallied()
        empty = np.zeros((len(contexts), n_actions))
        return cls(contexts, np.zeros(len(contexts)), empty, empty, empty, empty, empty)

    @property
    def samples(self) -> float:
        """How many interactions there were."""
        return float(self.counts.sum())

    @property
    def n_actions(self) -> int:
        return self.plays.shape[1]

    @property
    def means(self) -> FloatArray:
        """Mean rewards (n, A); 0 where nothing was played."""
        return self.sums / np.maximum(self.plays, 1.0)

    def with_log(self, log: Log) -> Self:
        """The same and a round more."""
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
        """What a reward model is fitted to: a row for each context and action that was played, with its mean reward."""
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

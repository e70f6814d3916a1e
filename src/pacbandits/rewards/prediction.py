"""Predictions from past rounds alone, with caches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.records import Contexts, Log
from pacbandits.records.log import digest_contexts, digest_log
from pacbandits.rewards.base import FittedModel, RewardModel, no_idea


class FiguresById:
    """A cache of rows of figures (A,) by context id."""

    def __init__(self, n_actions: int) -> None:
        self._ids: IntArray = np.zeros(0, dtype=np.int64)
        self._figures: FloatArray = np.zeros((0, n_actions))

    def look_up(self, contexts: Contexts, compute: Callable[[Contexts], FloatArray]) -> FloatArray:
        """Return the figures (n, A) of contexts; those not cached, or without ids, are computed."""
        if contexts.ids is None:
            return compute(contexts)
        asked, first = np.unique(contexts.ids, return_index=True)
        lacking = first[~np.isin(asked, self._ids, assume_unique=True)]
        if len(lacking):
            order = np.argsort(both := np.concatenate([self._ids, contexts.ids[lacking]]))
            figures = np.concatenate([self._figures, compute(contexts.take(lacking))])
            self._ids, self._figures = both[order], figures[order]
        return self._figures[np.searchsorted(self._ids, contexts.ids)]


class CachedModel:
    """A fitted model that caches its predictions of contexts with ids, and of the last contexts without.

    fitted: the model.
    """

    def __init__(self, fitted: FittedModel, *, n_actions: int) -> None:
        self.fitted = fitted
        self._known = FiguresById(n_actions)
        self._last: tuple[Contexts, FloatArray] | None = None

    def predict(self, contexts: Contexts) -> FloatArray:
        if contexts.ids is not None:
            return self._known.look_up(contexts, self.fitted.predict)
        if self._last is None or self._last[0] is not contexts:
            self._last = contexts, self.fitted.predict(contexts)
        return self._last[1]


def predict_once(fitted: FittedModel, contexts: Contexts) -> FloatArray:
    """Return a model's predictions (n, A), computed once for each distinct context."""
    first, which = contexts.distinct()
    return fitted.predict(contexts.take(first))[which] if len(first) < len(contexts) else fitted.predict(contexts)


_last: tuple[str, RewardModel, FloatArray] | None = None  # last inputs of `predict_by_round` and its result
# For the last log with late rewards: the predictions of each round, by the digests of the rows fitted and predicted.
_rounds: tuple[RewardModel, dict[tuple[str, str], FloatArray]] | None = None


def predict_by_round(log: Log, model: RewardModel) -> FloatArray:
    """Return for every row (n, A) the prediction of the model fitted on rows whose rewards were known before its round.

    These are all rows of earlier rounds, except those with late rewards: a prediction that changed as rewards arrive
    would differ between analyses, and so would the bets that use it.

    Certifying a log, evaluating its policy and verifying the certificate need the same predictions; the last result is
    cached, by the digest of the log and the model itself. With late rewards, each analysis has new ones, but all except
    the last rounds are unchanged: their predictions are cached one by one.
    """
    global _last
    asked, last = digest_log(log), _last
    if last is not None and last[0] == asked and last[1] == model:
        return last[2]
    if log.known is not None:
        out = _predict_late(log, model)
    else:
        out, fitted_to = np.empty((len(log), log.n_actions)), np.zeros(len(log), dtype=np.bool_)
        fitted: FittedModel = no_idea(log.n_actions)
        for number in np.unique(log.rounds):
            now, before = log.rounds == number, log.known_by(int(number))
            if (before != fitted_to).any():  # rounds with the same known rows share a fit
                fitted, fitted_to = model.fit(log.only(before)), before
            out[now] = predict_once(fitted, log.contexts.take(np.flatnonzero(now)))
    out.setflags(write=False)
    _last = asked, model, out
    return out


def _predict_late(log: Log, model: RewardModel) -> FloatArray:
    global _rounds
    before, kept = _rounds, dict[tuple[str, str], FloatArray]()
    known = before[1] if before is not None and before[0] == model else {}
    out = np.empty((len(log), log.n_actions))
    for number in np.unique(log.rounds):
        now, seen = np.flatnonzero(log.rounds == number), log.known_by(int(number))
        if not seen.any():
            out[now] = no_idea(log.n_actions).predict(log.contexts.take(now))
            continue
        part, asked = log.only(seen), log.contexts.take(now)
        key = digest_log(part), digest_contexts(asked)
        found = known[key] if key in known else predict_once(model.fit(part), asked)
        out[now] = kept[key] = found
    _rounds = model, kept
    return out

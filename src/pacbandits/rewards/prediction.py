"""Predictions that know the past alone, and are made once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.records import Contexts, Log
from pacbandits.records.log import digest_contexts, digest_log
from pacbandits.rewards.base import FittedModel, RewardModel, no_idea


class FiguresById:
    """Rows of figures (A,) by the id of a context."""

    def __init__(self, n_actions: int) -> None:
        self._ids: IntArray = np.zeros(0, dtype=np.int64)
        self._figures: FloatArray = np.zeros((0, n_actions))

    def look_up(self, contexts: Contexts, compute: Callable[[Contexts], FloatArray]) -> FloatArray:
        """The figures (n, A) of contexts; those that were not asked for before, or have no ids, are computed."""
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
    """A fitted model that predicts each context with an id once, and others once in a row."""

    def __init__(self, fitted: FittedModel, *, n_actions: int) -> None:
        self._fitted = fitted
        self._known = FiguresById(n_actions)
        self._last: tuple[Contexts, FloatArray] | None = None

    def predict(self, contexts: Contexts) -> FloatArray:
        if contexts.ids is not None:
            return self._known.look_up(contexts, self._fitted.predict)
        if self._last is None or self._last[0] is not contexts:
            self._last = contexts, self._fitted.predict(contexts)
        return self._last[1]


def predict_once(fitted: FittedModel, contexts: Contexts) -> FloatArray:
    """A model's predictions (n, A), asked for once of contexts that come again."""
    first, which = contexts.distinct()
    return fitted.predict(contexts.take(first))[which] if len(first) < len(contexts) else fitted.predict(contexts)


_last: tuple[str, RewardModel, FloatArray] | None = None  # what `predict_by_round` was asked last, and its answer
# Of the last log with late rewards: the predictions of each round, by the digests of what they were made from and for.
_rounds: tuple[RewardModel, dict[tuple[str, str], FloatArray]] | None = None


def predict_by_round(log: Log, model: RewardModel) -> FloatArray:
    """For every row (n, A) the prediction of the model fitted on the rows whose rewards were known before its round.

    These are all rows of earlier rounds, but for those whose rewards came late: a prediction that changed as they come
    in would be another one at each look, and what is bet by it no single bet.

    Who certifies a log, measures what its policy is worth and verifies that asks for the same again; the last answer is
    kept, by the digest of the log and the model itself. Of rewards that come late it is asked again whenever some have
    come, and all but the last rounds are as they were: these are kept one by one.
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
            if (before != fitted_to).any():  # a round that goes on with what the one before it knew needs no other fit
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

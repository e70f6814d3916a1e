"""Logs that no plan has led to: other probabilities, actions that were impossible, other contexts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pacbandits.records import Contexts, Log
from pacbandits.trials.protocol import Plan

OTHER_PROPENSITY = "has propensity .* but the plan of round"


class Answering:
    """A sampler that answers whatever it was told to."""

    def __init__(self, answer: Any, n_actions: int) -> None:
        self.answer, self.n_actions = answer, n_actions

    def propensities(self, contexts: Contexts) -> Any:
        return self.answer(contexts)


def forged_logs(plan: Plan, log: Log) -> Iterator[tuple[str, Log]]:
    """What a refusal says, and the log; each differs from a good one in one respect."""
    n_actions, contexts = log.n_actions, log.contexts
    even = np.full(log.propensities.shape, 1.0 / n_actions)
    if np.abs(log.propensities - even).max() > 1e-9:
        yield OTHER_PROPENSITY, replace(log, propensities=even)
    yield from _impossible_actions(log)
    renamed = Contexts.of(
        np.column_stack([contexts.features, np.zeros(len(contexts))]),
        names=[*contexts.names, "zodiac"],
        categories=[*contexts.categories, None],
        ids=contexts.ids,
        phi=None if contexts.phi is None else contexts.phi.array,
    )
    yield "other features than those that the algorithm started with: 'zodiac'", replace(log, contexts=renamed)
    if contexts.n_features and len(contexts) > 1:
        moved = contexts.features.copy()
        moved[-1] = np.where([labels is None for labels in contexts.categories], moved[-1] + 0.125, moved[-1])
        yield r"has context id \d+, but other features", replace(log, contexts=replace(contexts, features=moved))
        bare = Contexts.of(np.empty((len(contexts), 0)), ids=contexts.ids)
        yield "other features than those", replace(log, contexts=bare)


def _impossible_actions(log: Log) -> Iterator[tuple[str, Log]]:
    """An action that the plan never plays, said to have had a chance too small to be noticed."""
    never = np.argwhere(log.propensities == 0)
    if len(never):
        row, action = never[0]
        actions, chances = log.actions.copy(), log.propensities.copy()
        actions[row], chances[row, action] = action, 1e-12
        yield f"row {row} of the log {OTHER_PROPENSITY}", replace(log, actions=actions, propensities=chances)


def forged_samplers(log: Log) -> Iterator[tuple[str, Answering]]:
    """Samplers that say nothing with which a log could be compared."""
    n_actions = log.n_actions
    for words, answer in (
        ("propensities of the plan must be finite", lambda contexts: np.full((len(contexts), n_actions), np.nan)),
        ("propensities of the plan must have shape", lambda contexts: np.full(n_actions, 1.0 / n_actions)),
        ("propensities of the plan must be numbers", lambda contexts: "even"),
    ):
        yield words, Answering(answer, n_actions)

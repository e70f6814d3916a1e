"""Reward models by the kind that their JSON has: a line for each. No code is ever loaded from a file."""

from __future__ import annotations

import numpy as np

from pacbandits.errors import InputError, plain
from pacbandits.fields import Fields
from pacbandits.records import Contexts, Log
from pacbandits.rewards.additive import Additive
from pacbandits.rewards.base import RewardModel, StoredModel
from pacbandits.rewards.cells import CellMeans
from pacbandits.rewards.either import Either
from pacbandits.rewards.neighbours import Neighbours
from pacbandits.rewards.regions import Regions
from pacbandits.rewards.stacked import Stacked

_SIMPLE: tuple[type[StoredModel], ...] = (CellMeans, Additive, Regions, Neighbours)
_MADE_OF_OTHERS: tuple[type[StoredModel], ...] = (Either, Stacked)
MODELS = {model.kind: model for model in (*_SIMPLE, *_MADE_OF_OTHERS)}


def default_model(contexts: Contexts) -> RewardModel:
    """The model for these contexts: cell means where there are no features, else a sum of three models.

    Those are regions, additive steps and neighbours, weighed by how well each foretells rows that it has not seen.
    """
    if not contexts.n_features:
        return CellMeans()
    return Stacked((Regions.learn(contexts), Additive.learn(contexts), Neighbours()))


def first_model(log: Log) -> RewardModel:
    """The model that suits the contexts of a log's first round: what comes later has no say in how features are cut."""
    first = np.flatnonzero(log.rounds == log.rounds.min())
    return default_model(log.contexts.take(first).with_labels_seen())


def lighter(model: RewardModel) -> RewardModel:
    """The model without those parts that take long to predict, where there are so many rows that others will do."""
    if not isinstance(model, Stacked):
        return model
    quick = tuple(part for part in model.models if not isinstance(part, Neighbours))
    return Stacked(quick) if quick and len(quick) < len(model.models) else model


def model_from_json(value: object) -> RewardModel:
    """The model that `to_json` described; one of the user's own must be passed instead."""
    given = Fields.read(value, of="reward model")
    kind = given.given.get("kind")
    if not isinstance(kind, str) or kind not in MODELS:
        raise InputError(f"a reward model of kind '{plain(kind)}' cannot be made again from a file; pass it")
    return MODELS[kind].from_json(given, read=_part_from_json)


def _part_from_json(value: object) -> RewardModel:
    """A model that another is made of. It is fitted several times, so that depth would make it take ever longer."""
    kind = Fields.read(value, of="reward model").given.get("kind")
    if kind in [model.kind for model in _MADE_OF_OTHERS]:
        raise InputError(f"a reward model that is part of another may not be of kind '{plain(kind)}' in JSON")
    return model_from_json(value)


def can_be_made_again(model: RewardModel) -> bool:
    """Whether its description in JSON is enough to make it again, and not something else that goes by the same kind."""
    try:
        made = model_from_json(model.to_json())
    except InputError:
        return False
    return made == model

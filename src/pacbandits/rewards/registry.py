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
from pacbandits.rewards.regions import Regions

_ALL: tuple[type[StoredModel], ...] = (CellMeans, Additive, Regions, Either)
MODELS = {model.kind: model for model in _ALL}


def default_model(contexts: Contexts) -> RewardModel:
    """The model for these contexts: regions or additive steps where there are features, else cell means."""
    return Either(Regions.learn(contexts), Additive.learn(contexts)) if contexts.n_features else CellMeans()


def first_model(log: Log) -> RewardModel:
    """The model that suits the contexts of a log's first round: what comes later has no say in how features are cut."""
    first = np.flatnonzero(log.rounds == log.rounds.min())
    return default_model(log.contexts.take(first).with_labels_seen())


def model_from_json(value: object) -> RewardModel:
    """The model that `to_json` described; one of the user's own must be passed instead."""
    given = Fields.read(value, of="reward model")
    kind = given.given.get("kind")
    if not isinstance(kind, str) or kind not in MODELS:
        raise InputError(f"a reward model of kind '{plain(kind)}' cannot be made again from a file; pass it")
    return MODELS[kind].from_json(given, read=model_from_json)


def can_be_made_again(model: RewardModel) -> bool:
    """Whether its description in JSON is enough to make it again, and not something else that goes by the same kind."""
    try:
        made = model_from_json(model.to_json())
    except InputError:
        return False
    return made == model

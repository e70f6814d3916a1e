"""Reward models: predictions of r(c, a) from past rounds, used as control variates for later ones."""

from pacbandits.rewards.additive import Additive
from pacbandits.rewards.base import (
    CellMeans,
    Constant,
    FittedModel,
    RewardModel,
    StoredFit,
    StoredModel,
    check_model,
    no_idea,
)
from pacbandits.rewards.combined import Either, Stacked
from pacbandits.rewards.neighbours import Neighbours
from pacbandits.rewards.prediction import CachedModel, FiguresById, predict_by_round, predict_once
from pacbandits.rewards.regions import Regions
from pacbandits.rewards.registry import (
    PerAction,
    can_be_made_again,
    default_model,
    first_model,
    fit_from_json,
    lighter,
    model_from_json,
    stored_fit,
)

__all__ = [
    "Additive",
    "CachedModel",
    "CellMeans",
    "Constant",
    "Either",
    "FiguresById",
    "FittedModel",
    "Neighbours",
    "PerAction",
    "Regions",
    "RewardModel",
    "Stacked",
    "StoredFit",
    "StoredModel",
    "can_be_made_again",
    "check_model",
    "default_model",
    "first_model",
    "fit_from_json",
    "lighter",
    "model_from_json",
    "no_idea",
    "predict_by_round",
    "predict_once",
    "stored_fit",
]

"""Reward models: predictions of r(c, a) from past rounds, used as control variates for later ones."""

from pacbandits.rewards.additive import Additive
from pacbandits.rewards.base import CellMeans, Constant, FittedModel, RewardModel, StoredModel, check_model, no_idea
from pacbandits.rewards.combined import Either, Stacked
from pacbandits.rewards.neighbours import Neighbours
from pacbandits.rewards.prediction import CachedModel, FiguresById, predict_by_round, predict_once
from pacbandits.rewards.regions import Regions
from pacbandits.rewards.registry import (
    PerAction,
    can_be_made_again,
    default_model,
    first_model,
    lighter,
    model_from_json,
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
    "StoredModel",
    "can_be_made_again",
    "check_model",
    "default_model",
    "first_model",
    "lighter",
    "model_from_json",
    "no_idea",
    "predict_by_round",
    "predict_once",
]

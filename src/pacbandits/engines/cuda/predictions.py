"""What fitted models of steps predict of rows on the card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.engines.cuda.card import Card, cupy
from pacbandits.engines.cuda.modules import function
from pacbandits.engines.cuda.scores import block_threads

MODEL = np.dtype([("first", "i4"), ("last", "i4"), ("count", "i4"), ("pad", "i4"), ("low", "f8"), ("high", "f8")])
PART = np.dtype([("table", "i8"), ("kind", "i4"), ("root", "i4"), ("own", "f8"), ("shared", "f8")])
NODE = np.dtype([("feature", "i4"), ("value", "i4"), ("label", "i4"), ("yes", "i4"), ("no", "i4")])
REGIONS, SUM = 0, 1  # kinds of parts
LEAF = -1  # in the place of a feature that is asked about; `yes` is then the place of the leaf


@dataclass(frozen=True, eq=False)
class StepModels:
    """Fitted models of steps as the kernel in `predictions.cu` takes them.

    model_of (rounds,): which of them predicts the rewards of each round; −1 where none of them does.
    starts (d,): the first step of each feature among all steps.
    models (M,): `MODEL`.
    means, played (M, A): the means of actions, and which were played.
    parts: `PART`, those of a model one after the other.
    nodes: `NODE`, of the questions of all regions.
    tables: the means of regions, or the means and slopes of sums, A numbers after A numbers.
    low, high: between which the predictions of parts are kept.
    """

    model_of: IntArray
    starts: IntArray
    models: np.ndarray
    means: FloatArray
    played: BoolArray
    parts: np.ndarray
    nodes: np.ndarray
    tables: FloatArray
    low: float
    high: float


def predict_on_card(card: Card, models: StepModels, codes: Any, rounds: Any) -> Any:
    """The predictions (n, A), float64, of rows whose steps (n, d), uint8, and rounds (n,), int32, are on the card."""
    cp, n, width = cupy(), int(codes.shape[0]), models.means.shape[1]
    out = cp.empty((n, width), dtype=cp.float64)
    if n == 0:
        return out
    tables = card.made("models", models, lambda: _tables(models))
    threads = block_threads(width)
    starts, model_of, *rest = tables
    given = (codes, np.int32(codes.shape[1]), np.int32(len(models.starts)), starts, np.int64(n), rounds, model_of)
    function("predictions", "predict", ACTIONS=width, THREADS=threads)(
        (-(-n // threads),), (threads,), (*given, *rest, np.float64(models.low), np.float64(models.high), out)
    )
    return out


def _tables(models: StepModels) -> tuple[Any, ...]:
    """The tables of models on the card, records as the bytes that they are."""
    cp = cupy()
    numbers = (models.starts.astype(np.int32), models.model_of.astype(np.int32), models.models.view(np.uint8))
    more = (models.means, models.played.astype(np.uint8), models.parts.view(np.uint8), models.nodes.view(np.uint8))
    return tuple(cp.asarray(np.append(one.ravel(), one.dtype.type(0))) for one in (*numbers, *more, models.tables))

"""Fitted reward models on a CUDA card: those made of step functions and trees, as tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.engines.cuda.aggregations import LEAF, MODEL, NODE, PART, REGIONS, SUM, StepModels
from pacbandits.engines.cuda.engine import Wanted
from pacbandits.rewards.additive import FittedSum
from pacbandits.rewards.base import PREDICTION_MARGIN, Constant, Cuts, FittedModel, codes_of, inside, steps_of
from pacbandits.rewards.combined import FittedStack, WeightedModel
from pacbandits.rewards.regions import FittedRegions, Region

LOW, HIGH = PREDICTION_MARGIN, 1.0 - PREDICTION_MARGIN


def wanted_steps(cuts: Cuts) -> Wanted:
    """Return the request for the steps of rows, as a card needs them."""
    return Wanted("steps", cuts, lambda _, block: {"steps": codes_of(cuts, block.contexts).astype(np.uint8)})


def cuts_of(fitted: FittedModel) -> set[Cuts] | None:
    """Return the cuts by which a model predicts; None if it does not predict by steps alone."""
    if isinstance(fitted, Constant):
        return set()
    if isinstance(fitted, FittedRegions):
        return {fitted.cuts}
    if isinstance(fitted, FittedSum):
        return {fitted.model.cuts}
    if not isinstance(fitted, FittedStack):
        return None
    found = [cuts_of(part.fitted) for part in fitted.parts if not isinstance(part.fitted, FittedStack)]
    known = [one for one in found if one is not None]
    return None if len(known) < len(fitted.parts) else set[Cuts]().union(*known)


def step_models(fits: Sequence[FittedModel], fit_of: IntArray, cuts: Cuts, *, n_actions: int) -> StepModels:
    """Return models as the card takes them, without those for which `cuts_of` returns None.

    fit_of (rounds,): the index of the model that predicts each round's rewards. cuts: those of all of them.
    """
    tables, numbers = _Tables(n_actions), np.full(len(fits) + 1, -1)
    for place, fitted in enumerate(fits):
        if cuts_of(fitted) is not None:
            numbers[place] = len(tables.models)
            tables.add(fitted)
    sizes = [steps_of(one) for one in cuts]
    return StepModels(
        model_of=numbers[fit_of],
        starts=np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, dtype=np.int64),
        models=np.array(tables.models, dtype=MODEL),
        means=np.array(tables.means).reshape(-1, n_actions),
        played=np.array(tables.played, dtype=np.bool_).reshape(-1, n_actions),
        parts=np.array(tables.parts, dtype=PART),
        nodes=np.array([tuple(node) for node in tables.nodes], dtype=NODE),
        tables=np.concatenate([np.zeros((1, n_actions)), *tables.rows]),
        low=LOW,
        high=HIGH,
    )


class _Tables:
    """Tables of models, filled one by one."""

    def __init__(self, n_actions: int) -> None:
        self.n_actions = n_actions
        self.models, self.parts, self.nodes = list[tuple[float, ...]](), list[tuple[float, ...]](), list[list[int]]()
        self.means, self.played, self.rows = list[FloatArray](), list[BoolArray](), list[FloatArray]()
        self.n_rows = 1  # rows of tables; the first is zero

    def add(self, fitted: FittedModel) -> None:
        """Add a model."""
        everywhere, nothing = np.ones(self.n_actions, dtype=np.bool_), np.zeros(self.n_actions)
        first, low, high = len(self.parts), LOW, HIGH
        if isinstance(fitted, Constant):
            means, played, parts, low, high = fitted.means, everywhere, (), 0.0, 1.0
        elif isinstance(fitted, FittedStack):
            means, played, parts = fitted.means, fitted.played, fitted.parts
        else:  # a single model: weight 1, nothing shared
            means, played, parts = nothing, everywhere, (WeightedModel(fitted, 1.0, 0.0),)
        for part in parts:
            self._add_part(part)
        self.means.append(means)
        self.played.append(played)
        self.models.append((first, len(self.parts), int(played.sum()), 0, low, high))

    def _add_part(self, part: WeightedModel) -> None:
        at, fitted, root = self.n_rows * self.n_actions, part.fitted, 0
        if isinstance(fitted, FittedRegions):
            kind, root = REGIONS, len(self.nodes)
            self._add_nodes(fitted.root, 0)
            self._add_rows(inside(np.array([leaf.means for leaf in fitted.root.leaves()])))
        else:
            assert isinstance(fitted, FittedSum)
            kind = SUM
            self._add_rows(np.concatenate([fitted.means[None, :], fitted.slopes]))
        self.parts.append((at, kind, root, part.own, part.shared))

    def _add_rows(self, rows: FloatArray) -> None:
        self.rows.append(rows)
        self.n_rows += len(rows)

    def _add_nodes(self, region: Region, first: int) -> int:
        """Add the nodes of a region, whose leaves are counted from `first`; return the index of its node."""
        place, asked = len(self.nodes), region.question
        if asked is None or region.yes is None or region.no is None:
            self.nodes.append([LEAF, 0, 0, first, 0])
            return place
        node = [asked.feature, asked.value, int(asked.label), 0, 0]
        self.nodes.append(node)
        node[3] = self._add_nodes(region.yes, first)
        node[4] = self._add_nodes(region.no, first + len(region.yes))
        return place

"""A reward model for contexts with features: regions of a decision tree that all actions share.

In each region every action has its mean, shrunk toward that of the parent region, so that an action rarely seen there
borrows from its data elsewhere. A region is split if that makes the data likelier,

    Σ_a ½ S²/(v(n + k)) − ½ log(1 + n/k)      of both parts, less that of the whole; more than log(20 × splits),

the evidence for normal rewards of variance v whose means have variance v/k around the region's own (S the sum of an
action's n residuals in a part). So the tree grows with the data and stays a single region without structure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rewards.base import (
    Cuts,
    RewardModel,
    StoredFit,
    action_means,
    codes_of,
    cuts_from_json,
    cuts_to_json,
    inside,
    learn_cuts,
    steps_of,
    strength_from_json,
    table_from_json,
    with_labels_of,
)
from pacbandits.schema import Fields, Json

MIN_RESIDUAL_VARIANCE = 0.01
MIN_REGION_OBSERVATIONS = 40
MAX_STORED_DEPTH = 64  # questions, in a file
MIN_SPLIT_ODDS = 20.0  # how much likelier a split must make the data


@dataclass(frozen=True)
class Regions:
    """For contexts with features: each action's mean in the regions of a decision tree.

    cuts: the possible cut points of each feature, or the number of labels of a categorical one.
    strength: the weight of the parent region's mean, in observations.
    depth: the largest number of questions to a region.
    """

    kind: ClassVar[str] = "regions"

    cuts: Cuts
    strength: float = 30.0
    depth: int = 4

    @classmethod
    def learn(cls, contexts: Contexts, *, strength: float = 30.0, depth: int = 4) -> Regions:
        """Return a model with cuts at the quantiles of these contexts."""
        return cls(learn_cuts(contexts), strength, depth)

    def fit(self, log: Log) -> FittedRegions:
        cuts = with_labels_of(self.cuts, log.contexts)
        if cuts != self.cuts:
            return replace(self, cuts=cuts).fit(log)
        means = action_means(log)
        residuals = log.rewards - means[log.actions]
        variance = max(float(np.average(residuals**2, weights=log.weights)), MIN_RESIDUAL_VARIANCE)
        weights = log.weights
        seen = _Seen(codes_of(self.cuts, log.contexts), log.actions, weights, weights * log.rewards)
        return FittedRegions(self.cuts, self._grow(seen, np.arange(len(log)), means, variance, self.depth))

    def to_json(self) -> Json:
        return {"kind": self.kind, "cuts": cuts_to_json(self.cuts), "strength": self.strength, "depth": self.depth}

    @classmethod
    def from_json(cls, given: Fields, *, read: Callable[[object], RewardModel]) -> Regions:
        given.check_known(("kind", "cuts", "strength", "depth"))
        depth = given.whole_number("depth", most=MAX_STORED_DEPTH)
        return cls(cuts_from_json(given), strength_from_json(given), depth)

    def _grow(self, seen: _Seen, rows: IntArray, above: FloatArray, variance: float, depth: int) -> Region:
        """Return the region of these rows, split while that pays; above (A,): the means of the parent region."""
        actions = seen.actions[rows]
        counts = np.bincount(actions, weights=seen.weights[rows], minlength=len(above))
        totals = np.bincount(actions, weights=seen.earned[rows], minlength=len(above))
        means = (totals + self.strength * above) / (counts + self.strength)
        if depth == 0 or counts.sum() < MIN_REGION_OBSERVATIONS:
            return Region(means)
        question = self._best_question(seen, rows, means, variance)
        if question is None:
            return Region(means)
        yes = question.holds(seen.codes, rows)
        parts = (self._grow(seen, rows[part], means, variance, depth - 1) for part in (yes, ~yes))
        return Region(means, question, *parts)

    def _best_question(self, seen: _Seen, rows: IntArray, means: FloatArray, variance: float) -> RegionSplit | None:
        """Return the split with the most evidence, if that outweighs the number of candidates."""

        def evidence(sums: FloatArray, counts: FloatArray) -> FloatArray:
            fits = sums**2 / (2.0 * variance * (counts + self.strength)) - 0.5 * np.log1p(counts / self.strength)
            return fits.sum(axis=-1)

        starts = np.cumsum([0, *(steps_of(cuts) for cuts in self.cuts)], dtype=np.int64)
        all_counts, all_sums = (np.zeros((int(starts[-1]), len(means))) for _ in range(2))
        over_cores(
            lambda a, b: _tally(seen, rows, starts, all_counts, all_sums, a, b), count=len(self.cuts), chunks_per_core=1
        )
        all_sums -= means * all_counts
        best, found, tried = -math.inf, None, 0
        for j, cuts in enumerate(self.cuts):
            labels = isinstance(cuts, int)
            sums, counts = (table[starts[j] : starts[j + 1]] for table in (all_sums, all_counts))
            whole, number = sums.sum(axis=0), counts.sum(axis=0)
            if not labels:
                sums, counts = np.cumsum(sums, axis=0)[:-1], np.cumsum(counts, axis=0)[:-1]
            if not len(sums):
                continue
            tried += len(sums)
            gain = evidence(sums, counts) + evidence(whole - sums, number - counts) - evidence(whole, number)
            place = int(np.argmax(gain))
            if gain[place] > best:
                best, found = float(gain[place]), RegionSplit(j, place, labels)
        return found if found is not None and best > math.log(MIN_SPLIT_ODDS * tried) else None


class _Seen(NamedTuple):
    """The data that regions are grown from, as kernels take it.

    codes (n, d): each row's step in each feature.
    actions (n,): the action played.
    weights (n,): of the rows.
    earned (n,): reward times weight.
    """

    codes: IntArray
    actions: IntArray
    weights: FloatArray
    earned: FloatArray


@kernel
def _tally(
    seen: _Seen, rows: IntArray, starts: IntArray, counts: FloatArray, totals: FloatArray, start: int, stop: int
) -> None:
    """Add the rows to counts and totals (steps, A), by the features from start to stop."""
    for i in rows:
        a = seen.actions[i]
        for j in range(start, stop):
            step = starts[j] + seen.codes[i, j]
            counts[step, a] += seen.weights[i]
            totals[step, a] += seen.earned[i]


@dataclass(frozen=True)
class RegionSplit:
    """A question: whether the code of a feature is at most a value or, for labels, equal to it.

    feature: its index.
    value: of its code.
    label: whether the codes are labels.
    """

    feature: int
    value: int
    label: bool

    def holds(self, codes: IntArray, rows: IntArray) -> BoolArray:
        """Return for which of these rows of codes (n, d) the answer is yes."""
        column = codes[rows, self.feature]
        return column == self.value if self.label else column <= self.value


@dataclass(frozen=True, eq=False)
class Region:
    """A node of the tree: a set of contexts.

    means (A,): of each action.
    question: the split, if any.
    yes, no: its parts.
    """

    means: FloatArray
    question: RegionSplit | None = None
    yes: Region | None = None
    no: Region | None = None

    def __len__(self) -> int:
        """Return the number of its leaves."""
        return 1 if self.yes is None or self.no is None else len(self.yes) + len(self.no)

    def leaves(self) -> list[Region]:
        """Return its leaves, in order."""
        return [self] if self.yes is None or self.no is None else [*self.yes.leaves(), *self.no.leaves()]

    def number(self, codes: IntArray, rows: IntArray, out: IntArray, *, first: int = 0) -> None:
        """Write to out (n,) the number of each row's leaf, counting from `first`."""
        if self.question is None or self.yes is None or self.no is None:
            out[rows] = first
            return
        holds = self.question.holds(codes, rows)
        self.yes.number(codes, rows[holds], out, first=first)
        self.no.number(codes, rows[~holds], out, first=first + len(self.yes))

    def to_json(self) -> Json:
        """Serialise the tree; the means of regions that are split are not predictions, and are left out."""
        asked = self.question
        if asked is None or self.yes is None or self.no is None:
            return {"means": self.means.tolist()}
        return {"feature": asked.feature, "value": asked.value, "yes": self.yes.to_json(), "no": self.no.to_json()}

    @classmethod
    def from_json(cls, given: Fields, cuts: Cuts, *, n_actions: int, depth: int = MAX_STORED_DEPTH) -> Region:
        """Make the tree that `to_json` described, over features with these cuts."""
        if "means" in given:
            given.check_known(("means",))
            return cls(table_from_json(given, "means", n_actions))
        given.check_known(("feature", "value", "yes", "no"))
        if not depth:
            raise InputError(f"a tree of regions may ask at most {MAX_STORED_DEPTH} questions to a region")
        feature = given.whole_number("feature", most=len(cuts) - 1)
        steps = cuts[feature]
        asked = RegionSplit(feature, given.whole_number("value", most=steps_of(steps) - 1), isinstance(steps, int))
        parts = [given.fields(name, of="region") for name in ("yes", "no")]
        yes, no = (cls.from_json(part, cuts, n_actions=n_actions, depth=depth - 1) for part in parts)
        return cls(np.full(n_actions, 0.5), asked, yes, no)


@dataclass(frozen=True, eq=False)
class FittedRegions:
    """A fitted tree of regions.

    cuts: the cut points of features.
    root: the region of all contexts.
    """

    kind: ClassVar[str] = "regions"

    cuts: Cuts
    root: Region

    def predict(self, contexts: Contexts) -> FloatArray:
        which = np.empty(len(contexts), dtype=np.int64)
        self.root.number(codes_of(self.cuts, contexts), np.arange(len(contexts)), which)
        return inside(np.array([leaf.means for leaf in self.root.leaves()]))[which]

    def to_json(self) -> Json:
        return {"kind": self.kind, "cuts": cuts_to_json(self.cuts), "root": self.root.to_json()}

    @classmethod
    def from_json(cls, given: Fields, *, n_actions: int, read: Callable[[object], StoredFit]) -> FittedRegions:
        given.check_known(("kind", "cuts", "root"))
        cuts = cuts_from_json(given)
        return cls(cuts, Region.from_json(given.fields("root", of="region"), cuts, n_actions=n_actions))

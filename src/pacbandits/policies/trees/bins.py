"""Features cut into bins: what a tree may ask, and the codes its search runs on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import whole_number
from pacbandits.errors import InputError, plain
from pacbandits.fields import Fields, items
from pacbandits.policies.trees.tree import AtMost, Is, Test
from pacbandits.records import Contexts, check_contexts

MOST_BINS = 256

Codes = NDArray[np.uint8]


@dataclass(frozen=True)
class NumberBins:
    """A number cut at rising thresholds: bin b holds `thresholds[b − 1] < x ≤ thresholds[b]`.

    name: of the feature.
    thresholds: where it is cut.
    """

    name: str
    thresholds: tuple[float, ...]

    ordered = True

    def __post_init__(self) -> None:
        rising = np.array(self.thresholds, dtype=np.float64)
        if not (np.isfinite(rising).all() and (np.diff(rising) > 0).all()):
            got = plain(list(self.thresholds[:10]))
            raise InputError(f"the thresholds on '{plain(self.name)}' must be finite and rise, got {got}")
        if self.n_bins > MOST_BINS:
            raise InputError(f"'{self.name}' has {self.n_bins} bins; at most {MOST_BINS} are possible, use fewer cuts")

    @property
    def n_bins(self) -> int:
        return len(self.thresholds) + 1

    @property
    def n_splits(self) -> int:
        return len(self.thresholds)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "thresholds": list(self.thresholds)}

    @classmethod
    def from_json(cls, given: Fields) -> NumberBins:
        given.check_known(("name", "thresholds"))
        return cls(given.text("name"), given.numbers("thresholds", longest=MOST_BINS))

    def test(self, split: int) -> Test:
        return AtMost(self.name, self.thresholds[split])

    def encode(self, contexts: Contexts) -> NDArray[np.intp]:
        column = contexts.column_of(self.name, categorical=False)
        return np.searchsorted(np.array(self.thresholds), contexts.features[:, column], side="left")

    def describe(self, contexts: Contexts) -> str:
        """Its cuts, and how many of them part these contexts."""
        cuts = ", ".join(f"{threshold:.6g}" for threshold in self.thresholds)
        codes = self.encode(contexts)
        parting = int(codes.max() - codes.min())
        return f"{self.name} ≤ {cuts}{_idle(parting, self.n_splits)}"


@dataclass(frozen=True)
class LabelBins:
    """A category: bin b holds its label b, and one bin more the labels never heard of.

    name: of the feature.
    labels: those heard of.
    """

    name: str
    labels: tuple[str, ...]

    ordered = False

    def __post_init__(self) -> None:
        if len(set(self.labels)) != len(self.labels):
            raise InputError(f"the labels of '{plain(self.name)}' must differ, got {plain(list(self.labels[:10]))}")
        if self.n_bins > MOST_BINS:
            most = MOST_BINS - 1
            raise InputError(
                f"'{self.name}' has {len(self.labels)} labels; at most {most} are possible, merge rare ones"
            )

    @property
    def n_bins(self) -> int:
        return len(self.labels) + 1

    @property
    def n_splits(self) -> int:
        # Of two labels, "is the first" and "is the second" are one question.
        return len(self.labels) if len(self.labels) > 2 else max(len(self.labels) - 1, 0)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "labels": list(self.labels)}

    @classmethod
    def from_json(cls, given: Fields) -> LabelBins:
        given.check_known(("name", "labels"))
        return cls(given.text("name"), given.texts("labels", most=MOST_BINS))

    def test(self, split: int) -> Test:
        return Is(self.name, self.labels[split])

    def encode(self, contexts: Contexts) -> NDArray[np.intp]:
        column = contexts.column_of(self.name, categorical=True)
        known = {label: b for b, label in enumerate(self.labels)}
        theirs = contexts.categories[column] or ()
        codes = np.array([known.get(label, len(self.labels)) for label in theirs], dtype=np.intp)
        return codes[contexts.features[:, column].astype(np.intp)]

    def describe(self, contexts: Contexts) -> str:
        """Its labels, and how many of them part these contexts."""
        seen = np.unique(self.encode(contexts))
        parting = 0 if len(seen) == 1 else min(int((seen < len(self.labels)).sum()), self.n_splits)
        return f"{self.name} is {', '.join(self.labels)}{_idle(parting, self.n_splits)}"


def _idle(parting: int, splits: int) -> str:
    """A word on questions that all contexts answer alike."""
    return "" if parting == splits else f" (all rows answer {splits - parting} of these {splits} questions alike)"


class Layout(NamedTuple):
    """Where features lie in histograms over all bins and in the list of all splits, for compiled kernels.

    starts (d + 1,): the first bin of each feature among all bins.
    split_starts (d + 1,): the first split of each feature among all splits.
    ordered (d,): whether bins add up from the left (numbers) or stand alone (categories).
    """

    starts: IntArray
    split_starts: IntArray
    ordered: BoolArray


@dataclass(frozen=True)
class Bins:
    """The features trees may test and where they may cut them.

    features (d,): each with its bins.
    """

    features: tuple[NumberBins | LabelBins, ...]

    def __post_init__(self) -> None:
        names = [feature.name for feature in self.features]
        if len(set(names)) != len(names):
            raise InputError(f"bins need one entry a feature, got {plain(names[:10])}")

    @classmethod
    def learn(cls, contexts: Contexts, *, bins: int = 32) -> Bins:
        """At most `bins` bins a number, of equal weight where the values allow it, and one a category.

        Numbers of at most `bins` distinct values are cut halfway between all neighbours. What does not vary
        is left out.
        """
        check_contexts(contexts)
        bins = whole_number(bins, name="bins", least=2, most=MOST_BINS)
        found: list[NumberBins | LabelBins] = []
        for j, (name, labels) in enumerate(zip(contexts.names, contexts.categories, strict=True)):
            if labels is None:
                found.append(NumberBins(name, cut(contexts.features[:, j], contexts.weights, bins=bins)))
            else:
                found.append(LabelBins(name, labels))
        return cls(tuple(feature for feature in found if feature.n_splits > 0))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features."""
        return tuple(feature.name for feature in self.features)

    def to_json(self) -> list[dict[str, Any]]:
        return [feature.to_json() for feature in self.features]

    @classmethod
    def from_json(cls, value: object) -> Bins:
        given = [Fields.read(one, of="binned feature") for one in items(value, name="the binned features")]
        return cls(tuple(LabelBins.from_json(one) if "labels" in one else NumberBins.from_json(one) for one in given))

    @property
    def n_splits(self) -> int:
        """How many different tests there are."""
        return sum(feature.n_splits for feature in self.features)

    @cached_property
    def layout(self) -> Layout:
        return Layout(
            starts=np.cumsum([0] + [f.n_bins for f in self.features], dtype=np.int64),
            split_starts=np.cumsum([0] + [f.n_splits for f in self.features], dtype=np.int64),
            ordered=np.array([f.ordered for f in self.features], dtype=np.bool_),
        )

    @cached_property
    def places(self) -> dict[Test, int]:
        """Where each test stands in the list of all splits."""
        return {self.test(split): split for split in range(self.n_splits)}

    def locate(self, split: int) -> tuple[int, int]:
        """The feature, and the split within it, of a place in the list of all splits."""
        j = int(np.searchsorted(self.layout.split_starts, split, side="right")) - 1
        return j, split - int(self.layout.split_starts[j])

    def test(self, split: int) -> Test:
        """The test at a place in the list of all splits."""
        j, s = self.locate(split)
        return self.features[j].test(s)

    def encode(self, contexts: Contexts) -> Codes:
        """The bin (n, d) of each context in each feature."""
        codes = np.empty((len(contexts), len(self.features)), dtype=np.uint8)
        for j, feature in enumerate(self.features):
            codes[:, j] = feature.encode(contexts)
        return codes


def cut(values: FloatArray, weights: FloatArray, *, bins: int) -> tuple[float, ...]:
    """Thresholds that cut values (n,) of the given weights (n,) into at most `bins` bins.

    Each quantile i/bins moves to the nearest gap between distinct values, so that a value many rows share
    becomes a bin of its own rather than one with its neighbours.
    """
    distinct, place = np.unique(values, return_inverse=True)
    gaps = np.arange(len(distinct) - 1)
    if len(distinct) > bins:
        below = np.cumsum(np.bincount(place, weights=weights))[:-1]  # the weight left of each gap
        quantiles = np.arange(1, bins) / bins
        right = np.clip(np.searchsorted(below, quantiles), 1, len(below) - 1)
        nearer = quantiles - below[right - 1] <= below[right] - quantiles
        gaps = np.unique(np.where(nearer, right - 1, right))
    low, high = distinct[gaps], distinct[gaps + 1]
    middle = low / 2 + high / 2
    # Between neighbouring floats there is no middle; the lower one itself then separates them.
    middle = np.where((low <= middle) & (middle < high), middle, low)
    return tuple(float(t) for t in middle)

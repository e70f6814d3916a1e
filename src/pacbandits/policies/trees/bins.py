"""Binned features: the tests that a tree may use, and the bin codes of rows."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import whole_number
from pacbandits.compiled import kernel
from pacbandits.errors import InputError, plain
from pacbandits.policies.trees.tree_policy import AtMost, Is, IsMissing, Node, Test, TreePolicy
from pacbandits.records.column_types import say_number
from pacbandits.records.contexts import Contexts, check_contexts
from pacbandits.records.policy import Policy
from pacbandits.schema import MAX_ITEMS, Fields, items

DEFAULT_BINS = 32
MOST_BINS = 256
_LEAST_WEIGHT = 1e-300  # avoids division by zero if no row has a weight

Codes = NDArray[np.uint8]


class SplitRun(NamedTuple):
    """A run of consecutive splits of a feature, each of which sends the next bin left.

    bin: the bin of the feature that the first split sends left.
    splits: the number of splits.
    adding: whether a split also sends the bins of the earlier splits left.
    """

    bin: int
    splits: int
    adding: bool


@dataclass(frozen=True)
class NumberBins:
    """A number with increasing thresholds: bin b holds `thresholds[b − 1] < x ≤ thresholds[b]`.

    If values were missing, missing values are bin 0, before all others: they can go to either side of a threshold, or
    be split off alone. If none were, a value that is missing later fails every test, like a large number.

    name: the name of the feature.
    thresholds: the thresholds.
    missing: whether values were missing.
    """

    name: str
    thresholds: tuple[float, ...]
    missing: bool = False

    def __post_init__(self) -> None:
        rising = np.array(self.thresholds, dtype=np.float64)
        if not (np.isfinite(rising).all() and (np.diff(rising) > 0).all()):
            got = plain(list(self.thresholds[:10]))
            raise InputError(f"the thresholds on '{plain(self.name)}' must be finite and rise, got {got}")
        if self.n_bins > MOST_BINS:
            raise InputError(f"'{self.name}' has {self.n_bins} bins; at most {MOST_BINS} are possible, use fewer cuts")

    @property
    def n_bins(self) -> int:
        return len(self.thresholds) + (2 if self.missing else 1)

    @property
    def n_splits(self) -> int:
        return 2 * len(self.thresholds) + 1 if self.missing else len(self.thresholds)

    @property
    def runs(self) -> tuple[SplitRun, ...]:
        """The runs of splits: small values; then missing values, alone and together with small values."""
        cuts = len(self.thresholds)
        return (SplitRun(1, cuts, True), SplitRun(0, cuts + 1, True)) if self.missing else (SplitRun(0, cuts, True),)

    def to_json(self) -> dict[str, Any]:
        given = {"name": self.name, "thresholds": list(self.thresholds)}
        return {**given, "missing": True} if self.missing else given

    @classmethod
    def from_json(cls, given: Fields) -> NumberBins:
        given.check_known(("name", "thresholds", "missing"))
        missing = "missing" in given
        if missing and not given.flag("missing"):
            raise InputError(f"{given.name('missing')} can only be true; where nothing was missing, it is left out")
        return cls(given.text("name"), given.numbers("thresholds", longest=MOST_BINS), missing)

    def test(self, split: int) -> Test:
        cuts = len(self.thresholds)
        if not self.missing:
            return AtMost(self.name, self.thresholds[split])
        if split == cuts:
            return IsMissing(self.name)
        return AtMost(self.name, self.thresholds[split % (cuts + 1)], missing=split > cuts)

    def encode(self, contexts: Contexts) -> NDArray[np.intp]:
        column = contexts.column_of(self.name, categorical=False)
        values = contexts.features[:, column]
        # NaN sorts after all numbers, so it falls into the last bin unless it has its own.
        codes = np.searchsorted(np.array(self.thresholds), values, side="left")
        return np.where(np.isnan(values), 0, codes + 1) if self.missing else codes

    def describe(self, contexts: Contexts) -> str:
        """Describe the thresholds, and how many of the splits divide these contexts."""
        said = [say_number(self.name, threshold, digits=6) for threshold in self.thresholds]
        name, cuts = said[0].name if said else self.name, ", ".join(one.cut for one in said)
        most = f"{said[-1]._replace(cut=cuts).at_most}" if said else ""
        seen = np.unique(self.encode(contexts))
        left = [int(((seen >= run.bin) & (seen <= run.bin + s)).sum()) for run in self.runs for s in range(run.splits)]
        idle = _idle(sum(0 < count < len(seen) for count in left), self.n_splits)
        if not self.missing:
            return f"{name} {most or '≤ '}{idle}"
        return f"{name} is missing{f', or {most}' if most else ''}{idle}"


@dataclass(frozen=True)
class LabelBins:
    """A category: bin b holds its label b, and one more bin the unknown labels.

    name: the name of the feature.
    labels: the known labels.
    """

    name: str
    labels: tuple[str, ...]

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
        # With two labels, "is the first" and "is the second" are the same split.
        return len(self.labels) if len(self.labels) > 2 else max(len(self.labels) - 1, 0)

    @property
    def runs(self) -> tuple[SplitRun, ...]:
        """One run, of one label at a time."""
        return (SplitRun(0, self.n_splits, False),)

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
        """Describe the labels, and how many of them divide these contexts."""
        seen = np.unique(self.encode(contexts))
        parting = 0 if len(seen) == 1 else min(int((seen < len(self.labels)).sum()), self.n_splits)
        return f"{self.name} is {', '.join(self.labels)}{_idle(parting, self.n_splits)}"


def _idle(parting: int, splits: int) -> str:
    """Return a note on splits that do not divide the contexts; empty if all do."""
    return "" if parting == splits else f" (all rows answer {splits - parting} of these {splits} questions alike)"


class Layout(NamedTuple):
    """The layout of features in histograms over all bins and in the list of all splits, for compiled kernels.

    starts (d + 1,): the first bin of each feature among all bins.
    split_starts (d + 1,): the first split of each feature among all splits.
    run_starts (d + 1,): the first run of each feature among all runs.
    run_bins (R,): the bin, among all, that the first split of each run sends left.
    run_splits (R + 1,): the first split of each run among all splits.
    adding (R,): whether the bins of a run accumulate (numbers) or stand alone (categories).
    """

    starts: IntArray
    split_starts: IntArray
    run_starts: IntArray
    run_bins: IntArray
    run_splits: IntArray
    adding: BoolArray


@dataclass(frozen=True)
class Bins:
    """The features that trees may test, with their bins.

    features (d,): the bins of each feature.
    """

    features: tuple[NumberBins | LabelBins, ...]

    def __post_init__(self) -> None:
        names = [feature.name for feature in self.features]
        if len(set(names)) != len(names):
            raise InputError(f"bins need one entry a feature, got {plain(names[:10])}")

    @classmethod
    def learn(cls, contexts: Contexts, *, bins: int = DEFAULT_BINS) -> Bins:
        """Return at most `bins` bins for a number, of equal weight if the values allow it, and one for each label.

        A number with at most `bins` distinct values is split halfway between all neighbours; missing values get one
        more bin. Features without a possible split are left out.
        """
        check_contexts(contexts)
        bins = whole_number(bins, name="bins", least=2, most=MOST_BINS)
        found: list[NumberBins | LabelBins] = []
        for j, (name, labels) in enumerate(zip(contexts.names, contexts.categories, strict=True)):
            if labels is None:
                gone = np.isnan(contexts.features[:, j])
                missing = bool(gone.any() and not gone.all())
                most = min(bins, MOST_BINS - missing)
                found.append(NumberBins(name, cut(contexts.features[:, j], contexts.weights, bins=most), missing))
            else:
                found.append(LabelBins(name, labels))
        return cls(tuple(feature for feature in found if feature.n_splits > 0))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(feature.name for feature in self.features)

    def to_json(self) -> list[dict[str, Any]]:
        return [feature.to_json() for feature in self.features]

    @classmethod
    def from_json(cls, value: object) -> Bins:
        given = [Fields.read(one, of="binned feature") for one in items(value, name="the binned features")]
        return cls(tuple(LabelBins.from_json(one) if "labels" in one else NumberBins.from_json(one) for one in given))

    @property
    def n_splits(self) -> int:
        """The number of different tests."""
        return sum(feature.n_splits for feature in self.features)

    @cached_property
    def layout(self) -> Layout:
        starts = np.cumsum([0] + [f.n_bins for f in self.features], dtype=np.int64)
        runs = [(start, run) for start, f in zip(starts[:-1], self.features, strict=True) for run in f.runs]
        return Layout(
            starts=starts,
            split_starts=np.cumsum([0] + [f.n_splits for f in self.features], dtype=np.int64),
            run_starts=np.cumsum([0] + [len(f.runs) for f in self.features], dtype=np.int64),
            run_bins=np.array([start + run.bin for start, run in runs], dtype=np.int64),
            run_splits=np.cumsum([0] + [run.splits for _, run in runs], dtype=np.int64),
            adding=np.array([run.adding for _, run in runs], dtype=np.bool_),
        )

    @cached_property
    def places(self) -> dict[Test, int]:
        """The index of each test in the list of all splits."""
        return {self.test(split): split for split in range(self.n_splits)}

    def locate(self, split: int) -> tuple[int, int]:
        """Return the feature of a split, by its index in the list of all splits, and its index within the feature."""
        j = int(np.searchsorted(self.layout.split_starts, split, side="right")) - 1
        return j, split - int(self.layout.split_starts[j])

    def test(self, split: int) -> Test:
        """Return the test of a split, by its index in the list of all splits."""
        j, s = self.locate(split)
        return self.features[j].test(s)

    def sent_left(self, split: int) -> BoolArray:
        """Return which bins of its feature a split sends left, by its index in the list of all splits."""
        layout, j = self.layout, self.locate(split)[0]
        r = int(np.searchsorted(layout.run_splits, split, side="right")) - 1
        first = int(layout.run_bins[r] - layout.starts[j])
        last = first + split - int(layout.run_splits[r])
        left = np.zeros(self.features[j].n_bins, dtype=np.bool_)
        left[first if layout.adding[r] else last : last + 1] = True
        return left

    def encode(self, contexts: Contexts) -> Codes:
        """Return the bin (n, d) of each context in each feature."""
        codes = np.empty((len(contexts), len(self.features)), dtype=np.uint8)
        for j, feature in enumerate(self.features):
            codes[:, j] = feature.encode(contexts)
        return codes


def cut(values: FloatArray, weights: FloatArray, *, bins: int) -> tuple[float, ...]:
    """Return thresholds that divide values (n,) with weights (n,) into at most `bins` bins.

    Each quantile i/bins moves to the nearest gap between distinct values, so that a value shared by many rows becomes
    a bin of its own rather than one with its neighbours. Missing values are ignored.
    """
    missing = np.isnan(values)
    if missing.any():
        values, weights = values[~missing], weights[~missing] / max(float(weights[~missing].sum()), _LEAST_WEIGHT)
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
    # Adjacent floats have no midpoint; the lower one separates them.
    middle = np.where((low <= middle) & (middle < high), middle, low)
    return tuple(float(t) for t in middle)


# Known contexts: the contexts over which shares and costs are counted, as bin codes with counts.
#
# A class that is restricted by shares or costs stores them, so that it is the same whenever it is read again.


UNKNOWN_LABEL = "a label never heard of"
MAX_CODED_CHARACTERS = 2**25


@dataclass(frozen=True, eq=False)
class KnownContexts:
    """The contexts that were known when a class was learnt.

    bins: the bins that distinguish them.
    codes (m, d): the distinct bin codes.
    counts (m,): the number of contexts with each code, or their total weight.
    n: the number of contexts.
    """

    bins: Bins
    codes: Codes
    counts: FloatArray
    n: int

    @classmethod
    def of(cls, contexts: Contexts, bins: Bins) -> KnownContexts:
        """Reduce contexts to bin codes; counts are numbers of contexts if all weights are equal, else total weights."""
        check_contexts(contexts)
        codes, which = np.unique(bins.encode(contexts), axis=0, return_inverse=True)
        alike = bool(np.ptp(contexts.weights) <= 1e-12 * contexts.weights.max())
        counts = np.bincount(which.reshape(-1), weights=None if alike else contexts.weights, minlength=len(codes))
        kept = np.flatnonzero(counts > 0)
        return cls(bins, np.ascontiguousarray(codes[kept]), counts[kept].astype(np.float64), len(contexts))

    @cached_property
    def weights(self) -> FloatArray:
        """The share (m,) of each code."""
        return self.counts / self.counts.sum()

    @cached_property
    def contexts(self) -> Contexts:
        """Weighted contexts (m,) that have these codes."""
        columns, labels = list[FloatArray](), list[tuple[str, ...] | None]()
        for feature, codes in zip(self.bins.features, self.codes.T, strict=True):
            columns.append(_values(feature)[codes])
            labels.append(None if isinstance(feature, NumberBins) else (*feature.labels, _other(feature)))
        features = np.column_stack(columns) if columns else np.empty((len(self.codes), 0))
        return Contexts(features, self.bins.names, tuple(labels), None, self.weights)

    def to_json(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "features": self.bins.to_json(),
            "codes": b64encode(self.codes.tobytes()).decode("ascii"),
            "counts": [int(count) if count.is_integer() else count for count in self.counts.tolist()],
        }

    @classmethod
    def from_json(cls, given: Fields) -> KnownContexts:
        """Read known contexts from the output of `to_json`."""
        given.check_known(("n", "features", "codes", "counts"))
        bins = Bins.from_json(given.items("features"))
        counts = np.array(given.numbers("counts", shortest=1, longest=MAX_ITEMS), dtype=np.float64)
        try:
            raw = b64decode(given.text("codes", most=MAX_CODED_CHARACTERS), validate=True)
        except (NotBase64, ValueError):
            raise InputError(f"{given.name('codes')} must be bytes in base64") from None
        size, width = len(counts), len(bins.features)
        if len(raw) != size * width:
            raise InputError(f"{given.name('codes')} has {len(raw)} bytes, not one a feature of {size} contexts")
        codes = np.frombuffer(raw, dtype=np.uint8).reshape(size, width).copy()
        if (codes >= np.array([feature.n_bins for feature in bins.features], dtype=np.int64)).any():
            raise InputError(f"{given.name('codes')} contains a bin that does not exist")
        if not (counts > 0).all():
            raise InputError(f"{given.name('counts')} must be above 0")
        return cls(bins, codes, counts, given.whole_number("n", least=1))


def _values(feature: NumberBins | LabelBins) -> FloatArray:
    """Return a representative value in each bin of a feature."""
    if isinstance(feature, LabelBins):
        return np.arange(feature.n_bins, dtype=np.float64)
    cuts = np.array(feature.thresholds, dtype=np.float64)
    beyond = np.nextafter(cuts[-1:], np.inf) if len(cuts) else np.zeros(1)
    return np.concatenate([[np.nan] if feature.missing else [], cuts, beyond])


def _other(feature: LabelBins) -> str:
    """Return a label that the feature does not have."""
    word = UNKNOWN_LABEL
    while word in feature.labels:
        word += "!"
    return word


# Weighted sums over many trees on the same rows, at a cost independent of the number of trees.
#
# A tree of depth 2 has four leaves, and whether a row reaches a leaf depends on the bins of two features: that of the
# root and that of the test below. So the total weight of the trees that take an action on a row is a sum over pairs of
# features of a table entry at the row's two bins: the transpose of the histograms by which trees are found. Tables are
# made once, and a row takes as long for a thousand trees as for fifty.


ROWS_AT_ONCE = 2048  # their sums stay in cache during the loop over pairs of features


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees of depth at most 2, each with an integer weight.

    starts (d + 1,): the first bin of each feature among all bins.
    pairs (P, 2): the pairs of features j ≤ k that leaves depend on.
    table (all bins, all bins, A): for each pair of bins, the weight of the leaves it reaches, by action; on the
        diagonal of a feature, the leaves that depend on it alone.
    always (A,): the weight of constant trees.
    """

    starts: IntArray
    pairs: IntArray
    table: IntArray
    always: IntArray

    @classmethod
    def of(cls, trees: Sequence[Policy], weights: IntArray, bins: Bins, *, n_actions: int) -> Forest:
        """Return the forest of trees whose tests are among the bins' splits, with weights (K,)."""
        starts = bins.layout.starts
        table = np.zeros((int(starts[-1]), int(starts[-1]), n_actions), dtype=np.int64)
        always = np.zeros(n_actions, dtype=np.int64)
        used: set[tuple[int, int]] = set()
        for tree, weight in zip(trees, weights, strict=True):
            if not isinstance(tree, TreePolicy):
                raise InputError(f"a forest is made of decision trees, got {type(tree).__name__}")
            if isinstance(tree.root, int):
                always[tree.root] += weight
                continue
            j, left = _asked(bins, tree.root.test)
            for here, node in ((left, tree.root.then), (~left, tree.root.otherwise)):
                used.add(_add_side(table, bins, j, here, node, int(weight)))
        pairs = np.array(sorted(used), dtype=np.int64).reshape(-1, 2)
        return cls(starts, pairs, table, always)

    def add_weights(self, codes: Codes, out: IntArray) -> None:
        """Add to out (n, A) the weight of the trees that take each action on each row of codes (n, d)."""
        out += self.always
        _look_up(codes, self.starts, self.pairs, self.table, out)


def _asked(bins: Bins, test: Test) -> tuple[int, BoolArray]:
    """Return the feature of a test, and which of its bins pass."""
    split = bins.places[test]
    return bins.locate(split)[0], bins.sent_left(split)


def _add_side(table: IntArray, bins: Bins, j: int, here: BoolArray, node: Node, weight: int) -> tuple[int, int]:
    """Add one side of a root on feature j, whose bins there are `here`; return the pair of features it depends on."""
    starts = bins.layout.starts
    k, passing = (j, np.ones_like(here)) if isinstance(node, int) else _asked(bins, node.test)
    outcomes = (node, node) if isinstance(node, int) else (node.then, node.otherwise)
    for below, leaf in zip((passing, ~passing), outcomes, strict=True):
        if not isinstance(leaf, int):
            raise InputError("a forest is made of trees of depth 2 or less")
        if j == k:
            both = starts[j] + np.flatnonzero(here & below)
            table[both, both, leaf] += weight
        else:
            mine, theirs = starts[j] + np.flatnonzero(here), starts[k] + np.flatnonzero(below)
            first, second = (mine, theirs) if j < k else (theirs, mine)
            table[first[:, None], second, leaf] += weight
    return min(j, k), max(j, k)


@kernel
def _look_up(codes: Codes, starts: IntArray, pairs: IntArray, table: IntArray, out: IntArray) -> None:
    n, n_actions = out.shape
    for begin in range(0, n, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, n)
        for p in range(pairs.shape[0]):
            j, k = pairs[p]
            for r in range(begin, end):
                row = table[starts[j] + codes[r, j], starts[k] + codes[r, k]]
                for a in range(n_actions):
                    out[r, a] += row[a]

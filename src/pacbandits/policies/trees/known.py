"""The contexts by which shares and costs are counted, as trees see them: a bin of each feature, and how many there are.

A class that is restricted by shares or costs holds them, so that it is the same whenever it is read again.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.errors import InputError
from pacbandits.fields import MAX_ITEMS, Fields
from pacbandits.policies.trees.bins import Bins, Codes, LabelBins, NumberBins
from pacbandits.records import Contexts, check_contexts

UNKNOWN_LABEL = "a label never heard of"
MAX_CODED_CHARACTERS = 2**25


@dataclass(frozen=True, eq=False)
class KnownContexts:
    """Contexts that were known when a class was learnt.

    bins: by which they are told apart.
    codes (m, d): the bins of each that differs from the others.
    counts (m,): how many are alike, or what they weigh together.
    n: how many contexts they were.
    """

    bins: Bins
    codes: Codes
    counts: FloatArray
    n: int

    @classmethod
    def of(cls, contexts: Contexts, bins: Bins) -> KnownContexts:
        """Contexts as these bins tell them apart; counted where all weigh the same, else weighed."""
        check_contexts(contexts)
        codes, which = np.unique(bins.encode(contexts), axis=0, return_inverse=True)
        alike = bool(np.ptp(contexts.weights) <= 1e-12 * contexts.weights.max())
        counts = np.bincount(which.reshape(-1), weights=None if alike else contexts.weights, minlength=len(codes))
        kept = np.flatnonzero(counts > 0)
        return cls(bins, np.ascontiguousarray(codes[kept]), counts[kept].astype(np.float64), len(contexts))

    @cached_property
    def weights(self) -> FloatArray:
        """The share (m,) of each."""
        return self.counts / self.counts.sum()

    @cached_property
    def contexts(self) -> Contexts:
        """Contexts (m,) of which these bins are true, weighted."""
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
        """What `to_json` wrote."""
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
            raise InputError(f"{given.name('codes')} tells of a bin that there is not")
        if not (counts > 0).all():
            raise InputError(f"{given.name('counts')} must be above 0")
        return cls(bins, codes, counts, given.whole_number("n", least=1))


def _values(feature: NumberBins | LabelBins) -> FloatArray:
    """A value in each bin of a feature."""
    if isinstance(feature, LabelBins):
        return np.arange(feature.n_bins, dtype=np.float64)
    cuts = np.array(feature.thresholds, dtype=np.float64)
    beyond = np.nextafter(cuts[-1:], np.inf) if len(cuts) else np.zeros(1)
    return np.concatenate([[np.nan] if feature.missing else [], cuts, beyond])


def _other(feature: LabelBins) -> str:
    """A label that is none of a feature's."""
    word = UNKNOWN_LABEL
    while word in feature.labels:
        word += "!"
    return word

"""Policy classes that are searched by sums over rows: rows need not be in memory, and sums can be distributed.

The class defines its sums: decision trees sum scores by the bins of each pair of features; policies on a finite set of
contexts sum by context. Scores of rows are integers (`pacbandits.engines`), so that sums are exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.records.contexts import Contexts
from pacbandits.records.policy import Policy

if TYPE_CHECKING:
    from pacbandits.policies.trees.bins import Bins, Codes


IntSums = NDArray[np.int64]


class Summation(ABC):
    """The way a class sums the scores of rows, and the class that searches those sums.

    policies: the class to search; it takes sums instead of scores.
    contexts: the contexts to pass to it.
    coded_bins: the bins of features, if sums depend on a context only through these; else None.
    """

    policies: PolicyClass
    contexts: Contexts
    coded_bins: Bins | None = None

    @abstractmethod
    def zeros(self, width: int) -> IntSums:
        """Return zero sums for `width` scores a row."""

    @abstractmethod
    def add(self, contexts: Contexts, scores: IntSums, sums: IntSums) -> None:
        """Add the scores (n, W) of rows in these contexts to the sums, in place."""

    def add_coded(self, codes: Codes, scores: IntSums, sums: IntSums) -> None:
        """Add the scores (n, W) of rows, given by their bins (n, d), to the sums in place."""
        raise NotImplementedError

    @abstractmethod
    def finish(self, sums: IntSums) -> FloatArray:
        """Return the sums of all rows in the form that `policies` takes; the last axis has the W scores."""

    @abstractmethod
    def totals(self, sums: FloatArray) -> FloatArray:
        """Return the sum (W,) of each of the W scores over all rows."""


class SummingIds(Summation):
    """Sums by id, for a class on a finite set of contexts."""

    def __init__(self, policies: PolicyClass) -> None:
        self.policies, n = policies, policies.n_contexts
        self.contexts = Contexts.of(np.zeros((n, 0)), ids=np.arange(n))

    def zeros(self, width: int) -> IntSums:
        return np.zeros((len(self.contexts), width), dtype=np.int64)

    def add(self, contexts: Contexts, scores: IntSums, sums: IntSums) -> None:
        np.add.at(sums, contexts.require_ids(below=len(self.contexts)), scores)

    def finish(self, sums: IntSums) -> FloatArray:
        return sums.astype(np.float64)

    def totals(self, sums: FloatArray) -> FloatArray:
        return sums.sum(axis=0)


def summing(policies: PolicyClass) -> Summation:
    """Return the summation of rows for a class.

    Raises:
        InputError: If the class needs all rows at once.
    """
    if (own := policies.summing()) is not None:
        return own
    if policies.n_contexts:
        return SummingIds(policies)
    raise InputError(
        f"policies of this class ({policies.type_name}) are searched with all rows at once, and not by sums over "
        "them; take trees of depth 2 or less, or a class over contexts with ids, or certify in memory, without --engine"
    )


def can_be_summed(policies: PolicyClass) -> bool:
    """Return whether a class can be searched by sums over rows."""
    return bool(policies.n_contexts) or policies.summing() is not None


def actions_on(policy: Policy, contexts: Contexts) -> IntArray:
    """Return the actions (n,) of a policy on these contexts."""
    return np.asarray(policy(contexts), dtype=np.int64)

"""Policy classes that are searched by sums over rows: rows need not be in memory, and may be added up anywhere.

A class says what its sums are: of decision trees, sums of scores by the bins of any two features; of policies on a
finite set of contexts, by the context. Scores of rows are whole numbers (`pacbandits.engines`), so that sums are exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Policy

if TYPE_CHECKING:
    from pacbandits.policies.trees.bins import Bins, Codes


IntSums = NDArray[np.int64]


class Summation(ABC):
    """How the scores of rows are added up for a class, and what is found in their sums.

    policies: asked as the class is, with sums in the place of scores.
    contexts: what it is asked with.
    coded_bins: the bins of features, where sums need no more of a context than these; None elsewhere.
    """

    policies: PolicyClass
    contexts: Contexts
    coded_bins: Bins | None = None

    @abstractmethod
    def zeros(self, width: int) -> IntSums:
        """Nothing yet, for so many scores a row."""

    @abstractmethod
    def add(self, contexts: Contexts, scores: IntSums, sums: IntSums) -> None:
        """Add the scores (n, W) of rows in these contexts to the sums, in place."""

    def add_coded(self, codes: Codes, scores: IntSums, sums: IntSums) -> None:
        """The same for rows whose bins (n, d) are known."""
        raise NotImplementedError

    @abstractmethod
    def finish(self, sums: IntSums) -> FloatArray:
        """The sums of all rows as `policies` takes them: the last axis is of the W scores."""

    @abstractmethod
    def totals(self, sums: FloatArray) -> FloatArray:
        """The sum of each of the W scores (W,) over all rows."""


class SummingIds(Summation):
    """Sums by the context of a finite set, of a class that knows them by their ids."""

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
    """How rows are added up for a class.

    Raises:
        InputError: When it needs all rows at once.
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
    """Whether a class is searched by sums over rows."""
    return bool(policies.n_contexts) or policies.summing() is not None


def actions_on(policy: Policy, contexts: Contexts) -> IntArray:
    """What a policy does in these contexts (n,)."""
    return np.asarray(policy(contexts), dtype=np.int64)

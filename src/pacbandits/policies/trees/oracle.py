"""The policy class of shallow decision trees."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import instance, number
from pacbandits.errors import InputError
from pacbandits.policies.base import Frontier, SearchCost, check_scores
from pacbandits.policies.trees.binned import BinnedTrees
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.cost import TreeSizes, argmax_cost, frontier_cost
from pacbandits.policies.trees.frontier import best_front
from pacbandits.policies.trees.known import KnownContexts
from pacbandits.policies.trees.leaves import SmallestLeaf
from pacbandits.policies.trees.limits import TreeLimits
from pacbandits.policies.trees.search import best_tree
from pacbandits.policies.trees.sums import SummingTrees
from pacbandits.policies.trees.tree import TreePolicy
from pacbandits.policies.trees.within import best_within
from pacbandits.records import Contexts, Policy


class Trees(BinnedTrees):
    """All decision trees of at most the given depth (0, 1 or 2) that test binned features, with an action a leaf.

        log|Π| = 3 log S + 4 log A  at depth 2,  log S + 2 log A  at depth 1,  log A  at depth 0

    where S counts the tests (feature and threshold, or feature and label). Argmax and frontier are exact over all of
    them; a frontier of very many points is rounded outward and says so. limits: from where on. leaf: what every leaf
    must hold, by which there are fewer trees and log|Π| is a bound.
    """

    exact = True

    def __init__(
        self,
        bins: Bins,
        *,
        n_actions: int,
        depth: int = 2,
        limits: TreeLimits | None = None,
        leaf: SmallestLeaf | None = None,
    ) -> None:
        super().__init__(bins, n_actions=n_actions, depth=depth)
        if self.depth not in (0, 1, 2):
            raise InputError(f"depth must be 0, 1 or 2, got {self.depth}; DeepTrees go deeper")
        self.limits = TreeLimits() if limits is None else instance(limits, TreeLimits, name="limits")
        self.leaf = None if leaf is None else instance(leaf, SmallestLeaf, name="leaf")
        if self.leaf is not None and self.leaf.known.bins != self.bins:
            raise InputError("the known contexts of the smallest leaf must be told apart by the bins of the trees")

    @classmethod
    def learn(
        cls, contexts: Contexts, *, n_actions: int, depth: int = 2, bins: int = 32, smallest_leaf: float = 0.0
    ) -> Trees:
        """Trees that cut numbers at the quantiles of these contexts, into at most `bins` bins each.

        smallest_leaf: the share of these contexts that every leaf holds at the least.

        >>> import pacbandits as pb
        >>> people = pb.Contexts.of([[20], [30], [40], [50]], names=["age"])
        >>> policies = pb.Trees.learn(people, n_actions=2, depth=1)
        >>> print(policies.argmax(people, [[1, 0], [1, 0], [0, 1], [0, 1]]).describe())  # the best for these scores
        if age ≤ 35: action 0
        else: action 1
        """
        cut = Bins.learn(contexts, bins=bins)
        share = number(smallest_leaf, name="smallest_leaf", least=0.0, most=1.0)
        leaf = SmallestLeaf(share, KnownContexts.of(contexts, cut)) if share > 0 else None
        return cls(cut, n_actions=n_actions, depth=depth, leaf=leaf)

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TreePolicy:
        """The best tree; of equals (to rounding) the shallowest, then that of the first tests and actions."""
        scores = self._checked(contexts, scores, name="scores")
        codes, most = self._encode(contexts), self.limits.kept_bytes
        tree = best_tree(self.bins, codes, scores, depth=self.depth, kept_bytes=most, leaf=self.leaf)
        return TreePolicy(root=tree, n_actions=self.n_actions)

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """The Pareto frontier of two scores over all trees, to rounding of about 1e-12 of their sums."""
        first = self._checked(contexts, first, name="first scores")
        second = self._checked(contexts, second, name="second scores")
        codes = self._encode(contexts)
        front = best_front(self.bins, codes, first, second, depth=self.depth, limits=self.limits, leaf=self.leaf)
        return front.frontier(self.bins, n_actions=self.n_actions)

    def argmax_within(
        self, contexts: Contexts, scores: FloatArray, *, known: Contexts, costs: FloatArray, most: float
    ) -> TreePolicy | None:
        """The best tree among those that cost at most so much on known contexts, for scores (n, A) and costs (m, A).

        None where all cost more; of equals as for `argmax`.
        """
        scores, costs = self._checked(contexts, scores, name="scores"), self._checked(known, costs, name="costs")
        tree = best_within(
            self.bins,
            np.concatenate((self._encode(contexts), self._encode(known))),
            np.concatenate((scores, np.zeros_like(costs))),
            np.concatenate((np.zeros_like(scores), -costs)),
            least=-most,
            depth=self.depth,
            limits=self.limits,
            leaf=self.leaf,
        )
        return None if tree is None else TreePolicy(root=tree, n_actions=self.n_actions)

    def narrowed(self, kept: tuple[int, ...]) -> Trees:
        """The trees that take these actions alone, which are numbered from 0."""
        return Trees(self.bins, n_actions=len(kept), depth=self.depth, limits=self.limits, leaf=self.leaf)

    def summing(self) -> SummingTrees:
        """How rows are added up for these trees, where they are not all in memory."""
        return SummingTrees(self)

    def know(self, contexts: Contexts) -> KnownContexts:
        """Contexts as far as trees tell them apart."""
        return KnownContexts.of(contexts, self.bins)

    def has(self, policy: Policy) -> bool:
        """Whether this is a tree no deeper than these, with tests and actions of theirs, and leaves large enough."""
        return super().has(policy) and (self.leaf is None or self.leaf.holds(cast(TreePolicy, policy).root))

    def describe(self) -> str:
        """The kind of trees in words."""
        return super().describe() + ("" if self.leaf is None else f", {self.leaf.describe()}")

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | ({} if self.leaf is None else {"leaf": self.leaf.to_json()})

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """What an argmax takes on so many contexts."""
        return argmax_cost(self._sizes(), n_rows, depth=self.depth)

    def frontier_cost(self, n_rows: int) -> SearchCost:
        """What a frontier takes on so many contexts."""
        return frontier_cost(self._sizes(), n_rows, depth=self.depth, limits=self.limits)

    def _sizes(self) -> TreeSizes:
        return TreeSizes.of(self.bins, n_actions=self.n_actions, kept_bytes=self.limits.kept_bytes)

    def _checked(self, contexts: Contexts, scores: FloatArray, *, name: str) -> FloatArray:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions, name=name)
        # Kernels are compiled once, for arrays that are contiguous and writeable; others are copied.
        return np.require(checked, requirements=("C", "W"))

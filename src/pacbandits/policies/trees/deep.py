"""Decision trees of depth 3 to 8: a search that looks three tests ahead and then moves tests while that gains."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import instance
from pacbandits.errors import InputError
from pacbandits.policies.base import SearchCost, check_scores
from pacbandits.policies.trees.binned import BinnedTrees
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.cost import deep_cost
from pacbandits.policies.trees.growth import DeepSearch, Effort
from pacbandits.policies.trees.tree import TreePolicy
from pacbandits.records import Contexts

SEARCHED_DEPTHS = range(3, 9)


class DeepTrees(BinnedTrees):
    """All decision trees of at most the given depth (3 to 8) that test binned features, with an action a leaf.

        log|Π| = (2^depth − 1) log S + 2^depth log A

    where S counts the tests. The argmax is a search that may miss the best tree, hence `exact` is false and there is no
    frontier: what rests on either holds only if the search was right. Up to depth 2, `Trees` is exact. effort: how hard
    the search tries.
    """

    exact = False

    def __init__(self, bins: Bins, *, n_actions: int, depth: int = 3, effort: Effort | None = None) -> None:
        super().__init__(bins, n_actions=n_actions, depth=depth)
        if self.depth not in SEARCHED_DEPTHS:
            least, most = SEARCHED_DEPTHS[0], SEARCHED_DEPTHS[-1]
            raise InputError(f"depth must be from {least} to {most}, got {self.depth}; use Trees for depth 0, 1 or 2")
        self.effort = Effort() if effort is None else instance(effort, Effort, name="effort")

    @classmethod
    def learn(
        cls, contexts: Contexts, *, n_actions: int, depth: int = 3, bins: int = 32, effort: Effort | None = None
    ) -> DeepTrees:
        """Trees that cut numbers at the quantiles of these contexts, into at most `bins` bins each."""
        return cls(Bins.learn(contexts, bins=bins), n_actions=n_actions, depth=depth, effort=effort)

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TreePolicy:
        """A good tree, never worse than the best of depth 2; of equals (to rounding) the simpler, then the first.

        At depth 3 it is the best of all trees when the tests are few enough (`effort`) to try each at the root.
        """
        return TreePolicy(root=self._search(contexts, scores).best(), n_actions=self.n_actions)

    def narrowed(self, kept: tuple[int, ...]) -> DeepTrees:
        """The trees that take these actions alone, which are numbered from 0."""
        return DeepTrees(self.bins, n_actions=len(kept), depth=self.depth, effort=self.effort)

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """What an argmax takes on so many contexts."""
        return deep_cost(self._sizes(), n_rows, depth=self.depth, effort=self.effort)

    def shortfall(self, contexts: Contexts, scores: FloatArray) -> float:
        """How much more (0 when none) the best tree of depth 3 scores than the one `argmax` finds.

        Every test is tried at the root with exact trees of depth 2 below: work that grows with the square of S.
        """
        if self.depth != SEARCHED_DEPTHS[0]:
            raise InputError(
                f"the best tree can be had at depth {SEARCHED_DEPTHS[0]}, but these have depth {self.depth}"
            )
        return self._search(contexts, scores).shortfall()

    def _search(self, contexts: Contexts, scores: FloatArray) -> DeepSearch:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions)
        codes = self._encode(contexts)
        # Where all actions score the same, no tree does better than another.
        rows = np.flatnonzero(checked.max(axis=1) > checked.min(axis=1))
        return DeepSearch(self.bins, codes[rows], np.ascontiguousarray(checked[rows]), self.depth, self.effort)

"""What all classes of decision trees on binned features share."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import instance, whole_number
from pacbandits.policies.base import PolicyClass, check_n_actions
from pacbandits.policies.memory import PerContexts
from pacbandits.policies.trees.bins import Bins, Codes
from pacbandits.policies.trees.cost import TreeSizes
from pacbandits.policies.trees.pruning import leaf_numbers, simplest_tree
from pacbandits.policies.trees.tree import Node, TreePolicy, leaves
from pacbandits.records import Contexts, Policy


class BinnedTrees(PolicyClass):
    """All decision trees of at most the given depth that test binned features, with an action a leaf.

        log|Π| = (2^depth − 1) log S + 2^depth log A

    where S counts the tests (feature and threshold, or feature and label). A tree of fewer tests acts as the full one
    whose missing tests have the same outcome on both sides, so it is counted.
    """

    kind = "trees"

    def __init__(self, bins: Bins, *, n_actions: int, depth: int) -> None:
        self.bins = instance(bins, Bins, name="bins", remedy="make them by Bins.learn(contexts)")
        self.n_actions = check_n_actions(n_actions)
        self.depth = whole_number(depth, name="depth")
        self.feature_names = bins.names
        self.log_size = math.log(self.n_actions)
        if self.depth > 0 and bins.n_splits > 0:
            self.log_size = (2**self.depth - 1) * math.log(bins.n_splits) + 2**self.depth * self.log_size
        self._codes: PerContexts[Codes] = PerContexts()

    def describe(self) -> str:
        """The kind of trees in words."""
        return f"trees of depth {self.depth}"

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """Every feature with its cuts or labels, and how many of these part the contexts."""
        return tuple(feature.describe(contexts) for feature in self.bins.features)

    @property
    def size_words(self) -> str:
        """How many features, bins and actions there are."""
        sizes = self._sizes()
        bins = f" × {sizes.most_bins} bins" if sizes.n_splits else ""
        return f"depth-{self.depth} trees over {sizes.n_features:,} features{bins} × {self.n_actions:,} actions"

    @property
    def lighter(self) -> str:
        """What would make searches lighter."""
        return "take fewer features, bins or actions, or less depth"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "n_actions": self.n_actions, "depth": self.depth, "features": self.bins.to_json()}

    def has(self, policy: Policy) -> bool:
        """Whether this is a tree no deeper than these, with tests and actions that are among theirs."""
        if not isinstance(policy, TreePolicy) or max(leaves(policy.root)) >= self.n_actions:
            return False

        def fits(node: Node, depth: int) -> bool:
            if isinstance(node, int):
                return True
            below = depth > 0 and node.test in self.bins.places
            return below and fits(node.then, depth - 1) and fits(node.otherwise, depth - 1)

        return fits(policy.root, self.depth)

    def simplest(
        self, policy: Policy, contexts: Contexts, losses: FloatArray, squares: FloatArray, *, standard_errors: float
    ) -> Policy:
        """The tree of fewest leaves that loses at most so many standard errors against a tree."""
        if not isinstance(policy, TreePolicy):
            return policy
        root = simplest_tree(policy.root, contexts, losses, squares, standard_errors=standard_errors)
        return replace(policy, root=root)

    def parts(self, policy: Policy, contexts: Contexts) -> IntArray:
        """The leaf (n,) of a tree that each context comes to, from 0: a simpler tree made of it acts alike there."""
        return leaf_numbers(policy.root, contexts) if isinstance(policy, TreePolicy) else np.zeros(0, dtype=np.int64)

    def _sizes(self) -> TreeSizes:
        return TreeSizes.of(self.bins, n_actions=self.n_actions)

    def _encode(self, contexts: Contexts) -> Codes:
        return self._codes.get(contexts, self.bins.encode)

"""The policy class of shallow decision trees."""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError
from pacbandits.policies.base import Frontier, Value, check_scores
from pacbandits.policies.trees.bins import Bins, Codes
from pacbandits.policies.trees.frontier import best_front, tree_of
from pacbandits.policies.trees.near import large_trees
from pacbandits.policies.trees.search import best_tree
from pacbandits.policies.trees.tree import Node, TreePolicy, leaves
from pacbandits.records import Contexts, Policy


class Trees:
    """All decision trees of at most the given depth (0, 1 or 2) that test binned features, with an action a
    leaf.

        log|Π| = 3 log S + 4 log A  at depth 2,  log S + 2 log A  at depth 1,  log A  at depth 0

    where S counts the tests (feature and threshold, or feature and label). Argmax and frontier are exact over
    all of them; a frontier of very many points is rounded outward and says so.
    """

    exact = True

    def __init__(self, bins: Bins, *, n_actions: int, depth: int = 2) -> None:
        if n_actions < 1:
            raise InputError(f"n_actions must be 1 or more, got {n_actions}")
        if depth not in (0, 1, 2):
            raise InputError(f"depth must be 0, 1 or 2, got {depth}")
        self.bins = bins
        self.n_actions = n_actions
        self.depth = depth
        # Column generation asks about the same contexts again and again.
        self._codes: WeakKeyDictionary[Contexts, Codes] = WeakKeyDictionary()

    @classmethod
    def learn(cls, contexts: Contexts, *, n_actions: int, depth: int = 2, bins: int = 32) -> Trees:
        """Trees that cut numbers at the quantiles of these contexts, into at most `bins` bins each.

        >>> import pacbandits as pb
        >>> people = pb.Contexts.of([[20], [30], [40], [50]], names=["age"])
        >>> policies = pb.Trees.learn(people, n_actions=2, depth=1)
        >>> print(policies.argmax(people, [[1, 0], [1, 0], [0, 1], [0, 1]]).describe())  # the best for these scores
        if age ≤ 35: action 0
        else: action 1
        """
        return cls(Bins.learn(contexts, bins=bins), n_actions=n_actions, depth=depth)

    @property
    def log_size(self) -> float:
        splits, actions = self.bins.n_splits, math.log(self.n_actions)
        if self.depth == 0 or splits == 0:
            return actions
        return (2**self.depth - 1) * math.log(splits) + 2**self.depth * actions

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.bins.names

    def describe(self) -> str:
        """The kind of trees in words."""
        return f"trees of depth {self.depth}"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "trees", "n_actions": self.n_actions, "depth": self.depth, "features": self.bins.to_json()}

    def has(self, policy: Policy) -> bool:
        """Whether this is a tree no deeper than these, with tests and actions that are among theirs."""
        if not isinstance(policy, TreePolicy) or max(leaves(policy.root)) >= self.n_actions:
            return False
        tests = {self.bins.test(split) for split in range(self.bins.n_splits)}

        def fits(node: Node, depth: int) -> bool:
            if isinstance(node, int):
                return True
            below = depth > 0 and node.test in tests
            return below and fits(node.then, depth - 1) and fits(node.otherwise, depth - 1)

        return fits(policy.root, self.depth)

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TreePolicy:
        """The best tree; of equals (to rounding) the shallowest, then that of the first tests and actions."""
        scores = self._checked(contexts, scores, name="scores")
        tree = best_tree(self.bins, self._encode(contexts), scores, depth=self.depth)
        return TreePolicy(root=tree, n_actions=self.n_actions)

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """The Pareto frontier of two scores over all trees, to rounding of about 1e-12 of their sums."""
        first = self._checked(contexts, first, name="first scores")
        second = self._checked(contexts, second, name="second scores")
        front = best_front(self.bins, self._encode(contexts), first, second, depth=self.depth)
        sides = front.sides

        def search(value: Value, most: int) -> list[TreePolicy]:
            return [] if sides is None else [self._policy(origin) for origin in large_trees(sides, value, most=most)]

        return Frontier(
            front.first,
            front.second,
            exact=front.exact,
            build=lambda i: self._policy(front.origin[i]),
            search=None if sides is None else search,
        )

    def _policy(self, origin: IntArray) -> TreePolicy:
        return TreePolicy(root=tree_of(origin, self.bins), n_actions=self.n_actions)

    def _checked(self, contexts: Contexts, scores: FloatArray, *, name: str) -> FloatArray:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions, name=name)
        # Kernels are compiled once, for arrays that are contiguous and writeable; others are copied.
        return np.require(checked, requirements=("C", "W"))

    def _encode(self, contexts: Contexts) -> Codes:
        codes = self._codes.get(contexts)
        if codes is None:
            codes = self._codes[contexts] = self.bins.encode(contexts)
        return codes

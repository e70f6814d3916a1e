"""Many trees at once on few contexts, as a live experiment asks them: what they test is tested once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.policies.trees.tree import Branch, Node, Test, TreePolicy
from pacbandits.records import Contexts, Policy


class StackedTrees:
    """Trees laid out as tables of nodes, in which each context goes down all of them together."""

    def __init__(self, trees: Sequence[TreePolicy]) -> None:
        self._tests: list[Test] = []
        places: dict[Test, int] = {}
        laid: list[list[tuple[int, int, int, int]]] = []  # test, then, otherwise, action; leaves lead to themselves
        self._depth = 0

        def lay(node: Node, out: list[tuple[int, int, int, int]], depth: int) -> int:
            own = len(out)
            out.append((0, own, own, 0))
            if isinstance(node, Branch):
                if node.test not in places:
                    places[node.test] = len(self._tests)
                    self._tests.append(node.test)
                self._depth = max(self._depth, depth + 1)
                then, otherwise = (lay(child, out, depth + 1) for child in (node.then, node.otherwise))
                out[own] = (places[node.test], then, otherwise, 0)
            else:
                out[own] = (0, own, own, node)
            return own

        for tree in trees:
            table: list[tuple[int, int, int, int]] = []
            lay(tree.root, table, 0)
            laid.append(table)
        starts = np.cumsum([0, *(len(table) for table in laid)])
        flat = np.array([node for table in laid for node in table], dtype=np.int64).reshape(-1, 4)
        offsets = np.repeat(starts[:-1], np.diff(starts))
        self._roots = starts[:-1, None]
        self._test, self._action = flat[:, 0], flat[:, 3]
        self._next = np.stack([flat[:, 2] + offsets, flat[:, 1] + offsets])  # where a test fails, and where it holds

    def __call__(self, contexts: Contexts) -> IntArray:
        """The action (trees, n) of every tree on each context."""
        n = len(contexts)
        at = np.broadcast_to(self._roots, (len(self._roots), n))
        if self._tests:
            passed = np.array([test(contexts) for test in self._tests], dtype=np.int64)
            rows = np.arange(n)
            for _ in range(self._depth):
                at = self._next[passed[self._test[at], rows], at]
        return self._action[at]


def stack(policies: Sequence[Policy]) -> StackedTrees | None:
    """Policies laid out together, if all of them are trees."""
    trees = [policy for policy in policies if isinstance(policy, TreePolicy)]
    return StackedTrees(trees) if len(trees) == len(policies) else None

"""A small fitted decision tree in the words of `TreePolicy`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.policies.learners.encoding import OneHot
from pacbandits.policies.learners.reductions import Label
from pacbandits.policies.trees.tree import AtMost, Is, Node, TreePolicy, branch

MOST_LEAVES = 8  # of a tree that is told line by line


def words_of_tree(rule: Label, encode: OneHot) -> str | None:
    """The tree of a fitted decision tree classifier; None for a large one, or for another estimator."""
    tree = getattr(rule.fitted, "tree_", None)
    if tree is None or int(tree.n_leaves) > MOST_LEAVES:
        return None
    root = _node(tree, 0, rule, encode)
    return TreePolicy(root=root, n_actions=int(rule.actions.max()) + 1).describe()


def _node(tree: Any, place: int, rule: Label, encode: OneHot) -> Node:
    """The node at a place of the arrays that scikit-learn keeps a tree in."""
    if tree.children_left[place] < 0:
        return int(rule.actions[int(np.argmax(tree.value[place, 0]))])
    low, high = (_node(tree, int(side[place]), rule, encode) for side in (tree.children_left, tree.children_right))
    name, label = encode.columns[int(tree.feature[place])]
    if label is None:
        return branch(AtMost(name, float(tree.threshold[place])), low, high)
    return branch(Is(name, label), high, low)

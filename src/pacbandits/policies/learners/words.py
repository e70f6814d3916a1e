"""A small fitted decision tree in the words of `TreePolicy`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.policies.learners.encoding import ColumnMeanings
from pacbandits.policies.learners.estimators import FittedEstimator
from pacbandits.policies.trees.tree import AtMost, Is, Node, TreePolicy, branch

MOST_SHOWN_LEAVES = 8


def words_of_tree(fitted: FittedEstimator, actions: IntArray, columns: ColumnMeanings) -> str | None:
    """The tree of a fitted decision tree classifier; None for a large one, or for another estimator.

    actions (k,): what its labels stand for.
    """
    tree = getattr(fitted, "tree_", None)
    if tree is None or int(tree.n_leaves) > MOST_SHOWN_LEAVES:
        return None
    return TreePolicy(root=_node(tree, 0, actions, columns), n_actions=int(actions.max()) + 1).describe()


def _node(tree: Any, place: int, actions: IntArray, columns: ColumnMeanings) -> Node:
    """The node at a place of the arrays that scikit-learn keeps a tree in."""
    if tree.children_left[place] < 0:
        return int(actions[int(np.argmax(tree.value[place, 0]))])
    low, high = (_node(tree, int(side[place]), actions, columns) for side in (tree.children_left, tree.children_right))
    name, label = columns[int(tree.feature[place])]
    if label is None:
        return branch(AtMost(name, float(tree.threshold[place])), low, high)
    return branch(Is(name, label), high, low)

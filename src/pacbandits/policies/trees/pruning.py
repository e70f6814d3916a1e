"""The simplest tree among those that data cannot tell from a given one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.policies.trees.tree import Node, branch, leaves
from pacbandits.records import Contexts


class _Pruned(NamedTuple):
    """What a node may become.

    leaves: how many it has then.
    loss: what that costs, as estimated.
    square: of the standard error of that.
    node: what it becomes.
    """

    leaves: int
    loss: float
    square: float
    node: Node


def simplest_tree(
    root: Node, contexts: Contexts, losses: FloatArray, squares: FloatArray, *, standard_errors: float
) -> Node:
    """The tree of fewest leaves that loses at most so many standard errors; of equals the one that loses least.

    Branches are replaced by the action that loses least there. losses (m, A): what an action costs in the place of the
    tree's own, as estimated, squares (m, A): of what sums to the square of its standard error.
    """
    found = _prunings(root, contexts, losses, squares, np.ones(len(contexts), dtype=np.bool_))
    alike = [one for one in found if one.loss <= standard_errors * math.sqrt(one.square)]
    return min(alike, key=lambda one: (one.leaves, one.loss)).node


def _prunings(
    node: Node, contexts: Contexts, losses: FloatArray, squares: FloatArray, here: BoolArray
) -> list[_Pruned]:
    """The best that a node may become for each number of leaves; here (m,): the contexts that come to it."""
    if isinstance(node, int):
        return [_Pruned(1, 0.0, 0.0, node)]
    passes = node.test(contexts)
    then = _prunings(node.then, contexts, losses, squares, here & passes)
    otherwise = _prunings(node.otherwise, contexts, losses, squares, here & ~passes)
    action = int(np.argmin(lost := losses[here].sum(axis=0)))
    best = {1: _Pruned(1, float(lost[action]), float(squares[here, action].sum()), action)}
    for one in then:
        for two in otherwise:
            both = branch(node.test, one.node, two.node)
            count = 1 if isinstance(both, int) else one.leaves + two.leaves
            made = _Pruned(count, one.loss + two.loss, one.square + two.square, both)
            if count not in best or made.loss < best[count].loss:
                best[count] = made
    return list(best.values())


def leaf_numbers(root: Node, contexts: Contexts) -> IntArray:
    """The leaf (n,) that each context comes to, left to right from 0."""
    if isinstance(root, int):
        return np.zeros(len(contexts), dtype=np.int64)
    then, otherwise = (leaf_numbers(node, contexts) for node in (root.then, root.otherwise))
    return np.where(root.test(contexts), then, otherwise + len(leaves(root.then)))

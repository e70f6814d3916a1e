"""The simplest tree that data cannot tell from a given one, against all that its branches may become."""

from __future__ import annotations

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.policies.base import total
from pacbandits.policies.trees.tree_policy import (
    AtMost,
    TreePolicy,
    TreeSplit,
    actions_of,
    branch,
    leaves,
    simplest_tree,
)

PEOPLE = pb.Contexts.of(np.random.default_rng(0).normal(size=(60, 2)), names=["x", "y"])
DEEP = TreeSplit(AtMost("y", -0.5), 2, TreeSplit(AtMost("x", 1.0), 0, 2))
ROOT = TreeSplit(AtMost("x", 0.0), TreeSplit(AtMost("y", 0.5), 0, 1), DEEP)


def prunings(node):
    """All that a node may become, one by one."""
    if isinstance(node, int):
        return [node]
    pairs = [branch(node.test, a, b) for a in prunings(node.then) for b in prunings(node.otherwise)]
    return [*range(3), *pairs]


def estimates(seed):
    """Losses of other actions and their squared errors, none for the tree's own."""
    rng = np.random.default_rng(seed)
    losses, squares = rng.normal(0.02, 0.1, (60, 3)), rng.uniform(0, 0.02, (60, 3))
    losses[np.arange(60), actions_of(ROOT, PEOPLE)] = squares[np.arange(60), actions_of(ROOT, PEOPLE)] = 0.0
    return losses, squares


@pytest.mark.parametrize("errors", [0.0, 0.5, 1.0])
def test_what_is_left_is_the_simplest_of_the_best_of_each_size(errors):
    sizes = set()
    for seed in range(12):
        losses, squares = estimates(seed)

        def lost(node, losses=losses):
            return total(losses, actions_of(node, PEOPLE))

        best = {}
        for node in prunings(ROOT):
            size = len(leaves(node))
            best[size] = min(best.get(size, node), node, key=lost)
        alike = [
            node for node in best.values() if lost(node) <= errors * np.sqrt(total(squares, actions_of(node, PEOPLE)))
        ]
        found = simplest_tree(ROOT, PEOPLE, losses, squares, standard_errors=errors)
        assert lost(found) <= errors * np.sqrt(total(squares, actions_of(found, PEOPLE))) + 1e-12
        assert len(leaves(found)) == min(len(leaves(node)) for node in (*alike, ROOT))
        sizes.add(len(leaves(found)))
    assert len(sizes) > 1  # or nothing would be tested


def test_a_split_that_matters_stays_and_one_of_noise_goes():
    losses, squares = np.zeros((60, 3)), np.full((60, 3), 1e-4)
    right = PEOPLE.features[:, 0] > 0
    losses[~right, 2] = losses[right, 0] = losses[right, 1] = 1.0  # what is left and right of x = 0 must differ
    found = simplest_tree(ROOT, PEOPLE, losses, squares, standard_errors=1.0)
    assert len(leaves(found)) == 2
    assert found.test == AtMost("x", 0.0)


def test_trees_know_simpler_ones_and_stay_in_their_class():
    policies = pb.Trees.learn(PEOPLE, n_actions=3)
    assert policies.simplifies_policies
    losses, squares = estimates(1)
    favourite = policies.argmax(PEOPLE, -losses)
    simple = policies.simplest(favourite, PEOPLE, losses * 0, squares, standard_errors=1.0)
    assert simple == TreePolicy(0, 3)
    assert policies.has(simple)

"""Trees searched by sums over rows are those searched with all rows at hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import seeds
from pacbandits.policies import Bins, Trees
from pacbandits.policies.base import total
from pacbandits.policies.trees.histograms import STRETCH_ROWS
from pacbandits.records import Contexts
from tests.examples import examples

LABELS = ("north", "east", "south", "west")


def draw(rng: np.random.Generator, n: int, *, kinds: str, missing: bool) -> Contexts:
    """Contexts with a feature of each kind: n for numbers, few for those with few values, l for labels, 1 for one."""
    columns, categories = [], []
    for kind in kinds:
        column = {
            "n": lambda: rng.normal(size=n),
            "f": lambda: rng.integers(0, 3, n).astype(float),
            "l": lambda: rng.integers(0, len(LABELS), n).astype(float),
            "1": lambda: np.zeros(n),
        }[kind]()
        if missing and kind != "1":
            column[rng.random(n) < 0.2] = np.nan
        columns.append(column)
        categories.append(LABELS if kind == "l" else None)
    return Contexts.of(np.column_stack(columns), names=[f"x{j}" for j in range(len(kinds))], categories=categories)


def summed(trees: Trees, contexts: Contexts, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sums of the scores of these contexts, added in pieces."""
    by = trees.summing()
    parts = [by.zeros(scores.shape[1]) for _ in range(2)]
    for rows in np.array_split(rng.permutation(len(contexts)), 3):
        if rows.size:
            by.add(contexts.take(rows), np.ascontiguousarray(scores[rows]), parts[int(rng.integers(2))])
    return by.finish(parts[0] + parts[1])


@st.composite
def problems(pick):
    rng = np.random.default_rng(pick(seeds))
    kinds = pick(st.sampled_from(["n", "l", "nf", "nl", "fl1", "nnl", "1", "f1n"]))
    n, actions = pick(st.sampled_from([1, 2, 7, 40, 150])), pick(st.integers(1, 4))
    contexts = draw(rng, n, kinds=kinds, missing=pick(st.booleans()))
    leaf = pick(st.sampled_from([0.0, 0.0, 0.1, 0.6]))
    depth = pick(st.integers(0, 2))
    trees = Trees.learn(
        contexts, n_actions=actions, depth=depth, bins=pick(st.sampled_from([2, 4])), smallest_leaf=leaf
    )
    size = pick(st.sampled_from([2, 2**20]))  # small numbers have many ties
    return rng, trees, contexts, rng.integers(-size, size + 1, (n, actions)), rng.integers(-size, size, (n, actions))


@pytest.mark.thorough
@given(problems())
@examples(120)
def test_argmax_is_that_of_the_rows(problem):
    rng, trees, contexts, first, _ = problem
    sums, by = summed(trees, contexts, first, rng), trees.summing()
    found, known = by.policies.argmax(by.contexts, sums), trees.argmax(contexts, first.astype(float))
    assert found == known
    assert trees.has(found)
    assert by.policies.attained(by.contexts, sums, found) == total(first, found(contexts))
    np.testing.assert_array_equal(by.totals(sums), first.sum(axis=0))


@pytest.mark.thorough
@given(problems())
@examples(80)
def test_frontier_is_that_of_the_rows(problem):
    rng, trees, contexts, first, second = problem
    both = summed(trees, contexts, np.concatenate([first, second], axis=1), rng)
    by, width = trees.summing(), trees.n_actions
    found = by.policies.frontier(by.contexts, both[..., :width], both[..., width:])
    known = trees.frontier(contexts, first.astype(float), second.astype(float))
    np.testing.assert_array_equal(found.first, known.first)
    np.testing.assert_array_equal(found.second, known.second)
    assert found.exact == known.exact
    for i in range(0, len(found), 1 + len(found) // 5):
        policy = found.policy(i)
        assert trees.has(policy)
        assert total(first, policy(contexts)) == found.first[i]
        assert total(second, policy(contexts)) == found.second[i]


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_any_tree_attains_is_in_the_sums(depth):
    """Not only what the best one does: a recheck asks of the tree that is claimed."""
    rng = np.random.default_rng(depth)
    contexts = draw(rng, 60, kinds="nfl", missing=True)
    trees = Trees.learn(contexts, n_actions=3, depth=depth, bins=4)
    scores = rng.integers(-100, 100, (60, 3))
    sums, by = summed(trees, contexts, scores, rng), trees.summing()
    for _ in range(40):
        policy = trees.argmax(contexts, rng.normal(size=(60, 3)))
        assert by.policies.attained(by.contexts, sums, policy) == total(scores, policy(contexts))


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_stretches_of_rows_end_anywhere(extra):
    rng = np.random.default_rng(1)
    n = STRETCH_ROWS + extra
    contexts = draw(rng, n, kinds="nf", missing=False)
    trees = Trees(Bins.learn(contexts, bins=3), n_actions=2)
    scores = rng.integers(-5, 5, (n, 2))
    by = trees.summing()
    sums = by.zeros(2)
    by.add(contexts, scores, sums)
    assert by.policies.argmax(by.contexts, by.finish(sums)) == trees.argmax(contexts, scores.astype(float))

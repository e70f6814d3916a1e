"""Which roots the search for deep trees tries first."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.policies.trees import DeepTrees
from pacbandits.policies.trees.search import leading, shortlist
from pacbandits.records import Contexts
from tests.policies.trees.deep_cases import search_of


@given(st.lists(st.integers(-3, 3), max_size=12), st.integers(0, 12))
def test_leading_takes_the_largest_and_of_ties_the_first(numbers: list[int], most: int) -> None:
    exact = np.array(numbers, dtype=float)
    exact[exact == -3] = -np.inf
    noisy = exact + 1e-12 * np.arange(len(exact))  # later ones larger, within the tie
    wanted = [i for i in np.argsort(-exact, kind="stable") if exact[i] > -np.inf][:most]
    assert leading(noisy, most=most, tie=1e-9) == wanted


def test_shortlist_begins_with_the_peaks() -> None:
    contexts = Contexts.of(
        [[float(i), float(i % 3)] for i in range(6)], names=["x", "c"], categories=[None, ("a", "b", "d")]
    )
    trees = DeepTrees.learn(contexts, n_actions=2)
    tie = search_of(trees, contexts, np.eye(2)[[0, 1, 0, 1, 0, 1]]).tie
    found = np.array([5.0, 4.0, 1.0, 2.0, 2.5, 0.5, 0.7, 0.6])  # five splits of x, then three of c
    assert shortlist(found, trees.bins.layout, most=5, tie=tie) == [0, 4, 6, 7, 5]
    assert shortlist(found, trees.bins.layout, most=7, tie=tie) == [0, 4, 6, 7, 5, 1, 3]

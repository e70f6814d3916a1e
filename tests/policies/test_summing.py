"""Classes over contexts with ids are searched by sums as with all rows at hand; others say that they cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies import DeepTrees, Finite, Linear, Trees, Trivial
from pacbandits.policies.base import total
from pacbandits.policies.registry import load_policies
from pacbandits.policies.summation import can_be_summed, summing
from pacbandits.records import Contexts
from tests.policies.cases import people

RNG = np.random.default_rng(0)
BY_IDS = {
    "a list": Finite(RNG.integers(0, 3, (30, 6)), n_actions=3),
    "all": Trivial(6, 3),
}


@pytest.mark.parametrize("name", BY_IDS)
@pytest.mark.parametrize("seed", range(5))
def test_sums_by_ids_are_those_of_the_rows(name, seed):
    policies, rng = BY_IDS[name], np.random.default_rng(seed)
    ids = rng.integers(0, 6, 50)
    rows = Contexts.finite(6).take(ids)
    scores = rng.integers(-9, 9, (50, 6))
    by = summing(policies)
    sums = by.zeros(6)
    for part in np.array_split(rng.permutation(50), 4):
        by.add(rows.take(part), scores[part], sums)
    whole = by.finish(sums)
    first, second = whole[:, :3], whole[:, 3:]
    assert by.totals(whole).tolist() == scores.sum(axis=0).tolist()
    found, known = by.policies.argmax(by.contexts, first), policies.argmax(rows, scores[:, :3].astype(float))
    best = total(scores[:, :3], known(rows))
    assert total(scores[:, :3], found(rows)) == best
    assert by.policies.attained(by.contexts, first, found) == best
    mine = by.policies.frontier(by.contexts, first, second)
    theirs = policies.frontier(rows, scores[:, :3].astype(float), scores[:, 3:].astype(float))
    np.testing.assert_array_equal(mine.first, theirs.first)
    np.testing.assert_array_equal(mine.second, theirs.second)


def test_ids_beyond_the_class_are_refused():
    by = summing(BY_IDS["all"])
    with pytest.raises(InputError):
        by.add(Contexts.finite(7), np.zeros((7, 3), dtype=np.int64), by.zeros(3))
    with pytest.raises(InputError):
        by.add(Contexts.of(np.zeros((2, 1))), np.zeros((2, 3), dtype=np.int64), by.zeros(3))


def test_classes_that_need_all_rows_at_once_say_so():
    contexts = people(30, 1)
    deep = load_policies("trees:depth=3,bins=4", contexts, n_actions=3)
    assert isinstance(deep, DeepTrees)
    for policies in (
        deep,
        Linear.learn(contexts, n_actions=3, levels=1),
        load_policies("trees:bins=4,costs=0/0.5/1,budget=1", contexts, n_actions=3),
        load_policies("trees:bins=4,never=2:place=west,fallback=0", contexts, n_actions=3),
    ):
        assert not can_be_summed(policies)
        with pytest.raises(InputError, match="searched with all rows at once") as caught:
            summing(policies)
        assert type(policies).__name__ in str(caught.value)
    for policies in (Trees.learn(contexts, n_actions=3), *BY_IDS.values()):
        assert can_be_summed(policies)

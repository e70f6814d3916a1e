"""The best rival is the one that a list would tell, and the hardest one too."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies import Trees
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import Finite, Trivial
from pacbandits.policies.rivals import MAX_KINDS, RivalClass, check_rivals, kinds_of, rivals_of
from pacbandits.records import Contexts


class Hidden(PolicyClass):
    """A class behind its argmax alone."""

    exact = True

    def __init__(self, policies):
        self.policies, self.n_actions, self.log_size = policies, policies.n_actions, policies.log_size

    def argmax(self, contexts, scores):
        return self.policies.argmax(contexts, scores)


def listed(policies, contexts, scores, reference):
    """The most that a policy which acts otherwise somewhere sums to, by looking at all of them; None for none."""
    rows = np.arange(len(contexts))
    sums = [scores[rows, one].sum() for one in policies.actions(contexts) if (one != reference).any()]
    return max(sums, default=None)


@pytest.mark.parametrize("seed", range(25))
def test_the_best_rival_is_that_of_a_list(seed):
    rng = np.random.default_rng(seed)
    n_contexts, n_actions = int(rng.integers(1, 6)), int(rng.integers(2, 4))
    table = rng.integers(n_actions, size=(int(rng.integers(1, 9)), n_contexts))
    policies = Finite(table, n_actions=n_actions)
    contexts = Contexts.finite(n_contexts).take(rng.integers(n_contexts, size=int(rng.integers(1, 12))))
    reference = policies.policy(int(rng.integers(len(table))))(contexts)
    scores = rng.normal(size=(len(contexts), n_actions))
    if seed % 2:  # so that the reference is the best of all, and rivals have to be looked for
        scores[np.arange(len(contexts)), reference] += 3.0
    best = listed(policies, contexts, scores, reference)
    for asked in (policies, Hidden(policies)):
        rivals = rivals_of(asked, contexts, reference)
        assert (rivals is None) == (best is None)
        if rivals is not None:
            actions = rivals.argmax(contexts, scores)(contexts)
            assert (actions != reference).any()
            assert scores[np.arange(len(contexts)), actions].sum() == pytest.approx(best)


def test_rivals_of_every_map_take_few_calls():
    rng, policies = np.random.default_rng(0), Trivial(200, 3)
    contexts, scores = Contexts.finite(200), rng.normal(size=(200, 3))
    reference = scores.argmax(axis=1)
    rivals = RivalClass(policies, contexts, reference)
    actions = rivals.argmax(contexts, scores)(contexts)
    lost = np.sort(scores, axis=1)
    assert scores.max(axis=1).sum() - scores[np.arange(200), actions].sum() == pytest.approx(
        (lost[:, 2] - lost[:, 1]).min()
    )
    assert rivals.calls <= 3


def test_rivals_among_trees_are_those_of_all_trees():
    rng = np.random.default_rng(3)
    contexts = Contexts.of(rng.integers(0, 3, size=(12, 2)).astype(float))
    trees = Trees.learn(contexts, n_actions=2, depth=1)
    scores = rng.normal(size=(12, 2))
    reference = trees.argmax(contexts, scores)(contexts)
    # All trees of depth 1, by every column, threshold and pair of actions.
    sides = [contexts.features[:, j] <= t for j in range(2) for t in (0.5, 1.5)]
    table = {tuple(np.where(side, a, b)) for side in sides for a in (0, 1) for b in (0, 1)}
    sums = [scores[np.arange(12), one].sum() for one in map(np.array, table) if (one != reference).any()]
    found = rivals_of(trees, contexts, reference).argmax(contexts, scores)(contexts)
    assert scores[np.arange(12), found].sum() == pytest.approx(max(sums))


def test_contexts_of_one_kind_are_those_that_nobody_can_tell_apart():
    contexts = Contexts.of([[1.0, np.nan], [1.0, 2.0], [1.0, np.nan], [1.0, 2.0]], names=["a", "b"])
    kinds = kinds_of(contexts)
    assert kinds[0] == kinds[2] != kinds[1] == kinds[3]
    assert kinds_of(Contexts.of(np.empty((3, 0)))).tolist() == [0, 0, 0]


def test_classes_that_cannot_be_asked_for_the_best_itself():
    rng = np.random.default_rng(0)
    many = Contexts.of(rng.normal(size=(MAX_KINDS + 1, 1)))
    trees = Trees.learn(many, n_actions=2, depth=1)
    with pytest.raises(InputError, match="501 different contexts"):
        check_rivals(trees, many)
    check_rivals(trees, many.take(np.arange(MAX_KINDS)))
    check_rivals(Trivial(10**4, 2), Contexts.finite(10**4))
    guessing, endless = Hidden(trees), Hidden(trees)
    guessing.exact, endless.log_size = False, np.inf
    with pytest.raises(InputError, match="not exact"):
        check_rivals(guessing, many)
    with pytest.raises(InputError, match="without a size"):
        check_rivals(endless, many)
    one = Contexts.finite(1)
    with pytest.raises(InputError, match="no policy of the class acts otherwise"):
        RivalClass(Trivial(1, 1), one, np.zeros(1, dtype=int)).argmax(one, np.zeros((1, 1)))

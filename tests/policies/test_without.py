"""Classes from which actions were withdrawn: what is left is searched as before, and never takes one of them."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies import Finite, Linear, TreePolicy, Trivial
from pacbandits.policies.constraints import Without, without
from pacbandits.policies.registry import digest_class, load_policies
from pacbandits.records import Contexts, Design, Sparing, spare
from tests.policies.brute import values
from tests.policies.cases import LABELS

GONE = (1, 3)
KEPT = (0, 2, 4)


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(50, 15, n), rng.integers(0, 3, n)])
    return Contexts.of(features, names=["age", "place"], categories=[None, LABELS], ids=np.arange(n))


CONTEXTS = people(30)
SPECS = ("trees:bins=4", "trees:bins=4,leaf=0.2", "trees:depth=3,bins=3", "trivial")


def list_of(n_policies=200):
    rng = np.random.default_rng(4)
    likely = rng.random((n_policies, 30)) < 0.995
    return Finite(np.where(likely, rng.choice(KEPT, (n_policies, 30)), 1), n_actions=5)


def whole(spec):
    return list_of() if spec == "finite" else load_policies(spec, CONTEXTS, n_actions=5)


@pytest.mark.parametrize("spec", [*SPECS, "finite"])
def test_the_best_of_what_is_left_is_that_of_all_where_the_withdrawn_earn_nothing(spec):
    policies, other = whole(spec), people(50, seed=2)
    narrow = without(policies, GONE)
    assert narrow.withdrawn == GONE
    assert narrow.log_size < policies.log_size
    for seed in range(4):
        scores = np.random.default_rng(seed).normal(size=(30, 5))
        found = narrow.argmax(CONTEXTS, scores)
        assert set(found(CONTEXTS)) <= set(KEPT)
        assert found.n_actions == 5
        assert narrow.has(found)
        assert policies.has(found)
        if spec.startswith("trees"):
            assert set(found(other)) <= set(KEPT)
        scores[:, GONE] = -1e6
        best = policies.argmax(CONTEXTS, scores)
        mine, theirs = (values(one(CONTEXTS)[None], scores)[0] for one in (found, best))
        assert mine == pytest.approx(theirs) if policies.exact else mine >= theirs - 1e-9
        assert not narrow.has(policies.argmax(CONTEXTS, -scores))


@pytest.mark.parametrize("spec", ["trees:bins=4", "trivial", "finite"])
def test_frontiers_are_of_what_is_left(spec):
    narrow = without(whole(spec), GONE)
    first, second = np.random.default_rng(0).normal(size=(2, 30, 5))
    front = narrow.frontier(CONTEXTS, first, second)
    for index in (0, len(front) - 1):
        policy = front.policy(index)
        assert narrow.has(policy)
        assert values(policy(CONTEXTS)[None], first)[0] <= front.first[index] + 1e-9
    found = front.large(lambda one, other: one + other, most=5)
    assert all(narrow.has(policy) for policy in found)


def test_a_list_loses_those_that_take_a_withdrawn_action():
    policies = Finite([[0, 1], [2, 2], [2, 0], [1, 1]], n_actions=3, names=["a", "b", "c", "d"])
    narrow = without(policies, [1])
    assert len(narrow) == 2
    assert narrow.actions(Contexts.finite(2)).tolist() == [[2, 2], [2, 0]]
    assert narrow.policy(1).describe() == "c: context 0 → action 2, context 1 → action 0"
    with pytest.raises(InputError, match="each policy of the list takes an action that would be withdrawn"):
        without(policies, [1, 2])


def test_budgets_and_bars_stay():
    spent = load_policies("trees:bins=4,costs=0/1/0.2/1/1,budget=0.5", CONTEXTS, n_actions=5)
    narrow = without(spent, GONE)
    best = narrow.argmax(CONTEXTS, np.eye(5)[[4] * 30] + 0.5 * np.eye(5)[[2] * 30])
    assert np.array([0, 1, 0.2, 1, 1])[best(CONTEXTS)].mean() <= 0.5 + 1e-9
    barred = load_policies("trees:bins=4,never=4:place=east;3:age<=40,fallback=0", CONTEXTS, n_actions=5)
    narrow = without(barred, GONE)
    best = narrow.argmax(CONTEXTS, np.eye(5)[[4] * 30])
    assert (best(CONTEXTS) == np.where(CONTEXTS.features[:, 1] == 1, 0, 4)).all()
    with pytest.raises(InputError, match="cannot be withdrawn"):
        without(barred, [0])
    assert without(load_policies("trees:never=1:age<=40,fallback=0", CONTEXTS, n_actions=5), GONE).withdrawn == GONE


def test_one_after_the_other_is_the_same_as_all_at_once():
    policies = whole("trees:bins=4")
    once, twice = without(policies, GONE), without(without(policies, [3]), [1])
    assert digest_class(once) == digest_class(twice) != digest_class(policies)
    assert without(policies, []) is policies
    assert without(once, [1]) is once


def test_what_cannot_be_is_said():
    with pytest.raises(InputError, match="no action would be left"):
        without(Trivial(3, 2), [0, 1])
    with pytest.raises(InputError, match="a withdrawn action"):
        without(Trivial(3, 2), [2])
    with pytest.raises(InputError, match="Linear cannot do without 1 action"):
        without(Linear.learn(Contexts.of([[1.0], [2.0]], names=["x"]), n_actions=3, levels=2), [1])
    with pytest.raises(InputError, match="each once and the smallest first"):
        Without(Trivial(3, 2), kept=[2, 0], n_actions=3)
    assert not without(Trivial(3, 3), [1]).has(TreePolicy(0, n_actions=3))


def test_samplers_spare_what_was_withdrawn():
    even = Design.uniform(Trivial(3, 3).policy_of(np.zeros(3, dtype=np.int64)))
    contexts = Contexts.finite(3)
    assert spare(even, ()) is even
    spared = spare(even, (1,))
    assert np.allclose(spared.propensities(contexts), [[0.5, 0, 0.5]] * 3)
    assert spare(spared, (1,)) is spared
    assert np.allclose(spare(spared, (0, 1)).propensities(contexts), [[0, 0, 1]] * 3)

    class Only:
        n_actions = 3

        def propensities(self, contexts):
            return np.tile([0.0, 1.0, 0.0], (len(contexts), 1))

    assert np.allclose(Sparing(Only(), (1,)).propensities(contexts), [[0.5, 0, 0.5]] * 3)
    for strange in ((3,), (0, 1, 2)):
        with pytest.raises(InputError, match="but not all"):
            Sparing(even, strange)

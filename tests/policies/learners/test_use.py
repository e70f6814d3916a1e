"""Estimators in use: under a limit, in a trial, and beside exact classes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from sklearn.tree import DecisionTreeClassifier

from instances import seeds
from pacbandits.paper.oracles import relaxed_argmax
from pacbandits.policies import Trees, Trivial
from pacbandits.policies.learners import Learned
from pacbandits.records import Contexts
from pacbandits.simulation import run
from tests.examples import examples
from tests.policies.learners.cases import (
    SMALL,
    learned,
    plane,
    planted,
    small,
    worth,
)


@pytest.mark.first(2)
@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_the_constrained_oracle_keeps_its_limit(kind, share):
    contexts, rng = plane(40, d=2), np.random.default_rng(7)
    scores = rng.normal(size=(40, 3)) + planted("linear", contexts, n_actions=3, seed=1)
    budget = np.column_stack([np.zeros(40), rng.uniform(0.5, 1, 40), rng.uniform(0, 1, 40)])
    limit = share * budget.max(axis=1).sum()
    choice = relaxed_argmax(small(kind), contexts, scores, budget=budget, limit=limit)
    assert worth(choice.policy, contexts, budget) <= limit + 1e-9
    assert worth(choice.policy, contexts, scores) == pytest.approx(choice.value)
    assert choice.value > scores[:, 0].sum()  # of the action that costs nothing


@pytest.mark.thorough
@pytest.mark.parametrize("kind", SMALL)
@examples(10)
@given(seed=seeds)
def test_an_estimator_that_can_tell_all_contexts_apart_is_exact(kind, seed):
    """The argmax against the best action of each row, the constrained one against the class of all maps."""
    rng = np.random.default_rng(seed)
    contexts = Contexts.of(rng.normal(size=(9, 2)), ids=np.arange(9))
    scores, budget = rng.normal(size=(9, 3)), rng.random((9, 3))
    policies = learned(SMALL[kind].__class__(), kind)
    np.testing.assert_array_equal(policies.argmax(contexts, scores)(contexts), scores.argmax(axis=1))
    limit = float(rng.uniform(budget.min(axis=1).sum(), budget.max(axis=1).sum()))
    mine, all_maps = (
        relaxed_argmax(p, contexts, scores, budget=budget, limit=limit) for p in (policies, Trivial(9, 3))
    )
    assert mine.value == pytest.approx(all_maps.value)
    assert mine.bound == pytest.approx(all_maps.bound)


@pytest.mark.thorough
def test_a_trial_runs_to_its_certificate():
    tree = DecisionTreeClassifier(max_depth=2)
    size = 3 * math.log(300 * 3) + 4 * math.log(3)
    policies = Learned(tree, n_actions=3, reduction="classification", log_size=size)
    done = run("trees:actions=3,features=3,contexts=300", policies, algorithm="uniform", epsilon=0.3, delta=0.1, rng=0)
    assert done.stopped == "done"
    assert done.certificate is not None
    assert done.certificate.certified
    assert done.certificate.log_size == size
    assert "argmax oracle, which is not exact" in done.guarantee
    assert done.value_gap <= 0.3


def test_greedy_trees_do_not_find_more_than_the_exact_search():
    """On a grid of few values, where both may cut at the same places."""
    rng = np.random.default_rng(0)
    contexts = Contexts.of(rng.integers(0, 4, (50, 3)).astype(float))
    exact = Trees.learn(contexts, n_actions=3, depth=2)
    greedy = small("classification")
    shares = []
    for seed in range(10):
        scores = np.random.default_rng(seed).normal(size=(50, 3))
        best = worth(exact.argmax(contexts, scores), contexts, scores)
        found = worth(greedy.argmax(contexts, scores), contexts, scores)
        assert found <= best + 1e-9
        shares.append(found / best)
    assert np.mean(shares) > 0.7

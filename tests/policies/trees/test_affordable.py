"""Policies that one can afford, against all policies looked through one by one."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.policies import Trees, class_from_json
from pacbandits.policies.registry import digest_class, load_policies
from pacbandits.policies.trees.constraints import WithinBudget
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.records import Contexts
from tests.policies.brute import all_actions, values
from tests.policies.trees.test_leaves import behaviours

LABELS = ("north", "east", "south")
COSTS = np.array([0.0, 1.0, 2.5])


def draw(n: int, seed: int, *, weights: bool = False) -> Contexts:
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(50, 15, n), rng.integers(0, 3, n)])
    shares = rng.dirichlet(np.ones(n)) if weights else None
    return Contexts.of(features, names=["age", "place"], categories=[None, LABELS], weights=shares)


def affordable(known: Contexts, *, depth: int, budget: float, options: str = "") -> WithinBudget:
    made = load_policies(f"trees:depth={depth},bins=4,costs=0/1/2.5,budget={budget}{options}", known, n_actions=3)
    assert isinstance(made, WithinBudget)
    return made


@pytest.mark.first(9)
@pytest.mark.parametrize("budget", [0.0, 0.1, 0.4, 1.3])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_argmax_is_the_best_of_those_that_one_can_afford(depth: int, budget: float) -> None:
    for seed in range(5):
        known = draw(12, seed, weights=seed % 2 == 1)
        policies = affordable(known, depth=depth, budget=budget)
        assert isinstance(policies.policies, Trees)
        rows = all_actions(policies.policies.bins, known, n_actions=3, depth=depth)
        scores = np.random.default_rng(seed).normal(size=(12, 3)) + COSTS
        kept = (COSTS[rows] @ known.weights) <= budget + 1e-9
        best = policies.argmax(known, scores)
        assert values(best(known)[None], scores)[0] == pytest.approx(values(rows[kept], scores).max(), rel=1e-9)
        assert policies.mean_cost(best, known) <= budget + 1e-9
        assert policies.has(best)


@pytest.mark.parametrize("budget", [0.2, 0.7])
def test_costs_are_those_of_known_contexts_and_leaves_too(budget: float) -> None:
    known, asked = draw(20, 1), draw(9, 2)
    policies = affordable(known, depth=2, budget=budget, options=",leaf=0.2")
    trees = policies.policies
    assert isinstance(trees, Trees)
    both = Contexts(
        np.concatenate([asked.features, known.features]), known.names, known.categories, None, np.full(29, 1 / 29)
    )
    rows = behaviours(trees, known, both, 0.2)
    kept = rows[COSTS[rows[:, 9:]].mean(axis=1) <= budget + 1e-9, :9]
    for seed in range(6):
        scores = np.random.default_rng(seed).normal(size=(9, 3)) + COSTS
        best = policies.argmax(asked, scores)
        assert values(best(asked)[None], scores)[0] == pytest.approx(values(kept, scores).max(), rel=1e-9)
        assert policies.has(best)


def test_a_policy_beyond_the_budget_is_not_of_the_class() -> None:
    known = draw(20, 1)
    policies = affordable(known, depth=1, budget=0.5)
    assert policies.has(TreePolicy(0, 3))
    assert not policies.has(TreePolicy(1, 3))
    assert policies.policies.has(TreePolicy(1, 3))


def test_it_can_do_what_the_class_can_but_for_a_frontier() -> None:
    known, scores = draw(20, 1), np.random.default_rng(0).normal(size=(20, 3)) + COSTS
    policies = affordable(known, depth=2, budget=0.4)
    assert policies.checks_membership
    assert policies.feature_names == policies.policies.feature_names
    assert not policies.has_frontier
    assert policies.exact
    assert policies.argmax_cost(1000).seconds > 0
    assert policies.describe() == "trees of depth 2, of a mean cost of at most 0.4 over 20 known contexts"
    assert policies.details(known)[-1].endswith("where costs are: action 0 0, action 1 1, action 2 2.5")
    again = class_from_json(json.loads(json.dumps(policies.to_json())))
    assert digest_class(again) == digest_class(policies)
    assert again.argmax(known, scores) == policies.argmax(known, scores)
    mixture = pb.Mixture((TreePolicy(0, 3), TreePolicy(1, 3)), (0.75, 0.25))
    assert policies.mean_cost(mixture, known) == pytest.approx(0.25)


def test_of_a_list_the_dear_ones_are_left_out() -> None:
    listed = pb.Finite([[0, 0], [0, 1], [1, 0], [1, 1]], n_actions=2, names=["none", "second", "first", "all"])
    weighed = Contexts.finite(2, weights=[0.8, 0.2])
    kept = pb.within_budget(listed, weighed, costs=[0, 1], budget=0.2)
    assert isinstance(kept, pb.Finite)
    assert kept.names == ("none", "second")
    with pytest.raises(pb.InputError, match="less on average over the known contexts; the cheapest costs 1"):
        pb.within_budget(listed, weighed, costs=[1, 2], budget=0.1)
    with pytest.raises(pb.InputError, match="Trivial cannot be searched within a budget; take trees"):
        pb.within_budget(pb.Trivial(2, 2), weighed, costs=[0, 1], budget=0.2)


BAD = {
    "trees:costs=0/1/2.5": "costs needs budget",
    "trees:budget=1": "a budget needs costs",
    "trees:costs=0/1,budget=1": "such as 0/1/2.5; got '0/1'",
    "trees:costs=0/1/x,budget=1": "got '0/1/x'",
    "trees:costs=1/2/3,budget=0.5": "costs 0.5 or less on average over the known contexts; the cheapest costs 1",
    "trees:depth=3,costs=0/1/2,budget=0.5": "a budget is for trees of depth 2 at the most",
    "linear:budget=1": "has no option 'budget'",
}


@pytest.mark.parametrize("spec", BAD)
def test_bad_specs(spec: str) -> None:
    with pytest.raises(pb.InputError, match=BAD[spec]):
        load_policies(spec, draw(20, 1), n_actions=3)

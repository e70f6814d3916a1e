"""Actions barred where they must not be taken: against all trees, one by one, with what is barred put right."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.policies import class_from_json
from pacbandits.policies.registry import digest_class, load_policies
from pacbandits.policies.trees.constraints import Barred, ExcludedRegion, WithinBudget, graft, implied
from pacbandits.policies.trees.tree_policy import AtMost, Is, IsMissing, TreePolicy, TreeSplit
from pacbandits.records import Contexts
from tests.policies.brute import all_actions, maximal, values

LABELS = ("north", "east", "south")
COSTS = np.array([0.0, 1.0, 2.5])
NEVER = {
    "2:age<=45": lambda age, place: [(2, age <= 45)],
    "2:age>60;1:place=east": lambda age, place: [(2, age > 60), (1, place == 1)],
    "1:place!=east;1:age<=50": lambda age, place: [(1, place != 1), (1, age <= 50)],
    "2:place=west;1:age<=0": lambda age, place: [],
}


def draw(n: int, seed: int) -> Contexts:
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(50, 15, n), rng.integers(0, 3, n)])
    return Contexts.of(features, names=["age", "place"], categories=[None, LABELS])


def barred_rows(rows: np.ndarray, contexts: Contexts, never: str) -> np.ndarray:
    """The actions of all policies, the barred ones replaced by action 0."""
    out = rows.copy()
    for action, there in NEVER[never](*contexts.features.T):
        out[(rows == action) & there] = 0
    return np.unique(out, axis=0)


def barred(contexts: Contexts, never: str, *, depth: int = 2, more: str = "") -> Barred:
    spec = f"trees:depth={depth},bins=4,never={never},fallback=0{more}"
    made = load_policies(spec, contexts, n_actions=3)
    assert isinstance(made, Barred)
    return made


@pytest.mark.first(9)
@pytest.mark.parametrize("never", NEVER)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_argmax_and_frontier_are_those_of_all_trees_that_keep_to_it(never: str, depth: int) -> None:
    contexts = draw(12, 3)
    policies = barred(contexts, never, depth=depth)
    assert isinstance(policies, Barred)
    rows = barred_rows(all_actions(policies.policies.bins, contexts, n_actions=3, depth=depth), contexts, never)
    for seed in range(4):
        first, second = np.random.default_rng(seed).normal(size=(2, 12, 3)) + COSTS
        best = policies.argmax(contexts, first)
        assert values(best(contexts)[None], first)[0] == pytest.approx(values(rows, first).max(), rel=1e-9)
        assert policies.has(best)
        front = policies.frontier(contexts, first, second)
        wanted = maximal(values(rows, first).round(9), values(rows, second).round(9))
        assert np.allclose(np.column_stack([front.first, front.second]), np.array(wanted), rtol=0, atol=1e-8)
        for one in (*(front.policy(i) for i in range(len(front))), *front.large(np.add, most=5)):
            assert policies.has(one)
            assert tuple(one(contexts)) in set(map(tuple, rows))


@pytest.mark.parametrize("never", NEVER)
def test_it_holds_for_contexts_never_seen_and_comes_back_from_json(never: str) -> None:
    contexts, others = draw(15, 1), draw(200, 2)
    policies = barred(contexts, never)
    again = class_from_json(json.loads(json.dumps(policies.to_json())))
    assert digest_class(again) == digest_class(policies)
    for seed in range(5):
        best = policies.argmax(contexts, np.random.default_rng(seed).normal(size=(15, 3)) + COSTS)
        assert isinstance(best, TreePolicy)
        for action, there in NEVER[never](*others.features.T):
            assert not (best(others)[there] == action).any()
        read = TreePolicy.from_json(json.loads(json.dumps(best.to_json())))
        assert again.has(read)
        assert read == best


@pytest.mark.parametrize("never", ["2:age<=45", "2:age>60;1:place=east"])
def test_costs_are_of_what_is_done(never: str) -> None:
    contexts = draw(12, 4)
    policies = load_policies(f"trees:bins=4,never={never},fallback=0,costs=0/1/2.5,budget=0.6", contexts, n_actions=3)
    assert isinstance(policies, WithinBudget)
    assert isinstance(policies.policies, Barred)
    rows = barred_rows(all_actions(policies.policies.policies.bins, contexts, n_actions=3, depth=2), contexts, never)
    kept = rows[COSTS[rows].mean(axis=1) <= 0.6 + 1e-9]
    for seed in range(5):
        scores = np.random.default_rng(seed).normal(size=(12, 3)) + COSTS
        best = policies.argmax(contexts, scores)
        assert values(best(contexts)[None], scores)[0] == pytest.approx(values(kept, scores).max(), rel=1e-9)
        assert policies.has(best)
    again = class_from_json(json.loads(json.dumps(policies.to_json())))
    assert digest_class(again) == digest_class(policies)
    assert again.argmax(contexts, scores) == best


def test_what_is_barred_is_not_of_the_class_unless_it_is_put_right() -> None:
    contexts = draw(15, 1)
    policies = barred(contexts, "2:age<=45", depth=1)
    bare, right = TreePolicy(2, 3), TreePolicy(TreeSplit(AtMost("age", 45.0), 0, 2), 3)
    assert policies.policies.has(bare)
    assert not policies.has(bare)
    assert policies.has(right)
    assert not policies.has(TreePolicy(TreeSplit(AtMost("age", 45.0), 1, 2), 3))  # its cut is none of the class
    assert policies.argmax(contexts, np.tile([0.0, 0.0, 1.0], (15, 1))) == right


def test_leaves_say_no_more_than_they_need() -> None:
    young, old = AtMost("age", 25.0), AtMost("age", 60.0)
    bars = (ExcludedRegion(2, young), ExcludedRegion(2, old, holds=False))
    assert graft(2, bars, 0, ()) == TreeSplit(young, 0, TreeSplit(old, 2, 0))
    assert graft(2, bars, 0, ((AtMost("age", 20.0), True),)) == 0
    assert graft(2, bars, 0, ((AtMost("age", 30.0), False),)) == TreeSplit(old, 2, 0)
    assert graft(1, bars, 0, ()) == 1


IMPLIED = (
    (AtMost("age", 25.0), (AtMost("age", 20.0), True), True),
    (AtMost("age", 25.0), (AtMost("age", 20.0, missing=True), True), None),
    (AtMost("age", 25.0), (AtMost("age", 20.0), False), None),
    (AtMost("age", 25.0), (AtMost("age", 25.0), False), False),
    (AtMost("age", 25.0), (IsMissing("age"), True), False),
    (AtMost("age", 25.0), (IsMissing("age"), False), None),
    (AtMost("age", 25.0), (AtMost("height", 20.0), True), None),
    (Is("place", "east"), (Is("place", "east"), False), False),
    (Is("place", "east"), (Is("place", "west"), True), False),
    (Is("place", "east"), (Is("place", "west"), False), None),
)


@pytest.mark.parametrize(("test", "step", "wanted"), IMPLIED)
def test_what_follows_from_a_path(test: AtMost | Is, step: tuple[AtMost, bool], wanted: bool | None) -> None:
    assert implied(test, (step,)) is wanted


def test_what_it_can_do_and_says() -> None:
    contexts = draw(15, 1)
    shallow, deep = (barred(contexts, "2:age<=45;1:place=east", depth=depth) for depth in (2, 3))
    assert shallow.checks_membership
    assert set(shallow.feature_names) == set(contexts.names)
    assert shallow.has_frontier
    assert shallow.frontier_cost(100) is not None
    assert not deep.has_frontier
    assert deep.frontier_cost(100) is None
    assert shallow.searches_budgets
    assert not deep.searches_budgets
    assert deep.has(deep.argmax(contexts, np.random.default_rng(0).normal(size=(15, 3))))
    assert not deep.exact
    assert shallow.describe() == (
        "trees of depth 2, never action 2 where age ≤ 45; never action 1 where place is east (action 0 instead)"
    )
    assert shallow.log_size == shallow.policies.log_size
    assert digest_class(class_from_json(json.loads(json.dumps(deep.to_json())))) == digest_class(deep)


def test_names_of_any_kind_fit_into_a_spec() -> None:
    name, label = "where, from: a;b", "in = out, 50 %"
    contexts = Contexts.of([[0.0, 1.0], [1.0, 2.0]], names=[name, "x"], categories=[(label, "other"), None])
    spec = pb.Restrictions(never=[f"e: mail: {name} = {label}"], control="none").added_to(
        "trees", ["none", "e", "e: mail"]
    )
    made = load_policies(spec, contexts, n_actions=3)
    assert isinstance(made, Barred)
    assert made.bars == (ExcludedRegion(2, Is(name, label)),)


BAD = {
    "trees:never=2:age<=45": "never needs a fallback",
    "trees:fallback=0": "a fallback needs never",
    "trees:never=2:age<=45,fallback=2": "cannot be excluded itself",
    "trees:never=2:age<45,fallback=0": "excludes none of the actions 0 to 2; write 1:age<=25",
    "trees:never=3:age<=45,fallback=0": "excludes none of the actions 0 to 2",
    "trees:never=1:height<=45,fallback=0": "lack the feature 'height'",
    "trees:never=1:age=45,fallback=0": "the feature 'age' must hold labels",
    "trees:never=1:age<=old,fallback=0": "'old' is not a number to compare 'age' with",
    "trees:never=1:age<=inf,fallback=0": "'inf' is not a number to compare 'age' with",
    "trees:never=1:age<=4,fallback=3": "fallback must be",
}


@pytest.mark.parametrize("spec", BAD)
def test_bad_specs(spec: str) -> None:
    with pytest.raises(pb.InputError, match=BAD[spec]):
        load_policies(spec, draw(20, 1), n_actions=3)

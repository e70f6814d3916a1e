"""What every policy class must do, asked of each of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies import Bins, Finite, FrontierClass, Linear, PolicyClass, Trees, Trivial, policy_from_json
from pacbandits.records import Contexts
from tests.policies.brute import all_actions, maximal, values


@dataclass(frozen=True)
class Case:
    """A class, contexts it acts on, the behaviour of all its policies there, and contexts it has not seen."""

    policies: FrontierClass
    contexts: Contexts
    behaviours: np.ndarray
    unseen: Contexts


def finite() -> Case:
    table = np.random.default_rng(0).integers(0, 3, (20, 6))
    contexts = Contexts.finite(6)
    return Case(Finite(table, n_actions=3), contexts, np.unique(table, axis=0), contexts.take([5, 0, 0, 3]))


def trivial() -> Case:
    behaviours = np.array(list(itertools.product(range(3), repeat=5)))
    contexts = Contexts.finite(5)
    return Case(Trivial(5, 3), contexts, behaviours, contexts.take([4, 4, 1]))


def trees(depth: int, *, mixed: bool) -> Case:
    rng = np.random.default_rng(1)
    labels = ("north", "east", "south")

    def draw(n: int) -> Contexts:
        features = np.column_stack([rng.normal(50, 15, n), rng.integers(0, 3, n) if mixed else rng.normal(size=n)])
        return Contexts.of(features, names=["age", "place"], categories=[None, labels if mixed else None])

    contexts = draw(14)
    policies = Trees(Bins.learn(contexts, bins=4), n_actions=3, depth=depth)
    behaviours = all_actions(policies.bins, contexts, n_actions=3, depth=depth)
    return Case(policies, contexts, behaviours, draw(9))


def linear(what: str) -> Case:
    rng = np.random.default_rng(2)

    def draw(n: int) -> Contexts:
        if what == "phi":
            return Contexts.of(np.empty((n, 0)), phi=rng.normal(size=(n, 3, 2)))
        if what == "category":
            return Contexts.of(rng.integers(0, 3, (n, 1)), names=["place"], categories=[("north", "east", "south")])
        return Contexts.of(rng.normal(50, 15, (n, 1)), names=["age"])

    contexts = draw(14)
    levels = {"phi": 3, "category": 1, "number": 2}[what]
    policies = Linear.learn(contexts, n_actions=3, levels=levels)
    phi = policies.map(contexts)
    grid = itertools.product(range(-levels, levels + 1), repeat=phi.shape[2])
    # Rounded, as ties in exact arithmetic are to be ties.
    behaviours = {tuple(np.round(phi @ np.array(theta), 9).argmax(axis=1)) for theta in grid}
    return Case(policies, contexts, np.array(sorted(behaviours)), draw(9))


CASES: dict[str, Callable[[], Case]] = {
    "finite": finite,
    "trivial": trivial,
    **{f"linear in {what}": lambda w=what: linear(w) for what in ("phi", "category", "number")},
    **{
        f"trees of depth {depth}, {'mixed' if mixed else 'numbers'}": lambda d=depth, m=mixed: trees(d, mixed=m)
        for depth in range(3)
        for mixed in (False, True)
    },
}


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def scores_for(case: Case, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(len(case.contexts), case.policies.n_actions))


def value(case: Case, policy: Callable[[Contexts], np.ndarray], scores: np.ndarray) -> float:
    return float(values(policy(case.contexts)[None], scores)[0])


SIGNS = {
    "signed": lambda s: s,
    "negative": lambda s: -np.abs(s),
    "whole": np.round,
    "tiny": lambda s: 1e-200 * s,
}


@pytest.mark.parametrize("change", SIGNS.values(), ids=SIGNS)
@pytest.mark.parametrize("seed", range(5))
def test_argmax_is_the_maximum(case: Case, seed: int, change: Callable[[np.ndarray], np.ndarray]) -> None:
    scores = change(scores_for(case, seed))
    best = case.policies.argmax(case.contexts, scores)
    assert value(case, best, scores) == pytest.approx(values(case.behaviours, scores).max(), rel=1e-9, abs=0)


def test_argmax_is_a_policy_of_the_class(case: Case) -> None:
    known = {tuple(row) for row in case.behaviours}
    for seed in range(5):
        assert tuple(case.policies.argmax(case.contexts, scores_for(case, seed))(case.contexts)) in known


def test_argmax_ignores_the_weights_of_contexts(case: Case) -> None:
    c = case.contexts
    weights = np.random.default_rng(0).dirichlet(np.ones(len(c)))
    skewed = replace(c, weights=weights)
    scores = scores_for(case, 3)
    assert_same(case.policies.argmax(skewed, scores), case.policies.argmax(c, scores), c)


def test_ties_break_the_same_way(case: Case) -> None:
    for scores in (np.zeros((len(case.contexts), 3)), np.round(scores_for(case, 2))):
        one, other = (case.policies.argmax(case.contexts, scores.copy()) for _ in range(2))
        assert one.to_json() == other.to_json()


def test_interface(case: Case) -> None:
    assert isinstance(case.policies, PolicyClass)
    assert isinstance(case.policies, FrontierClass)
    assert case.policies.exact
    assert case.policies.n_actions == 3
    assert case.policies.log_size >= np.log(len(case.behaviours)) - 1e-12


def test_wrong_scores_are_refused(case: Case) -> None:
    n, good = len(case.contexts), scores_for(case, 0)
    bad = {"nan": good.copy(), "infinite": good.copy()}
    bad["nan"][1, 2] = np.nan
    bad["infinite"][0, 0] = -np.inf
    for scores in (*bad.values(), good[:-1], good[:, :2], good[0], np.full((n, 3), "x")):
        with pytest.raises(InputError):
            case.policies.argmax(case.contexts, scores)
        with pytest.raises(InputError):
            case.policies.frontier(case.contexts, scores, good)
        with pytest.raises(InputError):
            case.policies.frontier(case.contexts, good, scores)


def test_policies_survive_json(case: Case) -> None:
    for seed in range(3):
        policy = case.policies.argmax(case.contexts, scores_for(case, seed))
        back = policy_from_json(json.loads(json.dumps(policy.to_json())))
        assert back.n_actions == policy.n_actions == 3
        assert back.describe() == policy.describe()
        assert_same(back, policy, case.contexts)
        assert_same(back, policy, case.unseen)


def test_policies_describe_themselves(case: Case) -> None:
    text = case.policies.argmax(case.contexts, scores_for(case, 0)).describe()
    assert "action" in text
    assert text.strip() == text


def test_policies_act_on_contexts_never_seen(case: Case) -> None:
    policy = case.policies.argmax(case.contexts, scores_for(case, 1))
    actions = policy(case.unseen)
    assert actions.shape == (len(case.unseen),)
    assert actions.dtype == np.int64
    assert ((actions >= 0) & (actions < 3)).all()
    # Row by row, in any order, the same.
    order = np.random.default_rng(0).permutation(len(case.unseen))
    np.testing.assert_array_equal(policy(case.unseen.take(order)), actions[order])


def test_argmax_works_on_contexts_never_seen(case: Case) -> None:
    scores = np.random.default_rng(0).normal(size=(len(case.unseen), 3))
    best = case.policies.argmax(case.unseen, scores)
    for seed in range(20):
        other = case.policies.argmax(case.contexts, scores_for(case, seed))
        assert values(best(case.unseen)[None], scores) >= values(other(case.unseen)[None], scores) - 1e-9


PAIRS = {
    "unrelated": lambda f, g: (f, g),
    "opposed": lambda f, g: (f, g / 4 - f),
    "equal": lambda f, g: (f, f),
    "mirrored": lambda f, g: (np.round(f), -np.round(f)),
    "flat": lambda f, g: (f, 0 * g),
    "zero": lambda f, g: (0 * f, 0 * g),
}


@pytest.mark.parametrize("change", PAIRS.values(), ids=PAIRS)
def test_frontier_is_exact(case: Case, change: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    first, second = change(scores_for(case, 4), scores_for(case, 5))
    front = case.policies.frontier(case.contexts, first, second)
    wanted = maximal(values(case.behaviours, first).round(9), values(case.behaviours, second).round(9))
    assert front.exact
    np.testing.assert_allclose(np.column_stack([front.first, front.second]), wanted, atol=1e-8)
    assert (np.diff(front.first) < 0).all()
    assert (np.diff(front.second) > 0).all()
    for i in range(len(front)):
        policy = front.policy(i)
        assert value(case, policy, first) == pytest.approx(front.first[i], abs=1e-9)
        assert value(case, policy, second) == pytest.approx(front.second[i], abs=1e-9)
    ends = (case.policies.argmax(case.contexts, scores) for scores in (first, second))
    np.testing.assert_allclose(
        [front.first[0], front.second[-1]],
        [value(case, policy, scores) for policy, scores in zip(ends, (first, second), strict=True)],
        atol=1e-9,
    )


def assert_same(one: Callable[..., np.ndarray], other: Callable[..., np.ndarray], contexts: Contexts) -> None:
    np.testing.assert_array_equal(one(contexts), other(contexts))


def test_many_large_policies(case: Case) -> None:
    """The first is the maximiser over the class; all are of the class, and none is reported twice by a search."""

    def ratio(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return (first + 40.0) / (40.0 - second) ** 2  # rises with both, and is not linear

    known = {tuple(row) for row in case.behaviours}
    for seed in range(4):
        first, second = scores_for(case, seed), scores_for(case, seed + 100)
        frontier = case.policies.frontier(case.contexts, first, second)
        found = frontier.large(ratio, most=15)
        assert 1 <= len(found) <= 15
        got = [ratio(value(case, p, first), value(case, p, second)) for p in found]
        best = ratio(values(case.behaviours, first), values(case.behaviours, second)).max()
        assert got[0] == pytest.approx(best, rel=1e-9)
        assert {tuple(policy(case.contexts)) for policy in found} <= known

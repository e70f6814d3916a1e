"""Exact classes against all their policies, listed one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pacbandits.records import Contexts
from tests.policies.brute import maximal, values
from tests.policies.cases import EXACT, ExactCase


@pytest.fixture(scope="module", params=EXACT, ids=str)
def case(request: pytest.FixtureRequest) -> ExactCase:
    return EXACT[request.param]()


def scores_for(case: ExactCase, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(len(case.contexts), case.policies.n_actions))


def value(case: ExactCase, policy: Callable[[Contexts], np.ndarray], scores: np.ndarray) -> float:
    return float(values(policy(case.contexts)[None], scores)[0])


SIGNS = {
    "signed": lambda s: s,
    "negative": lambda s: -np.abs(s),
    "whole": np.round,
    "tiny": lambda s: 1e-200 * s,
}


@pytest.mark.first(67)
@pytest.mark.parametrize("change", SIGNS.values(), ids=SIGNS)
@pytest.mark.parametrize("seed", range(5))
def test_argmax_is_the_maximum(case: ExactCase, seed: int, change: Callable[[np.ndarray], np.ndarray]) -> None:
    scores = change(scores_for(case, seed))
    best = case.policies.argmax(case.contexts, scores)
    assert value(case, best, scores) == pytest.approx(values(case.behaviours, scores).max(), rel=1e-9, abs=0)


def test_argmax_is_a_policy_of_the_class(case: ExactCase) -> None:
    known = {tuple(row) for row in case.behaviours}
    for seed in range(5):
        assert tuple(case.policies.argmax(case.contexts, scores_for(case, seed))(case.contexts)) in known


def test_interface(case: ExactCase) -> None:
    assert case.policies.has_frontier
    assert case.policies.exact
    assert case.policies.log_size >= np.log(len(case.behaviours)) - 1e-12


def test_argmax_works_on_contexts_never_seen(case: ExactCase) -> None:
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


@pytest.mark.first(27)
@pytest.mark.parametrize("change", PAIRS.values(), ids=PAIRS)
def test_frontier_is_exact(case: ExactCase, change: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
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


def test_many_large_policies(case: ExactCase) -> None:
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

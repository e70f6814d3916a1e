"""The best policy outside a set, against looking at every policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.paper.oracles.cases import KINDS, make_case

from instances import seeds
from pacbandits.paper.oracles import best_outside, best_outside_as_printed
from pacbandits.policies import Trivial
from pacbandits.policies.base import ArgmaxOnly, CountedClass
from pacbandits.records import Contexts


def draw_excluded(case, scores, seed):
    """Rows of behaviours: the best few, and some at random."""
    rng = np.random.default_rng(seed)
    k = len(case.behaviours)
    best = np.argsort(-case.values(scores), kind="stable")[: rng.integers(0, 7)]
    return np.unique([*best, *rng.integers(0, k, size=rng.integers(0, 4))]).astype(int)


@given(kind=st.sampled_from(KINDS), seed=seeds, how=st.sampled_from(["real", "whole", "zero", "tiny", "large"]))
@examples(70)
def test_best_outside_is_the_best_outside(kind, seed, how):
    case = make_case(kind, seed)
    scores = case.scores(seed, whole=how == "whole") * {"zero": 0.0, "tiny": 1e-200, "large": 1e200}.get(how, 1.0)
    rows = draw_excluded(case, scores, seed)
    wrapped = CountedClass(ArgmaxOnly(case.policies))
    excluded = [case.policy(case.behaviours[i]) for i in rows]
    found = best_outside(wrapped, case.contexts, scores, excluded=[*excluded, *excluded[:1]])

    left = np.delete(case.values(scores), rows)
    distinct = len(np.unique(case.contexts.ids)) if case.contexts.ids is not None else 7
    assert wrapped.calls <= 1 + len(rows) * distinct
    if left.size == 0:
        assert found is None
        return
    assert found is not None
    size = np.abs(scores).sum()
    assert case.row(found.policy) not in rows
    assert found.value == pytest.approx(left.max(), abs=1e-9 * size, rel=0)
    assert found.value == pytest.approx(case.value(found.policy, scores), abs=1e-12 * size, rel=0)
    assert (found.bound, found.calls) == (found.value, wrapped.calls)


@given(kind=st.sampled_from(KINDS), seed=seeds)
@examples(40)
def test_nothing_above_a_value_that_is_not_beaten(kind, seed):
    case = make_case(kind, seed)
    scores = case.scores(seed)
    rows = draw_excluded(case, scores, seed)
    excluded = [case.policy(case.behaviours[i]) for i in rows]
    left = np.delete(case.values(scores), rows)
    if left.size:
        best = left.max()
        assert best_outside(case.policies, case.contexts, scores, excluded=excluded, above=best + 1e-6) is None
        found = best_outside(case.policies, case.contexts, scores, excluded=excluded, above=best - 1e-6)
        assert found is not None
        assert found.value == pytest.approx(best)


@pytest.mark.first(2)
@pytest.mark.parametrize("kind", KINDS)
def test_one_after_the_other_every_policy_is_found(kind):
    """Excluding what was found lists the class from the best to the worst, ties and all, and then ends."""
    case = make_case(kind, 11)
    scores = case.scores(4, whole=True)
    found, values = [], []
    for _ in range(min(len(case.behaviours), 40)):
        best = best_outside(case.policies, case.contexts, scores, excluded=found)
        found.append(best.policy)
        values.append(best.value)
    assert len({case.row(policy) for policy in found}) == len(found)
    np.testing.assert_allclose(values, -np.sort(-case.values(scores))[: len(found)], atol=1e-9)
    if len(found) == len(case.behaviours):
        assert best_outside(case.policies, case.contexts, scores, excluded=found) is None


def test_nothing_excluded_is_one_call():
    wrapped = CountedClass(Trivial(5, 3))
    best_outside(wrapped, Contexts.finite(5), np.random.default_rng(0).normal(size=(5, 3)), excluded=[])
    assert wrapped.calls == 1


def test_bounds_spare_calls():
    """Of all maps, the bound of a piece is its value: the next best takes one more call, not one a context."""
    contexts, scores = Contexts.finite(100), np.random.default_rng(0).random((100, 5))
    wrapped = CountedClass(Trivial(100, 5))
    excluded = [wrapped.policies.argmax(contexts, scores)]
    for k in range(1, 6):
        wrapped.calls = 0
        found = best_outside(wrapped, contexts, scores, excluded=excluded)
        assert wrapped.calls <= 1 + 2 * k
        excluded.append(found.policy)


@given(seed=seeds)
@examples(60)
def test_as_printed_agrees_where_values_differ(seed):
    case = make_case("finite", seed)
    scores = case.scores(seed)
    rows = draw_excluded(case, scores, seed)
    excluded = [case.policy(case.behaviours[i]) for i in rows]
    ours = best_outside(case.policies, case.contexts, scores, excluded=excluded)
    printed = best_outside_as_printed(case.policies, case.contexts, scores, excluded=excluded, max_steps=100)
    if ours is None:
        assert printed.returned is None
    else:
        assert case.row(case.policies.policy(printed.returned)) == case.row(ours.policy)
        assert len(printed.visited) <= 1 + len(rows)

"""The constrained argmax against enumeration, and its relaxation against both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.paper.oracles.cases import KINDS, ListOnly, make_case

from instances import seeds
from pacbandits.errors import InputError
from pacbandits.paper.oracles import constrained_argmax, relaxed_argmax
from pacbandits.policies import Trivial
from pacbandits.policies.base import ArgmaxOnly, CountedClass
from pacbandits.records import Contexts


def draw(kind, seed, *, whole=False):
    """A case, its scores and budget, and a limit between the least and the largest use."""
    case = make_case(kind, seed)
    scores, budget = case.scores(seed, whole=whole), case.scores(seed + 1, whole=whole)
    uses = case.values(budget)
    limit = float(np.quantile(uses, np.random.default_rng(seed).random()))
    best = case.values(scores)[uses <= limit + 1e-9].max()
    return case, scores, budget, limit, best


@given(kind=st.sampled_from(KINDS), seed=seeds, whole=st.booleans())
@examples(60)
def test_constrained_argmax_is_exact(kind, seed, whole):
    case, scores, budget, limit, best = draw(kind, seed, whole=whole)
    classes = [case.policies, ListOnly(case.policies)] if kind == "finite" else [case.policies]
    for policies in classes:
        policy = constrained_argmax(policies, case.contexts, scores, budget=budget, limit=limit)
        assert case.value(policy, budget) <= limit + 1e-9
        assert case.value(policy, scores) == pytest.approx(best, abs=1e-9)


@given(kind=st.sampled_from(KINDS), seed=seeds, whole=st.booleans())
@examples(80)
def test_relaxation_brackets_the_optimum(kind, seed, whole):
    case, scores, budget, limit, best = draw(kind, seed, whole=whole)
    wrapped = CountedClass(ArgmaxOnly(case.policies))
    found = relaxed_argmax(wrapped, case.contexts, scores, budget=budget, limit=limit)
    assert case.value(found.policy, budget) <= limit + 1e-9
    assert case.value(found.policy, scores) == pytest.approx(found.value, abs=1e-9)
    assert found.value <= best + 1e-9
    assert best <= found.bound + 1e-9
    assert found.calls == wrapped.calls <= 12
    if not whole:  # in ties, a hull has points that are no vertices
        firsts, uses = case.values(scores), case.values(budget)
        hull, at_limit = upper_hull(firsts, uses, limit)
        assert found.bound == pytest.approx(at_limit, abs=1e-8)
        assert found.value >= hull - 1e-9  # so that an optimum on the hull is found


def upper_hull(firsts, uses, limit):
    """The score of the last vertex that keeps the limit, and the height of the hull at the limit, pair by pair."""
    keeps = uses <= limit + 1e-9
    vertex, height = -np.inf, firsts[keeps].max()
    for i in np.flatnonzero(keeps):
        for j in np.flatnonzero(~keeps):
            share = (limit - uses[i]) / (uses[j] - uses[i])
            if firsts[i] + share * (firsts[j] - firsts[i]) > height:
                height, vertex = firsts[i] + share * (firsts[j] - firsts[i]), firsts[i]
    return (firsts[keeps].max() if vertex == -np.inf else vertex), height


def test_an_optimum_on_the_hull_is_found_and_one_inside_is_bracketed():
    """Scores 0, 2, 3 for budgets 0, 1, 2 bulge outward; scores 0, 1, 3 inward, and the middle is never an argmax."""
    contexts, budget = Contexts.finite(1), np.array([[0.0, 1.0, 2.0]])
    on = relaxed_argmax(Trivial(1, 3), contexts, np.array([[0.0, 2.0, 3.0]]), budget=budget, limit=1.0)
    assert (on.policy.table[0], on.value, on.bound) == (1, 2.0, pytest.approx(2.0))
    inside = relaxed_argmax(Trivial(1, 3), contexts, np.array([[0.0, 1.0, 3.0]]), budget=budget, limit=1.0)
    assert (inside.policy.table[0], inside.value, inside.bound) == (0, 0.0, pytest.approx(1.5))


def test_a_limit_that_binds_nobody_takes_one_call():
    case = make_case("trivial", 0)
    scores, budget = case.scores(1), case.scores(2)
    found = relaxed_argmax(case.policies, case.contexts, scores, budget=budget, limit=1e6)
    assert found.calls == 1
    assert found.value == found.bound == pytest.approx(case.values(scores).max())


def test_relaxation_takes_few_calls_on_a_hull_of_many_vertices():
    rng = np.random.default_rng(0)
    contexts, policies = Contexts.finite(400), Trivial(400, 10)
    scores, budget = rng.random((2, 400, 10))
    found = relaxed_argmax(policies, contexts, scores, budget=budget, limit=120.0)
    assert found.calls <= 20
    assert found.value <= found.bound <= found.value + 1.0  # neighbouring vertices differ in one context


@pytest.mark.parametrize("search", [constrained_argmax, relaxed_argmax])
@pytest.mark.parametrize("kind", ["trivial", "list"])
def test_an_impossible_limit_names_the_least(search, kind):
    contexts = Contexts.finite(2)
    policies = Trivial(2, 2) if kind == "trivial" else ListOnly(make_case("finite", 5).policies)
    contexts = contexts if kind == "trivial" else make_case("finite", 5).contexts
    shape = (len(contexts), policies.n_actions)
    with pytest.raises(InputError, match=rf"limit 1; the least possible is {len(contexts)}$"):
        search(policies, contexts, np.zeros(shape), budget=np.ones(shape), limit=1.0)
    with pytest.raises(InputError, match="limit must be a finite number, got nan"):
        search(policies, contexts, np.zeros(shape), budget=np.ones(shape), limit=np.nan)


def test_a_rounded_frontier_is_refused():
    contexts = Contexts.finite(20)
    scores, budget = np.random.default_rng(0).random((2, 20, 4))
    with pytest.raises(InputError, match="relaxed_argmax"):
        constrained_argmax(Trivial(20, 4, resolution=16), contexts, scores, budget=budget, limit=10.0)

"""The steps of CODA and FW-GD through oracles, against the formulas evaluated at every policy."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from tests.examples import examples
from tests.paper.oracle_reductions import choose_policy, frank_wolfe_step
from tests.paper.oracles.cases import KINDS, Case, make_case

from instances import seeds
from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError
from pacbandits.paper.oracles import (
    Choice,
    Estimates,
    SupportGammas,
    frank_wolfe_step_free,
    frank_wolfe_step_free_by_argmax,
)
from pacbandits.policies import Finite, Trivial
from pacbandits.policies.base import ArgmaxOnly, CountedClass
from pacbandits.records import Contexts


class Setting(NamedTuple):
    """A case with gaps and costs for one of its policies as the reference, and a support (rows of behaviours)."""

    case: Case
    estimates: Estimates
    rows: IntArray
    gammas: SupportGammas


def draw(kind: str, seed: int) -> Setting:
    rng = np.random.default_rng(seed)
    case = make_case(kind, seed)
    n, a = len(case.contexts), case.policies.n_actions
    reference = case.behaviours[rng.integers(len(case.behaviours))]
    inverse = 1 / rng.dirichlet(np.full(a, 2.0), size=n).clip(0.01) / n
    costs = inverse + inverse[np.arange(n), reference][:, None]
    costs[np.arange(n), reference] = 0.0
    gaps = rng.normal(size=(n, a)) / n
    gaps -= gaps[np.arange(n), reference][:, None]
    rows = rng.integers(len(case.behaviours), size=rng.integers(0, 5))
    gammas = SupportGammas(
        support=[case.policy(case.behaviours[i]) for i in rows],
        gammas=rng.uniform(0.01, 1.0, len(rows)),
        common_gamma=rng.uniform(0.01, 1.0),
        support_gaps=rng.normal(size=len(rows)) if rng.random() < 0.5 else None,
    )
    estimates = Estimates(gaps, costs, confidence=rng.uniform(1, 20), samples=rng.integers(10, 1000))
    return Setting(case, estimates, rows, gammas)


def by_hand(setting: Setting, *, gap_weight: float, width_weight: float) -> list[tuple[float, int]]:
    """Value and row of `−aΔ̂ + b(γV + L/(γn))` for every policy outside the support and every member of it."""
    case, known, rows, given = setting
    gaps, variances = case.values(known.gaps), case.values(known.costs)
    ratio = known.confidence / known.samples

    def value(gap: float, variance: float, gamma: float) -> float:
        return -gap_weight * gap + width_weight * (gamma * variance + ratio / gamma)

    out = [(value(gaps[i], variances[i], given.common_gamma), i) for i in range(len(case.behaviours)) if i not in rows]
    for k, i in enumerate(rows):
        gap = gaps[i] if given.support_gaps is None else given.support_gaps[k]
        out.append((value(gap, variances[i], given.gammas[k]), i))
    return out


def assert_is_top(found, values: list[tuple[float, int]], case: Case) -> None:
    best = max(values)[0]
    assert found.value == pytest.approx(best, abs=1e-9)
    assert found.bound == found.value
    assert case.row(found.policy) in {i for v, i in values if v >= best - 1e-9}


@given(kind=st.sampled_from(KINDS), seed=seeds, gap_weight=st.sampled_from([0.0, 0.125, 1.0, 30.0]))
@examples(70)
def test_frank_wolfe_step(kind, seed, gap_weight):
    setting = draw(kind, seed)
    wrapped = CountedClass(ArgmaxOnly(setting.case.policies))
    found = frank_wolfe_step(
        wrapped, setting.case.contexts, setting.estimates, setting.gammas, gap_weight=gap_weight, width_weight=8.0
    )
    assert_is_top(found, by_hand(setting, gap_weight=gap_weight, width_weight=8.0), setting.case)
    assert found.calls == wrapped.calls <= 1 + len(set(setting.rows)) * len(setting.case.contexts)


@given(kind=st.sampled_from(KINDS), seed=seeds)
@examples(70)
def test_choose_policy(kind, seed):
    setting = draw(kind, seed)
    wrapped = CountedClass(ArgmaxOnly(setting.case.policies))
    found = choose_policy(wrapped, setting.case.contexts, setting.estimates, setting.gammas)
    negated = by_hand(setting, gap_weight=1.0, width_weight=-1.0)
    assert_is_top(Choice(found.policy, -found.value, -found.bound, found.calls), negated, setting.case)
    assert found.calls == wrapped.calls <= 1 + len(set(setting.rows)) * len(setting.case.contexts)


def test_a_support_of_the_whole_class():
    contexts, policies = Contexts.finite(2), Finite([[0, 0], [0, 1], [1, 1]], n_actions=2)
    found = frank_wolfe_step(
        policies,
        contexts,
        Estimates(np.zeros((2, 2)), np.array([[0.0, 1.0], [0.0, 1.0]]), confidence=1.0, samples=1),
        SupportGammas([policies.policy(i) for i in range(3)], gammas=[1.0, 3.0, 1.0], common_gamma=1.0),
        gap_weight=1.0,
        width_weight=1.0,
    )
    assert found.value == pytest.approx(3 + 1 / 3)
    assert found.policy.name == "policy 1"


def free_values(setting: Setting, *, gap_weight: float, width_weight: float) -> FloatArray:
    """max over policies of the minimum over γ, the minimum by the formula's own first-order condition."""
    case, known, *_ = setting
    ratio = known.confidence / known.samples
    out = []
    for gap, variance in zip(case.values(known.gaps), case.values(known.costs), strict=True):
        gamma = math.sqrt(ratio / variance) if variance > 1e-12 else math.inf
        out.append(-gap_weight * gap + (width_weight * (gamma * variance + ratio / gamma) if variance > 1e-12 else 0))
    return np.array(out)


WEIGHTS = st.sampled_from([(0.0, 8.0), (0.125, 8.0), (1.0, 1.0), (5.0, 0.1)])


@given(kind=st.sampled_from(KINDS), seed=seeds, weights=WEIGHTS)
@examples(60)
def test_free_step_by_frontier(kind, seed, weights):
    setting = draw(kind, seed)
    weighted = {"gap_weight": weights[0], "width_weight": weights[1]}
    found = frank_wolfe_step_free(setting.case.policies, setting.case.contexts, setting.estimates, **weighted)
    values = free_values(setting, **weighted)
    assert_is_top(found, list(zip(values, range(len(values)), strict=True)), setting.case)
    known = setting.estimates
    assert found.calls == len(setting.case.policies.frontier(setting.case.contexts, known.costs, -known.gaps))


@given(kind=st.sampled_from(KINDS), seed=seeds, weights=WEIGHTS)
@examples(60)
def test_free_step_by_argmax(kind, seed, weights):
    setting = draw(kind, seed)
    case, known, *_ = setting
    wrapped = CountedClass(ArgmaxOnly(case.policies))
    weighted = {"gap_weight": weights[0], "width_weight": weights[1]}
    found = frank_wolfe_step_free_by_argmax(wrapped, case.contexts, known, **weighted)
    values = free_values(setting, **weighted)
    assert found.value == pytest.approx(values[case.row(found.policy)], abs=1e-9)
    assert found.value <= values.max() + 1e-9
    assert values.max() <= found.bound + 1e-9
    assert found.calls == wrapped.calls <= 15
    # The bound is the least over γ of the maximum over policies, a function with one valley.
    ratio = known.confidence / known.samples
    firsts, variances = -weights[0] * case.values(known.gaps), case.values(known.costs)

    def largest(log_gamma: float) -> float:
        gamma = math.exp(log_gamma)
        return float((firsts + weights[1] * (gamma * variances + ratio / gamma)).max())

    least = minimize_scalar(largest, bounds=(-12.0, 12.0), method="bounded", options={"xatol": 1e-10}).fun
    if variances.max() > 1e-12:  # else γ goes to infinity
        assert found.bound == pytest.approx(least, rel=1e-6)


def test_what_only_the_frontier_sees():
    """Of (V, −Δ̂) = (0, 0), (1, −1.2), (4, −3.5), the middle is best for −Δ̂ + 2√V (0, 0.8, 0.5), but lies below the
    line through the others: no argmax returns it."""
    contexts, policies = Contexts.finite(1), Trivial(1, 3)
    known = Estimates(np.array([[0.0, 1.2, 3.5]]), np.array([[0.0, 1.0, 4.0]]), confidence=1.0, samples=1.0)
    exact = frank_wolfe_step_free(policies, contexts, known, gap_weight=1.0, width_weight=1.0)
    swept = frank_wolfe_step_free_by_argmax(policies, contexts, known, gap_weight=1.0, width_weight=1.0)
    assert exact.policy.table[0] == 1
    assert exact.value == pytest.approx(0.8)
    assert swept.value == pytest.approx(0.5)
    # On the edge from (0, 0) to (4, −3.5): the largest −3.5V/4 + 2√V is 1/0.875.
    assert swept.bound == pytest.approx(1 / 0.875)


def test_where_no_policy_differs():
    contexts, policies = Contexts.finite(2), Trivial(2, 2)
    known = Estimates(np.array([[0.0, 1.0], [-2.0, 1.0]]), np.zeros((2, 2)), confidence=1.0, samples=9)
    for step in (frank_wolfe_step_free, frank_wolfe_step_free_by_argmax):
        found = step(policies, contexts, known, gap_weight=1.0, width_weight=1.0)
        assert (found.value, found.bound) == (2.0, 2.0)


def test_a_rounded_frontier_gives_a_bound():
    contexts, rng = Contexts.finite(30), np.random.default_rng(2)
    costs, gaps = rng.random((30, 4)), rng.normal(size=(30, 4))
    known = Estimates(gaps, costs, confidence=3.0, samples=9)
    weights = {"gap_weight": 1.0, "width_weight": 8.0}
    rounded = frank_wolfe_step_free(Trivial(30, 4, resolution=64), contexts, known, **weights)
    hull = frank_wolfe_step_free_by_argmax(Trivial(30, 4), contexts, known, **weights)
    assert rounded.value < rounded.bound
    assert max(rounded.value, hull.value) <= min(rounded.bound, hull.bound)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 0}, "samples must be positive and finite, got 0"),
        ({"confidence": np.nan}, "confidence must be positive and finite, got nan"),
        ({"common_gamma": -1.0}, "common_gamma must be positive and finite, got -1"),
        ({"gammas": [0.5, 0.0]}, "gammas must be positive and finite, got 0"),
        ({"gammas": [0.5]}, r"gammas must have shape \(2,\), got \(1,\)"),
        ({"support_gaps": [0.5]}, r"support_gaps must have shape \(2,\)"),
        ({"costs": -np.ones((3, 2))}, "costs .* must not be negative, got -1"),
        ({"gaps": np.ones((2, 2))}, r"gaps must have shape \(3, 2\)"),
    ],
)
def test_wrong_numbers_are_refused(change, message):
    contexts, policies = Contexts.finite(3), Trivial(3, 2)
    estimates = Estimates(np.zeros((3, 2)), np.ones((3, 2)), confidence=1.0, samples=10)
    support = [policies.argmax(contexts, s * np.eye(3, 2)) for s in (1, -1)]
    gammas = SupportGammas(support, gammas=[1.0, 2.0], common_gamma=1.0)
    choose_policy(policies, contexts, estimates, gammas)
    of_estimates = {field.name for field in fields(Estimates)}
    estimates = replace(estimates, **{name: value for name, value in change.items() if name in of_estimates})
    gammas = replace(gammas, **{name: value for name, value in change.items() if name not in of_estimates})
    with pytest.raises(InputError, match=message):
        choose_policy(policies, contexts, estimates, gammas)


def test_wrong_weights_are_refused():
    contexts, ones = Contexts.finite(2), np.ones((2, 2))
    known = Estimates(ones, ones, confidence=1.0, samples=10)
    for weights, message in (((-1.0, 1.0), "gap_weight must be 0 or more"), ((1.0, 0.0), "width_weight must be pos")):
        with pytest.raises(InputError, match=message):
            frank_wolfe_step_free(Trivial(2, 2), contexts, known, gap_weight=weights[0], width_weight=weights[1])

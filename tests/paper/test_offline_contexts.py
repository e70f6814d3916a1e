"""The paper's bounds on the number of offline contexts."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pacbandits.confidence import round_confidence, round_epsilon, rounds_needed
from pacbandits.errors import InputError
from pacbandits.paper.offline_contexts import Smoothness, contexts_needed, gradient_error, objective_error

given_rounds = st.builds(
    Smoothness.of_round,
    st.integers(1, 10),
    n_actions=st.integers(2, 50),
    samples=st.integers(1, 10**9),
    support=st.integers(1, 30),
    log_size=st.floats(math.log(30), 60.0),
    delta=st.floats(1e-6, 0.5),
    smoothing_constant=st.floats(1e-3, 1.0),
)
questions = st.fixed_dictionaries(
    {
        "epsilon": st.floats(1e-3, 0.99),
        "delta": st.floats(1e-6, 0.5),
        "n_actions": st.integers(2, 50),
        "samples": st.integers(1, 10**9),
        "support": st.integers(1, 30),
        "log_size": st.floats(math.log(30), 60.0),
    }
)


@given(smoothness=given_rounds, contexts=st.integers(1, 10**12), confidence=st.floats(0.1, 100.0))
def test_errors_fall_like_one_over_the_root(smoothness, contexts, confidence):
    for error in (objective_error, gradient_error):
        once = error(contexts, given=smoothness, confidence=confidence)
        fourfold = error(4 * contexts, given=smoothness, confidence=confidence)
        assert 0 < once < math.inf
        assert fourfold == pytest.approx(once / 2)


@given(smoothness=given_rounds, confidence=st.floats(0.1, 100.0))
def test_errors_grow_with_confidence(smoothness, confidence):
    for error in (objective_error, gradient_error):
        assert error(10, given=smoothness, confidence=2 * confidence) >= error(
            10, given=smoothness, confidence=confidence
        )


@given(smoothness=given_rounds)
def test_the_box_of_gamma_is_not_empty(smoothness):
    """γ_max/γ_min = 3/(Aη), which is above 1 as η ≤ 1/A⁴."""
    ratio = smoothness.gamma_max / smoothness.gamma_min
    assert ratio == pytest.approx(3 / (smoothness.n_actions * smoothness.smoothing))
    assert ratio > 1


@given(question=questions)
def test_contexts_needed_meets_both_targets_and_no_fewer_would(question):
    needed = contexts_needed(**question)
    last = rounds_needed(question["epsilon"])
    assume(math.isfinite(needed))
    size = {"log_size": question["log_size"], "delta": question["delta"]}
    smoothness = Smoothness.of_round(
        last,
        n_actions=question["n_actions"],
        samples=question["samples"],
        support=question["support"],
        smoothing_constant=1.0,
        **size,
    )
    confidence = round_confidence(question["delta"], round_number=last, log_size=question["log_size"])
    goal = round_epsilon(last)

    def shares(contexts):
        return (
            objective_error(contexts, given=smoothness, confidence=confidence) / (goal / 4),
            gradient_error(contexts, given=smoothness, confidence=confidence) / (goal / 2),
        )

    assert max(shares(needed)) == pytest.approx(1.0)
    assert max(shares(1.01 * needed)) < 1
    assert max(shares(0.99 * needed)) > 1


def test_both_lemmas_at_numbers_of_ones_own():
    """As they are printed, with A = 3, η = 1/4, γ in [1/2, 2], k = 5 policies of 200 in the support, δ = 1/10, m = 49:

    √(A⁴γ_max²(1 + η)²/(2m) log(2/δ)) + 16/√m · A²γ_max √(2k(1 + η)γ_max/(ηγ_min) log(3e|Π|/k)), and
    γ_max(√(A⁴(1 + η)γ_max/(2ηγ_min m) log(2/δ)) + 8A²γ_max/(√m (ηγ_min)^{3/2}) √(2k log(3e|Π|/k))).
    """
    given = Smoothness(3, smoothing=0.25, gamma_min=0.5, gamma_max=2.0, support=5, log_size=math.log(200))
    entropy = math.log(3 * math.e * 200 / 5)
    first = math.sqrt(81 * 4 * 1.25**2 / 98 * math.log(20)) + 16 / 7 * 9 * 2 * math.sqrt(10 * 1.25 * 16 * entropy)
    assert objective_error(49, given=given, confidence=math.log(10)) == pytest.approx(first)
    second = math.sqrt(81 * 1.25 * 2 / (2 * 0.125 * 49) * math.log(20))
    second += 8 * 9 * 2 / (7 * 0.125**1.5) * math.sqrt(10 * entropy)
    assert gradient_error(49, given=given, confidence=math.log(10)) == pytest.approx(2 * second)


def test_no_one_has_that_many_contexts():
    """Six actions, 40 policies, ε = 0.1: more than 10⁴⁰ contexts, at the paper's constant C_1 = 1."""
    needed = contexts_needed(0.1, delta=0.1, n_actions=6, samples=10**6, support=10, log_size=math.log(40))
    assert needed > 1e40


@pytest.mark.parametrize("wrong", [{"epsilon": 1.0}, {"samples": 0}, {"support": 0}])
def test_what_cannot_be_asked(wrong):
    question = {"epsilon": 0.1, "delta": 0.1, "n_actions": 4, "samples": 100, "support": 5, "log_size": 5.0}
    with pytest.raises(InputError, match="epsilon must be below 1"):
        contexts_needed(**(question | wrong))

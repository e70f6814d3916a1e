"""The bounds at numbers worked out by hand: each factor of a theorem is there, and once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pacbandits.complexity.lower_bounds import (
    confidence_price,
    least_divergence,
    low_regret_bound,
    lower_bound,
    minimax_bound,
    paper_lower_bound,
    trivial_lower_bound,
    trivial_minimax_bound,
    trivial_sum,
    trivial_upper_bound,
    union_price,
    upper_bound,
)

E = math.e


def test_the_upper_bounds_are_their_formulas():
    """With logarithms that come out even: ρ = 3, log|Π| = 5, δ = e⁻², Δ_ε = 1/16 or e⁻³, ε = e⁻³."""
    delta = E**-2
    # Four rounds: 3 · (5 + log 4 + 2) · 4.
    assert upper_bound(3.0, log_size=5.0, delta=delta, gap_floor=1 / 16) == pytest.approx(12 * (7 + math.log(4)))
    # Never less than one round.
    assert upper_bound(3.0, log_size=5.0, delta=delta, gap_floor=0.9) == pytest.approx(21)
    # A = 7 actions: 7 · (5 + 2) · 3 · e⁶, and at least one round.
    assert minimax_bound(n_actions=7, log_size=5.0, delta=delta, epsilon=E**-3) == pytest.approx(147 * E**6)
    assert minimax_bound(n_actions=7, log_size=5.0, delta=delta, epsilon=1.0) == pytest.approx(49 * math.log(2))
    # Six contexts and e² actions would give (6 · 2 + 2) · 3 times the smaller of A/ε² and the sum.
    contexts, actions = 6, 8
    rate = (contexts * math.log(actions) + 2) * 3
    shape = {"n_contexts": contexts, "n_actions": actions, "delta": delta, "gap_floor": E**-3}
    assert trivial_upper_bound(10.0, epsilon=0.1, **shape) == pytest.approx(10 * rate)
    assert trivial_upper_bound(10_000.0, epsilon=0.1, **shape) == pytest.approx(800 * rate)
    assert trivial_upper_bound(10_000.0, epsilon=0.0, **shape) == pytest.approx(10_000 * rate)
    short = shape | {"gap_floor": 0.9}
    assert trivial_upper_bound(10.0, epsilon=0.1, **short) == pytest.approx(10 * rate / 3 * math.log(2))


def test_the_lower_bounds_and_prices_are_their_formulas():
    """log(1/2.4δ) = 1 at δ = 1/(2.4e)."""
    delta = 1 / (2.4 * E)
    assert least_divergence(delta) == pytest.approx(1)
    assert lower_bound(3.0, delta=delta) == pytest.approx(6)
    assert paper_lower_bound(3.0, delta=delta) == pytest.approx(3)
    assert confidence_price(3.0, delta=delta) == pytest.approx(6)
    assert trivial_lower_bound(3.0, delta=delta) == pytest.approx(3)
    assert union_price(3.0, log_size=5.0, delta=E**-2) == pytest.approx(42)
    assert low_regret_bound(5, gap=0.5, delta=delta) == pytest.approx(100 / (8 * math.log(5)))
    assert trivial_minimax_bound(n_contexts=6, n_actions=8, epsilon=0.1, delta=E**-2) == pytest.approx(6400)


def test_the_sum_of_the_trivial_class():
    """The worst context that can occur, its best action counted with the least gap of the others."""
    gaps = np.array([[0.0, 0.5, 0.25], [0.1, 0.0, 0.2], [1e-9, 0.0, 1e-9]])
    weights = np.array([0.5, 0.5, 0.0])
    assert trivial_sum(gaps, weights) == pytest.approx((100 + 100 + 25) / 0.5)
    assert trivial_sum(gaps, np.array([1.0, 0.0, 0.0])) == pytest.approx(16 + 16 + 4)


def test_nothing_to_learn_costs_nothing_and_a_tie_everything():
    assert upper_bound(0.0, log_size=5.0, delta=0.1, gap_floor=0.0) == 0
    assert upper_bound(1.0, log_size=5.0, delta=0.1, gap_floor=0.0) == math.inf
    shape = {"n_contexts": 2, "n_actions": 2, "delta": 0.1, "gap_floor": 0.0, "epsilon": 0.0}
    assert trivial_upper_bound(0.0, **shape) == 0
    assert trivial_upper_bound(1.0, **shape) == math.inf

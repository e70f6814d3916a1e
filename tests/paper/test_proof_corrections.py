"""Where a step of the paper's proofs fails as printed, and what holds in its place."""

from __future__ import annotations

import math

import numpy as np
import pytest

from instances import make_instance
from pacbandits.confidence import regularised_radius
from pacbandits.design import Objective
from pacbandits.policies.finite import sum_scores


def spread(table, reference, weights, p):
    """V_π(p; q) of every row of a table, for one-hot features."""
    return sum_scores(table, Objective(reference, weights, np.ones_like(p)).costs(p))


@pytest.mark.parametrize("seed", range(5))
def test_row_35_squared_norms_obey_the_triangle_inequality_for_one_hot_features(seed):
    """‖φ_π − φ_π'‖² ≤ ‖φ_π − φ_q‖² + ‖φ_q − φ_π'‖² in A⁻¹, which Lemma `1.8` uses as "(ii)"."""
    instance = make_instance(seed, n_policies=6)
    rng = np.random.default_rng(seed)
    weights, table = instance.population.weights, instance.policies.table.astype(np.int64)
    p = rng.dirichlet(np.full(instance.policies.n_actions, 0.5), size=len(weights)).clip(1e-3)
    between = np.array([spread(table, row, weights, p) for row in table])
    assert (between[:, :, None] <= (between[:, None, :] + between[None, :, :]) * (1 + 1e-12)).all()


def test_row_35_for_other_features_they_do_not():
    """One context, three actions with φ = 0, 1, 2: the outer two are twice as far apart as each is from the middle, and
    four times so in squares. At the n that Lemma `1.8` begins with, its width is exceeded by √2, and by no more."""
    features = np.array([0.0, 1.0, 2.0])
    information = (features**2).mean()  # A(w) for uniform w

    def squared(a, b):
        return (features[a] - features[b]) ** 2 / information

    assert squared(0, 2) == pytest.approx(4 * squared(0, 1))
    assert squared(0, 2) > squared(0, 1) + squared(1, 2)  # as printed
    assert squared(0, 2) <= 2 * (squared(0, 1) + squared(1, 2))
    epsilon, confidence = 0.1, 5.0  # all Δ̂_{l−1} = 0, q = 1
    n = 1568 * max(squared(0, 1), squared(2, 1)) * confidence / (4 * epsilon) ** 2
    width = math.sqrt(squared(0, 2) * confidence / n)
    assert width == pytest.approx(math.sqrt(2) * 4 * epsilon / 28)  # printed: at most 4ε/28


def test_row_36_the_statement_of_lemma_ee_holds_by_other_steps():
    """It states 2γV + 2L/(γn), and its proof ends with 2γV + 4L/(γn), having bounded the sum of bias and deviation by
    γV + √(2VL/n) + 2L/(γn), which may exceed the statement. With Bernstein's own 2/3 the statement holds."""
    rng = np.random.default_rng(36)
    variance, gamma = rng.lognormal(1.0, 1.5, size=1000), rng.lognormal(-3.0, 1.5, size=1000)
    confidence, n = 7.0, 500
    last = confidence / (gamma * n)
    stated = regularised_radius(gamma, variance, samples=n, confidence=confidence)
    assert stated == pytest.approx(2 * gamma * variance + 2 * last)
    deviation = np.sqrt(2 * variance * confidence / n)
    assert (gamma * variance + deviation + 2 * last > stated).mean() > 0.2  # the printed line before the last
    assert (gamma * variance + deviation + 2 * last <= stated + 2 * last).all()  # and the last: 4L/(γn)
    assert (gamma * variance + deviation + 2 / 3 * last <= stated).all()


def test_row_37_the_event_allows_twice_the_width():
    """Lemma `emp_gaps`, part 2, uses |Δ̂ − Δ| ≤ u where the event says 2u, and so ends with 11ε/24. Estimates as far off
    as the event allows make CODA choose a policy of gap 0.93ε; that is the worst, and still within ε."""
    epsilon = 1.0
    printed = epsilon / 3 + 2 * (2 * epsilon) / 32

    def width(gap):
        """u ≤ ε_l/6 + Δ̂_{l−1}/64 (Lemma `control_of_UCB`), where Δ̂_{l−1} ≤ 2ε_{l−1} + 5Δ/4."""
        return epsilon / 6 + (4 * epsilon + 5 / 4 * gap) / 64

    def chosen(gap):
        """Whether argmin Δ̂ + u may be a policy of this gap: its estimate low by 2u, that of the best policy high."""
        return gap - 2 * width(gap) + width(gap) <= 2 * width(0.0) + width(0.0)

    assert printed == pytest.approx(11 / 24)
    gaps = np.linspace(0.0, 2.0, 2001)
    worst = max(gap for gap in gaps if chosen(gap))
    assert printed < 0.93 < worst < 0.936 <= epsilon

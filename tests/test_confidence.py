"""Splits, radii, sample sizes and the theorems' constants, each against an independent computation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from pacbandits.confidence import (
    CODA_BEST_GAP,
    CODA_FACTOR,
    CODA_ORACLE_BEST_GAP,
    CODA_ORACLE_GAMMA_WEIGHT,
    CODA_ORACLE_SLOPE,
    CODA_ORACLE_THEOREM_FACTOR,
    CODA_SLOPE,
    CODA_THEOREM_FACTOR,
    CODA_WIDTH_WEIGHT,
    COMMON_GAMMA_SLOPE,
    COMMON_GAMMA_THEOREM_FACTOR,
    ELIMINATION_FACTOR,
    RAGE_FREE_BEST_GAP,
    RAGE_FREE_FACTOR,
    RAGE_FREE_SLOPE,
    RAGE_FREE_THEOREM_FACTOR,
    RAGE_THEOREM_FACTOR,
    best_gamma,
    best_share,
    catoni_scale,
    check_noise,
    common_gamma,
    elimination_samples,
    ellipsoid_price,
    ratio_samples,
    regularised_radius,
    residual_bound,
    round_confidence,
    round_epsilon,
    round_gamma,
    rounds_needed,
    self_normalised_bound,
    theorem_samples,
    whole_samples,
    withdrawal_part,
)
from pacbandits.errors import InputError
from pacbandits.problems import Gaussian, load_problem
from pacbandits.records import RewardBounds
from pacbandits.simulation import run
from tests.paper.catoni import catoni_radius

positive = st.floats(1e-3, 1e3)


@given(variance=positive, confidence=st.floats(0.1, 60), factor=st.floats(4, 1e6))
def test_the_scale_and_the_radius_satisfy_catonis_condition(variance, confidence, factor):
    """B(θ) = μ − θ + (α/2)(v + (μ − θ)²) + L/(αn) is an upper confidence bound of the influence, for every θ.

    So θ̂ − μ is at most its smaller root η, which exists when α²v + 2L/n ≤ 1 (Catoni 2012, Proposition 2.4).
    """
    n = math.ceil(factor * confidence)
    (alpha,) = catoni_scale(np.array([variance]), samples=n, confidence=confidence)
    (radius,) = catoni_radius(np.array([variance]), samples=n, confidence=confidence)
    share = alpha**2 * variance + 2 * confidence / n
    assert share <= 1 + 1e-12
    root = (alpha * variance / 2 + confidence / (alpha * n)) / (0.5 + 0.5 * math.sqrt(max(1 - share, 0.0)))
    assert radius == pytest.approx(root, rel=1e-6)
    bound = -radius + alpha / 2 * (variance + radius**2) + confidence / (alpha * n)
    assert bound == pytest.approx(0, abs=1e-6 * radius)
    # No other α does better.
    for other in (0.5 * alpha, 0.9 * alpha, 1.1 * alpha, 2 * alpha):
        left = 1 - other**2 * variance - 2 * confidence / n
        if left >= 0:
            theirs = (other * variance / 2 + confidence / (other * n)) / (0.5 + 0.5 * math.sqrt(left))
            assert theirs >= root * (1 - 1e-6)


def test_too_few_samples_have_no_radius():
    v = np.array([1.0, 2.0])
    # With n < 4L the scale is that of n = 4L: α² = 1/(4v); no radius is claimed for it.
    for n in (1, 5, 10, 11, 19):
        assert np.isinf(catoni_radius(v, samples=n, confidence=5.0)).all()
        assert np.allclose(catoni_scale(v, samples=n, confidence=5.0) ** 2, 1 / (4 * v))
    assert np.isfinite(catoni_radius(v, samples=20, confidence=5.0)).all()
    assert np.allclose(catoni_scale(v, samples=20, confidence=5.0) ** 2, 1 / (4 * v))
    assert catoni_scale(np.array([0.0]), samples=100, confidence=1.0) == 0.0


@given(variance=positive, samples=st.integers(1, 10**9), confidence=st.floats(0.1, 60))
def test_the_best_gamma_is_best(variance, samples, confidence):
    v = np.array([variance])
    gamma = best_gamma(v, samples=samples, confidence=confidence)
    least = regularised_radius(gamma, v, samples=samples, confidence=confidence)
    assert least == pytest.approx(4 * math.sqrt(variance * confidence / samples))
    for factor in (0.5, 0.99, 1.01, 2.0):
        assert regularised_radius(factor * gamma, v, samples=samples, confidence=confidence) >= least * (1 - 1e-12)
    assert regularised_radius(np.array([np.inf]), np.zeros(1), samples=samples, confidence=confidence) == 0.0
    assert np.isinf(best_gamma(np.zeros(1), samples=samples, confidence=confidence)).all()


@given(epsilon=st.floats(1e-3, 0.5), gap=st.floats(0, 1), variance=positive, confidence=st.floats(1, 50))
def test_sample_sizes_give_the_widths_that_the_proofs_need(epsilon, gap, variance, confidence):
    """Each n is the least one (up to rounding) for which the algorithm's condition on the width holds."""

    def width(n):
        (gamma,) = best_gamma(np.array([variance]), samples=n, confidence=confidence)
        return CODA_WIDTH_WEIGHT * (gamma * variance + confidence / (gamma * n)) - CODA_SLOPE * gap

    value = variance / (epsilon + CODA_SLOPE * gap) ** 2
    n = ratio_samples(value, factor=CODA_FACTOR, confidence=confidence, second_moment=1.0, scale=1.0)
    assert width(n) <= epsilon * (1 + 1e-9)
    assert n == 1 or width(n - 1) > epsilon * (1 - 1e-9)
    # The same with one γ for all.
    linear = variance / (epsilon * (epsilon + COMMON_GAMMA_SLOPE * gap))
    n = ratio_samples(linear, factor=CODA_FACTOR, confidence=confidence, second_moment=1.0, scale=1.0)
    gamma = common_gamma(epsilon, samples=n, confidence=confidence)
    assert CODA_WIDTH_WEIGHT * confidence / (gamma * n) == pytest.approx(epsilon / 2)
    assert CODA_WIDTH_WEIGHT * (gamma * variance + confidence / (gamma * n)) <= epsilon + CODA_SLOPE * gap + 1e-9
    # −Δ̂/4 + 28 √(2 s² V L/n) ≤ ε.
    value = variance / (epsilon + RAGE_FREE_SLOPE * gap) ** 2
    n = ratio_samples(value, factor=RAGE_FREE_FACTOR, confidence=confidence, second_moment=1.7, scale=1.0)
    assert 28 * math.sqrt(2 * 1.7 * variance * confidence / n) <= epsilon + RAGE_FREE_SLOPE * gap + 1e-9
    # Elimination: Catoni's radius is at most ε, as soon as it is meant to hold at all.
    n = elimination_samples(variance, epsilon=epsilon, confidence=confidence, second_moment=1.7, scale=1.0)
    if n >= 4 * confidence:
        assert catoni_radius(np.array([1.7 * variance]), samples=n, confidence=confidence) <= epsilon * (1 + 1e-9)
    else:
        # Then ρ < ε²/s², and as ρ ≥ 4 P(π ≠ π') a lead cut to ± P errs by at most 2P ≤ ε.
        assert variance / 2 <= epsilon


def test_sample_sizes_are_at_least_1_and_scale():
    for scale in (1.0, 0.015625, 5.0):
        assert elimination_samples(0.0, epsilon=0.5, confidence=3.0, second_moment=1.0, scale=scale) == 1
        n = elimination_samples(10.25, epsilon=0.125, confidence=3.0, second_moment=2.0, scale=scale)
        assert n == math.ceil(scale * 4 * 2 * 10.25 * 3 * 64)
        n = ratio_samples(7.5, factor=256.0, confidence=2.0, second_moment=1.0, scale=scale)
        assert n == math.ceil(scale * 256 * 2 * 7.5)


@pytest.mark.first(5)
@pytest.mark.parametrize("noise", ["bernoulli", "gaussian,variance=0.5"])
@pytest.mark.parametrize("scale", [1.0, 0.03])
@pytest.mark.parametrize("algorithm", ["rage", "rage-free", "coda-paper"])
def test_runs_use_these_sample_sizes(algorithm, scale, noise):
    """Every round's samples, recomputed from the round's own figures and δ_l."""
    if algorithm == "coda-paper" and noise != "bernoulli":
        return
    problem = load_problem(f"random:policies=9,contexts=4,actions=3,seed=2,noise={noise}")
    second = 1.0 if noise == "bernoulli" else 1.5
    scale *= 1.0 if noise == "bernoulli" else 0.1
    done = run(problem, algorithm=algorithm, epsilon=0.2, delta=0.07, rng=1, scale=scale)
    assert done.rounds == len(done.history) >= 1
    for number, figures in enumerate(done.history, start=1):
        delta_l = 3 * 0.07 / (math.pi**2 * number**2 * 9**2)
        if algorithm == "rage":
            n = 4 * second * figures["rho"] / 0.5 ** (2 * number) * math.log(1 / delta_l)
        else:
            factor = {"rage-free": 2 * 28**2 * second, "coda-paper": 16**2}[algorithm]
            n = factor * figures["ratio"] * math.log(1 / delta_l)
        assert figures["round"] == number
        assert figures["epsilon"] == 0.5**number
        assert abs(figures["samples"] - max(1, math.ceil(scale * n))) <= max(1, 1e-9 * n)
    assert done.samples == sum(figures["samples"] for figures in done.history)


def test_the_one_gamma_sizes_in_a_run():
    problem = load_problem("trivial:contexts=3,actions=3,seed=2")
    done = run(problem, algorithm="coda-common-gamma", epsilon=0.3, delta=0.07, rng=1)
    for number, figures in enumerate(done.history, start=1):
        confidence = math.log(math.pi**2 * number**2 * 27**2 / (3 * 0.07))
        assert figures["samples"] == pytest.approx(256 * figures["ratio"] * confidence, abs=1, rel=1e-9)
        assert figures["gamma"] == pytest.approx(16 * confidence / (figures["samples"] * 0.5**number))


def test_the_sizes_through_oracles_in_a_run():
    problem = load_problem("trivial:contexts=3,actions=3,seed=2")
    done = run(problem, algorithm="coda-oracle", epsilon=0.3, delta=0.07, rng=1)
    for number, figures in enumerate(done.history, start=1):
        confidence = math.log(math.pi**2 * number**2 * 27 / (3 * 0.07))
        assert figures["samples"] == pytest.approx(256 * figures["ratio"] * confidence, abs=1, rel=1e-9)
        assert figures["gamma"] == pytest.approx(8 * confidence / (figures["samples"] * 0.5**number))


def test_the_split_of_delta():
    assert round_confidence(0.1, round_number=1, log_size=0.0) == pytest.approx(math.log(math.pi**2 / 0.3))
    assert round_confidence(0.1, round_number=3, log_size=math.log(7)) == pytest.approx(
        -math.log(3 * 0.1 / (math.pi**2 * 9 * 49))
    )


X = np.concatenate([np.linspace(0, 50, 200_001), 10.0 ** np.linspace(1, 9, 10_000)])  # Δ/ε_l


def test_theorem_constants_are_what_the_lemmas_give():
    """V_{π,q} ≤ 2ρ(max(Δ, ε_l)² + 4ε_l²) over the denominator with the least Δ̂ the lemmas allow, on a grid of Δ/ε_l."""
    least = np.maximum(0, 0.75 * X - 4)  # Δ̂/ε_l ≥ (3Δ/4 − 2ε_{l−1})/ε_l
    above = 2 * (np.maximum(X, 1) ** 2 + 4)
    rage_free = RAGE_FREE_FACTOR * (above / (1 + RAGE_FREE_SLOPE * least) ** 2).max()
    assert rage_free == pytest.approx(RAGE_FREE_THEOREM_FACTOR, rel=1e-4)
    coda = CODA_FACTOR * (above / (1 + CODA_SLOPE * least) ** 2).max()
    assert coda == pytest.approx(CODA_THEOREM_FACTOR, rel=1e-4)
    assert coda <= CODA_THEOREM_FACTOR * (1 + 1e-12)
    common = CODA_FACTOR * (2 * (np.maximum(X, 1) + 2) / (1 + COMMON_GAMMA_SLOPE * least)).max()
    assert common == pytest.approx(COMMON_GAMMA_THEOREM_FACTOR, rel=1e-4)
    # Through oracles: V_{π,q} ≤ V_{π,π*} + V_{q,π*}, and Δ̂ ≥ Δ − ε_{l−1}.
    oracle = CODA_FACTOR * ((np.maximum(X, 1) ** 2 + 4) / (1 + CODA_ORACLE_SLOPE * np.maximum(0, X - 2)) ** 2).max()
    assert oracle == pytest.approx(CODA_ORACLE_THEOREM_FACTOR, rel=1e-9)
    # Elimination: gaps of at most 2ε_{l−1} = 4ε_l, and V_{π,π'} ≤ 2V_{π,π*} + 2V_{π',π*}.
    alive = X[X <= 4]
    assert ELIMINATION_FACTOR * (4 * np.maximum(alive, 1) ** 2).max() == pytest.approx(RAGE_THEOREM_FACTOR)


@pytest.mark.parametrize("algorithm", ["rage-free", "coda", "common"])
def test_the_induction_of_the_lemmas_closes(algorithm):
    """If |Δ̂_{l−1} − Δ| ≤ 2ε_{l−1} + Δ/4 then π̂_l is ε_l-good and the same holds of Δ̂_l, on a grid of Δ/ε_l."""
    upper = 1.25 * X + 4  # the most that Δ̂_{l−1}/ε_l can be
    if algorithm == "rage-free":
        # Catoni's radius with n − 2L ≥ n/2, and a selection by the estimate alone.
        error = math.sqrt(4 / RAGE_FREE_FACTOR) * (1 + RAGE_FREE_SLOPE * upper)
        chosen = error + error[0]
    else:
        width = (1 + CODA_SLOPE * upper) / CODA_WIDTH_WEIGHT
        error = 2 * width
        chosen = width + 3 * width[0] if algorithm == "coda" else error + error[0]
    # A policy can be chosen only if its gap is at most `chosen`; all such gaps are at most ε_l.
    possible = X[chosen >= X]
    assert possible.max() <= 1
    worst = error[possible.argmax()]
    assert (error + worst + possible.max() <= 2 + X / 4).all()


def test_the_induction_through_oracles_closes():
    """If a best policy has Δ̂_{l−1} ≤ ε_{l−1} = 2ε_l, then 4u ≤ ε_l: π̂_l is ε_l-good, and Δ̂_l ≤ ε_l of that policy."""
    variance = (1 + CODA_ORACLE_SLOPE * 2 * CODA_ORACLE_BEST_GAP) ** 2 / CODA_FACTOR  # V L/(n ε_l²)
    width = CODA_ORACLE_GAMMA_WEIGHT * variance + 1 / CODA_ORACLE_GAMMA_WEIGHT
    assert 4 * width == pytest.approx(1.0)
    assert 4 * width <= CODA_ORACLE_BEST_GAP
    gamma = round_gamma(0.25, samples=1000, confidence=7.0)
    assert 7.0 / (gamma * 1000) == pytest.approx(0.25 / CODA_ORACLE_GAMMA_WEIGHT)


@pytest.mark.parametrize("algorithm", ["rage-free", "coda", "common"])
def test_no_best_policy_has_a_larger_gap_than_the_rule_allows(algorithm):
    """Δ̂_l of a best policy is its own error and that of π̂_l, less Δ(π̂_l), for every Δ(π̂_l) ≤ ε_l."""
    chosen = X[X <= 1]
    upper = 1.25 * chosen + 4
    if algorithm == "rage-free":
        error, most = math.sqrt(4 / RAGE_FREE_FACTOR) * (1 + RAGE_FREE_SLOPE * upper), RAGE_FREE_BEST_GAP
    else:
        guard = 4 / 3 if algorithm == "coda" else 1.0  # FW-GD's designs deliver 4ε_l/3 + Δ̂/8
        error, most = 2 * (guard + CODA_SLOPE * upper) / CODA_WIDTH_WEIGHT, CODA_BEST_GAP
    assert (error[0] + error - chosen).max() <= most * (1 + 1e-9)
    if algorithm != "common":
        assert (error[0] + error - chosen).max() == pytest.approx(most)


def test_theorem_samples_adds_up_rounds():
    got = theorem_samples([2.0, 5.0], constant=10.0, delta=0.1, log_size=1.0, second_moment=1.5)
    expected = sum(
        10 * 1.5 * rho * round_confidence(0.1, round_number=number, log_size=1.0) + 1
        for number, rho in ((1, 2.0), (2, 5.0))
    )
    assert got == pytest.approx(expected)
    assert theorem_samples([], constant=10.0, delta=0.1, log_size=1.0, second_moment=1.0) == 0


@pytest.mark.parametrize("n", [math.inf, math.nan])
def test_infinitely_many_samples_are_refused_in_words(n):
    with pytest.raises(InputError, match="would need infinitely many interactions; take a larger epsilon"):
        whole_samples(n)
    with pytest.raises(InputError, match="infinitely many"):
        elimination_samples(1e10, epsilon=0.5, confidence=3.0, second_moment=1.0, scale=1e308)
    with pytest.raises(InputError, match="infinitely many"):
        ratio_samples(1e10, factor=256.0, confidence=3.0, second_moment=1.0, scale=1e308)
    assert [whole_samples(x) for x in (0.0, 1.0, 1.5, 2.0**70)] == [1, 1, 2, 2**70]


def test_the_self_normalised_bound_is_exceeded_about_as_often_as_delta_says():
    """One feature and normal noise, where the bound is Ville's for a martingale: at moments that grow by 2 %, over
    sums of up to 10⁷ rows, it is ever exceeded with probability δ at most, and not much less."""
    runs, delta, noise, prior = 1500, 0.3, 2.25, 10.0
    looks = np.unique((1.02 ** np.arange(820)).astype(np.int64))
    rng = np.random.default_rng(4)
    steps = rng.standard_normal((runs, len(looks))) * np.sqrt(noise * np.diff(looks, prepend=0))
    limits = [
        self_normalised_bound(np.array([[float(n)]]), np.array([[prior]]), noise=noise, delta=delta) for n in looks
    ]
    ever = (steps.cumsum(axis=1) ** 2 / (looks + prior) > limits).any(axis=1).sum()
    assert binom.ppf(1e-6, runs, 0.5 * delta) <= ever <= binom.ppf(1 - 1e-6, runs, delta)


def test_the_price_of_an_ellipsoid_is_its_bound():
    """Where Λ = cV, `‖V⁻¹x‖²_{V + Λ}` times the bound is 2R² times the price times `‖x‖²_{V⁻¹}`."""
    dimension, share, delta, noise = 3, 0.4, 0.05, 0.25
    information = np.diag([2.0, 5.0, 11.0])
    bound = self_normalised_bound(information, share * information, noise=noise, delta=delta)
    assert (1 + share) * bound == pytest.approx(2 * noise * ellipsoid_price(dimension, share=share, delta=delta))
    best = best_share(dimension, delta=delta)
    prices = [ellipsoid_price(dimension, share=c, delta=delta) for c in np.geomspace(0.01, 20, 400)]
    assert ellipsoid_price(dimension, share=best, delta=delta) <= min(prices) * 1.001


def test_rounds_needed():
    assert [rounds_needed(epsilon) for epsilon in (0.5, 0.25, 0.125, 2.0**-40)] == [1, 2, 3, 40]
    assert [rounds_needed(epsilon) for epsilon in (1.0, 1.5, 1e9)] == [0, 0, 0]
    assert [rounds_needed(epsilon) for epsilon in (0.999, 0.51, 0.49, 0.26, 0.24)] == [1, 1, 2, 2, 3]
    assert round_epsilon(3) == 0.125


@given(epsilon=st.floats(1e-9, 2))
def test_the_last_round_is_fine_enough_and_the_one_before_is_not(epsilon):
    rounds = rounds_needed(epsilon)
    assert round_epsilon(rounds) <= epsilon * (1 + 1e-11)
    assert rounds == 0 or round_epsilon(rounds - 1) > epsilon


def test_residuals_exceed_their_bound_as_seldom_as_it_says():
    """For normal noise the sum of squares is χ²; all n together cost α, and with many n the bound is all but exact."""
    alpha, noise = 0.01, 0.3
    counts = np.concatenate([np.arange(1, 2000), np.geomspace(2000, 10**9, 200).astype(np.int64)])
    bounds = np.array([residual_bound(int(n), noise=noise, alpha=alpha) for n in counts]) / noise
    counts = counts.astype(np.float64)
    each = alpha / (counts * (counts + 1))
    assert (chi2.sf(bounds, counts) <= each).all()
    ratio = bounds / chi2.isf(each, counts)
    assert ratio.max() < 2.1
    assert ratio[counts > 1000].max() < 1.03
    two_sided = np.full(10**4, np.sqrt(noise))  # the noise of that proxy with the largest squares: a coin
    assert (two_sided**2).sum() < residual_bound(len(two_sided), noise=noise, alpha=0.5)


@pytest.mark.parametrize("variance", [1e308, 1e-300, -1.0, math.nan, math.inf])
def test_noise_that_cannot_be_computed_with_is_refused(variance):
    for make in (check_noise, lambda own: RewardBounds(in_unit=False, proxy=own), Gaussian):
        with pytest.raises(InputError, match=r"0 or between|0 or more|negative|finite"):
            make(variance)
    assert check_noise(0.0) == 0.0


@pytest.mark.parametrize("n_actions", [2, 3, 5, 12])
def test_all_sets_of_withdrawn_actions_share_what_there_is(n_actions):
    whole = sum(math.comb(n_actions, k) * withdrawal_part(n_actions, k) for k in range(n_actions))
    assert 0.9 < whole <= 1.0
    assert withdrawal_part(n_actions, 0) == 0.9
    assert withdrawal_part(n_actions, 1) == pytest.approx(0.05 / n_actions)
    for k in (n_actions, -1):
        with pytest.raises(InputError, match="can be withdrawn"):
            withdrawal_part(n_actions, k)

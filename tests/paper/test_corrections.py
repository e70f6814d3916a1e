"""Where the paper's text cannot be implemented as printed: a witness for each row of docs/corrections.md we use."""

from __future__ import annotations

import math

import numpy as np
import pytest

from instances import make_instance
from pacbandits.complexity import measure_gaps, measure_rho
from pacbandits.complexity.lower_bounds import (
    least_divergence,
    low_regret_bound,
    lower_bound,
    paper_lower_bound,
    trivial_minimax_bound,
    trivial_sum,
)
from pacbandits.confidence import round_confidence
from pacbandits.design import Objective
from pacbandits.policies.finite import Finite
from pacbandits.problems import load_problem
from pacbandits.records import Contexts


def test_row_5_unit_noise_doubles_the_second_moment():
    """Cov(O) = A⁻¹ needs E[r² | c, a] ≤ 1. With mean 1 and unit noise E r² = 2, and the variance is nearly twice V."""
    rng = np.random.default_rng(5)
    n, n_actions = 400_000, 20
    actions = rng.integers(0, n_actions, size=n)
    rewards = 1.0 + rng.standard_normal(n)
    difference = n_actions * rewards * ((actions == 0).astype(float) - (actions == 1))
    objective = Objective(np.zeros(1, dtype=np.int64), np.ones(1), np.ones((1, n_actions)))
    v = objective.costs(np.full((1, n_actions), 1 / n_actions))[0, 1]  # always 1 against always 0
    assert v == pytest.approx(2 * n_actions)
    spread = difference.var()
    error = 4 * difference.var() * math.sqrt(2 * n_actions / n)  # generous: heavy but bounded weights
    assert spread == pytest.approx(2 * v, abs=error)
    assert spread > 1.5 * v


@pytest.mark.thorough
def test_row_6_the_split_of_delta():
    """What each algorithm prints, summed over what its proof asks for, exceeds δ; ours, over rounds, pairs and both
    sides, adds up to δ."""
    delta, log_size = 0.1, math.log(50)
    rounds = np.arange(1, 200_001)
    elimination = free = delta / (2 * rounds**2 * 50)
    coda = delta / (rounds**2 * 50**2)
    # Algorithm 1 compares with π* alone: |Π| once is enough for one side, not for both.
    assert (50 * elimination).sum() < delta < 1.6 * delta < (2 * 50 * elimination).sum()
    assert (50**2 * free).sum() > 0.8 * 50 * delta  # Algorithm 2 has the same δ_l for all pairs
    assert (50**2 * coda).sum() > 1.6 * delta  # CODA counts pairs, but Σ 1/l² is not 1, and there are two sides
    split = np.array([round_confidence(delta, round_number=int(n), log_size=log_size) for n in rounds])
    total = (2 * 50**2 * np.exp(-split)).sum()
    assert total <= delta
    assert total == pytest.approx(delta, rel=1e-4)  # and no more is given away than the tail of the series


@pytest.mark.parametrize(("m", "gap"), [(3, 1.0), (10, 0.5), (50, 1.0)])
def test_row_12_hard_instance_is_twice_as_hard(m, gap):
    problem = load_problem(f"hard:m={m},gap={gap}")
    gaps = measure_gaps(problem, problem.policies)
    rho = measure_rho(problem.policies, problem.population, gaps, epsilon=0.0)
    assert rho.lower > 1.99 * m / gap**2  # as printed: m/Δ²
    assert rho.upper == pytest.approx(2 * m / gap**2, rel=1e-6)


def test_row_13_the_lower_bound_may_be_doubled():
    """True as printed, but weak by a factor of 2.

    For one context and two actions with unit noise, ρ = 4/Δ², and the divergence of n samples at p = 1/2 from the
    nearest instance where the other action is best is nΔ²/8: so n ≥ (8/Δ²) log(1/2.4δ) = 2ρ log(1/2.4δ).
    """
    gap, delta = 0.3, 0.05
    rewards = np.array([[gap, 0.0]])
    nearest = np.array([[gap / 2, gap / 2]])
    divergence = (0.5 * (rewards - nearest) ** 2 / 2).sum()
    assert divergence == pytest.approx(gap**2 / 8)
    needed = least_divergence(delta) / divergence
    rho = 4 / gap**2
    assert needed == pytest.approx(lower_bound(rho, delta=delta))
    assert needed == pytest.approx(2 * paper_lower_bound(rho, delta=delta))


def test_row_15_the_least_policy_gap_is_not_the_least_reward_gap():
    """It lacks ν_c, and single-context deviations may not be in Π at all."""
    weights = np.array([0.9, 0.1])
    rewards = np.array([[0.8, 0.3], [0.2, 0.6]])

    class Truth:
        population = Contexts.finite(2, weights=weights)
        mean_rewards = rewards
        noise_variance = np.ones((2, 2))

    least_reward_gap = 0.4
    with_deviations = measure_gaps(Truth(), Finite([[0, 1], [0, 0], [1, 1]], n_actions=2))
    assert with_deviations.minimum == pytest.approx(0.1 * 0.4)
    without = measure_gaps(Truth(), Finite([[0, 1], [1, 0]], n_actions=2))
    assert without.minimum == pytest.approx(0.9 * 0.5 + 0.1 * 0.4)
    assert with_deviations.minimum < least_reward_gap < without.minimum


def test_row_16_sums_and_minima_leave_out_the_best_action():
    """Over all actions Δ_uniform is always 0 and the trivial-class sum always infinite; ours are neither."""
    instance = make_instance(16, n_contexts=4, n_actions=3, awkward=False)
    rewards, weights = instance.mean_rewards, instance.population.weights
    by_action = rewards.max(axis=1, keepdims=True) - rewards
    assert by_action.min() == 0.0
    with np.errstate(divide="ignore"):
        assert np.isinf((by_action**-2.0).sum(axis=1)).all()
    assert np.isfinite(trivial_sum(by_action, weights))

    class Truth:
        population = instance.population
        mean_rewards = rewards
        noise_variance = instance.noise_variance

    from pacbandits.policies.finite import Trivial

    assert measure_gaps(Truth(), Trivial(4, 3)).uniform == pytest.approx(np.sort(by_action, axis=1)[:, 1].min())


def test_row_19_the_low_regret_bound_has_eight():
    """From log(1/2.4δ) ≤ 2Δ²·(1/(mΔ))·√(α|A|τ) with |A| = 2 follows τ ≥ m²Δ⁻² log²(1/2.4δ)/(8α), not 4α."""
    m, gap, delta = 20, 0.5, 0.01
    alpha = math.log(m)
    tau = low_regret_bound(m, gap=gap, delta=delta)
    assert 2 * gap**2 / (m * gap) * math.sqrt(alpha * 2 * tau) == pytest.approx(least_divergence(delta))
    printed = m**2 / gap**2 * least_divergence(delta) ** 2 / (4 * alpha)
    assert 2 * gap**2 / (m * gap) * math.sqrt(alpha * 2 * printed) > 1.4 * least_divergence(delta)


def test_row_20_the_alternative_of_the_low_regret_proof_only_ties():
    """Raising r(c̄, 1) to 2Δ makes π_c̄ as good as π_1, not better; any amount above 2Δ does."""
    m, gap = 6, 0.4
    problem = load_problem(f"hard:m={m},gap={gap}")
    policies = problem.policies
    assert isinstance(policies, Finite)
    for raised, better in ((2 * gap, False), (2 * gap + 1e-6, True)):
        rewards = problem.mean_rewards.copy()
        rewards[3, 1] = raised
        values = np.array([rewards[np.arange(m), row].mean() for row in policies.table])
        assert (values[3] > values[0] + 1e-12) is np.True_ if better else values[3] == pytest.approx(values[0])


def test_row_23_the_constant_of_the_trivial_minimax_bound():
    """E T ≥ 2 kl(p, 1/2)/(α²ε²) for each wrong action, with the p = 5/8 and α = 8 that the proof's first half needs."""

    def divergence(p):
        return p * math.log(p / 0.5) + (1 - p) * math.log((1 - p) / 0.5)

    p, alpha, epsilon = 5 / 8, 8, 0.1
    assert p / (1 - 1 / alpha - 1 / 8) == pytest.approx(5 / 6)  # the first half: δ < 1/6 then rules it out
    assert divergence(5 / 6) >= 1 / 10 > divergence(p)  # the second half speaks of another p
    per_action = 2 * divergence(p) / (alpha * epsilon) ** 2
    printed = trivial_minimax_bound(n_contexts=50, n_actions=10, epsilon=epsilon, delta=0.1)
    assert 50 * 9 * per_action < printed / 500


def test_row_44_an_algorithm_need_not_treat_actions_alike():
    """The proof takes P(π̂(c) = π(c)) ≤ 1/2 where two actions tie, "by the symmetric algorithm assumption"; the theorem
    speaks of any algorithm. One that prefers the first of two close ones answers it with probability 0.98. If actions
    are relabelled at random before it plays, that is 1/2, with the same samples. And the proof asks for δ < 1/8 where
    the theorem has δ < 1/6, which is all that its 5/6 needs."""
    rng = np.random.default_rng(44)
    plays, runs, margin = 100, 4000, 0.3

    def answers(means, *, relabel):
        """The action answered in each run: the first shown, unless the second has earned more by the margin."""
        earned = np.array(means) + rng.normal(size=(runs, 2)) / math.sqrt(plays)
        swapped = rng.random(runs) < 0.5 if relabel else np.zeros(runs, dtype=bool)
        shown = np.where(swapped[:, None], earned[:, ::-1], earned)
        return (shown[:, 1] > shown[:, 0] + margin) ^ swapped

    assert (answers((0.5, 0.5), relabel=False) == 0).mean() > 0.97
    assert (answers((0.5, 0.5), relabel=True) == 0).mean() == pytest.approx(0.5, abs=0.03)
    # The error after relabelling is the mean of those on an instance and on its relabelled copy: at most the worst.
    errors = [answers((1.0, 0.5), relabel=False).mean(), 1 - answers((0.5, 1.0), relabel=False).mean()]
    assert answers((1.0, 0.5), relabel=True).mean() == pytest.approx(sum(errors) / 2, abs=0.03)
    assert 1 - 1 / 8 > 1 - 1 / 6 >= 5 / 6

"""The lower bound for Bernoulli rewards: a theorem by an independent solver, and in data."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import betaln, xlogy
from scipy.stats import binom

from instances import make_instance
from pacbandits import Trivial, load_problem, measure
from pacbandits.complexity import Law, measure_gaps, measure_rho
from pacbandits.complexity.gaps import has_unit_noise, law_of
from pacbandits.complexity.lower_bounds import (
    coin_lower_bound,
    kl_of_flips,
    least_coin_divergence,
    least_divergence,
    lower_means,
    paper_lower_bound,
    raise_means,
)
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Gaussian, Problem
from pacbandits.problems.noise import Beta
from pacbandits.records import Contexts


def flipped(instance):
    """The problem of an instance whose rewards are coin flips."""
    return Problem("coins", "Coin flips.", instance.population, instance.mean_rewards, Bernoulli(), instance.policies)


def nearest(problem, row, best, propensities, epsilon):
    """min Σ ν p kl(r, r') over instances on which a policy leads the best one by ε, by a conic solver."""
    weights, means = problem.population.weights, problem.mean_rewards
    differ = np.flatnonzero((row != best) & (weights > 0))
    up, down = cp.Variable(len(differ)), cp.Variable(len(differ))
    cost = 0
    for x, actions in ((up, row), (down, best)):
        r = means[differ, actions[differ]]
        w = weights[differ] * propensities[differ, actions[differ]]
        cost += cp.sum(cp.multiply(w, -cp.multiply(r, cp.log(x)) - cp.multiply(1 - r, cp.log(1 - x))))
        cost += float(w @ (xlogy(r, r) + xlogy(1 - r, 1 - r)))
    task = cp.Problem(cp.Minimize(cost), [weights[differ] @ (up - down) >= epsilon])
    return task.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("means", [0.0, 1e-9, 0.3, 1.0])
@pytest.mark.parametrize("strength", [1e-12, 0.5, 1.0, 3.0, 1e12])
def test_means_are_moved_by_their_equation(means, strength):
    r, m = np.array([means]), np.array([strength])
    up, down = raise_means(r, m), lower_means(r, m)
    assert 0 <= down[0] <= r[0] <= up[0] <= 1
    assert up - r == pytest.approx(m * up * (1 - up), rel=1e-5, abs=1e-7 * max(strength, 1))
    assert r - down == pytest.approx(m * down * (1 - down), rel=1e-5, abs=1e-7 * max(strength, 1))


@pytest.mark.thorough
@pytest.mark.parametrize(("seed", "share"), [(0, 0.0), (1, 0.5)])
def test_no_design_tells_the_answers_apart_sooner(seed, share):
    """Whatever the design, the nearest alternative is no farther than D: so no design needs fewer than log(1/2.4δ)/D.
    And some design comes near: D is not so large that the bound says nothing."""
    problem = flipped(make_instance(seed, n_policies=5, n_contexts=3, n_actions=3, awkward=False))
    gaps = measure_gaps(problem, problem.policies)
    epsilon = share * gaps.minimum
    designs = tuple(
        measure_rho(problem.policies, problem.population, gaps, epsilon=0.0, noise=noise).design
        for noise in (None, problem.noise_variance)
    )
    least = least_coin_divergence(problem, problem.policies, gaps, epsilon=epsilon, designs=designs)
    rivals = [row for row in problem.policies.table if (row != gaps.best_actions).any()]
    rng = np.random.default_rng(seed)
    tried = [rng.dirichlet(np.ones(3), size=3) for _ in range(2)]
    tried += [
        0.95 * design.propensities(problem.population, noise=problem.noise_variance) + 0.05 / 3 for design in designs
    ]
    reached = [min(nearest(problem, row, gaps.best_actions, p, epsilon) for row in rivals) for p in tried]
    assert max(reached) <= least * (1 + 1e-5)
    assert max(reached) > 0.6 * least


def test_sure_coins_ties_and_lone_policies():
    """Rewards of 0 and 1 alone carry no noise, but a learner does not know that; a tie is never settled; one policy is
    known beforehand."""
    problem = load_problem("hard:m=6,noise=bernoulli")
    sure = measure(problem, problem.policies, epsilon=0.0, delta=0.05)
    assert sure.rho_sigma_upper == 0
    # π_1 and π_i differ on two of the six contexts, four cells: to tie, two means of each must meet half-way at p = ½.
    assert sure.lower_bound == pytest.approx(least_divergence(0.05) / (2 / 6 * math.log(2)), rel=0.02)
    tied = Problem("tie", "A tie.", Contexts.finite(1), [[0.5, 0.5]], Bernoulli(), Finite([[0], [1]], n_actions=2))
    assert measure(tied, tied.policies, epsilon=0.0, delta=0.05).lower_bound == math.inf
    assert measure(tied, tied.policies, epsilon=0.0, delta=0.45).lower_bound == 0.0
    assert measure(tied, Finite([[1]], n_actions=2), epsilon=0.0, delta=0.05).lower_bound == 0.0
    gaps = measure_gaps(problem, Trivial(6, 2))
    assert least_coin_divergence(problem, Trivial(6, 2), gaps, epsilon=0.0, designs=()) is None


def test_printed_bounds_are_shown_for_the_papers_noise_alone():
    """Theorems `lower_bound`, `trivial-class-lower` and `inefficient-low-regret` are about unit Gaussian noise."""
    shown = {}
    for noise in (Gaussian(1.0), Gaussian(0.25), Bernoulli(), Beta(0.5)):
        base = load_problem("hard:m=4,gap=0.5")
        problem = Problem("hard", "Hard.", base.population, base.mean_rewards, noise, base.policies)
        listed = measure(problem, problem.policies, epsilon=0.0, delta=0.05)
        every = measure(problem, Trivial(4, 2), epsilon=0.0, delta=0.05)
        shown[noise] = (listed.lower_bound_paper, every.trivial_lower_bound, listed.low_regret_bound)
        for name in ("lower_bound_paper", "low_regret_bound"):
            assert (getattr(listed, name) is None) == (name in listed.notes)
        assert (listed.lower_bound is None) == (law_of(problem) is Law.OTHER) == ("lower_bound" in listed.notes)
        assert has_unit_noise(problem) == (shown[noise][0] is not None)
    unit, *others = shown.values()
    assert None not in unit
    assert all(one == (None, None, None) for one in others)


def coin_trial(means, delta, rng, *, runs, most):
    """A correct algorithm for ε = 0 and two coins, flipped in turns: samples (runs,), and whether each was right.

    The flips of a coin are mixed over its mean (Krichevsky and Trofimov). It ends when the mixture is 1/δ times as
    likely as the likeliest means under which the coin that looks worse is as good: that is one mean for both. Mixture
    over truth is a martingale of mean 1, so that P(wrong) ≤ δ by Ville's inequality, whatever the means.
    """
    n = np.arange(1, most + 1)
    ones = np.cumsum(rng.random((runs, 2, most)) < np.array(means)[:, None], axis=2)
    mixed = (betaln(ones + 0.5, n - ones + 0.5) - betaln(0.5, 0.5)).sum(axis=1)
    both = ones.sum(axis=1)
    alike = xlogy(both, both / (2 * n)) + xlogy(2 * n - both, 1 - both / (2 * n))
    ended = mixed - alike >= math.log(1 / delta)
    assert ended.any(axis=1).all(), "more flips are needed"
    pairs = ended.argmax(axis=1)
    last = ones[np.arange(runs), :, pairs]
    return 2 * (pairs + 1), last.argmax(axis=1) == np.argmax(means)


@pytest.mark.thorough
def test_no_bound_on_coin_flips_exceeds_what_a_correct_algorithm_took():
    """Over seeds, the bound shown is below the mean of a correct algorithm; the paper's, for unit noise, is above."""
    delta, runs, wrong, above = 1e-4, 40, 0, 0
    seeds = range(8)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        low = rng.uniform(0.02, 0.15)
        means = rng.permutation([low, low + rng.uniform(0.1, 0.2)])
        problem = Problem(
            "coins", "Two coins.", Contexts.finite(1), means[None, :], Bernoulli(), Finite([[0], [1]], n_actions=2)
        )
        measured = measure(problem, problem.policies, epsilon=0.0, delta=delta)
        taken, right = coin_trial(means, delta, rng, runs=runs, most=4000)
        error = taken.std(ddof=1) / math.sqrt(runs)
        assert measured.lower_bound <= taken.mean() + 4 * error
        assert measured.lower_bound > 0.3 * taken.mean()  # and it says something
        assert measured.lower_bound_paper is None
        above += paper_lower_bound(measured.rho_lower, delta=delta) > taken.mean() + 4 * error
        wrong += int((~right).sum())
    assert above >= 7  # so that the paper's, shown here, would be found out
    assert wrong <= binom.ppf(1 - 1e-6, runs * len(seeds), delta)


def test_the_bound_is_its_formula():
    assert coin_lower_bound(0.01, delta=0.05) == pytest.approx(math.log(1 / 0.12) / 0.01)
    assert coin_lower_bound(0.0, delta=0.05) == math.inf
    assert coin_lower_bound(math.inf, delta=0.05) == coin_lower_bound(0.0, delta=0.5) == 0.0
    assert kl_of_flips(np.array([0.0, 1.0, 0.5]), np.array([0.5, 0.5, 0.5])) == pytest.approx([math.log(2)] * 2 + [0])

"""Where the paper's algorithms cannot be run as printed: a witness for each row of docs/corrections.md they touch."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from tests.paper.catoni import catoni_radius

from pacbandits.confidence import (
    RAGE_FREE_FACTOR,
    RAGE_FREE_SLOPE,
    best_gamma,
    catoni_scale,
    regularised_radius,
    round_confidence,
)
from pacbandits.design import Objective
from pacbandits.paper.coda import CodaPaper
from pacbandits.paper.estimators import Cells, catoni_gaps, catoni_leads, catoni_means, regularised_gaps
from pacbandits.paper.rage import Rage
from pacbandits.paper.rage_free import RageFree
from pacbandits.policies.finite import Finite, sum_scores
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts, Log

RARE = 1e-6


def bandit(means):
    """One context, and a policy for each action."""
    n = len(means)
    return Problem(
        name="bandit",
        description="One context.",
        population=Contexts.finite(1),
        mean_rewards=np.array([means]),
        noise=Bernoulli(),
        policies=Finite(np.arange(n)[:, None], n_actions=n),
    )


def counted_log(propensities, cells):
    """A log with the given rows (context, action, reward, repeats)."""
    contexts, actions, rewards, repeats = (np.array(part) for part in zip(*cells, strict=True))
    return Log.of(
        Contexts.finite(len(propensities)).take(contexts),
        actions=actions,
        rewards=rewards,
        propensities=np.asarray(propensities)[contexts],
        repeats=repeats,
    )


def test_row_1_a_sum_over_samples_is_no_gap():
    """The printed IPS estimator lacks 1/n: its gaps are of size n, and violate even |Δ̂ − Δ| ≤ 2ε_l + Δ/4."""
    problem = bandit([0.7, 0.4, 0.2])
    algorithm = CodaPaper(0.5, 0.1)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    ours = regularised_gaps(Cells.of(log), problem.policies.table, reference=np.array([0]), gamma=np.zeros(3))
    printed = log.samples * ours
    truth = np.array([0.0, 0.3, 0.5])
    assert (np.abs(ours - truth) <= 2 * plan.epsilon + truth / 4).all()
    assert (np.abs(printed[1:]) > 1).all()
    assert (np.abs(printed - truth)[1:] > 100 * (2 * plan.epsilon + truth[1:] / 4)).all()


@pytest.mark.thorough
def test_row_2_the_printed_sample_size_of_elimination_errs_too_often():
    """ρ log(1/δ)/n ≤ ε_l is smaller than the proof's n by 4/ε_l: in round 10 it drops the best policy far more often
    than δ allows, and ours does not."""
    gap, delta, runs = 2.0**-10, 0.1, 100
    problem = bandit([0.5 + gap, 0.5])
    algorithm = Rage(gap, delta)
    state = replace(algorithm.start(problem.policies, problem.population), round_number=9)
    plan = algorithm.design(state)
    assert plan.epsilon == gap
    printed = replace(plan, samples=math.ceil(plan.samples * plan.epsilon / 4))
    rng = np.random.default_rng(2)

    def dropped(which):
        log = problem.interact(which.sampler, samples=which.samples, rng=rng)
        return 0 not in algorithm.absorb(state, which, log).alive

    assert sum(dropped(printed) for _ in range(runs)) > binom.ppf(1 - RARE, runs, delta)
    assert sum(dropped(plan) for _ in range(runs)) <= binom.ppf(1 - RARE, runs, delta)


def test_row_3_the_printed_sign_picks_the_worst_policy():
    """Algorithm 2: argmin of Cat(⟨φ_π − φ_q, O⟩) is the policy of least value; of Cat(⟨φ_q − φ_π, O⟩) the best."""
    problem = bandit([0.5, 0.1, 0.9, 0.6])
    algorithm = RageFree(0.5, 0.1)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    ours = catoni_gaps(Cells.of(log), problem.policies.table, reference=np.array([0]), alpha=np.full(4, 0.01))
    assert int(ours.argmin()) == 2
    assert int((-ours).argmin()) == 1
    assert algorithm.absorb(state, plan, log).policy.to_json() == problem.policies.policy(2).to_json()


@pytest.mark.thorough
def test_row_4_a_policy_defined_by_itself_may_be_any_or_none():
    """π̂_l = argmin_π Δ̂_l(π, π̂_l) asks for a fixed point. Where nothing was earned every policy is one. And as Catoni's
    mean is not linear, each of three policies may be led by another (α differs by pair): none is. Ours needs none."""
    p = np.array([[0.01, 0.002, 0.01, 0.978]])
    table = np.arange(3)[:, None]
    spread = 1 / p[0, :3, None] + 1 / p[0, None, :3]
    alpha = catoni_scale(spread, samples=1000, confidence=250.0)

    def fixed_points(log):
        leads = catoni_leads(Cells.of(log), table, alpha=alpha)
        return [q for q in range(3) if leads[q].min() >= 0]  # Δ̂(π, q), the lead of q over π, is least at q itself

    assert fixed_points(counted_log(p, [(0, a, 0.0, 250) for a in range(4)])) == [0, 1, 2]
    # Few large rewards, some middling, many small: what is rare counts less where α is larger, as for 0 against 2.
    circle = counted_log(p, [(0, 0, 1.0, 10), (0, 1, 0.05, 32), (0, 2, 0.1, 74), (0, 3, 0.0, 884)])
    leads = catoni_leads(Cells.of(circle), table, alpha=alpha)
    assert leads[0, 1] > 0
    assert leads[1, 2] > 0
    assert leads[2, 0] > 0
    assert fixed_points(circle) == []
    for previous in range(3):  # the argmin of Δ̂_l(π, π̂_{l−1}) exists whatever π̂_{l−1} is
        gaps = catoni_gaps(Cells.of(circle), table, reference=table[previous], alpha=alpha[previous])
        assert int(gaps.argmin()) == (previous - 1) % 3


def test_row_14_one_gamma_does_not_fit_another_reference():
    """π differs from q on one person in a million, so its γ is large; π̂ differs from q on all others. Estimated with
    γ_π, the gap of π to π̂ is biased by a quarter, where the printed proof claims 2W_π + 2W_π̂. Subtracting the two
    estimates against q, each with its own γ, is biased by at most W_π + W_π̂."""
    share, n, confidence = 1e-6, 10**8, 10.0
    population = Contexts.finite(2, weights=[share, 1 - share])
    table = np.array([[0, 0], [1, 0], [0, 1]])  # q, π, π̂
    p = np.full((2, 2), 0.5)
    # Sure rewards and exact proportions: estimates on this log are their own expectations.
    few, many = round(n * share), n - round(n * share)
    log = counted_log(p, [(0, 0, 0.0, few // 2), (0, 1, 1.0, few // 2), (1, 0, 0.0, many // 2), (1, 1, 1.0, many // 2)])
    cells = Cells.of(log)
    spread = sum_scores(table, Objective(table[0], population.weights, np.ones((2, 2))).costs(p))
    gamma = best_gamma(spread, samples=n, confidence=confidence)
    width = regularised_radius(gamma, spread, samples=n, confidence=confidence) / 2
    truth = (1 - share) - share  # V(π̂) − V(π)
    (printed,) = regularised_gaps(cells, table[1:2], reference=table[2], gamma=gamma[1:2])
    assert abs(printed - truth) > 0.2 > 50 * (2 * width[1] + 2 * width[2])
    against_q = regularised_gaps(cells, table, reference=table[0], gamma=gamma)
    ours = against_q[1] - against_q[2]
    assert abs(ours - truth) <= width[1] + width[2]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [RageFree, CodaPaper])
def test_row_17_the_first_gaps_must_not_be_too_large(kind):
    """With ε_0 = 1 every Δ̂_0 in [0, 1] satisfies |Δ̂_0 − Δ| ≤ 2ε_0 + Δ/4, ours (0) among them. "Appropriately" does not
    say so: with a large Δ̂_0 the first round asks for a handful of samples and its policy is often not ε_1-good."""
    grid = np.linspace(0, 1, 101)
    assert (np.abs(grid[:, None] - grid) <= 2 + grid / 4).all()
    problem = bandit([0.1, 0.9])  # the first policy, where both begin, is the wrong one
    algorithm = kind(0.5, 0.1)
    state = algorithm.start(problem.policies, problem.population)
    assert (state.gaps == 0).all()
    careless = replace(state, gaps=np.full(2, 1e4))
    plan, hasty = algorithm.design(state), algorithm.design(careless)
    assert hasty.samples <= 3 < 1000 < plan.samples
    rng = np.random.default_rng(1)

    def wrong(begin, which):
        log = problem.interact(which.sampler, samples=which.samples, rng=rng)
        return problem.value(algorithm.absorb(begin, which, log).policy) < 0.9 - plan.epsilon

    assert sum(wrong(careless, hasty) for _ in range(100)) > binom.ppf(1 - RARE, 100, 0.1)
    assert sum(wrong(state, plan) for _ in range(100)) <= binom.ppf(1 - RARE, 100, 0.1)


def test_row_25_catonis_radius_needs_twice_the_logarithm():
    """With n − L in place of n − 2L, the printed radius √(2vL/(n − L)) is finite for L < n ≤ 2L, where no α satisfies
    Catoni's condition; and for n just above 2L his α is nearly 0 and his mean nearly the sample mean, which on a rare
    large value errs by more than the printed radius with exact probability far above 2e^{−L}. His holds, and
    so does ours."""
    for n, confidence in ((15, 10.0), (20, 10.0)):
        assert math.isfinite(math.sqrt(2 * confidence / (n - confidence)))
        assert 1 - 2 * confidence / n <= 0  # α²v + 2L/n ≤ 1 leaves no α > 0
        assert np.isinf(catoni_radius(np.ones(1), samples=n, confidence=confidence)).all()
    n, confidence, p = 20, 9.9999, 1e-3
    variance, mean = p * (1 - p), p
    alpha = math.sqrt(2 * confidence * (n - 2 * confidence) / variance) / n
    hits = np.arange(n + 1)
    thetas = np.array([catoni_means([[0.0, 1.0]], alpha=[alpha], repeats=[n - k, k])[0] for k in hits])
    errors = np.abs(thetas - mean)
    probability = binom.pmf(hits, n, p)
    printed = math.sqrt(2 * variance * confidence / (n - confidence))
    his = math.sqrt(2 * variance * confidence / (n - 2 * confidence))
    allowed = 2 * math.exp(-confidence)
    assert probability[errors > printed].sum() > 100 * allowed
    assert probability[errors > his].sum() <= allowed
    # From n = 4L on, where the algorithms rely on it, ours holds too, and is at most √2 times √(2vL/n).
    n = 40
    (alpha,) = catoni_scale(np.array([variance]), samples=n, confidence=10.0)
    (ours,) = catoni_radius(np.array([variance]), samples=n, confidence=10.0)
    assert ours == pytest.approx(math.sqrt(2) * math.sqrt(2 * variance * 10.0 / n))
    hits = np.arange(n + 1)
    thetas = np.array([catoni_means([[0.0, 1.0]], alpha=[alpha], repeats=[n - k, k])[0] for k in hits])
    assert binom.pmf(hits, n, p)[np.abs(thetas - mean) > ours].sum() <= 2 * math.exp(-10.0)


@pytest.mark.parametrize(
    ("gaps", "leads", "ends_with"),
    [
        # Every lead is within ε_2 = ¼ of the truth. The third policy survives with a gap of 0.45.
        ([0.0, 0.1, 0.45], {(1, 0): 0.14, (2, 1): -0.11, (0, 2): 0.21}, 1),
        # Each policy is led by another, so that none is proven to be within ε: one more round.
        ([0.0, 0.1, 0.3], {(1, 0): 0.14, (2, 1): 0.04, (0, 2): 0.06}, None),
    ],
)
def test_row_26_survivors_of_the_last_printed_round_are_only_twice_as_good(gaps, leads, ends_with):
    """After ⌈log₂(1/ε)⌉ rounds elimination has only proven 2ε_l: with leads as accurate as its proof says, a policy
    whose gap exceeds ε is returned. Ours names the policy least led, or goes on."""
    epsilon = 0.25
    problem = bandit([0.9 - gap for gap in gaps])
    algorithm = Rage(epsilon, 0.1)
    assert algorithm.rounds == 2
    state = replace(algorithm.start(problem.policies, problem.population), round_number=1)
    plan = algorithm.design(state)
    assert plan.epsilon == epsilon
    matrix = np.zeros((3, 3))
    for (i, j), lead in leads.items():
        assert abs(lead - (gaps[j] - gaps[i])) <= plan.epsilon
        matrix[i, j], matrix[j, i] = lead, -lead
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    after = algorithm.eliminate(state, plan, log, leads=matrix)
    survivors = np.array(gaps)[after.alive]
    assert survivors.max() > epsilon  # what is printed returns this set, after this round
    assert after.finished is (ends_with is not None)
    if ends_with is not None:
        assert after.policy.to_json() == problem.policies.policy(ends_with).to_json()
        assert gaps[ends_with] <= epsilon


def test_row_41_rounds_after_the_last_rival_is_gone_cost_as_much_as_the_others():
    """Two policies a half apart, gaps known exactly. Theorem `contextual_rage` counts log₂(1/max(Δ, ε)) rounds, one or
    two here; Algorithm 2 plays ⌈log₂(1/ε)⌉, and each further one asks for as many samples as those that were needed,
    so that the total grows with log(1/ε) for ever."""
    gap, variance = 0.5, 4.0

    def total(rounds):
        return sum(
            RAGE_FREE_FACTOR
            * round_confidence(0.1, round_number=number, log_size=math.log(2))
            * variance
            / (2.0**-number + RAGE_FREE_SLOPE * gap) ** 2
            for number in range(1, rounds + 1)
        )

    counted = math.ceil(math.log2(1 / gap)) + 1  # Δ̂ > 2ε_l there: no other policy can be the best one
    printed = [math.ceil(math.log2(1 / epsilon)) for epsilon in (0.1, 1e-2, 1e-4, 1e-8)]
    assert counted == 2
    assert printed == [4, 7, 14, 27]
    totals = [total(rounds) for rounds in printed]
    assert totals[0] > 2 * total(counted)
    slopes = np.diff(totals) / np.diff(printed)
    assert (slopes > total(counted) / counted).all()  # no round is ever cheaper than those that were needed

"""Regularised importance weighting: the definition, its bias exactly, and its deviation bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from scipy.stats import binom
from tests.examples import examples

from instances import make_instance, seeds
from pacbandits.confidence import best_gamma, regularised_radius
from pacbandits.design import Objective
from pacbandits.errors import InputError
from pacbandits.paper.estimators import Cells, regularised_gaps, regularised_scores
from pacbandits.policies.finite import sum_scores
from pacbandits.records import Contexts, Log

RARE = 1e-6


def random_log(seed, *, n_contexts=4, n_actions=3, rows=50):
    rng = np.random.default_rng(seed)
    propensities = rng.dirichlet(np.full(n_actions, 0.5), size=n_contexts) * 0.99 + 0.01 / n_actions
    contexts = rng.integers(n_contexts, size=rows)
    return Log.of(
        Contexts.finite(n_contexts).take(contexts),
        actions=[rng.choice(n_actions, p=propensities[c]) for c in contexts],
        rewards=rng.random(rows) * rng.integers(0, 2, size=rows),
        propensities=propensities[contexts],
        repeats=rng.integers(1, 6, size=rows),
    )


def by_definition(log, policy, reference, gamma):
    """(1/n) Σ_i r_i/(p_i + γ) (1{q(c_i) = a_i} − 1{π(c_i) = a_i}), interaction by interaction."""
    total, n = 0.0, 0
    for i in range(len(log)):
        c, a = log.contexts.ids[i], log.actions[i]
        for _ in range(log.repeats[i]):
            n += 1
            total += log.rewards[i] / (log.propensities[i, a] + gamma) * (int(reference[c] == a) - int(policy[c] == a))
    return total / n


def gaps_of(log, table, *, reference, gamma):
    cells = Cells.of(log)
    at = cells.contexts.ids
    return regularised_gaps(
        cells, np.ascontiguousarray(table[:, at]), reference=reference[at], gamma=np.asarray(gamma, dtype=float)
    )


def written_out(log):
    """The same log with every interaction in a row of its own."""
    rows = np.repeat(np.arange(len(log)), log.repeats)
    return Log.of(
        log.contexts.take(rows),
        actions=log.actions[rows],
        rewards=log.rewards[rows],
        propensities=log.propensities[rows],
    )


@pytest.mark.thorough
@given(seed=seeds)
@examples(40)
def test_gaps_are_the_definition(seed):
    rng = np.random.default_rng(seed)
    log = random_log(seed)
    table = rng.integers(3, size=(6, 4))
    gamma = np.where(rng.random(6) < 0.2, 0.0, rng.exponential(size=6))
    gamma[5] = np.inf
    got = gaps_of(log, table, reference=table[0], gamma=gamma)
    expected = [by_definition(log, policy, table[0], g) for policy, g in zip(table, gamma, strict=True)]
    assert np.allclose(got, expected, rtol=1e-12, atol=1e-12)
    assert got[0] == got[5] == 0.0


@pytest.mark.thorough
@given(seed=seeds)
@examples(40)
def test_scores_sum_to_the_value(seed):
    rng = np.random.default_rng(seed)
    log = random_log(seed)
    table = rng.integers(3, size=(6, 4))
    gamma = float(rng.choice([0.0, 0.01, 1.0]))
    scores = regularised_scores(log, gamma=gamma)
    values = sum_scores(np.ascontiguousarray(table[:, log.contexts.ids]), scores)
    played = log.propensities[np.arange(len(log)), log.actions]
    for policy, value in zip(table, values, strict=True):
        hit = policy[log.contexts.ids] == log.actions
        assert value == pytest.approx((log.repeats * log.rewards / (played + gamma) * hit).sum() / log.samples)
    # Differences of the values are the gaps, when γ is one for all.
    gaps = gaps_of(log, table, reference=table[0], gamma=np.full(6, gamma))
    assert np.allclose(values[0] - values, gaps, rtol=1e-9, atol=1e-12)


@pytest.mark.thorough
@given(seed=seeds)
@examples(25)
def test_repeats_are_rows_written_out(seed):
    log = random_log(seed)
    long = written_out(log)
    assert long.samples == log.samples == len(long)
    table = np.random.default_rng(seed).integers(3, size=(5, 4))
    gamma = np.linspace(0, 1, 5)
    assert np.allclose(
        gaps_of(log, table, reference=table[0], gamma=gamma),
        gaps_of(long, table, reference=table[0], gamma=gamma),
        rtol=1e-12,
        atol=1e-13,
    )
    short, full = regularised_scores(log, gamma=0.1), regularised_scores(long, gamma=0.1)
    assert np.allclose(short.sum(axis=0), full.sum(axis=0), rtol=1e-12)


def test_a_log_twice_as_long_says_the_same():
    """1/n in front: copies of a log change nothing (corrections, row 1)."""
    log = random_log(1)
    double = Log.of(
        log.contexts,
        actions=log.actions,
        rewards=log.rewards,
        propensities=log.propensities,
        repeats=2 * log.repeats,
    )
    table = np.random.default_rng(1).integers(3, size=(5, 4))
    once, twice = (gaps_of(one, table, reference=table[0], gamma=np.full(5, 0.2)) for one in (log, double))
    assert np.allclose(once, twice, rtol=1e-12)
    assert np.abs(once).max() > 0


def test_refuses_what_does_not_fit():
    log = random_log(0)
    table = np.zeros((2, 4), dtype=int)
    for gamma, message in (
        ([-0.1, 0.0], "0 or more, got -0.1"),
        ([0.1], r"gamma must have shape \(2,\)"),
        ([np.nan, 0.0], "finite"),
    ):
        with pytest.raises(InputError, match=message):
            gaps_of(log, table, reference=table[0], gamma=gamma)
    for bad in (-1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="gamma must be 0 or more and finite"):
            regularised_scores(log, gamma=bad)


def expectation(instance, propensities, policy, reference, gamma):
    """E Δ̂^γ(π, q) for one Bernoulli sample: every (c, a, r) as a log of its own, weighted by its probability."""
    total = 0.0
    for c, weight in enumerate(instance.population.weights):
        for a in range(propensities.shape[1]):
            for r, chance in ((1.0, instance.mean_rewards[c, a]), (0.0, 1 - instance.mean_rewards[c, a])):
                log = Log.of(
                    Contexts.of(np.empty((1, 0)), ids=[c]),
                    actions=[a],
                    rewards=[r],
                    propensities=propensities[c : c + 1],
                )
                (gap,) = gaps_of_one(log, policy, reference, gamma)
                total += weight * propensities[c, a] * chance * gap
    return total


def gaps_of_one(log, policy, reference, gamma):
    cells = Cells.of(log)
    at = cells.contexts.ids
    return regularised_gaps(
        cells, np.ascontiguousarray(policy[None, at]), reference=reference[at], gamma=np.array([gamma])
    )


@pytest.mark.thorough
@given(seed=seeds)
@examples(5)
def test_unbiased_without_gamma_and_biased_by_at_most_gamma_v_with_it(seed):
    """Exactly, by enumeration of a sample."""
    instance = make_instance(seed, n_contexts=3, n_actions=3, n_policies=4, awkward=False)
    rng = np.random.default_rng(seed)
    propensities = rng.dirichlet(np.full(3, 0.7), size=3) * 0.95 + 0.05 / 3
    table = instance.policies.table.astype(np.int64)
    reference = table[0]
    ones = np.ones_like(propensities)
    spread = sum_scores(table, Objective(reference, instance.population.weights, ones).costs(propensities))
    truth = instance.values[0] - instance.values
    for k in range(1, 4):
        assert expectation(instance, propensities, table[k], reference, 0.0) == pytest.approx(truth[k], abs=1e-12)
        for gamma in (0.01, 0.3, 3.0):
            bias = expectation(instance, propensities, table[k], reference, gamma) - truth[k]
            assert abs(bias) <= gamma * spread[k] + 1e-12


@pytest.mark.first(9)
@pytest.mark.parametrize("confidence", [2.0, 5.0, 8.0])
@pytest.mark.parametrize("expected_hits", [0.007, 0.1, 2.0, 30.0])
def test_the_deviation_bound_holds_exactly_for_a_rare_action(confidence, expected_hits):
    """One context, action 1 earns 1 and is played with probability p, action 0 earns nothing: summed over the hits."""
    n = 1000
    p = expected_hits / n
    hits = np.arange(n + 1)
    probability = binom.pmf(hits, n, p)
    spread = np.array([1 / p + 1 / (1 - p)])
    gamma = best_gamma(spread, samples=n, confidence=confidence)
    radius = regularised_radius(gamma, spread, samples=n, confidence=confidence)[0]
    assert radius == pytest.approx(4 * math.sqrt(spread[0] * confidence / n))

    def estimate(k, g):
        rows = [i for i, count in ((0, n - k), (1, k)) if count > 0]
        log = Log.of(
            Contexts.finite(1).take([0] * len(rows)),
            actions=rows,
            rewards=[float(i) for i in rows],
            propensities=[[1 - p, p]] * len(rows),
            repeats=[(n - k, k)[i] for i in rows],
        )
        return gaps_of(log, np.array([[1]]), reference=np.array([0]), gamma=g)[0]

    def failure(g):
        likely = hits[probability > 1e-15]
        errors = np.array([abs(estimate(int(k), g) + 1.0) for k in likely])  # the truth is a gap of −1
        return probability[likely][errors > radius].sum()

    allowed = 2 * math.exp(-confidence)
    assert failure(gamma) <= allowed
    if expected_hits == 0.007 and confidence == 8:
        assert failure(np.zeros(1)) > 5 * allowed  # without γ the same bound does not hold


@pytest.mark.slow
def test_the_deviation_bound_holds_on_a_problem():
    """On contexts, actions and rewards drawn at random, for every policy and γ from small to large."""
    instance = make_instance(8, n_contexts=4, n_actions=3, n_policies=8, awkward=False)
    rng = np.random.default_rng(8)
    propensities = rng.dirichlet(np.full(3, 0.4), size=4) * 0.98 + 0.02 / 3
    table = instance.policies.table.astype(np.int64)
    ones = np.ones_like(propensities)
    spread = sum_scores(table, Objective(table[0], instance.population.weights, ones).costs(propensities))
    truth = instance.values[0] - instance.values
    n, runs, confidence = 60, 800, 2.5
    failed = np.zeros((3, 8), dtype=int)
    best = best_gamma(spread, samples=n, confidence=confidence)
    for _ in range(runs):
        contexts = rng.choice(4, size=n, p=instance.population.weights)
        actions = (rng.random((n, 1)) > np.cumsum(propensities[contexts], axis=1)).sum(axis=1)
        log = Log.of(
            Contexts.finite(4).take(contexts),
            actions=actions,
            rewards=rng.random(n) < instance.mean_rewards[contexts, actions],
            propensities=propensities[contexts],
        )
        for i, factor in enumerate((0.2, 1.0, 5.0)):
            errors = np.abs(gaps_of(log, table, reference=table[0], gamma=factor * best) - truth)
            failed[i] += errors > regularised_radius(factor * best, spread, samples=n, confidence=confidence) + 1e-12
    assert failed.max() <= binom.ppf(1 - RARE, runs, 2 * math.exp(-confidence))

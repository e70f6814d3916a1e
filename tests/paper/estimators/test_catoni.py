"""Catoni's mean: the root of its equation, on any scale; and its deviation bound where the sample mean has none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import brentq
from scipy.stats import binom
from tests.examples import examples
from tests.paper.catoni import catoni_radius

from instances import seeds
from pacbandits.confidence import catoni_scale
from pacbandits.errors import InputError
from pacbandits.paper.estimators import Cells, catoni_gaps, catoni_leads, catoni_means, regularised_gaps
from pacbandits.records import Contexts, Log

RARE = 1e-6  # how often a statistical test may fail by chance, over fresh seeds


def influence(x):
    """ψ(x) = sign(x) log(1 + |x| + x²/2)."""
    return np.sign(x) * np.log1p(np.abs(x) + x * x / 2)


def reference_mean(values, alpha, repeats):
    """The root by another solver."""
    if values.min() == values.max():
        return values[0]
    return brentq(
        lambda theta: float(np.sum(repeats * influence(alpha * (values - theta)))),
        values.min(),
        values.max(),
        xtol=1e-300,
        rtol=1e-14,
        maxiter=1000,
    )


def random_log(seed, *, n_contexts=4, n_actions=3, rows=60, most=5):
    """A log with repeats and uneven propensities, and the row each interaction stands for."""
    rng = np.random.default_rng(seed)
    propensities = rng.dirichlet(np.full(n_actions, 0.5), size=n_contexts) * 0.99 + 0.01 / n_actions
    contexts = rng.integers(n_contexts, size=rows)
    actions = np.array([rng.choice(n_actions, p=propensities[c]) for c in contexts])
    return Log.of(
        Contexts.finite(n_contexts).take(contexts),
        actions=actions,
        rewards=rng.normal(size=rows) * rng.integers(0, 2, size=rows),  # also zeros, also negative
        propensities=propensities[contexts],
        repeats=rng.integers(1, most + 1, size=rows),
    )


def differences(log, better, worse):
    """X_i = r_i/p_i (1{better plays a_i} − 1{worse does}), one for each row of the log."""
    weight = log.rewards / log.propensities[np.arange(len(log)), log.actions]
    ids = log.contexts.ids
    return weight * ((better[ids] == log.actions).astype(float) - (worse[ids] == log.actions))


@given(seed=seeds)
@examples(200)
def test_it_is_the_root_of_its_equation(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    values = rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 3, size=n) + rng.normal() * 10
    repeats = np.floor(10.0 ** rng.uniform(0, 6, size=n))
    alpha = 10.0 ** rng.uniform(-3, 2)
    (got,) = catoni_means(values[None], alpha=[alpha], repeats=repeats)
    assert got == pytest.approx(reference_mean(values, alpha, repeats), abs=1e-9 * np.ptp(values), rel=1e-9)


@given(seed=seeds)
@examples(100)
def test_extreme_counts_and_values(seed):
    """10¹² copies, values up to 10⁹, α over fourteen orders of magnitude: small ones do not drown in rounding."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 15))
    values = rng.choice([-1, 1], size=n) * 10.0 ** rng.uniform(-2, 9, size=n)
    repeats = np.floor(10.0 ** rng.uniform(0, 12, size=n))
    alpha = 10.0 ** rng.uniform(-12, 2)
    (got,) = catoni_means(values[None], alpha=[alpha], repeats=repeats)
    expected = reference_mean(values, alpha, repeats)
    assert abs(got - expected) <= 1e-10 * np.ptp(values)


def test_known_answers():
    assert catoni_means([[3.0, 3.0, 3.0]], alpha=[5.0]) == 3.0
    assert catoni_means([[1e9, 1e9]], alpha=[1e-9], repeats=[1e12, 1e12]) == 1e9
    assert catoni_means([[7.0]], alpha=[0.0]) == 7.0
    # Of two values with equal counts, half way, whatever α.
    for alpha in (1e-6, 1.0, 1e6):
        assert catoni_means([[0.0, 1.0]], alpha=[alpha]) == pytest.approx(0.5, abs=1e-9)
    # α = 0 is the limit of small α: the mean. Large α goes towards the median.
    values = np.array([[0.0, 1.0, 2.0, 100.0]])
    assert catoni_means(values, alpha=[0.0])[0] == values.mean()
    assert catoni_means(values, alpha=[1e-9])[0] == pytest.approx(values.mean())
    assert catoni_means(values, alpha=[1e-17])[0] == pytest.approx(values.mean())
    assert catoni_means(values, alpha=[1e3])[0] < 5
    assert catoni_means([[0.0, 10.0]], alpha=[0.0], repeats=[9, 1])[0] == 1.0


@given(seed=seeds)
@examples(50)
def test_shift_scale_and_order(seed):
    """θ(aX + b) with α/a is aθ(X) + b; the mirror image has the opposite mean; it lies among the values."""
    rng = np.random.default_rng(seed)
    values = rng.standard_t(2.1, size=(1, 30))
    (theta,) = catoni_means(values, alpha=[0.7])
    close = 1e-10 * np.ptp(values)
    assert values.min() <= theta <= values.max()
    assert catoni_means(-values, alpha=[0.7])[0] == pytest.approx(-theta, abs=close)
    assert catoni_means(1e3 * values + 5, alpha=[0.7e-3])[0] == pytest.approx(1e3 * theta + 5, abs=1e3 * close)
    assert catoni_means(values[:, ::-1], alpha=[0.7])[0] == pytest.approx(theta, abs=close)


def test_repeats_are_copies():
    rng = np.random.default_rng(3)
    values, repeats = rng.normal(size=(4, 10)), rng.integers(1, 6, size=10)
    alpha = np.array([0.0, 0.1, 1.0, 10.0])
    written_out = catoni_means(np.repeat(values, repeats, axis=1), alpha=alpha)
    assert np.allclose(catoni_means(values, alpha=alpha, repeats=repeats), written_out, rtol=0, atol=1e-10)


def test_refuses_what_does_not_fit():
    with pytest.raises(InputError, match=r"alpha must have shape \(2,\)"):
        catoni_means(np.zeros((2, 3)), alpha=[1.0])
    with pytest.raises(InputError, match=r"repeats must have shape \(3,\)"):
        catoni_means(np.zeros((2, 3)), alpha=[1.0, 1.0], repeats=[1.0])
    with pytest.raises(InputError, match="values must be finite"):
        catoni_means([[np.nan]], alpha=[1.0])
    with pytest.raises(InputError, match=r"alpha must be 0 or more, got -1"):
        catoni_means([[0.0, 1.0]], alpha=[-1.0])


BAD_ACTIONS = [
    (lambda table: table + 1, r"actions must be between 0 and 2, as in the log; got 3"),
    (lambda table: table - 1, r"actions must be between 0 and 2, as in the log; got -1"),
    (lambda table: table.astype(float), "actions must be integers, got float64"),
    (lambda table: table[:, :-1], r"actions must have shape \(any, 4\), got \(5, 3\)"),
    (lambda table: np.hstack([table, table]), r"actions must have shape \(any, 4\), got \(5, 8\)"),
    (lambda table: table[0], r"actions must have shape \(any, 4\), got \(4,\)"),
]


@pytest.mark.parametrize(("change", "message"), BAD_ACTIONS)
def test_actions_that_have_no_cell_are_refused(change, message):
    """Kernels do not look where they reach: what is not in the log must not come to them."""
    cells = Cells.of(random_log(0))
    table = np.array([[0, 1, 2, 0], [2, 2, 2, 2], [0, 0, 0, 0], [1, 2, 0, 1], [0, 1, 2, 1]])
    size = len(np.atleast_2d(change(table)))
    with pytest.raises(InputError, match=message):
        catoni_gaps(cells, change(table), reference=table[0], alpha=np.ones(size))
    with pytest.raises(InputError, match=message):
        catoni_leads(cells, change(table), alpha=np.ones((size, size)))
    with pytest.raises(InputError, match=message):
        regularised_gaps(cells, change(table), reference=table[0], gamma=np.ones(size))
    for estimate in (
        lambda reference: catoni_gaps(cells, table, reference=reference, alpha=np.ones(5)),
        lambda reference: regularised_gaps(cells, table, reference=reference, gamma=np.ones(5)),
    ):
        for bad in (table[0] + 1, table[0] - 1, table[0].astype(float), table[0, :3], table):
            with pytest.raises(InputError, match="reference must"):
                estimate(bad)


def test_scales_that_do_not_fit_the_policies_are_refused():
    cells = Cells.of(random_log(0))
    table = np.array([[0, 1, 2, 0], [2, 2, 2, 2], [0, 0, 0, 0]])
    for alpha in (np.ones(2), np.ones((3, 1)), np.array(1.0)):
        with pytest.raises(InputError, match=r"alpha must have shape \(3,\)"):
            catoni_gaps(cells, table, reference=table[0], alpha=alpha)
    for alpha in (np.ones(3), np.ones((2, 2)), np.ones((3, 4))):
        with pytest.raises(InputError, match=r"alpha must have shape \(3, 3\)"):
            catoni_leads(cells, table, alpha=alpha)
    for bad, message in ((np.nan, "must be finite"), (-1.0, "alpha must be 0 or more, got -1")):
        with pytest.raises(InputError, match=message):
            catoni_gaps(cells, table, reference=table[0], alpha=np.array([0.0, bad, 1.0]))
        with pytest.raises(InputError, match=message):
            catoni_leads(cells, table, alpha=np.full((3, 3), bad))
    for gamma in (np.ones(2), np.ones((3, 1))):
        with pytest.raises(InputError, match=r"gamma must have shape \(3,\)"):
            regularised_gaps(cells, table, reference=table[0], gamma=gamma)


@pytest.mark.thorough
@given(seed=seeds)
@examples(40)
def test_gaps_are_the_means_of_the_differences(seed):
    rng = np.random.default_rng(seed)
    log = random_log(seed)
    table = rng.integers(3, size=(7, 4)).astype(np.uint8)
    table[3] = table[0]  # the reference itself, under another number
    reference = table[0].astype(np.int64)
    alpha = 10.0 ** rng.uniform(-2, 1, size=7) * (rng.random(7) < 0.8)  # some of them 0
    cells = Cells.of(log)
    at = cells.contexts.ids  # only contexts that occurred have cells
    got = catoni_gaps(cells, np.ascontiguousarray(table[:, at]), reference=reference[at], alpha=alpha)
    for policy, scale, gap in zip(table, alpha, got, strict=True):
        x = differences(log, reference, policy)
        (expected,) = catoni_means(x[None], alpha=[scale], repeats=log.repeats)
        assert gap == pytest.approx(expected, abs=1e-9 * (1 + np.abs(x).max()))
    assert got[0] == got[3] == 0.0
    # From the other side the gap is the opposite one.
    for k, scale in enumerate(alpha):
        (back,) = catoni_gaps(
            cells,
            np.ascontiguousarray(reference[None, at]),
            reference=np.ascontiguousarray(table[k, at].astype(np.int64)),
            alpha=np.array([scale]),
        )
        assert back == pytest.approx(-got[k], abs=1e-9)


@pytest.mark.thorough
@given(seed=seeds)
@examples(25)
def test_leads_are_the_means_of_the_differences(seed):
    rng = np.random.default_rng(seed)
    log = random_log(seed)
    cells = Cells.of(log)
    table = rng.integers(3, size=(6, 4))
    alpha = rng.exponential(size=(6, 6))
    alpha = alpha + alpha.T
    leads = catoni_leads(cells, np.ascontiguousarray(table[:, cells.contexts.ids]), alpha=alpha)
    assert np.array_equal(leads, -leads.T)
    for i in range(6):
        for j in range(6):
            x = differences(log, table[i], table[j])
            (expected,) = catoni_means(x[None], alpha=[alpha[i, j]], repeats=log.repeats)
            assert leads[i, j] == pytest.approx(expected, abs=1e-9 * (1 + np.abs(x).max()))


@pytest.mark.thorough
def test_the_sign_says_who_is_better():
    """Action 1 always earns, action 0 never: the policy of 1s leads, and the policy of 0s has the gap."""
    contexts = Contexts.finite(1).take(np.zeros(200, dtype=int))
    actions = np.arange(200) % 2
    log = Log.of(contexts, actions=actions, rewards=actions, propensities=np.full((200, 2), 0.5))
    cells = Cells.of(log)
    table = np.array([[0], [1]])
    assert catoni_leads(cells, table, alpha=np.full((2, 2), 0.1))[1, 0] == pytest.approx(1.0, abs=0.1)
    gaps = catoni_gaps(cells, table, reference=table[1], alpha=np.full(2, 0.1))
    assert gaps[0] == pytest.approx(1.0, abs=0.1)
    assert gaps[1] == 0.0


HEAVY = {
    # draws, mean, variance
    "student": (lambda rng, shape: rng.standard_t(2.5, size=shape), 0.0, 5.0),
    "pareto": (lambda rng, shape: 1 + rng.pareto(2.3, size=shape), 2.3 / 1.3, 2.3 / (1.3**2 * 0.3)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", HEAVY)
def test_the_deviation_bound_holds_on_heavy_tails_where_the_sample_mean_breaks_it(name):
    """|θ − μ| > √(2vL/(n − 2L)) has probability at most 2e^{−L}; for the sample mean it is more probable than that."""
    draw, mean, variance = HEAVY[name]
    n, runs, confidence = 40, 100_000, 9.0
    values = draw(np.random.default_rng(17), (runs, n))
    radius = catoni_radius(np.array([variance]), samples=n, confidence=confidence)[0]
    alpha = catoni_scale(np.full(runs, variance), samples=n, confidence=confidence)
    allowed = 2 * math.exp(-confidence)
    most = binom.ppf(1 - RARE, runs, allowed)
    assert np.sum(np.abs(catoni_means(values, alpha=alpha) - mean) > radius) <= most
    assert np.sum(np.abs(values.mean(axis=1) - mean) > radius) > most


@pytest.mark.parametrize("confidence", [2.0, 4.0, 6.0, 9.0])
@pytest.mark.parametrize("expected_hits", [0.01, 0.05, 1.0, 20.0])
def test_the_deviation_bound_holds_exactly_on_rare_large_weights(confidence, expected_hits):
    """Importance weighting of a rare action: 1/p with probability p, else 0. Summed over the number of hits exactly."""
    n = 100
    p = expected_hits / n
    mean, variance = 1.0, (1 - p) / p
    hits = np.arange(n + 1)
    probability = binom.pmf(hits, n, p)
    radius = catoni_radius(np.array([variance]), samples=n, confidence=confidence)[0]
    alpha = catoni_scale(np.array([variance]), samples=n, confidence=confidence)
    values = np.array([[0.0, 1.0 / p]])
    thetas = np.array([catoni_means(values, alpha=alpha, repeats=[n - k, k])[0] for k in hits])
    allowed = 2 * math.exp(-confidence)
    assert probability[np.abs(thetas - mean) > radius].sum() <= allowed
    if confidence >= 4 and expected_hits == 0.05:
        # One hit in 100 already takes the sample mean to 20 times the truth.
        assert probability[np.abs(hits / (n * p) - mean) > radius].sum() > 1.2 * allowed

"""The ledger: scores that are unbiased, factors that are never negative, wealth that cannot grow where it must not."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from pacbandits.certificate import Bets, Ledger
from pacbandits.certificate.conventions import MAX_STAKE
from pacbandits.certificate.ledger import room_above
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from tests.certificate import plain
from tests.examples import examples
from tests.instances import seeds


def likelihood(log, means, which):
    """The probability (n,) of each row given its context, for rewards of 0 or 1."""
    rows = np.arange(len(log))
    mean = means[which, log.actions]
    return log.propensities[rows, log.actions] * np.where(log.rewards == 1, mean, 1 - mean)


@pytest.mark.thorough
@examples(100)
@given(seeds, st.booleans())
def test_scores_are_unbiased_and_wealth_is_made_of_them(seed, zeros):
    """E[X(π)] = V(π) − V(q) for every pair, and no less where an action is never played; row by row as by hand."""
    rng = np.random.default_rng(seed)
    n, a = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    propensities = plain.draw_propensities(rng, (n, a), least=1e-4, zeros=zeros)
    means = rng.choice([0.0, 1.0, rng.random(), rng.random()], size=(n, a))
    weights = rng.dirichlet(np.ones(n))
    log, which = plain.every_outcome(propensities)
    predictions = plain.draw_predictions(rng, (n, a))[which]
    bets, share = plain.draw_bets(rng, 1)
    epsilon = float(rng.choice([0.0, 0.01, 0.3, 1.0]))
    chance = weights[which] * likelihood(log, means, which)
    ledger = Ledger.of(log, predictions)
    # A policy enters by its actions alone, so all pairs of actions in all contexts are all pairs of policies.
    for q in range(a):
        reference = np.full(len(log), q)
        wealth = plain.wealth_against(ledger, reference, bets=bets, share=share, epsilon=epsilon)
        by_hand = plain.log_wealth(log, predictions, reference=reference, bets=bets, share=share, epsilon=epsilon)
        np.testing.assert_allclose(wealth, by_hand, rtol=1e-9, atol=1e-11)
        for x in range(a):
            scores = np.array([one_score(log, predictions, i, x, q, bets[0], share) for i in range(len(log))])
            expected = np.bincount(which, weights=chance * scores, minlength=n)
            truth = weights * (means[:, x] - means[:, q]) * (x != q)
            played = (propensities[:, x] > 0) & (propensities[:, q] > 0)
            np.testing.assert_allclose(expected[played], truth[played], atol=1e-9)
            assert (expected >= truth - 1e-9).all()
            if bets[0] > 0.01:  # the same from the other end: what the wealth says the scores were
                implied = epsilon - np.expm1(wealth[:, x]) / bets[0]
                np.testing.assert_allclose(np.bincount(which, weights=chance * implied), expected, atol=1e-9)


def one_score(log, predictions, i, x, q, bet, share):
    return plain.score(
        x,
        q,
        action=int(log.actions[i]),
        reward=float(log.rewards[i]),
        p=log.propensities[i],
        f=predictions[i],
        bet=float(bet),
        cap=plain.cap_of(float(bet), share),
    )


@examples(150)
@given(seeds)
def test_wealth_of_any_log_is_that_by_hand(seed):
    """Rounds with gaps, repeats, rewards inside [0, 1], contexts known by id: sums over the rows of each context."""
    log, predictions = plain.draw_log(seed)
    rng = np.random.default_rng(seed + 1)
    ledger = Ledger.of(log, predictions)
    own = rng.integers(log.n_actions, size=len(ledger.contexts))
    _, which = np.unique(log.contexts.ids, return_inverse=True)
    bets, share = plain.draw_bets(rng, ledger.n_rounds)
    got = plain.wealth_against(ledger, own, bets=bets, share=share, epsilon=0.1)
    rows = plain.log_wealth(log, predictions, reference=own[which], bets=bets, share=share, epsilon=0.1)
    wanted = np.zeros_like(got)
    np.add.at(wanted, which, rows)
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)
    assert ledger.samples == log.samples
    assert np.array_equal(ledger.contexts.ids, np.unique(log.contexts.ids))


@pytest.mark.thorough
@examples(150)
@given(
    seeds,
    st.sampled_from([1e-2, 1e-6, 1e-9, 1e-18, 1e-30]),
    st.floats(1e-6, 1e3),
    st.sampled_from([0.9, 0.5, 0.999]),
    st.sampled_from([0.0, 0.05, 1.0]),
)
@example(739, 1e-30, 1e-6, 0.9, 0.0)  # where 1 − p·M rounds to 1, or to the next number below
@example(184, 1e-30, 1e-6, 0.5, 0.0)
def test_no_row_can_ruin_an_expert(seed, least, scale, share, epsilon):
    """Every factor is 1 − share or more, for all outcomes, however small the propensity."""
    rng = np.random.default_rng(seed)
    n, a = 2, int(rng.integers(2, 5))
    propensities = plain.draw_propensities(rng, (n, a), least=least, zeros=bool(rng.integers(2)))
    log, which = plain.every_outcome(propensities, rewards=(0.0, 1.0, float(rng.random())))
    ledger = Ledger.of(log, plain.draw_predictions(rng, (n, a))[which])
    bets = Bets((0.25, 1.0, 4.0), (scale,), share)
    for expert, q in itertools.product(range(3), range(a)):
        stakes = bets.stakes(expert)
        wealth = plain.wealth_against(ledger, np.full(len(log), q), bets=stakes, share=share, epsilon=epsilon)
        assert np.isfinite(wealth).all()
        assert np.exp(wealth).min() >= 1 - max(share, stakes[0]) + stakes[0] * epsilon - 1e-6


@examples(25)
@given(seeds, st.booleans())
def test_wealth_does_not_grow_under_the_hypothesis(seed, zeros):
    """E[Π factors] ≤ 1 when V(π) ≥ V(q) + ε, over every course of three rows whose propensities, predictions and bets
    are any functions of what came before; exactly 1 with equality and all actions played."""
    rng = np.random.default_rng(seed)
    n, a, depth = 2, 2, 3
    means, weights = rng.random((n, a)), rng.dirichlet(np.ones(n))
    pi, q = rng.integers(a, size=n), rng.integers(a, size=n)
    pi[0] = 1 - q[0]
    if weights @ (means[range(n), pi] - means[range(n), q]) < 0:
        pi, q = q, pi
    lead = float(weights @ (means[range(n), pi] - means[range(n), q]))
    courses = [()]  # of rows of the log
    rows = []
    for _ in range(depth):
        longer = []
        for course in courses:
            propensities = plain.draw_propensities(rng, (n, a), least=1e-3, zeros=zeros)
            predictions = plain.draw_predictions(rng, (n, a))
            for c, x, r in itertools.product(range(n), range(a), (0.0, 1.0)):
                if propensities[c, x] > 0:
                    rows.append((c, x, r, propensities[c], predictions[c], course))
                    longer.append((*course, len(rows) - 1))
        courses = longer
    # Each place in the tree is a round of its own, so that bets can depend on what came before.
    places = {course: i for i, course in enumerate(dict.fromkeys(row[5] for row in rows))}
    which = np.array([row[0] for row in rows])
    log = Log.of(
        Contexts.of(which[:, None].astype(float)),
        actions=[row[1] for row in rows],
        rewards=[row[2] for row in rows],
        propensities=[row[3] for row in rows],
        rounds=[places[row[5]] for row in rows],
    )
    bets, share = plain.draw_bets(rng, len(places))
    chance = weights[which] * likelihood(log, means, which)
    ledger = Ledger.of(log, np.array([row[4] for row in rows]))
    paths = np.array(courses)
    assert chance[paths].prod(axis=1).sum() == pytest.approx(1)
    for epsilon in (lead, lead / 2, 0.0):
        wealth = plain.wealth_against(ledger, q[which], bets=bets, share=share, epsilon=epsilon)
        factors = np.exp(wealth[np.arange(len(log)), pi[which]])
        expected = float((chance[paths] * factors[paths]).prod(axis=1).sum())
        assert expected <= 1 + 1e-9
        if epsilon == lead and not zeros:
            assert expected == pytest.approx(1, abs=1e-9)


@pytest.mark.first(22)
@pytest.mark.parametrize("mean", [0.0, 1e-4, 0.02, 0.3, 0.5, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("stake", [1e-8, 1e-5, 1e-3, 0.05, 0.4, 0.999, 1.0, 1.001, 3.0, 40.0, 1e4, 9e5, 1e8])
def test_the_centre_maximises_the_growth(mean, stake):
    room = room_above(mean, stake)
    assert 0 <= room <= 1 - mean
    found = 1 - room
    assert found == pytest.approx(plain.centre(mean, stake), abs=2e-6)
    lowest = max(0.0, 1 - 1 / stake)
    grid = np.concatenate([np.linspace(lowest, 1, 2001), lowest + (1 - lowest) * np.geomspace(1e-9, 1, 200)])
    best = max(plain.growth(g, mean=mean, stake=stake) for g in grid)
    options = {"xatol": 1e-12}
    near = minimize_scalar(
        lambda g: -plain.growth(g, mean=mean, stake=stake), bounds=(lowest, 1), method="bounded", options=options
    )
    best = max(best, -near.fun if math.isfinite(near.fun) else -math.inf)
    # Where it stands on the edge of what is allowed, so does the growth; a hair inside it must be as good.
    inside = min(max(found, lowest + 1e-12), 1.0)
    assert plain.growth(inside, mean=mean, stake=stake) >= best - 1e-6 * max(1.0, abs(best))


@examples(60)
@given(seeds)
def test_wealth_rises_with_epsilon(seed):
    log, predictions = plain.draw_log(seed)
    rng = np.random.default_rng(seed)
    ledger = Ledger.of(log, predictions)
    bets, share = plain.draw_bets(rng, ledger.n_rounds)
    own = rng.integers(log.n_actions, size=len(ledger.contexts))
    steps = [
        plain.wealth_against(ledger, own, bets=bets, share=share, epsilon=e) for e in (0.0, 1e-3, 0.05, 0.5, 1.0, 3.0)
    ]
    for low, high in itertools.pairwise(steps):
        assert (high >= low).all()
        assert (high > low).all() or not bets.all()


@examples(60)
@given(seeds)
def test_repeats_are_written_out_rows_and_order_does_not_matter(seed):
    log, predictions = plain.draw_log(seed)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.repeat(np.arange(len(log)), log.repeats))
    out = replace(log.take(rows), repeats=np.ones(len(rows), dtype=int))
    one, two = Ledger.of(log, predictions), Ledger.of(out, predictions[rows])
    assert one.samples == two.samples == len(rows)
    own = rng.integers(log.n_actions, size=len(one.contexts))
    bets, share = plain.draw_bets(rng, one.n_rounds)
    ledgers = [plain.wealth_against(x, own, bets=bets, share=share, epsilon=0.1) for x in (one, two)]
    np.testing.assert_allclose(*ledgers, rtol=1e-10, atol=1e-12)
    mixture = plain.draw_propensities(rng, (len(one.contexts), log.n_actions), least=1e-2, zeros=False)
    for a, b in zip(one.gaps(mixture, reference=own), two.gaps(mixture, reference=own), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    weights = rng.random(one.n_rounds)
    np.testing.assert_allclose(one.values(weights), two.values(weights), rtol=1e-10, atol=1e-9)


@examples(60)
@given(seeds)
def test_contexts_with_and_without_ids_agree(seed):
    """Without ids every row is a context of its own; a policy's wealth is the same."""
    log, predictions = plain.draw_log(seed)
    without = replace(log, contexts=replace(log.contexts, ids=None))
    one, two = Ledger.of(log, predictions), Ledger.of(without, predictions)
    assert len(two.contexts) == len(log)
    rng = np.random.default_rng(seed)
    bets, share = plain.draw_bets(rng, one.n_rounds)
    own, other = rng.integers(log.n_actions, size=(2, len(one.contexts)))
    _, which = np.unique(log.contexts.ids, return_inverse=True)
    assert np.array_equal(one.contexts.features[which], two.contexts.features)
    here = plain.wealth_against(one, own, bets=bets, share=share, epsilon=0.1)[np.arange(len(own)), other].sum()
    there = plain.wealth_against(two, own[which], bets=bets, share=share, epsilon=0.1)
    assert here == pytest.approx(there[np.arange(len(log)), other[which]].sum(), rel=1e-9, abs=1e-9)


@examples(80)
@given(seeds)
def test_gaps_and_values_are_their_definition(seed):
    log, predictions = plain.draw_log(seed)
    rng = np.random.default_rng(seed)
    ledger = Ledger.of(log, predictions)
    mixture = plain.draw_propensities(rng, (len(ledger.contexts), log.n_actions), least=1e-2, zeros=False)
    own = rng.integers(log.n_actions, size=len(ledger.contexts))
    weights = rng.random(ledger.n_rounds)
    ids, numbers = np.unique(log.contexts.ids).tolist(), np.unique(log.rounds).tolist()
    gaps, squares, values = (np.zeros(mixture.shape) for _ in range(3))
    for i in range(len(log)):
        c, a, f = ids.index(log.contexts.ids[i]), log.actions[i], predictions[i]
        for x in range(log.n_actions):
            estimate = {b: f[b] + (log.rewards[i] - f[b]) / mixture[c, b] * (a == b) for b in (x, int(own[c]))}
            gap = estimate[int(own[c])] - estimate[x]
            gaps[c, x] += log.repeats[i] * gap / log.samples
            squares[c, x] += log.repeats[i] * gap**2 / log.samples**2
            exact = f[x] + (log.rewards[i] - f[x]) / log.propensities[i, a] * (a == x)
            values[c, x] += log.repeats[i] * weights[numbers.index(log.rounds[i])] * exact
    found = ledger.gaps(mixture, reference=own)
    np.testing.assert_allclose(found[0], gaps, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found[1], squares, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(ledger.values(weights), values, rtol=1e-9, atol=1e-8)


def expected_gaps(seed, *, same):
    """The expectation of `gaps` and the truth, for two rounds of different propensities with their true mixture."""
    rng = np.random.default_rng(seed)
    n, a, q = 2, 3, 1
    means, weights, shares = rng.random((n, a)), rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(2))
    rounds = [plain.draw_propensities(rng, (n, a), least=1e-2, zeros=False) for _ in range(2)]
    guesses = [rng.random((n, a)) for _ in range(2)]
    mixture = shares[0] * rounds[0] + shares[1] * rounds[1]
    expected = np.zeros((n, a))
    for share, propensities, guess in zip(shares, rounds, guesses, strict=True):
        log, which = plain.every_outcome(propensities)
        ledger = Ledger.of(log, (guesses[0] if same else guess)[which])
        scores = ledger.gaps(mixture[which], reference=np.full(len(log), q))[0] * ledger.samples
        chance = share * weights[which] * likelihood(log, means, which)
        np.add.at(expected, which, chance[:, None] * scores)
    return expected, weights[:, None] * (means[:, [q]] - means)


@examples(40)
@given(seeds)
def test_gaps_are_unbiased_with_the_true_mixture_and_one_prediction(seed):
    expected, truth = expected_gaps(seed, same=True)
    np.testing.assert_allclose(expected, truth, atol=1e-9)


def small():
    contexts = Contexts.finite(2)
    propensities = [[0.5, 0.5], [0.25, 0.75]]
    return Log.of(contexts, actions=[0, 1], rewards=[1.0, 0.0], propensities=propensities, rounds=[0, 1])


def test_what_a_ledger_refuses():
    log, half = small(), np.full((2, 2), 0.5)
    for reward in (-1e-9, 1.1):
        with pytest.raises(InputError, match=r"rewards must lie in \[0, 1\]"):
            Ledger.of(replace(log, rewards=[reward, 0.5]), half)
    for bad in (np.full((2, 3), 0.5), np.full((1, 2), 0.5), np.full((2, 2), -0.1), np.full((2, 2), 1.1)):
        with pytest.raises(InputError, match=r"predictions must have one number in \[0, 1\]"):
            Ledger.of(log, bad)
    ledger = Ledger.of(log, half)
    for bet, share, epsilon in ((-0.1, 0.9, 0.1), (1.0, 0.9, 0.1), (0.1, 0.0, 0.1), (0.1, 1.0, 0.1), (0.1, 0.9, -0.1)):
        with pytest.raises(InputError, match="bets and epsilon must not be negative"):
            plain.wealth_against(ledger, [0, 0], bets=[0.1, bet], share=share, epsilon=epsilon)
    moving = plain.against_one(np.zeros(2, dtype=int), rounds=2)._replace(moves=np.array([[0.0], [1.0]]))
    for bet, fits in ((0.49, True), (0.5, False)):  # a row that moves as much again stakes twice as much
        with contextlib.nullcontext() if fits else pytest.raises(InputError, match="ruin an expert"):
            ledger.log_wealth(moving, bets=np.full(2, bet), share=0.9, epsilon=0.0)


def test_predictions_that_are_no_number_are_refused():
    with pytest.raises(InputError):
        Ledger.of(small(), np.full((2, 2), np.nan))


def test_a_bet_is_needed_for_every_round():
    """Views of longer arrays, so that reading beyond their end is harmless here; elsewhere it would be any memory."""
    beyond = np.full(4, 0.1)
    with pytest.raises(InputError):
        plain.wealth_against(
            Ledger.of(small(), np.full((2, 2), 0.5)), np.zeros(2, dtype=int), bets=beyond[:1], share=0.9, epsilon=0.1
        )


@pytest.mark.parametrize("reference", [[2, 0], [0, -1], [0]])
def test_a_reference_must_play_actions_of_the_log(reference):
    """Row 0 of two, or one action below 0, so that nothing beyond the arrays is read here."""
    own = np.zeros(4, dtype=int)
    own[: len(reference)] = reference
    with pytest.raises(InputError):
        plain.wealth_against(
            Ledger.of(small(), np.full((2, 2), 0.5)),
            own[: len(reference)],
            bets=np.full(2, 0.1),
            share=0.9,
            epsilon=0.1,
        )


@pytest.mark.parametrize(
    "bad",
    [
        {"turns": np.array([0, 1])},
        {"turns": np.array([-2, 0])},
        {"turns": np.array([0])},
        {"moves": np.zeros((2, 2))},
        {"moves": np.zeros((1, 1))},
        {"moves": np.array([[0.0], [-0.1]])},
    ],
)
def test_leaders_must_be_those_of_the_rounds(bad):
    against = plain.against_one(np.zeros(2, dtype=int), rounds=2)._replace(**bad)
    with pytest.raises(InputError, match=r"must be led by|no negative weight"):
        Ledger.of(small(), np.full((2, 2), 0.5)).log_wealth(against, bets=np.full(2, 0.1), share=0.9, epsilon=0.1)


@pytest.mark.parametrize(
    "bad", [{"multipliers": ()}, {"multipliers": (1.0, 0.0)}, {"scales": (1.0, -1.0)}, {"share": 0.0}, {"share": 1.0}]
)
def test_what_bets_refuse(bad):
    with pytest.raises(InputError):
        Bets(**({"multipliers": (1.0,), "scales": (1.0,)} | bad))


@pytest.mark.parametrize("bad", [{"multipliers": (math.nan,)}, {"scales": (math.nan,)}, {"scales": (1e-320,)}])
def test_bets_that_are_no_numbers_are_refused(bad):
    with pytest.raises(InputError):
        Bets(**({"multipliers": (1.0,), "scales": (1.0,)} | bad))


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9), st.floats(0.01, 0.99))
def test_stakes_are_in_proportion_and_never_too_large(multiplier, scale, share):
    bets = Bets((multiplier, 2 * multiplier), (scale, 3 * scale), share)
    one, two = bets.stakes(0), bets.stakes(1)
    assert (one > 0).all()
    assert (two <= MAX_STAKE * (1 + 1e-12)).all()
    np.testing.assert_allclose(two, 2 * one, rtol=1e-12)
    np.testing.assert_allclose(one, multiplier * bets.units, rtol=1e-12)
    assert len(bets) == 2

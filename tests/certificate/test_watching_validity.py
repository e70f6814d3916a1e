"""Looking at a log raises false alarms no more often than it says, at all times together, whoever chose propensities.

On short logs that is computed, not sampled: over all contexts, actions and rewards there can be, with propensities that
chase what happened before. What is bet against the true mean of a stream must be worth on average exactly what was
staked; anything that sees what it bets on (a stake, a cap or a prediction) would break that equality.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from benchmarks import false_alarms
from scipy.stats import binom

from pacbandits.certificate.alarms import FIRST_START_SHARE, find_mismatch, look_at_ratio
from pacbandits.certificate.check import batches_of_rounds, batches_of_rows, cut_in_halves
from pacbandits.certificate.drift import CHANGE_SHARE, bettors, gather_means, log_wealth, look_for_drift
from pacbandits.compiled import using_cores
from pacbandits.records import Contexts, Log

RARE = 1e-6
WEIGHTS = np.array([0.3, 0.7])  # of the contexts 0 and 1
MEANS = {
    "plain": np.array([[0.2, 0.6], [0.7, 0.4]]),
    "sure": np.array([[0.01, 0.99], [0.99, 0.01]]),
}


@pytest.fixture(autouse=True)
def _one_core():
    """Logs this small are quicker without the pool; how work is cut changes no result."""
    with using_cores(1):
        yield


def chase(context, earned, counts):
    """Hardly ever play what earned most so far."""
    best = (earned + 0.5) / (counts + 1)
    return np.where(best[:, 1] > best[:, 0], 0.05, 0.95)


def stop(context, earned, counts):
    """Play action 1 until it first fails, then hardly ever; in context 1 more often."""
    return np.where(counts[:, 1] > earned[:, 1], 0.02, np.where(context == 1, 0.9, 0.4))


def rare(context, earned, counts):
    """Play action 1 hardly ever in one context, and almost always in the other."""
    return np.where(context == 1, 0.001, 0.97)


def never(context, earned, counts):
    """Do not play action 1 in context 1 at all, once it has been played."""
    return np.where((context == 1) & (counts[:, 1] > 0), 0.0, 0.5)


ADVERSARIES = {"chase": chase, "stop": stop, "rare": rare, "never": never}


def play(rule, contexts, actions, rewards):
    """Propensities (runs, T, 2) of runs (runs, T), by what came before each row in its run."""
    runs, steps = contexts.shape
    earned, counts, out = np.zeros((runs, 2)), np.zeros((runs, 2)), np.empty((runs, steps, 2))
    every = np.arange(runs)
    for t in range(steps):
        one = ADVERSARIES[rule](contexts[:, t], earned, counts)
        out[:, t, 0], out[:, t, 1] = 1 - one, one
        earned[every, actions[:, t]] += rewards[:, t]
        counts[every, actions[:, t]] += 1
    return out


def every_log(rule, truth, *, rows, bound=None, rounds=False):
    """All logs of so many rows that can occur, with their probabilities.

    bound: for logs that know the played propensity alone, the share of each propensity that is declared.
    """
    outcomes = np.array(list(product(range(2), range(2), range(2))))
    which = np.array(list(product(range(8), repeat=rows)))
    contexts, actions, rewards = outcomes[which, 0], outcomes[which, 1], outcomes[which, 2]
    propensities = play(rule, contexts, actions, rewards)
    played = np.take_along_axis(propensities, actions[..., None], axis=2)[..., 0]
    mean = MEANS[truth][contexts, actions]
    chances = (WEIGHTS[contexts] * played * np.where(rewards == 1, mean, 1 - mean)).prod(axis=1)
    for i in np.flatnonzero(chances > 0):
        common = {"actions": actions[i], "rewards": rewards[i], "rounds": np.arange(rows) if rounds else None}
        people = Contexts.of(contexts[i][:, None].astype(float))
        if bound is None:
            yield chances[i], Log.of(people, propensities=propensities[i], **common)
        else:
            yield chances[i], Log.of_played(people, played=played[i], least=bound * propensities[i], **common)


def true_means(truth, log, batches):
    """Of actions, of pairs of an action and a half of the contexts, and of the first of these halves."""
    population = Contexts.of(np.append(log.contexts.features, [[0.0], [1.0]], axis=0))
    first = cut_in_halves(population, batches.order[: batches.edges[1]]).inside[-2:, 0] == 1
    means, out = MEANS[truth], list(WEIGHTS @ MEANS[truth])
    for half in (first, ~first):
        out += list((WEIGHTS * half) @ means / max((WEIGHTS * half).sum(), 1e-300))
    return [*out, float(WEIGHTS @ first)]


def wealth_at_the_truth(log, batches, truth):
    """Log-wealth (S, K) of the bets on every stream against its true mean, after every batch."""
    means = gather_means(log, batches)
    who, k = bettors(means.bets.stakes.shape[2]), len(batches)
    out, slopes, peaks = np.empty((len(means.names), k)), np.empty(k), np.empty(2)
    for s, mean in enumerate(true_means(truth, log, batches)):
        log_wealth(means.bets, s, mean, who, out[s], slopes, peaks)
    assert s == len(means.names) - 1
    return out, means


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rule", "truth", "bound", "rows"),
    [
        ("chase", "plain", None, 3),
        ("stop", "sure", None, 2),
        ("rare", "plain", 0.5, 3),
        ("never", "sure", None, 2),
        *(
            pytest.param(rule, truth, bound, 4 if bound == 0.5 else 3, marks=pytest.mark.slow)
            for rule in ADVERSARIES
            for truth in MEANS
            for bound in (None, 0.0, 0.5, 1.0)
        ),
    ],
)
def test_bets_against_the_true_mean_are_fair_whoever_plays(rule, truth, bound, rows):
    """E[W] is the share of the money that was bet on a change by now; less where an action cannot be played."""
    worth, total = 0.0, 0.0
    for chance, log in every_log(rule, truth, rows=rows, bound=bound):
        batches = batches_of_rows(log, first_rows=1)
        assert len(batches) == rows
        worth = worth + chance * np.exp(wealth_at_the_truth(log, batches, truth)[0])
        total += chance
    assert total == pytest.approx(1)
    staked = np.tile(1 - (1 - CHANGE_SHARE) ** np.arange(rows), (7, 1))
    if rule == "never":
        assert (worth <= staked + 1e-9).all()
        assert (worth < staked - 1e-6).any()
        staked, worth = staked[6:], worth[6:]  # contexts alone
    np.testing.assert_allclose(worth, staked, rtol=1e-9, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rule", "bound", "rows"),
    [
        ("chase", None, 3),
        ("rare", 0.5, 2),
        ("never", 0.0, 2),
        *(
            pytest.param(rule, bound, 4, marks=pytest.mark.slow)
            for rule in ADVERSARIES
            for bound in (None, 0.0, 0.5, 1.0)
        ),
    ],
)
def test_bets_on_the_sample_ratio_are_fair_whoever_plays(rule, bound, rows):
    """In one round E is the share of the money that was bet at the start; over rounds it is ever 1/α with chance α."""
    worth = sum(
        chance * math.exp(look_at_ratio(log, needed=1.0, first_rows=1).log_evidence)
        for chance, log in every_log(rule, "plain", rows=rows, bound=bound)
    )
    if rule == "never":
        assert worth <= FIRST_START_SHARE + 1e-12
    else:
        assert worth == pytest.approx(FIRST_START_SHARE, rel=1e-9)
    found = [
        (look_at_ratio(log, needed=1.0, first_rows=1).log_evidence, chance)
        for chance, log in every_log(rule, "plain", rows=rows, bound=bound, rounds=True)
    ]
    found.sort(reverse=True)
    values, chances = np.exp([value for value, _ in found]), np.cumsum([chance for _, chance in found])
    assert values[0] > FIRST_START_SHARE
    assert (chances <= 1 / values + 1e-9).all()


def test_bets_on_the_sample_ratio_never_have_more_money_than_one():
    """Where nothing is gained or lost, the evidence is the money that was bet until now."""
    for batches, money in ((1, 0.5), (2, 0.51), (2000, 1.0)):
        nothing = np.zeros((batches, 3, 5, 4))  # gains of 3 actions, all rows and 4 halves, 4 tilts
        assert math.exp(find_mismatch(nothing).log_evidence) == pytest.approx(money)


def draw_logs(rule, truth, *, runs, rows, seed):
    """Logs of an adversary, drawn; (runs, rows) of contexts, actions, rewards, and propensities."""
    rng = np.random.default_rng(seed)
    contexts = (rng.random((runs, rows)) < WEIGHTS[1]).astype(int)
    luck, noise = rng.random((runs, rows)), rng.random((runs, rows))
    actions, rewards = np.zeros((runs, rows), dtype=int), np.zeros((runs, rows))
    propensities = np.empty((runs, rows, 2))
    earned, counts, every = np.zeros((runs, 2)), np.zeros((runs, 2)), np.arange(runs)
    for t in range(rows):
        one = ADVERSARIES[rule](contexts[:, t], earned, counts)
        actions[:, t] = luck[:, t] < one
        rewards[:, t] = noise[:, t] < MEANS[truth][contexts[:, t], actions[:, t]]
        propensities[:, t] = np.stack([1 - one, one], axis=1)
        earned[every, actions[:, t]] += rewards[:, t]
        counts[every, actions[:, t]] += 1
    for i in range(runs):
        people = Contexts.of(contexts[i][:, None].astype(float))
        yield Log.of(people, actions=actions[i], rewards=rewards[i], propensities=propensities[i])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rule", "truth", "runs", "rows"),
    [
        ("chase", "plain", 60, 400),
        *(pytest.param(rule, truth, 300, 1500, marks=pytest.mark.slow) for rule in ADVERSARIES for truth in MEANS),
    ],
)
def test_no_stream_is_ever_rich_against_the_truth_more_often_than_it_may(rule, truth, runs, rows):
    """Ville, at the end of every batch, for each stream and for their average; and alarms are rarer still."""
    alpha, rich, alarms = 0.2, 0, 0
    for log in draw_logs(rule, truth, runs=runs, rows=rows, seed=1):
        batches = batches_of_rows(log)
        wealth, means = wealth_at_the_truth(log, batches, truth)
        average = np.logaddexp.reduce(wealth + means.log_weights[:, None], axis=0)
        staked = 1 - (1 - CHANGE_SHARE) ** (len(batches) - 1)  # the rest of the money has not been bet on anything yet
        rich = rich + (np.vstack([wealth, average]).max(axis=1) >= math.log(staked / alpha))
        alarms += look_for_drift(log, needed=math.log(1 / alpha)).alarm
        alarms += look_at_ratio(log, needed=math.log(1 / alpha)).alarm
    assert (rich <= binom.ppf(1 - RARE, runs, alpha)).all(), rich
    assert rich.max() > 0
    assert alarms <= binom.ppf(1 - RARE, runs, 2 * alpha)


def test_rounds_are_batches_and_their_order_within_does_not_matter():
    """What is found is the same for rows in any order within a round, and for rows that are alike in_number as one."""
    (log,) = draw_logs("chase", "plain", runs=1, rows=1200, seed=5)
    rounds = np.sort(np.random.default_rng(0).integers(12, size=1200))
    fixed = np.tile([0.3, 0.7], (1200, 1))
    log = Log.of(log.contexts, actions=log.actions, rewards=log.rewards, propensities=fixed, rounds=rounds)
    order = np.random.default_rng(1).permutation(1200)
    key = np.column_stack([rounds, log.contexts.features[:, 0], log.actions, log.rewards])
    _, first, repeats = np.unique(key, axis=0, return_index=True, return_counts=True)
    alike = log.take(first)
    alike = Log.of(
        alike.contexts,
        actions=alike.actions,
        rewards=alike.rewards,
        propensities=alike.propensities,
        rounds=alike.rounds,
        repeats=repeats,
    )
    assert len(batches_of_rounds(log)) > 8
    for look in (look_for_drift, look_at_ratio):
        ours = look(log, needed=3.0)
        assert ours.looked
        assert not ours.by_rows
        for other in (log.take(order), alike):
            theirs = look(other, needed=3.0)
            assert theirs.log_evidence == pytest.approx(ours.log_evidence, abs=0.02)
            assert theirs.where == ours.where


@pytest.mark.slow
@pytest.mark.parametrize("kind", false_alarms.KINDS)
def test_honest_logs_raise_alarms_no_more_often_than_is_stated(kind):
    for count in false_alarms.count_alarms(kind, 300, seed=9):
        assert count <= binom.ppf(1 - RARE, 300, false_alarms.STATED)


@pytest.mark.slow
@pytest.mark.parametrize(("drift", "fewest"), [(0.05, 50), (0.2, 100)])
def test_drift_that_hurts_bets_is_found_or_leaves_claims_right(drift, fewest):
    """Leaders in turn, each while it is good: the mixture is worse on average than it seems; of 100 logs each."""
    for ordered in (True, False):
        silent, loud, alarms, _ = false_alarms.claims_under_drift(drift, 100, ordered=ordered)
        assert (silent, loud) == (0, 0)
        assert alarms >= fewest

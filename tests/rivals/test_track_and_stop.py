"""Track-and-stop with policies for arms: shares as published, a test that holds at all times, and draws of policies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts, Log, RewardBounds
from pacbandits.rivals.track_and_stop import ArmMixture, ArmTally, TrackAndStop, closest, kl, optimal_shares
from pacbandits.simulation import run

RARE = 1e-6
MEANS = np.array([[0.2, 0.8, 0.4], [0.6, 0.3, 0.5], [0.1, 0.2, 0.7]])
TABLE = np.array([[0, 0, 0], [1, 0, 2], [1, 1, 1], [2, 2, 2], [1, 0, 0]])


def small(means=MEANS, table=TABLE):
    """Three contexts, three actions and five policies."""
    population = Contexts.finite(len(means), weights=[0.5, 0.3, 0.2])
    return Problem("small", "Few contexts.", population, means, Bernoulli(), Finite(table, n_actions=3))


def tally_of(plays, sums):
    return ArmTally(np.arange(len(plays)), np.array(plays, dtype=float), np.array(sums, dtype=float))


def rate(shares, means, *, epsilon):
    """What the shares are chosen to make large."""
    best = int(np.argmax(means))
    rest = np.arange(len(means)) != best
    return closest(means[best], means[rest], shares[best], shares[rest], epsilon=epsilon).min()


@pytest.mark.parametrize(
    ("means", "published"),
    [
        ([0.5, 0.45, 0.43, 0.4], [0.417, 0.390, 0.136, 0.057]),
        ([0.3, 0.21, 0.2, 0.19, 0.18], [0.336, 0.251, 0.177, 0.132, 0.104]),
    ],
)
def test_shares_are_those_that_the_paper_prints(means, published):
    assert optimal_shares(np.array(means), epsilon=0.0) == pytest.approx(np.array(published), abs=0.004)


@pytest.mark.thorough
@pytest.mark.parametrize("means", [[0.6, 0.55, 0.3, 0.05], [0.95, 0.9, 0.02], [0.5, 0.5, 0.5], [0.02, 0.01, 0.01]])
@pytest.mark.parametrize("epsilon", [0.02, 0.2])
def test_no_other_shares_tell_arms_apart_sooner(means, epsilon):
    means, rng = np.array(means), np.random.default_rng(0)
    found = optimal_shares(means, epsilon=epsilon)
    assert found.sum() == pytest.approx(1)
    best = rate(found, means, epsilon=epsilon)
    for spread in (1.0, 0.1, 0.03):
        for _ in range(100):
            other = found * np.exp(spread * rng.standard_normal(len(means)))
            assert rate(other / other.sum(), means, epsilon=epsilon) < 1.005 * best
    assert rate(np.full(len(means), 1 / len(means)), means, epsilon=epsilon) <= 1.005 * best


def test_the_likelihood_ratio_is_the_least_over_all_pairs_of_means_that_are_apart():
    grid = np.linspace(1e-6, 1 - 1e-6, 20_001)
    for best, other, n, m, epsilon in ((0.7, 0.4, 30, 50, 0.0), (0.7, 0.6, 9, 80, 0.1), (1.0, 0.0, 5, 7, 0.2)):
        (found,) = closest(best, np.array([other]), n, np.array([float(m)]), epsilon=epsilon)
        lower = grid[grid + epsilon < 1]
        every = n * kl(best, lower) + m * kl(other, lower + epsilon)
        assert found == pytest.approx(every.min(), rel=1e-5)
    # Where the other arm is better by ε already, there is no evidence that it is not.
    assert closest(0.3, np.array([0.5]), 10.0, np.array([10.0]), epsilon=0.1).tolist() == [0.0]


def test_prices_are_at_most_those_of_the_published_threshold():
    for n in (1, 2, 10, 1000, 10**6):
        sums = np.linspace(0, n, 21)
        prices = tally_of([n] * 21, sums).prices
        assert (prices >= -1e-9).all()
        assert (prices <= math.log(2 * math.sqrt(n)) + 1e-9).all()
    assert tally_of([0], [0]).prices.tolist() == [0.0]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["coins", "uniform", "sure"])
def test_the_truth_is_rejected_at_any_time_no_more_often_than_delta(kind):
    """N kl(μ̂, μ) less the price, of two arms, for rewards that need not be coins; without the price it would be."""
    rng, paths, steps, delta = np.random.default_rng(5), 1500, 400, 0.1
    draw = {
        "coins": lambda: (rng.random((paths, steps)) < 0.3).astype(float),
        "uniform": lambda: rng.random((paths, steps)),
        "sure": lambda: np.full((paths, steps), 0.4),
    }[kind]
    truth = {"coins": 0.3, "uniform": 0.5, "sure": 0.4}[kind]
    n = np.tile(np.arange(1.0, steps + 1), (paths, 1))
    dear, cheap = np.zeros((paths, steps)), np.zeros((paths, steps))
    for _ in range(2):
        sums = np.cumsum(draw(), axis=1)
        arm = ArmTally(np.arange(1), n, sums)
        likelihood = n * kl(np.minimum(arm.means, 1.0), np.full_like(n, truth))
        dear += likelihood - arm.prices
        cheap += likelihood
    assert binom.sf((dear > math.log(1 / delta)).any(axis=1).sum() - 1, paths, delta) > RARE
    if kind == "coins":
        assert binom.sf((cheap > math.log(1 / delta)).any(axis=1).sum() - 1, paths, delta) < RARE


def test_policies_that_are_drawn_afterwards_have_the_law_of_those_drawn_before():
    """Which policy, in which context, with which reward: counts of a mixture whose draws are kept, and of ours."""
    problem, weights = small(), np.array([0.1, 0.3, 0.2, 0.15, 0.25])
    mixture = ArmMixture(problem.policies, np.arange(5), weights)
    by_hand = np.zeros((3, 3))
    for table, weight in zip(TABLE, weights, strict=True):
        by_hand[np.arange(3), table] += weight
    assert mixture.propensities(problem.population) == pytest.approx(by_hand)
    samples = 60_000
    log = problem.interact(mixture, samples=samples, rng=np.random.default_rng(2))
    plays, sums = mixture.drawn(log, np.random.default_rng(3))
    assert plays.sum() == samples
    assert sums.sum() == pytest.approx(log.repeats @ log.rewards)
    assert chisquare(plays, samples * weights).pvalue > RARE
    worth = np.array([problem.value(problem.policies.policy(k)) for k in range(5)])
    assert (np.abs(sums / plays - worth) < 5 * 0.5 / np.sqrt(plays)).all()


def test_only_policies_that_take_the_action_can_have_been_drawn():
    problem = small()
    mixture = ArmMixture(problem.policies, np.array([0, 1, 3]), np.array([0.5, 0.5, 0.0]))
    rows = {"actions": [1, 0, 0], "rewards": [1, 0, 1], "propensities": [[0.5, 0.5, 0], [0.5, 0.5, 0], [1, 0, 0]]}
    log = Log.of(Contexts.finite(3).take([0, 0, 1]), **rows, repeats=[10, 20, 30])
    plays, sums = mixture.drawn(log, np.random.default_rng(0))
    assert plays[2] == 0
    assert 20 <= plays[0] <= 50
    assert plays[1] == 60 - plays[0]
    assert sums.sum() == 40
    assert sums[1] >= 10
    again, earned = mixture.drawn(log.take(np.array([2, 0, 1])), np.random.default_rng(0))
    assert (plays.tolist(), sums.tolist()) == (again.tolist(), earned.tolist())  # in whatever order they were written


@pytest.mark.thorough
def test_it_stops_with_an_answer_that_is_good_but_for_delta():
    problem, runs, delta = small(), 30, 0.1
    done = [run(problem, algorithm=TrackAndStop(0.05, delta, growth=1.0), rng=seed) for seed in range(runs)]
    assert all(one.stopped == "done" for one in done)
    assert binom.sf(sum(not one.correct for one in done) - 1, runs, delta) > RARE


@pytest.mark.thorough
def test_plays_approach_the_best_shares_and_their_number_what_the_theory_has():
    problem = small(table=[[0, 0, 0], [1, 1, 1], [2, 2, 2]])
    worth = np.array([problem.value(problem.policies.policy(k)) for k in range(3)])
    algorithm, rng = TrackAndStop(0.0, 1e-12), np.random.default_rng(0)
    state = algorithm.start(problem.policies, problem.population)
    while (plan := algorithm.design(state)) is not None:
        state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
    best = optimal_shares(worth, epsilon=0.0)
    assert state.memory.plays / state.samples == pytest.approx(best, abs=0.1)
    least = math.log(1e12) / rate(best, worth, epsilon=0.0)
    assert 0.5 * least < state.samples < 2.5 * least
    assert state.policy.describe() == problem.policies.policy(int(worth.argmax())).describe()


@pytest.mark.thorough
def test_every_policy_is_tried_and_none_is_forgotten():
    problem, algorithm, rng = small(), TrackAndStop(0.0, 1e-300), np.random.default_rng(1)
    state = algorithm.start(problem.policies, problem.population)
    while state.samples < 5000:
        plan = algorithm.design(state)
        state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
    assert (state.memory.plays > 0.5 * (math.sqrt(state.samples) - 2.5)).all()


def test_actions_for_arms_are_the_policies_that_always_take_them_and_prove_nothing_of_the_others():
    problem = small()
    done = run(problem, algorithm=TrackAndStop(0.05, 0.1, arms="actions", growth=0.5), rng=0)
    worth = problem.population.weights @ MEANS
    assert set(done.policy(problem.population).tolist()) == {int(worth.argmax())}
    assert done.guarantee.startswith("none: the best of 3 arms is known, and the class has 5 policies")
    alone = small(table=[[0, 0, 0], [1, 1, 1]])
    done = run(alone, algorithm=TrackAndStop(0.05, 0.1, arms="actions", growth=0.5), rng=0)
    assert done.guarantee.startswith("except with probability 0.1 the policy is within 0.05 of the best of its class")


def test_what_does_not_fit_is_refused():
    problem = small(table=[[0, 1, 0], [1, 0, 1]])
    with pytest.raises(InputError, match="none of the 2 does; use arms=policies"):
        TrackAndStop(0.1, 0.1, arms="actions").start(problem.policies, problem.population)
    with pytest.raises(InputError, match="arms must be policies or actions, got 'contexts'"):
        TrackAndStop(0.1, 0.1, arms="contexts")
    with pytest.raises(InputError, match=r"track-and-stop needs rewards in \[0, 1\]"):
        TrackAndStop(0.1, 0.1, rewards=RewardBounds(2.0, in_unit=False))
    many = small(table=np.random.default_rng(0).integers(3, size=(2001, 3)))
    with pytest.raises(InputError, match="at most 2,000 of them, and the class has 2,001"):
        TrackAndStop(0.1, 0.1).start(many.policies, many.population)

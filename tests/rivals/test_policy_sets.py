"""Sets of policies by confidence sequences: outcomes row by row, coverage over many logs, and logs of others."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts, Log, RewardBounds
from pacbandits.rivals.policy_sets import LowerEnds, PolicySet, PolicySets
from pacbandits.rivals.samplers import RuleSampler
from pacbandits.simulation import run

RARE = 1e-6
SEQUENCES = ("lil", "plug-in")
MEANS = np.array([[0.2, 0.8, 0.4], [0.6, 0.3, 0.5], [0.1, 0.2, 0.7]])
TABLE = np.array([[0, 0, 0], [1, 0, 2], [1, 1, 1], [2, 2, 2], [1, 0, 0]])
PROPENSITIES = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.45, 0.05, 0.5]])
UNEVEN = RuleSampler(3, lambda contexts: PROPENSITIES[contexts.ids])


def small(means=MEANS, table=TABLE, noise=None):
    """Three contexts, three actions and five policies."""
    population = Contexts.finite(len(means), weights=[0.5, 0.3, 0.2])
    return Problem("small", "Few contexts.", population, means, noise or Bernoulli(), Finite(table, n_actions=3))


def values(problem):
    """V of every policy."""
    return np.array([problem.value(problem.policies.policy(k)) for k in range(len(problem.policies))])


def rows_of(log):
    """Every interaction by itself: its context, action, reward and propensities."""
    at = np.repeat(np.arange(len(log)), log.repeats)
    return list(zip(log.contexts.ids[at], log.actions[at], log.rewards[at], log.propensities[at], strict=True))


def by_hand(rounds, models, policy, *, k, level, sequence):
    """The largest lower end after the rounds, from outcomes one by one."""
    xs, bets, won, deviations, best = [], 0.0, 0.0, 0.0, 0.0
    confidence = math.log(1 / level)
    for rows, model in zip(rounds, models, strict=True):
        t = len(xs)
        centre = min(np.mean(xs), 1 / (1 + k)) if xs else 1 / (1 + k) / 2
        variance = (0.25 + sum((x - centre) ** 2 for x in xs)) / (t + 1)
        middle = t + (len(rows) + 1) / 2
        bet = min(math.sqrt(2 * confidence / (variance * middle * math.log(1 + middle))), 0.5)
        for context, action, reward, chances in rows:
            own = policy[context]
            told = min(model[context, own], k * chances[own])
            outcome = told + (action == own) * (reward - told) / chances[own]
            assert outcome >= -k - 1e-12
            x = outcome / (1 + k)
            won += bet * x - (-math.log(1 - bet) - bet) * (x - centre) ** 2
            bets += bet
            deviations += (x - centre) ** 2
            xs.append(x)
        if sequence == "plug-in":
            end = (1 + k) * (won - confidence) / bets
        else:
            v = max(deviations, 1.0)
            ell = 2 * math.log(1 + math.log(v)) + math.log(1.65 / level)
            end = (1 + k) * (np.mean(xs) - (math.sqrt(2.13 * ell * v + 1.76 * ell**2) + 1.33 * ell) / len(xs))
        best = max(best, end)
    return best


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_ends_are_those_of_the_formulas_row_by_row(sequence):
    problem, rng, k = small(), np.random.default_rng(1), 1.5
    logs = [problem.interact(UNEVEN, samples=n, rng=rng) for n in (100, 150, 350)]
    models = [np.zeros((3, 3)), rng.random((3, 3)), np.clip(MEANS + 0.1 * rng.standard_normal((3, 3)), 0, 1)]
    known = PolicySet.nothing(5, reach=k)
    for log, model in zip(logs, models, strict=True):
        known = known.after(log, model[log.contexts.ids], problem.policies, sequence=sequence, delta=0.1)
    rounds = [rows_of(log) for log in logs]
    turned = [[(c, a, 1 - r, p) for c, a, r, p in rows] for rows in rounds]
    for index, policy in enumerate(TABLE):
        low = by_hand(rounds, models, policy, k=k, level=0.1 / 10, sequence=sequence)
        high = by_hand(turned, [1 - model for model in models], policy, k=k, level=0.1 / 10, sequence=sequence)
        assert known.lower[index] == pytest.approx(low, abs=1e-9)
        assert known.upper[index] == pytest.approx(1 - high, abs=1e-9)
    assert known.lower.max() > 0.1
    assert known.samples == 600


def test_outcomes_have_the_value_of_the_policy_for_a_mean_whatever_is_cut_off():
    problem, model = small(), np.array([[0.9, 0.5, 0.5], [0.2, 0.9, 0.9], [0.6, 0.6, 0.1]])
    for k in (0.0, 0.3, 2.0):
        sums = np.zeros(5)
        for context, weight in enumerate(problem.population.weights):
            for action in range(3):
                for reward, chance in ((1.0, MEANS[context, action]), (0.0, 1 - MEANS[context, action])):
                    one = Log.of(
                        Contexts.finite(3).take([context]),
                        actions=[action],
                        rewards=[reward],
                        propensities=PROPENSITIES[[context]],
                    )
                    seen = PolicySet.nothing(5, reach=k)
                    seen = seen.after(one, model[[context]], problem.policies, sequence="lil", delta=0.1)
                    sums += weight * PROPENSITIES[context, action] * chance * seen.low.means
        assert sums == pytest.approx(values(problem))


def states_of(algorithm, problem, rng):
    states = [algorithm.start(problem.policies, problem.population)]
    while (plan := algorithm.design(states[-1])) is not None:
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        states.append(algorithm.absorb(states[-1], plan, log))
    return states


@pytest.mark.thorough
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_no_value_leaves_its_ends_more_often_than_delta(sequence):
    """Over all policies and all times; and the test could tell, as ends that are too near are left often."""
    problem, delta, runs, rng = small(), 0.2, 100, np.random.default_rng(0)
    truth, wrong, near = values(problem), 0, 0
    for _ in range(runs):
        last = PolicySet.nothing(5, reach=1.5)
        for samples in (10, 10, 20, 40, 80, 160, 320, 640):
            log = problem.interact(UNEVEN, samples=samples, rng=rng)
            told = 0.8 * MEANS[log.contexts.ids]
            last = last.after(log, told, problem.policies, sequence=sequence, delta=delta)
        wrong += bool(((truth < last.lower) | (truth > last.upper)).any())
        middle = (last.lower + last.upper) / 2
        near += bool((np.abs(truth - middle) > 0.25 * (last.upper - last.lower) / 2).any())
    assert binom.sf(wrong - 1, runs, delta) > RARE
    assert binom.sf(near - 1, runs, delta) < RARE


@pytest.mark.thorough
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_it_stops_with_an_answer_that_is_good_but_for_delta(sequence):
    problem, runs, delta = small(), 40, 0.1
    algorithm = PolicySets(0.1, delta, sequence=sequence, growth=1.0)
    done = [run(problem, algorithm=algorithm, rng=seed) for seed in range(runs)]
    assert all(one.stopped == "done" for one in done)
    assert binom.sf(sum(not one.correct for one in done) - 1, runs, delta) > RARE
    # Of the order A log(|Π|/δ)/ε², and not of 1/ε⁴ or of |Π|.
    typical = 3 * math.log(2 * 5 / delta) / 0.1**2
    assert 0.1 * typical < np.median([one.samples for one in done]) < 10 * typical


def test_ends_draw_together_and_who_left_the_set_does_not_come_back():
    states = states_of(PolicySets(0.02, 0.1), small(), np.random.default_rng(4))
    sets = [state.memory.values for state in states]
    for before, after in pairwise(sets):
        assert (after.lower >= before.lower).all()
        assert (after.upper <= before.upper).all()
        assert not (after.survivors & ~before.survivors).any()
    assert sets[0].survivors.all()
    assert sets[-1].survivors.sum() < 5
    assert states[-1].policy.describe() == small().policies.policy(1).describe()


@pytest.mark.thorough
def test_predictions_make_it_stop_sooner():
    """Where rewards are almost sure, weighting alone cannot tell as much."""
    problem = small(np.array([[0.9, 0.95, 0.9], [0.95, 0.9, 0.9], [0.9, 0.9, 0.95]]))
    with_model, without = (
        np.mean([run(problem, algorithm=PolicySets(0.04, 0.1, truncation=c), rng=seed).samples for seed in range(2)])
        for c in (2.0, 1e9)
    )
    assert with_model < 0.6 * without


def test_of_actions_that_a_log_never_plays_nothing_is_claimed():
    problem = small()
    never = RuleSampler(3, lambda contexts: np.tile([0.5, 0.0, 0.5], (len(contexts), 1)))
    log = problem.interact(never, samples=20_000, rng=np.random.default_rng(0))
    known = PolicySet.nothing(len(problem.policies), reach=1.5)
    known = known.after(log, np.full((len(log), 3), 0.5), problem.policies, sequence="plug-in", delta=0.1)
    truth = values(problem)
    assert (known.lower <= truth).all()
    assert (known.upper >= truth).all()
    assert known.upper[2] == 1  # always the action that is never played
    assert known.gaps[known.best] > 0.1


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="sequence must be lil or plug-in, got 'hoeffding'"):
        PolicySets(0.1, 0.1, sequence="hoeffding")
    with pytest.raises(InputError, match="truncation must"):
        PolicySets(0.1, 0.1, truncation=0.0)
    with pytest.raises(InputError, match=r"policy-sets needs rewards in \[0, 1\]"):
        PolicySets(0.1, 0.1, rewards=RewardBounds(2.0, in_unit=False))


def test_nothing_seen_is_nothing_known():
    nothing = LowerEnds.nothing(4, reach=1.0)
    assert (nothing.ends == 0).all()
    assert (nothing.means == 0).all()
    assert PolicySet.nothing(1, reach=1.0).gaps.tolist() == [0.0]  # a policy that is alone is the best

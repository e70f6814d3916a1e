"""PolicyElimination: its formulas, its constraint by brute force, who is dropped, and when it stops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.problems import load_problem
from pacbandits.records import RewardBounds
from pacbandits.rivals.policy_elimination import ListedMixture, PolicyElimination, explored
from pacbandits.rivals.samplers import PolicyMixture
from pacbandits.simulation import run
from tests.rivals.oracle_cases import easy, made, random_problem, states_of


def variances_of(table, weights, shares, *, floor, n_actions):
    """E_x[1/p(π(x)|x)] of every policy of a table, in plain loops."""
    out = []
    for policy in table:
        total = 0.0
        for context, action in enumerate(policy):
            same = sum(w for other, w in zip(table, weights, strict=True) if other[context] == action)
            total += shares[context] / ((1 - n_actions * floor) * same + floor)
        out.append(total)
    return np.array(out)


def test_the_radius_and_the_least_probability_are_the_published_ones():
    problem = random_problem(0)  # 25 policies, 4 actions, δ = 0.1
    algorithm, policies = made("policy-elimination", problem), problem.policies
    size = math.log(4 * 25 * 10_000**2 / 0.1)
    assert algorithm.bound(policies, 10_000) == pytest.approx(2 * math.sqrt(2 * 4 * size / 10_000))
    assert algorithm.floor(policies, 10_000) == pytest.approx(math.sqrt(size / (2 * 4 * 10_000)))
    assert algorithm.floor(policies, 0) == algorithm.floor(policies, 10) == 1 / 8
    half = made("policy-elimination:radius=0.5", problem)
    assert half.bound(policies, 10_000) == pytest.approx(algorithm.bound(policies, 10_000) / 2)
    assert half.floor(policies, 10_000) == algorithm.floor(policies, 10_000)


@pytest.mark.thorough
@pytest.mark.parametrize("floor", [0.1, 0.01, 1e-4])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_policy_is_explored(floor, seed):
    """Also where one policy does what no other does, which even weights explore too little."""
    rng = np.random.default_rng(seed)
    table = np.vstack([np.ones((200, 5), dtype=int), rng.integers(0, 3, size=(20, 5)), np.zeros((1, 5), dtype=int)])
    shares, alike = rng.dirichlet(np.ones(5)), np.full(len(table), 1 / len(table))
    before = variances_of(table, alike, shares, floor=floor, n_actions=3)
    weights = explored(table, shares=shares, floor=floor, start=alike, n_actions=3)
    after = variances_of(table, weights, shares, floor=floor, n_actions=3)
    assert weights.sum() == pytest.approx(1)
    assert after.max() <= 6 * (1 + 1e-9)
    assert floor == 0.1 or before.max() > 6


def test_the_list_is_played_as_any_mixture_of_policies():
    problem = random_problem(1)
    weights = np.random.default_rng(0).dirichlet(np.ones(25))
    weights[3] = 0.0
    weights /= weights.sum()
    policies = tuple(map(problem.policies.policy, range(25)))
    one = ListedMixture(problem.policies, weights, 0.05).propensities(problem.population)
    assert np.allclose(one, PolicyMixture(policies, weights, floor=0.05).propensities(problem.population), atol=1e-12)


@pytest.mark.thorough
def test_a_run_keeps_the_constraint_and_drops_by_the_rule():
    problem = random_problem(2)
    algorithm, table = made("policy-elimination", problem, epsilon=0.1), problem.policies.table
    states, _ = states_of(algorithm, problem)
    dropped = 0
    for before, state in zip(states[:-1:10], states[1::10], strict=False):
        seen, kept = state.seen, state.memory
        values = np.array([seen.scores[np.arange(6), row].sum() for row in table]) / seen.samples
        behind = values[before.memory.alive].max() - values
        bound = 2 * algorithm.bound(problem.policies, seen.samples)
        assert np.array_equal(kept.alive, before.memory.alive & (behind <= bound))
        assert (kept.weights[~kept.alive] == 0).all()
        alive = table[kept.alive]
        floor = algorithm.floor(problem.policies, seen.samples)
        shares = problem.population.weights
        found = variances_of(alive, kept.weights[kept.alive], shares, floor=floor, n_actions=4)
        assert found.max() <= 8 * (1 + 1e-9)
        if 2 * algorithm.bound(problem.policies, seen.samples) > 0.1:
            scores = seen.scores - seen.sums.sum() / seen.samples * seen.inverses
            values = np.array([scores[np.arange(6), row].sum() for row in table])
        assert values[kept.leader] == pytest.approx(values[kept.alive].max())
        dropped += int((before.memory.alive & ~kept.alive).sum())
    assert dropped > 0
    last = states[-1]
    assert 2 * algorithm.bound(problem.policies, last.samples) <= 0.1 or last.memory.settled
    assert 2 * algorithm.bound(problem.policies, states[-2].samples) > 0.1
    assert not states[-2].memory.settled


@pytest.mark.thorough
def test_what_is_proven_is_the_survivor_of_largest_estimate_as_published():
    problem = random_problem(2)
    state = states_of(made("policy-elimination", problem, epsilon=0.1), problem)[0][-1]
    values = np.array([state.seen.scores[np.arange(6), row].sum() for row in problem.policies.table])
    assert state.finished
    assert values[state.memory.leader] == pytest.approx(values[state.memory.alive].max())


def test_it_stops_early_where_one_policy_is_left():
    done = run(easy(), algorithm="policy-elimination", epsilon=0.001, delta=0.1, rng=0)
    assert done.stopped == "done"
    assert done.value_gap == 0
    assert done.samples < 200_000  # an ε of 0.001 alone would need 32 A log(…)/ε² > 10⁹


@pytest.mark.thorough
def test_the_radius_may_be_smaller_but_then_nothing_is_proven():
    done = run(easy(), algorithm="policy-elimination:radius=0.1", epsilon=0.001, delta=0.1, rng=0)
    full = run(easy(), algorithm="policy-elimination", epsilon=0.001, delta=0.1, rng=0)
    assert done.samples < full.samples / 20
    assert done.guarantee == "none: the radius was multiplied by 0.1, and the proof needs 1"
    assert "except with probability 0.1 the policy is within 0.001 of the best of its class" in full.guarantee


@pytest.mark.thorough
def test_the_best_policy_is_hardly_ever_dropped_and_a_tiny_radius_drops_it():
    problem = easy(gap=0.1, policies=40, seed=3)

    def lost(spec):
        last = [states_of(made(spec, problem, epsilon=0.3), problem, seed=seed)[0][-1] for seed in range(20)]
        return sum(not state.memory.alive[0] for state in last)

    assert binom.sf(lost("policy-elimination:growth=1") - 1, 20, 0.1) > 1e-6
    assert lost("policy-elimination:growth=1,radius=0.001") > 5


def test_what_it_cannot_do_is_refused():
    problem = load_problem("trees:contexts=60,features=3,bins=4,actions=3,competitive=2,depth=1")
    with pytest.raises(InputError, match="keeps a figure for each policy, and Trees cannot be listed"):
        made("policy-elimination", problem).start(problem.policies, problem.population)
    many = Finite(np.zeros((100_001, 1), dtype=int), n_actions=2)
    with pytest.raises(InputError, match="at most 100,000 of them, and the class has 100,001"):
        PolicyElimination(0.1, 0.1).start(many, easy().population)
    with pytest.raises(InputError, match=r"needs rewards in \[0, 1\], and these are not known to be"):
        PolicyElimination(0.1, 0.1, rewards=RewardBounds(second_moment=2.0, in_unit=False))
    with pytest.raises(InputError, match="radius must be"):
        PolicyElimination(0.1, 0.1, radius=0.0)


def test_contexts_that_stand_for_others_are_named():
    problem = easy()
    algorithm = PolicyElimination(0.5, 0.1, sampled_contexts=4)
    last = states_of(algorithm, problem)[0][-1]
    assert "that 4 contexts that were drawn stand well enough" in algorithm.result(last).guarantee

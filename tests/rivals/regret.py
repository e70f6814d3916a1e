"""Runs of baselines round by round, and what they lose on the way."""

from __future__ import annotations

import numpy as np

from pacbandits.compiled import using_cores
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts


def easy(*, contexts=4, actions=3, gap=0.4):
    """The best policy is best everywhere; others take its action in fewer and fewer contexts, in all others another."""
    means = np.full((contexts, actions), 0.5 - gap / 2)
    best = 1 + np.arange(contexts) % (actions - 1)
    means[np.arange(contexts), best] = 0.5 + gap / 2
    table = [
        np.where(np.arange(contexts) < kept, best, (best + shift) % actions)
        for kept in range(contexts)
        for shift in range(1, actions)
    ]
    policies = Finite(np.array([*table, best]), n_actions=actions)
    return Problem("easy", "One policy is best.", Contexts.finite(contexts), means, Bernoulli(), policies)


def play(algorithm, problem, *, seed=0):
    """All states of a run, and the plans between them."""
    rng, plans = np.random.default_rng(seed), []
    states = [algorithm.start(problem.policies, problem.population)]
    with using_cores(1):
        while (plan := algorithm.design(states[-1])) is not None:
            log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
            states.append(algorithm.absorb(states[-1], plan, log))
            plans.append(plan)
    return states, plans


def regret(problem, plans):
    """Expected loss against the best policy, in all after each round; and the interactions until then."""
    best, weights = problem.value(problem.best_policy()), problem.population.weights[:, None]
    losses = [
        plan.samples * (best - (weights * plan.sampler.propensities(problem.population) * problem.mean_rewards).sum())
        for plan in plans
    ]
    return np.cumsum(losses), np.cumsum([plan.samples for plan in plans])


def slope(algorithm, problem, *, runs=4, after=1000):
    """The power of t with which regret grows once so many interactions are over, from the mean of some runs."""
    results = [regret(problem, play(algorithm, problem, seed=seed)[1]) for seed in range(runs)]
    mean, samples = np.mean([losses for losses, _ in results], axis=0), results[0][1]
    late = samples >= after
    return float(np.polyfit(np.log(samples[late]), np.log(mean[late]), 1)[0])


def answers(algorithm, problem, *, runs=10, within=1e-9):
    """How many runs end with the best policy, or one within so much of it."""
    best = problem.value(problem.best_policy())
    ends = (play(algorithm, problem, seed=seed)[0][-1].policy for seed in range(runs))
    return sum(problem.value(policy) >= best - within for policy in ends)

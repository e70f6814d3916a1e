"""Small problems for baselines that work through policies or regression, and what came of playing them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts
from pacbandits.rivals.samplers import EvenSampler
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Setting


def easy(*, gap=0.6, policies=16, seed=0):
    """Four contexts with a clear best action each; the first policy takes it, the others are drawn at random."""
    means = np.full((4, 3), 0.5 - gap / 2)
    means[np.arange(4), [0, 1, 2, 0]] = 0.5 + gap / 2
    drawn = np.random.default_rng(seed).integers(0, 3, size=(policies - 1, 4))
    table = np.vstack([[0, 1, 2, 0], drawn])
    return Problem("easy", "Clear gaps.", Contexts.finite(4), means, Bernoulli(), Finite(table, n_actions=3))


def random_problem(seed, *, contexts=6, actions=4, policies=25):
    """Any rewards, any policies and contexts that come more or less often."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, actions, size=(policies, contexts))
    population = Contexts.finite(contexts, weights=rng.dirichlet(np.ones(contexts)))
    return Problem(
        "any", "Any.", population, rng.random((contexts, actions)), Bernoulli(), Finite(table, n_actions=actions)
    )


def seen_evenly(problem, samples, *, seed=0):
    """What was seen after so many interactions with all actions alike."""
    log = problem.interact(EvenSampler(problem.n_actions), samples=samples, rng=np.random.default_rng(seed))
    return Seen.nothing(problem.population, n_actions=problem.n_actions).with_log(log)


def centred(seen):
    """What was seen, with rewards less their mean where they are weighted by 1/p."""
    return replace(seen, scores=seen.scores - seen.sums.sum() / seen.samples * seen.inverses)


def made(spec, problem, *, epsilon=0.05, delta=0.1):
    """The algorithm of a spec for a problem."""
    return make_algorithm(spec, Setting(problem.policies, epsilon, delta, problem.reward_bounds))


def states_of(algorithm, problem, *, seed=0):
    """All states of a run, and the regret (rounds,) up to the end of each round."""
    rng, best = np.random.default_rng(seed), problem.value(problem.best_policy())
    states, regret = [algorithm.start(problem.policies, problem.population)], [0.0]
    while (plan := algorithm.design(states[-1])) is not None:
        played = plan.sampler.propensities(problem.population)
        value = problem.population.weights @ (played * problem.mean_rewards).sum(axis=1)
        regret.append(regret[-1] + plan.samples * (best - value))
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        states.append(algorithm.absorb(states[-1], plan, log))
    return states, np.array(regret[1:])


def regret_slope(spec, problem, *, seeds=3, since=1000):
    """The slope of log regret in log t, of the mean over runs from a time on; and how many answers were the best."""
    runs = [states_of(made(spec, problem), problem, seed=seed) for seed in range(seeds)]
    times = np.array([state.samples for state in runs[0][0][1:]])
    regret = np.mean([regret for _, regret in runs], axis=0)
    late = times >= since
    best = problem.value(problem.best_policy())
    right = sum(best - problem.value(states[-1].policy) < 1e-12 for states, _ in runs)
    return np.polyfit(np.log(times[late]), np.log(regret[late]), 1)[0], right

"""Offline contexts: what happens when a sample D stands for the distribution ν that the proofs assume known.

python -m benchmarks.offline             all tables

The algorithm sees |D| contexts drawn from ν, and its design explores at least 0.05/A on every action; interactions come
from ν. "Width" says by how much the true widths of the last round exceed the promised ones: the root of max_π V_π/d²
on the population over the same on D, at the design that was played. The median and the largest of the runs are given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.measuring import print_table
from pacbandits.algorithms import make_algorithm
from pacbandits.confidence import CODA_ORACLE_SLOPE, CODA_SLOPE, RAGE_FREE_SLOPE
from pacbandits.design import DesignTask, Shifted, price_propensities
from pacbandits.paper.coda import CodaPaper
from pacbandits.paper.coda_oracle import CodaOracle
from pacbandits.paper.offline_contexts import contexts_needed
from pacbandits.paper.pairs import pair_variances
from pacbandits.paper.rage import Rage
from pacbandits.paper.rage_free import RageFree
from pacbandits.paper.rounds import variances
from pacbandits.problems import Problem, load_problem
from pacbandits.simulation.play_loop import play_rounds
from pacbandits.trials.protocol import Algorithm, Plan, Setting, State

SIZES = (10, 30, 100, 300, 1000, 3000)
DELTA, RUNS = 0.1, 20
LISTED = "two-of-many:actions=6,policies=100,contexts=200"
TREES = "trees:actions=4,features=4,contexts=2000,bins=8"
# Algorithm, problem, ε. On the listed one π* alone is ε-optimal: the other good policies have gaps from 0.0203 on.
CASES = (("rage", LISTED, 0.02), ("coda-paper", LISTED, 0.02), ("coda-oracle", TREES, 0.1))


@dataclass(frozen=True)
class Outcome:
    """Samples, true gap of the answer, excess of the last round's width, samples and support of that round."""

    samples: int
    value_gap: float
    excess: float
    last: int
    support: int


def play(problem: Problem, name: str, *, epsilon: float, contexts: int | None, seed: int) -> Outcome:
    """One run, as `pacbandits.simulation.run` makes it, with a look at the widths of its last round."""
    rng = np.random.default_rng(seed)
    setting = Setting(problem.policies, epsilon, DELTA, problem.reward_bounds, contexts)
    algorithm: Algorithm[Any] = make_algorithm(name, setting)
    seen = problem.population if contexts is None else problem.contexts(contexts, rng).tallied()
    state = algorithm.start(problem.policies, seen)
    last: tuple[State, Plan] | None = None
    for step in play_rounds(problem, algorithm, state, rng=rng):
        state = step.state
        if step.doing == "playing" and step.plan is not None:
            last = state, step.plan
    gap = problem.value(problem.best_policy()) - problem.value(algorithm.result(state).policy)
    if last is None:
        return Outcome(state.samples, gap, 1.0, 0, 1)
    before, plan = last
    return Outcome(
        samples=state.samples,
        value_gap=max(gap, 0.0),
        excess=math.sqrt(true_ratio(algorithm, before, plan, problem) / promised_ratio(plan)),
        last=plan.samples,
        support=int(plan.details.get("support", plan.details.get("policies", 1))),
    )


def promised_ratio(plan: Plan) -> float:
    """What the algorithm computed on its contexts: max_π V_π/d² (for rage, the largest V of a pair)."""
    return float(plan.details["rho" if "rho" in plan.details else "ratio"])


def true_ratio(algorithm: Algorithm[Any], state: Any, plan: Plan, problem: Problem) -> float:
    """The same on the population."""
    population = problem.population
    if isinstance(algorithm, CodaOracle):
        return _oracle_ratio(state, plan, problem)
    table = np.ascontiguousarray(state.listing.actions(population))
    if isinstance(algorithm, Rage):
        p = plan.sampler.propensities(population)
        return float(pair_variances(table[state.alive], propensities=p, weights=population.weights).max())
    assert isinstance(algorithm, RageFree | CodaPaper)
    slope = RAGE_FREE_SLOPE if isinstance(algorithm, RageFree) else CODA_SLOPE
    spread = variances(table, reference=state.policy(population), contexts=population, sampler=plan.sampler)
    return float((spread / Shifted(plan.epsilon, slope)(state.gaps) ** 2).max())


def _oracle_ratio(state: Any, plan: Plan, problem: Problem) -> float:
    # The gaps live on the contexts seen so far; those of the population that were never seen are left out.
    weights = problem.population.weights[state.seen.ids]
    everyone = replace(state.seen, weights=weights / weights.sum())
    task = DesignTask(
        state.policies,
        everyone,
        reference=state.policy,
        gaps=state.gaps,
        scale=Shifted(plan.epsilon, CODA_ORACLE_SLOPE),
    )
    return price_propensities(task, plan.sampler.propensities(everyone)).upper


def compare(name: str, spec: str, *, epsilon: float) -> None:
    problem = load_problem(spec)
    rows = []
    last: list[Outcome] = []
    for contexts in (*SIZES, None):
        runs = [play(problem, name, epsilon=epsilon, contexts=contexts, seed=seed) for seed in range(RUNS)]
        wrong = sum(run.value_gap > epsilon * (1 + 1e-12) for run in runs)
        rows.append(
            [
                "ν known" if contexts is None else f"{contexts:,}",
                f"{of(np.median, runs, 'samples'):,.0f}",
                f"{wrong} of {RUNS}",
                f"{of(np.median, runs, 'value_gap'):.4f}",
                f"{of(np.max, runs, 'value_gap'):.4f}",
                f"{of(np.median, runs, 'excess'):.2f}",
                f"{of(np.max, runs, 'excess'):.2f}",
            ]
        )
        last = runs
    print_table(
        f"{name} on `{spec}` at ε = {epsilon:g}, δ = {DELTA:g}; {RUNS} runs",
        [
            "contexts in D",
            "median samples",
            "wrong",
            "median value gap",
            "largest value gap",
            "median width",
            "largest width",
        ],
        rows,
    )
    if name != "rage":
        needed = contexts_needed(
            epsilon,
            delta=DELTA,
            n_actions=problem.n_actions,
            samples=round(of(np.median, last, "last")),
            support=round(of(np.median, last, "support")),
            log_size=problem.policies.log_size,
        )
        print(f"\nThe paper's proofs ask for |D| = {needed:.0e} (C_1 = 1).", flush=True)


def of(summary: Callable[[list[float]], Any], runs: list[Outcome], name: str) -> float:
    return float(summary([getattr(run, name) for run in runs]))


def main() -> None:
    for name, spec, epsilon in CASES:
        compare(name, spec, epsilon=epsilon)


if __name__ == "__main__":
    main()

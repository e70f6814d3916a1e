"""Run an algorithm on a problem whose truth is known, and judge its answer by the truth."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.checks import function, instance, random_numbers, whole_number
from pacbandits.confidence import check_delta, check_epsilon
from pacbandits.engines.dask import DaskEngine
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.costs import Searches, check_memory
from pacbandits.problems import Problem, load_problem
from pacbandits.simulation.kept import Kept
from pacbandits.simulation.outcome import Run, Stage, Stopped, Watch
from pacbandits.simulation.play_loop import Refusal, Step, play_rounds
from pacbandits.trials.folders import StateFolder
from pacbandits.trials.protocol import Algorithm, Plan, Setting, State, check_steps

# Of `coda` on a class that only its oracles know, as counted on problems of trees at ε = 0.1: some 17 rounds.
RUN_SEARCHES = Searches(argmaxes=350, frontiers=200)


def run(
    problem: Problem | str,
    policies: PolicyClass | None = None,
    *,
    algorithm: str | Algorithm[Any] = "coda",
    epsilon: float | None = None,
    delta: float | None = None,
    rng: np.random.Generator | int,
    max_samples: int | None = None,
    offline_contexts: int | None = None,
    state: str | Path | StateFolder | None = None,
    watch: Watch | None = None,
    **options: Any,
) -> Run:
    """Run an algorithm on a problem until it is done, or the budget is.

    problem: one, or what `load_problem` takes.
    policies: the problem's own class by default.
    algorithm: a name, `name:key=value,…`, or any object with the steps of `Algorithm`.
    epsilon, delta: what is asked for; by default those that an algorithm of one's own was made with.
    rng: a generator, or a seed for one.
    max_samples: no round is begun that would exceed it.
    offline_contexts: how many contexts the algorithm may look at beforehand; None tells it the distribution.
    state: a folder that keeps a trial's state after every round; a run that was begun there goes on as if it had never
        stopped, also with another max_samples, and its generator of random numbers with it. Nobody else can use the
        folder meanwhile.
    watch: is told what the run is doing.
    options: of an algorithm that is named.

    >>> import pacbandits as pb
    >>> done = pb.run("two-of-many:actions=6,policies=40", epsilon=0.1, delta=0.05, rng=1)
    >>> done.certificate.certified
    True
    """
    rng, seed = random_numbers(rng)
    if max_samples is not None:
        max_samples = whole_number(max_samples, name="max_samples", least=1)
    if offline_contexts is not None:
        offline_contexts = whole_number(offline_contexts, name="offline_contexts", least=1)
    if watch is not None:
        function(watch, name="watch")
    problem = _loaded(problem)
    chosen = problem.policies if policies is None else check_class(policies)
    check_memory(chosen, len(problem.population))
    if isinstance(algorithm, str):
        if epsilon is None or delta is None:
            raise InputError(f"{algorithm} needs an epsilon and a delta: how near to the best, and how surely")
        setting = Setting(chosen, epsilon, delta, problem.reward_bounds, offline_contexts)
        made: Algorithm[Any] = make_algorithm(algorithm, setting, options)
    else:
        check_steps(algorithm)
        made = algorithm
        if options:
            raise InputError(f"{made.name} was made already; give '{next(iter(options))}' to it, not to run")
        epsilon = check_epsilon(_agreed(made, "epsilon", epsilon))
        delta = check_delta(_agreed(made, "delta", delta))
    with ExitStack() as folders:
        kept, first = None, None
        if state is not None:
            asked = {"epsilon": epsilon, "delta": delta, "seed": seed, "number of offline contexts": offline_contexts}
            folder = StateFolder.at(state, name="state")
            kept = Kept.checked(folder, made, problem, chosen, rng, asked=asked)
            folders.enter_context(folder.held())
        began = time.perf_counter()
        if kept is not None:
            first = kept.resume()
        if first is None:
            contexts = problem.population
            if offline_contexts is not None:
                contexts = problem.contexts(offline_contexts, rng).tallied()
            first = made.start(chosen, contexts)
            if kept is not None:
                kept.keep(first)
        last, stopped, reason = _play(problem, made, first, rng, max_samples=max_samples, watch=watch, kept=kept)
    answer = made.result(last)
    best = chosen.argmax(problem.population, problem.population.weights[:, None] * problem.mean_rewards)
    gap = max(problem.value(best) - problem.value(answer.policy), 0.0)
    return Run(
        algorithm=made.name,
        problem=problem.name,
        seed=seed,
        epsilon=epsilon,
        delta=delta,
        policy=answer.policy,
        samples=last.samples,
        rounds=last.round_number,
        oracle_calls=last.oracle_calls,
        value_gap=gap,
        correct=gap <= epsilon * (1 + 1e-12),
        stopped=stopped,
        reason=reason,
        guarantee=answer.guarantee,
        seconds=time.perf_counter() - began,
        history=tuple(dict(figures) for figures in last.history),
        certificate=answer.certificate,
        log=last.log,
        contexts=last.contexts,
        policies=chosen,
    )


def _agreed(algorithm: Algorithm[Any], name: str, given: float | None) -> float:
    """The ε or δ that a run is judged by: the algorithm's own, or the one given where it has none."""
    own = getattr(algorithm, name, None)
    if given is None and own is None:
        raise InputError(f"{algorithm.name} has no {name} of its own; say which one it is judged by: {name}=…")
    if given is not None and own is not None and given != own:
        raise InputError(f"{algorithm.name} was made with {name} = {own}, but the run is asked for {given}")
    return cast(float, own if given is None else given)


def _play(
    problem: Problem,
    algorithm: Algorithm[Any],
    state: State,
    rng: np.random.Generator,
    *,
    max_samples: int | None,
    watch: Watch | None,
    kept: Kept | None,
) -> tuple[State, Stopped, str]:
    """Play rounds from this state on; return the last state, why no round follows, and the reason in words."""

    def tell(doing: str) -> None:
        if watch is None:
            return
        number = state.round_number + (0 if state.finished else 1)
        certified = None
        if state.certificate is not None:
            certified = min(state.certificate.certified_epsilon, 1.0)
        elif getattr(getattr(algorithm, "profile", None), "certifies", False):
            certified = 1.0
        rounds = max(getattr(algorithm, "rounds", 0), number)
        watch(Stage(doing, number, rounds, state.samples, state.policy.describe(), certified_epsilon=certified))

    def refuse(state: State, plan: Plan) -> Refusal | None:
        left = None if max_samples is None else max(max_samples - state.samples, 0)
        if left is not None and plan.samples > left:
            asked = f"{plan.samples:,}" if plan.samples < 10**15 else f"{plan.samples:.3g}"
            return "budget", f"round {plan.round_number} asks for {asked} interactions, and {left:,} are left"
        try:
            problem.check_affordable(plan.samples)
        except InputError as error:
            return "memory", f"round {plan.round_number}: {error}"
        return None

    rounds = play_rounds(
        problem, algorithm, state, rng=rng, refuse=refuse, progress=lambda text: tell(f"designing, {text}")
    )
    try:
        for step in rounds:
            state = step.state
            match step:
                case Step(doing="designing"):
                    tell("designing")
                case Step(doing="playing", plan=Plan(samples=samples)):
                    tell(f"playing {samples:,}")
                case Step(doing="played", plan=Plan(samples=samples)):
                    tell(f"learning from {samples:,}")
                case Step(doing="absorbed") if kept is not None:
                    kept.keep(state)
                case Step(plan=Plan(oracle_calls=calls), refusal=(kind, reason)):
                    return replace(state, oracle_calls=state.oracle_calls + calls), kind, reason
                case _:
                    pass
    except KeyboardInterrupt:
        return state, "interrupted", f"interrupted in round {state.round_number + 1}"
    return state, "done", ""


def repeat(
    problem: Problem | str,
    policies: PolicyClass | None = None,
    *,
    runs: int,
    seed: int,
    engine: DaskEngine | None = None,
    watch: Watch | None = None,
    **options: Any,
) -> list[Run]:
    """Runs with the seeds seed, seed + 1, …; the options are those of `run`. Ends early when one is interrupted.

    engine: whose workers play, many at once, the same runs; by default this process does, one after the other.
    """
    problem = _loaded(problem)
    if engine is not None:
        instance(engine, DaskEngine, name="engine", remedy="say DaskEngine(), or nothing for this process")
    runs, seed = whole_number(runs, name="runs", least=1), whole_number(seed, name="seed", least=0)
    if engine is not None:
        return _by_workers(engine, problem, policies, range(seed, seed + runs), watch, options)
    done: list[Run] = []
    for i in range(runs):
        done.append(run(problem, policies, rng=seed + i, watch=_numbered(watch, i), **options))
        if done[-1].stopped == "interrupted":
            break
    return done


def _by_workers(
    engine: DaskEngine,
    problem: Problem,
    policies: PolicyClass | None,
    seeds: range,
    watch: Watch | None,
    options: Mapping[str, Any],
) -> list[Run]:
    """The runs of these seeds, in their order."""
    tell = watch or _unwatched
    tell(Stage("waiting for workers", 1, 1, 0, ""))
    done: list[Run] = []
    for one in engine.each(run_seed, (problem, policies, dict(options)), seeds):
        done.append(one)
        doing = f"{len(done)} of {len(seeds)} runs done"
        tell(Stage(doing, one.rounds, one.rounds, one.samples, one.policy.describe(), run=len(done) - 1))
    return sorted(done, key=lambda one: one.seed or 0)


def _unwatched(_: Stage) -> None:
    """Nobody watches."""


def run_seed(told: tuple[Problem, PolicyClass | None, dict[str, Any]], seed: int) -> Run:
    """One run, for a worker of a cluster."""
    problem, policies, options = told
    return run(problem, policies, rng=seed, **options)


def _loaded(problem: Problem | str) -> Problem:
    """The problem, or the one of that name."""
    remedy = "or what load_problem takes, the name of one"
    return (
        load_problem(problem) if isinstance(problem, str) else instance(problem, Problem, name="problem", remedy=remedy)
    )


def _numbered(watch: Watch | None, number: int) -> Watch | None:
    """A watch whose stages say which run they belong to."""
    return None if watch is None else lambda stage: watch(replace(stage, run=number))

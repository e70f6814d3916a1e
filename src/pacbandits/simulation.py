"""Run an algorithm against a problem whose truth is known, and judge what it says."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from pacbandits.algorithms import Algorithm, Plan, State, make_algorithm
from pacbandits.algorithms.linear_rage import LinearState
from pacbandits.algorithms.saving import LOG, Saved, class_in_full, holds_state, read_state, save_state
from pacbandits.algorithms.trial import Trial, TrialState
from pacbandits.certificate import Certificate, LinearCertificate
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.problems import Problem, load_problem
from pacbandits.records import Contexts, Log, Policy

Stopped = Literal["done", "budget", "memory", "interrupted"]


@dataclass(frozen=True)
class Stage:
    """Where a run is: what it does, in which round of about how many, after how many samples, with which policy.

    run: which of several runs, from 0. certified_epsilon: the smallest ε certified so far, 1 while there is none; None
    for algorithms that do not certify.
    """

    doing: str
    round_number: int
    rounds: int
    samples: int
    policy: str
    run: int = 0
    certified_epsilon: float | None = None


Watch = Callable[[Stage], None]


@dataclass(frozen=True, eq=False)
class Run:
    """What came of a run.

    value_gap: `max V − V(policy)`, by the truth. correct: whether that is at most ε. stopped: why it ended, with
    `reason` in words unless it was done. history: the figures of each round. certificate, log: of the algorithms that
    certify. contexts: what the algorithm was shown of them.
    """

    algorithm: str
    problem: str
    seed: int | None
    epsilon: float
    delta: float
    policy: Policy
    samples: int
    rounds: int
    oracle_calls: int
    value_gap: float
    correct: bool
    stopped: Stopped
    reason: str
    guarantee: str
    seconds: float
    history: tuple[dict[str, Any], ...]
    certificate: Certificate | LinearCertificate | None = None
    log: Log | None = None
    contexts: Contexts | None = None

    def to_json(self) -> dict[str, Any]:
        """Everything, as what JSON knows."""
        return {
            "algorithm": self.algorithm,
            "problem": self.problem,
            "seed": self.seed,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "samples": self.samples,
            "rounds": self.rounds,
            "oracle_calls": self.oracle_calls,
            "value_gap": self.value_gap,
            "correct": self.correct,
            "stopped": self.stopped,
            "reason": self.reason,
            "guarantee": self.guarantee,
            "seconds": self.seconds,
            "policy": self.policy.to_json(),
            "words": self.policy.describe(),
            "certificate": None if self.certificate is None else self.certificate.to_json(),
            "history": list(self.history),
        }


def run(
    problem: Problem | str,
    policies: PolicyClass | None = None,
    *,
    algorithm: str = "coda",
    epsilon: float,
    delta: float,
    rng: np.random.Generator | int,
    scale: float = 1.0,
    max_samples: int | None = None,
    offline_contexts: int | None = None,
    solver: str = "ratio",
    state: str | Path | None = None,
    watch: Watch | None = None,
) -> Run:
    """Run the named algorithm on a problem until it is done, or the budget is.

    problem: one, or what `load_problem` takes. policies: the problem's own class by default. rng: a generator, or a
    seed for one. scale: multiplies sample sizes, and voids the guarantee below 1. max_samples: no round is begun that
    would exceed it. offline_contexts: how many contexts the algorithm may look at beforehand; None tells it the
    distribution. solver: ratio or fw-gd, for coda-paper. state: a folder that keeps coda's or uniform's state after
    every round; a run that was begun there goes on as if it had never stopped, also with another max_samples, and its
    generator of random numbers with it.
    """
    seed = None if isinstance(rng, np.random.Generator) else rng
    rng = np.random.default_rng(rng)
    if max_samples is not None and max_samples < 1:
        raise InputError(f"max_samples must be 1 or more, got {max_samples}")
    if isinstance(problem, str):
        problem = load_problem(problem)
    chosen = problem.policies if policies is None else policies
    made = make_algorithm(
        algorithm,
        chosen,
        epsilon=epsilon,
        delta=delta,
        rewards=problem.reward_bounds,
        scale=scale,
        sampled_contexts=offline_contexts,
        solver=solver,
    )
    kept = None
    if state is not None:
        asked = {
            "problem": problem.name,
            "problem's digest": _contents(problem)[:12],
            "algorithm": made.name,
            "epsilon": epsilon,
            "delta": delta,
            "seed": seed,
            "number of offline contexts": offline_contexts,
        }
        kept = _Kept(Path(state), chosen, asked, rng)
    began = time.perf_counter()
    resumed = None if kept is None else kept.resume(made)
    if resumed is None:
        contexts = problem.population
        if offline_contexts is not None:
            contexts = problem.contexts(offline_contexts, rng).tallied()
        first = made.start(chosen, contexts)
        if kept is not None:
            kept.keep(made, first)
    else:
        made, first = resumed
    last, stopped, reason = _play(problem, made, first, rng, max_samples, watch, kept)
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
        log=last.log if isinstance(last, TrialState | LinearState) else None,
        contexts=last.contexts,
    )


def repeat(
    problem: Problem | str,
    policies: PolicyClass | None = None,
    *,
    runs: int,
    seed: int,
    watch: Watch | None = None,
    **options: Any,
) -> list[Run]:
    """Runs with the seeds seed, seed + 1, …; the options are those of `run`. Ends early when one is interrupted."""
    if isinstance(problem, str):
        problem = load_problem(problem)
    done: list[Run] = []
    for i in range(runs):
        done.append(run(problem, policies, rng=seed + i, watch=_numbered(watch, i), **options))
        if done[-1].stopped == "interrupted":
            break
    return done


@dataclass(frozen=True, eq=False)
class _Kept:
    """A run whose state is kept in a folder. asked: what a run that goes on there must have been asked, too."""

    folder: Path
    policies: PolicyClass
    asked: dict[str, Any]
    rng: np.random.Generator

    def keep(self, algorithm: Algorithm[Any], state: State) -> None:
        """Write the state and that of the random numbers."""
        assert isinstance(algorithm, Trial)
        assert isinstance(state, TrialState)
        random = _lists(self.rng.bit_generator.state)
        save_state(self.folder, algorithm, state, notes={"asked": self.asked, "random": random})

    def resume(self, algorithm: Algorithm[Any]) -> tuple[Algorithm[Any], State] | None:
        """The algorithm and the state that the folder holds, if any, with the random numbers set to where they were."""
        if not isinstance(algorithm, Trial):
            raise InputError(f"the state of {algorithm.name} cannot be kept, only that of coda or uniform")
        if not holds_state(self.folder):
            if (self.folder / LOG).exists():
                raise InputError(f"{self.folder} holds a {LOG} but no saved state; take another folder")
            return None
        saved = read_state(self.folder)
        self._check(saved)
        try:
            self.rng.bit_generator.state = saved.notes["random"]
        except (KeyError, TypeError, ValueError):
            raise self._other("another kind of random numbers was drawn") from None
        return saved.algorithm, saved.state

    def _check(self, saved: Saved) -> None:
        """Raise unless the folder's run was asked the same."""
        before: dict[str, Any] = saved.notes.get("asked", {})
        if before.keys() != self.asked.keys():
            raise InputError(f"{self.folder} holds a state that no run has left there; take another folder")
        for name, new in self.asked.items():
            if before[name] != new:
                raise self._other(f"its {name} was {before[name]}, and is {new} now")
        if class_in_full(saved.state.policies) != class_in_full(self.policies):
            raise self._other("its policy class was another")

    def _other(self, difference: str) -> InputError:
        return InputError(
            f"{self.folder} holds another run: {difference}; take another folder, or the same options as before"
        )


def _contents(problem: Problem) -> str:
    """SHA-256 of what rewards come of, as files of one name may differ."""
    sha = hashlib.sha256(type(problem.noise).__name__.encode())
    for part in (problem.population.features, problem.population.weights, problem.mean_rewards, problem.noise_variance):
        sha.update(np.ascontiguousarray(part).tobytes())
    return sha.hexdigest()


def _lists(value: Any) -> Any:
    """A generator's state with lists for arrays; numpy takes either."""
    if isinstance(value, dict):
        return {str(name): _lists(part) for name, part in cast(dict[Any, Any], value).items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _numbered(watch: Watch | None, number: int) -> Watch | None:
    """A watch whose stages say which run they belong to."""
    return None if watch is None else lambda stage: watch(replace(stage, run=number))


def _play(
    problem: Problem,
    algorithm: Algorithm[Any],
    state: State,
    rng: np.random.Generator,
    max_samples: int | None,
    watch: Watch | None,
    kept: _Kept | None,
) -> tuple[State, Stopped, str]:
    """Play rounds until the algorithm has its answer, or something else ends them."""

    def tell(doing: str) -> None:
        if watch is not None:
            number = state.round_number + (0 if state.finished else 1)
            watch(
                Stage(
                    doing,
                    number,
                    max(algorithm.rounds, number),
                    state.samples,
                    state.policy.describe(),
                    certified_epsilon=_certified(state),
                )
            )

    try:
        while True:
            tell("designing")
            plan = algorithm.design(state, progress=lambda text: tell(f"designing, {text}"))
            if plan is None:
                return state, "done", ""
            refused = _refusal(problem, plan, state, max_samples)
            if refused is not None:
                return replace(state, oracle_calls=state.oracle_calls + plan.oracle_calls), *refused
            tell(f"playing {plan.samples:,}")
            log = problem.interact(plan.sampler, samples=plan.samples, rng=rng, round_number=state.round_number)
            tell(f"learning from {plan.samples:,}")
            state = algorithm.absorb(state, plan, log)
            if kept is not None:
                kept.keep(algorithm, state)
    except KeyboardInterrupt:
        return state, "interrupted", f"interrupted in round {state.round_number + 1}"


def _certified(state: State) -> float | None:
    """The ε that the data of a trial certify, 1 when none."""
    if not isinstance(state, TrialState | LinearState):
        return None
    return 1.0 if state.certificate is None else min(state.certificate.certified_epsilon, 1.0)


def _refusal(problem: Problem, plan: Plan, state: State, max_samples: int | None) -> tuple[Stopped, str] | None:
    """Why a round cannot be played, if it cannot."""
    left = None if max_samples is None else max(max_samples - state.samples, 0)
    if left is not None and plan.samples > left:
        asked = f"{plan.samples:,}" if plan.samples < 10**15 else f"{plan.samples:.3g}"
        return "budget", f"round {plan.round_number} asks for {asked} interactions, and {left:,} are left"
    try:
        problem.check_affordable(plan.samples)
    except InputError as error:
        return "memory", f"round {plan.round_number}: {error}"
    return None

"""Run an algorithm against a problem whose truth is known, and judge what it says."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.certificate.claim import Claim
from pacbandits.errors import InputError
from pacbandits.policies import class_to_json
from pacbandits.policies.base import PolicyClass
from pacbandits.problems import Problem, load_problem
from pacbandits.records import Contexts, Log, Policy
from pacbandits.records.digest import digest
from pacbandits.trials.protocol import Algorithm, Plan, Setting, State
from pacbandits.trials.saving import LOG, Saved, holds_state, read_state, save_state
from pacbandits.trials.stored import as_read, describe_algorithm, is_built_in
from pacbandits.trials.trial import Trial, TrialState

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

    algorithm, problem: their names.
    seed: of the random numbers; None for a generator of unknown seed.
    epsilon, delta: what was asked for.
    policy: the answer.
    samples, rounds, oracle_calls: what it took.
    value_gap: `max V − V(policy)`, by the truth.
    correct: whether that is at most ε.
    stopped: why it ended.
    reason: the same in words, unless it was done.
    guarantee: what is promised of the policy, and under which assumptions.
    seconds: of the clock on the wall.
    history: the figures of each round.
    certificate, log: of the algorithms that certify.
    contexts: what the algorithm was shown of them.
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
    certificate: Claim | None = None
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
    algorithm: str | Algorithm[Any] = "coda",
    epsilon: float | None = None,
    delta: float | None = None,
    rng: np.random.Generator | int,
    max_samples: int | None = None,
    offline_contexts: int | None = None,
    state: str | Path | None = None,
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
        stopped, also with another max_samples, and its generator of random numbers with it.
    watch: is told what the run is doing.
    options: of an algorithm that is named.

    >>> import pacbandits as pb
    >>> done = pb.run("two-of-many:actions=6,policies=40", epsilon=0.1, delta=0.05, rng=1)
    >>> done.certificate.certified
    True
    """
    seed = None if isinstance(rng, np.random.Generator) else rng
    rng = np.random.default_rng(rng)
    if max_samples is not None and max_samples < 1:
        raise InputError(f"max_samples must be 1 or more, got {max_samples}")
    if isinstance(problem, str):
        problem = load_problem(problem)
    chosen = problem.policies if policies is None else policies
    made, epsilon, delta = _made(
        algorithm, problem, chosen, epsilon, delta, offline_contexts=offline_contexts, options=options
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
        kept = _Kept.checked(Path(state), made, chosen, asked, rng)
    began = time.perf_counter()
    first = None if kept is None else kept.resume()
    if first is None:
        contexts = problem.population
        if offline_contexts is not None:
            contexts = problem.contexts(offline_contexts, rng).tallied()
        first = made.start(chosen, contexts)
        if kept is not None:
            kept.keep(first)
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
        log=last.log,
        contexts=last.contexts,
    )


def _made(
    algorithm: str | Algorithm[Any],
    problem: Problem,
    policies: PolicyClass,
    epsilon: float | None,
    delta: float | None,
    *,
    offline_contexts: int | None,
    options: Mapping[str, Any],
) -> tuple[Algorithm[Any], float, float]:
    """The algorithm, with the ε and δ that are asked of it."""
    if isinstance(algorithm, str):
        if epsilon is None or delta is None:
            raise InputError(f"{algorithm} needs an epsilon and a delta: how near to the best, and how surely")
        setting = Setting(policies, epsilon, delta, problem.reward_bounds, offline_contexts)
        return make_algorithm(algorithm, setting, options), epsilon, delta
    if options:
        raise InputError(f"{algorithm.name} was made already; give '{next(iter(options))}' to it, not to run")
    values: list[float] = []
    for name, given in (("epsilon", epsilon), ("delta", delta)):
        own = getattr(algorithm, name, None)
        if given is None and own is None:
            raise InputError(f"{algorithm.name} has no {name} of its own; say which one it is judged by: {name}=…")
        if given is not None and own is not None and given != own:
            raise InputError(f"{algorithm.name} was made with {name} = {own}, but the run is asked for {given}")
        values.append(cast(float, own if given is None else given))
    return algorithm, values[0], values[1]


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
    algorithm: Trial
    policies: PolicyClass
    asked: dict[str, Any]
    rng: np.random.Generator

    @classmethod
    def checked(
        cls,
        folder: Path,
        algorithm: Algorithm[Any],
        policies: PolicyClass,
        asked: dict[str, Any],
        rng: np.random.Generator,
    ) -> _Kept:
        """The same, or a sentence where a state cannot be kept; before anything is played."""
        if not isinstance(algorithm, Trial):
            raise InputError(
                f"the state of {algorithm.name} cannot be kept, only that of a trial: coda, uniform, or your own that "
                "extends Trial"
            )
        class_to_json(policies)
        describe_algorithm(algorithm)
        return cls(folder, algorithm, policies, asked, rng)

    def keep(self, state: State) -> None:
        """Write the state and that of the random numbers."""
        assert isinstance(state, TrialState)
        random = _lists(self.rng.bit_generator.state)
        save_state(self.folder, self.algorithm, state, notes={"asked": self.asked, "random": random})

    def resume(self) -> State | None:
        """The state that the folder holds, if any, with the random numbers set to where they were."""
        if not holds_state(self.folder):
            if (self.folder / LOG).exists():
                raise InputError(f"{self.folder} holds a {LOG} but no saved state; take another folder")
            return None
        own = None if is_built_in(self.algorithm) else self.algorithm
        saved = read_state(self.folder, model=self.algorithm.model, policies=self.policies, algorithm=own)
        self._check(saved)
        try:
            self.rng.bit_generator.state = saved.notes["random"]
        except (KeyError, TypeError, ValueError):
            raise self._other("another kind of random numbers was drawn") from None
        return saved.state

    def _check(self, saved: Saved) -> None:
        """Raise unless the folder's run was asked the same."""
        before: dict[str, Any] = saved.notes.get("asked", {})
        if before.keys() != self.asked.keys():
            raise InputError(f"{self.folder} holds a state that no run has left there; take another folder")
        for name, new in self.asked.items():
            if before[name] != new:
                raise self._other(f"its {name} was {before[name]}, and is {new} now")
        if as_read(class_to_json(saved.state.policies)) != as_read(class_to_json(self.policies)):
            raise self._other("its policy class was another")
        options = describe_algorithm(saved.algorithm), describe_algorithm(self.algorithm)
        for name in options[1]:
            if options[0].get(name) != options[1][name]:
                raise self._other(f"its {name} was {options[0].get(name)}, and is {options[1][name]} now")

    def _other(self, difference: str) -> InputError:
        return InputError(
            f"{self.folder} holds another run: {difference}; take another folder, or the same options as before"
        )


def _contents(problem: Problem) -> str:
    """SHA-256 of what rewards come of, as files of one name may differ."""
    tables = (problem.population.features, problem.population.weights, problem.mean_rewards, problem.noise_variance)
    return digest([type(problem.noise).__name__, *(np.ascontiguousarray(table).tobytes() for table in tables)])


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

    rounds = getattr(algorithm, "rounds", 0)
    certifies = bool(getattr(getattr(algorithm, "profile", None), "certifies", False))

    def tell(doing: str) -> None:
        if watch is not None:
            certified = 1.0 if state.certificate is None else min(state.certificate.certified_epsilon, 1.0)
            number = state.round_number + (0 if state.finished else 1)
            watch(
                Stage(
                    doing,
                    number,
                    max(rounds, number),
                    state.samples,
                    state.policy.describe(),
                    certified_epsilon=certified if certifies else None,
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
                kept.keep(state)
    except KeyboardInterrupt:
        return state, "interrupted", f"interrupted in round {state.round_number + 1}"


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

"""Run an algorithm on a problem with a known truth, judge its answer, and resume runs from a saved state."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.arrays import as_read
from pacbandits.certificate.claim import Claim
from pacbandits.checks import function, instance, path_of, random_numbers
from pacbandits.confidence import check_delta, check_epsilon
from pacbandits.engines.dask import DaskEngine
from pacbandits.errors import InputError, plain
from pacbandits.policies import class_to_json
from pacbandits.policies.base import PolicyClass, Searches, check_class, check_memory
from pacbandits.problems import Problem, load_problem
from pacbandits.progress import Displayed
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.records.log import digest, digest_contexts, digest_log
from pacbandits.schema import Fields, Json, whole_number
from pacbandits.simulation.play_loop import Refusal, Step, play_rounds
from pacbandits.trials.pilot_rows import add_pilot, arrange_pilot, check_pilot
from pacbandits.trials.protocol import Algorithm, Answer, Plan, Setting, State, check_steps
from pacbandits.trials.saved_state import (
    StateFile,
    describe_algorithm,
    entries_of,
    read_rows,
    read_start,
    replay,
    usable,
)
from pacbandits.trials.trial import Trial, TrialState

# Progress and result of a run.


Stopped = Literal["done", "budget", "memory", "interrupted"]


@dataclass(frozen=True)
class Stage:
    """The progress of a run.

    doing: the current step.
    round_number, rounds: the current round, and about how many there are.
    samples: the number so far.
    policy: the best one so far, in words.
    run: the number of the run among several, from 0.
    certified_epsilon: the smallest ε certified so far, 1 while there is none; None if the algorithm does not certify.
    proven_gain: the largest gain over control proven by all data, −1 while there is none; None if none was asked for.
    """

    doing: str
    round_number: int
    rounds: int
    samples: int
    policy: str
    run: int = 0
    certified_epsilon: float | None = None
    proven_gain: float | None = None


Watch = Callable[[Stage], None]


@dataclass(frozen=True, eq=False)
class Run(Displayed):
    """The result of a run.

    algorithm, problem: their names.
    seed: of the random numbers; None for a generator of unknown seed.
    epsilon, delta: the requested accuracy and error probability.
    policy: the answer.
    samples, rounds, oracle_calls: their numbers.
    value_gap: `max V − V(policy)`, by the truth.
    correct: whether that is at most ε; or, of a run that stops by a gain, whether the true gain is no less than proven.
    stopped: why it ended.
    reason: the same in words; empty if it was done.
    guarantee: the guarantee of the policy, and its assumptions.
    seconds: wall time.
    history: the figures of each round.
    certificate, log: for algorithms that certify.
    contexts: the contexts shown to the algorithm.
    policies: the class.
    improve_on: the action that is today's practice, if the run stops by a proven gain over it.
    gain: the smallest proven gain to stop at; None for any above 0.
    proven_gain: the gain over it that the certificate proves of the policy; 0 if it proves none.
    true_gain: the gain of the policy over it, by the truth.
    pilot_samples: how many of the samples are of the pilot that the run began with.
    """

    algorithm: str
    problem: str
    seed: int | None
    epsilon: float
    delta: float
    policy: Chosen
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
    policies: PolicyClass | None = None
    improve_on: int | None = None
    gain: float | None = None
    proven_gain: float | None = None
    true_gain: float | None = None
    pilot_samples: int = 0

    @property
    def new_samples(self) -> int:
        """The number of interactions beyond those of the pilot."""
        return self.samples - self.pilot_samples

    def figure(self, against: Run | None = None) -> Any:
        """Draw the certified ε by number of samples, and that of another run, as a matplotlib figure."""
        report = import_module("pacbandits.report.epsilon_curve")
        return report.certified_figure(report.Comparison(self, against))

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
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
            **(
                {}
                if self.improve_on is None
                else {
                    "improve_on": self.improve_on,
                    "gain": self.gain,
                    "proven_gain": self.proven_gain,
                    "true_gain": self.true_gain,
                }
            ),
            **({} if self.pilot_samples == 0 else {"pilot_samples": self.pilot_samples}),
        }


# Runs that are saved in a file after every round, and resume from it.


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A run that is saved in a file.

    file: the open file.
    algorithm: of the run.
    asked: inputs that must be the same when the run is resumed, by their names in messages.
    """

    file: StateFile
    algorithm: Trial
    asked: Mapping[str, Any]

    def keep(self, state: State) -> None:
        """Save a state, whose rounds but the last are in the file."""
        assert isinstance(state, TrialState)
        first = state.round_number
        self.file.replace(entries_of(self.algorithm, state, first=first, notes={"asked": self.asked}), first=first)

    def resume(
        self,
        start: TrialState,
        problem: Problem,
        rng: np.random.Generator,
        *,
        begin: Callable[[TrialState], TrialState] | None = None,
    ) -> TrialState:
        """Return the state in the file; a new file begins with the starting state.

        The rows of each round are drawn again, so that the generator is where it was when the run stopped.

        begin: adds the rounds of a pilot to the starting state.
        """
        entries = self.file.entries()
        if not entries:
            state = start if begin is None else begin(start)
            self.file.replace(entries_of(self.algorithm, state, notes={"asked": self.asked}))
            return state
        self._check_same(read_start(self.file.path, entries[0]), start.policies)
        other = "it was begun with other random numbers (pass its seed, or a generator as it was at the start)"

        def draw_again(plan: Plan, log: Log) -> None:
            again = problem.interact(plan.sampler, samples=plan.samples, rng=rng, round_number=plan.round_number - 1)
            if digest_log(again) != digest_log(log):
                raise InputError(other)

        with usable(self.file.path):
            if digest_contexts(read_rows(Contexts, entries[0])) != digest_contexts(start.contexts):
                raise InputError(other)
            return replay(self.algorithm, start, entries[1:], check=draw_again)

    def _check_same(self, start: Fields, policies: PolicyClass) -> None:
        """Raise unless the run of the file had the same inputs, options and class; start: the fields of its entry 0."""
        path, asked = self.file.path, start.json_object("notes").get("asked")
        if not isinstance(asked, dict) or not {"problem", "seed"} <= cast(Json, asked).keys():
            raise InputError(f"{path} holds a state that no run has left there; take another file")
        before = cast(Json, asked) | start.json_object("algorithm")
        now = as_read(dict(self.asked)) | describe_algorithm(self.algorithm)
        changes = [
            f"{name} was {plain(before.get(name))}, and is {plain(now.get(name))} now"
            for name in before | now
            if before.get(name) != now.get(name)
        ]
        if start["class"] != as_read(class_to_json(policies)):
            changes.append("policy class was another")
        if changes:
            raise InputError(
                f"{path} holds another run: its {changes[0]}; take another file, or the same options as before"
            )


def _check_saveable(algorithm: Algorithm[Any], policies: PolicyClass) -> Trial:
    """Return the algorithm; raise InputError, before a file is made, if its states cannot be saved."""
    if not isinstance(algorithm, Trial):
        raise InputError(
            f"the state of {algorithm.name} cannot be kept, only that of a trial: coda, uniform, or your own that "
            "extends Trial"
        )
    class_to_json(policies)
    describe_algorithm(algorithm)
    return algorithm


def _check_proves_gain(algorithm: Algorithm[Any]) -> None:
    if not isinstance(algorithm, Trial):
        raise InputError(f"{algorithm.name} does not stop by a proven gain; coda and uniform do")


def _contents(problem: Problem) -> str:
    """Return the SHA-256 of the data that rewards depend on, as files of one name may differ."""
    tables = (problem.population.features, problem.population.weights, problem.mean_rewards, problem.noise_variance)
    return digest([type(problem.noise).__name__, *(np.ascontiguousarray(table).tobytes() for table in tables)])


# Run an algorithm on a problem with a known truth, and judge its answer by the truth.


# Searches of `coda` on a class without a list of policies, as counted on problems of trees at ε = 0.1: some 17 rounds.
RUN_SEARCHES = Searches(argmaxes=350, frontiers=200)
# Of runs that stop by a gain: the size of differences by which the leader that exploration compares with control is
# chosen. The same as the default of `pacbandits run`.
GAIN_EPSILON = 0.1
MAX_GAIN_SAMPLES = 200_000  # of such a run by default


def run(
    problem: Problem | str,
    policies: PolicyClass | None = None,
    *,
    algorithm: str | Algorithm[Any] = "coda",
    epsilon: float | None = None,
    delta: float | None = None,
    improve_on: int | None = None,
    gain: float | None = None,
    rng: np.random.Generator | int,
    max_samples: int | None = None,
    offline_contexts: int | None = None,
    pilot: Log | int | None = None,
    state: str | Path | None = None,
    watch: Watch | None = None,
    **options: Any,
) -> Run:
    """Run an algorithm on a problem until it is done, or the budget is used up.

    problem: a problem, or its name for `load_problem`.
    policies: the problem's own class by default.
    algorithm: a name, `name:key=value,…`, or any object with the steps of `Algorithm`.
    epsilon, delta: the accuracy and error probability; by default those of an algorithm given as an object.
    improve_on: the number of the action that is today's practice: a trial given by name (coda, uniform) then stops by a
        proven gain over it, not by ε, which is left out.
    gain: the smallest proven gain to stop at; by default any above 0.
    rng: a generator, or a seed for one.
    max_samples: no round is begun that would exceed it; by default 200,000 for a run that stops by a gain, as none is
        ever proven where nothing is better than today's practice. Rows of a pilot are not among them.
    offline_contexts: the number of contexts the algorithm sees beforehand; if None, it knows their distribution.
    pilot: the log of a randomised pilot on the same problem, with all propensities: its rows count as the first ones of
        the trial (`pacbandits.trials.pilot_rows`). A number is the algorithm's option: the size of its first round.
    state: a file in which a trial is saved after every round; a run begun there is resumed as if it had never stopped,
        also with another max_samples. A generator must be given as it was at the start. The file is locked meanwhile.
    watch: is called with each `Stage` of the run.
    options: of an algorithm given by name.

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
    if pilot is not None and not isinstance(pilot, Log):
        remedy = "the log of a pilot (Log.of, or read_log of a file), or a number, the size of the first round"
        options, pilot = options | {"pilot": instance(pilot, int, name="pilot", remedy=remedy)}, None
    if pilot is not None and seed is not None:  # a pilot of the same seed must not meet the same people again
        rng = np.random.default_rng([seed, pilot.samples])
    setting = (epsilon, delta, offline_contexts, improve_on, gain)
    made, epsilon, delta = _made(algorithm, problem, chosen, setting, options)
    if max_samples is None and getattr(made, "improve_on", None) is not None:
        max_samples = MAX_GAIN_SAMPLES
    with ExitStack() as files:
        saved = None
        if state is not None:
            path, trial = path_of(state, name="state"), _check_saveable(made, chosen)
            asked = {
                "problem": problem.name,
                "problem's digest": _contents(problem)[:12],
                "algorithm": made.name,
                "epsilon": epsilon,
                "delta": delta,
                "seed": seed,
                "number of offline contexts": offline_contexts,
                **({} if pilot is None else {"pilot's digest": digest_log(pilot)[:12]}),
            }
            saved = SavedRun(files.enter_context(StateFile.held(path)), trial, asked)
        began = time.perf_counter()
        contexts = problem.population
        if offline_contexts is not None:
            contexts = problem.contexts(offline_contexts, rng).tallied()
        first = made.start(chosen, contexts)
        begin = None if pilot is None else _beginning(made, check_pilot(pilot, chosen, contexts))
        if saved is not None:
            first = saved.resume(first, problem, rng, begin=begin)
        elif begin is not None:
            first = begin(first)
        last, stopped, reason = _play(problem, made, first, rng, max_samples=max_samples, watch=watch, saved=saved)
    answer = made.result(last)
    best = chosen.argmax(problem.population, problem.population.weights[:, None] * problem.mean_rewards)
    gap = max(problem.value(best) - problem.value(answer.policy), 0.0)
    judged = _judge_gain(problem, made, answer)
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
        correct=gap <= epsilon * (1 + 1e-12) if judged is None else judged.true >= judged.proven - 1e-12,
        stopped=stopped,
        reason=reason,
        guarantee=answer.guarantee,
        seconds=time.perf_counter() - began,
        history=tuple(dict(figures) for figures in last.history),
        certificate=answer.certificate,
        log=last.log,
        contexts=last.contexts,
        policies=chosen,
        improve_on=None if judged is None else judged.over,
        gain=None if judged is None else getattr(made, "gain", None),
        proven_gain=None if judged is None else judged.proven,
        true_gain=None if judged is None else judged.true,
        pilot_samples=pilot_samples(last),
    )


def _beginning(algorithm: Algorithm[Any], pilot: Log) -> Callable[[TrialState], TrialState]:
    """Return the function that adds the rounds of a pilot to a starting state."""
    if not isinstance(algorithm, Trial):
        raise InputError(f"rows of a pilot count in coda and uniform, not in {algorithm.name}; leave out the pilot")
    return partial(add_pilot, algorithm, pilot=arrange_pilot(algorithm, pilot))


def pilot_samples(state: State) -> int:
    """Return the number of interactions of the pilot that a trial began with."""
    begun = state.pilot if isinstance(state, TrialState) else None
    return 0 if begun is None else begun.samples


def _made(
    algorithm: str | Algorithm[Any],
    problem: Problem,
    policies: PolicyClass,
    asked: tuple[float | None, float | None, int | None, int | None, float | None],
    options: dict[str, Any],
) -> tuple[Algorithm[Any], float, float]:
    """Return the algorithm of a run, and the ε and δ by which it is judged.

    asked: ε, δ, the number of offline contexts, the action to improve on, and the gain to prove.
    """
    epsilon, delta, offline_contexts, improve_on, gain = asked
    if isinstance(algorithm, str):
        if improve_on is not None and epsilon is not None:
            raise InputError("a run stops by ε or by a proven gain; leave out epsilon, or improve_on")
        epsilon = GAIN_EPSILON if improve_on is not None else epsilon
        if epsilon is None or delta is None:
            raise InputError(f"{algorithm} needs an epsilon and a delta: how near to the best, and how surely")
        setting = Setting(policies, epsilon, delta, problem.reward_bounds, offline_contexts, improve_on, gain)
        made: Algorithm[Any] = make_algorithm(algorithm, setting, options)
        if improve_on is not None or gain is not None:
            _check_proves_gain(made)
        return made, epsilon, delta
    check_steps(algorithm)
    given = options | {name: one for name, one in (("improve_on", improve_on), ("gain", gain)) if one is not None}
    if given:
        raise InputError(f"{algorithm.name} was made already; give '{next(iter(given))}' to it, not to run")
    epsilon = check_epsilon(_agreed(algorithm, "epsilon", epsilon))
    return algorithm, epsilon, check_delta(_agreed(algorithm, "delta", delta))


class _JudgedGain(NamedTuple):
    """The gain of an answer over an action: proven, 0 if none is, and by the truth."""

    over: int
    proven: float
    true: float


def _judge_gain(problem: Problem, algorithm: Algorithm[Any], answer: Answer) -> _JudgedGain | None:
    """Compare the proven gain with the truth; None if the algorithm stops by ε."""
    control = getattr(algorithm, "improve_on", None)
    if control is None:
        return None
    improvement = getattr(answer.certificate, "improvement", None)
    found = None if improvement is None else improvement.recommended
    return _JudgedGain(control, 0.0 if found is None else found.low, problem.gain(answer.policy, control))


def _agreed(algorithm: Algorithm[Any], name: str, given: float | None) -> float:
    """Return the ε or δ by which a run is judged: the algorithm's own, or the given one if it has none."""
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
    saved: SavedRun | None,
) -> tuple[State, Stopped, str]:
    """Play rounds from this state on; return the last state, why it stopped, and the reason in words."""

    def tell(doing: str) -> None:
        if watch is None:
            return
        number = state.round_number + (0 if state.finished else 1)
        certified = None
        if state.certificate is not None:
            certified = min(state.certificate.certified_epsilon, 1.0)
        elif getattr(getattr(algorithm, "profile", None), "certifies", False):
            certified = 1.0
        rounds, gain = max(getattr(algorithm, "rounds", 0), number), None
        if getattr(algorithm, "improve_on", None) is not None:
            gain = float(state.history[-1]["proven_gain"]) if state.history else -1.0
        words = state.policy.describe()
        watch(Stage(doing, number, rounds, state.samples, words, certified_epsilon=certified, proven_gain=gain))

    def refuse(state: State, plan: Plan) -> Refusal | None:
        left = None if max_samples is None else max(max_samples - state.samples + pilot_samples(state), 0)
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
                case Step(doing="absorbed") if saved is not None:
                    saved.keep(state)
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
    """Run with the seeds seed, seed + 1, …; return the runs. options: of `run`. Stops early when a run is interrupted.

    engine: plays the same runs on its workers, many at once; by default they are played here, one after the other.
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
    """Return the runs of these seeds, in order."""
    tell = watch or _unwatched
    tell(Stage("waiting for workers", 1, 1, 0, ""))
    done: list[Run] = []
    for one in engine.each(run_seed, (problem, policies, dict(options)), seeds):
        done.append(one)
        doing = f"{len(done)} of {len(seeds)} runs done"
        tell(Stage(doing, one.rounds, one.rounds, one.samples, one.policy.describe(), run=len(done) - 1))
    return sorted(done, key=lambda one: one.seed or 0)


def _unwatched(_: Stage) -> None:
    """Ignore the stage."""


def run_seed(told: tuple[Problem, PolicyClass | None, dict[str, Any]], seed: int) -> Run:
    """Return one run, played by a worker of a cluster."""
    problem, policies, options = told
    return run(problem, policies, rng=seed, **options)


def _loaded(problem: Problem | str) -> Problem:
    """Return the problem, or the one of that name."""
    remedy = "or what load_problem takes, the name of one"
    return (
        load_problem(problem) if isinstance(problem, str) else instance(problem, Problem, name="problem", remedy=remedy)
    )


def _numbered(watch: Watch | None, number: int) -> Watch | None:
    """Return a watch whose stages have the number of their run."""
    return None if watch is None else lambda stage: watch(replace(stage, run=number))

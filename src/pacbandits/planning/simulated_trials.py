"""Simulate trials of a plan, in processes or on a cluster, until the quantiles of their size are precise."""

from __future__ import annotations

import json
import math
import pickle
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.arrays import FloatArray
from pacbandits.checks import positive, settle, whole_number
from pacbandits.compiled import cores
from pacbandits.engines import processes as local
from pacbandits.engines.dask import DaskEngine
from pacbandits.errors import InputError, plain
from pacbandits.planning.assumptions import RIVALS, SHOWN_SHARES, Assumptions, Traffic
from pacbandits.policies.registry import digest_class
from pacbandits.problems import Problem
from pacbandits.records import Log
from pacbandits.records.log import digest
from pacbandits.schema import Fields, format_text, parse_json, read_format, read_json
from pacbandits.simulation.play_loop import Refusal, play_rounds
from pacbandits.trials.pilot_rows import add_pilot, arrange_pilot, check_pilot
from pacbandits.trials.protocol import Plan, Setting, State
from pacbandits.trials.trial import Trial

# Quantiles of stopping times from a few simulated trials, and their precision.


KNOWN_SHARES = (0.5, 0.8)  # those whose precision ends a simulation; the 95 % quantile would take hundreds of trials
KNOWN_CONFIDENCE = 1.645  # standard errors on either side: 90 %
MIN_TRIALS = 3  # below it, precision is infinite


@dataclass(frozen=True)
class Quantiles:
    """The number of users by which a trial is done, in 50 %, 80 % and 95 % of cases.

    median, p80, p95: infinite if it is not done by the largest allowed number.
    known_to: the relative error of the first two, with 90 % confidence; infinite while there are too few trials.
    trials: the number simulated; 0 for an estimate without simulation.
    """

    median: float
    p80: float
    p95: float
    known_to: float = math.inf
    trials: int = 0

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values; null for infinite ones."""
        names = ("median", "p80", "p95", "known_to")
        values = {name: getattr(self, name) for name in names}
        return {name: v if math.isfinite(v) else None for name, v in values.items()} | {"trials": self.trials}


def quantile(values: Sequence[float], weights: Sequence[float], share: float) -> float:
    """Return a quantile of weighted values, with log-linear interpolation between neighbours.

    The i-th of m equally weighted values is the i/(m + 1) quantile, so that a new value falls between two quantiles as
    often as these say, for any m; outside the first and the last value, that value is returned.
    """
    x, w = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    x, w = x[order], w[order] / w.sum()
    m = len(x)
    at = np.cumsum(w) * m / (m + 1)
    if share >= at[-1]:
        return float(x[-1])
    i = int(np.searchsorted(at, share))
    if i == 0 or x[i - 1] == x[i]:
        return float(x[i])
    if not np.isfinite(x[i]):
        return math.inf
    part = (share - at[i - 1]) / (at[i] - at[i - 1])
    return float(x[i - 1] * (x[i] / x[i - 1]) ** part) if x[i - 1] > 0 else float(part * x[i])


def quantiles(values: Sequence[float], weights: Sequence[float] | None = None) -> Quantiles:
    """Return quantiles of simulated stopping times, infinite for trials that were not done."""
    w: FloatArray = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    median, p80, p95 = (quantile(values, list(w), share) for share in SHOWN_SHARES)
    errors = [_error(values, w, share) for share in KNOWN_SHARES]
    return Quantiles(median, p80, p95, known_to=max(errors), trials=len(values))


def _error(values: Sequence[float], weights: FloatArray, share: float) -> float:
    """Return the relative error of a quantile, from the quantiles at its share less and plus the sampling error."""
    counted = weights.sum() ** 2 / (weights**2).sum()
    chance = KNOWN_CONFIDENCE * math.sqrt(share * (1 - share) / counted)
    m = len(values)
    if m < MIN_TRIALS or share + chance > m / (m + 1) or share - chance < 1 / (m + 1):
        return math.inf
    low, middle, high = (quantile(values, list(weights), s) for s in (share - chance, share, share + chance))
    return max(high / middle, middle / low) - 1 if math.isfinite(high) else math.inf


# One simulated trial of a plan, on a draw of a scenario, with the plan's traffic and delay of rewards.
#
# Without traffic, or where designs may change at any time, rounds are those of the algorithm. Otherwise a round lasts
# for whole periods, and rounds that begin while rewards are pending are designed without them.


@dataclass(frozen=True)
class PlayedTrial:
    """The result of one trial, in units of rewards in [0, 1].

    scenario: its index in the plan, from 0.
    number: the draw of the scenario, from 0.
    algorithm: its name.
    samples: users until it was done or given up.
    done: whether it was done.
    periods: of the traffic, until it was done; None without traffic.
    correct: whether the answer is within ε by the truth.
    lost: the total regret during the trial, against the best policy.
    over_constant, over_control: the value of the answer less that of the best single action, and of the control.
    best_over_constant: the same for the best policy of the class, over the best single action.
    curve: users and certified ε, after each round.
    seconds: wall time.
    """

    scenario: int
    number: int
    algorithm: str
    samples: int
    done: bool
    periods: float | None
    correct: bool
    lost: float
    over_constant: float
    over_control: float
    best_over_constant: float
    curve: tuple[tuple[int, float], ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return asdict(self) | {"curve": [list(point) for point in self.curve]}

    @classmethod
    def from_json(cls, value: object) -> PlayedTrial:
        """Read what `to_json` wrote."""
        given = Fields.read(value, of="trial of a plan")
        given.check_known(tuple(cls.__dataclass_fields__))
        return cls(
            scenario=given.whole_number("scenario"),
            number=given.whole_number("number"),
            algorithm=given.one_of("algorithm", RIVALS),
            samples=given.whole_number("samples"),
            done=given.flag("done"),
            periods=None if given["periods"] is None else given.number("periods", least=0),
            correct=given.flag("correct"),
            lost=given.number("lost"),
            over_constant=given.number("over_constant"),
            over_control=given.number("over_control"),
            best_over_constant=given.number("best_over_constant"),
            curve=_curve(given.number_rows("curve")),
            seconds=given.number("seconds", least=0),
        )


def _curve(rows: list[tuple[float, ...]]) -> tuple[tuple[int, float], ...]:
    if not rows or len(rows[0]) != 2:
        raise InputError("the curve of a trial must be pairs of people and ε, one or more")
    return tuple((int(n), epsilon) for n, epsilon in rows)


@dataclass(frozen=True, eq=False)
class TrialQuestion:
    """The parameters of a trial, in units of rewards in [0, 1].

    epsilon, delta: how close to the best, and the probability of being wrong.
    traffic: users per period; None if time does not matter.
    control: the action with which others are compared.
    max_samples: after which a trial is given up, but not before its first round.
    """

    epsilon: float
    delta: float
    traffic: Traffic | None
    control: int
    max_samples: int


def play(
    problem: Problem,
    algorithm: str,
    asked: TrialQuestion,
    *,
    scenario: int,
    number: int,
    seed: int,
    pilot: Log | None = None,
) -> PlayedTrial:
    """Play a trial from its first round to its last; pilot: rows that count as its first, not among its users."""
    if algorithm not in RIVALS:
        raise InputError(f"a plan simulates {' and '.join(RIVALS)}, not '{plain(algorithm)}'")
    began, rng = time.perf_counter(), np.random.default_rng([seed, scenario, number, 1 + RIVALS.index(algorithm)])
    made = make_algorithm(algorithm, Setting(problem.policies, asked.epsilon, asked.delta, problem.reward_bounds), {})
    state, samples, lost, given_up = made.start(problem.policies, problem.population), 0, 0.0, False
    curve: list[tuple[int, float]] = []
    if pilot is not None:
        trial = cast(Trial, made)  # both rivals are
        rows = arrange_pilot(trial, check_pilot(pilot, problem.policies, problem.population))
        state = add_pilot(trial, state, rows)
        curve.append((0, _certified(state)))
    periods: float | None = None

    def refuse(_: State, plan: Plan) -> Refusal | None:
        nonlocal given_up
        given_up = samples > 0 and samples + plan.samples > asked.max_samples
        return ("budget", "") if given_up else None

    batches = asked.traffic if asked.traffic is not None and asked.traffic.batched else None
    size, delay = (None, 0) if batches is None else (batches.people, batches.delay)
    for step in play_rounds(problem, made, state, rng=rng, refuse=refuse, period_size=size, delay=delay):
        state = step.state
        if step.doing == "played" and step.log is not None:
            samples += step.log.samples
            lost += _lost(problem, step.log)
        elif step.doing == "absorbed":
            curve.append((samples, _certified(state)))
            if batches is not None and (state.finished or given_up):
                periods = float(step.time)
    if periods is None and asked.traffic is not None:
        periods = asked.traffic.periods(samples)
    answer = made.result(state).policy
    best, value = problem.value(problem.best_policy()), problem.value(answer)
    constants = problem.population.weights @ problem.mean_rewards
    return PlayedTrial(
        scenario=scenario,
        number=number,
        algorithm=algorithm,
        samples=samples,
        done=state.finished,
        periods=periods,
        correct=best - value <= asked.epsilon * (1 + 1e-12),
        lost=lost,
        over_constant=value - float(constants.max()),
        over_control=value - float(constants[asked.control]),
        best_over_constant=best - float(constants.max()),
        curve=tuple(curve),
        seconds=time.perf_counter() - began,
    )


def _lost(problem: Problem, log: Log) -> float:
    """Return the total expected regret of a log's actions, against the best policy."""
    ids = log.contexts.require_ids(below=len(problem.population))
    best = problem.best_policy()(problem.population)
    means = problem.mean_rewards
    return float(log.repeats @ (means[ids, best[ids]] - means[ids, log.actions]))


def _certified(state: State) -> float:
    """Return the smallest certified ε; 1 if none is."""
    if state.certificate is None:
        raise InputError("a plan needs an algorithm that certifies: coda or uniform")
    return min(float(state.certificate.certified_epsilon), 1.0)


# Play one trial of a plan, in this process, another one, or a worker of a cluster.


def play_one(supposed: Assumptions, asked: TrialQuestion, scenario: int, number: int, algorithm: str) -> PlayedTrial:
    """Play one trial of a plan; the result is the same in any process."""
    problem = supposed.problem(scenario, number)
    pilot = supposed.counted_pilot
    return play(problem, algorithm, asked, scenario=scenario, number=number, seed=supposed.seed, pilot=pilot)


def play_job(told: tuple[Assumptions, TrialQuestion], job: tuple[int, int, str]) -> PlayedTrial:
    """Play one trial in another process."""
    return play_one(*told, *job)


# Simulate the trials of a plan in several processes, in any order; each trial is the same in any process.


Job = tuple[int, int, str]  # scenario, number of its draw, algorithm
Shared = TypeVar("Shared")
Given = TypeVar("Given")
Made = TypeVar("Made")


def play_all(
    supposed: Assumptions,
    asked: TrialQuestion,
    jobs: Iterator[Job],
    *,
    processes: int | None = None,
    engine: DaskEngine | None = None,
    until: float = math.inf,
) -> Generator[PlayedTrial]:
    """Yield the result of each job as soon as it is known. With one process jobs are played in this one.

    Closing the generator stops the processes.

    engine: plays on its workers, instead of processes of this machine.
    until: when, by `time.monotonic`, to stop waiting for trials; with one process the last one is finished.
    """
    told = supposed, asked
    yield from hand_out(play_job, told, supposed, jobs, processes=processes, engine=engine, until=until)


def hand_out(
    task: Callable[[Shared, Given], Made],
    told: Shared,
    supposed: Assumptions,
    jobs: Iterator[Given],
    *,
    processes: int | None,
    engine: DaskEngine | None,
    until: float,
) -> Generator[Made]:
    """Yield the result of each job of a plan; told: the first argument of the task. Else as `play_all`."""
    if engine is not None:
        yield from engine.each(task, told, jobs, until=until)
        return
    count = cores() if processes is None else processes
    if count == 1 or not _can_be_handed_over(supposed, told):
        for job in jobs:
            yield task(told, job)
        return
    yield from local.each(task, told, jobs, processes=count, until=until)


def _can_be_handed_over(supposed: Assumptions, told: object) -> bool:
    """Whether the assumptions can be sent to another process; not so for a class that a script itself defines."""
    parts = (supposed.people, supposed.policies, *supposed.scenarios)
    if any(type(part).__module__ == "__main__" for part in parts):
        return False
    try:
        pickle.dumps(told)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


# Simulate trials of a plan until their quantiles are precise enough; a folder saves them for later.


PRECISION = 0.1  # target relative error of quantiles
DEFAULT_TRIALS, DEFAULT_MINUTES = 200, 10.0  # at most, of each scenario; and in total
TRIALS_FILE, ASKED_FILE = "trials.jsonl", "asked.json"
TRIAL_FOLDER, FOLDER_FORMAT = "trial folder", 1  # the format of these files (docs/stability.md)

Watch = Callable[[tuple[PlayedTrial, ...]], None]


@dataclass(frozen=True)
class Limits:
    """The limits of a simulation.

    trials: at most, of each scenario and algorithm.
    minutes: in total.
    precision: the relative error of the median and the 80 % quantile at which it ends.
    processes: at once; None for one per core.
    """

    trials: int = DEFAULT_TRIALS
    minutes: float = DEFAULT_MINUTES
    precision: float = PRECISION
    processes: int | None = None

    def __post_init__(self) -> None:
        settle(self, trials=whole_number(self.trials, name="trials", least=1))
        settle(self, minutes=positive(self.minutes, name="minutes"))
        settle(self, precision=positive(self.precision, name="precision"))
        if self.processes is not None:
            settle(self, processes=whole_number(self.processes, name="processes", least=1))


def stopping_times(trials: tuple[PlayedTrial, ...], algorithm: str, scenario: int | None = None) -> list[float]:
    """Return the number of users that each trial of an algorithm took; infinite if it was not done."""
    return [
        float(one.samples) if one.done else np.inf
        for one in trials
        if one.algorithm == algorithm and scenario in (None, one.scenario)
    ]


def scenario_weights(trials: tuple[PlayedTrial, ...], algorithm: str, shares: tuple[float, ...]) -> list[float]:
    """Return the weight of each trial of an algorithm, so that scenarios count by their probabilities."""
    of = [one.scenario for one in trials if one.algorithm == algorithm]
    many = np.bincount(of, minlength=len(shares)) if of else np.ones(len(shares))
    return [shares[s] / float(many[s]) for s in of]


def known_to(trials: tuple[PlayedTrial, ...], n_scenarios: int) -> float:
    """Return the largest relative error of any scenario's quantiles."""
    worst = 0.0
    for scenario in range(n_scenarios):
        for algorithm in RIVALS:
            times = stopping_times(trials, algorithm, scenario)
            worst = max(worst, quantiles(times).known_to if times else np.inf)
    return worst


def simulate(
    supposed: Assumptions,
    asked: TrialQuestion,
    *,
    limits: Limits,
    folder: Path | None = None,
    engine: DaskEngine | None = None,
    watch: Watch | None = None,
) -> tuple[PlayedTrial, ...]:
    """Simulate every scenario until quantiles are precise, a limit is reached or it is interrupted; return the trials.

    folder: saves every trial; those it holds are not played again.
    engine: plays on its workers; None for processes of this machine.
    """
    kept = None if folder is None else _Kept.of(folder, supposed, asked)
    trials = [] if kept is None else kept.read(supposed)
    if watch is not None and trials:
        watch(tuple(trials))
    if known_to(tuple(trials), len(supposed.scenarios)) <= limits.precision:
        return _sorted(trials)
    until = time.monotonic() + 60.0 * limits.minutes
    over = [False]
    played = {(one.scenario, one.number, one.algorithm) for one in trials}
    jobs = (job for job in _jobs(supposed, limits.trials, over) if job not in played)
    try:
        playing = play_all(supposed, asked, jobs, processes=limits.processes, engine=engine, until=until)
        with closing(playing) as coming:
            for one in coming:
                trials.append(one)
                if kept is not None:
                    kept.add(one)
                if watch is not None:
                    watch(tuple(trials))
                if time.monotonic() > until or known_to(tuple(trials), len(supposed.scenarios)) <= limits.precision:
                    break
    except KeyboardInterrupt:
        if not trials:
            raise
    finally:
        over[0] = True
    return _sorted(trials)


def _sorted(trials: list[PlayedTrial]) -> tuple[PlayedTrial, ...]:
    return tuple(sorted(trials, key=lambda one: (one.scenario, one.number, one.algorithm)))


def _jobs(supposed: Assumptions, most: int, over: list[bool]) -> Iterator[Job]:
    """Yield a trial of each scenario, then another, and so on; uniform trials first, which are the fastest."""
    for number in count():
        if number >= most:
            return
        for algorithm in reversed(RIVALS):
            for scenario in range(len(supposed.scenarios)):
                if over[0]:
                    return
                yield scenario, number, algorithm


@dataclass(frozen=True)
class _Kept:
    """A folder of trials, all of one plan."""

    folder: Path

    @classmethod
    def of(cls, folder: Path, supposed: Assumptions, asked: TrialQuestion) -> _Kept:
        """Return the folder, created if needed; raise InputError if it holds trials of another plan."""
        try:
            folder.mkdir(exist_ok=True)
            now = plan_digest(supposed, asked)
            before = folder / ASKED_FILE
            if before.exists():
                asked_before = Fields.read(read_json(before), of="plan in that folder")
                read_format(asked_before.given, TRIAL_FOLDER, latest=FOLDER_FORMAT, unnumbered=1)
                if asked_before["digest"] != now:
                    raise InputError(
                        f"{folder} contains trials of another plan; use another folder, or the same options"
                    )
            else:
                said = {"format": format_text(TRIAL_FOLDER, FOLDER_FORMAT), "digest": now}
                before.write_text(json.dumps(said), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot store trials in {folder}: {error.strerror or error}") from None
        return cls(folder)

    def read(self, supposed: Assumptions) -> list[PlayedTrial]:
        """Return the trials in the folder; drop a last line that was cut short."""
        path = self.folder / TRIALS_FILE
        if not path.exists():
            return []
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError):
            raise InputError(f"{path} cannot be read as trials of a plan; take another folder") from None
        whole = lines[:-1]  # each ends with a line break
        trials = [PlayedTrial.from_json(parse_json(line, name=f"{path}, line {i + 1}")) for i, line in enumerate(whole)]
        if lines[-1]:
            path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")
        for one in trials:
            if one.scenario >= len(supposed.scenarios):
                raise InputError(f"{path} holds a trial of scenario {one.scenario + 1}, which the plan lacks")
        return trials

    def add(self, one: PlayedTrial) -> None:
        """Save one more trial."""
        try:
            with (self.folder / TRIALS_FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(one.to_json()) + "\n")
        except OSError as error:
            raise InputError(f"cannot store trials in {self.folder}: {error.strerror or error}") from None


def plan_digest(supposed: Assumptions, asked: TrialQuestion) -> str:
    """Return the SHA-256 of everything that trials depend on."""
    people = supposed.people
    stated = repr(asked).removeprefix("Trial")  # as it was when the class was called Question: folders stay valid
    words = [
        f"[{supposed.outcome!r}, {stated}, {supposed.seed!r}, {[repr(one) for one in supposed.scenarios]!r}]",
        repr([people.names, people.categories]),
        digest_class(supposed.policies) or supposed.policies.type_name,
        *(["count_pilot"] if supposed.count_pilot else []),
    ]
    return digest([*words, people.features.tobytes(), people.weights.tobytes()])

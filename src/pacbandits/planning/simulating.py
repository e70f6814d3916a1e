"""Simulate trials of a plan until their quantiles are precise enough; a folder keeps them for later."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from pacbandits.checks import positive, settle, whole_number
from pacbandits.engines.dask import DaskEngine
from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.json_files import parse_json, read_json
from pacbandits.planning.assumptions import Assumptions
from pacbandits.planning.playing import RIVALS, PlayedTrial, TrialQuestion
from pacbandits.planning.pool import Job, play_all
from pacbandits.planning.quantiles import quantiles
from pacbandits.policies.registry import digest_class
from pacbandits.records.digest import digest

PRECISION = 0.1  # to which quantiles are to be known
DEFAULT_TRIALS, DEFAULT_MINUTES = 200, 10.0  # of each scenario, the most; and in all
TRIALS_FILE, ASKED_FILE = "trials.jsonl", "asked.json"

Watch = Callable[[tuple[PlayedTrial, ...]], None]


@dataclass(frozen=True)
class Limits:
    """When a simulation ends.

    trials: of each scenario and algorithm, the most.
    minutes: in all.
    precision: the relative error of the median and the 80 % quantile that is small enough.
    processes: at once; None for one a core.
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
    """How many people each trial of an algorithm took; infinite where it was not done."""
    return [
        float(one.samples) if one.done else np.inf
        for one in trials
        if one.algorithm == algorithm and scenario in (None, one.scenario)
    ]


def scenario_weights(trials: tuple[PlayedTrial, ...], algorithm: str, shares: tuple[float, ...]) -> list[float]:
    """What each trial of an algorithm counts, so that scenarios count by how likely they are."""
    of = [one.scenario for one in trials if one.algorithm == algorithm]
    many = np.bincount(of, minlength=len(shares)) if of else np.ones(len(shares))
    return [shares[s] / float(many[s]) for s in of]


def known_to(trials: tuple[PlayedTrial, ...], n_scenarios: int) -> float:
    """The largest relative error of any scenario's quantiles."""
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
    """Trials of every scenario, until quantiles are known or a limit is reached; also when interrupted.

    folder: keeps every trial, and what it holds is not played again.
    engine: whose workers play; None for processes of this machine.
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
    """One trial of each scenario, then another, and so on; plain ones first, which take the least time."""
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
        """The folder, made if there is none; raises where it holds trials of another plan."""
        try:
            folder.mkdir(exist_ok=True)
            now = plan_digest(supposed, asked)
            before = folder / ASKED_FILE
            if before.exists():
                if Fields.read(read_json(before), of="plan in that folder")["digest"] != now:
                    raise InputError(f"{folder} holds trials of another plan; take another folder, or the same options")
            else:
                before.write_text(json.dumps({"digest": now}), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot keep trials in {folder}: {error.strerror or error}") from None
        return cls(folder)

    def read(self, supposed: Assumptions) -> list[PlayedTrial]:
        """The trials that it holds; a last line that was cut short is left out."""
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
        """Keep one more."""
        try:
            with (self.folder / TRIALS_FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(one.to_json()) + "\n")
        except OSError as error:
            raise InputError(f"cannot keep trials in {self.folder}: {error.strerror or error}") from None


def plan_digest(supposed: Assumptions, asked: TrialQuestion) -> str:
    """SHA-256 of all that trials depend on."""
    people = supposed.people
    stated = repr(asked).removeprefix("Trial")  # as it was when the class was called Question: folders stay valid
    words = [
        f"[{supposed.outcome!r}, {stated}, {supposed.seed!r}, {[repr(one) for one in supposed.scenarios]!r}]",
        repr([people.names, people.categories]),
        digest_class(supposed.policies) or supposed.policies.type_name,
    ]
    return digest([*words, people.features.tobytes(), people.weights.tobytes()])

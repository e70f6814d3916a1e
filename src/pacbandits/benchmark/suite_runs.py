"""Play a suite into a folder with worker processes, resume it, and estimate the time left."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pacbandits.benchmark.cases import Row, Task
from pacbandits.benchmark.results import (
    SUITE,
    BenchmarkSession,
    CaseFacts,
    Description,
    Failure,
    Key,
    Misfit,
    Results,
    Selection,
    environment,
    read_description,
    read_facts,
    read_failures,
    read_misfits,
    task_of,
)
from pacbandits.benchmark.runs import Done, Job, do, failure_of
from pacbandits.benchmark.standings import behind
from pacbandits.benchmark.suites import Suite
from pacbandits.engines.processes import each
from pacbandits.errors import InputError, count_of
from pacbandits.version import __version__

# Estimate the time left of a suite from the runs so far; cases and algorithms differ by factors of hundreds.


Kind = tuple[str, str]  # a case and the spec of an algorithm


@dataclass
class Pace:
    """The time that runs took, of earlier commands and of this one.

    runs: their number, by kind, and by case.
    seconds: core seconds, by kind, and by case.
    spent: core seconds by this command, from which overhead and the number of cores are inferred.
    """

    runs: Counter[Kind | str] = field(default_factory=Counter[Kind | str])
    seconds: defaultdict[Kind | str, float] = field(default_factory=lambda: defaultdict(float))
    spent: float = 0.0

    def note(self, row: Row, *, now: bool) -> None:
        """Add a run; now: whether it is of this command."""
        seconds = row.seconds + row.seconds_certifying
        for of in ((row.case, row.algorithm), row.case):
            self.runs[of] += 1
            self.seconds[of] += seconds
        self.spent += seconds if now else 0.0

    def time_left(self, waiting: Mapping[Kind, int], *, elapsed: float, processes: int) -> float | None:
        """Return the seconds until the waiting runs of each kind are played; None while nothing is known.

        A kind without runs takes as long as the others of its case, a case without runs as long as the other cases.

        elapsed: seconds since this command began. processes: their number, used until the first run ends.
        """
        if not self.runs:
            return None
        cases = [of for of in self.runs if isinstance(of, str)]
        overall = sum(self.seconds[case] for case in cases) / sum(self.runs[case] for case in cases)

        def expected(kind: Kind) -> float:
            return self.seconds[kind] / self.runs[kind] if self.runs[kind] else self.of_case(kind[0], guess=overall)

        core_seconds = sum(count * expected(kind) for kind, count in waiting.items() if count)
        return core_seconds * (elapsed / self.spent if self.spent else 1.0 / max(processes, 1))

    def of_case(self, case: str, *, guess: float) -> float:
        """Return the mean core seconds of a run of a case; the guess if none was played."""
        return self.seconds[case] / self.runs[case] if self.runs[case] else guess


# Play a suite into a folder with worker processes; runs that are there are not played again.
#
# Runs with the first seed come first, of all cases and entries, then those with the next: early results can be
# compared. Within a time limit the cheapest case comes first, by the time of a run times the seeds so far, so that all
# cases get about the same time, and cheap ones more seeds. Each run is reproducible, in any process and at any time.


RUNS_PER_PROCESS = 200
ROWS_PER_PART = 50
SECONDS_PER_PART = 5.0
MAX_DEATHS = 5  # of processes one after the other, before a suite is given up
GUESSED_SECONDS, GUESSED_DEAR_SECONDS = 1.0, 5.0  # of a run, until one of its case is played


@dataclass(frozen=True)
class SuiteProgress:
    """The progress of a suite.

    wanted: runs of the suite, without those of algorithms that refused or are clearly behind.
    done: of these, rows in the folder.
    played: of these, by this command.
    misfits: algorithms that refused a case.
    failures: runs of this command that ended in an error.
    seconds: since this command began to play.
    seconds_left: until all runs are there, by the times of runs of the same kind; None while nothing is known.
    """

    wanted: int
    done: int
    played: int
    misfits: tuple[Misfit, ...]
    failures: tuple[Failure, ...]
    seconds: float
    seconds_left: float | None

    @property
    def complete(self) -> bool:
        """Whether nothing is left to play."""
        return self.done >= self.wanted


Watch = Callable[[SuiteProgress], None]


def run_suite(
    suite: Suite,
    results: Results,
    *,
    jobs: int,
    command: str = "",
    fresh: bool = False,
    within: float | None = None,
    watch: Watch | None = None,
) -> SuiteProgress:
    """Play the runs of a suite that a folder lacks; finished runs are saved even if this is interrupted.

    jobs: the number of worker processes; 0 to play in this process.
    command: as typed, for the description.
    fresh: remove all earlier results first.
    within: the seconds after which to stop; the cheapest cases then come first, and unfinished runs are dropped.
    watch: is called with the progress.

    Raises:
        InputError: If the folder holds other things, or runs of another version or of other cases by these names.
        KeyboardInterrupt: On Ctrl-C, once everything is saved.
    """
    with results.held():
        if fresh:
            results.empty()
        results.compact()
        played = _Playing.begun(suite, results, command=command, watch=watch)
        played.until = math.inf if within is None else played.began + within
        try:
            played.go_on(jobs)
        finally:
            played.keep_all()
        return played.tally()


@dataclass
class _Playing:
    """A suite while it is played.

    suite: the suite.
    results: the folder.
    description: of the folder, before this command.
    session: this command.
    watch: is called with the progress.
    done: keys of rows in the folder.
    facts: of cases, also of other suites.
    misfits: also of other suites.
    failures: of earlier commands, without runs that are tried again.
    waiting: rows not written yet.
    wanted: keys of the suite, without those of algorithms that refused.
    there: the number of these that are done.
    left: the number that are not, by case and algorithm.
    times: when runs were certified, by case and algorithm.
    behind: algorithms that are clearly behind, by case, if the suite is screened.
    until: when to stop, by `time.monotonic`.
    pace: the times of runs.
    processes: their number.
    """

    suite: Suite
    results: Results
    description: Description
    session: BenchmarkSession
    watch: Watch | None
    done: set[Key]
    facts: list[CaseFacts]
    misfits: list[Misfit]
    failures: list[Failure]
    waiting: list[Row] = field(default_factory=list[Row])
    began: float = field(default_factory=time.monotonic)
    written: float = field(default_factory=time.monotonic)
    failed: list[Failure] = field(default_factory=list[Failure])
    wanted: frozenset[Key] = frozenset()
    there: int = 0
    left: Counter[Kind] = field(default_factory=Counter[Kind])
    times: dict[str, dict[str, list[float]]] = field(default_factory=dict[str, dict[str, list[float]]])
    behind: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    until: float = math.inf
    pace: Pace = field(default_factory=Pace)
    processes: int = 1
    played: int = 0
    deaths: int = 0
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        self._count()

    @classmethod
    def begun(cls, suite: Suite, results: Results, *, command: str, watch: Watch | None) -> _Playing:
        """Return the progress of a suite in a folder, which must be held; raise InputError if it holds other runs."""
        known = (results.path / SUITE).exists()
        description = read_description(results.path) if known else Description()
        rows, wanted = results.asked(), {task.key: task for task in suite.tasks()}
        _check_same(results, description, rows, wanted)
        began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        session = BenchmarkSession(command, began, environment(), asked=Selection.of(suite))
        # Already now, in case the command is killed.
        results.describe(description.with_suite(suite).with_session(session))
        made = cls(
            suite=suite,
            results=results,
            description=description.with_suite(suite),
            session=session,
            watch=watch,
            done={task_of(row).key for row in rows},
            facts=read_facts(results.path),
            misfits=read_misfits(results.path),
            failures=[one for one in read_failures(results.path) if one.suite and _key(one) not in wanted],
        )
        for row in rows:
            made.note(row, now=False)
        return made

    def note(self, row: Row, *, now: bool) -> None:
        """Add the times of a run, and find who is clearly behind on its case; now: whether it is of this command."""
        self.pace.note(row, now=now)
        if not self.suite.screened or not row.certified or row.suite != self.suite.name:
            return
        times = self.times.setdefault(row.case, {})
        times.setdefault(row.algorithm, []).append(math.inf if row.certified_at is None else float(row.certified_at))
        self.behind[row.case] = behind(times)

    def go_on(self, processes: int) -> None:
        """Play the remaining runs."""
        self.processes = processes
        self._tell()
        jobs = self._jobs()
        playing = (
            each(
                do,
                None,
                jobs,
                processes=processes,
                until=self.until,
                jobs_per_process=RUNS_PER_PROCESS,
                lost=self._lost,
            )
            if processes
            else (do(None, job) for job in jobs)
        )
        with closing(playing) as coming:
            for one in coming:
                self.memory_bytes = max(one.memory_bytes or 0, self.memory_bytes or 0) or None
                self._take(one.result)
                self._tell()

    def keep_all(self) -> None:
        """Write everything, with all rows in one table."""
        self._keep_rows()
        self.results.compact()
        self.results.put_failures([*self.failures, *self.failed])
        seconds = round(time.monotonic() - self.began, 3)
        session = replace(self.session, runs=self.played, seconds=seconds, peak_memory_bytes=self.memory_bytes)
        self.results.describe(self.description.with_session(session))

    def tally(self) -> SuiteProgress:
        """Return the progress."""
        misfits = tuple(one for one in self.misfits if one.suite == self.suite.name)
        seconds = time.monotonic() - self.began
        waiting = {kind: count for kind, count in self.left.items() if not self._is_behind(*kind)}
        left = self.pace.time_left(waiting, elapsed=seconds, processes=self.processes)
        wanted = self.there + sum(waiting.values())
        return SuiteProgress(wanted, self.there, self.played, misfits, tuple(self.failed), seconds, left)

    def _jobs(self) -> Iterator[Job]:
        """Yield the remaining jobs; measurements come once every algorithm has played every case."""
        facts = [case for case in self.suite.cases if not any(one.is_of(case) for one in self.facts)]
        for task in self._cheapest() if self.until < math.inf else self._by_seed():
            if time.monotonic() >= self.until:
                return
            if facts and task.seed > 0 and self.until == math.inf:
                yield from facts
                facts = []
            if task.key in self.wanted and task.key not in self.done and not self._is_behind(*task.key[1:3]):
                yield task
        yield from facts

    def _by_seed(self) -> Iterator[Task]:
        return iter(sorted(self.suite.tasks(), key=lambda one: one.seed))

    def _cheapest(self) -> Iterator[Task]:
        """Yield all tasks; next comes the case for which a run takes least, times the number of its seeds so far."""
        waiting: dict[str, list[Task]] = {}
        for task in reversed(list(self._by_seed())):
            if task.key in self.wanted and task.key not in self.done:
                waiting.setdefault(task.case.name, []).append(task)

        def price(case: str) -> float:
            guess = GUESSED_DEAR_SECONDS if case in self.suite.dear else GUESSED_SECONDS
            return (1 + waiting[case][-1].seed) * self.pace.of_case(case, guess=guess)

        while waiting:
            case = min(waiting, key=price)
            yield waiting[case].pop()
            if not waiting[case]:
                del waiting[case]

    def _is_behind(self, case: str, algorithm: str) -> bool:
        return algorithm in self.behind.get(case, ())

    def _count(self) -> None:
        """Compute the wanted runs, and how many of them are done."""
        refused = {(one.suite, one.case, one.algorithm) for one in self.misfits}
        self.wanted = frozenset(task.key for task in self.suite.tasks() if task.key[:3] not in refused)
        self.there = len(self.wanted & self.done)
        self.left = Counter((case, algorithm) for _, case, algorithm, _ in self.wanted - self.done)

    def _take(self, result: Row | CaseFacts | Misfit | Failure) -> None:
        """Save the result of a job."""
        if isinstance(result, Failure):
            self.failed.append(result)
            self.results.put_failures([*self.failures, *self.failed])
            return
        self.deaths = 0
        if isinstance(result, CaseFacts):
            self.facts.append(result)
            self.results.put_facts(self.facts)
        elif isinstance(result, Misfit):
            if (result.suite, result.case, result.algorithm, 0) in self.wanted:  # else another seed of it was under way
                self.misfits.append(result)
                self.results.put_misfits(self.misfits)
                self._count()
        else:
            self.waiting.append(result)
            self.done.add(task_of(result).key)
            self.played, self.there = self.played + 1, self.there + 1
            self.left[result.case, result.algorithm] -= 1
            self.note(result, now=True)
            if len(self.waiting) >= ROWS_PER_PART or time.monotonic() - self.written > SECONDS_PER_PART:
                self._keep_rows()

    def _keep_rows(self) -> None:
        self.results.add(self.waiting)
        self.waiting, self.written = [], time.monotonic()

    def _lost(self, job: Job) -> Done:
        """Return the `Failure` of a job whose process was killed; raise after too many in a row."""
        self.deaths += 1
        if self.deaths > MAX_DEATHS:
            raise InputError(
                f"{count_of(self.deaths, 'process', 'processes')} ended unexpectedly, one after the other; is "
                "memory short? Run it again with --jobs 1"
            )
        return Done(failure_of(job, "its process was killed; is memory short?"))

    def _tell(self) -> None:
        if self.watch is not None:
            self.watch(self.tally())


def _key(one: Failure) -> Key:
    return one.suite, one.case, one.algorithm, one.seed


def _check_same(results: Results, description: Description, rows: list[Row], wanted: dict[Key, Task]) -> None:
    """Raise if a folder has rows of another version, or of another case or entry with a wanted key."""
    remedy = "take another folder, or start again with --fresh"
    versions = {row.version for row in rows} | {description.version}
    if versions != {__version__}:
        other = sorted(versions - {__version__})[0]
        raise InputError(f"{results.path} holds runs of version {other}, and this is {__version__}; {remedy}")
    for row in rows:
        now, before = wanted.get(task_of(row).key), task_of(row)
        if now is not None and now != before:
            what = "case" if now.case != before.case else "entry"
            name = before.case.name if what == "case" else before.entry.spec
            raise InputError(
                f"{results.path} holds runs of another {what} by the name '{name}' than the suite '{row.suite}' has "
                f"now; {remedy}"
            )

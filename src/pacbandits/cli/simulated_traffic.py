"""Simulated visitors of an experiment: they arrive, return, and report rewards late, twice or never."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from pacbandits.checks import number, settle, whole_number
from pacbandits.errors import InputError, one_line
from pacbandits.experiment.assignment_records import Assignment, Recorded
from pacbandits.experiment.context_encoding import Encoder
from pacbandits.problems import Problem
from pacbandits.records import Metric
from pacbandits.simulation.play_loop import Pending, in_time

MAX_PEOPLE, MAX_SECONDS_BETWEEN = 10_000_000, 86_400.0
MAX_DELAYS = 5.0  # the largest delay of a reward, in mean delays
MAX_REFUSALS = 50  # in a row, after which no more visitors arrive
SHORTEST_NAP_SECONDS, LONGEST_NAP_SECONDS = 0.0005, 0.05
UNHURRIED_RATE = 50.0  # visitors per second in simulated time, if no rate is given
_ARRIVALS = 2**32  # the random stream of arrival times; those of visitors have smaller numbers

Context = Mapping[str, Any]


class Target(Protocol):
    """The target of requests: a service, or an experiment in this process."""

    def assign(self, context: Context, unit: str) -> Assignment:
        """Return the assignment of a unit."""
        ...

    def record(
        self, assignment: str, reward: float, guardrail: float | None, metrics: Mapping[str, float] | None
    ) -> Recorded:
        """Record the reward of an assignment."""
        ...


@dataclass(frozen=True)
class Behaviour:
    """The behaviour of visitors.

    people: their number.
    rate: their mean number per second; 0 for as fast as they are answered, with delays as if 50 came per second.
    delay: the mean delay of a reward, in seconds.
    lost: the share of rewards that are never reported.
    repeated: the share that are reported twice.
    returning: the share of visitors who return.
    guardrail: the rate of the guardrail outcome; None if it is not reported.
    seed: of all random draws.
    workers: the number of concurrent requests.
    """

    people: int = 1000
    rate: float = 50.0
    delay: float = 1.0
    lost: float = 0.0
    repeated: float = 0.0
    returning: float = 0.0
    guardrail: float | None = None
    seed: int = 0
    workers: int = 8

    def __post_init__(self) -> None:
        settle(self, people=whole_number(self.people, name="--people", least=1, most=MAX_PEOPLE))
        settle(self, seed=whole_number(self.seed, name="--seed", least=0))
        settle(self, workers=whole_number(self.workers, name="--workers", least=1, most=256))
        settle(self, rate=number(self.rate, name="--rate", least=0, most=1e6))
        settle(self, delay=number(self.delay, name="--delay, in seconds,", least=0, most=MAX_SECONDS_BETWEEN))
        for name in ("lost", "repeated", "returning"):
            settle(self, **{name: number(getattr(self, name), name=f"--{name}, a share,", least=0, most=1)})
        if self.guardrail is not None:
            settle(self, guardrail=number(self.guardrail, name="--guardrail, a share,", least=0, most=1))


@dataclass
class Driven:
    """The result of simulated traffic.

    counts: the number of each kind of event.
    errors: the messages of refusals, and their counts.
    assigning, recording: the duration of each call, in seconds.
    seconds: the total duration.
    """

    counts: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    assigning: list[float] = field(default_factory=list[float])
    recording: list[float] = field(default_factory=list[float])
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return {
            "counts": dict(self.counts),
            "errors": dict(self.errors),
            "assign_milliseconds": _quantiles(self.assigning),
            "record_milliseconds": _quantiles(self.recording),
            "seconds": self.seconds,
        }


def _quantiles(seconds: list[float]) -> dict[str, float] | None:
    """Return quantiles of the duration of calls, in milliseconds."""
    if not seconds:
        return None
    found = np.quantile(np.array(seconds), (0.5, 0.95, 0.99, 1.0)) * 1e3
    return {name: float(value) for name, value in zip(("p50", "p95", "p99", "most"), found, strict=True)}


@dataclass(frozen=True, eq=False)
class Visitor:
    """A visitor: unit, context, index in the true problem, and a random generator."""

    unit: str
    context: Context
    place: int
    rng: np.random.Generator


class Driver:
    """Sends simulated visitors to an experiment.

    problem: the true rewards. encoder: of its contexts. actions (A,): their names in the experiment.
    reward_range: the range of rewards in the experiment.
    metrics: the columns of its metrics; their values are drawn evenly from their ranges, whatever the action.
    """

    def __init__(
        self,
        target: Target,
        problem: Problem,
        encoder: Encoder,
        actions: tuple[str, ...],
        *,
        reward_range: tuple[float, float],
        behaviour: Behaviour,
        metrics: Sequence[Metric] = (),
    ) -> None:
        self._target, self._problem, self._behaviour = target, problem, behaviour
        (self._low, self._high), self._metrics = reward_range, metrics
        self._place = {name: number for number, name in enumerate(actions)}
        self._people = encoder.decode(problem.population.features, problem.population.ids if _by_id(encoder) else None)
        self._weights = problem.population.weights
        self._lock = threading.Lock()
        self._pending = Pending[Callable[[], None]]()
        self._room = threading.BoundedSemaphore(2 * behaviour.workers)  # bounds the queue of calls
        self._busy = self._refused = 0
        self._begun = self._simulated = 0.0
        self.done = Driven()

    def run(self, tell: Callable[[str], None], *, between: Callable[[], object] | None = None) -> Driven:
        """Send all visitors, wait for their rewards, and return the result.

        tell: receives progress. between: is called every 50 visitors, by the calling thread.
        """
        b = self._behaviour
        due = np.cumsum(
            np.random.default_rng([b.seed, _ARRIVALS]).exponential(1.0 / (b.rate or UNHURRIED_RATE), b.people)
        )
        self._begun, coming = time.monotonic(), 0

        def next_arrival() -> float | None:
            if coming == b.people:
                return None
            return float(due[coming]) if b.rate else 0.0  # without a rate, as soon as nothing else is due

        with ThreadPoolExecutor(b.workers) as pool:
            for _, event in in_time(self._pending, self, next_arrival):
                if event is not None:
                    self._submit(pool, event)
                elif self._refused >= MAX_REFUSALS:
                    self.done.counts["left out after too many refusals"] = b.people - coming
                    coming = b.people
                else:
                    self._simulated = float(due[coming])
                    self._submit(pool, self._arrival(coming))
                    coming += 1
                    if coming % 50 == 0:
                        tell(f"{coming:,} of {b.people:,} visitors have come")
                        if between is not None:
                            between()
        self.done.seconds = time.monotonic() - self._begun
        return self.done

    def now(self) -> float:
        """Return the seconds since the start, by the wall clock or, without a rate, simulated."""
        return time.monotonic() - self._begun if self._behaviour.rate else self._simulated

    def wait(self, until: float | None) -> bool:
        """Sleep briefly; return False if nothing is pending and no running call could add an event."""
        with self._lock:
            busy = self._busy > 0
        if not busy and self._behaviour.rate == 0:
            self._simulated = math.inf  # the last outcomes are due at once
        elif busy or until is not None:
            nap = math.inf if until is None else max(until - self.now(), SHORTEST_NAP_SECONDS)
            time.sleep(min(nap, LONGEST_NAP_SECONDS / 10 if busy else LONGEST_NAP_SECONDS))
        # A call that ended after `until` was found may have added an outcome.
        return busy or until is not None or self._pending.first_due() is not None

    def _submit(self, pool: ThreadPoolExecutor, event: Callable[[], None]) -> None:
        self._room.acquire()
        with self._lock:
            self._busy += 1

        def call() -> None:
            try:
                event()
            except InputError as error:
                with self._lock:
                    self.done.errors[one_line(str(error))] += 1
                    self.done.counts["refused"] += 1
                    self._refused += 1
            finally:
                with self._lock:
                    self._busy -= 1
                self._room.release()

        if self._behaviour.workers == 1:
            call()  # sequentially, so that a seed gives the same result
        else:
            pool.submit(call)

    def _arrival(self, which: int) -> Callable[[], None]:
        """Return the first visit of a new visitor."""
        rng = np.random.default_rng([self._behaviour.seed, which])
        place = int(rng.choice(len(self._weights), p=self._weights))
        visitor = Visitor(f"visitor-{self._behaviour.seed}-{which}", self._people[place], place, rng)
        return lambda: self._visit(visitor, before=None)

    def _visit(self, visitor: Visitor, *, before: Assignment | None) -> None:
        """Request an assignment, and schedule its reward and a return visit."""
        begun = time.monotonic()
        given = self._target.assign(visitor.context, visitor.unit)
        took = time.monotonic() - begun
        with self._lock:
            self._refused = 0
            self.done.assigning.append(took)
            self.done.counts["assigned" if before is None else "came back"] += 1
            if before is not None and (before.id, before.action) != (given.id, given.action):
                self.done.counts["got another action when they returned"] += 1
        if before is not None and before.id == given.id:
            return
        b, rng = self._behaviour, visitor.rng
        if before is None and rng.random() < b.returning:
            self._pending.add(self.now() + self._delay(rng), lambda: self._visit(visitor, before=given))
        reward = self._reward(visitor, given)
        harm = None if b.guardrail is None else float(rng.random() < b.guardrail)
        lost, twice, wait = rng.random() < b.lost, rng.random() < b.repeated, self._delay(rng)
        if lost:
            with self._lock:
                self.done.counts["rewards lost"] += 1
            return
        metrics = {one.name: float(rng.uniform(one.low, one.high)) for one in self._metrics} or None

        def tell() -> None:
            self._tell(given, reward, harm, metrics)

        self._pending.add(self.now() + wait, tell)
        if twice:
            self._pending.add(self.now() + wait + self._delay(rng), tell)

    def _tell(self, given: Assignment, reward: float, harm: float | None, metrics: Mapping[str, float] | None) -> None:
        begun = time.monotonic()
        found = self._target.record(given.id, reward, harm, metrics)
        took = time.monotonic() - begun
        with self._lock:
            self.done.recording.append(took)
            self.done.counts[f"rewards {found.outcome}"] += 1

    def _reward(self, visitor: Visitor, given: Assignment) -> float:
        """Draw the true reward, in the units of the experiment."""
        someone = self._problem.population.take([visitor.place])
        drawn = float(self._problem.rewards(someone, [self._place[given.action]], visitor.rng)[0])
        return self._low + (self._high - self._low) * min(max(drawn, 0.0), 1.0)

    def _delay(self, rng: np.random.Generator) -> float:
        mean = self._behaviour.delay
        return min(float(rng.exponential(mean)), MAX_DELAYS * mean) if mean and not math.isinf(mean) else 0.0


def _by_id(encoder: Encoder) -> bool:
    return encoder.contexts.ids is not None

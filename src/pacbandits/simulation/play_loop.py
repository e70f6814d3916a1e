"""The play loop that `run`, plans, benchmarks and `experiment drive` share.

A start (a round of an algorithm, a user's visit) has an outcome that becomes known at once or later.
`in_time` yields both in the order of time; `play_rounds` uses it to play an algorithm's rounds.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np

from pacbandits.problems import Problem
from pacbandits.progress import Progress
from pacbandits.records import Log
from pacbandits.trials.protocol import Algorithm, Plan, State

Outcome = TypeVar("Outcome")


class Pending(Generic[Outcome]):
    """A thread-safe queue of outcomes that become known later, ordered by due time, then by insertion."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heap: list[tuple[float, int, Outcome]] = []
        self._added = 0

    def add(self, due: float, outcome: Outcome) -> None:
        """Add an outcome that becomes known at `due`."""
        with self._lock:
            self._added += 1
            heapq.heappush(self._heap, (due, self._added, outcome))

    def pop(self) -> Outcome:
        """Remove and return the outcome that becomes known first."""
        with self._lock:
            return heapq.heappop(self._heap)[2]

    def first_due(self) -> float | None:
        """Return when the next outcome becomes known; None if none is pending."""
        with self._lock:
            return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        """Drop all outcomes."""
        with self._lock:
            self._heap.clear()


class EventClock(Protocol):
    """The clock by which rounds or visits begin: real or simulated."""

    def now(self) -> float:
        """Return the time."""
        ...

    def wait(self, until: float | None) -> bool:
        """Wait, at most until the next known event; return False if there is none and none can follow."""
        ...


def in_time(
    pending: Pending[Outcome], clock: EventClock, next_start: Callable[[], float | None]
) -> Iterator[tuple[float, Outcome | None]]:
    """Yield every pending outcome once it is due, and None when the next round or visit is to begin.

    The caller then begins it, and adds its outcome to `pending`. Outcomes that are due come before a start.

    next_start: returns the time of the next start; None if nothing begins any more.
    """
    while True:
        due, start, now = pending.first_due(), next_start(), clock.now()
        if due is not None and due <= now:
            yield due, pending.pop()
        elif start is not None and start <= now:
            yield start, None
        elif not clock.wait(min((time for time in (due, start) if time is not None), default=None)):
            return


@dataclass
class Periods:
    """A simulated clock that counts periods: it jumps to the next event."""

    time: float = 0

    def now(self) -> float:
        """Return the time."""
        return self.time

    def wait(self, until: float | None) -> bool:
        """Jump to the next event; return False if there is none."""
        self.time = self.time if until is None else until
        return until is not None


Doing = Literal["designing", "playing", "played", "absorbed", "refused", "done"]
Refusal = tuple[Literal["budget", "memory"], str]


@dataclass(frozen=True, eq=False)
class Step:
    """A point between two calls of an algorithm or its problem.

    doing: the next step (designing, playing), the last one (played, absorbed), or how the run ended (refused, done).
    state: the latest state.
    time: in periods of the traffic; 0 without traffic.
    plan: of the round that is played, absorbed or refused.
    log: of the round that was played or absorbed.
    refusal: why the round was refused: the kind of limit, and a message.
    """

    doing: Doing
    state: State
    time: float = 0
    plan: Plan | None = None
    log: Log | None = None
    refusal: Refusal | None = None


def play_rounds(
    problem: Problem,
    algorithm: Algorithm[Any],
    state: State,
    *,
    rng: np.random.Generator,
    refuse: Callable[[State, Plan], Refusal | None] | None = None,
    progress: Progress | None = None,
    period_size: int | None = None,
    delay: int = 0,
) -> Iterator[Step]:
    """Play an algorithm on a problem from this state on, round after round, until its answer is known.

    With a period size, a round lasts for whole periods. With a delay, rounds that begin before the rewards of earlier
    ones are known are designed without them. Propensities and stakes of a round are fixed when it is designed, and its
    rewards are not used before it is absorbed: in the order in which rounds are absorbed its rows are fresh, and a
    certificate is as valid as without a delay.

    rng: the generator of all random draws.
    refuse: returns why a planned round cannot be played, or None. After a refusal pending rewards are absorbed,
        and the loop ends.
    progress: receives the progress of a design.
    period_size: users in one period of the traffic; None for rounds of any size, whose rewards are known at once.
    delay: periods until a reward is known.
    """
    clock, pending = Periods(), Pending[tuple[Plan, Log]]()
    refused: tuple[Plan, Refusal] | None = None

    def next_start() -> float | None:
        return clock.time if refused is None else None

    for time, played in in_time(pending, clock, next_start):
        if played is not None:
            plan, log = played
            if delay:  # it was planned before others were absorbed
                plan = replace(plan, round_number=state.round_number + 1)
            state = algorithm.absorb(state, plan, log)
            yield Step("absorbed", state, time, plan, log)
            if state.finished and delay:  # rewards that are still pending are not needed
                pending.clear()
            continue
        yield Step("designing", state, time)
        plan = algorithm.design(state, progress=progress)
        if plan is None:
            yield Step("done", state, time)
            return
        lasting = 0
        if period_size is not None:
            lasting = -(-plan.samples // period_size)
            if (due := pending.first_due()) is not None:  # no round outlasts the next outcome, which may end the run
                lasting = min(lasting, max(1, int(due - time)))
            plan = replace(plan, samples=lasting * period_size)
        if refuse is not None and (refusal := refuse(state, plan)) is not None:
            refused = plan, refusal
            continue
        yield Step("playing", state, time, plan)
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng, round_number=state.round_number)
        yield Step("played", state, time, plan, log)
        clock.time += lasting
        pending.add(clock.time + delay, (plan, log))
    assert refused is not None
    yield Step("refused", state, clock.time, refused[0], refusal=refused[1])

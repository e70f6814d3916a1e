"""One run: an algorithm plays a problem, is looked at on the way by the truth, and watched by our certificate."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pacbandits.algorithms import make_algorithm, options_of, profile_of
from pacbandits.benchmark.cases import Task
from pacbandits.benchmark.rows import Row
from pacbandits.benchmark.shadow import Shadow
from pacbandits.options import parse_spec
from pacbandits.problems import Problem
from pacbandits.records import Chosen, Sampler
from pacbandits.trials.protocol import Algorithm, Plan, Setting, State
from pacbandits.version import __version__

DECISIONS_TIMED = 20


@dataclass
class Course:
    """What is noted of a run while it is played.

    problem: with the truth.
    best: the value of the best policy.
    certified: whether certificates are made, by a shadow or by the algorithm itself.
    """

    problem: Problem
    best: float
    certified: bool
    points: list[int] = field(default_factory=list[int])
    gaps: list[float] = field(default_factory=list[float])
    leader_gaps: list[float] = field(default_factory=list[float])
    regrets: list[float] = field(default_factory=list[float])
    regret: float = 0.0
    seconds: float = 0.0
    seconds_certifying: float = 0.0

    def gap(self, policy: Chosen) -> float:
        """How far a policy is from the best, by the truth; 0 for one outside the class that is better still."""
        return max(self.best - self.problem.value(policy), 0.0)

    def note_round(self, plan: Plan) -> None:
        """The reward that a round loses, in expectation."""
        played = plan.sampler.propensities(self.problem.population)
        value = float(self.problem.population.weights @ (played * self.problem.mean_rewards).sum(axis=1))
        self.regret += plan.samples * (self.best - value)

    def look(self, state: State, leader: Chosen | None) -> None:
        """The answer after a round."""
        self.points.append(state.samples)
        self.gaps.append(self.gap(state.policy))
        self.regrets.append(self.regret)
        if self.certified:
            self.leader_gaps.append(self.gaps[-1] if leader is None else self.gap(leader))

    @contextmanager
    def choosing(self) -> Generator[None]:
        """The clock of what the algorithm does."""
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began

    @contextmanager
    def certifying(self) -> Generator[None]:
        """The clock of what our certificate does."""
        began = time.perf_counter()
        yield
        self.seconds_certifying += time.perf_counter() - began


def make_player(task: Task, problem: Problem) -> Algorithm[Any]:
    """The algorithm of a task: its grid and budget are the case's, unless its spec has its own."""
    name, given = parse_spec(task.entry.spec, of="algorithm")
    known = {option.name for option in options_of(name)}
    usual = {"budget": task.case.most, "growth": task.case.growth}
    own = profile_of(name).certifies  # rounds are then as long as suits its certificates
    more = {key: value for key, value in usual.items() if key in known and key not in given and not own}
    setting = Setting(problem.policies, task.case.epsilon, task.case.delta, problem.reward_bounds)
    return make_algorithm(task.entry.spec, setting, more)


def play(task: Task) -> Row:
    """The row of a task; the same task gives the same row, but for the clock."""
    case = task.case
    problem = case.load()
    algorithm = make_player(task, problem)
    best = problem.policies.argmax(problem.population, problem.population.weights[:, None] * problem.mean_rewards)
    course = Course(problem, problem.value(best), case.certified or profile_of(task.entry.spec).certifies)
    shadow = None
    if case.certified and not profile_of(task.entry.spec).certifies:
        shadow = Shadow.started(
            problem.policies,
            problem.population,
            epsilon=case.epsilon,
            delta=case.delta,
            rewards=problem.reward_bounds,
        )
    run = Playing(algorithm, course, np.random.default_rng(task.seed), profile_of(task.entry.spec).proves, case.most)
    run.play(algorithm.start(problem.policies, problem.population), shadow)
    return _row(task, run)


Found = tuple[int, float] | tuple[None, None]


@dataclass
class Playing:
    """A run while it is played, and how it ended.

    algorithm: that plays.
    course: what is noted.
    rng: of everything that is drawn.
    proves: whether the algorithm stops by a proof of its own.
    most: interactions that may be played.
    state: the last.
    sampler: what was played last; None if nothing was.
    stopped: why it ended.
    certified: when our certificate accepted, and the gap of what.
    own: when the algorithm's own proof did.
    """

    algorithm: Algorithm[Any]
    course: Course
    rng: np.random.Generator
    proves: bool
    most: int
    state: State | None = None
    sampler: Sampler | None = None
    stopped: str = ""
    certified: Found = (None, None)
    own: Found = (None, None)

    def play(self, state: State, shadow: Shadow | None) -> None:
        """Rounds until everything is proven that can be, or no more may be played."""
        course = self.course
        while not self.stopped:
            self.state = state
            with course.choosing():
                plan = self.algorithm.design(state)
            if plan is None or state.samples + plan.samples > self.most:
                self.stopped = "done" if plan is None else "most" if state.samples else "refused"
                return
            self.sampler = plan.sampler
            if shadow is not None:
                with course.certifying():
                    shadow = shadow.before(plan.sampler)
            course.note_round(plan)
            log = course.problem.interact(plan.sampler, samples=plan.samples, rng=self.rng)
            with course.choosing():
                state = self.algorithm.absorb(state, plan, log)
            if shadow is not None:
                with course.certifying():
                    shadow = shadow.after(plan.sampler, log)
            self._judge(state, shadow)
        self.state = state

    def _judge(self, state: State, shadow: Shadow | None) -> None:
        """Look at the answer after a round, and at what is proven of it."""
        watched = state if shadow is None else shadow.state
        self.course.look(state, getattr(watched, "leader", None))
        if self.proves and state.finished:
            self.own = (state.samples, self.course.gap(state.policy))
        if watched.certificate is not None and watched.finished and self.certified[0] is None:
            self.certified = (state.samples, self.course.gap(watched.policy))
        if self.certified[0] is not None and (self.own[0] is not None or not self.proves):
            self.stopped = "certified"


def _decision_microseconds(problem: Problem, sampler: Sampler | None) -> float:
    """The median time to say with what probability to play each action, for one context."""
    if sampler is None:
        return float("nan")
    taken: list[float] = []
    for i in range(DECISIONS_TIMED):
        one = problem.population.take(np.array([i % len(problem.population)]))
        began = time.perf_counter()
        sampler.propensities(one)
        taken.append(time.perf_counter() - began)
    return float(np.median(taken) * 1e6)


def _row(task: Task, run: Playing) -> Row:
    case, entry, course = task.case, task.entry, run.course
    assert run.state is not None
    return Row(
        suite=task.suite,
        case=case.name,
        problem=case.problem,
        policies=case.policies,
        epsilon=case.epsilon,
        delta=case.delta,
        most=case.most,
        growth=case.growth,
        certified=case.certified,
        entry=entry.name,
        algorithm=entry.spec,
        role=entry.role,
        seed=task.seed,
        version=__version__,
        samples=run.state.samples,
        rounds=run.state.round_number,
        oracle_calls=run.state.oracle_calls,
        points=tuple(course.points),
        gaps=tuple(course.gaps),
        leader_gaps=tuple(course.leader_gaps),
        regrets=tuple(course.regrets),
        certified_at=run.certified[0],
        certified_gap=run.certified[1],
        own_at=run.own[0],
        own_gap=run.own[1],
        stopped=run.stopped,
        seconds=course.seconds,
        seconds_certifying=course.seconds_certifying,
        decision_microseconds=_decision_microseconds(course.problem, run.sampler),
    )

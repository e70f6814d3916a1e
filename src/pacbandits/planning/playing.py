"""One trial of a plan, played to its end on a truth that may be: as it would be run, in batches and with late rewards.

Without traffic, or where designs may change at any time, rounds are those of the algorithm. Else a round lasts for
whole periods, and while its rewards are awaited the next ones are played by what is known so far. Probabilities and
stakes of a round are fixed when it is planned; nothing uses its rewards before it is absorbed, so that in the order in
which rounds are absorbed its rows are fresh, and the certificate is as valid as without a delay.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.errors import InputError, plain
from pacbandits.fields import Fields
from pacbandits.planning.traffic import Traffic
from pacbandits.problems import Problem
from pacbandits.records import Log
from pacbandits.trials.protocol import Algorithm, Plan, Setting, State

RIVALS = ("coda", "uniform")  # what a plan compares


@dataclass(frozen=True)
class Played:
    """What came of one trial, in units of rewards in [0, 1].

    scenario: which of the plan's, from 0.
    number: which draw of it, from 0.
    algorithm: its name.
    samples: people until it was done, or as many as it was allowed.
    done: whether it was.
    periods: of the traffic, until it was done; None without traffic.
    correct: whether the answer is within ε by the truth.
    lost: what people earned less than under the best policy while it went on, together.
    over_constant, over_control: what the answer earns more than the best single action, and than the control.
    best_over_constant: the same of the best policy of the class.
    curve: people and certified ε, after each round.
    seconds: of the clock on the wall.
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
        """As what JSON knows."""
        return asdict(self) | {"curve": [list(point) for point in self.curve]}

    @classmethod
    def from_json(cls, value: object) -> Played:
        """What `to_json` wrote."""
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
class Question:
    """What a trial is asked, in units of rewards in [0, 1].

    epsilon, delta: how near to the best, and with what probability of being wrong.
    traffic: who comes when; None where that is of no account.
    control: the action that others are compared with.
    max_samples: after which a trial is given up, but not before its first round.
    """

    epsilon: float
    delta: float
    traffic: Traffic | None
    control: int
    max_samples: int


def play(problem: Problem, algorithm: str, asked: Question, *, scenario: int, number: int, seed: int) -> Played:
    """A trial from its first round to its last."""
    if algorithm not in RIVALS:
        raise InputError(f"a plan plays {' and '.join(RIVALS)}, not '{plain(algorithm)}'")
    began, rng = time.perf_counter(), np.random.default_rng([seed, scenario, number, 1 + RIVALS.index(algorithm)])
    made = make_algorithm(algorithm, Setting(problem.policies, asked.epsilon, asked.delta, problem.reward_bounds), {})
    state = made.start(problem.policies, problem.population)
    batched = asked.traffic is not None and asked.traffic.batched
    course = _in_batches(problem, made, state, asked, rng) if batched else _freely(problem, made, state, asked, rng)
    answer = made.result(course.state).policy
    best, value = problem.value(problem.best_policy()), problem.value(answer)
    constants = problem.population.weights @ problem.mean_rewards
    periods = course.periods
    if periods is None and asked.traffic is not None:
        periods = asked.traffic.periods(course.samples)
    return Played(
        scenario=scenario,
        number=number,
        algorithm=algorithm,
        samples=course.samples,
        done=course.state.finished,
        periods=periods,
        correct=best - value <= asked.epsilon * (1 + 1e-12),
        lost=course.lost,
        over_constant=value - float(constants.max()),
        over_control=value - float(constants[asked.control]),
        best_over_constant=best - float(constants.max()),
        curve=tuple(course.curve),
        seconds=time.perf_counter() - began,
    )


@dataclass(eq=False)
class _Course:
    """How a trial went.

    state: its last.
    samples: people who took part.
    lost: what they earned less than under the best policy, together.
    curve: people and certified ε, after each round.
    periods: until it was done, of a trial in batches.
    """

    state: State
    samples: int
    lost: float
    curve: list[tuple[int, float]]
    periods: float | None = None


def _freely(problem: Problem, made: Algorithm[Any], state: State, asked: Question, rng: np.random.Generator) -> _Course:
    """Rounds as the algorithm wants them, rewards at once."""
    course = _Course(state, 0, 0.0, [])
    while (plan := made.design(course.state)) is not None:
        if course.samples and course.samples + plan.samples > asked.max_samples:
            break
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng, round_number=course.state.round_number)
        course.state = made.absorb(course.state, plan, log)
        course.samples += plan.samples
        course.lost += _lost(problem, log)
        course.curve.append((course.samples, _certified(course.state)))
    return course


def _in_batches(
    problem: Problem, made: Algorithm[Any], state: State, asked: Question, rng: np.random.Generator
) -> _Course:
    """Rounds of whole periods; what is known when one begins are those that ended a delay ago."""
    traffic = asked.traffic
    assert traffic is not None
    course = _Course(state, 0, 0.0, [])
    awaited: deque[tuple[int, Plan, Log]] = deque()
    now = 0  # in periods
    while True:
        while awaited and awaited[0][0] + traffic.delay <= now:
            end, plan, log = awaited.popleft()
            course.state = _absorb(made, course.state, plan, log)
            course.curve.append((course.samples, _certified(course.state)))
            if course.state.finished:
                course.periods = float(end + traffic.delay)
                return course
        plan = made.design(course.state)
        if plan is None:
            return course
        lasting = -(-plan.samples // traffic.people)
        # No round outlasts the next answer, which may end the trial.
        if awaited:
            lasting = min(lasting, max(1, awaited[0][0] + traffic.delay - now))
        samples = lasting * traffic.people
        if course.samples and course.samples + samples > asked.max_samples:
            return _last_words(made, course, awaited, traffic)
        log = problem.interact(plan.sampler, samples=samples, rng=rng, round_number=course.state.round_number)
        course.samples += samples
        course.lost += _lost(problem, log)
        now += lasting
        awaited.append((now, replace(plan, samples=samples), log))


def _last_words(
    made: Algorithm[Any], course: _Course, awaited: deque[tuple[int, Plan, Log]], traffic: Traffic
) -> _Course:
    """What comes of a trial that takes no more people, once the last rewards are known."""
    while awaited and not course.state.finished:
        end, plan, log = awaited.popleft()
        course.state = _absorb(made, course.state, plan, log)
        course.curve.append((course.samples, _certified(course.state)))
        course.periods = float(end + traffic.delay)
    return course


def _absorb(made: Algorithm[Any], state: State, plan: Plan, log: Log) -> State:
    """The state after a round that was planned before others were absorbed."""
    return made.absorb(state, replace(plan, round_number=state.round_number + 1), log)


def _lost(problem: Problem, log: Log) -> float:
    """What the people of a log earn less, on average and together, than under the best policy."""
    ids = log.contexts.require_ids(below=len(problem.population))
    best = problem.best_policy()(problem.population)
    means = problem.mean_rewards
    return float(log.repeats @ (means[ids, best[ids]] - means[ids, log.actions]))


def _certified(state: State) -> float:
    """The smallest ε that is certified; 1 where none is."""
    if state.certificate is None:
        raise InputError("a plan needs an algorithm that certifies: coda or uniform")
    return min(float(state.certificate.certified_epsilon), 1.0)

"""One simulated trial of a plan, on the truth of a scenario, with the traffic and the late rewards of the plan.

Without traffic, or where designs may change at any time, rounds are those of the algorithm. Otherwise a round lasts for
whole periods, and rounds that begin while rewards are pending are designed without them.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.errors import InputError, plain
from pacbandits.fields import Fields
from pacbandits.planning.traffic import Traffic
from pacbandits.problems import Problem
from pacbandits.records import Log
from pacbandits.simulation.play_loop import Refusal, play_rounds
from pacbandits.trials.protocol import Plan, Setting, State

RIVALS = ("coda", "uniform")  # what a plan compares


@dataclass(frozen=True)
class PlayedTrial:
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


def play(
    problem: Problem, algorithm: str, asked: TrialQuestion, *, scenario: int, number: int, seed: int
) -> PlayedTrial:
    """A trial from its first round to its last."""
    if algorithm not in RIVALS:
        raise InputError(f"a plan plays {' and '.join(RIVALS)}, not '{plain(algorithm)}'")
    began, rng = time.perf_counter(), np.random.default_rng([seed, scenario, number, 1 + RIVALS.index(algorithm)])
    made = make_algorithm(algorithm, Setting(problem.policies, asked.epsilon, asked.delta, problem.reward_bounds), {})
    state, samples, lost, given_up = made.start(problem.policies, problem.population), 0, 0.0, False
    curve: list[tuple[int, float]] = []
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

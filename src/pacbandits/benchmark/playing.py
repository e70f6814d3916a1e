"""Play one run of a benchmark; judge it by the truth after every round, and certify its log."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pacbandits.algorithms import make_algorithm, options_of, profile_of
from pacbandits.benchmark.cases import Task
from pacbandits.benchmark.rows import Row
from pacbandits.benchmark.shadow import Shadow
from pacbandits.options import parse_spec
from pacbandits.problems import Problem
from pacbandits.records import Chosen, Log, Sampler
from pacbandits.simulation.play_loop import Refusal, Step, play_rounds
from pacbandits.trials.protocol import Algorithm, Plan, Setting, State
from pacbandits.version import __version__

DECISIONS_TIMED = 20

Found = tuple[int, float] | tuple[None, None]  # after how many interactions, and the gap of the answer


@dataclass
class Course:
    """What is noted of a run while it is played.

    problem: with the truth.
    best: the value of the best policy.
    certified: whether certificates are made, by a shadow or by the algorithm itself.
    points, gaps, leader_gaps, regrets: after each round, the interactions so far, the gaps of the answer and of the
        leader, and the reward lost so far.
    seconds, seconds_certifying: of the algorithm, and of our certificate.
    certified_at, own_at: when our certificate accepted, and when the algorithm's own proof did.
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
    certified_at: Found = (None, None)
    own_at: Found = (None, None)

    def gap(self, policy: Chosen) -> float:
        """How far a policy is from the best, by the truth; 0 for one outside the class that is better still."""
        return max(self.best - self.problem.value(policy), 0.0)

    def note_round(self, plan: Plan) -> None:
        """The reward that a round loses, in expectation."""
        played = plan.sampler.propensities(self.problem.population)
        value = float(self.problem.population.weights @ (played * self.problem.mean_rewards).sum(axis=1))
        self.regret += plan.samples * (self.best - value)

    def judge(self, state: State, watched: State, *, proves: bool) -> bool:
        """Note the answer after a round and what is proven of it; return whether everything is proven that can be.

        watched: the state with our certificate. proves: whether the algorithm stops by a proof of its own.
        """
        self.points.append(state.samples)
        self.gaps.append(self.gap(state.policy))
        self.regrets.append(self.regret)
        if self.certified:
            leader: Chosen | None = getattr(watched, "leader", None)
            self.leader_gaps.append(self.gaps[-1] if leader is None else self.gap(leader))
        if proves and state.finished:
            self.own_at = (state.samples, self.gap(state.policy))
        if watched.certificate is not None and watched.finished and self.certified_at[0] is None:
            self.certified_at = (state.samples, self.gap(watched.policy))
        return self.certified_at[0] is not None and (self.own_at[0] is not None or not proves)


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
    """The row of a task; the same task gives the same row, but for the clock.

    Rounds are played until everything is proven that can be, or no more may be played.
    """
    case, profile = task.case, profile_of(task.entry.spec)
    problem = case.load()
    algorithm = make_player(task, problem)
    population, bounds = problem.population, problem.reward_bounds
    course = Course(problem, problem.value(problem.best_policy()), case.certified or profile.certifies)
    shadow = None
    if case.certified and not profile.certifies:
        shadow = Shadow.started(problem.policies, population, epsilon=case.epsilon, delta=case.delta, rewards=bounds)

    def refuse(state: State, plan: Plan) -> Refusal | None:
        return ("budget", "") if state.samples + plan.samples > case.most else None

    state, sampler = algorithm.start(problem.policies, population), None
    stopped = "done"
    rounds = play_rounds(problem, algorithm, state, rng=np.random.default_rng(task.seed), refuse=refuse)
    began = time.perf_counter()
    for step in rounds:
        passed = time.perf_counter() - began
        state = step.state
        match step:
            case Step(doing="playing", plan=Plan() as plan):
                course.seconds += passed  # of the design
                sampler = plan.sampler
                if shadow is not None:
                    began = time.perf_counter()
                    shadow = shadow.before(plan.sampler)
                    course.seconds_certifying += time.perf_counter() - began
                course.note_round(plan)
            case Step(doing="absorbed", plan=Plan() as plan, log=Log() as log):
                course.seconds += passed
                if shadow is not None:
                    began = time.perf_counter()
                    shadow = shadow.after(plan.sampler, log)
                    course.seconds_certifying += time.perf_counter() - began
                if course.judge(state, state if shadow is None else shadow.state, proves=profile.proves):
                    stopped = "certified"
                    break
            case Step(doing="refused" | "done"):
                course.seconds += passed
                stopped = "done" if step.doing == "done" else "most" if state.samples else "refused"
            case _:
                pass
        began = time.perf_counter()
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
        entry=task.entry.name,
        algorithm=task.entry.spec,
        role=task.entry.role,
        seed=task.seed,
        version=__version__,
        samples=state.samples,
        rounds=state.round_number,
        oracle_calls=state.oracle_calls,
        points=tuple(course.points),
        gaps=tuple(course.gaps),
        leader_gaps=tuple(course.leader_gaps),
        regrets=tuple(course.regrets),
        certified_at=course.certified_at[0],
        certified_gap=course.certified_at[1],
        own_at=course.own_at[0],
        own_gap=course.own_at[1],
        stopped=stopped,
        seconds=course.seconds,
        seconds_certifying=course.seconds_certifying,
        decision_microseconds=_decision_microseconds(problem, sampler),
    )


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

"""Play one run of a benchmark, judge it by the truth after every round, and certify its log."""

from __future__ import annotations

import sys
import time
import traceback
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pacbandits.algorithms import make_algorithm, options_of, profile_of
from pacbandits.arrays import FloatArray
from pacbandits.benchmark.cases import Case, Row, Task
from pacbandits.benchmark.results import CaseFacts, Failure, Misfit, find_facts
from pacbandits.compiled import using_cores
from pacbandits.errors import InputError, one_line
from pacbandits.options import parse_spec
from pacbandits.policies.base import PolicyClass
from pacbandits.problems import Problem
from pacbandits.progress import Progress
from pacbandits.records import Chosen, Contexts, Log, RewardBounds, Sampler
from pacbandits.simulation.play_loop import Refusal, Step, play_rounds
from pacbandits.trials.coda import REDESIGN_GROWTH_FACTOR, design_task, explore_with
from pacbandits.trials.protocol import Algorithm, Plan, Setting, State
from pacbandits.trials.trial import Exploration, Trial, TrialPlan, TrialState, merge
from pacbandits.version import __version__

# The certificate of a trial that another algorithm plays: what its log would prove, analysed during the run.
#
# A trial of ours follows the rival. It bets on the rival's rows, whose propensities are known before they are played,
# at suitable stakes, with a reward model of the earlier rows: all that `coda` and `uniform` do for themselves. So the
# rival differs by its exploration alone. As with them, an analysis comes after a third of the samples that seem to be
# missing, between 1/25 and 3/10 of those so far, at the next end of a round of the rival: it is up to a round late,
# which is 5 % of the samples by default, half of that on average, and more for rivals with longer rounds. A rival with
# uniform exploration is certified when `uniform` is, up to that and chance.


# Share of uniform exploration added to a rival's propensities when stakes are computed: no stake would suit a policy on
# actions that are never played, about which nothing can be proven.
PRICED_FLOOR_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class _Floored:
    """A sampler mixed with a little uniform exploration, for which stakes are computed.

    sampler: the one that is played.
    """

    sampler: Sampler

    @property
    def n_actions(self) -> int:
        return self.sampler.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """p(a|c) as (n, A)."""
        played = self.sampler.propensities(contexts)
        return (1.0 - PRICED_FLOOR_SHARE) * played + PRICED_FLOOR_SHARE / self.n_actions


@dataclass(frozen=True)
class Watched(Trial):
    """A trial whose rounds another algorithm plays.

    sampler: of the next round.
    """

    name = "watched"

    sampler: Sampler | None = field(default=None, kw_only=True)

    def explore(self, state: TrialState, *, progress: Progress | None = None) -> Exploration:
        """Return the rival's exploration; its price is computed anew once the data have grown by half."""
        assert self.sampler is not None
        current = state.current
        if current is not None and current.since > 0 and state.samples < REDESIGN_GROWTH_FACTOR * current.since:
            return replace(current, sampler=self.sampler)
        task = design_task(state, state.fitted, epsilon=self.accuracy(state), floor=0.0)
        return replace(explore_with(state, task, _Floored(self.sampler)), sampler=self.sampler)


@dataclass(frozen=True, eq=False)
class Shadow:
    """The certificate so far of rounds that another algorithm plays.

    trial: the trial that follows them.
    state: after the last analysis.
    plan: of the rounds since then: their stake, fixed before the first of them, and the number of rows to wait for.
    waiting: the rounds since then.
    """

    trial: Watched
    state: TrialState
    plan: TrialPlan | None = None
    waiting: tuple[tuple[Sampler, Log], ...] = ()

    @classmethod
    def started(
        cls, policies: PolicyClass, contexts: Contexts, *, epsilon: float, delta: float, rewards: RewardBounds
    ) -> Shadow:
        """Return the state before the first round."""
        trial = Watched(epsilon, delta, rewards=rewards)
        return cls(trial, trial.start(policies, contexts))

    def before(self, sampler: Sampler) -> Shadow:
        """Fix the stake of the rows that a sampler is about to draw, unless it was fixed for rows still waiting."""
        if self.state.finished or self.plan is not None:
            return self
        return replace(self, plan=replace(self.trial, sampler=sampler).design(self.state))

    def after(self, sampler: Sampler, log: Log) -> Shadow:
        """Add the rows that were drawn; certify all rows once there are as many as the plan waits for."""
        if self.state.finished:
            return self
        assert self.plan is not None
        waiting = (*self.waiting, (sampler, log))
        if sum(one.samples for _, one in waiting) < self.plan.samples:
            return replace(self, waiting=waiting)
        log, played = waiting[0][1], self.state.played
        for _, later in waiting[1:]:
            log = log.followed_by(later)
        for sampler, one in waiting:
            played = merge(played, sampler, one.samples)
        grown, latest, leader, calls = self.trial.learn(self.state, self.plan, log, played=played)
        state = grown.after(
            self.plan,
            log,
            policy=latest.policy,
            finished=latest.certified,
            oracle_calls=calls,
            leader=leader,
            missing=max(latest.threshold - latest.value, 0.0),
            certificate=latest,
        )
        return replace(self, state=state, plan=None, waiting=())


# Play one run of a benchmark; judge it by the truth after every round, and certify its log.


DECISIONS_TIMED = 20

Found = tuple[int, float] | tuple[None, None]  # the number of interactions, and the gap of the answer


@dataclass
class Course:
    """The records of a run while it is played.

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
        """Return how far a policy's value is below the best, by the truth; 0 for a better one outside the class."""
        return max(self.best - self.problem.value(policy), 0.0)

    def note_round(self, plan: Plan) -> None:
        """Add the expected regret of a round."""
        played = plan.sampler.propensities(self.problem.population)
        value = float(self.problem.population.weights @ (played * self.problem.mean_rewards).sum(axis=1))
        self.regret += plan.samples * (self.best - value)

    def judge(self, state: State, watched: State, *, proves: bool) -> bool:
        """Record the answer after a round and what is proven; return whether everything that can be is proven.

        watched: the state with our certificate. proves: whether the algorithm stops by its own proof.
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
    """Return the algorithm of a task; grid and budget are the case's, unless its spec sets them."""
    name, given = parse_spec(task.entry.spec, of="algorithm")
    known = {option.name for option in options_of(name)}
    usual = {"budget": task.case.most, "growth": task.case.growth}
    own = profile_of(name).certifies  # its rounds then suit its certificates
    more = {key: value for key, value in usual.items() if key in known and key not in given and not own}
    setting = Setting(problem.policies, task.case.epsilon, task.case.delta, problem.reward_bounds)
    return make_algorithm(task.entry.spec, setting, more)


def play(task: Task) -> Row:
    """Play a task and return its row; it is reproducible except for wall times.

    Rounds are played until everything that can be is proven, or the budget is used up.
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
    """Return the median time to compute the propensities of one context."""
    if sampler is None:
        return float("nan")
    taken: list[float] = []
    for i in range(DECISIONS_TIMED):
        one = problem.population.take(np.array([i % len(problem.population)]))
        began = time.perf_counter()
        sampler.propensities(one)
        taken.append(time.perf_counter() - began)
    return float(np.median(taken) * 1e6)


# Jobs of the worker processes of a benchmark: play a run, or measure a case.


Job = Task | Case


@dataclass(frozen=True)
class Done:
    """The result of a job.

    result: a row, the measurements of a case, or why there is none.
    memory_bytes: the peak memory of its process; None if the system does not report it.
    """

    result: Row | CaseFacts | Misfit | Failure
    memory_bytes: int | None = None


def do(_: None, job: Job) -> Done:
    """Do a job in a worker process; errors become a `Failure`, so that other jobs go on."""
    try:
        with using_cores(1):
            result = find_facts(job) if isinstance(job, Case) else _played(job)
    except Exception as error:
        result = failure_of(job, traceback.format_exception_only(error)[-1])
    return Done(result, _peak_memory_bytes())


def _played(task: Task) -> Row | Misfit:
    """Return the row of a task, or a `Misfit` if the algorithm refuses the case."""
    try:
        return play(task)
    except InputError as error:
        if _is_refused(task):
            return Misfit(task.suite, task.case.name, task.entry.spec, str(error))
        raise


def _is_refused(task: Task) -> bool:
    """Whether an algorithm refuses to start; later errors are not refusals."""
    problem = task.case.load()
    try:
        make_player(task, problem).start(problem.policies, problem.population)
    except InputError:
        return True
    return False


def failure_of(job: Job, words: str) -> Failure:
    """Return the `Failure` of a job that ended in an error."""
    if isinstance(job, Case):
        return Failure("", job.name, "", 0, one_line(words))
    return Failure(*job.key, one_line(words))


def _peak_memory_bytes() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak

"""Every algorithm of the registry on the small problems that it runs on, found by asking it; and rounds by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from pacbandits.algorithms import ALGORITHMS, make_algorithm, options_of
from pacbandits.errors import InputError
from pacbandits.problems import Problem, load_policies_for, load_problem
from pacbandits.records import Log
from pacbandits.trials.protocol import Plan, Setting

TREES = "trees:contexts=60,features=3,bins=4,actions=3,competitive=2,depth=1"
EVERY_MAP = "linear:dimension=2,actions=3,contexts=12,policies=9,seed=2 with trivial"
# Problems with listed classes, classes that only their oracles know, linear rewards and rewards beyond [0, 1]; and an ε
# at which an algorithm needs more than a round or two.
PROBLEMS = {
    "hard:m=6,noise=bernoulli": 0.1,
    "random:policies=12,contexts=5,actions=3,skew=1,seed=3": 0.1,
    "two-of-many:actions=4,policies=12,contexts=8": 0.1,
    "trivial:contexts=3,actions=3,gap=0.3": 0.08,
    TREES: 0.15,
    "linear:dimension=3,actions=4,contexts=20,policies=15,seed=1": 0.05,
    "linear:dimension=3,actions=2,contexts=8,policies=8,seed=4,noise=gaussian,variance=0.5": 0.3,
    EVERY_MAP: 0.1,
}
DELTA = 0.1
BUDGET = 500  # of an algorithm that never stops by itself


@cache
def problem_of(spec: str) -> Problem:
    """The problem of a spec, `… with …` another policy class than its own."""
    name, _, policies = spec.partition(" with ")
    problem = load_problem(name)
    return replace(problem, policies=load_policies_for(policies, problem)) if policies else problem


def make(
    name: str,
    problem: Problem,
    *,
    epsilon: float = 0.3,
    delta: float = DELTA,
    sampled_contexts: int | None = None,
    **options: Any,
) -> Any:
    """The algorithm of that name for a problem."""
    setting = Setting(problem.policies, epsilon, delta, problem.reward_bounds, sampled_contexts)
    return make_algorithm(name, setting, options)


def refusal(name: str, problem: Problem) -> str:
    """Why an algorithm does not run on a problem; nothing if it does."""
    try:
        make(name, problem).start(problem.policies, problem.population)
    except InputError as error:
        return str(error)
    return ""


def _lacking() -> dict[str, str]:
    """What each algorithm says that needs a package which is not installed."""
    said = {name: refusal(name, problem_of(next(iter(PROBLEMS)))) for name in ALGORITHMS}
    return {name: words for name, words in said.items() if "pip install" in words}


LACKING = _lacking()
NAMES = tuple(name for name in ALGORITHMS if name not in LACKING)


def _pairs() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Algorithms and problems that fit, and those that do not."""
    every = [(name, spec) for name in NAMES for spec in PROBLEMS]
    misfits = [(name, spec) for name, spec in every if refusal(name, problem_of(spec))]
    return [pair for pair in every if pair not in misfits], misfits


CASES, MISFITS = _pairs()


def _played() -> list[Any]:
    """The cases for tests that play: of each algorithm one problem, in turn, in `make test`, all in `make test-all`.

    Of a baseline there are two problems in turn, and the others are among slow tests.
    """
    out: list[Any] = []
    for turn, name in enumerate(dict.fromkeys(name for name, _ in CASES)):
        fitting = [spec for other, spec in CASES if other == name]
        baseline = ALGORITHMS[name].__module__.startswith("pacbandits.rivals.")
        often = {fitting[turn % len(fitting)], fitting[(turn + 3) % len(fitting)]} if baseline else set(fitting)
        once = fitting[turn % len(fitting)]
        marks = {spec: [] if spec == once else [pytest.mark.thorough] for spec in often}
        marks |= {spec: [pytest.mark.slow] for spec in fitting if spec not in often}
        out += [pytest.param(name, spec, marks=marks[spec], id=f"{name}-{spec}") for spec in fitting]
    return out


PLAYED = _played()


def few_samples(name: str) -> dict[str, Any]:
    """Options that make the first round of an algorithm short, where its proof asks for very many samples."""
    short = {"scale": 0.002, "budget": 300}
    return {option.name: short[option.name] for option in options_of(name) if option.name in short}


@dataclass(frozen=True, eq=False)
class Played:
    """A run step by step: the states from the first on, and the plans and logs between them."""

    algorithm: Any
    problem: Problem
    states: list[Any]
    plans: list[Plan]
    logs: list[Log]

    @property
    def last(self) -> Any:
        return self.states[-1]


def play(algorithm: Any, problem: Problem, *, seed: int = 0, most: int = 200) -> Played:
    """Rounds until the algorithm has its answer."""
    rng = np.random.default_rng(seed)
    done = Played(algorithm, problem, [algorithm.start(problem.policies, problem.population)], [], [])
    while (plan := algorithm.design(done.last)) is not None:
        assert len(done.plans) < most
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        done.states.append(algorithm.absorb(done.last, plan, log))
        done.plans.append(plan)
        done.logs.append(log)
    return done


@cache
def played(name: str, spec: str) -> Played:
    """A run that tests share; as steps are pure, none of them can spoil it for another."""
    problem = problem_of(spec)
    budget = {"budget": BUDGET} if any(option.name == "budget" for option in options_of(name)) else {}
    return play(make(name, problem, epsilon=PROBLEMS[spec], **budget), problem)


def first_round(name: str, spec: str, **options: Any) -> tuple[Any, Problem, Any, Plan, Log]:
    """An algorithm, a problem, the state before the first round, its plan and a log of it."""
    problem = problem_of(spec)
    algorithm = make(name, problem, epsilon=PROBLEMS[spec], **options)
    state = algorithm.start(problem.policies, problem.population)
    plan = algorithm.design(state)
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(6))
    return algorithm, problem, state, plan, log


def image(value: Any) -> Any:
    """A record as plain values, so that two of them can be compared to the last bit."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {field.name: image(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: image(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [image(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str | bytes | np.generic):
        return value
    return type(value).__name__

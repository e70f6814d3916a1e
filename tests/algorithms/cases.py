"""Small problems for every algorithm, and rounds played by hand."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.problems import load_problem
from pacbandits.records import Contexts
from pacbandits.trials.protocol import Setting

NAMES = ("rage", "rage-free", "coda-paper")
LISTED = (
    "hard:m=6,noise=bernoulli",
    "random:policies=12,contexts=5,actions=3,skew=1,seed=3",
    "two-of-many:actions=4,policies=12,contexts=8",
    "trivial:contexts=3,actions=3,gap=0.3",
)
TREES = "trees:contexts=60,features=3,bins=4,actions=3,competitive=2,depth=1"
CASES = [(name, spec) for name in NAMES for spec in LISTED] + [("coda-paper", TREES)]


def make(
    name: str,
    problem: Any,
    *,
    epsilon: float = 0.3,
    delta: float = 0.1,
    sampled_contexts: int | None = None,
    **options: Any,
) -> Any:
    setting = Setting(problem.policies, epsilon, delta, problem.reward_bounds, sampled_contexts)
    return make_algorithm(name, setting, options)


def play(algorithm: Any, problem: Any, *, seed: int = 0, rounds: int | None = None) -> list[Any]:
    """The states of a run, from the first on."""
    rng = np.random.default_rng(seed)
    states = [algorithm.start(problem.policies, problem.population)]
    while rounds is None or len(states) <= rounds:
        plan = algorithm.design(states[-1])
        if plan is None:
            break
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        states.append(algorithm.absorb(states[-1], plan, log))
    return states


def image(record: Any) -> dict[str, Any]:
    """A frozen record as plain values, so that two of them can be compared."""
    out: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, np.ndarray):
            out[field.name] = value.tolist()
        elif isinstance(value, Contexts):
            out[field.name] = (value.features.tolist(), value.weights.tolist())
        elif hasattr(value, "to_json"):
            out[field.name] = value.to_json()
        elif field.name not in ("policies", "listing", "sampler"):
            out[field.name] = value
    return out


__all__ = ["CASES", "LISTED", "NAMES", "TREES", "image", "load_problem", "make", "play"]

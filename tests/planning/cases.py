"""Small plans that take little time: few people, shallow trees, a large ε."""

from __future__ import annotations

from functools import cache

import numpy as np

import pacbandits as pb
from pacbandits.planning import Limits, PlayedTrial
from pacbandits.planning.sample_sizes import SampleSizeEstimate
from pacbandits.planning.simulated_trials import TrialQuestion
from pacbandits.planning.study_plan import PlanRequest, StudyPlan, suppose
from pacbandits.policies.trees import Trees
from pacbandits.problems.scenarios import Scenario

ONE_AFTER_ANOTHER = Limits(trials=1, processes=1)
TWO_SCENARIOS = (Scenario("none"), Scenario("winner", effect=0.4))


@cache
def people(n=80, seed=0):
    """Contexts of two numbers."""
    return pb.Contexts.of(np.random.default_rng(seed).random((n, 2)), names=["age", "visits"])


def supposed(contexts=None, **options):
    """What a small plan supposes."""
    usual = {"n_actions": 2, "policies": "trees:depth=0", "epsilon": 0.25, "baseline": 0.3, "scenarios": TWO_SCENARIOS}
    return suppose(people() if contexts is None else contexts, PlanRequest(**{**usual, **options}))


def question(assumed, *, most=20_000):
    """What trials of a plan are asked."""
    return TrialQuestion(assumed.unit_epsilon, assumed.delta, assumed.traffic, assumed.control, most)


def played(scenario=0, number=0, algorithm="coda", samples=100, **options):
    """What came of a trial, by hand."""
    usual = {
        "done": True,
        "periods": None,
        "correct": True,
        "lost": 1.0,
        "over_constant": 0.0,
        "over_control": 0.1,
        "best_over_constant": 0.0,
        "curve": ((samples // 2, 0.5), (samples, 0.2)),
        "seconds": 0.1,
    }
    return PlayedTrial(scenario, number, algorithm, samples, **{**usual, **options})


def estimated(scenario=0, *, coda=100.0, uniform=200.0, log=300.0, gain=0.5, bound=None):
    """What is foretold of a scenario, by hand."""
    return SampleSizeEstimate(scenario, {"coda": coda, "uniform": uniform, "certify": log}, 0.28, gain, 0.1, 2.0, bound)


def by_hand(estimates, trials=(), **options):
    """A plan of which nothing is computed."""
    assumed = supposed(**options)
    return StudyPlan(assumed, tuple(estimates), tuple(trials), 10_000)


def trees(depth=1, n_actions=2):
    """Trees for the usual people."""
    return Trees.learn(people(), n_actions=n_actions, depth=depth)

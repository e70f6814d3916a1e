"""Runs that are started from a plan, and compared with it afterwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pacbandits.errors import InputError, nearest, plain
from pacbandits.planning import StudyPlan, load_plan
from pacbandits.problems import Problem, load_problem
from pacbandits.report.planned import happened_rows
from pacbandits.simulation import Run


def started_from(source: str, scenario: str | None, *, seed: int) -> tuple[StudyPlan | None, Problem]:
    """The plan, if a run is started from one, and the problem: of a plan one that its scenarios make likely."""
    if not source.endswith(".json"):
        if scenario is not None:
            raise InputError(f"--scenario is for a plan, and {plain(source)} is none; leave it out")
        return None, load_problem(source)
    plan = load_plan(source)
    names = [one.name for one in plan.supposed.scenarios]
    if scenario is None:
        which = int(np.random.default_rng([seed, 1]).choice(len(names), p=plan.supposed.shares))
    elif scenario in names:
        which = names.index(scenario)
    else:
        raise InputError(f"the plan has no scenario '{plain(scenario)}'{nearest(scenario, names)}")
    problem = plan.supposed.problem(which, seed)
    return plan, replace(problem, name=f"{plain(source)}, scenario {names[which]}")


def happened_of(plan: StudyPlan, run: Run) -> tuple[tuple[str, str, str], ...]:
    """Planned against happened."""
    certified = None if run.certificate is None else plan.unit * run.certificate.certified_epsilon
    return happened_rows(plan, samples=run.samples, algorithm=run.algorithm, certified=certified)

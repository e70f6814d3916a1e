"""Entry points of the design solvers: they take a task and return a design with a bracket."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import instance, positive
from pacbandits.design.columns import DesignPrice, Pricing, best_pricing, solve_columns
from pacbandits.design.task import DesignTask
from pacbandits.design.weights import Objective, Solution, prune, sift_weights
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import sum_scores
from pacbandits.progress import Progress, listener
from pacbandits.records import Contexts, Design, Policy

# Default relative gaps at which solvers stop.
LISTED_TOLERANCE = 1e-5
ORACLE_TOLERANCE = 0.01


def solve_design(task: DesignTask, *, tolerance: float | None = None, progress: Progress | None = None) -> Solution:
    """Return the best design by the strongest solver the class allows.

    tolerance: relative gap to stop at; by default 1e-5 for enumerated classes and 0.01 for the rest.
    """
    instance(task, DesignTask, name="task")
    if task.policies.lists_policies:
        return solve_enumerated(task, tolerance=LISTED_TOLERANCE if tolerance is None else tolerance)
    return solve_by_pricing(
        task,
        pricing=best_pricing(task.policies),
        tolerance=ORACLE_TOLERANCE if tolerance is None else tolerance,
        progress=listener(progress),
    )


def solve_enumerated(
    task: DesignTask, *, tolerance: float = LISTED_TOLERANCE, max_evaluations: int = 5_000
) -> Solution:
    """Solve the ratio form over every policy of a class that can be listed."""
    policies = task.policies
    if not policies.lists_policies:
        raise InputError(f"the class {policies.type_name} cannot be listed; use solve_design or solve_by_pricing")
    here = task.possible
    actions = np.asarray(policies.actions(here.contexts))
    accuracy = task.scale(sum_scores(actions, here.gaps))
    return _solve_listed(
        policies,
        actions,
        accuracy,
        objective=here.objective,
        reference=task.reference,
        tolerance=tolerance,
        max_evaluations=max_evaluations,
    )


def solve_listed(
    policies: PolicyClass,
    contexts: Contexts,
    *,
    reference: Policy,
    accuracy: FloatArray,
    floor: float = 0.0,
    tolerance: float = LISTED_TOLERANCE,
    max_evaluations: int = 5_000,
) -> Solution:
    """Solve `min_p max_π V_π(p; q)/d_π²` for a given accuracy d (|Π|,) of each policy."""
    here = contexts.only(contexts.weights > 0)
    objective = Objective(reference(here), here.weights, np.ones((len(here), policies.n_actions)), floor)
    return _solve_listed(
        policies,
        np.asarray(policies.actions(here)),
        accuracy,
        objective=objective,
        reference=reference,
        tolerance=tolerance,
        max_evaluations=max_evaluations,
    )


def _solve_listed(
    policies: PolicyClass,
    table: np.ndarray[Any, Any],
    accuracy: FloatArray,
    *,
    objective: Objective,
    reference: Policy,
    tolerance: float,
    max_evaluations: int,
) -> Solution:
    tolerance = positive(tolerance, name="tolerance")
    uniform = Design((), np.empty(0), reference, floor=objective.floor)
    occur = objective.weights > 0
    rows, actions, finest = _distinct(table, objective.reference, accuracy)
    if not (actions[:, occur] != objective.reference[occur]).any():
        return _nothing_to_learn(uniform, tolerance)
    if finest.min() <= 0:
        note = f"infinite: policy {int(rows[finest.argmin()])} ties with the best one"
        return Solution(uniform, np.inf, np.inf, tolerance, 0, 0, note=note)
    urgency = 1.0 / finest**2
    solved = sift_weights(objective, actions, urgency, tolerance=tolerance, max_evaluations=max_evaluations)
    solved = prune(objective, actions, urgency, solved=solved, tolerance=tolerance)
    kappa = solved.weights * urgency
    used = kappa > 0
    return Solution(
        Design(tuple(policies.policy(int(i)) for i in rows[used]), kappa[used], reference, floor=objective.floor),
        solved.lower,
        solved.upper,
        tolerance,
        iterations=solved.evaluations,
        oracle_calls=0,
        note="" if solved.gap <= tolerance else f"stopped after {solved.evaluations} evaluations",
    )


def solve_by_pricing(
    task: DesignTask,
    *,
    pricing: Pricing,
    tolerance: float = ORACLE_TOLERANCE,
    max_rounds: int = 200,
    seeds: tuple[Policy, ...] = (),
    known: tuple[Design, float] | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Solve the ratio form through an oracle alone.

    seeds: policies to begin with, in addition to one per action. known: a design and an upper end that it attains.
    """
    tolerance = positive(tolerance, name="tolerance")
    here = task.possible
    stranger = find_stranger(task.policies, here.contexts, here.objective.reference)
    differs = stranger(here.contexts) != here.objective.reference
    if not (differs & (here.contexts.weights > 0)).any():
        return _nothing_to_learn(task.uniform_design(), tolerance)
    return solve_columns(
        task,
        pricing=pricing,
        seeds=(stranger, *action_seekers(task.policies, here.contexts), *seeds),
        known=known,
        tolerance=tolerance,
        max_rounds=max_rounds,
        progress=progress,
    )


def price_propensities(task: DesignTask, propensities: FloatArray) -> DesignPrice:
    """Return `max_π V_π(p; q)/d(Δ_π)²` for propensities (n, A): exact if the class supports it, else an upper end."""
    here = task.possible
    possible = np.ascontiguousarray(propensities[here.rows])
    return best_pricing(task.policies)(here.contexts, here.objective.costs(possible), here.gaps, task.scale)


def action_seekers(policies: PolicyClass, contexts: Contexts) -> tuple[Policy, ...]:
    """Return for each action a policy that takes it as often as the class allows."""
    seekers: list[Policy] = []
    for action in range(policies.n_actions):
        scores = np.zeros((len(contexts), policies.n_actions))
        scores[:, action] = contexts.weights
        seekers.append(policies.argmax(contexts, scores))
    return tuple(seekers)


def find_stranger(policies: PolicyClass, contexts: Contexts, reference: IntArray) -> Policy:
    """Return a policy that differs from the reference's actions (n,) as often as the class allows."""
    scores = np.repeat(contexts.weights[:, None], policies.n_actions, axis=1)
    scores[np.arange(len(contexts)), reference] = 0.0
    return policies.argmax(contexts, scores)


def _distinct(
    actions: np.ndarray[Any, Any], reference: IntArray, accuracy: FloatArray
) -> tuple[IntArray, np.ndarray[Any, Any], FloatArray]:
    """Return the first of each set of policies that act alike, without those that act like the reference.

    Their rows, table, and the finest accuracy within each set.
    """
    own = reference.astype(actions.dtype).tobytes()
    sets: dict[bytes, int] = {}
    rows: list[int] = []
    finest: list[float] = []
    for i, row in enumerate(actions):
        key = row.tobytes()
        if key == own:
            continue
        if key in sets:
            finest[sets[key]] = min(finest[sets[key]], accuracy[i])
        else:
            sets[key] = len(rows)
            rows.append(i)
            finest.append(accuracy[i])
    kept = np.array(rows, dtype=np.int64)
    table = actions if len(kept) == len(actions) else np.ascontiguousarray(actions[kept])
    return kept, table, np.array(finest)


def _nothing_to_learn(uniform: Design, tolerance: float) -> Solution:
    note = "every policy acts alike: there is nothing to learn"
    return Solution(uniform, 0.0, 0.0, tolerance, 0, 0, note=note)

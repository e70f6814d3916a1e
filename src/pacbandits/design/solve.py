"""The front door of the design solvers: class, contexts, reference and gap scores in; a design and a bracket out."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.design.columns import Progress, solve_columns
from pacbandits.design.enumerated import prune, solve_weights
from pacbandits.design.objective import Objective
from pacbandits.design.pricing import Price, Pricing, price_by_argmax, price_by_frontier
from pacbandits.design.scale import Scale
from pacbandits.design.solution import Solution
from pacbandits.errors import FloatArray, InputError, IntArray, floats
from pacbandits.policies.base import EnumeratedClass, FrontierClass, PolicyClass
from pacbandits.policies.finite import sum_scores
from pacbandits.records import Contexts, Design, Policy


def solve_design(
    policies: PolicyClass,
    contexts: Contexts,
    *,
    reference: Policy,
    gaps: FloatArray,
    scale: Scale,
    noise: FloatArray | None = None,
    floor: float = 0.0,
    tolerance: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """The best design `min_p max_π V_π(p; q)/d(Δ_π)²` over a class, by the strongest solver the class allows.

    gaps (n, A): scores whose sum over π's actions is Δ_π, context weights multiplied in. noise (n, A): variances, ones
    by default. floor: least probability of every action. tolerance: relative gap to stop at; by default 1e-5 for
    enumerated classes and 0.01 for the rest.
    """
    if isinstance(policies, EnumeratedClass):
        tolerance = 1e-5 if tolerance is None else tolerance
        return solve_enumerated(
            policies,
            contexts,
            reference=reference,
            gaps=gaps,
            scale=scale,
            noise=noise,
            floor=floor,
            tolerance=tolerance,
        )
    pricing = price_by_frontier(policies) if isinstance(policies, FrontierClass) else price_by_argmax(policies)
    return solve_by_pricing(
        policies,
        contexts,
        pricing=pricing,
        reference=reference,
        gaps=gaps,
        scale=scale,
        noise=noise,
        floor=floor,
        tolerance=0.01 if tolerance is None else tolerance,
        progress=progress,
    )


def solve_enumerated(
    policies: EnumeratedClass,
    contexts: Contexts,
    *,
    reference: Policy,
    gaps: FloatArray,
    scale: Scale,
    noise: FloatArray | None = None,
    floor: float = 0.0,
    tolerance: float = 1e-5,
    max_evaluations: int = 5_000,
) -> Solution:
    """The ratio form over every policy of a class that can be listed; shapes as in `solve_design`."""
    objective, contexts, gaps = _prepare(policies, contexts, reference, gaps, noise, floor, tolerance)
    actions = np.asarray(policies.actions(contexts))
    rows, actions = _distinct(actions, objective.reference)
    if len(rows) == 0:
        return _nothing_to_learn(reference, floor, tolerance)
    accuracy = scale(sum_scores(actions, gaps))
    if accuracy.min() <= 0:
        tied = int(rows[accuracy.argmin()])
        return _infinite(reference, floor, tolerance, f"policy {tied} ties with the best one")
    urgency = 1.0 / accuracy**2
    solved = solve_weights(objective, actions, urgency, tolerance=tolerance, max_evaluations=max_evaluations)
    solved = prune(objective, actions, urgency, solved=solved, tolerance=tolerance)
    kappa = solved.weights * urgency
    used = kappa > 0
    support = tuple(policies.policy(int(rows[i])) for i in np.flatnonzero(used))
    note = "" if solved.gap <= tolerance else f"stopped after {solved.evaluations} evaluations"
    return Solution(
        Design(support, kappa[used], reference, floor=floor),
        solved.lower,
        solved.upper,
        tolerance,
        iterations=solved.evaluations,
        oracle_calls=0,
        note=note,
    )


def solve_by_pricing(
    policies: PolicyClass,
    contexts: Contexts,
    *,
    pricing: Pricing,
    reference: Policy,
    gaps: FloatArray,
    scale: Scale,
    noise: FloatArray | None = None,
    floor: float = 0.0,
    tolerance: float = 0.01,
    max_rounds: int = 200,
    seeds: tuple[Policy, ...] = (),
    known: tuple[Design, float] | None = None,
    progress: Progress | None = None,
) -> Solution:
    """The ratio form through an oracle alone; shapes as in `solve_design`.

    seeds: policies to begin with, beside some of each action. known: a design and an upper end that it attains.
    """
    objective, contexts, gaps = _prepare(policies, contexts, reference, gaps, noise, floor, tolerance)
    stranger = _stranger(policies, contexts, objective.reference)
    if np.array_equal(stranger(contexts), objective.reference):
        return _nothing_to_learn(reference, floor, tolerance)
    return solve_columns(
        objective,
        contexts,
        gaps=gaps,
        scale=scale,
        pricing=pricing,
        reference=reference,
        seeds=(stranger, *action_seekers(policies, contexts), *seeds),
        known=known,
        tolerance=tolerance,
        max_rounds=max_rounds,
        progress=progress,
    )


def price_propensities(
    policies: PolicyClass,
    contexts: Contexts,
    *,
    propensities: FloatArray,
    reference: Policy,
    gaps: FloatArray,
    scale: Scale,
    noise: FloatArray | None = None,
) -> Price:
    """`max_π V_π(p; q)/d(Δ_π)²` for given propensities (n, A): exact for classes that can, else an upper end."""
    kept, rows = contexts.of_positive_weight()
    objective, contexts, gaps = _prepare(policies, contexts, reference, gaps, noise, 0.0, 1.0)
    costs = objective.costs(np.ascontiguousarray(propensities[rows]))
    pricing = price_by_frontier(policies) if isinstance(policies, FrontierClass) else price_by_argmax(policies)
    return pricing(kept, costs, gaps, scale)


def action_seekers(policies: PolicyClass, contexts: Contexts) -> tuple[Policy, ...]:
    """For each action, a policy that takes it as often as the class allows."""
    seekers: list[Policy] = []
    for action in range(policies.n_actions):
        scores = np.zeros((len(contexts), policies.n_actions))
        scores[:, action] = contexts.weights
        seekers.append(policies.argmax(contexts, scores))
    return tuple(seekers)


def _stranger(policies: PolicyClass, contexts: Contexts, reference: IntArray) -> Policy:
    """A policy that differs from the reference's actions (n,) as often as the class allows."""
    scores = np.repeat(contexts.weights[:, None], policies.n_actions, axis=1)
    scores[np.arange(len(contexts)), reference] = 0.0
    return policies.argmax(contexts, scores)


def _prepare(
    policies: PolicyClass,
    contexts: Contexts,
    reference: Policy,
    gaps: FloatArray,
    noise: FloatArray | None,
    floor: float,
    tolerance: float,
) -> tuple[Objective, Contexts, FloatArray]:
    """Checked inputs on the contexts that can occur."""
    shape = (len(contexts), policies.n_actions)
    gaps = floats(gaps, name="gap scores", shape=shape)
    if noise is not None:
        noise = floats(noise, name="noise variances", shape=shape)
        if noise.min() < 0:
            raise InputError(f"noise variances must not be negative, got {noise.min()}")
    if not 0 <= floor <= 1 / policies.n_actions:
        raise InputError(f"floor must lie between 0 and 1/{policies.n_actions} (one over the actions), got {floor}")
    if not tolerance > 0:
        raise InputError(f"tolerance must be positive, got {tolerance}")
    contexts, rows = contexts.of_positive_weight()
    objective = Objective(
        reference=reference(contexts),
        weights=contexts.weights,
        noise=np.ones((len(contexts), policies.n_actions)) if noise is None else np.ascontiguousarray(noise[rows]),
        floor=floor,
    )
    return objective, contexts, np.ascontiguousarray(gaps[rows])


def _distinct(actions: np.ndarray[Any, Any], reference: IntArray) -> tuple[IntArray, np.ndarray[Any, Any]]:
    """The first of each set of policies that act alike, without those that act like the reference: rows and table."""
    seen = {reference.astype(actions.dtype).tobytes()}
    rows: list[int] = []
    for i, row in enumerate(actions):
        key = row.tobytes()
        if key not in seen:
            seen.add(key)
            rows.append(i)
    kept = np.array(rows, dtype=np.int64)
    return kept, actions if len(kept) == len(actions) else np.ascontiguousarray(actions[kept])


def _nothing_to_learn(reference: Policy, floor: float, tolerance: float) -> Solution:
    design = Design((), np.empty(0), reference, floor=floor)
    return Solution(design, 0.0, 0.0, tolerance, 0, 0, note="every policy acts alike: there is nothing to learn")


def _infinite(reference: Policy, floor: float, tolerance: float, why: str) -> Solution:
    design = Design((), np.empty(0), reference, floor=floor)
    return Solution(design, np.inf, np.inf, tolerance, 0, 0, note=f"infinite: {why}")

"""Any class that can be held to a budget, held to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import floats
from pacbandits.checks import number
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.finite import Finite, sum_scores
from pacbandits.policies.trees.affordable import BUDGET_ROUNDING, WithinBudget, too_dear
from pacbandits.records import Contexts, check_contexts


def within_budget(policies: PolicyClass, contexts: Contexts, *, costs: ArrayLike, budget: float) -> PolicyClass:
    """The policies of a class that cost at most so much on average.

    policies: the class: trees of depth 0, 1 or 2, or a list (`Finite`).
    contexts: over which the average is, with their weights; fixed before the log was seen.
    costs (A,): of each action.
    budget: the largest mean cost.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20], [30], [40], [50]], names=["age"])
    >>> trees = pb.Trees.learn(people, n_actions=2, depth=1)
    >>> affordable = pb.within_budget(trees, people, costs=[0, 1], budget=0.25)  # treat a quarter of them
    >>> print(affordable.argmax(people, [[0, 1], [0, 1], [0, 1], [0, 3]]).describe())
    if age ≤ 45: action 0
    else: action 1

    Raises:
        InputError: When even the cheapest policy costs more, or the class cannot be searched within a budget.
    """
    policies = check_class(policies)
    check_contexts(contexts)
    if policies.searches_budgets:
        return WithinBudget(policies, known=policies.know(contexts), costs=costs, budget=budget)
    if not isinstance(policies, Finite):
        raise InputError(
            f"{policies.type_name} cannot be searched within a budget; take trees of depth 0, 1 or 2, or a list "
            "of policies (Finite)"
        )
    prices = floats(costs, name="costs", shape=(policies.n_actions,))
    most = number(budget, name="budget")
    table = np.ascontiguousarray(policies.actions(contexts))
    each = sum_scores(table, np.ascontiguousarray(contexts.weights[:, None] * prices))
    kept = np.flatnonzero(each <= most + BUDGET_ROUNDING * max(1.0, float(np.abs(prices).max())))
    if len(kept) == 0:
        raise too_dear(most, float(each.min()))
    names = None if policies.names is None else [policies.names[i] for i in kept]
    return Finite(policies.table[kept], n_actions=policies.n_actions, names=names)

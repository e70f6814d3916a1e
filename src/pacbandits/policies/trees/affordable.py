"""Policies that one can afford: those of a class whose mean cost over the contexts that were known keeps a budget.

    Π_B = {π ∈ Π : Σ_i w_i cost(π(c_i)) ≤ B}

A class fixed beforehand as any other, so that certificates, designs and ρ hold for the best policy that one can afford.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, floats
from pacbandits.checks import instance, number
from pacbandits.errors import InputError, plain
from pacbandits.policies.base import PolicyClass, SearchCost, check_class, check_scores
from pacbandits.policies.trees.known import KnownContexts
from pacbandits.records import Chosen, Contexts, Lottery, Policy, parts_of

FRONTIERS_FOR_AN_ARGMAX = 3  # about so many take as long, as its frontiers of sides are not thinned
BUDGET_ROUNDING = 1e-9  # of the largest cost, by which a policy may seem dearer than it is


class WithinBudget(PolicyClass):
    """The policies of a class whose mean cost over known contexts is at most a budget.

    policies: the class. known: the contexts. costs (A,): of each action. budget: the largest mean cost.

    The argmax is exact where that of the class is; log|Π| is that of the whole class, which is a bound.
    """

    kind = "affordable"

    def __init__(self, policies: PolicyClass, *, known: KnownContexts, costs: ArrayLike, budget: float) -> None:
        self.policies = check_class(policies)
        if not policies.searches_budgets:
            raise InputError(
                f"{policies.type_name} cannot be searched within a budget; a budget needs trees of depth 0 to 2"
            )
        self.n_actions, self.exact, self.log_size = policies.n_actions, policies.exact, policies.log_size
        self.feature_names = policies.feature_names
        self.known = instance(known, KnownContexts, name="known")
        self.costs = floats(costs, name="costs", shape=(self.n_actions,))
        self.budget = number(budget, name="budget")
        self._known_costs = np.ascontiguousarray(known.weights[:, None] * self.costs)
        self._rounding = BUDGET_ROUNDING * max(1.0, float(np.abs(self.costs).max()))
        cheapest = self.mean_cost(policies.argmax(known.contexts, -self._known_costs), known.contexts)
        if cheapest > self._most:
            raise too_dear(self.budget, cheapest)

    @property
    def _most(self) -> float:
        return self.budget + self._rounding

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        """The best policy that keeps the budget; the best of all where that does."""
        scores = check_scores(scores, contexts=contexts, n_actions=self.n_actions)
        best = self.policies.argmax(contexts, scores)
        if self._keeps(best):
            return best
        found = self.policies.argmax_within(
            contexts, scores, known=self.known.contexts, costs=self._known_costs, most=self._most
        )
        assert found is not None
        return found

    def narrowed(self, kept: tuple[int, ...]) -> WithinBudget:
        """The policies that take these actions alone, which are numbered from 0, and keep the budget."""
        fewer = self.policies.narrowed(kept)
        assert fewer is not None
        return WithinBudget(fewer, known=self.known, costs=self.costs[list(kept)], budget=self.budget)

    def has(self, policy: Policy) -> bool:
        """Whether it is a policy of the class that keeps the budget."""
        return self.policies.has(policy) and self._keeps(policy)

    def _keeps(self, policy: Policy) -> bool:
        # The search adds up in another order, so that who asks is a little more generous.
        return self.mean_cost(policy, self.known.contexts) <= self._most + self._rounding

    def mean_cost(self, chosen: Chosen, contexts: Contexts) -> float:
        """What a policy, or a lottery in the mean, costs on average over contexts with their weights."""
        shares = chosen.weights if isinstance(chosen, Lottery) else (1.0,)
        each = (float(contexts.weights @ self.costs[policy(contexts)]) for policy in parts_of(chosen))
        return sum(share * cost for share, cost in zip(shares, each, strict=True))

    def describe(self) -> str:
        """The kind of policies, and the budget."""
        known = f"{self.known.n:,} known contexts"
        shares = share_words(self.costs, self.budget)
        if shares:
            return f"{self.policies.describe()}, that {shares} of {known}"
        return f"{self.policies.describe()}, of a mean cost of at most {self.budget:g} over {known}"

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """What the class can ask, what each action costs, and the budget."""
        if share_words(self.costs, self.budget):
            limited = " or ".join(map(str, np.flatnonzero(self.costs)))
            return (*self.policies.details(contexts), f"action {limited} for at most {100 * self.budget:.4g} %")
        each = ", ".join(f"action {action} {cost:g}" for action, cost in enumerate(self.costs))
        return (*self.policies.details(contexts), f"at most {self.budget:g} on average, where costs are: {each}")

    @property
    def size_words(self) -> str:
        return self.policies.size_words

    @property
    def lighter(self) -> str:
        return self.policies.lighter

    def argmax_cost(self, n_rows: int) -> SearchCost | None:
        """What an argmax takes on so many contexts."""
        front = self.policies.frontier_cost(n_rows + len(self.known.codes))
        return None if front is None else front * FRONTIERS_FOR_AN_ARGMAX

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "class": self.policies.to_json(),
            "known": self.known.to_json(),
            "costs": self.costs.tolist(),
            "budget": self.budget,
        }


def share_words(costs: Sequence[float] | FloatArray, budget: float) -> str:
    """A budget that limits whom actions are given to, in words; nothing where costs are more than 0 and 1."""
    counted = [action for action, cost in enumerate(costs) if cost]
    if not counted or any(costs[action] != 1.0 for action in counted) or len(counted) == len(costs):
        return ""
    most = f"at most {100 * budget:.4g} %"
    if len(counted) == len(costs) - 1:
        return f"treat {most}"
    return f"give action {' or '.join(map(str, counted))} to {most}"


def too_dear(budget: float, cheapest: float) -> InputError:
    """What to say where even the cheapest policy is beyond the budget."""
    return InputError(
        f"no policy of the class costs {budget:g} or less on average over the known contexts; the cheapest costs "
        f"{cheapest:.6g}: allow for that much, or for cheaper actions"
    )


def read_costs(words: str, *, n_actions: int) -> Sequence[float]:
    """Costs of all actions from `0/1/2.5`."""
    try:
        found = [float(word) for word in words.split("/")]
    except ValueError:
        found = [math.nan]
    if len(found) != n_actions or not all(map(math.isfinite, found)):
        raise InputError(
            f"costs must be {n_actions} numbers apart by /, one an action as in 0/1/2.5, got '{plain(words)}'"
        )
    return found

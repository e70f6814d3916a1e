"""What the algorithms that visit every policy share: a class as a table, and how often its policies disagree."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.design import Objective
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.finite import Finite, sum_scores
from pacbandits.records import Contexts, Sampler

# A trivial class of no more policies than this is listed.
_MAX_LISTED_MAPS = 5_000


def listed(policies: PolicyClass, *, algorithm: str) -> PolicyClass:
    """The class as one that can be listed, or a sentence that names an algorithm for it."""
    policies = check_class(policies)
    if policies.lists_policies:
        return policies
    if _few_maps(policies):
        maps = list(product(range(policies.n_actions), repeat=policies.n_contexts))
        return Finite(maps, n_actions=policies.n_actions)
    raise InputError(
        f"{algorithm} visits every policy, and the class {policies.type_name} has about "
        f"10^{policies.log_size / np.log(10):.1f}, too many to list; coda-paper can run on it"
    )


def can_be_listed(policies: PolicyClass) -> bool:
    """Whether `listed` has a list of the class."""
    return policies.lists_policies or _few_maps(policies)


def _few_maps(policies: PolicyClass) -> bool:
    return policies.holds_every_map and policies.log_size <= np.log(_MAX_LISTED_MAPS)


def all_alike(actions: np.ndarray[Any, Any], contexts: Contexts) -> bool:
    """Whether all policies of a table (K, n) act alike on the contexts that can occur: then any of them is best."""
    return bool((actions == actions[0])[:, contexts.weights > 0].all())


def stands_alone(best: int, gaps: FloatArray, *, listing: PolicyClass, contexts: Contexts, most: float) -> bool:
    """Whether every policy that acts unlike the one of number `best`, on contexts that can occur, has a larger gap.

    gaps (|Π|,): estimated. most: what the estimated gap of a best policy never exceeds on the good event. Then no other
    policy is a best one, so this one is.
    """
    possible = contexts.weights > 0
    table = np.asarray(listing.actions(contexts))[:, possible]
    near = table[gaps <= most]
    return bool((near == table[best]).all())


def variances(
    actions: np.ndarray[Any, Any], *, reference: IntArray, contexts: Contexts, sampler: Sampler
) -> FloatArray:
    """V_π(p; q) (K,) for a table of actions (K, n) on the contexts, q's actions (n,) and the sampler's propensities."""
    ones = np.ones((len(contexts), sampler.n_actions))
    objective = Objective(reference, contexts.weights, ones)
    return sum_scores(actions, objective.costs(np.ascontiguousarray(sampler.propensities(contexts))))


def disagreements(actions: np.ndarray[Any, Any], *, reference: IntArray, contexts: Contexts) -> FloatArray:
    """P(π(c) ≠ q(c)) (K,): no gap is larger, as mean rewards lie in [0, 1]."""
    return (actions != reference) @ contexts.weights

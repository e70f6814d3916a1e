"""What the algorithms that visit every policy share: a class as a table, and how often its policies disagree."""

from __future__ import annotations

from typing import Any

import numpy as np

from pacbandits.design import Objective
from pacbandits.errors import FloatArray, InputError, IntArray
from pacbandits.policies.base import EnumeratedClass, PolicyClass
from pacbandits.policies.finite import Finite, sum_scores
from pacbandits.policies.trivial import Trivial
from pacbandits.records import Contexts, Sampler

MOST_MAPS = 5_000  # of a trivial class that is still listed


def listed(policies: PolicyClass, *, algorithm: str) -> EnumeratedClass:
    """The class as one that can be listed, or a sentence that names an algorithm for it."""
    if isinstance(policies, EnumeratedClass):
        return policies
    if isinstance(policies, Trivial) and policies.log_size <= np.log(MOST_MAPS):
        maps = np.indices((policies.n_actions,) * policies.n_contexts).reshape(policies.n_contexts, -1).T
        return Finite(maps, n_actions=policies.n_actions)
    raise InputError(
        f"{algorithm} visits every policy, and the class {type(policies).__name__} has about "
        f"10^{policies.log_size / np.log(10):.1f}, too many to list; coda-paper can run on it"
    )


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

"""What can be built on any argmax or frontier oracle."""

from __future__ import annotations

import numpy as np

from pacbandits.errors import FloatArray, InputError
from pacbandits.policies.base import Frontier, FrontierClass, PolicyClass
from pacbandits.records import Contexts, Policy


class Counting:
    """A policy class that counts the calls made to its oracles."""

    def __init__(self, policies: PolicyClass) -> None:
        self.policies = policies
        self.calls = 0

    @property
    def n_actions(self) -> int:
        return self.policies.n_actions

    @property
    def log_size(self) -> float:
        return self.policies.log_size

    @property
    def exact(self) -> bool:
        return self.policies.exact

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        self.calls += 1
        return self.policies.argmax(contexts, scores)


def constrained_argmax(
    policies: FrontierClass, contexts: Contexts, scores: FloatArray, *, budget: FloatArray, limit: float
) -> Policy:
    """The constrained oracle (C-AMO): maximise `Σ scores[i, π(c_i)]` subject to `Σ budget[i, π(c_i)] ≤ limit`.

    Exact through the frontier of (scores, −budget): among the points that keep the limit (to rounding), the one of
    largest score.
    """
    frontier: Frontier = policies.frontier(contexts, scores, -np.asarray(budget))
    if not frontier.exact:
        raise InputError("the frontier was rounded, so the constrained argmax is not exact; raise its resolution")
    rounding = 1e-12 * float(np.abs(budget).sum())
    allowed = np.flatnonzero(-frontier.second <= limit + rounding)
    if allowed.size == 0:
        raise InputError(f"no policy keeps the limit {limit:.6g}; the least possible is {-frontier.second[-1]:.6g}")
    return frontier.policy(int(allowed[0]))

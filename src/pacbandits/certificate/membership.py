"""Whether two policies are one, and whether a policy is one of a class: for whoever verifies."""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import as_read
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Policy


def same_policy(one: Policy, other: Policy) -> bool:
    """Whether two policies are one, or describe themselves alike."""
    return one is other or as_read(one.to_json()) == as_read(other.to_json())


def belongs(policy: Policy, contexts: Contexts, policies: PolicyClass) -> bool:
    """Whether the policy is one of the class, or acts like one on every context of the log if the class cannot say."""
    if policies.checks_membership:
        return policies.has(policy)
    actions = policy(contexts)
    agree = np.zeros((len(contexts), policies.n_actions))
    agree[np.arange(len(contexts)), actions] = 1.0
    return bool(np.array_equal(policies.argmax(contexts, agree)(contexts), actions))

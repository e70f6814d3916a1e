"""What a log cannot tell of a policy that is best on it: those who act otherwise where nothing was seen."""

from __future__ import annotations

import numpy as np

from pacbandits.confidence import unseen_share
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Log


def sees_all(log: Log, policies: PolicyClass) -> bool:
    """Whether the log has every context that policies of the class can tell apart, so that who acts alike is alike."""
    if not policies.n_contexts or log.contexts.ids is None:
        return False
    return bool(np.array_equal(np.unique(log.contexts.ids), np.arange(policies.n_contexts)))


def unseen_distance(log: Log, policies: PolicyClass, *, spared: int, delta: float) -> float:
    """What a policy that is best by the log may lack of the best, of rewards in [0, 1]: 0 where all contexts were seen.

    spared: rounds at the beginning that only taught, and have chosen the class. delta: what there is for the proof.
    """
    if sees_all(log, policies):
        return 0.0
    counted = float(log.round_sizes[spared:].sum())
    return unseen_share(counted, delta=delta, log_size=policies.log_size)

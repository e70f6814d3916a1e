"""What those who certify and those who verify have to agree on, and nothing else.

How the rows of a log without rounds are cut into blocks, for which classes half of δ is kept for policies named in
advance, and what `certify` stakes: who verifies looks for these again, as they follow from the log and the class.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Log

FIRST_BLOCK_ROWS = 256  # a log grows, so blocks must not depend on where it ends
# Of `certify`, fixed in advance as nothing is known of the design: from a stake that suits a trial of two actions to
# one that suits rare actions and small gaps.
EXPERT_STAKES = tuple(0.4 * 0.5**j for j in range(10))
MIN_LOG_SIZE_WORTH_NAMING = 10.0  # nats of log|Π| from which on half of δ is well spent on naming


def in_blocks(log: Log) -> Log:
    """The log itself if it has rounds, else with its rows, in their order, numbered by block.

    The first block has 256 rows, and each one after it as many as all before it.
    """
    if len(np.unique(log.rounds)) > 1:
        return log
    if log.repeats.max() > 1:
        raise InputError(
            "the log counts repeated interactions, so its rows cannot stand in the order in which they occurred; "
            "certify it without that assumption"
        )
    doublings = np.log2(np.maximum(np.arange(len(log)) // FIRST_BLOCK_ROWS, 0.5))
    blocks: IntArray = (np.floor(doublings) + 1).astype(np.int64)
    return replace(log, rounds=blocks)


def worth_naming(policies: PolicyClass) -> bool:
    """Whether half of δ is kept for policies named in advance: with large classes and an exact oracle."""
    return policies.exact and policies.log_size >= MIN_LOG_SIZE_WORTH_NAMING

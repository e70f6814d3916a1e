"""Frozen data, validated at the door: contexts, policies, designs, logs, and what is assumed of rewards."""

from pacbandits.records.contexts import Contexts, check_contexts
from pacbandits.records.design import Design, Sampler, check_sampler
from pacbandits.records.log import Log, check_log
from pacbandits.records.phi import Phi
from pacbandits.records.policy import Policy, check_policy
from pacbandits.records.reward_bounds import RewardBounds

__all__ = [
    "Contexts",
    "Design",
    "Log",
    "Phi",
    "Policy",
    "RewardBounds",
    "Sampler",
    "check_contexts",
    "check_log",
    "check_policy",
    "check_sampler",
]

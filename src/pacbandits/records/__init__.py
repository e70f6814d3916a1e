"""Frozen data, validated at the door: contexts, policies, designs, logs, and what is assumed of rewards."""

from pacbandits.records.contexts import Contexts
from pacbandits.records.design import Design, Sampler
from pacbandits.records.log import Log
from pacbandits.records.phi import Phi
from pacbandits.records.policy import Policy
from pacbandits.records.reward_bounds import RewardBounds

__all__ = [
    "Contexts",
    "Design",
    "Log",
    "Phi",
    "Policy",
    "RewardBounds",
    "Sampler",
]

"""Frozen data, validated at the door: contexts, policies, mixtures, designs, logs, and what is assumed of rewards."""

from pacbandits.records.contexts import Contexts, check_contexts
from pacbandits.records.design import Design, Sampler, Sparing, check_sampler, spare
from pacbandits.records.log import Log, check_log
from pacbandits.records.mixture import Chosen, Lottery, Mixture, check_chosen, describe_chosen, likeliest, parts_of
from pacbandits.records.phi import Phi
from pacbandits.records.policy import Policy, check_policy
from pacbandits.records.reward_bounds import RewardBounds

__all__ = [
    "Chosen",
    "Contexts",
    "Design",
    "Log",
    "Lottery",
    "Mixture",
    "Phi",
    "Policy",
    "RewardBounds",
    "Sampler",
    "Sparing",
    "check_chosen",
    "check_contexts",
    "check_log",
    "check_policy",
    "check_sampler",
    "describe_chosen",
    "likeliest",
    "parts_of",
    "spare",
]

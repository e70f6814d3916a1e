"""Frozen data, validated at the door: contexts, policies, designs, logs, and what is assumed of rewards."""

from pacbandits.records.contexts import Contexts
from pacbandits.records.design import Design, Sampler
from pacbandits.records.foreign import from_open_bandit, read_dsjson
from pacbandits.records.log import Log
from pacbandits.records.pair_design import PairDesign
from pacbandits.records.phi import Phi
from pacbandits.records.policy import Policy
from pacbandits.records.readers import read_log
from pacbandits.records.rewards import RewardBounds

__all__ = [
    "Contexts",
    "Design",
    "Log",
    "PairDesign",
    "Phi",
    "Policy",
    "RewardBounds",
    "Sampler",
    "from_open_bandit",
    "read_dsjson",
    "read_log",
]

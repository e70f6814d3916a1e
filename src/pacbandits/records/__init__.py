"""Immutable, validated records: contexts, policies, mixtures, designs, logs and reward bounds."""

from pacbandits.records.contexts import Contexts, Phi, check_contexts
from pacbandits.records.design import Design, RewardBounds, Sampler, Sparing, check_sampler, spare
from pacbandits.records.log import Log, check_log
from pacbandits.records.metrics import Guardrail, Metric, Ratio
from pacbandits.records.policy import (
    Chosen,
    Mixture,
    Policy,
    check_chosen,
    check_policy,
    describe_chosen,
    likeliest,
    parts_of,
)

__all__ = [
    "Chosen",
    "Contexts",
    "Design",
    "Guardrail",
    "Log",
    "Metric",
    "Mixture",
    "Phi",
    "Policy",
    "Ratio",
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

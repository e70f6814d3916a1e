"""Frozen data, validated at the door: contexts, policies, designs and logs."""

from pacbandits.records.contexts import Contexts
from pacbandits.records.design import Design
from pacbandits.records.log import Log
from pacbandits.records.policy import Policy

__all__ = ["Contexts", "Design", "Log", "Policy"]

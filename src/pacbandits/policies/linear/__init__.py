"""Linear policies with integer coefficients: exact oracles for a small class or sample, otherwise a local search."""

from pacbandits.policies.linear.classes import Linear, ListedLinear, Shortfall
from pacbandits.policies.linear.policy import LinearPolicy

__all__ = ["Linear", "LinearPolicy", "ListedLinear", "Shortfall"]

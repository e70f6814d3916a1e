"""Linear policies with whole coefficients: exact oracles where the class or the sample is small, a search elsewhere."""

from pacbandits.policies.linear.classes import Linear, ListedLinear, Shortfall
from pacbandits.policies.linear.policy import LinearPolicy

__all__ = ["Linear", "LinearPolicy", "ListedLinear", "Shortfall"]

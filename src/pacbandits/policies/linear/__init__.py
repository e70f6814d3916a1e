"""Linear policies with whole coefficients: exact oracles where the class or the sample is small, a search elsewhere."""

from pacbandits.policies.linear.bounds import Shortfall
from pacbandits.policies.linear.oracle import Linear, ListedLinear
from pacbandits.policies.linear.policy import LinearPolicy

__all__ = ["Linear", "LinearPolicy", "ListedLinear", "Shortfall"]

"""The complexity of a problem: gaps, ρ, bounds, disagreement coefficients."""

from pacbandits.complexity.complexity import (
    Complexity,
    DisagreementBounds,
    InstanceSummary,
    Rho,
    SampleBounds,
    TrivialBounds,
)
from pacbandits.complexity.gaps import Gaps, Law, Truth, measure_gaps
from pacbandits.complexity.measure import measure
from pacbandits.complexity.rho import (
    DisagreementRegion,
    measure_disagreement,
    measure_lower_rho,
    measure_rho,
    measure_uniform_rho,
)

__all__ = [
    "Complexity",
    "DisagreementBounds",
    "DisagreementRegion",
    "Gaps",
    "InstanceSummary",
    "Law",
    "Rho",
    "SampleBounds",
    "TrivialBounds",
    "Truth",
    "measure",
    "measure_disagreement",
    "measure_gaps",
    "measure_lower_rho",
    "measure_rho",
    "measure_uniform_rho",
]

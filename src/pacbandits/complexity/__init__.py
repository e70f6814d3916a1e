"""The complexity of a problem: gaps, ρ, bounds, disagreement coefficients."""

from pacbandits.complexity.disagreement import DisagreementRegion, measure_disagreement
from pacbandits.complexity.gaps import Gaps, Truth, measure_gaps
from pacbandits.complexity.groups import DisagreementBounds, InstanceSummary, Rho, SampleBounds, TrivialBounds
from pacbandits.complexity.laws import Law
from pacbandits.complexity.measure import measure
from pacbandits.complexity.record import Complexity
from pacbandits.complexity.rho import measure_lower_rho, measure_rho, measure_uniform_rho

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

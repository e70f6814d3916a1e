"""Feature maps φ(c, a) ∈ R^d, in which linear policies and linear rewards are linear.

There are three: a block of coefficients for each action (`Crossed.blocks`), features of actions crossed with features
of contexts, with shared coefficients (`Crossed.shared`), and φ given with the contexts (`Given`).
"""

from pacbandits.policies.features.crossed import (
    Category,
    Crossed,
    Encoder,
    Given,
    NumberEncoder,
    learn_encoders,
    map_for,
    map_from_json,
)
from pacbandits.policies.features.maps import (
    CompactMap,
    CrossedRows,
    FeatureMap,
    FeatureRows,
    Mapped,
    PlainMap,
    SpelledRows,
)

__all__ = [
    "Category",
    "CompactMap",
    "Crossed",
    "CrossedRows",
    "Encoder",
    "FeatureMap",
    "FeatureRows",
    "Given",
    "Mapped",
    "NumberEncoder",
    "PlainMap",
    "SpelledRows",
    "learn_encoders",
    "map_for",
    "map_from_json",
]

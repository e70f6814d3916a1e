"""Feature maps φ(c, a) ∈ R^d: what linear policies and linear rewards are linear in.

Three ways to get one: a block of coefficients for each action (`Crossed.blocks`), features of actions crossed with
those of contexts, the coefficients shared (`Crossed.shared`), and φ given with the contexts (`Given`).
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

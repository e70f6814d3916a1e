"""The radius of Catoni's mean, which proofs of the paper use and no algorithm computes."""

from __future__ import annotations

import numpy as np


def catoni_radius(variance: np.ndarray, *, samples: int, confidence: float) -> np.ndarray:
    """`√(2vL/(n − 2L))`, the radius of `pacbandits.confidence.catoni_scale`; infinite below n = 4L."""
    if samples < 4.0 * confidence:
        return np.full_like(variance, np.inf)
    return np.sqrt(2.0 * variance * confidence / (samples - 2.0 * confidence))

"""Reward laws that a theorem distinguishes: Bernoulli, Gaussian, other."""

from __future__ import annotations

from enum import Enum
from typing import Protocol, runtime_checkable

import numpy as np

from pacbandits.complexity.gaps import Truth


class Law(Enum):
    """A family of reward laws, one for each mean; a lower bound is a theorem about one of them.

    GAUSSIAN: normal, of a variance that does not depend on the mean.
    BERNOULLI: 1 with the mean as its probability, else 0.
    OTHER: neither; what it takes to tell two means apart is not known here.
    """

    GAUSSIAN = "Gaussian"
    BERNOULLI = "Bernoulli"
    OTHER = "other"


@runtime_checkable
class LawfulNoise(Protocol):
    """Noise that says which law it follows."""

    @property
    def law(self) -> Law: ...


@runtime_checkable
class NoisyTruth(Protocol):
    """A truth that has its noise as an object."""

    @property
    def noise(self) -> object: ...


def law_of(truth: Truth) -> Law:
    """The law of a truth's rewards. One that gives variances alone means Gaussian noise of these."""
    if not isinstance(truth, NoisyTruth):
        return Law.GAUSSIAN
    return truth.noise.law if isinstance(truth.noise, LawfulNoise) else Law.OTHER


def has_unit_noise(truth: Truth) -> bool:
    """Whether rewards are Gaussian of variance 1 wherever a context can occur: the paper's noise."""
    occurs = truth.population.weights > 0
    return law_of(truth) is Law.GAUSSIAN and bool(np.allclose(truth.noise_variance[occurs], 1.0, rtol=0, atol=1e-12))

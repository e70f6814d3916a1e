"""Noise: the distribution of a reward about its mean. `Noise` is a protocol that other packages can implement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.checks import number
from pacbandits.complexity.gaps import Law
from pacbandits.confidence import check_noise
from pacbandits.errors import InputError
from pacbandits.records import RewardBounds

VARIANCE_ARRAY = "noise_variance"  # of a problem file
MAX_MAGNITUDE = 1e100  # of rewards and variances: squares and sums of larger ones overflow


@runtime_checkable
class Noise(Protocol):
    """The distribution of rewards about their means.

    name: the name of the distribution.
    counted: whether rewards repeat so often that they are counted instead of stored one by one.

    Noise that also has a `law` has known lower bounds.
    """

    @property
    def name(self) -> str: ...
    @property
    def counted(self) -> bool: ...

    def check(self, means: FloatArray) -> None:
        """Raise unless the means (N, A) may have such noise."""
        ...

    def variances(self, means: FloatArray) -> FloatArray:
        """Return variances (N, A) for means (N, A)."""
        ...

    def sample(self, means: FloatArray, *, variances: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one reward (n,) for each mean (n,) and variance (n,)."""
        ...

    def bounds(self, means: FloatArray) -> RewardBounds:
        """Return what may be assumed of the rewards without knowing their means."""
        ...

    def tally(
        self, counts: IntArray, *, means: FloatArray, variances: FloatArray, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray, IntArray]:
        """Draw counts (k,) rewards with means and variances (k,).

        Returns three arrays of one length: the index among the k, the reward, and its number of occurrences.
        """
        ...


@runtime_checkable
class StoredNoise(Protocol):
    """Noise that can be stored in a problem file."""

    def to_arrays(self, means: FloatArray) -> dict[str, NDArray[Any]]:
        """Return the arrays that describe it in a problem file, for means (N, A)."""
        ...


@dataclass(frozen=True)
class Bernoulli:
    """A reward of 1 with probability `r(c, a)`, else 0; its variance is `r(1 − r)`."""

    name = "Bernoulli"
    counted = True
    law = Law.BERNOULLI

    def check(self, means: FloatArray) -> None:
        """Raise unless the means (N, A) are probabilities."""
        bad = (means < 0) | (means > 1)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise InputError(
                f"mean_rewards must lie in [0, 1] when no noise variance is given, but entry {where} is "
                f"{means[where]:.6g}; give noise_variance, or rescale the rewards"
            )

    def variances(self, means: FloatArray) -> FloatArray:
        """Return variances (N, A) for means (N, A)."""
        return means * (1.0 - means)

    def sample(self, means: FloatArray, *, variances: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one reward (n,) for each mean (n,)."""
        return (rng.random(means.shape) < means).astype(np.float64)

    def bounds(self, means: FloatArray) -> RewardBounds:
        """Return what may be assumed of the rewards without knowing their means."""
        return RewardBounds()

    def tally(
        self, counts: IntArray, *, means: FloatArray, variances: FloatArray, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray, IntArray]:
        """Draw counts (k,) rewards with means (k,); return indices, rewards, and their numbers of occurrences."""
        ones = rng.binomial(counts, means)
        which = np.tile(np.arange(len(counts)), 2)
        repeats = np.concatenate([ones, counts - ones])
        rewards = np.repeat([1.0, 0.0], len(counts))
        came = repeats > 0
        return which[came], rewards[came], repeats[came]

    def to_arrays(self, means: FloatArray) -> dict[str, NDArray[Any]]:
        """Return no arrays: rewards are Bernoulli by default."""
        return {}


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Normal noise.

    variance: one number, or one for each context and action (N, A); 0 means no noise.
    """

    variance: float | FloatArray

    name = "Gaussian"
    counted = False
    law = Law.GAUSSIAN

    def __post_init__(self) -> None:
        variance = floats(self.variance, name="noise_variance")
        if variance.ndim not in (0, 2):
            raise InputError(f"noise_variance must be one number or have shape (any, any), got {variance.shape}")
        if variance.size and variance.min() < 0:
            raise InputError(f"noise_variance must not be negative, got {variance.min():.6g}")
        for extreme in (variance.max(initial=0.0), variance[variance > 0].min(initial=1.0)):
            check_noise(float(extreme), name="noise_variance")
        object.__setattr__(self, "variance", float(variance) if variance.ndim == 0 else variance)

    def check(self, means: FloatArray) -> None:
        """Raise unless the variance fits the shape of the means (N, A), and these are not too large."""
        if means.size and np.abs(means).max() > MAX_MAGNITUDE:
            raise InputError(
                f"mean_rewards must lie within ±{MAX_MAGNITUDE:g}, got {np.abs(means).max():.6g}; rescale the rewards"
            )
        if np.ndim(self.variance) == 2 and np.shape(self.variance) != means.shape:
            raise InputError(f"noise_variance has shape {np.shape(self.variance)}, but mean_rewards has {means.shape}")

    def variances(self, means: FloatArray) -> FloatArray:
        """Return variances (N, A) for means (N, A)."""
        return np.array(np.broadcast_to(self.variance, means.shape), dtype=np.float64)

    def sample(self, means: FloatArray, *, variances: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one reward (n,) for each mean (n,) and variance (n,)."""
        return means + np.sqrt(variances) * rng.standard_normal(means.shape)

    def bounds(self, means: FloatArray) -> RewardBounds:
        """Return what may be assumed if the noise is known and the means are only known to lie in [0, 1]."""
        if means.min() < 0 or means.max() > 1:
            raise InputError(
                "the algorithms need mean rewards in [0, 1], but here they range from "
                f"{means.min():.6g} to {means.max():.6g}; rescale the rewards"
            )
        largest = float(np.max(self.variance))
        return RewardBounds(second_moment=1.0 + largest, in_unit=False, proxy=largest)

    def tally(
        self, counts: IntArray, *, means: FloatArray, variances: FloatArray, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray, IntArray]:
        """Draw counts (k,) rewards with means and variances (k,); no two are equal."""
        return _one_by_one(self, counts, means, variances, rng)

    def to_arrays(self, means: FloatArray) -> dict[str, NDArray[Any]]:
        """Return the variance of every context and action."""
        return {VARIANCE_ARRAY: self.variances(means)}


@dataclass(frozen=True)
class Beta:
    """Beta noise: a reward in [0, 1] whose variance is a share of the largest possible one.

    share: of r(1 − r), the variance of a Bernoulli reward of the same mean.
    """

    share: float

    name = "beta"
    counted = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", number(self.share, name="share of the largest variance", above=0, below=1))

    def check(self, means: FloatArray) -> None:
        """Raise unless the means (N, A) lie in [0, 1]."""
        Bernoulli().check(means)

    def variances(self, means: FloatArray) -> FloatArray:
        """Return variances (N, A) for means (N, A)."""
        return self.share * means * (1.0 - means)

    def sample(self, means: FloatArray, *, variances: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one reward (n,) for each mean (n,)."""
        size = 1.0 / self.share - 1.0
        inner = np.clip(means, 1e-12, 1.0 - 1e-12)  # no beta distribution has a mean of 0 or 1
        return np.where((means > 0) & (means < 1), rng.beta(size * inner, size * (1.0 - inner)), means)

    def bounds(self, means: FloatArray) -> RewardBounds:
        """Return what may be assumed of the rewards without knowing their means."""
        return RewardBounds()

    def tally(
        self, counts: IntArray, *, means: FloatArray, variances: FloatArray, rng: np.random.Generator
    ) -> tuple[IntArray, FloatArray, IntArray]:
        """Draw counts (k,) rewards with means (k,); no two are equal."""
        return _one_by_one(self, counts, means, variances, rng)


def _one_by_one(
    noise: Noise, counts: IntArray, means: FloatArray, variances: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, FloatArray, IntArray]:
    """Draw counts (k,) rewards of noise under which no two are equal."""
    which = np.repeat(np.arange(len(counts)), counts)
    rewards = noise.sample(means[which], variances=variances[which], rng=rng)
    return which, rewards, np.ones(len(which), dtype=np.int64)


def noise_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Noise:
    """Return the noise that the arrays of a problem file describe."""
    variance = arrays.get(VARIANCE_ARRAY)
    return Bernoulli() if variance is None else Gaussian(variance)

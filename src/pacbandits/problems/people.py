"""Synthetic people: features on realistic scales, for problems whose contexts have features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.records import Contexts

Draw = Callable[[np.random.Generator, int], FloatArray]


@dataclass(frozen=True)
class MadeUpFeature:
    """A feature of synthetic people.

    name: its name.
    draw: draws n values.
    labels: the labels of its codes if it is categorical; None if it is numeric.
    """

    name: str
    draw: Draw
    labels: tuple[str, ...] | None = None


def _codes(*shares: float) -> Draw:
    return lambda rng, n: rng.choice(len(shares), size=n, p=shares).astype(np.float64)


REGIONS = ("north", "south", "east", "west")
CHANNELS = ("web", "shop", "phone")

CATALOGUE = (
    MadeUpFeature("age", lambda rng, n: rng.integers(18, 91, size=n).astype(np.float64)),
    MadeUpFeature("income", lambda rng, n: np.round(rng.lognormal(np.log(38_000), 0.5, size=n), -2)),
    MadeUpFeature("visits", lambda rng, n: rng.poisson(rng.gamma(2.0, 6.0, size=n)).astype(np.float64)),
    MadeUpFeature("region", _codes(0.3, 0.3, 0.2, 0.2), labels=REGIONS),
    MadeUpFeature("tenure", lambda rng, n: np.round(rng.exponential(4.0, size=n), 1)),
    MadeUpFeature("distance", lambda rng, n: np.round(rng.gamma(1.5, 8.0, size=n), 1)),
    MadeUpFeature("score", lambda rng, n: np.round(rng.beta(2.0, 2.0, size=n), 3)),
    MadeUpFeature("basket", lambda rng, n: np.round(rng.lognormal(np.log(60), 0.8, size=n), 2)),
    MadeUpFeature("channel", _codes(0.5, 0.3, 0.2), labels=CHANNELS),
    MadeUpFeature("temperature", lambda rng, n: np.round(rng.normal(11.0, 8.0, size=n), 1)),
)


def people(n: int, *, n_features: int, rng: np.random.Generator) -> Contexts:
    """Return n equally likely contexts with ids; features beyond the catalogue repeat it, numbered."""
    features = [CATALOGUE[j % len(CATALOGUE)] for j in range(n_features)]
    rounds = [j // len(CATALOGUE) for j in range(n_features)]
    return Contexts.of(
        np.column_stack([feature.draw(rng, n) for feature in features]),
        names=[f.name if again == 0 else f"{f.name}{again + 1}" for f, again in zip(features, rounds, strict=True)],
        categories=[feature.labels for feature in features],
        ids=np.arange(n),
    )


def ranks(contexts: Contexts) -> FloatArray:
    """Return the share of contexts with a smaller value of each feature: (n, d) in [0, 1), whatever the units."""
    ordered = np.sort(contexts.features, axis=0)
    columns = [np.searchsorted(ordered[:, j], contexts.features[:, j]) for j in range(contexts.n_features)]
    return np.column_stack(columns) / len(contexts)

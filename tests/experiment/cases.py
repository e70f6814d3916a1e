"""Small experiments: few people, shallow trees, a large ε."""

from __future__ import annotations

from functools import cache

import numpy as np

import pacbandits as pb
from pacbandits.experiment.protocol import ExperimentProtocol

ACTIONS = ("standard", "discount", "free shipping")
COUNTRIES = ("AT", "DE", "FR")


@cache
def people(n=200, seed=0):
    """Contexts of an age and a country."""
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.integers(18, 80, n), rng.integers(0, len(COUNTRIES), n)])
    return pb.Contexts.of(features, names=["age", "country"], categories=[None, COUNTRIES])


def protocol(**options):
    """A protocol that takes a moment to make."""
    usual = {
        "name": "checkout",
        "contexts": people(),
        "actions": ACTIONS,
        "policies": "trees:depth=1",
        "epsilon": 0.2,
        "seed": 17,
    }
    return ExperimentProtocol(**{**usual, **options})

"""The grid of coefficients: each direction once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pacbandits.policies import Linear
from pacbandits.policies.linear.enumeration import count_directions, directions
from tests.policies.linear.cases import draw_people, grid


@pytest.mark.parametrize(("dimension", "levels"), [(1, 1), (1, 7), (2, 1), (2, 6), (3, 4), (4, 2), (6, 1)])
def test_directions_are_counted_once(dimension: int, levels: int) -> None:
    everything = grid(dimension, levels)
    divisors = np.gcd.reduce(everything, axis=1)
    wanted = {tuple(theta // max(g, 1)) for theta, g in zip(everything, divisors, strict=True)}
    listed = directions(dimension, levels)
    assert {tuple(theta) for theta in listed} == wanted
    assert len(listed) == len(wanted) == count_directions(dimension, levels)


def test_log_size_is_that_of_the_directions() -> None:
    contexts = draw_people(np.random.default_rng(0), 5, 9)
    policies = Linear.learn(contexts, n_actions=11, levels=3)
    assert policies.map.dimension == 100
    assert policies.log_size == pytest.approx(100 * math.log(7), rel=1e-9)
    assert Linear.learn(contexts, n_actions=2, levels=1).log_size <= 10 * math.log(3)

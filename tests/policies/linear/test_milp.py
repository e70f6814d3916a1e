"""The integer program against every parameter of small grids, and how far oracles fall short."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.errors import InputError
from pacbandits.policies import Linear
from pacbandits.policies.features import Given
from pacbandits.policies.linear.classes import SolvedLinear
from tests.examples import examples
from tests.policies.linear.cases import brute_values, draw_people, grid, value, with_phi


@examples(25)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 3), st.booleans())
def test_the_integer_program_finds_the_best(seed: int, n: int, n_actions: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    phi = rng.integers(-2, 3, (n, n_actions, 3)).astype(float) if whole else rng.normal(size=(n, n_actions, 3))
    scores = np.round(rng.normal(size=(n, n_actions)), 1)
    contexts = with_phi(phi)
    policies = Linear.of(Given(n_actions, 3), levels=2, oracle="milp")
    wanted = brute_values(phi, grid(3, 2), scores).max()
    assert value(policies.argmax(contexts, scores), contexts, scores) == pytest.approx(wanted, abs=1e-9)
    assert policies.upper_bound(contexts, scores) == pytest.approx(wanted, abs=1e-9)


def test_the_integer_program_says_when_it_is_too_large() -> None:
    rng = np.random.default_rng(0)
    contexts = draw_people(rng, 3000, 3)
    scores = rng.normal(size=(3000, 3))
    policies = Linear.learn(contexts, n_actions=3, oracle="milp")
    with pytest.raises(InputError, match="3,000 rows are too many for an exact search; use oracle=search"):
        policies.argmax(contexts, scores)
    hasty = SolvedLinear(policies.map, levels=policies.levels, seconds=1e-3)
    with pytest.raises(InputError, match="60 rows are too many for an exact search in 0 s"):
        hasty.argmax(contexts.take(np.arange(60)), scores[:60])


def test_shortfalls() -> None:
    rng = np.random.default_rng(0)
    contexts, scores = draw_people(rng, 9, 9), rng.normal(size=(9, 2))
    policies = Linear.learn(contexts, n_actions=2, levels=2)
    assert not policies.exact
    report = policies.shortfall(contexts, scores)  # by the integer program: 9.7 million parameters
    assert report.exact
    assert report.baseline <= report.found <= report.bound + 1e-12
    assert report.share == pytest.approx((report.found - report.baseline) / (report.bound - report.baseline))
    listed = Linear.learn(contexts, n_actions=2, levels=1).shortfall(contexts, scores)
    assert listed.exact
    assert listed.share == pytest.approx(1.0)
    many, wide = draw_people(rng, 3000, 9), rng.normal(size=(3000, 2))
    rough = policies.shortfall(many, wide)
    assert not rough.exact
    assert rough.bound == pytest.approx(wide.max(axis=1).sum())

"""Reward models on columns that say nothing, say the same, or lie beyond what can be added up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.records import Contexts, Log
from pacbandits.rewards import Additive, Either, Neighbours, Regions, Stacked, default_model
from pacbandits.rewards.base import factored, with_positive_values
from tests.examples import examples

MODELS = {
    "neighbours": lambda _: Neighbours(),
    "weak neighbours": lambda _: Neighbours((0.02,)),
    "additive": Additive.learn,
    "regions": Regions.learn,
    "either": lambda contexts: Either(Neighbours(), Additive.learn(contexts)),
    "twice the same": lambda contexts: Stacked((Additive.learn(contexts), Additive.learn(contexts))),
    "default": default_model,
}


def log_of(features, rng):
    n, d = features.shape
    return Log(
        Contexts(features, tuple(f"x{j}" for j in range(d)), (None,) * d, None, np.full(n, 1 / n)),
        actions=rng.integers(0, 2, n),
        rewards=rng.integers(0, 2, n).astype(float),
        propensities=np.full((n, 2), 0.5),
        rounds=np.zeros(n, dtype=np.int64),
        repeats=np.ones(n, dtype=np.int64),
    )


def column(kind, rng, n):
    return {
        "constant": lambda: np.full(n, rng.choice([0.0, 5.0, 1e300, 1e-300])),
        "scaled": lambda: rng.normal(size=n) * 10.0 ** int(rng.integers(-300, 300)),
        "offset": lambda: 1e15 + rng.normal(size=n),
        "ends": lambda: rng.choice([1.7e308, -1.7e308, 0.0], n),
        "tiny": lambda: rng.choice([5e-324, 1e-310, 0.0], n),
        "few": lambda: rng.integers(0, 3, n).astype(float),
        "far": lambda: rng.standard_cauchy(n) ** 3,
        "patchy": lambda: np.where(rng.random(n) < 0.2, np.nan, rng.standard_cauchy(n)),
        "missing": lambda: np.full(n, np.nan),
    }[kind]()


KINDS = st.sampled_from(["constant", "scaled", "offset", "ends", "tiny", "few", "far", "patchy", "missing"])


@pytest.mark.parametrize("model", MODELS)
@examples(8)
@given(st.lists(KINDS, min_size=1, max_size=6), st.integers(0, 2**32), st.booleans(), st.integers(0, 14))
def test_whatever_the_columns_predictions_are_probabilities(model, kinds, seed, again, repeated):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2, 20, 80]))
    columns = [column(kind, rng, n) for kind in kinds]
    columns += [columns[0], -columns[0] / 2] if again else []
    log = log_of(np.column_stack(columns), rng)
    log = replace(log, repeats=rng.integers(1, 10**repeated + 1, n))
    found = MODELS[model](log.contexts).fit(log).predict(log.contexts)
    assert found.min() >= 0.02
    assert found.max() <= 0.98


@pytest.mark.parametrize("strength", [20.0, 0.2])
def test_missing_numbers_among_far_ones_leave_likeness_without_a_norm(strength):
    """What is missing is as near to 0 as to 30, which are far apart: likeness has negative eigenvalues there."""
    rng = np.random.default_rng(1)
    features = (rng.random((400, 12)) < 0.15).astype(float)
    features[:, 0] = rng.geometric(0.27, 400) + 25 * (rng.random(400) < 0.02)
    features[rng.random(400) < 0.1, 0] = np.nan
    log = log_of(features, rng)
    found = Neighbours((strength,)).fit(log).predict(log.contexts)
    assert found.min() >= 0.02
    assert found.max() <= 0.98
    means = [log.rewards[log.actions == a].mean() for a in (0, 1)]
    errors = (log.rewards - found[np.arange(400), log.actions], log.rewards - np.array(means)[log.actions])
    assert (errors[0] ** 2).sum() < (errors[1] ** 2).sum()  # it has learnt from what it saw


def test_what_is_added_to_a_matrix_is_no_more_than_it_takes():
    good, singular = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[1.0, 1.0], [1.0, 1.0]])
    assert np.array_equal(factored(np.linalg.cholesky, good), np.linalg.cholesky(good))
    for matrix in (singular, np.zeros((2, 2)), 1e300 * singular, 1e-300 * singular):
        root = factored(np.linalg.cholesky, matrix)
        assert np.abs(root @ root.T - matrix).max() <= 1e-13 * max(np.abs(matrix).max(), 1e-290)
    turned = np.array([[1.0, 2.0], [2.0, 1.0]])  # with the eigenvalues 3 and −1
    assert with_positive_values(turned) == pytest.approx(np.array([[2.0, 1.0], [1.0, 2.0]]))

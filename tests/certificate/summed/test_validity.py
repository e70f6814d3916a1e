"""Certificates by sums err no more often than δ says, where much is learnt from rows that also bet."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.certificate.certify import certify
from pacbandits.certificate.summed.limits import RowLimits
from pacbandits.compiled import using_cores
from pacbandits.engines import LogSource
from pacbandits.policies import Finite, Trees
from pacbandits.records import Contexts, parts_of
from tests.certificate.boundary import most
from tests.certificate.summed.cases import QUICK, THREADS, draw

DELTA, RUNS = 0.4, 250
CELLS = np.array([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)])
MEANS = np.array([[0.55, 0.45, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, 0.55], [0.45, 0.5, 0.55]])


def drawn(n, seed, *, order):
    """A log of four contexts, told apart by two features, with small gaps."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 4, n)
    contexts = Contexts.of(CELLS[ids], names=["a", "b"], ids=ids)
    rounds = rng.permutation(np.arange(n) // 150) if order == "rounds, mixed" else None
    return draw(contexts, MEANS[ids], seed + 10**6, fixed=order == "shuffled", rounds=rounds)


def gap_of(policy, best):
    """By how much a policy, or a mixture, is worse than the best of its class."""
    cells = Contexts.of(CELLS, names=["a", "b"], ids=np.arange(4))
    weights = getattr(policy, "weights", (1.0,))
    value = sum(w * MEANS[np.arange(4), one(cells)].mean() for w, one in zip(weights, parts_of(policy), strict=True))
    return best - value


def false_claims(policies, best, *, order, n):
    """In how many runs a certificate claims what is not so, and in how many one claims anything."""
    wrong, claimed = 0, 0
    for seed in range(RUNS):
        log = drawn(n, seed, order=order)
        found = certify(
            LogSource(log),
            policies,
            engine=THREADS,
            delta=DELTA,
            ordered=order == "in order",
            limits=RowLimits(early=400, neighbours=100, watched=400),
            **QUICK,
        )
        claimed += found.certified_epsilon < 1
        wrong += found.certified_epsilon < gap_of(found.policy, best)
    return wrong, claimed


@pytest.mark.slow
@pytest.mark.parametrize("order", ["rounds, mixed", "in order", "shuffled"])
def test_leaders_of_large_logs_err_no_more_often_than_delta_says(order):
    wide = Contexts.of(np.random.default_rng(0).uniform(-1, 2, (90, 2)), names=["a", "b"])
    trees = Trees.learn(wide, n_actions=3, bins=8)  # with more tests than tell contexts apart, so that they are led
    with using_cores(1):
        wrong, claimed = false_claims(trees, MEANS.max(axis=1).mean(), order=order, n=1500)
    assert wrong <= most(RUNS, DELTA)
    assert claimed > RUNS / 2


@pytest.mark.slow
@pytest.mark.parametrize("order", ["none", "rounds, mixed"])
def test_a_union_errs_no_more_often_than_delta_says(order):
    table = np.array([[0, 0, 2, 2], [1, 1, 0, 0], [0, 1, 2, 0], [2, 2, 2, 2]])
    best = max(MEANS[np.arange(4), row].mean() for row in table)
    with using_cores(1):
        wrong, claimed = false_claims(Finite(table, n_actions=3), best, order=order, n=500)
    assert wrong <= most(RUNS, DELTA)
    assert claimed > RUNS / 2

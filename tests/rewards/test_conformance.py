"""Every reward model: guesses inside [0, 1], made of the past alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from instances import seeds
from pacbandits.rewards import (
    Additive,
    CellMeans,
    Either,
    Neighbours,
    PerAction,
    Regions,
    Stacked,
    no_idea,
    predict_by_round,
)
from tests.examples import examples
from tests.rewards.logs import Line, draw


def models(log):
    return {
        "cells": CellMeans(),
        "additive": Additive.learn(log.contexts),
        "regions": Regions.learn(log.contexts, strength=2.0),
        "given": PerAction(Line(), least=3),
        "neighbours": Neighbours((2.0,)),
        "neighbours of several strengths": Neighbours(),
        "either": Either(Regions.learn(log.contexts, strength=2.0), CellMeans()),
        "stacked": Stacked((Regions.learn(log.contexts, strength=2.0), CellMeans(), Neighbours())),
    }


# The others choose by halves of the rows as they stand, so repeats and order matter to them.
KINDS = ("cells", "additive", "regions", "given", "neighbours")
ALL = (*KINDS, "neighbours of several strengths", "either", "stacked")


@pytest.mark.first(3)
@pytest.mark.parametrize("kind", ALL)
@examples(25)
@given(seeds)
def test_predictions_are_probabilities_for_every_action(kind, seed):
    log = draw(seed)
    model = models(log)[kind]
    found = model.fit(log).predict(log.contexts)
    assert found.shape == (len(log), 3)
    assert found.min() >= 0.02
    assert found.max() <= 0.98
    # Equal contexts are predicted alike, and what was never played by something between.
    assert np.array_equal(found, model.fit(log).predict(log.contexts))
    assert np.unique(found[:, 2]).size == 1


@pytest.mark.first(2)
@pytest.mark.parametrize("kind", KINDS)
@examples(25)
@given(seeds)
def test_repeats_are_written_out_rows_in_any_order(kind, seed):
    log = draw(seed)
    rows = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(log)), log.repeats))
    out = replace(log.take(rows), repeats=np.ones(len(rows), dtype=int))
    model = models(log)[kind]
    np.testing.assert_allclose(model.fit(log).predict(log.contexts), model.fit(out).predict(log.contexts), atol=1e-9)


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", ALL)
@examples(25)
@given(seeds)
def test_predictions_are_of_earlier_rounds_only(kind, seed):
    """Neither this round's rows nor later ones matter: not their rewards, actions or repeats."""
    log = draw(seed)
    model = models(log)[kind]
    found = predict_by_round(log, model)
    for number in range(3):
        now = log.rounds == number
        later = log.rounds >= number
        rng = np.random.default_rng(seed + number)
        other = replace(
            log,
            rewards=np.where(later, rng.random(len(log)), log.rewards),
            actions=np.where(later, rng.integers(3, size=len(log)), log.actions),
            repeats=np.where(later, rng.integers(1, 9, size=len(log)), log.repeats),
        )
        assert np.array_equal(predict_by_round(other, model)[log.rounds <= number], found[log.rounds <= number])
        before = log.only(log.rounds < number) if (log.rounds < number).any() else None
        fitted = no_idea(3) if before is None else model.fit(before)
        if now.any():
            assert np.array_equal(found[now], fitted.predict(log.contexts.take(np.flatnonzero(now))))
    first = log.rounds == log.rounds.min()
    assert (found[first] == 0.5).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_rows_and_the_numbers_of_rounds_do_not_matter(kind):
    log = draw(1)
    model = models(log)[kind]
    found = predict_by_round(log, model)
    order = np.random.default_rng(0).permutation(len(log))
    np.testing.assert_allclose(predict_by_round(log.take(order), model), found[order], atol=1e-12)
    spaced = replace(log, rounds=5 + 10 * log.rounds)
    assert np.array_equal(predict_by_round(spaced, model), found)


def test_a_single_row_can_be_fitted():
    log = draw(0, n=1)
    for model in models(log).values():
        assert model.fit(log).predict(log.contexts).shape == (1, 3)

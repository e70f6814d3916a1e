"""Reward models: guesses inside [0, 1] made of the past alone."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from instances import seeds
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log
from pacbandits.rewards.models import (
    Additive,
    CellMeans,
    Either,
    PerAction,
    action_means,
    default_model,
    model_from_json,
    no_idea,
    predict_by_round,
)
from pacbandits.rewards.regions import Regions

LABELS = ("north", "south", "west")


class Line:
    """Least squares on one feature, as small as an estimator can be; it keeps count of what it was shown."""

    seen = 0

    def fit(self, features, rewards):
        assert self.seen == 0  # a copy for each action
        self.seen = len(rewards)
        design = np.column_stack([np.ones(len(features)), features[:, 0]])
        self.slope = np.linalg.lstsq(design, rewards, rcond=None)[0]
        return self

    def predict(self, features):
        return self.slope[0] + self.slope[1] * features[:, 0]


def draw(seed, *, n=40, n_actions=3, rounds=3, repeats=True):
    """A log with a number, a category and ids; the last action is never played."""
    rng = np.random.default_rng(seed)
    which = rng.integers(6, size=n)
    features = np.column_stack([np.sin(which), which % 3])
    contexts = Contexts.of(features, names=["x", "place"], categories=[None, LABELS], ids=2 * which)
    actions = rng.integers(n_actions - 1, size=n)
    means = np.clip(0.5 + 0.3 * features[:, 0] * (1 - 2 * actions) + 0.1 * (which % 3 - 1), 0, 1)
    return Log.of(
        contexts,
        actions=actions,
        rewards=rng.random(n) < means,
        propensities=np.full((n, n_actions), 1 / n_actions),
        rounds=rng.integers(rounds, size=n),
        repeats=rng.integers(1, 5, size=n) if repeats else None,
    )


def models(log):
    return {
        "cells": CellMeans(),
        "additive": Additive.learn(log.contexts),
        "regions": Regions.learn(log.contexts, strength=2.0),
        "given": PerAction(Line(), least=3),
    }


KINDS = ("cells", "additive", "regions", "given")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
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


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(seeds)
def test_repeats_are_written_out_rows_in_any_order(kind, seed):
    log = draw(seed)
    rows = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(log)), log.repeats))
    out = replace(log.take(rows), repeats=np.ones(len(rows), dtype=int))
    model = models(log)[kind]
    np.testing.assert_allclose(model.fit(log).predict(log.contexts), model.fit(out).predict(log.contexts), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
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


def test_cell_means_by_hand():
    contexts = Contexts.of(np.empty((4, 0)), ids=[7, 7, 7, 2])
    propensities = np.full((4, 3), 1 / 3)
    log = Log.of(contexts, actions=[0, 0, 1, 0], rewards=[1, 0, 1, 1], propensities=propensities, repeats=[3, 1, 2, 4])
    overall = (9 + 0.5) / (10 + 1)
    means = np.array([(7 + 2 * overall) / (8 + 2), (2 + 2 * overall) / (2 + 2), overall])
    assert action_means(log) == pytest.approx(means)
    fitted = CellMeans(strength=4).fit(log)
    found = fitted.predict(Contexts.of(np.empty((3, 0)), ids=[7, 2, 100]))
    wanted = [(3 + 4 * means[0]) / 8, (2 + 4 * means[1]) / 6, means[2]]
    assert found[0] == pytest.approx(wanted)
    assert found[1] == pytest.approx([(4 + 4 * means[0]) / 8, means[1], means[2]])
    assert found[2] == pytest.approx(means)  # a context that was never seen
    assert fitted.predict(Contexts.of(np.empty((2, 0)), ids=[0, 5])) == pytest.approx(np.tile(means, (2, 1)))


def test_cell_means_need_ids():
    log = draw(0)
    bare = replace(log, contexts=replace(log.contexts, ids=None))
    with pytest.raises(InputError, match="needs contexts with ids"):
        CellMeans().fit(bare)
    with pytest.raises(InputError, match="no ids"):
        CellMeans().fit(log).predict(bare.contexts)


def test_additive_by_hand():
    """One number cut at 0 and one category: ridge regression on what remains of the action's mean."""
    log = draw(3, n=60)
    model = Additive(((0.0,), 3), strength=2.0)
    found = model.fit(log).predict(log.contexts)
    x, place = log.contexts.features.T
    steps = np.column_stack([x <= 0, x > 0, place == 0, place == 1, place == 2]).astype(float)
    means = action_means(log)
    for action in (0, 1):
        mine = log.actions == action
        rows = np.repeat(np.flatnonzero(mine), log.repeats[mine])
        padded = np.vstack([steps[rows], np.sqrt(2.0) * np.eye(5)])
        target = np.concatenate([log.rewards[rows] - means[action], np.zeros(5)])
        slope = np.linalg.lstsq(padded, target, rcond=None)[0]
        np.testing.assert_allclose(found[:, action], np.clip(means[action] + steps @ slope, 0.02, 0.98), atol=1e-9)
    np.testing.assert_allclose(found[:, 2], np.clip(means[2], 0.02, 0.98))


def test_additive_finds_an_additive_truth_and_takes_any_context():
    rng = np.random.default_rng(0)
    contexts = Contexts.of(
        np.column_stack([rng.normal(size=20_000), rng.integers(3, size=20_000)]), categories=[None, LABELS]
    )
    x, place = contexts.features.T
    means = np.column_stack([0.3 + 0.2 * (x > 0) + 0.1 * place, 0.5 - 0.1 * place])
    actions = rng.integers(2, size=len(contexts))
    rewards = rng.random(len(contexts)) < means[np.arange(len(contexts)), actions]
    log = Log.of(contexts, actions=actions, rewards=rewards, propensities=np.full((len(contexts), 2), 0.5))
    model = Additive.learn(contexts)
    fitted = model.fit(log)
    assert np.abs(fitted.predict(contexts) - means).mean() < 0.03
    # Far outside what was seen, and a label that the log does not have.
    assert fitted.predict(Contexts.of([[1e9, 0.0], [-1e9, 2.0]], categories=[None, LABELS])).shape == (2, 2)
    few = log.only(place < 2)
    unseen = model.fit(few).predict(Contexts.of([[0.5, 2.0]], categories=[None, LABELS]))
    assert ((unseen > 0.02) & (unseen < 0.98)).all()


def test_additive_refuses_other_features():
    log = draw(0)
    fitted = Additive.learn(log.contexts).fit(log)
    with pytest.raises(InputError, match="the model is of 2 features, but the contexts have 1"):
        fitted.predict(Contexts.of([[1.0]]))


def test_additive_cuts_fewer_steps_of_many_features():
    rng = np.random.default_rng(0)
    for d in (1, 25, 100, 600):
        model = Additive.learn(Contexts.of(rng.normal(size=(50, d))))
        assert len(model.cuts) == d
        assert all(not isinstance(c, int) and 1 <= len(c) <= 15 for c in model.cuts)
        assert sum(len(c) + 1 for c in model.cuts) <= max(400, 2 * d)


@pytest.mark.parametrize("labels", [("north", "south"), None])
def test_additive_on_contexts_that_do_not_know_all_labels(labels):
    """A sentence, or a guess; not an error of matrix shapes."""
    log = draw(0)
    fitted = Additive.learn(log.contexts).fit(log)
    contexts = Contexts.of([[0.0, 1.0]], names=["x", "place"], categories=[None, labels])
    with contextlib.suppress(InputError):
        assert fitted.predict(contexts).shape == (1, 3)


def test_per_action_fits_a_copy_for_each_action():
    log = draw(4)
    estimator = Line()
    found = PerAction(estimator, least=3).fit(log).predict(log.contexts)
    assert estimator.seen == 0
    for action in (0, 1):
        mine = log.actions == action
        rows = np.repeat(np.flatnonzero(mine), log.repeats[mine])
        own = Line().fit(log.contexts.features[rows], log.rewards[rows])
        np.testing.assert_allclose(found[:, action], np.clip(own.predict(log.contexts.features), 0.02, 0.98))
    assert found[:, 2] == pytest.approx(action_means(log)[2])


def test_per_action_takes_the_mean_of_what_was_seen_too_seldom():
    log = draw(5)
    seen = np.bincount(log.actions, weights=log.repeats, minlength=3)
    for least in (int(seen[0]), int(seen[0]) + 1):
        found = PerAction(Line(), least=least).fit(log).predict(log.contexts)
        assert (np.unique(found[:, 0]).size == 1) == (seen[0] < least)
    found = PerAction(Line(), least=10**6).fit(log).predict(log.contexts)
    np.testing.assert_allclose(found, np.tile(action_means(log), (len(log), 1)))


def test_models_come_back_from_json():
    log = draw(6)
    for model in (CellMeans(), CellMeans(3.5), Additive.learn(log.contexts, strength=7.0), default_model(log.contexts)):
        told = json.loads(json.dumps(model.to_json(), allow_nan=False))
        back = model_from_json(told)
        assert back == model
        assert np.array_equal(back.fit(log).predict(log.contexts), model.fit(log).predict(log.contexts))
    given = PerAction(Line()).to_json()
    assert given == {"kind": "given", "estimator": "Line"}
    for bad in (given, {}, {"kind": "magic"}):
        with pytest.raises(InputError, match="cannot be made again from a file; pass it"):
            model_from_json(bad)


def test_the_default_model_fits_the_contexts():
    assert default_model(Contexts.finite(3)) == CellMeans()
    assert isinstance(default_model(draw(0).contexts), Either)


def uniform_log(means, features, *, seed, categories=None):
    """Every action equally likely; rewards of the given means (n, A)."""
    rng = np.random.default_rng(seed)
    n, n_actions = means.shape
    actions = rng.integers(n_actions, size=n)
    return Log.of(
        Contexts.of(features, categories=categories),
        actions=actions,
        rewards=rng.random(n) < means[np.arange(n), actions],
        propensities=np.full((n, n_actions), 1 / n_actions),
    )


def error(fitted, contexts, means):
    return np.sqrt(((fitted.predict(contexts) - means) ** 2).mean())


def by_region(x):
    """Two actions that change places in one quarter, which no sum of steps can tell."""
    corner = (x[:, 0] > 0) & (x[:, 1] > 0)
    return np.column_stack([np.where(corner, 0.8, 0.3), np.where(corner, 0.3, 0.6)])


def by_sum(x):
    return np.clip(0.5 + 0.12 * x @ np.array([[1, -1], [1, 1], [-1, 1]]), 0.02, 0.98)


def test_regions_find_what_depends_on_two_features_together():
    x = np.random.default_rng(0).normal(size=(4000, 3))
    log = uniform_log(by_region(x), x, seed=1)
    regions = Regions.learn(log.contexts).fit(log)
    assert error(regions, log.contexts, by_region(x)) < 0.05
    assert error(regions, log.contexts, by_region(x)) < 0.5 * error(
        Additive.learn(log.contexts).fit(log), log.contexts, by_region(x)
    )
    assert 3 <= len(regions.root) <= 6


def test_regions_see_labels():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(3, size=3000), rng.normal(size=3000)])
    means = np.column_stack([np.where(x[:, 0] == 1, 0.8, 0.3), np.full(3000, 0.5)])
    log = uniform_log(means, x, seed=1, categories=[LABELS, None])
    fitted = Regions.learn(log.contexts).fit(log)
    assert len(fitted.root) == 2
    assert error(fitted, log.contexts, means) < 0.03


def test_there_is_one_region_where_there_is_nothing_to_see():
    x = np.random.default_rng(0).normal(size=(2000, 6))
    many = [len(Regions.learn(log.contexts).fit(log).root) for log in _of_noise(x)]
    assert sum(size > 1 for size in many) <= 2


def _of_noise(x):
    return [uniform_log(np.full((len(x), 8), 0.5), x, seed=seed) for seed in range(10)]


def test_an_action_seldom_seen_in_a_region_borrows_from_the_region_above():
    x = np.random.default_rng(0).normal(size=(4000, 3))
    log = uniform_log(by_region(x), x, seed=1)
    corner = (x[:, 0] > 0) & (x[:, 1] > 0)
    rare = log.only(~(corner & (log.actions == 1)))
    found = Regions.learn(rare.contexts).fit(rare).predict(log.contexts)[corner, 1]
    assert 0.5 < found.mean() < 0.7  # of action 1 everywhere else: 0.6


@pytest.mark.parametrize(("means", "better"), [(by_region, Regions), (by_sum, Additive)])
def test_of_two_models_the_better_one_is_kept(means, better):
    x = np.random.default_rng(0).normal(size=(4000, 3))
    log = uniform_log(means(x), x, seed=1)
    model = default_model(log.contexts)
    assert np.array_equal(
        model.fit(log).predict(log.contexts), better.learn(log.contexts).fit(log).predict(log.contexts)
    )


def test_a_single_row_can_be_fitted():
    log = draw(0, n=1)
    assert default_model(log.contexts).fit(log).predict(log.contexts).shape == (1, 3)

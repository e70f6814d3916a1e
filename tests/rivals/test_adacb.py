"""AdaCB: its formulas by hand, its candidates, its adaptive rate, and regret that flattens where there is a gap."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from pacbandits.rivals.adacb import ConfidenceSet, Disagreement
from pacbandits.rivals.inverse_gaps import inverse_gaps
from pacbandits.rivals.regression import ContextCoordinates, fit_ridge
from tests.rivals.oracle_cases import easy, made, regret_slope, seen_evenly, states_of


def test_the_radius_and_the_rate_are_the_published_ones():
    problem = easy()
    algorithm = made("adacb:confidence=0.5,gamma=3,budget=10000", problem)
    size = 12 * math.log(1 + 10_000 / 12) + math.log(2 * 10_000**2 / 0.1)
    assert algorithm.epochs == 14
    assert algorithm.entropy(12) == pytest.approx(size)
    assert algorithm.squared_error(12, 1000) == pytest.approx(0.5 * 16 * (14 - 10 + 1) * size)
    assert algorithm.squared_error(12, 0) == pytest.approx(0.5 * 16 * 14 * size)
    assert algorithm.squared_error(12, 10_000) == pytest.approx(0.5 * 16 * size)
    kept = Disagreement(ContextCoordinates.of(problem.population), None, share=0.2, before=0.25)
    rate = algorithm.rate(12, 1000, n_actions=3, disagreement=kept)
    assert rate == pytest.approx(3 * (0.2 / 0.5) * math.sqrt(3 * 500 / size))


def test_candidates_are_the_actions_whose_intervals_overlap():
    problem = easy()
    seen = seen_evenly(problem, 3000)
    model = fit_ridge(seen, coordinates=ContextCoordinates.of(problem.population))
    for radius in (0.01, 1.0, 30.0, 1e6):
        means, candidates = ConfidenceSet(model, radius).candidates(problem.population)
        for context in range(4):
            ends = []
            for action in range(3):
                plays, total = seen.plays[context, action], seen.sums[context, action]
                mean, width = total / (1 + plays), math.sqrt(radius / (1 + plays))
                assert means[context, action] == pytest.approx(mean)
                ends.append((max(mean - width, 0.0), min(mean + width, 1.0)))
            highest = max(low for low, _ in ends)
            assert candidates[context].tolist() == [high >= highest for _, high in ends]
        assert candidates[np.arange(4), means.argmax(axis=1)].all()
    assert candidates.all()


def test_it_plays_candidates_alone_and_counts_where_there_are_several():
    problem = easy()
    algorithm = made("adacb:confidence=0.002,budget=4000", problem)
    states, _ = states_of(algorithm, problem)
    shares, alone = [], 0
    for before, state in pairwise(states):
        kept, plan = before.memory, algorithm.design(before)
        means, candidates = kept.functions.candidates(problem.population)
        played = plan.sampler.propensities(problem.population)
        assert np.allclose(played, inverse_gaps(means, gamma=plan.details["gamma"], candidates=candidates))
        assert (played[~candidates] == 0).all()
        alone += int((candidates.sum(axis=1) == 1).sum())
        _, later = state.memory.functions.candidates(problem.population)
        several = state.seen.counts[later.sum(axis=1) > 1].sum() / state.samples
        smoothing = 64 * math.log(4 * 12 / 0.1) / (state.samples / 2)
        assert state.memory.share == pytest.approx(several + smoothing)
        assert state.memory.before == kept.share
        shares.append(several)
    assert alone > 0
    assert shares[0] == 1
    assert shares[-1] < 1


def test_without_knowledge_all_actions_are_alike():
    problem = easy()
    algorithm = made("adacb", problem)
    plan = algorithm.design(algorithm.start(problem.policies, problem.population))
    assert np.allclose(plan.sampler.propensities(problem.population), 1 / 3)


@pytest.mark.thorough
def test_regret_flattens_where_there_is_a_gap():
    """Once one action is left in every context there is no more regret, as there still is with all of them."""
    slope, right = regret_slope("adacb:confidence=0.002,growth=0.3,budget=30000", easy(), since=5000)
    assert slope < 0.3
    assert right == 3
    wide, _ = regret_slope("adacb:confidence=1,growth=0.3,budget=30000", easy(), since=5000)
    assert 0.4 < wide < 0.8

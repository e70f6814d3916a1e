"""What designs cost in truth, when the gaps they are made for are estimates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacbandits.complexity import measure_gaps
from pacbandits.design import DesignTask, Shifted, price_propensities
from pacbandits.policies.finite import Finite
from pacbandits.problems import load_problem
from pacbandits.records import Design
from pacbandits.trials.coda import (
    COUNTED_GAP_SHARE,
    MAX_EVEN_SHARE,
    Coda,
    NoisyDesign,
    believed_price,
    design_task,
    even_share,
    explore_uniformly,
    explore_with,
    heaviest,
)


def test_what_is_played_evenly_follows_the_error_of_gaps():
    assert even_share(error=0.5, advantage=2.0) == pytest.approx(0.3)
    assert even_share(error=0.25, advantage=2.0) == pytest.approx(0.15)
    assert even_share(error=0.5, advantage=5.0) == pytest.approx(0.0375)
    assert even_share(error=10.0, advantage=2.0) == MAX_EVEN_SHARE
    assert even_share(error=0.01, advantage=1.0) == MAX_EVEN_SHARE


def test_the_heaviest_of_a_design_come_first():
    policies = Finite([[k % 3, k // 3] for k in range(9)], n_actions=3)
    support = tuple(policies.policy(k) for k in range(1, 5))
    design = Design(support, np.array([0.05, 3.0, 0.02, 4.0]), policies.policy(0))
    assert heaviest(design, most=3) == (support[3], support[1], support[0])
    assert heaviest(design, most=9) == (support[3], support[1], support[0], support[2])
    assert heaviest(Design.uniform(policies.policy(0)), most=3) == ()


def true_prices(problem, state, samplers, *, epsilon):
    """V/d² of the policy that each sampler serves worst, by true gaps and what the model of the state errs by."""
    gaps, population = measure_gaps(problem, problem.policies), problem.population
    errors = problem.mean_rewards - state.fitted.predict(population)
    task = DesignTask(
        problem.policies,
        population,
        reference=gaps.best,
        gaps=gaps.scores,
        scale=Shifted(epsilon, COUNTED_GAP_SHARE),
        noise=problem.noise_variance + errors**2,
    )
    return np.array([price_propensities(task, one.propensities(population)).upper for one in samplers])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("spec", "most", "unhedged"),
    [
        ("trivial:contexts=12,actions=6", 1.05, 1.2),  # each action is best for somebody, or seems to be
        ("two-of-many:actions=8,policies=60,contexts=20", 0.8, 0.0),  # where a design is worth it, it is played
    ],
)
def test_early_designs_cost_no_more_than_uniform_exploration(spec, most, unhedged):
    """On average over seeds, by the truth; the same designs without the hedge follow noise."""
    problem, trial, ratios = load_problem(spec), Coda(0.05, 0.05, pilot=500), []
    for seed in range(6):
        start = trial.start(problem.policies, problem.population)
        plan = trial.design(start)
        state = trial.absorb(start, plan, problem.interact(plan.sampler, samples=500, rng=np.random.default_rng(seed)))
        sampler = trial.explore(state).sampler
        assert isinstance(sampler, NoisyDesign)
        alone = NoisyDesign(replace(sampler.design, even_share=0.0), sampler.fitted)
        prices = true_prices(problem, state, (sampler, alone, Design.uniform(state.policy)), epsilon=0.05)
        ratios.append(prices[:2] / prices[2])
    hedged, alone = np.mean(ratios, axis=0)
    assert hedged <= most
    assert alone >= unhedged


def test_of_what_a_design_seems_to_save_the_root_is_believed():
    assert believed_price(100.0, even=400.0) == pytest.approx(200.0)
    assert believed_price(400.0, even=400.0) == 400.0
    assert believed_price(500.0, even=400.0) == 500.0  # what is dearer than uniform exploration is not flattered


@pytest.mark.thorough
@pytest.mark.parametrize(
    "spec", ["trees:actions=8,contexts=1000", pytest.param("digits:flip=0.2", marks=pytest.mark.slow)]
)
def test_what_is_believed_of_a_design_is_nearer_to_the_truth_than_what_it_claims(spec):
    """On average over seeds: designs of large classes claim to save more than they do, as they are fitted to noise."""
    problem, trial, savings = load_problem(spec), Coda(0.1, 0.1, pilot=2000), []
    for seed in range(4):
        start = trial.start(problem.policies, problem.population)
        plan = trial.design(start)
        state = trial.absorb(start, plan, problem.interact(plan.sampler, samples=2000, rng=np.random.default_rng(seed)))
        played = trial.explore(state)
        task = design_task(state, state.fitted, epsilon=0.1, floor=trial.floor)
        even, claimed = explore_uniformly(state, task).price, explore_with(state, task, played.sampler).price
        mine, plain = true_prices(problem, state, (played.sampler, Design.uniform(state.leader)), epsilon=0.1)
        savings.append(np.log([even / claimed, even / played.price, plain / mine]))
    claimed, believed, true = np.mean(savings, axis=0)
    assert claimed > true + 0.15
    assert abs(believed - true) < 0.6 * (claimed - true)

"""What explorations cost in truth, when the gaps that designs are made for are estimates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pacbandits.complexity import measure_gaps
from pacbandits.design import DesignTask, Shifted, price_propensities
from pacbandits.policies.base import CountedClass
from pacbandits.policies.finite import Finite
from pacbandits.policies.trees import Trees
from pacbandits.problems import load_problem
from pacbandits.records import Contexts, Design
from pacbandits.trials import coda
from pacbandits.trials.coda import (
    COUNTED_GAP_SHARE,
    Coda,
    Draw,
    Draws,
    NoisyDesign,
    design_task,
    explore_uniformly,
    explore_with,
    find_gaps,
    heaviest,
    missed_scores,
    share_beyond_chance,
)


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


def play(trial, problem, *, samples, seed):
    """The state after a pilot of so many samples."""
    start = trial.start(problem.policies, problem.population)
    plan = trial.design(start)
    log = problem.interact(plan.sampler, samples=samples, rng=np.random.default_rng(seed))
    return trial.absorb(start, plan, log)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("spec", "most"),
    [
        ("trivial:contexts=12,actions=6", 1.05),  # each action is best for somebody, or seems to be
        ("two-of-many:actions=8,policies=60,contexts=20", 0.8),  # where a design is worth it, it is played
    ],
)
def test_early_explorations_cost_no_more_than_uniform_exploration(spec, most):
    """On average over seeds, by the truth."""
    problem, trial, ratios = load_problem(spec), Coda(0.05, 0.05, pilot=500), []
    for seed in range(24):
        state = play(trial, problem, samples=500, seed=seed)
        even = Design.uniform(state.leader)
        prices = true_prices(problem, state, (trial.explore(state).sampler, even), epsilon=0.05)
        ratios.append(prices[0] / prices[1])
    assert np.mean(ratios) <= most


def prefer_designs(draws, sampler, *, price):
    return 1.0 if isinstance(sampler, NoisyDesign) else 2.0


@pytest.mark.thorough
@pytest.mark.parametrize(
    "spec", ["trees:actions=8,contexts=500,depth=1", pytest.param("digits:flip=0.2", marks=pytest.mark.slow)]
)
def test_what_is_believed_of_a_design_is_nearer_to_the_truth_than_what_it_claims(spec, monkeypatch):
    """On average over seeds: designs claim to save more than they do, as they are fitted to noise."""
    monkeypatch.setattr(coda, "EVEN_SHARES", (0.0,))
    problem, trial, savings = load_problem(spec), Coda(0.1, 0.1, pilot=1000), []
    for seed in range(4):
        state = play(trial, problem, samples=1000, seed=seed)
        findings = find_gaps(state, state.fitted)
        task = design_task(state, state.fitted, epsilon=0.1, floor=trial.floor)
        even = explore_uniformly(state, task)
        with monkeypatch.context() as patched:
            patched.setattr(Draws, "people", prefer_designs)
            design = trial.explore(state).sampler  # as solved, whatever the draws say of it
        assert isinstance(design, NoisyDesign)
        draws = Draws.of(trial, state, findings)
        plain, own = (draws.people(one, price=even.price) for one in (even.sampler, design))
        mine, uniform = true_prices(problem, state, (design, Design.uniform(state.leader)), epsilon=0.1)
        claimed = explore_with(state, task, design).price
        savings.append(np.log([even.price / claimed, plain / own, uniform / mine]))
    claimed, believed, true = np.mean(savings, axis=0)
    assert abs(believed - true) < 0.75 * abs(claimed - true)


# Draws of what the data leave possible.


def draws_of_pair(*, gap, luck, probabilities=(0.5, 0.5), epsilon=0.1, nats=5.0, multipliers=(1.0,), policies=None):
    """One context, two actions, of which the second is worse; its policy has the luck given."""
    people = Contexts.finite(1)
    means = np.array([[0.5, 0.5 - gap]])
    draw = Draw(means, np.zeros(1, dtype=np.int64), np.array([[0.0, gap]]), np.array([[0.0, -luck]]), np.zeros(1))
    policies = CountedClass(Finite([[0], [1]], n_actions=2) if policies is None else policies)
    return Draws(policies, people, np.full((1, 2), 0.25), epsilon, np.array(multipliers), nats, (draw,))


class Given:
    """A sampler with the same probabilities for everybody."""

    def __init__(self, *probabilities):
        self.given = np.array(probabilities)
        self.n_actions = len(probabilities)

    def propensities(self, contexts):
        return np.tile(self.given, (len(contexts), 1))


@pytest.mark.parametrize("gap", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("probabilities", [(0.5, 0.5), (0.8, 0.2)])
def test_a_trial_of_two_policies_ends_when_the_best_stake_refutes_the_other(gap, probabilities):
    draws = draws_of_pair(gap=gap, luck=0.0)
    variance = 0.25 * sum(1 / p for p in probabilities)
    expected = 2 * 5.0 * variance / (0.1 + gap) ** 2
    assert draws.people(Given(*probabilities), price=1e9) == pytest.approx(expected, rel=0.02)
    two = draws_of_pair(gap=gap, luck=0.0, multipliers=(0.5, 1.0))
    assert expected < two.people(Given(*probabilities), price=1e9) < 1.2 * expected  # experts share the first wealth


def test_a_lucky_rival_is_refuted_later_and_more_so_if_it_is_played_rarely():
    price = 1e9
    for luck in (1.0, 2.0):
        lucky, plain = draws_of_pair(gap=0.1, luck=-luck), draws_of_pair(gap=0.1, luck=0.0)
        often, rarely = ([one.people(Given(1 - p, p), price=price) for one in (lucky, plain)] for p in (0.5, 0.1))
        assert often[0] > 1.2 * often[1]
        assert rarely[0] / rarely[1] > often[0] / often[1]


def test_the_mean_over_draws_is_that_of_logarithms():
    one, two = draws_of_pair(gap=0.0, luck=0.0), draws_of_pair(gap=0.3, luck=0.0)
    both = replace(one, draws=(*one.draws, *two.draws))
    apart = [each.people(Given(0.5, 0.5), price=1e9) for each in (one, two)]
    assert both.people(Given(0.5, 0.5), price=1e9) == pytest.approx(math.sqrt(apart[0] * apart[1]))


def test_rare_rewards_of_rarely_played_actions_cost_people_by_the_stakes_at_risk():
    rare = draws_of_pair(gap=0.0, luck=0.0, epsilon=0.05)
    draw = replace(rare.draws[0], means=np.full((1, 2), 0.03))
    rare = replace(rare, draws=(draw,), noise=np.full((1, 2), 0.03 * 0.97))
    small, large = (rare.people(Given(0.95, 0.05), price=price) for price in (1e6, 100.0))
    assert large > 1.05 * small


def test_oracles_find_what_a_list_holds():
    """The same class, once listed and once only searched."""
    rng = np.random.default_rng(0)
    people = Contexts.of(rng.normal(size=(30, 2)), ids=np.arange(30))
    trees = Trees.learn(people, n_actions=3, depth=1, bins=4)
    table = np.unique([trees.argmax(people, rng.normal(size=(30, 3)))(people) for _ in range(4000)], axis=0)
    means = rng.uniform(0.3, 0.7, size=(30, 3))
    best = trees.argmax(people, means)(people)
    gaps = (means[np.arange(30), best][:, None] - means) / 30
    draw = Draw(means, best, gaps, rng.standard_normal((30, 3)), rng.standard_normal(30))
    common = (np.full((30, 3), 0.24), 0.1, np.array([0.4, 0.8]), 3.0, (draw,))
    listed = Draws(CountedClass(Finite(table, n_actions=3)), people, *common)
    searched = Draws(CountedClass(trees), people, *common)
    for share in (0.2, 0.5):
        sampler = Given(share, (1 - share) / 2, (1 - share) / 2)
        assert searched.people(sampler, price=200.0) == pytest.approx(listed.people(sampler, price=200.0), rel=0.06)
    assert searched.policies.calls > 0
    assert listed.policies.calls == 0


def test_what_a_model_misses_is_told_from_chance():
    rng, n = np.random.default_rng(1), 200
    squares = np.full((n, 3), 1e-6)
    best, policies = np.zeros(n, dtype=np.int64), rng.integers(3, size=(300, n))
    noise = rng.standard_normal((n, 3)) * 1e-3
    assert share_beyond_chance(noise, squares, best, policies) < 0.5
    real = noise + np.array([0.0, 3e-4, 3e-4])
    shares = [share_beyond_chance(noise + times * (real - noise), squares, best, policies) for times in (1, 3, 10)]
    assert shares == sorted(shares)
    assert shares[-1] > 0.9
    assert share_beyond_chance(noise, np.zeros((n, 3)), best, policies) == 0.0
    assert share_beyond_chance(np.zeros((n, 3)), squares, best, policies) == 0.0


def test_what_a_model_misses_is_what_doubly_robust_estimates_add():
    problem, trial = load_problem("two-of-many:actions=4,policies=10,contexts=5"), Coda(0.1, 0.1, pilot=300)
    state = play(trial, problem, samples=300, seed=3)
    findings = find_gaps(state, state.fitted)
    ledger, reference = findings.ledger, findings.reference(findings.ledger.contexts)
    missed, squares = missed_scores(findings)
    gaps, _ = ledger.gaps(findings.mixed, reference=reference)
    rows = np.arange(len(reference))
    model = state.fitted.predict(ledger.contexts)
    predicted = (model[rows, reference][:, None] - model) * (ledger.counts / ledger.samples)[:, None]
    np.testing.assert_allclose(gaps - predicted, missed[rows, reference][:, None] - missed, atol=1e-12)
    assert (squares >= 0).all()


def test_the_error_of_a_fit_shrinks_with_the_data():
    problem, sizes = load_problem("trivial:contexts=4,actions=3,gap=0.3"), []
    for samples in (200, 20_000):
        trial = Coda(0.1, 0.1, pilot=samples)
        state = play(trial, problem, samples=samples, seed=0)
        draws = Draws.of(trial, state, find_gaps(state, state.fitted))
        assert len(draws.draws) == 2 * coda.SPLITS
        sizes.append(np.abs(draws.draws[0].means - draws.draws[1].means).mean() / 2)
        middle = (draws.draws[0].means + draws.draws[1].means) / 2
        np.testing.assert_allclose(middle, state.fitted.predict(draws.contexts), atol=0.02)
    assert 3 < sizes[0] / sizes[1] < 40  # ten times, as 100 times the data, up to chance

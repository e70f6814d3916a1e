"""A round of interactions has the law of independent draws, however many there are."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.stats import binom, chi2, kstest, norm

from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Gaussian, Problem, load_problem
from pacbandits.records import Contexts, Design, Log

RARE = 1e-6
TABLE = Finite([[0, 1, 2, 0], [1, 1, 0, 2], [2, 0, 1, 1], [0, 2, 2, 2]], n_actions=3)
MEANS = np.array([[0.1, 0.9, 0.5], [0.0, 1.0, 0.3], [0.25, 0.5, 0.75], [0.6, 0.4, 0.2]])


def make_problem(noise=None):
    return Problem(
        name="example",
        description="Four contexts, three actions.",
        population=Contexts.finite(4, weights=[0.5, 0.3, 0.15, 0.05]),
        mean_rewards=MEANS,
        noise=Bernoulli() if noise is None else noise,
        policies=TABLE,
    )


def make_design():
    return Design(
        (TABLE.policy(1), TABLE.policy(2), TABLE.policy(3)), np.array([1.0, 0.2, 3.0]), TABLE.policy(0), floor=0.02
    )


def cells(log: Log):
    """How often each context and action came: (4, 3)."""
    counts = np.zeros((4, 3), dtype=int)
    np.add.at(counts, (log.contexts.ids, log.actions), log.repeats)
    return counts


@pytest.mark.parametrize("noise", [None, Gaussian(0.3)])
@pytest.mark.parametrize("samples", [1, 7, 5_000])
def test_what_a_log_says(noise, samples):
    problem, design = make_problem(noise), make_design()
    log = problem.interact(design, samples=samples, rng=np.random.default_rng(1), round_number=3)
    assert log.samples == samples
    assert (log.rounds == 3).all()
    assert log.n_actions == 3
    assert np.array_equal(log.propensities, design.propensities(problem.population)[log.contexts.ids])
    if noise is None:
        assert np.isin(log.rewards, [0, 1]).all()
        assert len(log) <= 4 * 3 * 2
        assert len(log) == len({*zip(log.contexts.ids, log.actions, log.rewards, strict=True)})
    else:
        assert len(log) == samples
        assert (log.repeats == 1).all()


@pytest.mark.parametrize("samples", [200, 100_000, 10**12])
def test_contexts_actions_and_coin_flips_come_with_the_right_frequencies(samples):
    problem, design = make_problem(), make_design()
    p = design.propensities(problem.population)
    log = problem.interact(design, samples=samples, rng=np.random.default_rng(samples % 1000))
    counts = cells(log)
    expected = problem.population.weights[:, None] * p
    level = RARE / (2 * 12 * 3)
    assert (binom.cdf(counts, samples, expected) >= level).all()
    assert (binom.sf(counts - 1, samples, expected) >= level).all()
    # Together: Pearson's statistic over the cells, which has 11 degrees of freedom.
    statistic = ((counts - samples * expected) ** 2 / (samples * expected)).sum()
    if (samples * expected).min() > 20:
        assert chi2.ppf(RARE, 11) <= statistic <= chi2.isf(RARE, 11)
    won = np.zeros((4, 3), dtype=int)
    ones = log.rewards == 1
    np.add.at(won, (log.contexts.ids[ones], log.actions[ones]), log.repeats[ones])
    assert (binom.cdf(won, counts, MEANS) >= level).all()
    assert (binom.sf(won - 1, counts, MEANS) >= level).all()


@pytest.mark.slow
def test_small_rounds_have_the_right_law_too():
    """Over many rounds of 3 interactions: the number of visits to each cell is binomial, not only on average."""
    problem, design = make_problem(), make_design()
    rng = np.random.default_rng(5)
    runs = 2000
    p = problem.population.weights[:, None] * design.propensities(problem.population)
    visits = np.zeros((4, 4, 3), dtype=int)
    for _ in range(runs):
        counts = cells(problem.interact(design, samples=3, rng=rng))
        for k in range(4):
            visits[k] += counts == k
    for k in range(4):
        chance = binom.pmf(k, 3, p)
        level = RARE / (2 * 4 * 12)
        assert (binom.cdf(visits[k], runs, chance) >= level).all()
        assert (binom.sf(visits[k] - 1, runs, chance) >= level).all()


def test_gaussian_rewards_have_the_right_law():
    variance = np.array([[0.5, 0.1, 0.2], [1.0, 2.0, 0.3], [0.4, 0.1, 0.1], [0.7, 0.2, 3.0]])
    problem, design = make_problem(Gaussian(variance)), make_design()
    samples = 40_000
    log = problem.interact(design, samples=samples, rng=np.random.default_rng(9))
    expected = problem.population.weights[:, None] * design.propensities(problem.population)
    level = RARE / (2 * 12)
    assert (binom.cdf(cells(log), samples, expected) >= level).all()
    assert (binom.sf(cells(log) - 1, samples, expected) >= level).all()
    at = (log.contexts.ids, log.actions)
    standard = (log.rewards - MEANS[at]) / np.sqrt(variance[at])
    assert kstest(standard, norm.cdf).pvalue > RARE
    for c in range(4):
        for a in range(3):
            here = standard[(log.contexts.ids == c) & (log.actions == a)]
            assert kstest(here, norm.cdf).pvalue > RARE / 12


def test_without_noise_rewards_are_their_means():
    log = make_problem(Gaussian(0.0)).interact(make_design(), samples=50, rng=np.random.default_rng(0))
    assert np.array_equal(log.rewards, MEANS[log.contexts.ids, log.actions])


def test_a_trillion_coin_flips_are_instant_and_small():
    problem, design = make_problem(), make_design()
    began = time.perf_counter()
    log = problem.interact(design, samples=10**12, rng=np.random.default_rng(0))
    assert time.perf_counter() - began < 1.0
    assert log.samples == 10**12
    assert len(log) <= 24


def test_too_many_gaussian_rewards_are_refused_with_the_estimate():
    problem = make_problem(Gaussian(1.0))
    most = problem.most_drawn_entries // 3
    problem.check_affordable(most)
    make_problem().check_affordable(10**15)
    with pytest.raises(InputError, match=r"1e\+12 interactions .* 6e\+04 GB; at most 1\.67e\+07 fit") as caught:
        problem.interact(make_design(), samples=10**12, rng=np.random.default_rng(0))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError):
        problem.check_affordable(most + 1)


def test_the_same_generator_gives_the_same_log():
    for noise in (None, Gaussian(0.5)):
        first, second = (
            make_problem(noise).interact(make_design(), samples=1000, rng=np.random.default_rng(4)) for _ in range(2)
        )
        assert np.array_equal(first.rewards, second.rewards)
        assert np.array_equal(first.repeats, second.repeats)
        assert np.array_equal(first.contexts.ids, second.contexts.ids)


def test_contexts_that_cannot_occur_do_not():
    problem = Problem(
        name="example",
        description="Three contexts, one of which never comes.",
        population=Contexts.finite(3, weights=[0.5, 0.0, 0.5]),
        mean_rewards=np.full((3, 2), 0.5),
        noise=Bernoulli(),
        policies=Finite([[0, 0, 0]], n_actions=2),
    )
    design = Design((), np.empty(0), problem.policies.policy(0))
    log = problem.interact(design, samples=10**9, rng=np.random.default_rng(0))
    assert set(log.contexts.ids) == {0, 2}


@pytest.mark.parametrize("samples", [1, 10**6, 10**17, 2**62])
@pytest.mark.parametrize("last", [0.0, 1e-300])
def test_what_rounding_leaves_over_goes_to_no_action_or_context_that_cannot_occur(samples, last):
    """Ten times 0.1 is not quite 1 to a computer, and numpy gives the rest, times n, to the last category."""
    weights = np.append(np.full(10, 0.1), last)
    n = len(weights)
    problem = Problem(
        name="example",
        description="Eleven contexts and actions, the last of which never come.",
        population=Contexts.finite(n, weights=weights),
        mean_rewards=np.full((n, n), 0.5),
        noise=Bernoulli(),
        policies=Finite([[0] * n], n_actions=n),
    )

    class Ten:
        n_actions = n

        def propensities(self, contexts):
            return np.tile(weights, (len(contexts), 1))

    for seed in range(20):
        log = problem.interact(Ten(), samples=samples, rng=np.random.default_rng(seed))
        assert log.samples == samples
        assert log.contexts.ids.max() < 10
        assert log.actions.max() < 10
        if samples >= 10**17:
            assert len({*zip(log.contexts.ids, log.actions, strict=True)}) == 100


def test_more_interactions_than_can_be_counted_are_refused():
    problem = make_problem()
    problem.check_affordable(2**62)
    for samples in (2**62 + 1, 2**63, 10**300):
        with pytest.raises(InputError, match=r"more than can be counted \(at most 2\^62") as caught:
            problem.interact(make_design(), samples=samples, rng=np.random.default_rng(0))
        assert len(str(caught.value)) < 200


def test_means_outside_the_unit_interval_are_no_case_for_the_algorithms():
    problem = Problem(
        name="example",
        description="Rewards of other units.",
        population=Contexts.finite(1),
        mean_rewards=np.array([[-3.0, 5.0]]),
        noise=Gaussian(1.0),
        policies=Finite([[0], [1]], n_actions=2),
    )
    with pytest.raises(InputError, match=r"mean rewards in \[0, 1\], but here they range from -3 to 5; rescale"):
        _ = problem.reward_bounds
    assert load_problem("hard").reward_bounds.second_moment == 2.0

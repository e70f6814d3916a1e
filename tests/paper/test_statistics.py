"""What the theorems promise, on runs: right with probability 1 − δ, within the sample complexity with its constant.

The constants of the proofs leave much room, so that errors are far rarer than δ. Runs are therefore made at a small δ,
where even one error is too many; that the constants are what the proofs need is shown in `tests/test_confidence.py`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import binom
from tests.algorithms.cases import make
from tests.paper.cases import LISTED, NAMES

from pacbandits.complexity import measure_gaps, measure_rho
from pacbandits.confidence import (
    CODA_ORACLE_THEOREM_FACTOR,
    CODA_THEOREM_FACTOR,
    COMMON_GAMMA_THEOREM_FACTOR,
    RAGE_FREE_THEOREM_FACTOR,
    RAGE_THEOREM_FACTOR,
    round_epsilon,
    theorem_samples,
)
from pacbandits.design import solve_listed
from pacbandits.paper.coda_common import CodaCommon
from pacbandits.paper.coda_oracle import CodaOracle
from pacbandits.paper.rounds import listed
from pacbandits.policies.finite import Finite, sum_scores
from pacbandits.problems import load_problem
from pacbandits.simulation import repeat, run

RARE = 1e-6
DELTA, SMALL_DELTA = 0.1, 5e-8
FEW = 15
CONSTANT = {
    "rage": RAGE_THEOREM_FACTOR,
    "rage-free": RAGE_FREE_THEOREM_FACTOR,
    "coda-paper": CODA_THEOREM_FACTOR,
    "coda-oracle": 1.06 * CODA_ORACLE_THEOREM_FACTOR,  # as designs are solved to 5 %, with a floor of 1 %
}
CLOSE = (
    "hard:m=6,gap=0.5,noise=bernoulli",
    "random:policies=8,contexts=4,actions=3,seed=5",
    "two-of-many:actions=3,policies=6,contexts=4,seed=2",
)


@cache
def adverse(spec):
    """A problem, its policies with the best one last, and the least gap of another: with an ε below it only the best
    policy is right, and it is not the one that ties and arbitrary choices fall on."""
    problem = load_problem(spec)
    policies = problem.policies
    assert isinstance(policies, Finite)
    values = [problem.value(policies.policy(i)) for i in range(len(policies))]
    table = policies.table[np.argsort(values, kind="stable")]
    return problem, Finite(table, n_actions=policies.n_actions), measure_gaps(problem, policies).minimum


SLOW = pytest.mark.slow


def errors(spec, name, *, runs, delta=SMALL_DELTA, **options):
    problem, policies, gap = adverse(spec)
    options |= {"algorithm": name, "epsilon": 0.95 * gap, "delta": delta}
    done = repeat(problem, policies, runs=runs, seed=1000, **options)
    assert all(one.stopped == "done" for one in done)
    assert all(one.correct == (one.value_gap <= 0.95 * gap) for one in done)
    return sum(not one.correct for one in done)


@pytest.mark.first(1)
@pytest.mark.parametrize("spec", [next(iter(CLOSE)), *(pytest.param(s, marks=SLOW) for s in list(CLOSE)[1:])])
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_as_rare_as_delta_says(name, spec):
    """Gaps just above ε, so that every policy but one is an error."""
    assert errors(spec, name, runs=FEW) == binom.ppf(1 - RARE, FEW, SMALL_DELTA) == 0


@pytest.mark.slow
@pytest.mark.parametrize("spec", CLOSE)
@pytest.mark.parametrize("name", NAMES)
def test_errors_are_as_rare_as_delta_says_over_many_runs(name, spec):
    for delta in (0.3, 1e-3):
        assert errors(spec, name, runs=200, delta=delta) <= binom.ppf(0.99, 200, delta)


@pytest.mark.thorough
@pytest.mark.parametrize("spec", [next(iter(CLOSE)), *(pytest.param(s, marks=SLOW) for s in list(CLOSE)[1:])])
@pytest.mark.parametrize("name", NAMES)
def test_with_too_few_samples_errors_do_occur(name, spec):
    """Or the tests above could not fail."""
    few, runs = {"rage": (1e-4, 20), "rage-free": (3e-6, 80)}.get(name, (1e-6, 20))  # a guess among six is often right
    assert errors(spec, name, runs=runs, delta=DELTA, scale=few) > binom.ppf(1 - RARE, runs, DELTA)


@pytest.mark.thorough
@pytest.mark.parametrize("noise", ["gaussian,variance=0.25", "gaussian,variance=1"])
def test_errors_are_rare_with_gaussian_rewards(noise):
    spec = f"hard:m=4,gap=0.9,noise={noise}"
    assert errors(spec, "rage", runs=FEW) == binom.ppf(1 - RARE, FEW, SMALL_DELTA) == 0
    assert errors(spec, "rage", runs=FEW, delta=DELTA, scale=1e-3) > binom.ppf(1 - RARE, FEW, DELTA)


@cache
def complexities(spec, rounds):
    """ρ_{Π,ε_l} of rounds 1, 2, …: their lower ends, so that the bound is not helped."""
    problem = load_problem(spec)
    gaps = measure_gaps(problem, problem.policies)
    return [
        measure_rho(problem.policies, problem.population, gaps, epsilon=round_epsilon(number)).lower
        for number in range(1, rounds + 1)
    ]


@pytest.mark.first(4)
@pytest.mark.parametrize("epsilon", [0.3, 0.04])
@pytest.mark.parametrize("spec", [*LISTED[:3], *CLOSE])
@pytest.mark.parametrize("name", NAMES)
def test_runs_stay_within_the_theorem(name, spec, epsilon):
    """τ ≤ Σ_l (C ρ_{Π,ε_l} log(1/δ_l) + 1) with the true complexity of every round."""
    problem = load_problem(spec)
    for seed in (1, 2):
        done = run(problem, algorithm=name, epsilon=epsilon, delta=DELTA, rng=seed)
        assert done.correct
        bound = theorem_samples(
            complexities(spec, done.rounds),
            constant=CONSTANT[name],
            delta=DELTA,
            log_size=problem.policies.log_size / (2 if name == "coda-oracle" else 1),  # |Π| once
            second_moment=1.0,
        )
        assert done.samples <= bound
        assert done.samples >= bound / 3000  # and the bound is not empty


def linear_complexity(problem, epsilon):
    """ρ' = min_p max_π V_π/(ε max(Δ, ε)), over the class as a list."""
    listing = listed(problem.policies, algorithm="test")
    assert isinstance(listing, Finite)
    gaps = measure_gaps(problem, problem.policies)
    true = np.maximum(sum_scores(listing.table, gaps.scores), epsilon)
    accuracy = np.sqrt(epsilon * true)
    return solve_listed(listing, problem.population, reference=gaps.best, accuracy=accuracy).lower


@pytest.mark.first(1)
@pytest.mark.parametrize("epsilon", [0.3, 0.06])
def test_runs_with_one_gamma_stay_within_their_theorem(epsilon):
    problem = load_problem("trivial:contexts=3,actions=3,gap=0.1")
    assert isinstance(make("coda-common-gamma", problem), CodaCommon)
    for seed in (1, 2):
        done = run(problem, algorithm="coda-common-gamma", epsilon=epsilon, delta=DELTA, rng=seed)
        assert done.correct
        bound = theorem_samples(
            [linear_complexity(problem, round_epsilon(number)) for number in range(1, done.rounds + 1)],
            constant=1.05 * COMMON_GAMMA_THEOREM_FACTOR,  # as designs are solved to 5 %
            delta=DELTA,
            log_size=problem.policies.log_size,
            second_moment=1.0,
        )
        assert bound / 3000 <= done.samples <= bound


@SLOW
@pytest.mark.parametrize("name", ["coda-oracle", "coda-common-gamma"])
def test_through_the_oracle_errors_are_as_rare_as_delta_says(name):
    problem = load_problem("trivial:contexts=2,actions=3,gap=0.2,seed=1")
    epsilon = 0.95 * measure_gaps(problem, problem.policies).minimum
    options = {"runs": FEW, "seed": 0, "algorithm": name, "epsilon": epsilon}
    done = repeat(problem, delta=SMALL_DELTA, **options)
    assert sum(not one.correct for one in done) == binom.ppf(1 - RARE, FEW, SMALL_DELTA) == 0
    done = repeat(problem, delta=DELTA, scale=1e-6, **options)
    assert sum(not one.correct for one in done) > binom.ppf(1 - RARE, FEW, DELTA)


@pytest.mark.first(9)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spec", LISTED)
def test_every_round_is_as_accurate_as_it_says(name, spec):
    """After round l: rage keeps the best policy and drops what is worse than 2ε_l; the others have an ε_l-good one,
    and gaps within 2ε_l + Δ/4 of the truth; coda-oracle has gaps of at least Δ − ε_l, and at most ε_l where Δ = 0."""
    problem = load_problem(spec)
    algorithm = make(name, problem, epsilon=0.1, delta=0.01)
    listing = listed(problem.policies, algorithm="test")
    gaps = measure_gaps(problem, problem.policies)
    true = np.maximum(sum_scores(np.asarray(listing.actions(problem.population)), gaps.scores), 0.0)
    rng = np.random.default_rng(11)
    state = algorithm.start(problem.policies, problem.population)
    while (plan := algorithm.design(state)) is not None:
        state = algorithm.absorb(state, plan, problem.interact(plan.sampler, samples=plan.samples, rng=rng))
        short = gaps.best_value - problem.value(state.policy)
        if name == "rage":
            assert true[state.alive].min() <= 1e-12
            assert true[state.alive].max() <= 2 * plan.epsilon
            assert short <= 2 * plan.epsilon
        else:
            assert short <= plan.epsilon
        if isinstance(algorithm, CodaOracle):
            measured = sum_scores(np.asarray(listing.actions(state.seen)), state.gaps)
            assert measured.min() >= -1e-12
            assert (measured >= true - plan.epsilon).all()
            assert (measured[true <= 1e-12] <= plan.epsilon).all()
        elif hasattr(state, "gaps"):
            assert state.gaps.min() >= 0
            assert (np.abs(state.gaps - true) <= 2 * plan.epsilon + true / 4).all()
    assert short <= 0.1

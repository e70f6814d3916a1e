"""Proportional response: the integral over arm sets, the risk adjustment, regret on the way and of the answer."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem
from pacbandits.records import Contexts
from pacbandits.rivals.proportional_response import LARGEST_RISK, ProportionalResponse, adjusted_risk, response
from pacbandits.rivals.regression import ContextCoordinates, fit_ridge
from pacbandits.rivals.samplers import even
from pacbandits.rivals.seen import Seen

GAPS = np.array([[0.0, 0.1, 0.3, 0.9], [-0.2, 0.0, 0.05, 0.05], [0.0, 0.0, 0.0, 0.0]])


def drawn_problem(*, seed=0, contexts=8, actions=4, policies=60):
    rng = np.random.default_rng(seed)
    means = rng.uniform(0.1, 0.9, size=(contexts, actions))
    table = rng.integers(actions, size=(policies, contexts))
    finite = Finite(np.vstack([table, means.argmax(axis=1)]), n_actions=actions)
    return Problem("drawn", "Drawn at random.", Contexts.finite(contexts), means, Bernoulli(), finite)


def played(algorithm, problem, seed=0):
    """All states, and the regret of each interaction on the way."""
    rng, best = np.random.default_rng(seed), problem.value(problem.best_policy())
    states, regrets = [algorithm.start(problem.policies, problem.population)], []
    while (plan := algorithm.design(states[-1])) is not None:
        chances = plan.sampler.propensities(problem.population)
        worth = problem.population.weights @ (chances * problem.mean_rewards).sum(axis=1)
        regrets += [best - worth] * plan.samples
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        states.append(algorithm.absorb(states[-1], plan, log))
    return states, np.cumsum(regrets)


@pytest.mark.parametrize("width", [1e-6, 0.04, 0.2, 5.0])
def test_probabilities_are_the_integral_over_arm_sets(width):
    betas = (np.arange(200_000) + 0.5) / 200_000 * LARGEST_RISK
    found = response(GAPS, width=width)
    for gaps, row in zip(GAPS, found, strict=True):
        sets = gaps[None, :] <= width / betas[:, None]
        inside = (sets / sets.sum(axis=1, keepdims=True)).mean(axis=0) * LARGEST_RISK
        surest = gaps <= width / LARGEST_RISK
        assert row == pytest.approx(inside + (1 - LARGEST_RISK) * surest / surest.sum(), abs=1e-5)
        assert row.sum() == pytest.approx(1, abs=1e-12)


def test_a_wide_set_plays_all_alike_and_a_narrow_one_the_best_alone():
    assert response(GAPS, width=1e9) == pytest.approx(np.full((3, 4), 0.25))
    narrow = response(GAPS, width=1e-9)
    assert narrow[0, 0] == pytest.approx(1, abs=1e-6)
    assert narrow[1, :2] == pytest.approx([0.5, 0.5], abs=1e-6)  # what is better than the policy is in every set
    medium = response(GAPS, width=0.04)
    assert (np.diff(medium[0]) < 0).all()
    assert medium[0, 3] == pytest.approx(0.04 / 0.9 / 4)  # in sets of all four alone


@pytest.mark.parametrize("width", [0.001, 0.02, 0.1])
def test_the_risk_is_the_largest_that_keeps_arm_sets_small(width):
    rng = np.random.default_rng(1)
    gaps = rng.uniform(0, 1, size=(30, 6))
    gaps[:, 0] = 0.0
    shares = rng.dirichlet(np.ones(30))

    def fits(risk):
        size = shares @ (gaps <= risk * width / 0.5).sum(axis=1) + 6 / np.sqrt(1e4)
        return size <= 0.5 * 6 / risk

    found = adjusted_risk(gaps, shares, width=width, most=2.2, samples=1e4)
    scan = [risk for risk in np.linspace(1, 2.2, 4001) if fits(risk)]
    assert found == pytest.approx(max(scan, default=1.0), abs=1e-3)
    assert adjusted_risk(gaps, shares, width=10.0, most=2.2, samples=1e4) == 1.0
    assert adjusted_risk(gaps, shares, width=width, most=0.9, samples=1e4) == 1.0


@pytest.mark.thorough
def test_regret_on_the_way_grows_like_the_root_of_time():
    states, regret = played(ProportionalResponse(0.1, 0.1, simple=0.0, budget=60_000, growth=0.3), drawn_problem())
    slope = np.log(regret[-1] / regret[3000]) / np.log(len(regret) / 3000)
    assert slope < 0.8
    spread = played(ProportionalResponse(0.1, 0.1, simple=0.0, scale=100.0, budget=3000), drawn_problem())[1]
    assert np.log(spread[-1] / spread[300]) / np.log(10) == pytest.approx(1, abs=0.05)  # all alike
    assert states[-1].memory.risk == 1.0  # ω = 1


def test_the_answer_becomes_the_best_policy_and_a_larger_omega_explores_more():
    problem, kept = drawn_problem(), {}
    for simple in (0.0, 1.0):
        states, regret = played(ProportionalResponse(0.1, 0.1, simple=simple, budget=30_000, growth=0.3), problem)
        last = states[-1]
        assert problem.value(last.policy) == pytest.approx(problem.value(problem.best_policy()))
        kept[simple] = last.memory, regret[-1]
        for state in states:
            assert 1.0 <= state.memory.risk <= 2.0**simple + 1e-9
    assert kept[1.0][0].risk > 1.2
    assert kept[1.0][1] > kept[0.0][1]


def test_the_best_policy_is_played_more_than_evenly():
    """E[1/p(π*(c)|c)] is at most A, which stands in the place of α, and falls to A/η and below."""
    problem = drawn_problem(seed=2)
    states, _ = played(ProportionalResponse(0.1, 0.1, budget=20_000, growth=0.3), problem)
    best = problem.best_policy()(problem.population)
    covers = []
    for state in states[5:]:
        chances = state.memory.sampler.propensities(problem.population)
        covers.append(problem.population.weights @ (1 / chances[np.arange(len(best)), best]))
    assert max(covers) <= 4.0 + 1e-9
    assert covers[-1] <= 4.0 / states[-1].memory.risk


def test_the_error_falls_with_time_unless_the_model_is_wrong():
    def errors(means):
        contexts = Contexts.of(np.array([[-1.0], [0.0], [1.0]]), names=["x"], ids=np.arange(3))
        table = np.array([[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1]])
        problem = Problem("lines", "One feature.", contexts, means, Bernoulli(), Finite(table, n_actions=2))
        algorithm, out = ProportionalResponse(0.1, 0.1), []
        for samples in (500, 50_000):
            log = problem.interact(even(2), samples=samples, rng=np.random.default_rng(0))
            seen = Seen.nothing(contexts, n_actions=2).with_log(log)
            model = fit_ridge(seen, coordinates=ContextCoordinates.of(contexts))
            predictions = model.predict(seen.contexts)
            out.append(algorithm.error_of(problem.policies, seen, model, predictions, round_number=5))
        return out

    right, wrong = (
        errors(np.array([[0.2, 0.5], [0.4, 0.5], [0.6, 0.5]])),
        errors(np.array([[0.1, 0.5], [0.9, 0.5], [0.1, 0.5]])),
    )
    assert right[1] == pytest.approx(right[0] / 100, rel=0.3)
    assert wrong[1] > 20 * right[1]
    assert wrong[1] > 0.5 * wrong[0]


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="simple must"):
        ProportionalResponse(0.1, 0.1, simple=1.5)
    with pytest.raises(InputError, match="scale must"):
        ProportionalResponse(0.1, 0.1, scale=0.0)

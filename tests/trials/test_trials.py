"""`coda` and `uniform`: trials that stop by their certificate."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from tests.certificate.test_search import ArgmaxOnly

from pacbandits.errors import InputError
from pacbandits.policies.finite import Finite
from pacbandits.problems import Bernoulli, Problem, load_problem
from pacbandits.records import Contexts, RewardBounds
from pacbandits.records.log import digest_log
from pacbandits.rewards import CellMeans, predict_by_round
from pacbandits.trials.coda import Coda, NoisyDesign, Uniform, variances
from pacbandits.trials.trial import merge, mixture, multipliers_of

KINDS = (Uniform, Coda)
PROBLEMS = {
    "two-of-many:actions=4,policies=12,contexts=8": 0.12,
    "hard:m=6,noise=bernoulli": 0.25,
    "trees:contexts=60,features=3,bins=4,actions=3,competitive=2,depth=1": 0.2,
    "trivial:contexts=3,actions=3,gap=0.3": 0.08,
}
CASES = [(kind, spec) for kind in KINDS for spec in PROBLEMS]


def play(algorithm, problem, *, seed=0, policies=None, contexts=None, most=200):
    """The states of a run, from the first on."""
    rng = np.random.default_rng(seed)
    chosen = problem.policies if policies is None else policies
    states = [algorithm.start(chosen, problem.population if contexts is None else contexts)]
    while (plan := algorithm.design(states[-1])) is not None:
        assert len(states) <= most
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        states.append(algorithm.absorb(states[-1], plan, log))
    return states


def small_problem(means=((0.5, 0.2), (0.3, 0.9), (0.5, 0.5)), *, table):
    means = np.array(means, dtype=float)
    policies = Finite(table, n_actions=means.shape[1])
    return Problem("test", "test", Contexts.finite(len(means)), means, Bernoulli(), policies)


@pytest.mark.first(2)
@pytest.mark.parametrize(("kind", "spec"), CASES)
def test_runs_end_with_a_certificate_that_says_so(kind, spec):
    problem, epsilon = load_problem(spec), PROBLEMS[spec]
    algorithm = kind(epsilon, 0.1)
    states = play(algorithm, problem)
    last = states[-1]
    certificate = last.certificate
    assert algorithm.design(last) is None
    assert [state.finished for state in states] == [False] * (len(states) - 1) + [True]
    assert problem.value(problem.best_policy()) - problem.value(last.policy) <= epsilon
    for number, state in enumerate(states):
        assert state.round_number == number == len(state.history) == len(state.scales)
        assert state.samples == sum(figures["samples"] for figures in state.history)
        assert state.samples == sum(samples for _, samples in state.played)
        if number > 0:
            made = state.certificate
            assert made.certified is state.finished
            proven, part = len(made.bets.scales), made.of(state.log)
            assert state.samples == state.log.samples == state.history[-1]["total"]
            assert len(state.log) == len(state.predictions)
            assert made.samples == part.samples == state.history[proven - 1]["total"]
            assert made.rows == len(part)
            assert made.digest == digest_log(part)
            assert made.bets.scales == state.scales[:proven]
            assert made.bets.multipliers == multipliers_of(state)
            assert proven == number or made is states[number - 1].certificate
            assert made.policy is state.policy
            assert state.scales[:-1] == states[number - 1].scales
            assert np.array_equal(np.unique(state.log.rounds), np.arange(number))
    # Predictions were made of earlier rounds: whoever has the log can make them again.
    assert np.allclose(predict_by_round(last.log, last.model), last.predictions, rtol=0, atol=1e-12)
    assert certificate.threshold == pytest.approx(math.log(1 / 0.1) + problem.policies.log_size)
    answer = algorithm.result(last)
    assert replace(answer.certificate, checks=()).to_json() == certificate.to_json()
    assert answer.policy is last.policy
    assert answer.finished
    assert answer.guarantee.startswith(certificate.describe())
    assert f"the policy is within {epsilon} of the best" in answer.guarantee
    assert "the logged propensities are those with which actions were drawn" in answer.guarantee
    json.dumps(certificate.to_json(), allow_nan=False)
    json.dumps([dict(figures) for figures in last.history], allow_nan=False)


@pytest.mark.parametrize("kind", KINDS)
def test_an_epsilon_of_one_or_more_needs_nothing(kind):
    problem = load_problem("hard:m=6,noise=bernoulli")
    for epsilon in (1.0, 7.0):
        algorithm = kind(epsilon, 0.1)
        (state,) = play(algorithm, problem)
        assert state.finished
        assert state.samples == 0
        answer = algorithm.result(state)
        assert (answer.finished, answer.guarantee, answer.certificate) == (True, "no gap is larger than 1", None)
    start = kind(0.5, 0.1).start(problem.policies, problem.population)
    assert kind(0.5, 0.1).result(start).guarantee == "none: nothing was played"
    assert not kind(0.5, 0.1).result(start).finished


@pytest.mark.parametrize("table", [[[0, 1, 0]], [[0, 1, 0]] * 5], ids=["one", "alike"])
@pytest.mark.parametrize("kind", KINDS)
def test_policies_that_are_all_alike_end_in_the_pilot_when_epsilon_is_large(kind, table):
    states = play(kind(0.3, 0.1), small_problem(table=table))
    assert len(states) == 2
    assert states[-1].samples == 200


@pytest.mark.first(1)
@pytest.mark.parametrize("table", [[[0, 1, 0]], [[0, 1, 0]] * 5], ids=["one", "alike"])
@pytest.mark.parametrize("epsilon", [0.05, 0.01])
@pytest.mark.parametrize("kind", KINDS)
def test_policies_that_are_all_alike_end_when_epsilon_is_small(kind, epsilon, table):
    assert play(kind(epsilon, 0.1), small_problem(table=table))[-1].finished


@pytest.mark.parametrize("kind", KINDS)
def test_policies_that_differ_where_nobody_comes(kind):
    """On a context of probability 0 alone."""
    problem = small_problem(table=[[0, 1, 0], [0, 1, 1]])
    weighted = replace(problem, population=Contexts.finite(3, weights=[0.5, 0.5, 0.0]))
    assert play(kind(0.05, 0.1), weighted)[-1].finished


@pytest.mark.parametrize("kind", KINDS)
def test_policies_of_one_value_end_too(kind):
    """All means are 1/2: every policy is right, but that must be found out."""
    means = np.full((3, 2), 0.5)
    states = play(kind(0.25, 0.1), small_problem(means, table=[[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1]]))
    assert states[-1].finished
    assert states[-1].samples < 5000


@pytest.mark.parametrize("kind", KINDS)
def test_through_the_argmax_alone(kind):
    problem = load_problem("two-of-many:actions=4,policies=12,contexts=8")
    states = play(kind(0.3, 0.1, pilot=100), problem, policies=ArgmaxOnly(problem.policies))
    assert states[-1].finished
    assert problem.value(problem.best_policy()) - problem.value(states[-1].policy) <= 0.3


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", KINDS)
def test_contexts_that_were_never_seen_beforehand(kind):
    """Offline contexts are a part of the population; validity and termination do not hang on them."""
    problem = load_problem("two-of-many:actions=4,policies=12,contexts=8")
    states = play(kind(0.25, 0.1, pilot=60), problem, contexts=Contexts.finite(8).take([0, 3]))
    assert states[-1].finished
    trees = load_problem("trees:contexts=60,features=3,bins=4,actions=3,competitive=2,depth=1")
    states = play(kind(0.3, 0.1, pilot=60), trees, contexts=trees.population.take(np.arange(10)))
    assert states[-1].finished


@pytest.mark.first(2)
@pytest.mark.parametrize("options", [{"floor": 0.0}, {"floor": 1.0}, {"pilot": 1}, {"growth": 2.0}])
def test_odd_options_still_end(options):
    problem = load_problem("two-of-many:actions=4,policies=12,contexts=8")
    assert play(Coda(0.3, 0.1, **options), problem)[-1].finished


def test_the_model_can_be_chosen():
    problem = load_problem("trees:contexts=60,features=3,bins=4,actions=3,competitive=2,depth=1")
    algorithm = Uniform(0.3, 0.1, model=CellMeans(2.0))
    last = play(algorithm, problem)[-1]
    assert last.certificate.model == {"kind": "cell-means", "strength": 2.0}
    assert np.allclose(predict_by_round(last.log, CellMeans(2.0)), last.predictions)


@pytest.mark.parametrize("kind", KINDS)
def test_what_trials_refuse(kind):
    for epsilon in (-1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="epsilon must be"):
            kind(epsilon, 0.1)
    for delta in (0.0, 1.0, 2.0, math.nan):
        with pytest.raises(InputError, match="delta"):
            kind(0.1, delta)
    gaussian = load_problem("hard:m=6,noise=gaussian")
    with pytest.raises(InputError, match=rf"{kind.name} needs rewards in \[0, 1\], and these are not known to be"):
        kind(0.1, 0.1, rewards=gaussian.reward_bounds)
    with pytest.raises(InputError, match="rescale"):
        kind(0.1, 0.1, rewards=RewardBounds(in_unit=False))
    # And where nobody said so, they are seen in the log.
    algorithm = kind(0.3, 0.1)
    state = algorithm.start(gaussian.policies, gaussian.population)
    plan = algorithm.design(state)
    log = gaussian.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match=r"rewards .* lie in \[0, 1\]"):
        algorithm.absorb(state, plan, log)


@pytest.mark.parametrize("bad", [{"pilot": 0}, {"pilot": -3}, {"pilot": 2.5}, {"growth": math.nan}, {"floor": 2.0}])
def test_options_are_checked_before_anything_is_played(bad):
    with pytest.raises(InputError):
        Coda(0.1, 0.1, **bad)


def is_same(one, other):
    return one.to_json() == other.to_json()


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", [Uniform, Coda])
def test_a_round_is_predicted_bet_on_and_led_without_it(kind):
    """Whatever a round earns, its predictions, its bets and who leads in it are the same."""
    problem = load_problem("trees:contexts=60,features=3,bins=6,actions=3,competitive=2")
    algorithm, rng = kind(0.1, 0.05), np.random.default_rng(1)
    state = algorithm.start(problem.policies, problem.population)
    after = 0
    for _ in range(6):
        plan = algorithm.design(state)
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        other = algorithm.absorb(state, plan, replace(log, rewards=1 - log.rewards))
        state = algorithm.absorb(state, plan, log)
        assert np.array_equal(state.predictions, other.predictions)
        assert state.scales == other.scales
        assert (state.leaders.turns, state.leaders.sizes) == (other.leaders.turns, other.leaders.sizes)
        assert all(map(is_same, state.leaders.policies, other.leaders.policies))
        assert state.history[-1]["wealth"] != other.history[-1]["wealth"] or state.round_number == 1
        after += not is_same(state.leader, other.leader)  # what comes after is not the same
    assert after > 0  # or nothing would be tested
    assert len(state.leaders.policies) > 1


def test_what_was_played_is_mixed_by_how_often():
    population = Contexts.finite(2)

    class Fixed:
        n_actions = 2

        def __init__(self, p):
            self.p = p

        def propensities(self, contexts):
            return np.tile([self.p, 1 - self.p], (len(contexts), 1))

    one, two = Fixed(0.5), Fixed(0.1)
    played = merge(merge(merge((), one, 10), one, 20), two, 10)
    assert played == ((one, 30), (two, 10))
    assert mixture(played, population) == pytest.approx(np.tile([0.4, 0.6], (2, 1)))


def test_designs_play_every_action_by_the_floor_and_no_more_of_the_sure():
    problem = load_problem("two-of-many:actions=4,policies=12,contexts=8")
    states = play(Coda(0.05, 0.1, floor=0.4), problem)
    sampler = states[-1].current.sampler
    assert isinstance(sampler, NoisyDesign)
    assert sampler.propensities(problem.population).min() >= 0.4 / 4 - 1e-12
    assert variances(np.array([0.0, 0.5, 1.0])) == pytest.approx([0.02, 0.25, 0.02])


@pytest.mark.thorough
def test_an_optimal_design_saves_samples():
    """Not a promise for every problem, but for the one made to show it."""
    problem = load_problem("two-of-many:actions=10,policies=40,contexts=10")
    used = {kind: np.mean([play(kind(0.05, 0.1), problem, seed=s)[-1].samples for s in range(3)]) for kind in KINDS}
    assert used[Coda] < 0.7 * used[Uniform]

"""What every algorithm of the registry promises and its profile says; a new one is tested by being registered."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.algorithms import ALGORITHMS, find_algorithm, list_profiles, options_of, profile_of
from pacbandits.errors import InputError
from pacbandits.records import Log, Mixture
from pacbandits.records.log import digest_log
from pacbandits.simulation import run
from pacbandits.trials.protocol import Plan, Profile
from tests.algorithms.cases import (
    CASES,
    DELTA,
    LACKING,
    MISFITS,
    NAMES,
    PLAYED,
    PROBLEMS,
    TREES,
    few_samples,
    first_round,
    image,
    make,
    play,
    played,
    problem_of,
    refusal,
)
from tests.algorithms.forged import forged_logs, forged_samplers


def without_time(done):
    return {key: value for key, value in done.to_json().items() if key != "seconds"}


def one_line(caught):
    words = str(caught.value)
    return words.isprintable() and len(words) > 10


def test_the_product_comes_first():
    assert list(ALGORITHMS)[:2] == ["coda", "uniform"]


def test_every_algorithm_is_tested_and_those_for_any_class_on_every_class():
    assert {name for name, _ in CASES} == set(NAMES)
    assert {spec for _, spec in CASES} == set(PROBLEMS)
    assert ("coda-paper", TREES) in CASES  # through the oracle
    for name, spec in MISFITS:
        unit = problem_of(spec).reward_bounds.in_unit
        assert not (profile_of(name).classes.startswith("any") and unit)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_is_left_out_only_where_its_package_is_missing(name):
    if name in LACKING:
        pytest.skip(f"{name} is not tested: {LACKING[name]}")
    assert name in NAMES


@pytest.mark.first(36)
@pytest.mark.parametrize(("name", "spec"), MISFITS)
def test_what_an_algorithm_cannot_do_is_said_in_a_line(name, spec):
    words = refusal(name, problem_of(spec))
    assert words.isprintable()
    with pytest.raises(InputError) as caught:
        run(problem_of(spec), algorithm=name, epsilon=0.3, delta=DELTA, rng=0)
    assert str(caught.value) == words


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_profile_is_complete(name):
    algorithm = ALGORITHMS[name]
    profile = algorithm.profile
    assert name == algorithm.name == profile.name
    assert profile is profile_of(name)
    assert profile in list_profiles()
    for field in fields(Profile):
        words = getattr(profile, field.name)
        assert isinstance(words, bool) or (words.strip() == words != "" and words.isprintable())
    for option in options_of(name):
        assert option.meaning.isprintable()
        assert option.permitted
        assert option.check(option.default) == option.default


def test_a_name_that_is_misspelt_or_missing():
    for name in ALGORITHMS:
        assert find_algorithm(name) == (name, {})
        with pytest.raises(InputError, match=f"did you mean '{name}'"):
            find_algorithm(f"{name[:-1]}{name[-1]}{name[-1]}")
    with pytest.raises(InputError, match="names no algorithm"):
        find_algorithm("")


@pytest.mark.first(2)
@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_steps_are_pure(name, spec):
    """The same twice from the same state, and the state is as it was."""
    done = played(name, spec)
    algorithm, contexts = done.algorithm, done.problem.population
    policies = done.problem.policies
    assert image(algorithm.start(policies, contexts)) == image(algorithm.start(policies, contexts))
    state, log = done.states[-2], done.logs[-1]
    before = image(state)
    told: list[str] = []
    plan, again = algorithm.design(state), algorithm.design(state, progress=told.append)
    assert image(plan) == image(again)
    assert np.array_equal(plan.sampler.propensities(contexts), again.sampler.propensities(contexts))
    assert all(isinstance(words, str) and words.isprintable() for words in told)
    one, two = algorithm.absorb(state, plan, log), algorithm.absorb(state, again, log)
    assert image(one) == image(two) == image(done.last)
    assert image(algorithm.result(one)) == image(algorithm.result(two))
    assert image(state) == before


@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_rounds_follow_one_another(name, spec):
    done = played(name, spec)
    states, certifies = done.states, profile_of(name).certifies
    for number, state in enumerate(states):
        assert state.round_number == number == len(state.history)
        assert state.samples == sum(log.samples for log in done.logs[:number])
        assert state.finished is (number == len(states) - 1)
        assert state.policies.n_actions == done.problem.n_actions
        assert image(state.contexts) == image(done.problem.population)
        assert (state.log is not None) is (state.certificate is not None) is (certifies and number > 0)
        if number > 0:
            before, figures = states[number - 1], state.history[-1]
            assert state.history[:-1] == before.history
            assert (figures["round"], figures["total"]) == (number, state.samples)
            assert figures["samples"] == state.samples - before.samples
            assert figures["policy"] == state.policy.describe()
            assert state.oracle_calls >= before.oracle_calls
    json.dumps([dict(figures) for figures in done.last.history], allow_nan=False)
    assert done.algorithm.design(done.last) is None
    assert done.algorithm.rounds == 0 or len(done.plans) <= done.algorithm.rounds + 1


@pytest.mark.first(20)
@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_plans_fit_the_problem(name, spec):
    """Chances for every context of the population, also where only a few of them were shown."""
    done = played(name, spec)
    problem = done.problem
    few = problem.population.take(np.arange(0, len(problem.population), 3))
    algorithm = make(name, problem, epsilon=PROBLEMS[spec], sampled_contexts=len(few))
    for number, plan in enumerate([*done.plans, algorithm.design(algorithm.start(problem.policies, few))]):
        assert plan.round_number == (number + 1 if number < len(done.plans) else 1)
        assert isinstance(plan.samples, int)
        assert plan.samples >= 1
        assert plan.epsilon > 0
        assert plan.oracle_calls >= 0
        propensities = plan.sampler.propensities(problem.population)
        assert plan.sampler.n_actions == problem.n_actions
        assert propensities.shape == problem.mean_rewards.shape
        assert propensities.min() >= 0
        assert np.allclose(propensities.sum(axis=1), 1, rtol=0, atol=1e-9)
        json.dumps(dict(plan.details), allow_nan=False)


@pytest.mark.first(19)
@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_a_log_written_out_row_by_row_says_the_same(name, spec):
    """Simulation counts interactions; an experiment writes them one by one."""
    algorithm, problem, state, plan, log = first_round(name, spec, **few_samples(name))
    rows = np.random.default_rng(7).permutation(np.repeat(np.arange(len(log)), log.repeats))
    long = Log.of(
        log.contexts.take(rows),
        actions=log.actions[rows],
        rewards=log.rewards[rows],
        propensities=log.propensities[rows],
    )
    one, two = algorithm.absorb(state, plan, log), algorithm.absorb(state, plan, long)
    assert np.array_equal(one.policy(problem.population), two.policy(problem.population))
    assert (one.samples, one.finished) == (two.samples, two.finished)
    if one.certificate is not None:
        assert one.certificate.certified_epsilon == pytest.approx(two.certificate.certified_epsilon)


@pytest.mark.first(9)
@pytest.mark.parametrize(("name", "spec"), PLAYED)
@pytest.mark.parametrize("later", [False, True])
def test_a_log_that_is_not_of_the_plan_is_refused(name, spec, later):
    done = played(name, spec)
    at = len(done.plans) - 1 if later else 0
    algorithm, state, plan, log = done.algorithm, done.states[at], done.plans[at], done.logs[at]
    number, before = plan.round_number, image(state)

    def refused(message, changed):
        with pytest.raises(InputError, match=message) as caught:
            algorithm.absorb(state, plan, changed)
        assert one_line(caught)

    for samples in {1, plan.samples - 1, plan.samples + 1} - {0, plan.samples}:
        other = done.problem.interact(plan.sampler, samples=samples, rng=np.random.default_rng(0))
        refused(f"round {number} asks for {plan.samples} interactions, but the log has {samples}", other)
    # More actions than the class has: kernels would look for cells that are not there. Fewer: likewise.
    n_actions, row = log.n_actions, len(log) - 1
    more = np.hstack([log.propensities, np.zeros((len(log), 1))])
    words = f"the policies have {n_actions} actions, the plan .* and the log"
    refused(f"{words} {n_actions + 1};", replace(log, propensities=more))
    single = replace(log, propensities=np.ones((len(log), 1)), actions=np.zeros(len(log), dtype=int))
    refused(f"{words} 1;", single)
    # Propensities of another design, even in one row: weights 1/p would be wrong.
    other = log.propensities.copy()
    high = int(other[row].argmax())
    other[row, high] -= 1e-7
    words = f"row {row} of the log has propensity .* for action {high}, but the plan of round {number}"
    refused(words, replace(log, propensities=other))
    close = log.propensities.copy()
    close[row, high] -= 1e-11
    assert algorithm.absorb(state, plan, replace(log, propensities=close)).round_number == number
    # Chances of the played actions alone.
    played_alone = Log.of_played(
        log.contexts,
        actions=log.actions,
        rewards=log.rewards,
        played=log.played_propensities,
        least=np.zeros(log.propensities.shape),
        repeats=log.repeats,
    )
    refused("the propensity of the played action alone", played_alone)
    # Contexts that a class of tables does not know, and for which the plan may have other chances.
    if done.problem.policies.n_contexts:
        n = len(done.problem.population)
        for ids in (log.contexts.ids + n, None):
            refused(r"\bids?\b|has propensity", replace(log, contexts=replace(log.contexts, ids=ids)))
    for message, forged in forged_logs(plan, log):
        refused(message, forged)
    # Rewards that the proof does not cover.
    if done.problem.reward_bounds.in_unit:
        for reward, shown in ((-1e-12, "-1e-12"), (1.5, "1.5")):
            rewards = np.where(np.arange(len(log)) == row, reward, log.rewards)
            refused(rf"lie in \[0, 1\], but row {row} of the log has {shown}; rescale", replace(log, rewards=rewards))
    assert image(state) == before


@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_a_plan_of_another_state_is_refused(name, spec):
    """Whatever is fixed before a round could otherwise be fixed after it."""
    done = played(name, spec)
    algorithm, state, plan, log = done.algorithm, done.states[-2], done.plans[-1], done.logs[-1]
    number = plan.round_number

    def refused(message, from_state, with_plan):
        with pytest.raises(InputError, match=message) as caught:
            algorithm.absorb(from_state, with_plan, log)
        assert one_line(caught)

    refused(f"the plan is for round {number}, but round {number + 1} comes next", done.last, plan)
    refused(f"the plan is for round {number + 2}, but round", state, replace(plan, round_number=number + 2))
    if number > 1:
        refused(f"the plan is for round {number}, but round 1 comes next", done.states[0], plan)
    if type(plan) is not Plan:  # what a round is played with is fixed in a plan of its own kind
        bare = Plan(number, plan.epsilon, plan.sampler, plan.samples, 0, {})
        refused("plan", state, bare)

    class Never:
        """Another design: it plays one action alone, wherever it is."""

        n_actions = done.problem.n_actions

        def propensities(self, contexts):
            return np.eye(self.n_actions)[np.zeros(len(contexts), dtype=int)]

    refused(r"has propensity .* but the plan of round", state, replace(plan, sampler=Never()))
    for message, sampler in forged_samplers(log):
        refused(message, state, replace(plan, sampler=sampler))
    for argument, wrong in (
        ("state", None),
        ("state", "state"),
        ("plan", None),
        ("plan", 3),
        ("log", None),
        ("log", []),
    ):
        given = {"state": state, "plan": plan, "log": log} | {argument: wrong}
        with pytest.raises(InputError, match=f"{argument}|{type(wrong).__name__}") as caught:
            algorithm.absorb(**given)
        assert one_line(caught)


@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_the_words_of_the_answer_are_true(name, spec):
    """Seeds are fixed, so that the one run in ten that may err is not among these."""
    done = played(name, spec)
    problem, epsilon = done.problem, PROBLEMS[spec]
    best = problem.value(problem.best_policy())
    for state in done.states:
        answer = done.algorithm.result(state)
        assert answer.policy is state.policy
        assert answer.finished is state.finished
        assert (
            state.certificate is None or replace(answer.certificate, checks=()).to_json() == state.certificate.to_json()
        )
        assert answer.guarantee.isprintable()
        kind = "mixture policy" if isinstance(answer.policy, Mixture) else "policy"
        promised = f"except with probability {DELTA:g} the {kind} is within {epsilon:g} of"
        proven = state.finished and profile_of(name).proves
        assert (promised in answer.guarantee) is proven
        if proven:
            assert best - problem.value(answer.policy) <= epsilon * (1 + 1e-12)
        else:
            assert answer.guarantee.startswith(("none: ", "not certified at"))
    assert done.algorithm.result(done.states[0]).guarantee.startswith("none: ")


@pytest.mark.first(36)
@pytest.mark.parametrize(("name", "spec"), PLAYED)
@pytest.mark.parametrize("epsilon", [1.0, 7.0])
def test_an_epsilon_of_1_needs_no_samples(name, spec, epsilon):
    done = run(problem_of(spec), algorithm=name, epsilon=epsilon, delta=DELTA, rng=0)
    assert (done.stopped, done.samples, done.rounds, done.history) == ("done", 0, 0, ())
    assert done.correct
    assert done.guarantee.isprintable()


def known(state):
    """What an algorithm has learned, in full: the history tells less, as the first round may end it."""
    arrays = [getattr(state, field.name) for field in fields(state)]
    seen = image(getattr(state, "seen", None))
    return str(state.history), seen, *(array.tobytes() for array in arrays if isinstance(array, np.ndarray))


@pytest.mark.first(1)
@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_the_same_seed_gives_the_same_run_and_another_seed_another(name, spec):
    problem = problem_of(spec)
    options = {"epsilon": PROBLEMS[spec], "delta": DELTA, **few_samples(name)}  # so few that luck shows
    one = run(problem, algorithm=name, rng=5, **options)
    by_hand = run(problem, algorithm=make(name, problem, **options), rng=np.random.default_rng(5))
    assert without_time(by_hand) == without_time(one) | {"seed": None}
    learned = (known(play(make(name, problem, **options), problem, seed=seed).last) for seed in range(5, 14))
    first = next(learned)
    assert any(other != first for other in learned)


@pytest.mark.first(1)
@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_who_certifies_has_a_log_and_a_certificate_that_holds(name, spec):
    done = played(name, spec)
    state, problem = done.last, done.problem
    if not profile_of(name).certifies:
        assert all(one.certificate is None and one.log is None for one in done.states)
        return
    made, log = state.certificate, state.log
    assert made.certified
    assert (made.epsilon, made.delta, made.policy) == (PROBLEMS[spec], DELTA, state.policy)
    assert (made.samples, made.rows, made.digest) == (state.samples, len(log), digest_log(log))
    assert np.array_equal(np.unique(log.rounds), np.arange(state.round_number))
    verdict = pb.verify(made, log, problem.policies, contexts=state.contexts)
    assert verdict.good, verdict.faults
    fewer = log.take(np.arange(len(log) - 1))
    assert not pb.verify(made, fewer, problem.policies, contexts=state.contexts).good
    assert done.algorithm.result(state).guarantee == made.promise()
    for before in done.states[1:-1]:
        assert not before.certificate.certified
        assert pb.verify(before.certificate, before.log, problem.policies, contexts=state.contexts).good


@pytest.mark.parametrize(("name", "spec"), PLAYED)
def test_who_keeps_its_state_goes_on_as_if_it_had_never_stopped(name, spec, tmp_path):
    done = played(name, spec)
    algorithm, problem, at = done.algorithm, done.problem, len(done.states) - 2
    if not profile_of(name).keeps_state:
        with pytest.raises(InputError, match=f"the state of {algorithm.name} cannot be kept") as caught:
            run(problem, algorithm=name, epsilon=0.3, delta=DELTA, rng=0, state=tmp_path / "kept")
        assert one_line(caught)
        assert list(tmp_path.iterdir()) == []
        return
    pb.save_state(tmp_path / "kept", algorithm, done.states[at])
    again, state = pb.load_state(tmp_path / "kept")
    assert again == algorithm
    assert type(again) is type(algorithm)
    assert image(again.result(state)) == image(algorithm.result(done.states[at]))
    plan = again.design(state)
    assert (plan.samples, plan.details) == (done.plans[at].samples, done.plans[at].details)
    assert image(again.absorb(state, plan, done.logs[at]).certificate) == image(done.last.certificate)

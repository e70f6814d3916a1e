"""Rewards that come late: the state of a trial from all rows, whenever their rewards come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacbandits import verify
from pacbandits.certificate import Certificate
from pacbandits.confidence import withdrawal_part
from pacbandits.errors import InputError
from pacbandits.policies import class_from_json, class_to_json
from pacbandits.policies.constraints import without
from pacbandits.problems import load_problem
from pacbandits.records import Log, parts_of
from pacbandits.rewards import CellMeans, predict_by_round
from pacbandits.trials.coda import Coda, Uniform
from pacbandits.trials.late_rewards import PlayedRound, catch_up, leaders_again
from pacbandits.trials.trial import TrialState

LED = "trees:contexts=60,features=3,bins=6,actions=3,competitive=2"
LISTED = "two-of-many:actions=4,policies=12,contexts=8"
CASES = [(kind, spec) for kind in (Uniform, Coda) for spec in (LED, LISTED)]
ROUNDS = 4


def played(trial, problem, *, seed=0, rounds=ROUNDS):
    """The states of the first rounds of a run, and what was fixed before each."""
    rng = np.random.default_rng(seed)
    states, fixed = [trial.start(problem.policies, problem.population)], []
    while len(fixed) < rounds and (plan := trial.design(states[-1])) is not None:
        fixed.append(PlayedRound(plan.exploration, plan.scale, plan.samples, states[-1].leader))
        log = problem.interact(plan.sampler, samples=plan.samples, rng=rng)
        log = log if log.repeats.max() == 1 else log.take(np.repeat(np.arange(len(log)), log.repeats))
        log = replace(log, repeats=np.ones(len(log), dtype=np.int64))
        states.append(trial.absorb(states[-1], plan, log))
    return states, fixed


def late(log, *, share, seed=0, delay=1):
    """The log with a share of its rewards not in, and others known up to so many rounds after the next."""
    rng = np.random.default_rng(seed)
    out = rng.random(len(log)) < share
    known = log.rounds + 1 + rng.integers(0, delay + 1, size=len(log))
    return replace(log, rewards=np.where(out, np.nan, log.rewards), known=np.where(out, -1, known))


@pytest.mark.first(1)
@pytest.mark.parametrize(("kind", "spec"), CASES)
def test_where_all_rewards_are_in_it_is_what_round_by_round_comes_to(kind, spec):
    check_the_same(kind(0.02, 0.1, model=CellMeans()), spec)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "spec"), CASES)
def test_it_is_so_of_a_model_of_features_and_a_single_policy_too(kind, spec):
    check_the_same(kind(0.02, 0.1, single=True), spec)


def check_the_same(trial, spec):
    """Raise unless rounds that are caught up with come to the same, to the last bit, as those that are absorbed."""
    problem = load_problem(spec)
    states, fixed = played(trial, problem)
    assert len(fixed) == ROUNDS
    assert (states[0].leaders is not None) == (spec == LED)
    before = states[0]
    for number in range(1, ROUNDS + 1):
        want = states[number]
        for log in (want.log, replace(want.log, known=want.log.rounds + 1)):
            got = catch_up(trial, replace(states[0], certificate=before.certificate), fixed[:number], log)
            alike = want.certificate if log.known is None else replace(want.certificate, digest=got.certificate.digest)
            alike = alike if log.known is None else replace(alike, remarks=got.certificate.remarks)
            assert got.certificate.to_json() == alike.to_json()
            assert np.array_equal(got.predictions, want.predictions)
            for name in ("round_number", "samples", "scales", "missing", "finished"):
                assert getattr(got, name) == getattr(want, name)
            assert got.leader.to_json() == want.leader.to_json()
            assert [samples for _, samples in got.played] == [samples for _, samples in want.played]
        before = want
    mine, theirs = trial.design(got), trial.design(states[-1])
    assert (mine.samples, mine.scale) == (theirs.samples, theirs.scale)
    assert np.array_equal(
        mine.sampler.propensities(problem.population), theirs.sampler.propensities(problem.population)
    )
    assert trial.result(got).certificate is not None


@pytest.mark.parametrize("spec", [LED, LISTED])
def test_leaders_chosen_again_are_those_that_led(spec):
    problem, trial = load_problem(spec), Uniform(0.02, 0.1, model=CellMeans())
    states, fixed = played(trial, problem)
    again = leaders_again(trial, problem.policies, problem.population, fixed, states[-1].log)
    assert again[0].leader is None
    assert [one.leader.to_json() for one in again[1:]] == [one.leader.to_json() for one in fixed[1:]]
    # And they know nothing that came later than their round.
    log = late(states[-1].log, share=0.2, delay=2)
    told = leaders_again(trial, problem.policies, problem.population, fixed, log)
    for number in range(1, ROUNDS):
        then = log.as_of(number)
        cut = leaders_again(trial, problem.policies, problem.population, fixed[: number + 1], then)
        assert [one.leader and one.leader.to_json() for one in cut] == [
            one.leader and one.leader.to_json() for one in told[: number + 1]
        ]


@pytest.mark.first(2)
@pytest.mark.parametrize(("kind", "spec"), CASES)
def test_rewards_that_are_not_in_prove_less_and_nothing_breaks(kind, spec):
    problem, trial = load_problem(spec), kind(0.3, 0.1, model=CellMeans())
    states, fixed = played(kind(0.02, 0.1, model=CellMeans()), problem)
    full = states[-1].log
    values = []
    for share in (0.0, 0.02, 0.3):
        got = catch_up(trial, states[0], fixed, late(full, share=share))
        values.append(got.certificate.value)
        assert got.certificate.samples == len(full) == got.samples
        assert np.isfinite(got.certificate.value)
        plan = trial.design(replace(got, finished=False))
        assert plan.samples >= 1
        assert plan.round_number == ROUNDS + 1
        said = any("not in, and counted at the worst" in words for words in got.certificate.assumptions)
        assert said == (share > 0)
    assert values[0] > values[2]
    # What no reward tells cannot be known: as if every one had been the worst for the leaders.
    worst = catch_up(trial, states[0], fixed, late(full, share=1.0))
    assert not worst.certificate.certified
    assert worst.leader is fixed[-1].leader


@pytest.mark.parametrize(("kind", "spec"), CASES)
def test_before_any_reward_is_in_rounds_are_like_the_first(kind, spec):
    problem, trial = load_problem(spec), kind(0.1, 0.1, model=CellMeans())
    states, fixed = played(trial, problem, rounds=1)
    nothing = late(states[1].log, share=1.0)
    state = catch_up(trial, states[0], fixed, nothing)
    assert isinstance(state, TrialState)
    assert state.leader is None
    plan, first = trial.design(state), trial.design(states[0])
    assert (plan.samples, plan.scale, plan.round_number) == (first.samples, first.scale, 2)
    # A second round, whose rows have come before anything was known; and then the first rewards.
    fixed = [*fixed, PlayedRound(plan.exploration, plan.scale, plan.samples, state.leader)]
    more = problem.interact(plan.sampler, samples=50, rng=np.random.default_rng(5))
    more = replace(more.take(np.repeat(np.arange(len(more)), more.repeats)), repeats=np.ones(50, dtype=np.int64))
    both = nothing.followed_by(late(replace(more, rounds=np.ones(50, dtype=np.int64)), share=1.0))
    rewards = both.rewards.copy()
    rewards[:100] = states[1].log.rewards[:100]
    log = replace(both, rewards=rewards, known=np.where(np.isnan(rewards), -1, 2))
    later = catch_up(trial, states[0], fixed, log)
    assert later.leader is not None
    assert later.samples == len(both)
    assert (later.predictions == 0.5).all()
    assert trial.design(later).samples >= 1


@pytest.mark.first(1)
@pytest.mark.parametrize("spec", [LED, LISTED])
def test_where_the_last_round_is_out_the_first_ones_prove_more(spec):
    problem, trial = load_problem(spec), Uniform(0.1, 0.1, model=CellMeans())
    states, fixed = played(Uniform(0.02, 0.1, model=CellMeans()), problem)
    log = states[-1].log
    out = log.rounds == ROUNDS - 1
    log = replace(log, rewards=np.where(out, np.nan, log.rewards), known=np.where(out, -1, log.rounds + 1))
    got, before = catch_up(trial, states[0], fixed, log), catch_up(trial, states[0], fixed[:-1], log.as_of(ROUNDS - 1))
    assert got.certificate.to_json() == before.certificate.to_json()
    assert got.samples == len(log) > got.certificate.rows
    assert got.missing == before.missing
    assert verify(got.certificate, log, problem.policies).good
    assert trial.result(got).policy is got.policy


def test_what_is_chosen_is_chosen_by_what_may_be_used_by_now():
    problem, trial = load_problem(LISTED), Uniform(0.1, 0.1)
    states, fixed = played(trial, problem)
    log = states[-1].log
    # Of the last round the successes have come, and count; but they are to be used once the failures are known as well.
    came = (log.rounds < ROUNDS - 1) | (log.rewards == 1)
    known = np.where(log.rounds < ROUNDS - 1, log.rounds + 1, ROUNDS + 5)
    soon = replace(log, rewards=np.where(came, log.rewards, np.nan), known=np.where(came, known, -1))
    got, before = catch_up(trial, states[0], fixed, soon), catch_up(trial, states[0], fixed[:-1], log.as_of(ROUNDS - 1))
    assert got.informed.rounds.max() == ROUNDS - 2
    assert [samples for _, samples in got.played] == [samples for _, samples in before.played]


def test_rounds_may_have_other_sizes_than_planned_or_no_rows_yet():
    problem, trial = load_problem(LED), Uniform(0.05, 0.1, model=CellMeans())
    states, fixed = played(trial, problem)
    full = states[-1].log
    keep = np.ones(len(full), dtype=bool)
    keep[np.flatnonzero(full.rounds == 2)] = False
    keep[np.flatnonzero(full.rounds == 3)[5:]] = False
    state = catch_up(trial, states[0], [replace(one, planned=one.planned + 7) for one in fixed], full.only(keep))
    assert len(state.certificate.bets.scales) == ROUNDS - 1
    assert len(state.leaders.turns) == ROUNDS - 1
    assert state.round_number == ROUNDS
    assert trial.design(state).round_number == ROUNDS + 1


def test_predictions_are_of_what_was_known_before_the_round():
    problem, trial = load_problem(LISTED), Uniform(0.05, 0.1)
    states, _ = played(trial, problem)
    log = late(states[-1].log, share=0.1, delay=2)
    told = predict_by_round(log, states[0].model)
    for number in range(1, ROUNDS):
        now = log.rounds == number
        rows = np.flatnonzero((log.known >= 0) & (log.known <= number))
        fitted = (
            states[0].model.fit(
                Log.of(
                    log.contexts.take(rows),
                    actions=log.actions[rows],
                    rewards=log.rewards[rows],
                    propensities=log.propensities[rows],
                    rounds=log.rounds[rows],
                )
            )
            if len(rows)
            else None
        )
        want = (
            np.full_like(told[now], 0.5) if fitted is None else fitted.predict(log.contexts.take(np.flatnonzero(now)))
        )
        assert np.allclose(told[now], want, rtol=0, atol=1e-12)


def test_what_cannot_be_is_said():
    problem, trial = load_problem(LISTED), Uniform(0.05, 0.1)
    states, fixed = played(trial, problem, rounds=2)
    log = states[-1].log
    with pytest.raises(InputError, match="no rounds to catch up with"):
        catch_up(trial, states[0], [], log)
    with pytest.raises(InputError, match="rows of round 1, but 1 rounds were played"):
        catch_up(trial, states[0], fixed[:1], log)
    proven = catch_up(trial, states[0], fixed, log).certificate
    assert catch_up(trial, replace(states[0], certificate=proven), fixed, log).certificate.to_json() == proven.to_json()
    with pytest.raises(InputError, match="of another policy class or delta"):
        catch_up(replace(trial, delta=0.01), replace(states[0], certificate=proven), fixed, log)
    with pytest.raises(InputError, match="rows must stand by round"):
        catch_up(trial, states[0], fixed, log.take(np.arange(len(log))[::-1]))
    with pytest.raises(InputError, match="one interaction of another person"):
        catch_up(trial, states[0], fixed, replace(log, units=np.arange(len(log))))
    with pytest.raises(InputError, match="rounds"):
        catch_up(trial, states[0], [None], log)
    with pytest.raises(InputError, match="planned"):
        PlayedRound(fixed[0].exploration, 1.0, 0, None)


@pytest.mark.thorough
@pytest.mark.parametrize("spec", [LED, LISTED])
def test_a_trial_goes_on_without_an_action_that_was_withdrawn(spec):
    problem, trial = load_problem(spec), Coda(0.05, 0.1, model=CellMeans())
    states, fixed = played(trial, problem)
    log, gone, n_actions = late(states[-1].log, share=0.02), 1, problem.policies.n_actions
    narrow = without(problem.policies, [gone])
    priced = replace(trial, delta=trial.delta * withdrawal_part(n_actions, 1))
    start = priced.start(narrow, problem.population)
    again = leaders_again(priced, narrow, problem.population, fixed, log)
    assert all(one.leader is None or narrow.has(one.leader) for one in again)
    assert all(narrow.has(policy) for one in again for policy in one.exploration.pool)
    state = catch_up(priced, start, again, log)
    plan = priced.design(replace(state, finished=False))
    p = plan.sampler.propensities(problem.population)
    assert (p[:, gone] == 0).all()
    assert np.allclose(p.sum(axis=1), 1)
    # One more round, and what was certified takes the action nowhere; the certificate is of the class without it.
    more = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(7))
    more = more.take(np.repeat(np.arange(len(more)), more.repeats))
    own = {"rounds": np.full(len(more), ROUNDS), "repeats": np.ones(len(more), dtype=np.int64)}
    log = log.followed_by(replace(more, **own, known=np.full(len(more), ROUNDS + 1)))
    again = (*again, PlayedRound(plan.exploration, plan.scale, plan.samples, state.leader))
    state = catch_up(priced, start, again, log)
    made = state.certificate
    assert made.threshold == pytest.approx(
        -np.log(0.1 * 0.05 / n_actions) + (0.0 if state.leaders is not None else narrow.log_size)
    )
    for policy in parts_of(made.policy):
        assert gone not in policy(problem.population)
    assert verify(made, log, narrow).good
    assert "the policy class is not the one that was certified" in verify(made, log, problem.policies).faults[0]
    assert verify(Certificate.from_json(made.to_json()), log, class_from_json(class_to_json(narrow))).good
    assert f"never action {gone}" in narrow.describe()


def test_absorbing_takes_no_rewards_that_are_late():
    problem, trial = load_problem(LISTED), Uniform(0.05, 0.1)
    start = trial.start(problem.policies, problem.population)
    plan = trial.design(start)
    log = problem.interact(plan.sampler, samples=plan.samples, rng=np.random.default_rng(0))
    log = replace(log.take(np.repeat(np.arange(len(log)), log.repeats)), repeats=np.ones(plan.samples, dtype=np.int64))
    with pytest.raises(InputError, match="a round is absorbed once they are all in"):
        trial.absorb(start, plan, replace(log, known=np.ones(len(log), dtype=np.int64)))


def test_what_was_predicted_before_is_not_predicted_again():
    problem, trial = load_problem(LISTED), Uniform(0.05, 0.1)
    states, _ = played(trial, problem)
    log = late(states[-1].log, share=0.1, delay=0)

    class Counting:
        fits = 0

        def fit(self, log):
            Counting.fits += 1
            return states[0].model.fit(log)

        def to_json(self):
            return {"kind": "counting"}

    model = Counting()
    first = predict_by_round(log.as_of(ROUNDS - 1), model)
    assert Counting.fits == ROUNDS - 2
    # One more round, and more rewards of the first ones: what was known before them is what it was.
    again = predict_by_round(log, model)
    assert Counting.fits == ROUNDS - 1
    assert np.array_equal(first, again[: len(first)])
    assert np.array_equal(again, predict_by_round(log, states[0].model))
    # A reward that is another, or was known sooner, changes what follows from it.
    other = replace(log, rewards=np.where(np.arange(len(log)) == int(np.argmin(log.awaited)), 0.5, log.rewards))
    predict_by_round(other, model)
    assert Counting.fits == 2 * (ROUNDS - 1)

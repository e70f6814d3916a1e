"""How many more interactions: a forecast from part of a trial against the whole of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.records import Design, Log
from pacbandits.trials.forecast import look_ahead


def uniform_log(problem, *, samples, seed):
    uniform = Design((), np.empty(0), problem.best_policy())
    return problem.interact(uniform, samples=samples, rng=np.random.default_rng(seed))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("spec", "epsilon"),
    [
        ("two-of-many:actions=10,policies=100", 0.1),
        pytest.param("trees:actions=6,competitive=2,contexts=300,features=3,bins=8", 0.2, marks=pytest.mark.slow),
    ],
)
def test_a_forecast_is_right_to_a_small_factor(spec, epsilon):
    problem = pb.load_problem(spec)
    runs = [pb.run(problem, algorithm="uniform", epsilon=epsilon, delta=0.05, rng=seed).samples for seed in range(3)]
    whole = np.median(runs)
    seen = int(0.3 * whole)
    factors = []
    for seed in range(5):
        log = uniform_log(problem, samples=seen, seed=seed)
        made = pb.certify(log, problem.policies, epsilon=epsilon, delta=0.05).certificate
        ahead = pb.outlook(made, log, problem.policies)
        assert 0 < ahead.best <= ahead.same
        factors.append((seen + ahead.same) / whole)
    assert 1 / 3 < np.median(factors) < 3


def shoppers(rows, seed):
    """The log of a test of three banners that suit different people."""
    rng = np.random.default_rng(seed)
    people, actions = pb.Contexts.of(rng.normal(size=(rows, 2)), names=["visits", "basket"]), rng.integers(3, size=rows)
    x, y = people.features.T
    chance = np.choose(actions, [np.full(rows, 0.1), np.where(x < 0, 0.16, 0.06), np.where(y > 0.5, 0.2, 0.08)])
    rewards = (rng.random(rows) < chance).astype(float)
    return Log.of(people, actions=actions, rewards=rewards, propensities=np.full((rows, 3), 1 / 3))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3_000, 10_000])
def test_as_many_more_rows_as_are_foretold_prove_about_what_was_aimed_at(rows):
    reached = []
    for seed in range(8):
        whole = shoppers(8 * rows, seed)
        seen = whole.take(np.arange(rows))
        trees = pb.learn_class("trees:depth=2,bins=8", seen)
        target, ahead = look_ahead(pb.certify(seen, trees).certificate, seen, trees.policies)
        then = whole.take(np.arange(min(rows + round(ahead.same), len(whole))))
        reached.append(pb.certify(then, "trees:depth=2,bins=8").certificate.certified_epsilon / target)
    assert 0.5 < np.exp(np.log(reached).mean()) < 1.4


def test_a_good_design_would_need_fewer():
    problem = pb.load_problem("two-of-many")
    log = uniform_log(problem, samples=5000, seed=0)
    ahead = pb.outlook(pb.certify(log, problem.policies, epsilon=0.05, delta=0.05).certificate, log, problem.policies)
    assert ahead.best < ahead.same / 2


def test_an_expert_that_stakes_nothing_would_have_kept_what_it_had():
    problem = pb.load_problem("two-of-many:actions=4,policies=10")
    log = uniform_log(problem, samples=300, seed=0)
    made = pb.certify(log, problem.policies, epsilon=0.05, delta=0.1).certificate
    begun = replace(made, value=-np.log(len(made.bets)))
    assert pb.outlook(replace(made, value=-50.0), log, problem.policies) == pb.outlook(begun, log, problem.policies)


def test_weight_that_has_to_move_takes_as_many_rows_as_there_were():
    problem = pb.load_problem("two-of-many:actions=4,policies=10")
    log = uniform_log(problem, samples=300, seed=0)
    made = pb.certify(log, problem.policies, epsilon=0.3, delta=0.1).certificate
    waiting = replace(made, slack=0.4, value=made.threshold + 1.0)
    assert not waiting.certified
    assert pb.outlook(waiting, log, problem.policies) == pb.Outlook(120.0, 120.0)


def test_nothing_more_is_needed_once_certified():
    problem = pb.load_problem("two-of-many:actions=4,policies=10")
    log = uniform_log(problem, samples=5000, seed=0)
    made = pb.certify(log, problem.policies, epsilon=0.3, delta=0.1).certificate
    assert made.certified
    assert pb.outlook(made, log, problem.policies) == pb.Outlook(0.0, 0.0)


def test_an_action_that_was_never_possible_is_hopeless_with_these_and_not_with_a_better_design():
    problem = pb.load_problem("two-of-many:actions=4,policies=10")
    log = uniform_log(problem, samples=2000, seed=0).only(uniform_log(problem, samples=2000, seed=0).actions < 2)
    half = np.tile([0.5, 0.5, 0.0, 0.0], (len(log), 1))
    log = Log.of(log.contexts, actions=log.actions, rewards=log.rewards, propensities=half, repeats=log.repeats)
    made = pb.certify(log, problem.policies, epsilon=0.1, delta=0.1).certificate
    ahead = pb.outlook(made, log, problem.policies)
    assert ahead.same > 1e6
    assert ahead.best < 1e5


def test_a_log_that_knows_played_propensities_alone_has_a_forecast_too():
    problem = pb.load_problem("two-of-many:actions=4,policies=10")
    full = uniform_log(problem, samples=1000, seed=0)
    log = Log.of_played(
        full.contexts,
        actions=full.actions,
        rewards=full.rewards,
        played=full.played_propensities,
        least=np.full(full.propensities.shape, 0.1),
        repeats=full.repeats,
    )
    known, alone = (
        pb.outlook(pb.certify(one, problem.policies, epsilon=0.05, delta=0.05).certificate, one, problem.policies)
        for one in (full, log)
    )
    assert alone.same == pytest.approx(known.same, rel=0.3)


@pytest.mark.thorough
def test_a_log_without_ids_has_a_forecast_too():
    problem = pb.load_problem("trees:actions=3,competitive=2,contexts=300,features=3,bins=4")
    full = uniform_log(problem, samples=500, seed=0)
    plain = replace(full, contexts=replace(full.contexts, ids=None))
    known, alone = (
        pb.outlook(pb.certify(one, problem.policies, epsilon=0.05, delta=0.05).certificate, one, problem.policies)
        for one in (full, plain)
    )
    assert alone.same == pytest.approx(known.same, rel=0.5)
    assert alone.best <= alone.same

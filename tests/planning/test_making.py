"""`plan`: good defaults, and a sentence for what cannot be supposed."""

from __future__ import annotations

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.checks import read_rate
from pacbandits.errors import InputError
from pacbandits.planning import Limits, Traffic
from pacbandits.planning.assumptions import MAX_PEOPLE, effect_of, people_of
from pacbandits.planning.sample_sizes import MAX_QUICK_PEOPLE, estimate
from pacbandits.planning.study_plan import PlanRequest, suppose
from pacbandits.policies.finite import Finite
from pacbandits.problems.scenarios import Outcome, Scenario
from pacbandits.records import Contexts, Log
from tests.planning.cases import people, supposed, trees


def pilot(n=80, n_actions=2):
    """A log of coin flips."""
    rng = np.random.default_rng(0)
    return Log.of(
        people(n),
        actions=np.arange(n) % n_actions,
        rewards=rng.integers(2, size=n).astype(float),
        propensities=np.full((n, n_actions), 1 / n_actions),
    )


def test_defaults_are_the_usual_and_are_shown():
    made = suppose(people(), PlanRequest(n_actions=5, epsilon=0.05, baseline=0.3, policies="trees:depth=1"))
    assert [one.name for one in made.scenarios] == ["none", "winner", "segments", "few"]
    assert made.effects == (pytest.approx(0.06),)  # a fifth of the baseline
    assert made.shares == (0.25,) * 4
    shown = dict(made.describe())
    assert shown["people"] == "80 contexts with 2 features"
    assert shown["wanted"] == "a policy within 0.05 of the best, with probability 0.95"
    assert "mean 0.3, from 0 to 1, all or nothing; people differ by 30 %" in shown["rewards"]
    assert "30 % of the people, by as much (25 %)" in shown["scenario 'segments'"]
    few = suppose(people(), PlanRequest(n_actions=3, epsilon=0.05, baseline=0.3, share=0.4))
    assert [one.name for one in few.scenarios] == ["none", "winner", "segments"]
    assert few.scenarios[2].share == 0.4


def test_a_pilot_tells_what_people_would_have_to_state():
    made = suppose(pilot(), PlanRequest(epsilon=0.2, policies="trees:depth=0"))
    assert [one.name for one in made.scenarios] == ["pilot"]
    assert made.n_actions == 2
    assert made.outcome.baseline == pytest.approx(pilot().rewards.mean())
    with pytest.raises(InputError, match="a pilot determines baseline and spread"):
        suppose(pilot(), PlanRequest(epsilon=0.2, baseline=0.3))
    with pytest.raises(InputError, match="there are 2 actions, but n_actions is 3; leave it out"):
        suppose(pilot(), PlanRequest(epsilon=0.2, n_actions=3))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_actions": None}, "number of actions"),
        ({"n_actions": 1}, "actions"),
        ({"baseline": None}, "give the baseline"),
        ({"baseline": 1.3}, "baseline must lie between 0 and 1"),
        ({"baseline": float("inf")}, "baseline must be"),
        ({"epsilon": None}, "give the tolerance"),
        ({"epsilon": 1.0}, "epsilon must be below 1, .*got 1; no trial is needed"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"delta": 0.95}, "got 0.95.*use 0.05"),
        ({"spread": 0.8}, r"spread must be below 0\.4583"),
        ({"scenarios": None, "effect": 0.9}, "lead beyond 1, the largest reward; take a smaller effect"),
        ({"scenarios": None, "effect": -0.1}, "effect must be"),
        ({"scenarios": None, "share": 1.5}, "share must be"),
        ({"scenarios": (Scenario("none"),), "share": 0.4}, "share would change nothing; leave it out"),
        ({"epsilon": None, "budget": 10}, "10 users are too few to prove anything"),
        ({"scenarios": ()}, "a plan needs a scenario"),
        ({"scenarios": (Scenario("few", effect=0.1),)}, "2 of 2 actions are not a few"),
        ({"scenarios": (Scenario("none"), Scenario("none"))}, "two scenarios are named 'none'"),
        ({"control": 2}, "control must be"),
        ({"traffic": "4000"}, "such as 4000/week; got '4000'"),
        ({"traffic": Traffic(1, "hour")}, "2 actions are too many for 1 people a hour"),
        ({"budget": 0}, "budget"),
        ({"seed": -1}, "seed"),
        ({"policies": "tree:depth=1"}, "unknown policy class 'tree'"),
        ({"policies": trees(n_actions=3)}, "actions"),
        ({"contexts": Contexts.of(np.ones((50, 2)))}, "all 50 contexts are the same"),
    ],
)
def test_bad_assumptions_get_a_sentence(options, words):
    with pytest.raises(InputError, match=words):
        supposed(**options)


def test_many_people_are_drawn_from_and_all_are_kept_where_a_class_knows_each():
    many = Contexts.of(np.arange(5_000.0)[:, None])
    some = people_of(many, seed=3)
    assert len(some) == MAX_PEOPLE
    np.testing.assert_array_equal(some.ids, np.arange(MAX_PEOPLE))
    assert 0.45 < some.features.mean() / 5_000 < 0.55
    np.testing.assert_array_equal(people_of(many, seed=3).features, some.features)
    weights = np.zeros(5_000)
    weights[:40] = 1 / 40
    rare = people_of(Contexts.of(many.features, weights=weights))
    assert len(rare) == 40
    n = MAX_QUICK_PEOPLE + 30
    own = supposed(Contexts.finite(n), policies=Finite([[0] * n, [1] * n], n_actions=2), n_actions=None)
    assert len(own.people) == n
    assert estimate(own, draws=1, designs=False)[0].medians["uniform"] > 0


def test_epsilon_follows_from_a_budget():
    smaller, larger = (
        supposed(epsilon=None, budget=budget, scenarios=(Scenario("winner", effect=0.2),)).epsilon
        for budget in (30_000, 600)
    )
    assert 0 < smaller < larger < 1


def test_a_plan_in_one_call():
    made = pb.plan(
        people(),
        n_actions=2,
        policies="trees:depth=0",
        epsilon=0.25,
        baseline=0.3,
        effect=0.4,
        traffic=Traffic(20_000, "day", batched=True),  # more than any trial needs
        limits=Limits(trials=1, processes=1),
        progress=None,
    )
    assert made.simulated
    assert made.max_samples >= 20_000
    for one in made.trials:
        assert (one.samples, one.periods, one.done) == (20_000, 1.0, True)
    assert made.samples["coda"].median == made.foretold("coda").median == 20_000


@pytest.mark.parametrize(
    ("baseline", "variation", "effect"),
    [(0.05, 0.3, 0.01), (0.5, 0.3, 0.1), (0.9, 0.3, 0.02), (0.9, 0.9, 0.01)],
)
def test_the_default_effect_is_a_fifth_of_the_baseline_or_of_what_is_left(baseline, variation, effect):
    """Whatever ε is: an effect of four times ε made 5 % into 13 %."""
    usual = {"n_actions": 3, "policies": "trees:depth=0", "baseline": baseline, "variation": variation}
    for epsilon in (0.02, 0.002):
        made = suppose(people(), PlanRequest(epsilon=epsilon, **usual))
        assert made.effects == (pytest.approx(effect),)
        assert made.problem(1, 0).mean_rewards.max() <= 1


@pytest.mark.parametrize(("effect", "made"), [(0.02, 0.02), ("2%", 0.02), ("+20%", 0.01), (" +20 % ", 0.01)])
def test_an_effect_is_stated_in_rewards_or_in_percent_of_the_baseline(effect, made):
    assert effect_of(effect, Outcome(0.05)) == pytest.approx(made)


def test_percentages_are_for_rates():
    assert effect_of("+20%", Outcome(20.0, high=250.0)) == pytest.approx(4.0)
    usual = {"n_actions": 3, "policies": "trees:depth=0", "reward_range": (0.0, 250.0)}
    five = read_rate("5%")
    for stated, name in (
        ({"baseline": five, "epsilon": 1.0}, "baseline"),
        ({"baseline": 20, "epsilon": five}, "epsilon"),
    ):
        with pytest.raises(InputError, match=f"{name} was given in percent .5%., but rewards lie between 0 and 250"):
            suppose(people(), PlanRequest(**usual, **stated))
    with pytest.raises(InputError, match="effect was given in percent"):
        effect_of("5%", Outcome(20.0, high=250.0))
    with pytest.raises(InputError, match="share of the baseline, which is -3"):
        effect_of("+5%", Outcome(-3.0, low=-10.0))
    with pytest.raises(InputError, match=r"effect must be a number, .*got 'much'"):
        effect_of("much", Outcome(0.05))
    with pytest.raises(InputError, match="effect must be positive"):
        effect_of("-20%", Outcome(0.05))


def test_truths_are_the_same_for_the_same_seed():
    one, other = supposed(seed=4), supposed(seed=4)
    np.testing.assert_array_equal(one.problem(1, 7).mean_rewards, other.problem(1, 7).mean_rewards)
    assert (one.problem(1, 7).mean_rewards != one.problem(1, 8).mean_rewards).any()

"""A plan turned round: a larger budget affords more of everything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pacbandits.planning import Traffic
from pacbandits.planning import sample_sizes as affording
from pacbandits.planning.sample_sizes import ANALYSES, affordable, affordable_epsilon, by_effect, estimate, foretold
from pacbandits.problems.scenarios import Scenario
from tests.planning.cases import people, supposed, trees

SOME = (Scenario("none"), Scenario("winner", effect=0.4), Scenario("few", effect=0.4, matter=3))


@pytest.fixture(autouse=True)
def one_draw(monkeypatch):
    """Of each scenario: quicker, and as good for comparing."""
    monkeypatch.setattr(affording, "DRAWS", 1)


@pytest.fixture(scope="module")
def four():
    """Four actions, trees of one cut; and what is foretold of them."""
    s = supposed(people(30), n_actions=4, policies="trees:depth=1", epsilon=0.2, scenarios=SOME[1:])
    return s, estimate(s, draws=1, designs=False)


@pytest.mark.thorough
def test_a_larger_budget_affords_more(four):
    s, estimates = four
    made = [affordable(s, estimates, budget) for budget in (250, 20_000)]
    assert made[0].epsilon > made[1].epsilon
    assert [one.actions for one in made] == sorted(one.actions for one in made)
    depths = [-1 if one.depth is None else one.depth for one in made]
    assert depths == sorted(depths)
    assert (made[-1].actions, made[-1].depth) == (4, 2)
    assert made[0].actions < 4
    counts = list(made[0].by_depth.values())
    assert list(made[0].by_depth) == [0, 1, 2]
    assert counts == sorted(counts)
    assert 0 < made[0].one_action_less < estimates[0].medians["uniform"]
    assert made[0].to_json()["by_depth"]["2"] == counts[2]


@pytest.mark.parametrize("enough", range(1, 40))
def test_the_most_actions_are_found(monkeypatch, enough):
    monkeypatch.setattr(affording, "_people", lambda one, ratio: (1.0, 100.0 if one <= enough else 101.0))
    monkeypatch.setattr(affording.Assumptions, "with_actions", lambda supposed, n: n)
    wide = supposed(policies=trees(depth=0, n_actions=40), n_actions=None)
    assert affording._affordable_actions(wide, 100, 400.0, 1.0) == enough


def test_smaller_and_larger_effects_are_told_beside_the_supposed_one():
    s = supposed(scenarios=(Scenario("none"), Scenario("winner", effect=0.2)))
    own = estimate(s, designs=False)
    made = by_effect(s, own)
    assert list(made) == pytest.approx([0.1, 0.2, 0.3])
    assert made[0.2] == own
    assert all(set(one.medians) == set(ANALYSES) for found in made.values() for one in found)
    large = supposed(scenarios=(Scenario("winner", effect=0.6),))
    assert max(by_effect(large, estimate(large, designs=False))) == 0.6  # 0.9 cannot be
    for few in ((Scenario("none"),), (Scenario("winner", effect=0.2), Scenario("segments", effect=0.1))):
        assert by_effect(supposed(scenarios=few), own) == {}


def test_the_epsilon_of_a_budget_takes_about_that_budget(four):
    s, _ = four
    one = replace(s, scenarios=s.scenarios[:1])
    epsilon = affordable_epsilon(one, 2_000)
    needed = affording._people(one.with_epsilon(epsilon), 1.0)[1]
    assert 2_000 / 1.2 < needed < 2_000 * 1.2


@pytest.mark.first(2)
@pytest.mark.parametrize("budget", [700, 3_000, 50_000, 10_000_000])
def test_a_budget_is_never_exceeded_in_four_cases_of_five(four, budget):
    s, _ = four
    epsilon = affordable_epsilon(s, budget)
    assert foretold(estimate(s.with_epsilon(epsilon), draws=1), s.shares, "coda").p80 <= budget
    assert epsilon == float(f"{epsilon:.2g}")


def test_so_few_people_that_nothing_is_proven(four):
    s, estimates = four
    made = affordable(s, estimates, 10)
    assert made.epsilon is None
    assert made.to_json()["epsilon"] is None


def test_late_rewards_and_batches_afford_less(four):
    s, estimates = four
    late = replace(s, traffic=Traffic(100, batched=True, delay=5))
    assert affordable_epsilon(late, 1_000) > affordable_epsilon(s, 1_000)
    assert affordable(late, estimates, 500).actions == 1  # nothing is known by then
    assert affordable_epsilon(late, 500) is None


def test_fewer_actions_leave_out_what_could_not_be():
    s = supposed(n_actions=4, policies="trees:depth=1", scenarios=SOME, control=3)
    three = s.with_actions(3)
    assert (three.n_actions, three.control) == (3, 2)
    assert [one.kind for one in three.scenarios] == ["none", "winner"]
    assert [one.kind for one in s.with_actions(3).scenarios] == ["none", "winner"]


def test_only_classes_with_a_name_can_be_made_anew():
    named, own = supposed(policies="trees:depth=3,bins=4"), supposed(policies=trees(), n_actions=None)
    assert named.with_trees(depth=1).spec == "trees:depth=1,bins=4"
    assert own.with_trees(depth=1) is None
    assert affording._depths(named) == (0, 1, 2, 3)
    assert affording._depths(own) == (0, 1, 2)
    made = affordable(own, estimate(own, draws=1, designs=False), 1_000)
    assert (made.actions, made.depth, made.one_action_less, made.by_depth) == (None, None, None, {})

"""The class of linear policies: its oracles against every parameter of small grids, its JSON, and trials with it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies import Linear, LinearPolicy, class_from_json, class_to_json, policy_from_json
from pacbandits.policies.features import Crossed, Given
from pacbandits.policies.linear import classes as oracle
from pacbandits.policies.linear import enumeration as linear_grid
from pacbandits.policies.linear.classes import ListedLinear, SearchedLinear, SolvedLinear, SweptLinear
from pacbandits.policies.linear.policy import rows_of
from pacbandits.policies.registry import load_policies
from pacbandits.problems import load_problem
from pacbandits.records import Contexts
from pacbandits.simulation import run
from pacbandits.verifier import recompute as verify
from tests.policies.linear.cases import brute_values, draw_people, grid, value, with_phi


def test_listed_policies_are_all_there_is() -> None:
    rng = np.random.default_rng(3)
    contexts = draw_people(rng, 30, 1, labels=2)
    policies = Linear.learn(contexts, n_actions=2, levels=3)
    assert policies.lists_policies
    assert isinstance(policies, ListedLinear)
    table = policies.actions(contexts)
    assert table.shape == (len(policies), 30)
    for index in (0, 57, len(policies) - 1):
        np.testing.assert_array_equal(policies.policy(index)(contexts), table[index])
        assert policies.has(policies.policy(index))
    for seed in range(10):
        scores = np.random.default_rng(seed).normal(size=(30, 2))
        wanted = brute_values(policies.map(contexts), grid(3, 3), scores).max()
        assert value(policies.argmax(contexts, scores), contexts, scores) == pytest.approx(wanted)
        np.testing.assert_allclose(policies.values(contexts, scores)[0].max(), wanted)


def test_swept_policies_are_all_looked_at() -> None:
    rng = np.random.default_rng(4)
    contexts = draw_people(rng, 25, 1)
    listed = Linear.learn(contexts, n_actions=3, levels=2)
    assert isinstance(listed, ListedLinear)
    swept = SweptLinear(listed.map, levels=2)
    assert not swept.lists_policies
    for seed in range(5):
        scores = np.random.default_rng(seed).normal(size=(25, 3))
        (whole,) = listed.values(contexts, scores)
        rows = rows_of(listed.map, contexts)
        (parts,) = linear_grid.values_of(rows, listed.parameters, rows.add_up(scores), entries_at_a_time=1000)
        np.testing.assert_array_equal(parts, whole)
        assert swept.argmax(contexts, scores).parameter == listed.argmax(contexts, scores).parameter
        for one, other in zip(*(c.frontier(contexts, scores, -scores).first for c in (swept, listed)), strict=True):
            assert one == pytest.approx(other)


def test_how_oracles_are_chosen() -> None:
    contexts = draw_people(np.random.default_rng(0), 10, 3)
    kinds = {
        "auto": [ListedLinear, SweptLinear, SearchedLinear],
        "search": [SearchedLinear] * 3,
        "milp": [SolvedLinear] * 3,
    }
    for name, wanted in kinds.items():
        made = [Linear.learn(contexts, n_actions=2, levels=levels, oracle=name) for levels in (2, 6, 9)]
        assert [type(one) for one in made] == wanted
        assert [one.exact for one in made] == [kind not in (SearchedLinear, SolvedLinear) for kind in wanted]
    assert type(Linear.learn(contexts, n_actions=2, levels=9, oracle="list")) is SweptLinear
    few = Contexts.of(contexts.features, ids=np.arange(10))
    assert type(Linear.learn(few, n_actions=2, levels=9)) is SweptLinear
    many = draw_people(np.random.default_rng(0), 20_000, 3)
    assert type(Linear.learn(many, n_actions=2, levels=6)) is SearchedLinear
    with pytest.raises(InputError, match="too many to list"):
        Linear.learn(contexts, n_actions=5, levels=9, oracle="list")
    wide = Contexts.of(np.random.default_rng(0).normal(size=(5, 400)))
    with pytest.raises(InputError, match=r"about 10\^\d{3} policies are too many to list"):
        Linear.learn(wide, n_actions=3, oracle="list", levels=8)


def test_scores_that_tell_nothing() -> None:
    contexts = draw_people(np.random.default_rng(0), 20, 2)
    for name in ("auto", "search", "milp"):
        policies = Linear.learn(contexts, n_actions=3, levels=1, oracle=name)
        assert not any(policies.argmax(contexts, np.full((20, 3), 0.7)).parameter)


def test_json() -> None:
    contexts = draw_people(np.random.default_rng(0), 20, 2, labels=3)
    for policies in (
        Linear.learn(contexts, n_actions=3, levels=2, oracle="search"),
        Linear.of(Crossed.shared(contexts, [[0.1, 0.2], [0.3, -0.4]]), oracle="milp"),
        Linear.of(Given(3, 2), levels=5),
    ):
        back = class_from_json(json.loads(json.dumps(class_to_json(policies))))
        assert isinstance(back, Linear)
        assert type(back) is type(policies)
        assert (back.levels, back.log_size, back.exact) == (policies.levels, policies.log_size, policies.exact)
        assert back.map.to_json() == policies.map.to_json()
        policy = LinearPolicy(policies.map, (1,) * policies.map.dimension)
        read = policy_from_json(json.loads(json.dumps(policy.to_json())))
        assert isinstance(read, LinearPolicy)
        assert read.parameter == policy.parameter
        assert read.map is policies.map  # so that what is known of contexts is known once
        assert back.has(read)


def test_what_belongs_to_a_class() -> None:
    contexts = draw_people(np.random.default_rng(0), 20, 2)
    policies = Linear.learn(contexts, n_actions=2, levels=3)
    assert policies.has(LinearPolicy(policies.map, (3, -1, 0)))
    assert policies.has(LinearPolicy(policies.map, (6, -2, 0)))
    assert not policies.has(LinearPolicy(policies.map, (4, -1, 0)))
    assert not policies.has(LinearPolicy(Given(2, 3), (1, 1, 1)))
    other = Linear.learn(contexts.take([0, 1, 2]), n_actions=2, levels=3)
    assert not policies.has(LinearPolicy(other.map, (1, 0, 0)))


def test_features_too_large_to_be_squared_are_refused():
    with pytest.raises(InputError, match="'x0' has values beyond"):
        Linear.learn(Contexts.of([[1e200], [2e200]], names=["x0"]), n_actions=2)


def test_wrong_classes_are_refused() -> None:
    with pytest.raises(InputError, match=r"make linear policies by Linear\.of\(map\) or Linear\.learn"):
        Linear(Given(3, 2))  # pyright: ignore[reportAbstractUsage]
    contexts = draw_people(np.random.default_rng(0), 20, 2)
    for levels in (0, -1, 1001):
        with pytest.raises(InputError, match="levels must be from 1 to 1000"):
            Linear.learn(contexts, n_actions=2, levels=levels)
    with pytest.raises(InputError, match="whole number"):
        Linear.learn(contexts, n_actions=2, levels=1.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="unknown oracle 'serch'; did you mean 'search'"):
        Linear.learn(contexts, n_actions=2, oracle="serch")
    with pytest.raises(InputError, match="n_actions must be 1 or more"):
        Linear.learn(contexts, n_actions=0)
    with pytest.raises(InputError, match="nothing depends on the action"):
        Linear.of(Crossed.shared(contexts, np.zeros((3, 2))))
    with pytest.raises(InputError, match="zero everywhere"):
        Linear.learn(with_phi(np.zeros((3, 2, 2))), n_actions=2)
    policies = Linear.of(Given(3, 2))
    with pytest.raises(InputError, match="no features of actions"):
        policies.argmax(contexts, np.zeros((20, 3)))
    with pytest.raises(InputError, match="4 features, but 2 are needed"):
        policies.argmax(with_phi(np.ones((2, 3, 4))), np.zeros((2, 3)))
    for name in ("auto", "search"):
        with pytest.raises(InputError, match="finite"):
            Linear.learn(contexts, n_actions=2, oracle=name).argmax(contexts, np.full((20, 2), np.nan))


def test_specs() -> None:
    contexts = draw_people(np.random.default_rng(0), 20, 2)
    made = load_policies("linear", contexts, n_actions=3)
    assert isinstance(made, Linear)
    assert made.levels == oracle.default_levels(6) == 2
    assert type(load_policies("linear:levels=4", contexts, n_actions=3)) is SearchedLinear
    assert isinstance(load_policies("linear:oracle=milp", contexts, n_actions=3), SolvedLinear)
    given_phi = load_policies("linear", with_phi(np.ones((3, 2, 2))), n_actions=2)
    assert isinstance(given_phi, Linear)
    assert isinstance(given_phi.map, Given)
    with pytest.raises(InputError, match="need features or phi, but the contexts have neither"):
        load_policies("linear", Contexts.finite(3), n_actions=2)
    with pytest.raises(InputError, match="oracle must be auto or list or milp or search"):
        load_policies("linear:oracle=best", contexts, n_actions=3)


def test_a_trial_ends_with_a_certificate_that_holds() -> None:
    problem = load_problem("linear:dimension=3,actions=3,contexts=50")
    policies = Linear.learn(problem.population, n_actions=3, levels=2)
    done = run(problem, policies, epsilon=0.2, delta=0.1, rng=0)
    assert done.stopped == "done"
    assert done.correct
    assert done.certificate is not None
    assert done.log is not None
    assert verify(done.certificate, done.log, policies).good
    back = class_from_json(json.loads(json.dumps(class_to_json(policies))))
    assert verify(done.certificate, done.log, back).good


@pytest.mark.thorough
def test_a_trial_with_a_searched_class_says_what_it_assumes() -> None:
    problem = load_problem("trees:features=3,actions=3,contexts=30")
    policies = Linear.learn(problem.population, n_actions=3, levels=1, oracle="search")
    done = run(problem, policies, algorithm="uniform", epsilon=0.3, delta=0.1, rng=0)
    assert done.certificate is not None
    assert done.log is not None
    assert verify(done.certificate, done.log, policies).good
    assert "not exact" in done.guarantee

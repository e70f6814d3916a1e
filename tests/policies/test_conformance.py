"""What every policy class must do, asked of each one that is on offer, and of each capability that a class has."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.errors import InputError
from pacbandits.policies import PolicyClass, TreePolicy, class_from_json, class_to_json, policy_from_json
from pacbandits.policies.base import CountedClass
from pacbandits.policies.registry import CLASSES, SPECS, describe_class
from pacbandits.records import Contexts, Policy
from tests.policies.brute import values
from tests.policies.cases import CASES, Case


@cache
def made(name: str) -> Case:
    return CASES[name]()


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return made(request.param)


def having(capability: str) -> pytest.MarkDecorator:
    """The cases whose class has a capability."""
    names = [name for name in CASES if getattr(made(name).policies, capability)]
    assert names
    return pytest.mark.parametrize("case", [made(name) for name in names], ids=names)


def scores_for(case: Case, seed: int, contexts: Contexts | None = None) -> np.ndarray:
    n = len(case.contexts if contexts is None else contexts)
    return np.random.default_rng(seed).normal(size=(n, case.policies.n_actions))


def value(policy: Policy, contexts: Contexts, scores: np.ndarray) -> float:
    return float(values(policy(contexts)[None], scores)[0])


def assert_same(one: Callable[..., np.ndarray], other: Callable[..., np.ndarray], contexts: Contexts) -> None:
    np.testing.assert_array_equal(one(contexts), other(contexts))


def test_every_class_on_offer_is_here() -> None:
    public = {
        name for name in pb.__all__ if isinstance(getattr(pb, name), type) and hasattr(getattr(pb, name), "argmax")
    }
    public.remove("PolicyClass")
    made = [make().policies for make in CASES.values()]
    missing = {name for name in public if not any(isinstance(policies, getattr(pb, name)) for policies in made)}
    assert len(public) >= 6
    assert not missing
    assert set(SPECS) <= set(CASES)
    assert set(CLASSES) <= {class_to_json(p)["kind"] for p in made if not isinstance(p, pb.Learned)}


def test_interface(case: Case) -> None:
    policies = case.policies
    assert isinstance(policies, PolicyClass)
    assert policies.n_actions == 3
    assert 0 < policies.log_size < np.inf
    assert isinstance(policies.exact, bool)
    wrapped = CountedClass(policies)
    for capability in PolicyClass.flags:
        assert getattr(wrapped, capability) == getattr(policies, capability)


@pytest.mark.first(36)
@pytest.mark.parametrize("action", range(3))
def test_an_action_that_is_best_everywhere_is_taken_everywhere(case: Case, action: int) -> None:
    if (case.policies.lists_policies and case.policies.n_contexts) or case.contexts.phi is not None:
        pytest.skip("this class need not have constant policies")
    if action in case.policies.withdrawn:
        pytest.skip("this class never takes that action")
    scores = scores_for(case, 0) + 10.0 * np.eye(3)[action]
    assert (case.policies.argmax(case.contexts, scores)(case.contexts) == action).all()


@pytest.mark.first(13)
def test_argmax_ignores_the_weights_of_contexts(case: Case) -> None:
    c = case.contexts
    skewed = replace(c, weights=np.random.default_rng(0).dirichlet(np.ones(len(c))))
    scores = scores_for(case, 3)
    assert_same(case.policies.argmax(skewed, scores), case.policies.argmax(c, scores), c)


@pytest.mark.first(18)
def test_ties_break_the_same_way(case: Case) -> None:
    for scores in (np.zeros((len(case.contexts), 3)), np.round(scores_for(case, 2))):
        one, other = (case.policies.argmax(case.contexts, scores.copy()) for _ in range(2))
        assert one.describe() == other.describe()
        if not isinstance(case.policies, pb.Learned):
            assert one.to_json() == other.to_json()
        assert_same(one, other, case.unseen)


def test_wrong_scores_are_refused(case: Case) -> None:
    n, good = len(case.contexts), scores_for(case, 0)
    bad = {"nan": good.copy(), "infinite": good.copy()}
    bad["nan"][1, 2] = np.nan
    bad["infinite"][0, 0] = -np.inf
    for scores in (*bad.values(), good[:-1], good[:, :2], good[0], np.full((n, 3), "x")):
        with pytest.raises(InputError):
            case.policies.argmax(case.contexts, scores)
        if case.policies.has_frontier:
            with pytest.raises(InputError):
                case.policies.frontier(case.contexts, scores, good)
            with pytest.raises(InputError):
                case.policies.frontier(case.contexts, good, scores)


def test_policies_describe_themselves(case: Case) -> None:
    text = case.policies.argmax(case.contexts, scores_for(case, 0)).describe()
    assert "action" in text
    assert text.strip() == text


def test_policies_act_on_contexts_never_seen(case: Case) -> None:
    policy = case.policies.argmax(case.contexts, scores_for(case, 1))
    actions = policy(case.unseen)
    assert actions.shape == (len(case.unseen),)
    assert actions.dtype == np.int64
    assert ((actions >= 0) & (actions < 3)).all()
    # Row by row, in any order, the same.
    order = np.random.default_rng(0).permutation(len(case.unseen))
    np.testing.assert_array_equal(policy(case.unseen.take(order)), actions[order])


@pytest.mark.first(18)
def test_policies_survive_json_or_say_why_not(case: Case) -> None:
    for seed in range(3):
        policy = case.policies.argmax(case.contexts, scores_for(case, seed))
        if isinstance(case.policies, pb.Learned):
            with pytest.raises(InputError, match="no code is ever loaded from a file"):
                policy.to_json()
            continue
        back = policy_from_json(json.loads(json.dumps(policy.to_json())))
        assert back.n_actions == policy.n_actions == 3
        assert back.describe() == policy.describe()
        assert_same(back, policy, case.contexts)
        assert_same(back, policy, case.unseen)


@pytest.mark.first(14)
def test_classes_survive_json_or_say_why_not(case: Case) -> None:
    policies = case.policies
    if isinstance(policies, pb.Learned):
        with pytest.raises(InputError, match="no code is ever loaded from a file"):
            class_to_json(policies)
        return
    written = json.loads(json.dumps(class_to_json(policies)))
    back = class_from_json(written)
    assert type(back) is type(policies)
    assert class_to_json(back) == written
    assert describe_class(back) == describe_class(policies)
    assert (back.n_actions, back.log_size, back.exact) == (3, policies.log_size, policies.exact)
    for seed in range(3):
        scores = scores_for(case, seed)
        one, other = (each.argmax(case.contexts, scores) for each in (policies, back))
        assert one.to_json() == other.to_json()


def test_classes_describe_themselves(case: Case) -> None:
    words = describe_class(case.policies)
    assert words.startswith(f"{case.policies.describe()}, ")
    assert words.endswith(" policies on 3 actions")


@pytest.mark.first(18)
@having("checks_membership")
def test_closed_classes_know_their_own(case: Case) -> None:
    for seed in range(5):
        policy = case.policies.argmax(case.contexts, scores_for(case, seed))
        assert case.policies.has(policy)
        assert case.policies.has(policy_from_json(policy.to_json()))
    assert not case.policies.has(TreePolicy(3, n_actions=4))  # an action that there is not
    foreign = pb.Finite([[0, 1]], n_actions=3).policy(0)
    assert not case.policies.has(foreign)


@having("lists_policies")
def test_listed_classes_list_what_they_do(case: Case) -> None:
    assert np.log(len(case.policies)) == pytest.approx(case.policies.log_size)
    table = case.policies.actions(case.contexts)
    assert table.shape == (len(case.policies), len(case.contexts))
    for index in range(0, len(case.policies), 7):
        np.testing.assert_array_equal(case.policies.policy(index)(case.contexts), table[index])
    scores = scores_for(case, 0)
    best = case.policies.argmax(case.contexts, scores)
    assert value(best, case.contexts, scores) == pytest.approx(values(table, scores).max())


@having("has_frontier")
def test_frontiers_end_where_the_argmax_is(case: Case) -> None:
    first, second = scores_for(case, 0), scores_for(case, 1)
    front = case.policies.frontier(case.contexts, first, second)
    tops = (value(case.policies.argmax(case.contexts, one), case.contexts, one) for one in (first, second))
    np.testing.assert_allclose([front.first[0], front.second[-1]], list(tops))


@having("feature_names")
def test_features_that_are_asked_about_exist(case: Case) -> None:
    assert case.policies.feature_names
    assert set(case.policies.feature_names) <= set(case.contexts.names)


@having("n_contexts")
def test_classes_over_a_finite_set_know_its_size(case: Case) -> None:
    assert case.policies.n_contexts == len(case.contexts)
    with pytest.raises(InputError, match="no ids"):
        case.policies.argmax(replace(case.contexts, ids=None), scores_for(case, 0))


@having("holds_every_map")
def test_a_class_of_every_map_makes_any(case: Case) -> None:
    for seed in range(3):
        actions = np.random.default_rng(seed).integers(0, 3, case.policies.n_contexts)
        policy = case.policies.policy_of(actions)
        np.testing.assert_array_equal(policy(case.contexts), actions)
        best = case.policies.argmax(case.contexts, np.eye(3)[actions])
        np.testing.assert_array_equal(best(case.contexts), actions)


def test_greedy_policies_are_welcome_where_it_is_said(case: Case) -> None:
    welcome = case.policies.accepts_greedy
    assert welcome == isinstance(case.policies, pb.Linear | pb.Trivial)


OLD = {
    "finite": {"kind": "finite", "n_actions": 2, "table": [[0, 1], [1, 1]]},
    "finite, no names": {"kind": "finite", "n_actions": 2, "table": [[0, 1], [1, 1]], "names": None},
    "trivial": {"kind": "trivial", "n_actions": 2, "n_contexts": 3},
    "trivial, with its resolution": {"kind": "trivial", "n_actions": 2, "n_contexts": 3, "resolution": 2048},
}


@pytest.mark.parametrize("written", OLD.values(), ids=OLD)
def test_what_was_written_before_is_read(written: dict[str, object]) -> None:
    back = class_from_json(written)
    names = {key: written[key] for key in ("kind", "n_actions", "table", "n_contexts") if key in written}
    assert class_to_json(back) == names


def test_names_and_resolution_survive_json() -> None:
    named = pb.Finite([[0, 1], [1, 1]], n_actions=2, names=["split", "always"])
    back = class_from_json(json.loads(json.dumps(class_to_json(named))))
    assert isinstance(back, pb.Finite)
    assert back.names == ("split", "always")
    assert back.policy(1).describe() == "always: always action 1"
    fine = class_from_json(json.loads(json.dumps(class_to_json(pb.Trivial(3, 2, resolution=64)))))
    assert isinstance(fine, pb.Trivial)
    assert fine.resolution == 64


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must be an object"),
        ({"n_actions": 2}, "with a 'kind'"),
        ({"kind": "finit"}, "did you mean 'finite'"),
        ({"kind": "finite", "n_actions": 2}, "cannot be read"),
        ({"kind": "finite", "n_actions": 2, "table": [[0, 1]], "names": 3}, "cannot be read"),
        ({"kind": "trivial", "n_actions": 2, "n_contexts": 3, "resolution": None}, "whole number"),
        ({"kind": "linear", "map": {"kind": "other"}, "levels": 1, "oracle": "auto"}, "crossed or given"),
    ],
)
def test_classes_in_json_are_checked(value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        class_from_json(value)

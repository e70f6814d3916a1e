"""One tree: how it acts, how it is told, and its JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.errors import InputError
from pacbandits.policies import TreePolicy, policy_from_json
from pacbandits.policies.trees.tree_policy import AtMost, Is, TreeSplit
from pacbandits.records import Contexts
from tests.policies.trees.cases import TREE


def test_trees_print_in_the_units_of_the_data() -> None:
    assert TREE.describe() == ("if age ≤ 34.5:\n    if region is north: action 2\n    else: action 0\nelse: action 1")
    assert TreePolicy(root=3, n_actions=4).describe() == "always action 3"
    assert AtMost("year", 1234567.5).describe() == "year ≤ 1234567.5"
    assert AtMost("x", 0.1 + 0.2).describe() == "x ≤ 0.3"


def test_features_are_found_by_name_on_contexts_never_seen() -> None:
    contexts = Contexts.of(
        [[0, 30.0, 5.0], [1, 30.0, 5.0], [1, 34.5, 5.0], [1, 34.6, 5.0]],
        names=["region", "age", "noise"],
        categories=[["south", "north"], None, None],
    )
    np.testing.assert_array_equal(TREE(contexts), [0, 2, 2, 1])
    unknown = Contexts.of([[30.0, 0]], names=["age", "region"], categories=[None, ["west"]])
    np.testing.assert_array_equal(TREE(unknown), [0])
    with pytest.raises(InputError, match="lack the feature 'region'"):
        TREE(Contexts.of([[30.0]], names=["age"]))
    with pytest.raises(InputError, match="'region' must hold labels"):
        TREE(Contexts.of([[30.0, 0.0]], names=["age", "region"]))


@pytest.mark.thorough
@given(st.floats(allow_nan=False, allow_infinity=False), st.text(), st.text(), st.integers(0, 4))
def test_json_round_trips_exactly(threshold: float, name: str, label: str, action: int) -> None:
    policy = TreePolicy(TreeSplit(AtMost(name, threshold), TreeSplit(Is(name, label), action, 1), 0), n_actions=5)
    assert policy_from_json(json.loads(json.dumps(policy.to_json()))) == policy


def deep(levels: int) -> dict[str, object]:
    node: dict[str, object] = {"action": 0}
    for _ in range(levels):
        node = {"feature": "x", "at_most": 1, "then": node, "else": {"action": 1}}
    return node


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"root": None}, "must be an object"),
        ({"root": {}}, "needs an 'action'"),
        ({"root": {"action": 3}}, "action 3, but actions go from 0 to 2"),
        ({"root": {"action": -1}}, "0 or more, got -1"),
        ({"root": {"action": 1.5}}, "whole number"),
        ({"root": {"action": True}}, "whole number"),
        ({"n_actions": "3"}, "whole number"),
        (
            {"root": {"feature": "x", "at_most": 1, "is": "y", "then": {"action": 0}, "else": {"action": 0}}},
            "one of",
        ),
        (
            {"root": {"feature": "x", "at_most": "1", "then": {"action": 0}, "else": {"action": 0}}},
            "a number",
        ),
        (
            {"root": {"feature": "x", "at_most": float("nan"), "then": {"action": 0}, "else": {"action": 0}}},
            "finite",
        ),
        (
            {"root": {"feature": "x", "at_most": 10**400, "then": {"action": 0}, "else": {"action": 0}}},
            "finite",
        ),
        ({"root": {"feature": 1, "is": "a", "then": {"action": 0}, "else": {"action": 0}}}, "must be text, got 1"),
        ({"root": {"feature": "x", "is": 1, "then": {"action": 0}, "else": {"action": 0}}}, "text"),
        ({"root": deep(2000)}, "deep"),
    ],
)
def test_malformed_json_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        policy_from_json({**TREE.to_json(), **change})


def test_a_missing_key_is_named() -> None:
    with pytest.raises(InputError, match="lacks 'root'"):
        policy_from_json({"kind": "tree", "n_actions": 3})

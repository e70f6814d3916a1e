"""Tables of policies: construction, description, and sums over repeated contexts."""

from __future__ import annotations

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.policies import Finite, TablePolicy, policy_from_json
from pacbandits.records import Contexts


@pytest.fixture
def table() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, (30, 7))


def test_values_add_up_repeated_contexts(table: np.ndarray) -> None:
    policies = Finite(table, n_actions=4)
    contexts = Contexts.finite(7).take([3, 3, 0, 6, 3])
    scores = np.random.default_rng(1).normal(size=(5, 4))
    wanted = [sum(scores[i, row[c]] for i, c in enumerate([3, 3, 0, 6, 3])) for row in table]
    np.testing.assert_allclose(policies.values(contexts, scores), wanted)


def test_the_first_of_equal_policies_wins() -> None:
    policies = Finite([[1, 1], [0, 1], [1, 1]], n_actions=2, names=["a", "b", "c"])
    assert policies.argmax(Contexts.finite(2), np.array([[0.0, 1.0], [0.0, 0.0]])).name == "a"


def test_it_is_enumerated(table: np.ndarray) -> None:
    policies = Finite(table, n_actions=4)
    assert policies.lists_policies
    contexts = Contexts.finite(7).take([6, 2, 2])
    actions = policies.actions(contexts)
    assert actions.shape == (30, 3)
    for index in (0, 17, 29):
        np.testing.assert_array_equal(policies.policy(index)(contexts), actions[index])
    np.testing.assert_array_equal(policies.actions(Contexts.finite(7)), table)


def test_more_actions_than_a_byte_holds() -> None:
    policies = Finite([[0, 299], [256, 1]], n_actions=300)
    scores = np.zeros((2, 300))
    scores[0, 256] = 1.0
    np.testing.assert_array_equal(policies.argmax(Contexts.finite(2), scores)(Contexts.finite(2)), [256, 1])


@pytest.mark.parametrize(
    ("rows", "n_actions", "names", "message"),
    [
        ([], 2, None, "shape"),
        ([[]], 2, None, "at least one"),
        ([[0, 2]], 2, None, "between 0 and 1"),
        ([[0, -1]], 2, None, "between 0 and 1"),
        ([[0.5, 0]], 2, None, "integers"),
        ([[0, 1]], 0, None, "n_actions"),
        ([[0, 1]], 2, ["a", "b"], "names"),
    ],
)
def test_bad_tables_are_refused(rows: object, n_actions: int, names: list[str] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Finite(rows, n_actions=n_actions, names=names)


def test_contexts_must_be_known(table: np.ndarray) -> None:
    policies = Finite(table, n_actions=4)
    with pytest.raises(InputError, match="context id 7 is unknown"):
        policies.argmax(Contexts.finite(8), np.zeros((8, 4)))
    with pytest.raises(InputError, match="carry no ids"):
        policies.argmax(Contexts.of([[1.0]]), np.zeros((1, 4)))


def test_descriptions() -> None:
    assert TablePolicy([2, 2], n_actions=3, name="p").describe() == "p: always action 2"
    assert TablePolicy([0, 1], n_actions=2, name="p").describe() == "p: context 0 → action 0, context 1 → action 1"
    long = TablePolicy(np.repeat(np.arange(7), [9, 8, 7, 6, 5, 2, 1]), n_actions=7, name="p").describe()
    assert long.startswith("p: of 38 contexts, action 0 on 9, action 1 on 8")
    assert long.endswith("2 other actions on the rest")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must be an object"),
        ([], "must be an object"),
        ({}, "with a 'kind'"),
        ({"kind": 3}, "with a 'kind'"),
        ({"kind": "tabel"}, "did you mean 'table'"),
        ({"kind": "table", "n_actions": 2, "name": "p"}, "lacks 'actions'"),
        ({"kind": "table", "n_actions": "two", "name": "p", "actions": [0]}, "whole number"),
        ({"kind": "table", "n_actions": 2.5, "name": "p", "actions": [0]}, "whole number"),
        ({"kind": "table", "n_actions": 2, "name": "p", "actions": [0, 2]}, "between 0 and 1"),
        ({"kind": "table", "n_actions": 2, "name": "p", "actions": "ab"}, "must be a list"),
        ({"kind": "table", "n_actions": 2, "name": "p", "actions": [[0], [0, 1]]}, "actions"),
        ({"kind": "table", "n_actions": 2, "name": "p", "actions": [None]}, "whole number"),
    ],
)
def test_malformed_json_is_refused(value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        policy_from_json(value)

"""Vowpal Wabbit's lines are read as they are, or refused in a line."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from pacbandits import Log, read_log
from pacbandits.logs.dsjson import read_dsjson
from pacbandits.logs.reading_options import ReadingOptions
from tests.logs.cases import refused, write

LINES = [
    {
        "_label_cost": -1.0,
        "_label_probability": 0.8,
        "_label_Action": 2,
        "_labelIndex": 1,
        "o": [{"v": 1.0, "EventId": "a1"}],
        "Timestamp": "2024-01-02T03:04:05.0000000Z",
        "Version": "1",
        "EventId": "a1",
        "a": [2, 3, 1],
        "c": {
            "User": {"age": 31, "member": True, "_id": "x", "city": "Oslo"},
            "Web": [{"hour": 7.5}],
            "scores": [0.5, 2],
            "_multi": [{"_tag": "tea", "T": {"hot": 1}}, {"_tag": "milk", "T": {"hot": 0}}, {"_tag": "juice"}],
        },
        "p": [0.800000012, 0.1, 0.1],
        "VWState": {"m": "m/1"},
    },
    {
        "_label_cost": -0.0,
        "_label_probability": 0.25,
        "_label_Action": 1,
        "_labelIndex": 0,
        "Version": "1",
        "EventId": "a2",
        "a": [1, 2, 3],
        "c": {
            "User": {"age": 54, "member": False},
            "Web": [{"hour": 20}],
            "scores": [1, 1],
            "_multi": [{"_tag": "tea", "T": {"hot": 1}}, {"_tag": "milk", "T": {"hot": 0}}, {"_tag": "juice"}],
        },
        "p": [0.25, 0.5, 0.25],
        "VWState": {"m": "m/1"},
    },
]
DANGLING = {
    "RewardValue": 1.0,
    "EnqueuedTimeUtc": "2024-01-02T03:05:05.0000000Z",
    "EventId": "a0",
    "DeferredAction": False,
}


def dsjson(path, lines):
    return write(path, "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("name", ["log.dsjson", "log.json", "log.jsonl", "log.ndjson", "log.json.gz"])
def test_dsjson_lines(tmp_path, name):
    path = dsjson(tmp_path / "log.dsjson", [LINES[0], "\n", LINES[1]])
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(path.read_bytes()))
    else:
        path.rename(tmp_path / name)
    log, remarks = read_log(tmp_path / name)
    assert remarks == ()
    assert log.actions.tolist() == [1, 0]
    assert log.rewards.tolist() == [1, 0]
    assert not np.signbit(log.rewards).any()
    assert log.propensities == pytest.approx(np.array([[0.1, 0.8, 0.1], [0.25, 0.5, 0.25]]), abs=1e-7)
    assert log.propensities.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert log.contexts.names == ("User.age", "User.member", "User.city", "Web.hour", "scores.0", "scores.1")
    assert log.contexts.categories == (None, ("false", "true"), ("", "Oslo"), None, None, None)
    assert log.contexts.features.tolist() == [[31, 1, 1, 7.5, 0.5, 2], [54, 0, 0, 20, 1, 1]]


def test_ranks_may_be_counted_from_0(tmp_path):
    lines = [line | {"a": [action - 1 for action in line["a"]]} for line in LINES]
    log, same = (read_dsjson(dsjson(tmp_path / "log.dsjson", each), ReadingOptions()) for each in (lines, LINES))
    assert np.array_equal(log.propensities, same.propensities)
    assert np.array_equal(log.actions, same.actions)


def test_dsjson_without_all_probabilities(tmp_path):
    lines = [{key: value for key, value in line.items() if key not in ("p", "a")} for line in LINES]
    path = dsjson(tmp_path / "log.dsjson", lines)
    log = read_dsjson(path, ReadingOptions(least_propensity=0.1))
    assert log.played_propensities.tolist() == [0.8, 0.25]
    assert log.n_actions == 3
    refused("there are 3 actions: give the minimum propensity", path)
    refused("the lines have 3 actions, but were said to have 4", path, n_actions=4)
    refused("of lines 1 and 2 only one has probabilities", dsjson(path, [LINES[0], lines[1]]))


def test_dsjson_says_what_it_left_out(tmp_path):
    unknown = LINES[1] | {"_label_probability": None}
    idle = LINES[1] | {"_skipLearn": True}
    other = LINES[1] | {"pdrop": 0.5, "c": LINES[1]["c"] | {"_multi": [{"_tag": "rum"}, {}, {}]}}
    log = read_dsjson(dsjson(tmp_path / "log.dsjson", [DANGLING, LINES[0], unknown, idle, other]), ReadingOptions())
    assert len(log) == 2
    assert log.remarks == (
        "the 3 lines without a decision and its cost may be left out",
        "lines were dropped ('pdrop') whatever happened in them",
        "an action means the same in every line, though its features vary",
    )
    refused("no line of", dsjson(tmp_path / "log.dsjson", [DANGLING]))


def test_costs_and_numbers_among_labels(tmp_path):
    line = LINES[1] | {"_label_cost": 0.75, "c": LINES[1]["c"] | {"User": {"age": "old"}}}
    path = dsjson(tmp_path / "log.dsjson", [LINES[1], line])
    refused("the reward of line 2 is -0.75", path)
    refused("as in reward_range=(-1, 0)", path)
    log, remarks = read_log(path, reward_range=(-1, 0))
    assert log.rewards.tolist() == [1, 0.25]
    assert (len(remarks), log.reward_range) == (0, (-1, 0))
    assert log.contexts.categories[0] == ("54", "old")


def without(line, name):
    return {key: value for key, value in line.items() if key != name}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{not json\n", "line 2 is not JSON"),
        ("[1, 2]\n", "line 2 is not a JSON object"),
        ("[" * 100000 + "\n", "line 2 is not JSON: it is nested too deep"),
        (LINES[1] | {"a": [1, 2], "p": [0.5, 0.5], "c": {}}, "line 2 has 2 actions and line 1 has 3"),
        (LINES[1] | {"a": [1, 2], "p": [0.5, 0.5]}, "line 2 ranks 2 actions ('a') of 3 ('_multi')"),
        (LINES[1] | {"a": [1, 2, 2]}, "line 2: 'a' must name each of the actions 1 to 3 once"),
        (LINES[1] | {"p": [0.5, 0.5]}, "line 2: 'p' must have a probability for each action of 'a'"),
        (
            LINES[1] | {"p": [0.25, 0.5, 0.5]},
            "line 2: the probabilities 'p' must not be negative and sum to 1, got 1.25",
        ),
        (LINES[1] | {"p": [0.3, 0.5, 0.2]}, "line 2 gives the played action the propensity 0.25 alone, but 0.3"),
        (LINES[1] | {"p": "all"}, "line 2: 'p' must be a list, got all"),
        (LINES[1] | {"p": [0.25, 0.5, "x"]}, "line 2: 'p' must be a number, got x"),
        (
            LINES[1] | {"_label_Action": 2},
            "line 2 played different actions, counted from 1: 2 by '_label_Action', 1 by",
        ),
        (LINES[1] | {"_label_Action": "two"}, "line 2: '_label_Action' must be the number of an action, got two"),
        (LINES[1] | {"_label_cost": "low"}, "line 2: '_label_cost' must be a number, got low"),
        ({"c": {"_multi": [], "_slots": []}, "_outcomes": []}, "line 2 decides on several slots"),
        (LINES[1] | {"a": [[1], 2, 3]}, "line 2: 'a' must name each of the actions 1 to 3 once"),
        (LINES[1] | {"a": [1, "2", 3]}, "line 2: 'a' must name each of the actions 1 to 3 once"),
        (LINES[1] | {"a": [1.0, 2, 3]}, "line 2: 'a' must name"),
        (LINES[1] | {"a": [], "p": []}, "line 2 ranks 0 actions"),
        (LINES[1] | {"c": {"x": float("inf"), "_multi": [{}, {}, {}]}}, "feature 'x' must be finite"),
    ],
)
def test_each_fault_of_a_line_is_one_line(tmp_path, line, words):
    refused(words, dsjson(tmp_path / "log.dsjson", [LINES[0], line]))


def test_a_line_that_names_no_action_or_one_too_many(tmp_path):
    bare = without(without(without(without(LINES[0], "_label_Action"), "_labelIndex"), "a"), "p")
    refused("line 1 does not say which action was played", dsjson(tmp_path / "log.dsjson", [bare]))
    refused("line 1 plays action 4 of 3", dsjson(tmp_path / "log.dsjson", [bare | {"_label_Action": 4}]))
    refused("line 1 plays action 0", dsjson(tmp_path / "log.dsjson", [bare | {"_label_Action": 0}]))
    (tmp_path / "log.dsjson").write_bytes(b"{\xff}\n")
    refused("log.dsjson: line 1 is not UTF-8 text", tmp_path / "log.dsjson")
    refused(
        "line 1 plays action 1000000", dsjson(tmp_path / "log.dsjson", [without(bare, "c") | {"_label_Action": 10**30}])
    )


def test_what_was_read_can_be_written_and_read_again(tmp_path):
    log, remarks = read_log(dsjson(tmp_path / "log.dsjson", [DANGLING, *LINES]))
    log.write(tmp_path / "log.parquet")
    again, same = read_log(tmp_path / "log.parquet")
    assert same == remarks == Log.read(tmp_path / "log.parquet").assumed
    assert np.array_equal(again.propensities, log.propensities)
    assert again.contexts.categories == log.contexts.categories


def turned(line, order):
    """The same decision with its actions listed in another order."""
    old = line["c"]["_multi"]
    place = {action + 1: order.index(action) + 1 for action in order}
    return line | {
        "_label_Action": place[line["_label_Action"]],
        "_labelIndex": place[line["_label_Action"]] - 1,
        "a": [place[action] for action in line["a"]],
        "c": line["c"] | {"_multi": [old[action] for action in order]},
    }


def test_actions_are_identified_by_a_field_in_whatever_order_they_are_listed(tmp_path):
    path = dsjson(tmp_path / "log.dsjson", [LINES[0], turned(LINES[1], [2, 0, 1])])
    refused("line 2 lists the actions in another order than line 1", path)
    log, remarks = read_log(path, action="_tag")
    assert remarks == ()
    assert log.action_names == ("juice", "milk", "tea")
    assert [log.action_names[action] for action in log.actions] == ["milk", "tea"]
    assert log.propensities == pytest.approx(np.array([[0.1, 0.8, 0.1], [0.25, 0.5, 0.25]]), abs=1e-7)
    ids = [[{"i": {"constant": 1, "id": name}} for name in names] for names in (["x", "y", "z"], ["z", "x", "y"])]
    lines = [line | {"c": line["c"] | {"_multi": multi}} for line, multi in zip(LINES, ids, strict=True)]
    refused("by their 'i.id'; say that it identifies them", dsjson(path, lines))
    log, _ = read_log(path, action="i.id")
    assert [log.action_names[action] for action in log.actions] == ["y", "z"]


def test_actions_that_a_field_does_not_identify_are_refused(tmp_path):
    def with_tags(*tags):
        return LINES[1] | {"c": LINES[1]["c"] | {"_multi": [{"_tag": tag} for tag in tags]}}

    path = tmp_path / "log.dsjson"
    refused("line 1: action 1 of '_multi' has no text or whole number 'name'", dsjson(path, LINES), action="name")
    refused(
        "line 2 offers 'rum', which line 1", dsjson(path, [LINES[0], with_tags("tea", "rum", "milk")]), action="_tag"
    )
    refused("line 1 offers 'tea' twice", dsjson(path, [with_tags("tea", "tea", "milk")]), action="_tag")
    bare = LINES[1] | {"c": {"User": {"age": 3}}}
    refused("line 1 does not list its actions ('_multi')", dsjson(path, [bare]), action="_tag")
    refused("a format with fixed columns; leave out", dsjson(path, LINES), reward="cost")

"""Anyone's log: tables, Open Bandit's feedback and Vowpal Wabbit's lines are read as they are, or refused in a line."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbandits import InputError, Log, Trees, certify, from_open_bandit, read_log, verify
from pacbandits.logs.dsjson import read_dsjson
from pacbandits.logs.raw import TWO_ACTIONS_REMARK, UNIFORM_REMARK, ReadingOptions
from pacbandits.records import Contexts

CSV = """age,place,action,reward,propensity
20,north,0,1,0.5
30,south,1,0.25,0.2
40,north,2,0,0.3
50,north,0,1,0.5
"""


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def refused(words, *arguments, **options):
    with pytest.raises(InputError) as caught:
        read_log(*arguments, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_csv_with_the_played_propensity(tmp_path):
    log, remarks = read_log(write(tmp_path / "log.csv", CSV), least_propensity=0.1)
    assert log.actions.tolist() == [0, 1, 2, 0]
    assert log.rewards.tolist() == [1, 0.25, 0, 1]
    assert log.played_propensities.tolist() == [0.5, 0.2, 0.3, 0.5]
    assert (log.least == 0.1).all()
    assert log.n_actions == 3
    assert log.contexts.names == ("age", "place")
    assert log.contexts.categories == (None, ("north", "south"))
    assert remarks == ("every action was always played with probability 0.1 or more",) == log.assumed
    assert read_log(tmp_path / "log.csv", least_propensity=0, n_actions=5)[0].n_actions == 5
    assert read_log(tmp_path / "log.csv", least_propensity=0)[1] == ()


def test_tabs_and_compression(tmp_path):
    wanted, _ = read_log(write(tmp_path / "log.csv", CSV), least_propensity=0.1)
    write(tmp_path / "log.tsv", CSV.replace(",", "\t"))
    for name in ("log.csv.gz", "log.tsv.gz"):
        with gzip.open(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write(CSV.replace(",", "\t") if "tsv" in name else CSV)
    for name in ("log.tsv", "log.csv.gz", "log.tsv.gz"):
        log, _ = read_log(tmp_path / name, least_propensity=0.1)
        assert np.array_equal(log.contexts.features, wanted.contexts.features)
        assert np.array_equal(log.propensities, wanted.propensities)


def test_all_propensities_in_columns(tmp_path):
    text = "x,action,reward,propensity_1,propensity_0\n1,0,1,0.75,0.25\n2,1,0,0.5,0.5\n"
    log, remarks = read_log(write(tmp_path / "log.csv", text))
    assert log.propensities.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert log.least is None
    assert remarks == ()
    assert log.contexts.names == ("x",)
    table = pa.table(
        {"x": [1, 2], "action": [0, 1], "reward": [1, 0], "propensity_0": [0.25, 1], "propensity_1": [0.75, 0]}
    )
    pq.write_table(table.take([0, 0]), tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet")[0].propensities.tolist() == [[0.25, 0.75]] * 2


def test_actions_in_words(tmp_path):
    text = "x,action,reward,propensity\n1,treat,1,0.75\n2,control,0,0.5\n3,treat,1,0.5\n"
    log, remarks = read_log(write(tmp_path / "log.csv", text))
    assert log.actions.tolist() == [1, 0, 1]
    assert remarks == ("action 0 is 'control', action 1 is 'treat'", TWO_ACTIONS_REMARK)
    assert log.propensities.tolist() == [[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]]
    text = "x,action,reward,propensity_treat,propensity_control\n1,treat,1,0.75,0.25\n2,control,0,0.5,0.5\n"
    log, _ = read_log(write(tmp_path / "log.csv", text))
    assert log.propensities.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    refused("column 'propensity_control' is missing", write(tmp_path / "log.csv", text.replace("propensity_c", "c")))
    refused(
        "'propensity_none' is of an action that was never played",
        write(tmp_path / "log.csv", "x,action,reward,propensity_a,propensity_none\n1,a,1,1,0\n"),
    )


def test_propensities_that_follow_from_the_played_one(tmp_path):
    """A uniform trial, and two actions; not when it is declared otherwise."""
    third = "action,reward,propensity,x\n" + "".join(f"{i},1,0.3333333333,{i}\n" for i in range(3))
    log, remarks = read_log(write(tmp_path / "log.csv", third))
    assert np.array_equal(log.propensities, np.full((3, 3), 1 / 3))
    assert remarks == (UNIFORM_REMARK,)
    assert read_log(tmp_path / "log.csv", least_propensity=0)[0].least is not None
    refused(
        "state what each action's was at least, always (--least-propensity 0.01)", tmp_path / "log.csv", n_actions=4
    )
    two = "action,reward,propensity,x\n0,1,0.9,1\n1,1,0.25,2\n"
    log, remarks = read_log(write(tmp_path / "log.csv", two))
    assert log.propensities == pytest.approx(np.array([[0.9, 0.1], [0.75, 0.25]]))
    assert remarks == (TWO_ACTIONS_REMARK,)


def test_rewards_of_another_range(tmp_path):
    text = CSV.replace("0.25,0.2", "-5,0.2").replace(",1,0.5", ",5,0.5")
    path = write(tmp_path / "log.csv", text)
    log, remarks = read_log(path, least_propensity=0.1, reward_range=(-5, 5))
    assert log.rewards.tolist() == [1, 0, 0.5, 1]
    assert "rewards lie in [-5, 5], mapped to [0, 1]: an epsilon of 1 stands for 10" in remarks
    refused("the reward of row 0 is 5, but rewards must lie in [0, 1]", path, least_propensity=0.1)
    refused("as in --reward-range -5 5", path, least_propensity=0.1)
    refused(
        "the reward of row 1 is -5, but rewards must lie in [0, 5]", path, least_propensity=0.1, reward_range=(0, 5)
    )
    refused("from a number to a larger one, got 5 to 5", path, reward_range=(5, 5))


def test_no_features_are_one_context(tmp_path):
    log, _ = read_log(write(tmp_path / "log.csv", "action,reward,propensity\n0,1,0.5\n1,0,0.5\n"))
    assert log.contexts.ids.tolist() == [0, 0]


def test_a_least_propensity_for_each_row(tmp_path):
    text = "x,action,reward,propensity,least_propensity\n1,0,1,0.5,0.1\n2,2,0,0.3,0.2\n"
    log, remarks = read_log(write(tmp_path / "log.csv", text))
    assert log.least.tolist() == [[0.1] * 3, [0.2] * 3]
    assert remarks[0] == "action 1 is never played"
    assert "(0.1 to 0.2)" in remarks[1]
    refused("there is a column 'least_propensity'; leave out the option", tmp_path / "log.csv", least_propensity=0.1)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "action",
            "arm",
            "column 'action' is missing; there are: age, place, arm, reward, propensity; is 'arm' the action?",
        ),
        ("propensity", "pscore", "column 'propensity' is missing (or 'propensities', of all actions)"),
        ("propensity", "pscore", "is 'pscore' the propensity? rename it"),
        ("reward,propensity", "rewards,prob", "columns 'reward' and 'propensity' are missing"),
        ("reward,propensity", "rewards,prob", "is 'rewards' the reward? is 'prob' the propensity?"),
        ("30,", ",", "column 'age' has 1 missing values"),
        ("south", "", "column 'place' has 1 missing values"),
        ("south", "NA", "column 'place' has 1 missing values"),
        ("0.25", "nan", "column 'reward' has 1 missing values"),
        ("0.25", "much", "column 'reward' must be numbers"),
        ("south,1", "south,1.5", "column 'action' must be integers"),
        ("south,1", "south,4294967296", "number the 3 that were played from 0"),
        ("south,1", "south,-1", "column 'action' must be 0 or more, got -1"),
        ("0.3\n", "0\n", "the propensity of row 2 is 0; it must lie above 0 and up to 1"),
        ("0.3\n", "1.5\n", "the propensity of row 2 is 1.5"),
        ("0.3\n", "0.05\n", "row 2 played action 2 with propensity 0.05, below the least propensity 0.1"),
        ("0.3\n", "0.9\n", "row 2 played action 2 with propensity 0.9, which leaves less for the 2 others"),
        ("30,south", "30,south,9", "is not a readable CSV file"),
        ("age", "place", "two columns of the same name"),
        ("20,north,0,1,0.5\n30,south,1,0.25,0.2\n40,north,2,0,0.3\n50,north,0,1,0.5\n", "", "has no rows"),
        (CSV, "", "is not a readable CSV file"),
        ("30", "2020-01-01", "must be numbers or text"),
    ],
)
def test_each_fault_of_a_table_is_one_line(tmp_path, old, new, words):
    path = write(tmp_path / "log.csv", CSV.replace(old, new, 1))
    if new == "2020-01-01":
        write(
            path,
            CSV.replace("20,", "2020-01-02,")
            .replace("30,s", "2020-01-01,s")
            .replace("40,", "2020-01-02,")
            .replace("50,n", "2020-01-01,n"),
        )
    refused(words, path, least_propensity=0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "the log tells the propensity of the played action alone, and there are 3 actions"),
        (
            {"least_propensity": 0.4},
            "a least propensity of 0.4 cannot be that of each of 3 actions; it lies between 0 and 1/3",
        ),
        ({"least_propensity": -1}, "a least propensity of -1"),
        ({"least_propensity": float("nan")}, "least propensity must be finite"),
        ({"least_propensity": 0.1, "n_actions": 2}, "action 2 was played, but there are 2 actions, from 0 to 1"),
        ({"least_propensity": 0.1, "position": 1}, "has no positions; leave out the position"),
        ({"format": "xml"}, "unknown format 'xml'"),
        ({"format": "parquet"}, "is not a readable"),
    ],
)
def test_each_bad_option_is_one_line(tmp_path, options, words):
    name = "log.txt" if options.get("format") == "parquet" else "log.csv"
    refused(words, write(tmp_path / name, CSV), **options)


def test_files_that_are_not_logs(tmp_path):
    refused("no file at", tmp_path / "none.csv")
    refused("does not end as the name of a log does (.parquet", write(tmp_path / "log.txt", CSV))
    refused("is not a readable .npz file", write(tmp_path / "log.npz", CSV))
    refused("is not a readable CSV file", write(tmp_path / "log.csv.gz", CSV))
    (tmp_path / "bytes.csv").write_bytes(b"x,action,reward,propensity\n\xff\xfe,0,1,1\n")
    refused("column 'x' must be numbers or text", tmp_path / "bytes.csv")


def test_a_parquet_file_of_any_name_and_what_it_may_not_say_twice(tmp_path):
    columns = {"x": [1.0, 2.0], "action": [0, 1], "reward": [1.0, 0.0], "propensities": [[0.5, 0.5], [0.25, 0.75]]}
    pq.write_table(pa.table(columns), tmp_path / "log")
    log, remarks = read_log(tmp_path / "log")
    assert log.propensities.tolist() == columns["propensities"]
    assert remarks == ()
    for extra, words in (
        ({"propensity": [0.5, 0.75]}, None),
        ({"propensity": [0.5, 0.25]}, "row 1 gives the played action the propensity 0.25 alone, but 0.75"),
        ({"propensity_0": [0.5, 0.25]}, "both 'propensities' and 'propensity_0'"),
        ({"action": ["a", "b"]}, "number the actions from 0, in that order"),
    ):
        pq.write_table(pa.table(columns | extra), tmp_path / "log.parquet")
        if words is None:
            assert np.array_equal(read_log(tmp_path / "log.parquet")[0].propensities, log.propensities)
        else:
            refused(words, tmp_path / "log.parquet")
    refused("propensities of 2 actions, but was said to have 3", tmp_path / "log", n_actions=3)
    refused("leave out the least propensity", tmp_path / "log", least_propensity=0.1)


def test_contexts_from_csv(tmp_path):
    contexts = Contexts.read(write(tmp_path / "before.csv", "age,place\n20,b\n30,a\n"))
    assert contexts.names == ("age", "place")
    assert contexts.categories == (None, ("a", "b"))


def test_trees_know_features_by_name_and_labels_by_their_words(tmp_path):
    """A class learnt from contexts with more labels, and columns in another order, reads a log's codes rightly."""
    before = Contexts.read(write(tmp_path / "b.csv", "place,age\na,1\nb,2\nc,3\n"))
    text = "age,place,action,reward,propensity,more\n"
    text += "".join(f"{i % 7},{'ca'[i % 2]},{i // 2 % 2},{int(i % 2 == i // 2 % 2)},0.5,{i}\n" for i in range(2000))
    log, _ = read_log(write(tmp_path / "log.csv", text))
    assert log.contexts.categories[1] == ("a", "c")
    policies = Trees.learn(before, n_actions=2, depth=1)
    made = certify(log, policies, epsilon=0.2, delta=0.1)
    assert made.certified
    acts = made.policy(log.contexts)
    assert np.array_equal(acts, log.contexts.features[:, 1] == 0)  # action 1 for "a", whatever its code
    assert verify(made, log, policies).good
    strange, _ = read_log(write(tmp_path / "s.csv", text.replace(",c,", ",z,")))
    assert (
        not certify(strange, policies, epsilon=0.2, delta=0.1)
        .policy(strange.contexts)[strange.contexts.features[:, 1] == 1]
        .any()
    )
    lacking, _ = read_log(write(tmp_path / "l.csv", text.replace("place", "palce", 1)))
    with pytest.raises(InputError, match="lack the feature 'place'; did you mean 'palce'"):
        certify(lacking, policies, epsilon=0.2, delta=0.1)


def feedback(n=6, *, positions=None, full=True):
    """What Open Bandit Pipeline calls `bandit_feedback`, by hand."""
    rng = np.random.default_rng(0)
    slots = 1 if positions is None else max(positions) + 1
    pi_b = rng.dirichlet(np.ones(3), size=(n, slots)).transpose(0, 2, 1)
    action = rng.integers(3, size=n)
    place = np.zeros(n, dtype=int) if positions is None else np.array(positions)
    return {
        "n_rounds": n,
        "n_actions": 3,
        "context": rng.normal(size=(n, 2)),
        "action_context": np.eye(3, dtype=int),
        "action": action,
        "position": None if positions is None else place,
        "reward": rng.integers(2, size=n),
        "expected_reward": rng.random((n, 3)),
        **({"pi_b": pi_b} if full else {}),
        "pscore": pi_b[np.arange(n), action, place],
    }


def test_open_bandit_feedback():
    given = feedback()
    log = from_open_bandit(given)
    assert np.array_equal(log.propensities, given["pi_b"][:, :, 0])
    assert np.array_equal(log.contexts.features, given["context"])
    assert np.array_equal(log.rewards, given["reward"])
    assert np.array_equal(log.actions, given["action"])
    assert log.least is None
    assert log.assumed == ()


def test_open_bandit_feedback_with_the_played_propensity():
    given = feedback(full=False)
    log = from_open_bandit(given, least_propensity=0)
    assert np.array_equal(log.played_propensities, given["pscore"])
    assert log.n_actions == 3
    with pytest.raises(InputError, match="state what each action's was at least"):
        from_open_bandit(given)
    uniform = from_open_bandit(given | {"pscore": np.full(6, 1 / 3)})
    assert np.array_equal(uniform.propensities, np.full((6, 3), 1 / 3))
    assert uniform.assumed == (UNIFORM_REMARK,)


def test_positions_of_open_bandit_feedback():
    given = feedback(positions=[0, 1, 2, 0, 1, 1])
    with pytest.raises(InputError, match=r"has positions 0, 1, 2; choose one \(--position 0\)"):
        from_open_bandit(given)
    log = from_open_bandit(given, position=1)
    assert np.array_equal(log.propensities, given["pi_b"][[1, 4, 5], :, 1])
    assert np.array_equal(log.contexts.features, given["context"][[1, 4, 5]])
    with pytest.raises(InputError, match="no row has position 3; there are 0, 1, 2"):
        from_open_bandit(given, position=3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pscore": None, "pi_b": None}, "the feedback lacks 'pscore'"),
        ({"reward": None, "context": None}, "the feedback lacks 'reward', 'context'"),
        ({"context": np.zeros(6)}, r"'context' must have shape \(6, any\)"),
        ({"reward": np.full(6, 2)}, "the reward of row 0 is 2"),
        ({"pscore": np.full(6, 0.999)}, "alone, but .* among those of all actions"),
        ({"pi_b": np.full((6, 4, 1), 0.25)}, "'pi_b' must have shape"),
        ({"pi_b": np.full((6, 3, 2), 1 / 3)}, "has 2 positions, but the feedback does not say which"),
        ({"n_actions": 2, "pi_b": None, "action": [2] * 6}, "action 2 was played, but there are 2 actions"),
        ({"action": 3}, "'action' must be a list"),
    ],
)
def test_each_fault_of_feedback_is_one_line(changes, words):
    with pytest.raises(InputError, match=words) as caught:
        from_open_bandit(feedback() | changes, least_propensity=None if changes.get("pi_b", 1) is not None else 0)
    assert "\n" not in str(caught.value)


def test_feedback_in_a_file(tmp_path):
    given = feedback()
    np.savez(tmp_path / "feedback.npz", **given)  # position is None, and written as an object that is never unpickled
    log, _ = read_log(tmp_path / "feedback.npz")
    assert np.array_equal(log.propensities, given["pi_b"][:, :, 0])
    np.savez(tmp_path / "feedback.npz", action=given["action"], reward=given["reward"])
    refused("the feedback lacks 'context', 'pscore'", tmp_path / "feedback.npz")


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
    refused("there are 3 actions: state what each action's was at least", path)
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
    refused("as in --reward-range -1 0", path)
    log, remarks = read_log(path, reward_range=(-1, 0))
    assert log.rewards.tolist() == [1, 0.25]
    assert len(remarks) == 1
    assert log.contexts.categories[0] == ("54", "old")


def without(line, name):
    return {key: value for key, value in line.items() if key != name}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{not json\n", "line 2 of"),
        ("[1, 2]\n", "line 2 is not a JSON object"),
        ("[" * 100000 + "\n", "line 2 of"),
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
    (tmp_path / "log.dsjson").write_bytes(b"\xff\xfe{}\n")
    refused("is not UTF-8 text", tmp_path / "log.dsjson")


def test_what_was_read_can_be_written_and_read_again(tmp_path):
    log, remarks = read_log(dsjson(tmp_path / "log.dsjson", [DANGLING, *LINES]))
    log.write(tmp_path / "log.parquet")
    again, same = read_log(tmp_path / "log.parquet")
    assert same == remarks == Log.read(tmp_path / "log.parquet").assumed
    assert np.array_equal(again.propensities, log.propensities)
    assert again.contexts.categories == log.contexts.categories


def test_a_reward_in_words_is_asked_for_in_numbers(tmp_path):
    text = CSV.replace("0,1,0.5", "0,yes,0.5").replace("2,0,0.3", "2,no,0.3")
    path = write(tmp_path / "log.csv", text)
    refused("column 'reward' must be numbers, got text such as 'yes'", path, least_propensity=0.1)


@pytest.mark.parametrize(
    ("name", "separator", "words"),
    [
        ("log.csv", ";", "log.csv seems to be separated by ';'; use commas (or tabs in .tsv)"),
        ("log.csv", "\t", "log.csv seems to be separated by tabs; use commas (or tabs in .tsv)"),
        ("log.csv", "|", "separated by '|'"),
        ("log.tsv", ",", "log.tsv seems to be separated by commas"),
    ],
)
def test_another_separator_is_named(tmp_path, name, separator, words):
    path = write(tmp_path / name, CSV.replace(",", separator))
    refused(words, path, least_propensity=0.1)
    with gzip.open(tmp_path / f"{name}.gz", "wt", encoding="utf-8") as file:
        file.write(CSV.replace(",", separator))
    refused("seems to be separated by", tmp_path / f"{name}.gz", least_propensity=0.1)


def test_decimal_commas_between_semicolons_are_told_by_the_header(tmp_path):
    text = CSV.replace(",", ";").replace("0.5", "0,5")
    refused("seems to be separated by ';'", write(tmp_path / "log.csv", text), least_propensity=0.1)
    quoted = write(tmp_path / "quoted.csv", '"a;b"\n1\n2\n')
    assert Contexts.read(quoted).names == ("a;b",)


def test_only_a_proper_range_of_rewards_is_proposed(tmp_path):
    line = {"_label_cost": 5, "_label_probability": 0.5, "_label_Action": 1, "a": [1, 2], "c": {"x": 1}}
    path = write(tmp_path / "log.dsjson", json.dumps(line) + "\n")
    refused("can be, with --reward-range and two numbers", path)
    write(path, json.dumps(line) + "\n" + json.dumps(line | {"_label_cost": 3}) + "\n")
    refused("as in --reward-range -5 -3", path)


def test_actions_that_are_never_played_are_named(tmp_path):
    said = "action 0 is never played; if actions are numbered from 1, number them from 0"
    path = write(tmp_path / "log.csv", CSV.replace(",0,1,0.5", ",3,1,0.5"))
    log, remarks = read_log(path, least_propensity=0.1)
    assert log.n_actions == 4
    assert said in remarks
    refused(f"there are 4 actions ({said})", path)
    assert "actions 0 and 4 are never played; if" in read_log(path, least_propensity=0.1, n_actions=5)[1][0]
    many = read_log(write(path, CSV.replace("30,south,1", "30,south,40")), least_propensity=0)[1]
    assert many == ("actions 1, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 28 more are never played",)
    log.write(tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet")[1] == remarks


def test_a_log_that_names_the_propensities_of_an_action_need_not_play_it(tmp_path):
    """A trial may never draw an action that its design hardly ever plays; its certificate does not speak of that."""
    log = Log.of(Contexts.of([[0.0], [1.0]]), actions=[1, 1], rewards=[0, 1], propensities=[[0.1, 0.9]] * 2)
    log.write(tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet")[1] == ()


def test_the_weights_of_a_log_need_not_sum_to_1(tmp_path):
    header, *rows = CSV.splitlines()
    text = "\n".join([f"{header},context_weight", *(f"{row},{i}" for i, row in enumerate(rows, start=1))]) + "\n"
    log, _ = read_log(write(tmp_path / "log.csv", text), least_propensity=0.1)
    assert log.contexts.weights == pytest.approx([0.1, 0.2, 0.3, 0.4])
    with pytest.raises(InputError, match="must sum to 1"):
        Contexts.read(write(tmp_path / "contexts.csv", "x,context_weight\n1,1\n2,1\n"))
    refused(
        "context_weights must not be negative",
        write(tmp_path / "log.csv", text.replace(",4\n", ",-4\n")),
        least_propensity=0,
    )


def test_one_action_that_was_not_always_played_is_not_the_only_one(tmp_path):
    rows = "".join(f"{i},0,1,0.5\n" for i in range(4))
    path = write(tmp_path / "log.csv", f"x,action,reward,propensity\n{rows}")
    with pytest.raises(InputError, match=r"probability 0.5, so there were others.*--actions 2"):
        read_log(path, least_propensity=0.01)
    assert read_log(path, n_actions=2)[0].n_actions == 2

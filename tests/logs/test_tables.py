"""Logs in tables are read as they are, or refused in a line."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbandits import InputError, Trees, read_log
from pacbandits.logs.raw_log import TWO_ACTIONS_REMARK
from pacbandits.records import Contexts
from pacbandits.records.log_metadata import WEIGHTS_REMARK
from tests.logs.cases import CSV, refused, write


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
    assert log.action_names == ("control", "treat")
    assert remarks == (TWO_ACTIONS_REMARK,)
    assert log.propensities.tolist() == [[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]]
    text = "x,action,reward,propensity_treat,propensity_control\n1,treat,1,0.75,0.25\n2,control,0,0.5,0.5\n"
    log, _ = read_log(write(tmp_path / "log.csv", text))
    assert log.propensities.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    refused("column 'propensity_control' is missing", write(tmp_path / "log.csv", text.replace("propensity_c", "c")))
    refused(
        "'propensity_none' is of an action that was never played",
        write(tmp_path / "log.csv", "x,action,reward,propensity_a,propensity_none\n1,a,1,1,0\n"),
    )


def test_no_features_are_one_context(tmp_path):
    log, _ = read_log(write(tmp_path / "log.csv", "action,reward,propensity\n0,1,0.5\n1,0,0.5\n"))
    assert log.contexts.ids.tolist() == [0, 0]


def test_a_least_propensity_for_each_row(tmp_path):
    text = "x,action,reward,propensity,least_propensity\n1,0,1,0.5,0.1\n2,2,0,0.3,0.2\n"
    log, remarks = read_log(write(tmp_path / "log.csv", text))
    assert log.least.tolist() == [[0.1] * 3, [0.2] * 3]
    assert remarks[0] == "action 1 is never played"
    assert "(0.1 to 0.2)" in remarks[1]
    refused(
        "there is a column 'least_propensity'; leave out least_propensity", tmp_path / "log.csv", least_propensity=0.1
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "action",
            "arm",
            "column 'action' is missing; there are: age, place, arm, reward, propensity; is 'arm' the action?",
        ),
        ("propensity", "pscore", "column 'propensity' is missing (or 'propensities', of all actions)"),
        ("propensity", "pscore", "is 'pscore' the propensity? pass propensity=\"NAME\", or rename it"),
        ("reward,propensity", "rewards,prob", "columns 'reward' and 'propensity' are missing"),
        ("reward,propensity", "rewards,prob", "is 'rewards' the reward? is 'prob' the propensity?"),
        ("0.25", "nan", "column 'reward' has 1 missing value, in line 3; fill"),
        ("0.25", "much", "column 'reward' must be numbers"),
        ("south,1", "south,1.5", "column 'action' must be integers"),
        ("south,1", "south,4294967296", "number the 3 that were played from 0"),
        ("south,1", "south,-1", "column 'action' must be 0 or more, but line 3 holds -1"),
        ("0.3\n", "0\n", "the propensity of line 4 is 0; it must lie above 0 and up to 1"),
        ("0.3\n", "1.5\n", "the propensity of line 4 is 1.5"),
        ("0.3\n", "0.05\n", "line 4 played action 2 with propensity 0.05, below the minimum propensity 0.1"),
        ("0.3\n", "0.9\n", "line 4 played action 2 with propensity 0.9, which leaves less for the 2 others"),
        ("30,south", "30,south,9", "line 3 has 6 values, and the first line names 5 columns"),
        ("age", "place", "two columns of the same name"),
        ("20,north,0,1,0.5\n30,south,1,0.25,0.2\n40,north,2,0,0.3\n50,north,0,1,0.5\n", "", "has no rows"),
        (CSV, "", "is empty: a file of 0 bytes"),
    ],
)
def test_each_fault_of_a_table_is_one_line(tmp_path, old, new, words):
    path = write(tmp_path / "log.csv", CSV.replace(old, new, 1))
    refused(words, path, least_propensity=0.1)


def test_a_parquet_file_of_any_name_and_what_it_may_not_say_twice(tmp_path):
    columns = {"x": [1.0, 2.0], "action": [0, 1], "reward": [1.0, 0.0], "propensities": [[0.5, 0.5], [0.25, 0.75]]}
    pq.write_table(pa.table(columns), tmp_path / "log")
    log, remarks = read_log(tmp_path / "log")
    assert log.propensities.tolist() == columns["propensities"]
    assert remarks == ()
    for extra, words in (
        ({"propensity": [0.5, 0.75]}, None),
        (
            {"propensity": [0.5, 0.25]},
            "row 1 (counted from 0) gives the played action the propensity 0.25 alone",
        ),
        ({"propensity_0": [0.5, 0.25]}, "both 'propensities' and 'propensity_0'"),
        ({"action": ["a", "b"]}, "number the actions from 0, in that order"),
    ):
        pq.write_table(pa.table(columns | extra), tmp_path / "log.parquet")
        if words is None:
            assert np.array_equal(read_log(tmp_path / "log.parquet")[0].propensities, log.propensities)
        else:
            refused(words, tmp_path / "log.parquet")
    refused("propensities of 2 actions, but was said to have 3", tmp_path / "log", n_actions=3)
    refused("leave out least_propensity", tmp_path / "log", least_propensity=0.1)


def test_a_reward_in_words_is_asked_for_in_numbers(tmp_path):
    text = CSV.replace("0,1,0.5", "0,yes,0.5").replace("2,0,0.3", "2,no,0.3")
    path = write(tmp_path / "log.csv", text)
    refused("column 'reward' must be numbers, got text such as 'yes'", path, least_propensity=0.1)


@pytest.mark.parametrize(
    ("name", "separator", "words"),
    [
        ("log.csv", "|", "log.csv seems to be separated by '|'; use commas (or tabs in .tsv)"),
        ("log.tsv", ",", "log.tsv seems to be separated by commas"),
    ],
)
def test_another_separator_is_named(tmp_path, name, separator, words):
    path = write(tmp_path / name, CSV.replace(",", separator))
    refused(words, path, least_propensity=0.1)
    with gzip.open(tmp_path / f"{name}.gz", "wt", encoding="utf-8") as file:
        file.write(CSV.replace(",", separator))
    refused("seems to be separated by", tmp_path / f"{name}.gz", least_propensity=0.1)


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.tsv"])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas_between_semicolons_or_tabs(tmp_path, name, separator):
    wanted, _ = read_log(write(tmp_path / "plain.csv", CSV), least_propensity=0.1)
    text = CSV.replace(",", separator).replace(".", ",").replace("south", "s, w")
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    if ".tsv" in name and separator == ";":
        refused("seems to be separated by ';'", tmp_path / name, least_propensity=0.1)
        return
    log, remarks = read_log(tmp_path / name, least_propensity=0.1)
    assert np.array_equal(log.contexts.features, wanted.contexts.features)
    assert np.array_equal(log.propensities, wanted.propensities)
    assert np.array_equal(log.rewards, wanted.rewards)
    assert log.contexts.categories == (None, ("north", "s, w"))
    words = {";": "values are apart by ';', as", "\t": "values are apart by tabs, as"}[separator]
    assert remarks[0].startswith(words if ".csv" in name else "a comma within numbers is a decimal comma")


def test_commas_in_numbers_are_decimal_ones_only_where_that_is_clear(tmp_path):
    quoted = write(tmp_path / "quoted.csv", '"a;b"\n1\n2\n')
    assert Contexts.read(quoted).names == ("a;b",)

    def read(text):
        return Contexts.read(write(tmp_path / "some.csv", text))

    contexts = read("a;b;c;d\n1,5;1,5;;-1,0e2\n2;x;,;+3\n;NA;1,5;4\n")
    assert contexts.categories == (None, ("1,5", "x", "missing"), (",", "1,5", "missing"), None)
    np.testing.assert_array_equal(contexts.features[:, 0], [1.5, 2, np.nan])
    assert contexts.features[:, 3].tolist() == [-100, 3, 4]
    # Where others have decimal points, a comma may stand between thousands.
    assert read("a;b\n1,500;0.5\n2,000;1.5\n").categories == (("1,500", "2,000"), None)
    # What cannot stand between thousands is a decimal comma, in quotes and beside decimal points, too.
    assert read('a,b\n"1,5",1\n"2,5",2\n').features[:, 0].tolist() == [1.5, 2.5]
    mixed = write(tmp_path / "log.csv", CSV.replace(",", ";").replace("0.25", "0,25"))
    log, said = read_log(mixed, least_propensity=0.1)
    assert log.rewards.tolist() == [1, 0.25, 0, 1]
    assert "column 'reward' holds numbers that are written as in 1.234,5" in said


def test_weights_play_no_part_in_a_log_and_it_says_so(tmp_path):
    """Rows of a log are draws: with any weights, the same cuts are learnt; equal ones need no word."""
    header, *rows = CSV.splitlines()
    text = "\n".join([f"{header},context_weight", *(f"{row},{i}" for i, row in enumerate(rows, start=1))]) + "\n"
    log, remarks = read_log(write(tmp_path / "log.csv", text), least_propensity=0.1)
    assert log.contexts.weights.tolist() == [0.25] * 4
    assert WEIGHTS_REMARK in remarks
    log.write(tmp_path / "log.parquet")
    again, same = read_log(tmp_path / "log.parquet")
    assert again.contexts.weights.tolist() == [0.25] * 4
    assert same == remarks
    for other in ("0.25", "7", "0"):
        alike = "\n".join([f"{header},context_weight", *(f"{row},{other}" for row in rows)]) + "\n"
        assert WEIGHTS_REMARK not in read_log(write(tmp_path / "alike.csv", alike), least_propensity=0.1)[1]
    with pytest.raises(InputError, match="must sum to 1"):
        Contexts.read(write(tmp_path / "contexts.csv", "x,context_weight\n1,1\n2,1\n"))
    refused(
        "context_weights must not be negative",
        write(tmp_path / "log.csv", text.replace(",4\n", ",-4\n")),
        least_propensity=0,
    )


def test_cuts_learnt_from_a_log_do_not_depend_on_its_weights(tmp_path):
    rows = [f"{x},{x % 2},1,0.5" for x in range(64)]
    plain = "x,action,reward,propensity\n" + "\n".join(rows) + "\n"
    weighted = "x,action,reward,propensity,context_weight\n" + "".join(f"{row},{9**i}\n" for i, row in enumerate(rows))
    logs = [read_log(write(tmp_path / "log.csv", text))[0] for text in (plain, weighted.replace(",1\n", ",1.5\n"))]
    first, second = (Trees.learn(log.contexts, n_actions=2, depth=1, bins=4).to_json() for log in logs)
    assert first == second


@pytest.mark.parametrize(
    ("told", "off", "words"),
    [
        (0.75 * (1 + 5e-7), False, None),
        (
            0.75 * (1 + 9e-4),
            False,
            "differs by up to 0.09 % (row 1 (counted from 0): 0.750675, not 0.75); if it is right",
        ),
        (0.75 * (1 - 9e-4), False, "larger by up to 0.0018"),
        (
            0.75 * (1 + 2e-3),
            True,
            "row 1 (counted from 0) gives the played action the propensity 0.7515 alone",
        ),
    ],
)
def test_a_propensity_told_twice(tmp_path, told, off, words):
    """Rounding passes in silence, an export's with a word that says what it may cost, more is an error."""
    columns = {"x": [1.0, 2.0], "action": [0, 1], "reward": [1.0, 0.0], "propensities": [[0.5, 0.5], [0.25, 0.75]]}
    pq.write_table(pa.table(columns | {"propensity": [0.5, told]}), tmp_path / "log.parquet")
    if off:
        refused(words, tmp_path / "log.parquet")
        return
    log, remarks = read_log(tmp_path / "log.parquet")
    assert log.propensities.tolist() == columns["propensities"]
    assert len(remarks) == (words is not None)
    assert words is None or words in remarks[0]


def test_a_sum_that_is_a_little_off_is_told_with_enough_digits(tmp_path):
    text = "x,action,reward,propensity_0,propensity_1\n1,0,1,0.5,0.500002\n"
    refused("propensities of line 2 sum to 1.000002; they must", write(tmp_path / "log.csv", text))
    text = "x,context_weight\n1,0.5\n2,0.500002\n"
    with pytest.raises(InputError, match=r"sums to 1\.000002"):
        Contexts.read(write(tmp_path / "contexts.csv", text))
    text = "x,action,reward,propensity\n1,0,1.0000001,1\n"
    refused("the reward of line 2 is 1.0000001, but rewards must lie", write(tmp_path / "log.csv", text))

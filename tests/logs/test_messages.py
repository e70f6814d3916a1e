"""What is wrong with a file is said with its column, the line as the file counts them, and what to do about it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pacbandits as pb

NAMES = ("at", "age", "variant", "revenue", "p")
READING = {"action": "variant", "reward": "revenue", "propensity": "p"}
BAD_ROW, LINE = 7, 9  # the names of columns stand on line 1


def table(**wrong):
    """Twenty rows, of which one is wrong, as lines."""
    lines = [",".join(NAMES)]
    for i in range(20):
        row = {"at": f"2024-01-{20 - i:02}", "age": 20 + i, "variant": i % 2, "revenue": i % 2, "p": 0.5}
        lines.append(",".join(str(value) for value in (row | (wrong if i == BAD_ROW else {})).values()))
    return lines


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"revenue": "abc"}, "column 'revenue' must be numbers, got text such as 'abc' (line 9); correct it, or"),
        ({"revenue": ""}, "column 'revenue' has 1 missing value, in line 9; fill it in, or leave the row out"),
        ({"revenue": "inf"}, "column 'revenue' must be finite, but line 9 holds inf; correct it"),
        (
            {"revenue": "812.5"},
            "the revenue of line 9 is 812.5, but rewards must lie in [0, 1]; they go from 0 to 812.5",
        ),
        ({"p": "-0.5"}, "the propensity of line 9 is -0.5; it must lie above 0 and up to 1: correct it"),
        ({"p": "x"}, "column 'p' must be numbers, got text such as 'x' (line 9)"),
        ({"variant": "1.5"}, "column 'variant' must be integers, but line 9 holds 1.5; correct it"),
        ({"variant": ""}, "column 'variant' has 1 missing value, in line 9"),
        ({"age": "inf"}, "column 'age' must be finite, but line 9 holds inf"),
        ({"at": "13.1.2024"}, "column 'at' holds '13.1.2024' in line 9, and dates elsewhere; write it as 2024-01-31"),
    ],
)
def test_column_line_and_remedy(wrong, words, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("\n".join(table(**wrong)) + "\n")
    with pytest.raises(pb.InputError) as caught:
        pb.read_log(path, **READING)
    assert words in str(caught.value)


def test_lines_are_those_of_the_file_when_rows_are_brought_into_order(tmp_path):
    """The dates fall from line to line, so that the order of time is the other way round."""
    path = tmp_path / "log.csv"
    path.write_text("\n".join(table(revenue="5")) + "\n")
    with pytest.raises(pb.InputError, match="the revenue of line 9 is 5"):
        pb.read_log(path, time="at", **READING)
    path.write_text("\n".join(table(at="")) + "\n")
    with pytest.raises(pb.InputError, match="column 'at' has 1 missing value, in line 9"):
        pb.read_log(path, time="at", **READING)
    ties = ["at,age,variant,revenue,p", "2,10,0,1,0.5", "1,11,1,1,0.5", "2,12,0,1,0.5", "1,13,1,1,0.5"]
    path.write_text("\n".join(ties) + "\n")
    assert pb.read_log(path, time="at", **READING)[0].contexts.features[:, 0].tolist() == [11, 13, 10, 12]


def test_lines_with_nothing_are_counted(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("\n" + "\n\n".join(table(revenue="5")) + "\n")
    with pytest.raises(pb.InputError, match="the revenue of line 18 is 5"):
        pb.read_log(path, **READING)
    path.write_text("\n\n" + "\n".join([*table()[:8], "1,2", *table()[8:]]) + "\n")
    with pytest.raises(pb.InputError, match="line 11 has 2 values, and the first line names 5 columns"):
        pb.read_log(path, **READING)


@pytest.mark.parametrize(
    ("head", "rows", "words"),
    [
        ("propensity_0,propensity_1", "0.7,0.5", "propensities of line 9 sum to 1.2; they must sum to 1: correct them"),
        ("propensity_0,propensity_1", "-0.5,1.5", "propensities must not be negative, got -0.5 in line 9; correct it"),
        ("propensity_0,propensity_1", "1,0", "line 9 played action 1, whose propensity is 0; that cannot be: correct"),
        (
            "propensity,propensity_0,propensity_1",
            "0.4,0.5,0.5",
            "line 9 gives the played action the propensity 0.4 alone",
        ),
        ("propensity,repeats", "0.5,0", "repeats must be 1 or more, got 0 in line 9"),
        ("propensity,round", "0.5,-1", "column 'round' must be 0 or more, but line 9 holds -1"),
    ],
)
def test_what_a_log_itself_refuses_has_a_line_too(head, rows, words, tmp_path):
    good = {"propensity_0,propensity_1": "0.5,0.5", "propensity,repeats": "0.5,1", "propensity,round": "0.5,0"}
    usual = good.get(head, "0.5,0.5,0.5")
    lines = [f"{i},{i % 2},1,{rows if i == BAD_ROW else usual}" for i in range(20)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([f"age,action,reward,{head}", *lines]) + "\n")
    with pytest.raises(pb.InputError) as caught:
        pb.read_log(path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "log.csv is empty: a file of 0 bytes"),
        (b"\n\n", "log.csv is empty; its first line should name the columns"),
        (b"age,action,reward,propensity\n", "has no rows below the names of its columns"),
        (
            b"age,action,reward,propensity\n1,0,1,0.5\n1,0,1\n",
            "line 3 has 3 values, and the first line names 4 columns",
        ),
        (b'age,action,reward,propensity\n"1,0,1,0.5\n1,0,1,0.5\n', "a quote in it is never closed"),
        (b"age,age,reward\n1,0,1\n", "two columns of the same name, 'age'; rename one"),
        (b"age|action|reward\n1|0|1\n", "seems to be separated by '|'; use commas"),
        (
            b"age,action,rewrad,propensity\n1,0,1,0.5\n",
            "is 'rewrad' the reward? pass reward=\"NAME\", or rename",
        ),
    ],
)
def test_files_that_are_no_tables(content, words, tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(pb.InputError) as caught:
        pb.read_log(path)
    assert words in str(caught.value)


def test_rows_of_tables_without_lines_are_counted_from_0(tmp_path):
    columns = {"age": np.arange(20.0), "action": np.arange(20) % 2, "propensity": np.full(20, 0.5)}
    columns["reward"] = np.where(np.arange(20) == BAD_ROW, 5.0, 0.0)
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    words = r"the reward of row 7 \(counted from 0\) is 5"
    with pytest.raises(pb.InputError, match=words):
        pb.read_log(tmp_path / "log.parquet")
    with pytest.raises(pb.InputError, match=words):
        pb.certify(pa.table(columns))
    late = pa.table(columns | {"when": np.arange(20)[::-1]})
    with pytest.raises(pb.InputError, match=words):
        pb.certify(late, time="when")
    columns["reward"] = np.where(np.arange(20) == BAD_ROW, np.nan, 0.0)
    with pytest.raises(pb.InputError, match=r"'reward' must be finite, but row 7 \(counted from 0\) holds nan"):
        pb.certify(pa.table(columns))


def test_a_data_frame_is_told_arguments_and_no_options():
    frame = {"age": np.arange(20.0), "variant": ["a", "b", "c", "a"] * 5, "revenue": np.arange(20.0)}
    for said, words in (
        (
            {},
            'pass action="NAME", or rename it; if all rows had the same propensities, give them: split="uniform"',
        ),
        (
            {"split": "uniform"},
            "as in reward_range=(0, 19); or clip rewards beyond it, with reward_range and clip=True",
        ),
    ):
        reading = {"action": "variant", "reward": "revenue"} if said else {}
        with pytest.raises(pb.InputError) as caught:
            pb.certify(pa.table(frame), **reading, **said)
        assert words in str(caught.value)
        assert "--" not in str(caught.value)

"""Splits, and columns that are called otherwise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pacbandits import InputError, certify, read_log
from pacbandits.logs.data_set import open_set
from pacbandits.logs.readers import log_of
from pacbandits.logs.reading_options import ReadingOptions
from tests.logs.cases import refused, write

TEXT = "age,arm,paid\n20,a,1\n30,b,0\n40,b,1\n"


def test_a_split_stands_for_propensities(tmp_path):
    path = write(tmp_path / "log.csv", TEXT)
    log, said = read_log(path, action="arm", reward="paid", split="uniform")
    assert log.propensities.tolist() == [[0.5, 0.5]] * 3
    assert said == ("everybody was given one of the 2 actions at random, each with the same probability",)
    log, said = read_log(path, action="arm", reward="paid", split={"a": 0.2, "b": 0.3, "c": 0.5})
    assert log.action_names == ("a", "b", "c")
    assert log.propensities[0].tolist() == [0.2, 0.3, 0.5]
    assert "b with probability 0.3" in said[0]


def test_a_split_beside_propensities_must_be_the_same(tmp_path):
    path = write(tmp_path / "log.csv", "age,action,reward,propensity_0,propensity_1\n20,0,1,0.5,0.5\n30,1,0,0.4,0.6\n")
    refused(r"the log contains propensities, and those of line 3 are not the split 'uniform'", path, split="uniform")
    refused("neither 'uniform' nor a share for each action, as in 0=1/2,1=1/2", path, split="unifrom")
    write(path, path.read_text().replace("0.4,0.6", "0.5,0.5"))
    assert read_log(path, split="uniform")[0].propensities.tolist() == [[0.5, 0.5]] * 2


@pytest.mark.parametrize("label", ["u{}", "{}7"])
def test_a_column_of_identifiers_is_no_column_of_actions(tmp_path, label):
    lines = [f"{i % 9},{label.format(i % 150)},{i % 2}" for i in range(300)]
    path = write(tmp_path / "log.csv", "x,action,reward\n" + "\n".join(lines) + "\n")
    refused("column 'action' holds 150 different values in 300 rows, as identifiers do", path, split="uniform")
    write(path, path.read_text() + lines[0] + "\n")
    assert read_log(path, split="uniform")[0].n_actions == 150


def test_a_certificate_is_not_a_log(tmp_path):
    path = write(tmp_path / "proof.json", '{\n "kind": "pacbandits certificate"\n}')
    refused("is a certificate or a plan of this package, not a log; name the log", path, reward="paid")


def test_actions_that_are_numbered_from_one_are_names(tmp_path):
    path = write(tmp_path / "log.csv", TEXT.replace(",a,", ",1,").replace(",b,", ",2,"))
    log, _ = read_log(path, action="arm", reward="paid", split="uniform")
    assert (log.action_names, log.n_actions) == (("1", "2"), 2)
    path = write(tmp_path / "log.csv", TEXT.replace(",a,", ",true,").replace(",b,", ",false,"))
    log, _ = read_log(path, action="arm", reward="paid", split="uniform")
    assert (log.action_names, log.actions.tolist()) == (("no", "yes"), [1, 0, 0])


def test_a_propensity_that_is_always_the_same_is_a_split(tmp_path):
    rng = np.random.default_rng(0)
    arms = rng.choice(3, size=200, p=[0.5, 0.3, 0.2])
    rows = [f"{i},{'abc'[arm]},{i % 2},{(0.5, 0.3, 0.2)[arm]}" for i, arm in enumerate(arms)]
    path = write(tmp_path / "log.csv", "x,arm,y,p\n" + "\n".join(rows) + "\n")
    log, said = read_log(path, action="arm", reward="y", propensity="p")
    assert log.propensities[7].tolist() == [0.5, 0.3, 0.2]
    assert log.least is None
    assert "a with probability 0.5" in said[0]
    write(path, path.read_text().replace(",0.3\n", ",0.31\n", 1))
    refused("minimum propensity of every action", path, action="arm", reward="y", propensity="p")


def test_columns_that_come_after_the_action_are_left_out(tmp_path):
    text = "age,arm,revenue,converted,reward\n20,a,5,1,9\n30,b,0,0,9\n"
    log, said = read_log(
        write(tmp_path / "log.csv", text), action="arm", reward="revenue", split="uniform", reward_range=(0, 10)
    )
    assert log.contexts.names == ("age",)
    assert "'reward' was left out, as 'revenue' is the reward" in said[0]
    assert "'converted' was left out, as its name is that of an outcome" in said[1]
    kept, _ = read_log(
        tmp_path / "log.csv",
        action="arm",
        reward="revenue",
        split="uniform",
        reward_range=(0, 10),
        features=["age", "converted"],
    )
    assert kept.contexts.names == ("age", "converted")
    less, _ = read_log(
        tmp_path / "log.csv", action="arm", reward="revenue", split="uniform", reward_range=(0, 10), without=["age"]
    )
    assert less.contexts.names == ()


@pytest.mark.parametrize("kind", ["number", "text", "date"])
def test_rows_are_brought_into_the_order_of_time(tmp_path, kind):
    when = {
        "number": ("3", "1", "2"),
        "text": ("3.2.2026", "31.12.2025", "2.2.2026"),
        "date": ("2026-03-01", "2026-01-01", "2026-02-01"),
    }
    lines = TEXT.splitlines()
    text = "\n".join([f"{lines[0]},when", *(f"{line},{t}" for line, t in zip(lines[1:], when[kind], strict=True))])
    log, _ = read_log(
        write(tmp_path / "log.csv", text + "\n"), action="arm", reward="paid", split="uniform", time="when"
    )
    assert log.contexts.features[:, 0].tolist() == [30, 40, 20]
    assert log.contexts.names == ("age",)


def test_a_data_frame_is_a_log_too():
    table = pa.table({"age": [20, 30, 40], "arm": ["a", "b", "b"], "paid": [1.0, 0.0, 1.0]})
    log = log_of(table, action="arm", reward="paid", split="uniform")
    assert log.action_names == ("a", "b")
    with pytest.raises(InputError, match="is neither a log nor a data frame"):
        log_of([1, 2])
    with pytest.raises(InputError, match="action is for a data frame, and this is a log already"):
        certify(log, action="arm")
    with pytest.raises(InputError, match=r"row 1 \(counted from 0\) is 3, but rewards must lie"):
        log_of(table.set_column(2, "paid", pa.array([1.0, 3.0, 1.0])), action="arm", reward="paid", split="uniform")


def test_names_and_ranges_survive_a_file(tmp_path):
    log, _ = read_log(
        write(tmp_path / "log.csv", TEXT), action="arm", reward="paid", split="uniform", reward_range=(-1, 4)
    )
    log.write(tmp_path / "log.parquet")
    for again in (type(log).read(tmp_path / "log.parquet"), read_log(tmp_path / "log.parquet")[0]):
        assert (again.action_names, again.reward_range) == (("a", "b"), (-1, 4))
        assert again.rewards.tolist() == log.rewards.tolist()


def test_reading_is_written_down_and_read_again():
    options = ReadingOptions(
        action="arm", split={"a": 0.25, "b": 0.75}, reward_range=(0, 2), without=("x",), n_actions=2
    )
    assert ReadingOptions.from_json(options.to_json()) == options
    with pytest.raises(InputError, match="reading of the log"):
        ReadingOptions.from_json({"colour": 1})


def test_actions_that_are_spelt_as_hexadecimal_numbers_are_names(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("age,action,reward,propensity\n1,0,1,0.5\n2,0x10,0,0.5\n3,0,1,0.5\n")
    assert read_log(path)[0].action_names == open_set([path]).head.action_names == ("0", "0x10")

"""What a log leaves unsaid: propensities that follow, rewards of another range, actions that are never played."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pacbandits import InputError, Log, read_log
from pacbandits.logs.raw_log import TWO_ACTIONS_REMARK, UNIFORM_REMARK
from pacbandits.records import Contexts
from tests.logs.cases import CSV, refused, write


def test_propensities_that_follow_from_the_played_one(tmp_path):
    """A uniform trial, and two actions; not when it is declared otherwise."""
    third = "action,reward,propensity,x\n" + "".join(f"{i},1,0.3333333333,{i}\n" for i in range(3))
    log, remarks = read_log(write(tmp_path / "log.csv", third))
    assert np.array_equal(log.propensities, np.full((3, 3), 1 / 3))
    assert remarks == (UNIFORM_REMARK,)
    assert read_log(tmp_path / "log.csv", least_propensity=0)[0].least is not None
    refused("minimum propensity of every action (least_propensity=0.01)", tmp_path / "log.csv", n_actions=4)
    two = "action,reward,propensity,x\n0,1,0.9,1\n1,1,0.25,2\n"
    log, remarks = read_log(write(tmp_path / "log.csv", two))
    assert log.propensities == pytest.approx(np.array([[0.9, 0.1], [0.75, 0.25]]))
    assert remarks == (TWO_ACTIONS_REMARK,)


def test_rewards_of_another_range(tmp_path):
    text = CSV.replace("0.25,0.2", "-5,0.2").replace(",1,0.5", ",5,0.5")
    path = write(tmp_path / "log.csv", text)
    log, remarks = read_log(path, least_propensity=0.1, reward_range=(-5, 5))
    assert log.rewards.tolist() == [1, 0, 0.5, 1]
    assert log.reward_range == (-5, 5)
    assert remarks == ("every action was always played with probability 0.1 or more",)
    refused("the reward of line 2 is 5, but rewards must lie in [0, 1]", path, least_propensity=0.1)
    refused("as in reward_range=(-5, 5)", path, least_propensity=0.1)
    refused(
        "the reward of line 3 is -5, but rewards must lie in [0, 5]", path, least_propensity=0.1, reward_range=(0, 5)
    )
    refused("from a number to a larger one, got 5 to 5", path, reward_range=(5, 5))


def test_only_a_proper_range_of_rewards_is_proposed(tmp_path):
    line = {"_label_cost": 5, "_label_probability": 0.5, "_label_Action": 1, "a": [1, 2], "c": {"x": 1}}
    path = write(tmp_path / "log.dsjson", json.dumps(line) + "\n")
    refused("with reward_range and two numbers", path)
    write(path, json.dumps(line) + "\n" + json.dumps(line | {"_label_cost": 3}) + "\n")
    refused("as in reward_range=(-5, -3)", path)


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


def test_one_action_that_was_not_always_played_is_not_the_only_one(tmp_path):
    rows = "".join(f"{i},0,1,0.5\n" for i in range(4))
    path = write(tmp_path / "log.csv", f"x,action,reward,propensity\n{rows}")
    with pytest.raises(InputError, match=r"probability 0.5, so there were others.*n_actions=2"):
        read_log(path, least_propensity=0.01)
    assert read_log(path, n_actions=2)[0].n_actions == 2

"""Rewards with a long tail: what the data show is told where a range is asked for, and clipping is said to be another
reward wherever anything is said of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pacbandits as pb

SAID = {"action": "variant", "reward": "revenue", "split": "uniform"}
OPTIONS = ["--action", "variant", "--reward", "revenue", "--split", "uniform"]
REMARK = "the reward is clipped: it is min(revenue, 20) and not revenue itself, in all that is said here; 6 of 2,000"


@pytest.fixture
def sales(tmp_path):
    """2,000 customers who pay from 1 to 10, and six who pay 1,000."""
    rng = np.random.default_rng(0)
    revenue = rng.integers(1, 11, size=2000)
    revenue[[100, 200, 300, 400, 500, 600]] = 1000
    variant = rng.choice(["a", "b"], size=2000)
    path = tmp_path / "sales.csv"
    rows = [f"{age},{one},{paid}" for age, one, paid in zip(rng.integers(90, size=2000), variant, revenue, strict=True)]
    path.write_text("age,variant,revenue\n" + "\n".join(rows) + "\n")
    return path, revenue


def test_what_the_data_show_is_told(sales):
    path, _ = sales
    with pytest.raises(pb.InputError) as caught:
        pb.read_log(path, **SAID)
    assert "they go from 1 to 1000, 99 % of them up to 10: give" in str(caught.value)
    assert "as in reward_range=(1, 1000); or clip rewards beyond it, as in reward_range=(0, 10), clip=True" in str(
        caught.value
    )
    with pytest.raises(pb.InputError) as caught:
        pb.read_log(path, **SAID, reward_range=(0, 20))
    words = str(caught.value)
    assert "the revenue of line 102 is 1000, but rewards must lie in [0, 20]" in words
    assert "or clip rewards beyond it, with clip=True, which changes the reward" in words


def test_the_tail_is_told_where_it_is_thin(tmp_path):
    path = tmp_path / "sales.csv"
    rows = [f"{i % 7},{'ab'[i % 2]},{1 + i % 10 if i != 3000 else 5000}" for i in range(4000)]
    path.write_text("age,variant,revenue\n" + "\n".join(rows) + "\n")
    with pytest.raises(pb.InputError) as caught:
        pb.read_log(path, **SAID)
    assert "they go from 1 to 5000, 99.9 % of them up to 10" in str(caught.value)
    assert "as in reward_range=(0, 10), clip=True" in str(caught.value)


def test_clipped_rewards_are_cut_and_said_to_be(sales):
    path, revenue = sales
    log, remarks = pb.read_log(path, **SAID, reward_range=(0, 20), clip=True)
    assert np.array_equal(log.rewards, np.minimum(revenue, 20) / 20)
    assert remarks[0].startswith(REMARK)
    both, remarks = pb.read_log(path, **SAID, reward_range=(2, 20), clip=True)
    assert np.array_equal(both.rewards, (np.clip(revenue, 2, 20) - 2) / 18)
    assert "it is min(max(2, revenue), 20) and not revenue" in remarks[0]
    _, remarks = pb.read_log(path, **SAID, reward_range=(0, 1000), clip=True)
    assert "0 of 2,000 rows were clipped" in remarks[0]
    with pytest.raises(pb.InputError, match="clipping needs the smallest and the largest reward"):
        pb.read_log(path, **SAID, clip=True)
    with pytest.raises(pb.InputError, match="clip must be"):
        pb.read_log(path, **SAID, reward_range=(0, 20), clip=1)


@pytest.mark.thorough
def test_a_certificate_says_so_and_its_log_is_read_again(sales, tmp_path, command):
    """In words, in the report, in the file; verify and evaluate read the log as it was read."""
    path, revenue = sales
    proof, report = str(tmp_path / "proof.json"), tmp_path / "report.md"
    how = [*OPTIONS, "--reward-range", "0", "20", "--clip", "--policies", "trees:depth=1"]
    code, out, err = command("certify", str(path), *how, "--certificate", proof, "--report", str(report))
    assert code in (0, 3), err
    said = " ".join(out.split())
    assert REMARK in said
    assert "mean clipped revenue of" in said
    assert "largest mean clipped revenue" in report.read_text()
    assert f"**Another reward** {REMARK}" in report.read_text()
    assert json.loads((tmp_path / "proof.json").read_text())["reading"]["clip"] is True
    assert command("verify", proof, str(path))[1].startswith("g")
    code, out, err = command("evaluate", proof, str(path), "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["value"]["estimate"] == pytest.approx(np.minimum(revenue, 20).mean(), abs=1.0)
    assert any(words.startswith(REMARK) for words in told["assumed"])

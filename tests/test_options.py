"""Specs: what they mean, and the one line each mistake gets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.errors import InputError
from pacbandits.options import parse_spec
from pacbandits.problems import load_problem
from pacbandits.problems.hard import hard
from pacbandits.problems.trivial import trivial


def test_a_spec_sets_options() -> None:
    problem = load_problem(" hard : m = 7 , gap=0.5 ")
    assert problem.name == "hard:m=7,gap=0.5,noise=gaussian,variance=1.0"
    assert problem.mean_rewards.max() == 0.5
    assert load_problem("hard:gap=1").name == hard().name
    assert load_problem("trivial:noise=gaussian,variance=0").noise_variance.max() == 0


def test_a_spec_and_a_call_agree() -> None:
    spelled, called = (
        load_problem("trivial:contexts=4,gap=0.25,seed=9"),
        trivial(contexts=4, gap=0.25, seed=9),
    )
    assert spelled.name == called.name
    assert np.array_equal(spelled.mean_rewards, called.mean_rewards)
    assert trivial(contexts=np.int64(4), gap=np.float64(0.25), seed=9).name == called.name


def test_variance_is_spelled_out_only_where_it_matters() -> None:
    assert "variance" not in hard(noise="bernoulli").name
    assert parse_spec("a:b=c=d") == ("a", {"b": "c=d"})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "names no problem"),
        (":m=3", "names no problem"),
        ("hrad", r"unknown problem 'hrad'; did you mean 'hard'\? \(known: actg175, breast-cancer, digits, hard"),
        ("two_of_many", "did you mean 'two-of-many'"),
        ("zzzzzz", r"unknown problem 'zzzzzz' \(known: "),
        ("hard,m=3", "unknown problem 'hard,m=3'; did you mean 'hard'"),
        ("hard:mm=3", "problem 'hard' has no option 'mm'; did you mean 'm'"),
        ("trees:action=3", "has no option 'action'; did you mean 'actions'"),
        ("hard:seed=3", r"has no option 'seed'.*\(known: gap, m, noise, variance\)"),
        ("hard:", "empty option; remove the extra ':'"),
        ("hard:m=5,", "empty option; remove the extra ','"),
        ("hard:,m=5", "empty option; remove the extra ','"),
        ("hard:m=5,,gap=1", "empty option; remove the extra ','"),
        ("hard:m", "'m' in 'hard:m' is not of the form key=value"),
        ("hard:=5", "'=5' in 'hard:=5' is not of the form key=value"),
        ("hard:m=", "option 'm' of 'hard:m=' has no value"),
        ("hard:m=5,m=6", "option 'm' is given twice"),
        ("hard:m=2.5", "m must be an integer from 2 to 10000, got 2.5"),
        ("hard:m=ten", "m must be an integer from 2 to 10000, got ten"),
        ("hard:m=1", "m must be an integer from 2 to 10000, got 1"),
        ("hard:m=10001", "m must be an integer from 2 to 10000, got 10001"),
        ("hard:m=" + "9" * 5000, "m must be an integer from 2 to 10000, got 99999.*…$"),
        ("hard:gap=0", "gap must be a number above 0 and at most 1, got 0.0"),
        ("hard:gap=1.01", "gap must be a number above 0 and at most 1, got 1.01"),
        ("hard:gap=nan", "gap must be a number above 0 and at most 1, got nan"),
        ("hard:variance=inf", "variance must be a number, 0 or more, got inf"),
        ("hard:variance=-1", "variance must be a number, 0 or more, got -1.0"),
        ("linear:spread=0", "spread must be a number above 0, got 0.0"),
        ("random:seed=-1", "seed must be an integer, 0 or more, got -1"),
        ("random:skill=2", "skill must be a number from 0 to 1, got 2.0"),
        ("trees:depth=3", "depth must be an integer from 0 to 2, got 3"),
        ("hard:noise=gausian", "noise must be bernoulli or gaussian, got 'gausian'; did you mean 'gaussian'"),
        ("hard:noise=none", "noise must be bernoulli or gaussian, got 'none'"),
        ("hard:noise=bernoulli,variance=2", "variance has no effect here: it needs noise=gaussian"),
        ("random:variance=2", "variance has no effect here: it needs noise=gaussian"),
        ("random:policies=100000,contexts=10000", "policies=100000 × contexts=10000 is too large"),
        ("trivial:contexts=1000000000", "contexts=1000000000 × actions=4 is too large"),
        ("nowhere.npz", "there is no file nowhere.npz"),
        ("hard:m=\x1b[31m5", r"got \?\[31m5"),
        ("hard\n:m=1\n2", "m must be an integer from 2 to 10000, got 1 2"),
    ],
)
def test_each_mistake_gets_one_line(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_problem(spec)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_other_files_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "problem.csv"
    table.write_text("1,2\n")
    with pytest.raises(InputError, match=r"a problem file ends in .npz"):
        load_problem(table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m": 2.0}, "m must be an integer"),
        ({"m": True}, "m must be an integer"),
        ({"m": "5"}, "m must be an integer"),
        ({"gap": "1"}, "gap must be a number"),
        ({"gap": None}, "gap must be a number"),
        ({"noise": 3}, "noise must be bernoulli or gaussian, got '3'"),
        ({"mm": 3}, "no option 'mm'; did you mean 'm'"),
    ],
)
def test_calls_are_checked_too(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hard(**options)
    with pytest.raises(TypeError, match="given by name"):
        hard(5)


def test_a_choice_is_read_by_its_former_name_and_known_by_the_present_one():
    setting = pb.Setting(pb.Trivial(2, 2), 0.1, 0.1, pb.RewardBounds())
    made = [pb.make_algorithm(spec, setting) for spec in ("coda:answer=lottery", "coda:answer=mixture", "coda")]
    assert made[0] == made[1] == made[2]
    with pytest.raises(InputError, match="answer must be mixture or single, got 'mix'"):
        pb.make_algorithm("coda:answer=mix", setting)

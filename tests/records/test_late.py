"""Logs whose rewards come late: what they know when, through every way that a log can take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pacbandits import read_log
from pacbandits.certificate import Ledger
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Log, parquet
from pacbandits.records.log import digest_log

NAN = np.nan


def log_of(rewards, known, *, rounds=(0, 0, 1, 1), **fields):
    people = Contexts.of([[20.0], [30.0], [40.0], [50.0]], names=["age"])
    return Log.of(
        people,
        actions=[0, 1, 0, 1],
        rewards=rewards,
        propensities=[[0.5, 0.5]] * 4,
        rounds=rounds,
        known=known,
        **fields,
    )


LATE = ([1.0, NAN, 0.0, NAN], [2, -1, 2, -1])


def test_what_is_not_in_is_told_apart():
    log = log_of(*LATE)
    assert log.awaited.tolist() == [False, True, False, True]
    assert log.rows_in().rewards.tolist() == [1.0, 0.0]
    assert log.rows_in().known.tolist() == [2, 2]
    assert log.known_by(1).tolist() == [False] * 4
    assert log.known_by(2).tolist() == [True, False, True, False]
    plain = log_of([1, 1, 0, 0], None)
    assert not plain.awaited.any()
    assert plain.rows_in() is plain
    assert plain.known_by(1).tolist() == [True, True, False, False]
    assert log_of([NAN] * 4, [-1] * 4).rows_in() is None


def test_a_log_as_it_stood_before_a_round():
    log = log_of([1.0, 0.0, 0.0, NAN], [1, 2, 3, -1])
    assert log.as_of(0) is None
    first = log.as_of(1)
    assert np.array_equal(first.rewards, [1.0, NAN], equal_nan=True)
    assert first.known.tolist() == [1, -1]
    assert np.array_equal(log.as_of(2).rewards, [1.0, 0.0, NAN, NAN], equal_nan=True)
    assert digest_log(log.as_of(3)) == digest_log(log)
    assert digest_log(log.as_of(2).as_of(1)) == digest_log(first)
    assert log_of([1, 1, 0, 0], None).as_of(1).rewards.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("rewards", "known", "words"),
    [
        ([1, NAN, 0, 0], [2, 1, 2, 2], "row 1 has no reward, but says that one was known before round 1"),
        ([1, 1, 0, 0], [2, 1, -1, 2], "row 2 has a reward, but its known is -1"),
        ([1, 1, 0, 0], [2, 1, 1, 2], "row 2, of round 1, cannot have been known before round 1 began"),
        ([1, 1, 0, 0], [2, 0, 2, 2], "row 1, of round 0, cannot have been known before round 0 began"),
        ([1, 1, 0, 0], [2, -2, 2, 2], "got -2 in row 1"),
        ([1, 1, 0, 0], [2, 1.5, 2, 2], "known must be integers"),
        ([1, 1, 0, 0], [2, 1, 2], "known must have shape"),
        ([1, 1, 0, 0], ["2", "1", "2", "2"], "known must be integers"),
        ([1, NAN, 0, 0], None, "rewards must be finite"),
        ([1, np.inf, 0, 0], [2, 1, 2, 2], "rewards must be finite"),
    ],
)
def test_what_cannot_be_is_said(rewards, known, words):
    with pytest.raises(InputError, match=words):
        log_of(rewards, known)


def test_repeated_interactions_have_no_single_time():
    with pytest.raises(InputError, match="each row stands for one interaction"):
        log_of(*LATE, repeats=[1, 2, 1, 1])


def test_every_way_that_a_log_takes_keeps_it(tmp_path):
    log = log_of(*LATE)
    log.write(tmp_path / "log.parquet")
    back = Log.read(tmp_path / "log.parquet")
    assert digest_log(back) == digest_log(log)
    assert back.contexts.names == ("age",)
    assert log.take(np.array([3, 0])).known.tolist() == [-1, 2]
    assert log.only(np.array([False, True, True, False])).known.tolist() == [-1, 2]
    plain = log_of([1, 1, 0, 0], None, rounds=(3, 3, 4, 4))
    assert log.followed_by(plain).known.tolist() == [2, -1, 2, -1, 4, 4, 5, 5]
    assert plain.followed_by(plain).known is None
    played = Log.of_played(
        log.contexts, actions=log.actions, rewards=log.rewards, played=[0.5] * 4, least=[[0.2, 0.2]] * 4,
        rounds=log.rounds, known=log.known,
    )  # fmt: skip
    played.write(tmp_path / "played.parquet")
    assert digest_log(Log.read(tmp_path / "played.parquet")) == digest_log(played)


def test_a_feature_of_that_name_is_one_in_the_files_of_others(tmp_path):
    known = Contexts.of([[1.0], [2.0]], names=["known"])
    log = Log.of(known, actions=[0, 1], rewards=[0, 1], propensities=[[0.5, 0.5]] * 2)
    log.write(tmp_path / "log.parquet")
    assert Log.read(tmp_path / "log.parquet").contexts.names == ("known",)
    with pytest.raises(InputError, match="has the name of a log column"):
        replace(log, known=np.array([1, 1])).write(tmp_path / "log.parquet")


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("known", [1.5, -1.0], "must hold rounds, or -1"),
        ("known", [np.nan, 1.0], "must hold rounds, or -1"),
        ("known", [0.0, -1.0], "cannot have been known before round 0 began"),
        ("known", [1.0, 1.0], "has no reward"),
        ("knowm", [1.0, -1.0], "but has no such column"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path, column, values, words):
    columns = {
        "age": np.array([1.0, 2.0]),
        "action": np.array([0, 1]),
        "reward": np.array([1.0, NAN]),
        "propensities": np.full((2, 2), 0.5),
        column: np.array(values),
    }
    parquet.write(tmp_path / "log.parquet", columns, remarks=(), about={"known": "known"})
    for reads in (Log.read, read_log):
        with pytest.raises(InputError, match=words):
            reads(tmp_path / "log.parquet")


def test_the_digest_is_of_it():
    log = log_of([1, 0, 0, 1], [1, 1, 2, 2])
    others = [log_of([1, 0, 0, 1], None), log_of([1, 0, 0, 1], [2, 1, 2, 2]), log_of([1, 0, 0, NAN], [1, 1, 2, -1])]
    assert len({digest_log(one) for one in (log, *others)}) == 4


def test_values_and_gaps_are_of_what_is_in():
    log = log_of(*LATE)
    ledger = Ledger.of(log, np.full((4, 2), 0.5))
    for asked in (
        lambda: ledger.values(np.ones(2)),
        lambda: ledger.gaps(np.full((4, 2), 0.5), reference=np.zeros(4, dtype=np.int64)),
    ):
        with pytest.raises(InputError, match="rows whose rewards are in"):
            asked()
    with pytest.raises(InputError, match=r"they range from 0 to 3"):
        Ledger.of(log_of([3.0, NAN, 0.0, NAN], LATE[1]), np.full((4, 2), 0.5))

"""Dates as ages: the number of days before the time of the row (--age)."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import pacbandits as pb
from pacbandits.certificate.alarms import look
from pacbandits.logs.data_set import open_set
from pacbandits.logs.readers import log_of
from pacbandits.logs.reading_options import ReadingOptions

N = 400
AGE = "signup (days before visited)"
ASKED = {"split": "uniform", "time": "visited", "age": ["signup"]}


def shop(*, late=0, form=None, n=N):
    """A test of 60 days in which the offer suits those who signed up at most 90 days before; the first `late` later."""
    rng = np.random.default_rng(1)
    visited = [date(2026, 3, 1) + timedelta(days=i * 60 // n) for i in range(n)]
    age = rng.integers(0, 365, n)
    age[:late] = -2
    action = rng.integers(0, 2, n)
    reward = (rng.random(n) < np.where((age <= 90) == (action == 1), 0.9, 0.1)).astype(np.int64)
    signup = [day - timedelta(days=int(days)) for day, days in zip(visited, age, strict=True)]
    columns = {"signup": signup, "visited": visited}
    if form is not None:
        columns = {name: [f"{day:{form}}" for day in days] for name, days in columns.items()}
    return pa.table(columns | {"action": action, "reward": reward}), age


def told(log):
    return [words for words in log.notices if "signup" in words]


@pytest.mark.parametrize("form", [None, "%Y-%m-%d", "%d.%m.%Y"])
def test_a_date_becomes_the_days_before_the_time_of_its_row(form):
    frame, age = shop(form=form)
    mixed = np.random.default_rng(2).permutation(N)
    log = log_of(frame.take(pa.array(mixed)), **ASKED)
    assert log.contexts.names == (AGE,)
    order = np.argsort((np.arange(N) * 60 // N)[mixed], kind="stable")
    assert log.contexts.features[:, 0].tolist() == age[mixed][order].tolist()
    assert log.dates == ("signup", "visited")
    assert told(log) == []
    assert log_of(frame, **ASKED, features=["signup"]).contexts.names == (AGE,)
    assert set(log_of(frame, **ASKED, keep=["visited"]).contexts.names) > {AGE}


def test_the_age_is_recommended_where_it_can_be_told():
    frame, _ = shop()
    plain = log_of(frame, split="uniform", time="visited")
    assert plain.contexts.names == ("signup weekday", "signup days since 1970-01-01")
    assert len(told(plain)) == 1
    assert "--age signup (in Python, age=['signup']) makes it the number of days before 'visited'" in told(plain)[0]
    assert told(log_of(frame, split="uniform")) == []  # no time is known


def test_a_date_after_the_decision_is_told():
    frame, _ = shop(late=3)
    (said,) = told(log_of(frame, **ASKED))
    assert said.startswith("the column 'signup' is later than 'visited' in 3 rows, the first in row 0")


@pytest.mark.parametrize("late", [0, 3])
def test_a_stream_has_the_same_ages(late, tmp_path):
    frame, age = shop(late=late)
    pa.csv.write_csv(frame, tmp_path / "log.csv")
    with closing(open_set([tmp_path / "log.csv"], ReadingOptions(**ASKED), block_rows=150)) as files:
        blocks = list(files.blocks(0, 3))
        assert [block.contexts.names for block in blocks] == [(AGE,)] * 3
        assert np.concatenate([block.contexts.features[:, 0] for block in blocks]).tolist() == age.tolist()
        assert files.dates == ("signup", "visited")
        assert ["in rows such as line 2" in words for words in files.form.notices] == [True] * (late > 0)
    pa.csv.write_csv(shop(form="%d.%m.%Y")[0], tmp_path / "german.csv")
    with pytest.raises(pb.InputError, match="must hold dates for age"):
        open_set([tmp_path / "german.csv"], ReadingOptions(**ASKED))


def test_the_age_of_people_may_drift_as_any_feature():
    frame, _ = shop(n=1000)
    log = log_of(frame, **ASKED)
    assert any("segment of contexts" in one.describe() for one in look(log))


def test_what_cannot_be_meant_is_refused():
    frame, _ = shop()
    for asked, words in (
        ({"time": None}, "age signup counts days before the time of each row; say which column that is"),
        ({"age": ["visited"]}, "column 'visited' is time, and cannot be an age as well"),
        ({"without": ["signup"]}, "column 'signup' is left out"),
        ({"age": ["sign_up"]}, "there is no column 'sign_up'; did you mean 'signup'"),
    ):
        with pytest.raises(pb.InputError, match=words):
            log_of(frame, **ASKED | asked)
    kept = {**ReadingOptions(**ASKED).to_json()}
    assert kept["age"] == ["signup"]
    assert ReadingOptions.from_json(json.loads(json.dumps(kept))).age == ("signup",)


@pytest.mark.thorough
def test_from_a_file_to_a_rule_that_is_verified(command, tmp_path):
    frame, _ = shop(n=1500)
    log, proof = tmp_path / "log.csv", tmp_path / "proof.json"
    pa.csv.write_csv(frame, log)
    columns = ("--split", "uniform", "--time", "visited", "--age", "signup")
    code, out, _ = command("certify", log, *columns, "--control", "0", "--certificate", proof)
    assert code == 0
    assert "days before visited" in out
    code, out, _ = command("verify", proof, log)
    assert code == 0
    assert "--time visited --age signup" in " ".join(out.split())
    assert json.loads(command("evaluate", proof, log, "--json")[1])["own_log"]
    code, _, err = command("certify", log, *columns, "--contexts", proof)
    assert (code, "--contexts has no such time" in " ".join(err.split())) == (2, True)

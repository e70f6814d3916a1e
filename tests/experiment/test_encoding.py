"""Contexts one by one: what they are as features, back again, and what is refused."""

from __future__ import annotations

from datetime import date, datetime
from math import inf, nan
from time import perf_counter

import numpy as np
import pyarrow as pa
import pytest

import pacbandits as pb
from pacbandits.experiment.context_encoding import Encoder
from pacbandits.records import parquet
from tests.experiment.cases import people, protocol


@pytest.fixture(scope="module")
def encoder():
    return Encoder.for_protocol(protocol())


def with_missing():
    features = [[20, 0, 1], [nan, nan, 0], [40, 1, 1]]
    return pb.Contexts.of(features, names=["age", "device", "member"], categories=[None, ("phone", "desktop"), None])


def dated(*values):
    """Contexts with a column of dates, as they are read from a table."""
    table = pa.table({"age": list(range(len(values))), "since": pa.array(values)})
    columns = parquet.table_of(table, name="the table").columns
    return pb.Contexts.from_columns(columns, n=len(values))


def test_values_become_features_by_names_and_labels(encoder):
    made = encoder.encode([{"country": "FR", "age": 31}, {"age": 18.5, "country": "AT"}])
    assert made.features.tolist() == [[31.0, 2.0], [18.5, 0.0]]
    assert (made.ids, dict(made.errors)) == (None, {})
    assert encoder.encode([]).features.shape == (0, 2)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"age": 31}, "lacks 'country'"),
        ({"age": 31, "contry": "DE"}, "'contry' may be meant for it"),
        ({"age": 31, "country": "DE", "x": 1}, "'x', which is no column"),
        ({"age": "31", "country": "DE"}, "'age' must be a number, got '31'"),
        ({"age": True, "country": "DE"}, "'age' must be a number, got True"),
        ({"age": nan, "country": "DE"}, "'age' must be a finite number"),
        ({"age": inf, "country": "DE"}, "'age' must be a finite number"),
        ({"age": 10**400, "country": "DE"}, "'age' must be a finite number"),
        ({"age": None, "country": "DE"}, "'age' is null, and was never missing"),
        ({"age": [31], "country": "DE"}, "'age' must be a number"),
        ({"age": 31, "country": "D"}, "'country' is 'D', which the contexts of the experiment did not have; did you"),
        ({"age": 31, "country": 3}, "'country' must be text"),
        ({"age": 31, "country": None}, "'country' is null"),
        ([31, "DE"], "must be an object"),
        (None, "must be an object"),
        ({}, "lacks 'age'"),
    ],
)
def test_what_is_no_context_is_refused_by_its_row_alone(encoder, row, words):
    good = {"age": 31, "country": "DE"}
    made = encoder.encode([good, row, good])
    assert list(made.errors) == [1]
    assert words in str(made.errors[1])
    assert made.features[[0, 2]].tolist() == [[31.0, 1.0]] * 2


def test_what_was_missing_before_may_be_again():
    encoder = Encoder.of(with_missing())
    made = encoder.encode([{"age": None, "device": None, "member": True}, {"age": 3, "device": "phone", "member": 0}])
    assert not made.errors
    assert np.isnan(made.features[0, 0])
    assert made.features[0, 1:].tolist() == [2.0, 1.0]
    assert made.features[1].tolist() == [3.0, 0.0, 0.0]
    assert encoder.decode(made.features)[0] == {"age": None, "device": None, "member": 1}


def test_unknown_labels_are_missing_ones_only_where_that_was_asked():
    lenient = Encoder.for_protocol(protocol(unknown_labels="missing"))
    made = lenient.encode([{"age": 31, "country": "XX"}, {"age": 31, "country": None}, {"age": 31, "country": 4}])
    assert made.features[:2, 1].tolist() == [3.0, 3.0]
    assert list(made.errors) == [2]


def test_contexts_that_are_known_by_an_id():
    encoder = Encoder.for_protocol(protocol(contexts=pb.Contexts.finite(4), policies="trivial"))
    made = encoder.encode([{"context_id": 3}, {"context_id": -1}, {"context_id": 4}, {"context_id": 1.5}, {}])
    assert made.ids is not None
    assert made.ids[0] == 3
    assert sorted(made.errors) == [1, 2, 3, 4]
    assert encoder.decode(made.features[:1], made.ids[:1]) == [{"context_id": 3}]


def test_dates_are_made_of_text_as_they_are_made_of_tables():
    days = [datetime(2024, 2, 29, 13, 30), datetime(1969, 12, 31, 23, 59, 59, 123456), datetime(2030, 1, 1)]
    contexts = dated(*days)
    encoder = Encoder.of(contexts, dates=["since"])
    assert encoder.names == ("age", "since")
    rows = [{"age": i, "since": day.isoformat()} for i, day in enumerate(days)]
    assert (encoder.encode(rows).features == contexts.features).all()
    assert (encoder.encode(encoder.decode(contexts.features)).features == contexts.features).all()
    utc = encoder.encode([{"age": 0, "since": "2024-02-29T15:30:00+02:00"}, {"age": 0, "since": days[0]}]).features
    assert (utc == contexts.features[[0, 0]]).all()
    wrong = encoder.encode([{"age": 0, "since": bad} for bad in ("yesterday", 3, None, "2024-02-30", "12:30")])
    assert sorted(wrong.errors) == [0, 1, 2, 3, 4]
    assert "2024-01-31" in str(wrong.errors[0])


def test_dates_without_a_time_and_dates_that_are_missing():
    contexts = dated(date(2024, 2, 29), None, date(2024, 3, 1))
    encoder = Encoder.of(contexts, dates=["since"])
    given = [{"age": 0, "since": "2024-02-29"}, {"age": 1, "since": None}, {"age": 2, "since": "2024-03-01"}]
    assert np.array_equal(encoder.encode(given).features, contexts.features, equal_nan=True)
    assert encoder.decode(contexts.features) == given


def test_values_come_back(encoder):
    features = people().features[:50]
    assert (encoder.encode(encoder.decode(features)).features == features).all()
    assert encoder.decode(features[:1] + np.array([0.25, 0.0]))[0]["age"] == features[0, 0] + 0.25


def test_a_value_takes_microseconds(encoder):
    rows = [{"age": 31, "country": "DE"}] * 5_000
    best = min(_seconds(lambda: encoder.encode(rows)) / (2 * len(rows)) for _ in range(3))
    assert best < 10e-6  # about 1 on an idle machine


def _seconds(call):
    begun = perf_counter()
    call()
    return perf_counter() - begun

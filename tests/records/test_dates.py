"""Dates and times become weekdays, days and hours, and days are dates again in words."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits import Trees
from pacbandits.errors import InputError
from pacbandits.policies.trees.tree_policy import AtMost
from pacbandits.records import Contexts
from pacbandits.records.column_types import WEEKDAYS

NAN = float("nan")


def told(contexts: Contexts, name: str) -> list[object]:
    """A feature in its own words."""
    j = contexts.names.index(name)
    labels = contexts.categories[j]
    return [value if labels is None else labels[int(value)] for value in contexts.features[:, j].tolist()]


@given(
    st.lists(st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)), min_size=1, max_size=20),
    st.sampled_from(["s", "ms", "us", "ns", "date32", "date64"]),
)
def test_by_the_calendar(times: list[datetime | None], unit: str) -> None:
    kind = {"date32": pa.date32(), "date64": pa.date64()}.get(unit) or pa.timestamp(unit)
    if unit.startswith("date"):
        times = [t and datetime.combine(t.date(), time()) for t in times]
    times = [t and t.replace(microsecond=0) for t in times]
    given_ = pa.array([t.date() if t and unit.startswith("date") else t for t in times], type=kind)
    contexts = Contexts.from_columns({"at": given_}, n=len(times))
    assert told(contexts, "at weekday") == ["missing" if t is None else WEEKDAYS[t.weekday()] for t in times]
    days = [NAN if t is None else (t.date() - date(1970, 1, 1)).days for t in times]
    np.testing.assert_array_equal(told(contexts, "at days since 1970-01-01"), days)
    hours = [NAN if t is None else t.hour + t.minute / 60 + t.second / 3600 for t in times]
    varied = len({hour for hour in hours if hour == hour}) > 1
    assert ("at hour" in contexts.names) == varied
    if varied:
        np.testing.assert_allclose(told(contexts, "at hour"), hours, atol=1e-9)


def test_from_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("x,day,at,clock\n1,2024-03-04,2024-03-04 13:30:00,08:15:00\n2,,2024-03-05 01:00:00,\n", "utf-8")
    contexts = Contexts.read(path)
    days = " days since 1970-01-01"
    assert contexts.names == ("x", "day weekday", f"day{days}", "at weekday", f"at{days}", "at hour", "clock hour")
    assert told(contexts, "day weekday") == ["Mon", "missing"]
    assert told(contexts, "at hour") == [13.5, 1.0]
    np.testing.assert_array_equal(told(contexts, "clock hour"), [8.25, NAN])
    contexts.write(tmp_path / "again.parquet")
    assert Contexts.read(tmp_path / "again.parquet").names == contexts.names


def test_the_clock_of_a_time_zone_counts(tmp_path: Path) -> None:
    times = [datetime(2024, 3, 4, 23, 30, tzinfo=UTC), datetime(2024, 7, 4, 23, 30, tzinfo=UTC)]
    table = pa.table({"at": pa.array(times, type=pa.timestamp("us", tz="Europe/Vienna"))})
    pq.write_table(table, tmp_path / "t.parquet")
    contexts = Contexts.read(tmp_path / "t.parquet")
    local = [t.astimezone(ZoneInfo("Europe/Vienna")) for t in times]
    assert told(contexts, "at weekday") == [WEEKDAYS[t.weekday()] for t in local]
    assert told(contexts, "at hour") == [0.5, 1.5]
    strange = pa.array([1, 2], type=pa.timestamp("s", tz="Nowhere/Land"))
    with pytest.raises(InputError, match="the time zone 'Nowhere/Land' of column 'at' is unknown here"):
        Contexts.from_columns({"at": strange}, n=2)


def test_what_is_in_the_way_is_named() -> None:
    day = pa.array([0, 1], type=pa.date32())
    for columns in ({"d": day, "d weekday": pa.array([1, 2])}, {"d weekday": pa.array([1, 2]), "d": day}):
        with pytest.raises(
            InputError, match="column 'd weekday' has the name of a feature derived from 'd'; rename it"
        ):
            Contexts.from_columns(dict(columns), n=2)
    with pytest.raises(InputError, match="must be numbers or text, got duration"):
        Contexts.from_columns({"d": pa.array([0, 1], type=pa.duration("s"))}, n=2)


def test_days_are_dates_in_words() -> None:
    days = pa.array([date(2024, 3, 4), date(2024, 3, 9), None])
    contexts = Contexts.from_columns({"signup": days}, n=3)
    days_alone = Contexts.of(contexts.features[:, 1:], names=contexts.names[1:])
    trees = Trees.learn(days_alone, n_actions=2, depth=1)
    policy = trees.argmax(days_alone, np.eye(2)[[0, 1, 0]])
    assert policy.describe() == "if signup is missing or ≤ 2024-03-06: action 0\nelse: action 1"
    assert trees.details(days_alone) == ("signup is missing, or ≤ 2024-03-06",)
    name = "signup days since 1970-01-01"
    assert AtMost(name, -0.5).describe() == "signup ≤ 1969-12-31"
    assert AtMost(name, 1e9).describe() == f"{name} ≤ 1000000000"

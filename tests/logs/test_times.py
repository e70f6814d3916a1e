"""The order of rows by a column of times, however these are written."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pacbandits as pb
from pacbandits.logs.data_set import open_set
from pacbandits.logs.readers import log_of
from pacbandits.logs.reading_options import ReadingOptions

READING = {"time": "at", "split": "uniform"}


def ages(times, **reading):
    """The places that rows of such times had, in the order that they are brought into."""
    n = len(times)
    table = pa.table({"at": times, "age": np.arange(n), "action": np.arange(n) % 2, "reward": np.ones(n)})
    log = log_of(table, **READING, keep=["age"], **reading)
    return log.contexts.features[:, list(log.contexts.names).index("age")].astype(int).tolist(), log.remarks


def write(path, times):
    rows = [f"{t},{k},{k % 2},1" for k, t in enumerate(times)]
    path.write_text("\n".join(["at,age,action,reward", *rows]) + "\n")
    return path


FALLING = {
    "points": ["1.2.2024", "31.01.2024", "31.12.2023"],
    "points and a day of 13": ["01.12.2023", "13.11.2023", "02.02.2022"],
    "points, month first": ["02.25.2024", "02.01.2024", "12.31.2023"],
    "slashes, day first": ["01/02/2024", "25/01/2024", "02/01/2024"],
    "slashes, month first": ["02/01/2024", "01/25/2024", "01/03/2024"],
    "dashes, day first": ["01-02-2024", "25-01-2024", "31-12-2023"],
    "clock": ["31.01.2024 13:05", "31.01.2024 9:59:59.5", "31.01.2024 09:59:59,25"],
    "halves of a day": ["1/25/2024 1:05 PM", "1/25/2024 11:59:59 am", "1/25/2024 12:10 AM"],
    "offsets": ["2024-01-31T13:00:00-05:00", "2024-01-31T13:00:00Z", "2024-01-31 13:30:00+0100"],
    "words for UTC": ["2024-02-01 00:00:00 UTC", "2024-01-31 13:30:00 UTC", "2024-01-31 00:30:00 GMT"],
    "year first": ["2024/01/31 10:00", "2024/01/31", "2023/12/31 23:59"],
    "months": ["2024-02", "2024-01-31", "2023-12"],
    "ISO": ["2024-01-31 13:30", "2024-01-31", "2023-12-31 23:59:59.999"],
    "numbers": ["1000", "2e2", " 30 ", "-4.5"],
    "compact": ["20240201", "20240131", "20231231"],
}


@pytest.mark.parametrize("kind", FALLING)
def test_text_is_read_as_times_where_that_leaves_no_doubt(kind, tmp_path):
    times = FALLING[kind]
    expected = list(range(len(times)))[::-1]
    order, remarks = ages(times)
    assert order == expected
    assert any("are written as" in words for words in remarks) == (times[0][2] in "./-" or times[0][1] in "./")
    if not any("," in one for one in times):
        log, _ = pb.read_log(write(tmp_path / "log.csv", times), keep=["age"], **READING)
        assert log.contexts.features[:, list(log.contexts.names).index("age")].astype(int).tolist() == expected
    path = tmp_path / "log.parquet"
    rows = {"at": times[::-1], "age": expected, "action": [k % 2 for k in expected], "reward": np.ones(len(times))}
    pq.write_table(pa.table(rows), path)
    open_set([path], ReadingOptions(**READING)).close()  # the rows stand in order there
    pq.write_table(pa.table({name: column[::-1] for name, column in rows.items()}), path)
    with pytest.raises(pb.InputError, match="not sorted by 'at'"):
        open_set([path], ReadingOptions(**READING))


REFUSED = {
    "slashes": (["01/02/2024", "03/04/2024"], ["'01/02/2024'", "'%d/%m/%Y'", "'%m/%d/%Y'"]),
    "slashes with a clock": (["01/02/2024 1:30 pm"] * 3, ["'%d/%m/%Y %I:%M %p'", "'%m/%d/%Y %I:%M %p'"]),
    "both": (["25/01/2024", "01/25/2024"], ["'01/25/2024' in row 1", "'25/01/2024' in row 0", "different formats"]),
    "two marks": (["25/01/2024", "25.01.2024"], ["'25.01.2024' in row 1", "different formats"]),
    "offsets of some": (["2024-01-31T13:00Z", "2024-01-31T13:00"], ["'2024-01-31T13:00' in row 1"]),
    "short years": (["31.01.24", "01.02.24"], ["'31.01.24' in row 0", "time_format='%d.%m.%y'"]),
    "words": (["2024-01-31", "soon"], ["'soon' in row 1", "2024-01-31 13:30:00"]),
    "no such day": (["31.01.2024", "30.02.2024"], ["'30.02.2024' in row 1"]),
    "an empty text": (["31.01.2024", ""], ["'' in row 1"]),
    "weeks": (["week 9", "week 10"], ["'week 9' in row 0"]),
    "digits": ([31012024, 1022024], ["31012024", "time_format='%d%m%Y'"]),
    "digits in text": (["31012024", "01022024"], ["31012024", "time_format='%d%m%Y'"]),
    "missing": (["31.01.2024", None], ["1 missing value, in row 1"]),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_times_that_leave_doubt_are_refused_with_the_value_and_the_remedy(kind, tmp_path):
    times, words = REFUSED[kind]
    with pytest.raises(pb.InputError) as caught:
        ages(times)
    for one in words:
        assert one.removesuffix("'") in str(caught.value)
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"at": times, "action": np.arange(len(times)) % 2, "reward": np.ones(len(times))}), path)
    with pytest.raises(pb.InputError) as streamed:
        open_set([path], ReadingOptions(**READING))
    assert str(caught.value) in str(streamed.value)


@pytest.mark.parametrize("digits", [False, True])
def test_the_reader_says_how_times_are_written(digits, tmp_path):
    times, form = (
        (["2012024", "1022024", "31012024"], "%d%m%Y") if digits else (["02/01/2024", "01/02/2024"], "%d/%m/%Y")
    )
    expected = [0, 2, 1] if digits else [0, 1]
    given = list(map(int, times)) if digits else times
    assert ages(given, time_format=form)[0] == expected
    path = write(tmp_path / "log.csv", times)
    log, _ = pb.read_log(path, keep=["age"], time_format=form, **READING)
    assert log.contexts.features[:, list(log.contexts.names).index("age")].astype(int).tolist() == expected
    if digits:
        with pytest.raises(pb.InputError, match="not sorted by"):
            open_set([path], ReadingOptions(time_format=form, **READING))
    else:
        open_set([path], ReadingOptions(time_format=form, **READING)).close()
        with pytest.raises(pb.InputError, match="not sorted by"):
            open_set([path], ReadingOptions(time_format="%m/%d/%Y", **READING))


def test_formats_that_cannot_be_are_refused():
    for form in ("", "day", "%d.%m", "%q", "%", "%d %d %Y", "%%"):
        with pytest.raises(pb.InputError, match=r"time_format.* is not a time format"):
            ages(["1.2.2024", "2.2.2024"], time_format=form)
    with pytest.raises(pb.InputError, match=r"'1.2.2024' in row 0 .*does not match time_format='%d/%m/%Y'"):
        ages(["1.2.2024", "2.2.2024"], time_format="%d/%m/%Y")
    with pytest.raises(pb.InputError, match="holds dates or times"):
        ages(pa.array([1, 2], pa.date32()), time_format="%d/%m/%Y")
    with pytest.raises(pb.InputError, match="add time="):
        ReadingOptions(time_format="%d/%m/%Y")
    assert ages(pa.array([2, 1], pa.date32()), time_format="%Y-%m-%d")[0] == [1, 0]


FORMATS = ["%d.%m.%Y %H:%M:%S", "%d.%m.%Y", "%Y/%m/%d %I:%M:%S %p", "%Y-%m-%dT%H:%M:%S.%f", "%d/%m/%Y %H:%M"]
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1))


@given(st.lists(MOMENTS, min_size=2, max_size=12), st.sampled_from(FORMATS))
@example([datetime(2024, 2, 1), datetime(2024, 1, 31)], "%d.%m.%Y")
def test_text_sorts_as_the_times_that_it_was_written_from(moments, form):
    texts = [one.strftime(form) for one in moments]
    told = [datetime.strptime(text, form) for text in texts]
    expected = sorted(range(len(told)), key=lambda k: told[k])
    assert ages(texts, time_format=form)[0] == expected
    if form.startswith("%d/") and all(one.day <= 12 for one in moments):
        with pytest.raises(pb.InputError, match="which number is the day"):
            ages(texts)
    else:
        assert ages(texts)[0] == expected


@given(st.lists(st.tuples(MOMENTS, st.integers(-14 * 4, 14 * 4)), min_size=2, max_size=12))
def test_offsets_from_utc_are_taken_into_account(moments):
    zoned = [
        one.replace(tzinfo=UTC).astimezone(timezone(timedelta(minutes=15 * quarters))) for one, quarters in moments
    ]
    assert ages([one.isoformat() for one in zoned])[0] == sorted(range(len(zoned)), key=lambda k: zoned[k])


def drifting(n=1500):
    """Days and the rewards of rows, in a random order: those of the second half are worse."""
    rng = np.random.default_rng(0)
    days = [datetime(2024, 1, 15) + timedelta(days=int(k)) for k in rng.integers(0, 120, n)]
    late = np.array([day > datetime(2024, 3, 15) for day in days])
    rewards = (rng.random(n) < np.where(late, 0.2, 0.8)).astype(float)
    return days, {"x": rng.integers(0, 2, n), "action": rng.integers(0, 2, n), "reward": rewards}


@pytest.mark.thorough
def test_a_log_that_drifts_raises_the_alarm_however_its_dates_are_written():
    days, rows = drifting()
    found = {
        form: pb.certify(pa.table({"at": [day.strftime(form) for day in days], **rows}), **READING)
        for form in ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y")
    }
    alarms = [one.alarms for one in found.values()]
    assert len(alarms[0]) == 1
    assert alarms[1] == alarms[2] == alarms[0]
    assert any("day.month.year" in words for words in found["%d.%m.%Y"].certificate.assumptions)


def test_times_of_day_are_read(tmp_path):
    """pyarrow reads them as 32 bits, which it casts to no other width."""
    times = [f"{k // 60:02d}:{k % 60:02d}" for k in range(700, 720)]
    path = write(tmp_path / "log.csv", times[::-1])
    log, _ = pb.read_log(path, split="uniform")
    assert "at hour" in log.contexts.names
    log, _ = pb.read_log(path, keep=["age"], **READING)
    assert log.contexts.features[:, 0].astype(int).tolist() == list(range(20))[::-1]

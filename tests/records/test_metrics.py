"""Metrics and guardrails: how they are written, and how a log carries its metrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pacbandits.errors import InputError
from pacbandits.logs import read_log
from pacbandits.records import Contexts, Guardrail, Log, Metric, Ratio
from pacbandits.records.log import digest_log
from pacbandits.records.metrics import read_guardrail, read_guardrails, read_metric, read_metrics, with_guarded

METRICS: list[Any] = ["returned", ("minutes", 0, 600), ("revenue/orders", 0, 500, 0, 20)]
VALUES = np.array([[0, 0.5, 0.1, 0.05], [1, 0.1, 0.0, 0.0], [0, 1.0, 1.0, 0.5], [1, 0.0, 0.2, 0.1]])


def example(**changes: Any) -> Log:
    parts: dict[str, Any] = {
        "actions": [0, 1, 1, 0],
        "rewards": [0.0, 1.0, 0.25, 1.0],
        "propensities": [[0.5, 0.5]] * 4,
        "rounds": [0, 0, 1, 1],
        "metrics": METRICS,
        "metric_values": VALUES,
    }
    return Log.of(Contexts.of([[1], [2], [3], [4]], names=["age"]), **(parts | changes))


@pytest.mark.parametrize(
    ("given", "metric"),
    [
        ("returned", Metric("returned")),
        (" minutes 0 600 ", Metric("minutes", 0, 600)),
        (("minutes", 0, 600), Metric("minutes", 0, 600)),
        (["score", -1.5, 1], Metric("score", -1.5, 1)),
        ("time on page 0 1e3", Metric("time on page", 0, 1000)),
        ("week 3", Metric("week 3")),
        ("week 3 0 600", Metric("week 3", 0, 600)),
        ("revenue/orders 0 500 0 20", Ratio(Metric("revenue", 0, 500), Metric("orders", 0, 20))),
        (("revenue/orders", 0, 500, 0, 20), Ratio(Metric("revenue", 0, 500), Metric("orders", 0, 20))),
        ("clicks / visits", Ratio(Metric("clicks"), Metric("visits"))),
        ("clicks/visits 0 1", Metric("clicks/visits")),
        (("score 0 1",), Metric("score 0 1")),
    ],
)
def test_metrics_are_read_as_they_are_written(given: object, metric: Metric | Ratio) -> None:
    assert read_metric(given) == metric
    assert read_metric(metric.spelt) == metric
    assert read_metric(metric.to_json()) == metric


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "a metric has no name"),
        (5, "a metric is a column and its range, as in 'returned'"),
        (("minutes", 600), "got ('minutes', 600)"),
        (("minutes", "0", 600), "the range of metric 'minutes' must be a number, got '0'"),
        ("minutes 600 0", "got 600 to 0; the smaller first"),
        (("minutes", 0, float("inf")), "the range of metric 'minutes' must be a number"),
        (("minutes", 0, 1, 0, 1), "metric 'minutes' is one column, and has one range"),
        ("orders/orders", "of a column to itself; name two columns"),
        ("a/b/c", "has more than one '/'"),
        ("a/b 0 1 -1 1", "the denominator 'b' of a ratio cannot be negative"),
    ],
)
def test_what_is_no_metric_is_refused(given: object, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_metrics([given])
    assert words in str(caught.value)


def test_a_column_has_one_range() -> None:
    assert read_metrics("returned") == (Metric("returned"),)
    assert read_metrics(["returned", "returned"]) == (Metric("returned"),)
    with pytest.raises(InputError, match="column 'revenue' has two ranges, 0 to 9 and 0 to 500; give it the same"):
        read_metrics(["revenue 0 9", "revenue/orders 0 500 0 20"])


@pytest.mark.parametrize(
    ("given", "guardrail", "spelt", "words"),
    [
        (
            "returned <= control + 0.01",
            Guardrail("returned", "<=", 0.01),
            "returned <= control + 0.01",
            "'returned' must be at most 0.01 above control's",
        ),
        (
            "returned≤control+1 point",
            Guardrail("returned", "<=", 0.01),
            "returned <= control + 1%",
            "'returned' must be at most 1 percentage point above control's",
        ),
        (
            "returned <= control + 2 %",
            Guardrail("returned", "<=", 0.02),
            "returned <= control + 2%",
            "'returned' must be at most 2 percentage points above control's",
        ),
        (
            "returned <= control",
            Guardrail("returned", "<=", 0),
            "returned <= control",
            "'returned' must not be above control's",
        ),
        (
            "time on page >= control - 2",
            Guardrail("time on page", ">=", 2),
            "time on page >= control - 2",
            "'time on page' must be at most 2 below control's",
        ),
        (
            "minutes >= control + 2",
            Guardrail("minutes", ">=", -2),
            "minutes >= control + 2",
            "'minutes' must be at least 2 above control's",
        ),
        (
            "returned <= control - 0.01",
            Guardrail("returned", "<=", -0.01),
            "returned <= control - 0.01",
            "'returned' must be at least 0.01 below control's",
        ),
        (
            "minutes >= control * 0.98",
            Guardrail("minutes", ">=", 0.02, relative=True),
            "minutes >= control * 0.98",
            "'minutes' must be at most 2 % below control's",
        ),
        (
            "revenue/orders >= 98% × control",
            Guardrail("revenue/orders", ">=", 0.02, relative=True),
            "revenue/orders >= control * 0.98",
            "'revenue/orders' must be at most 2 % below control's",
        ),
    ],
)
def test_guardrails_are_read_as_they_are_written(given: str, guardrail: Guardrail, spelt: str, words: str) -> None:
    read = read_guardrail(given)
    assert (read, read.spelt, read.words) == (guardrail, spelt, words)
    assert (read_guardrail(spelt), read_guardrail(spelt).words) == (guardrail, words)


@pytest.mark.parametrize(
    "given",
    [
        *("", "returned", "returned < control", "returned <= 0.3", "returned <= control + x", "<= control"),
        *("returned <= control * -1", "a <= b <= control", "returned <= control + -0.1", "returned <= controls"),
        *("returned <= control + 0,01", "returned <= control +", "returned <= control + nan", "returned == control"),
        *("returned <= control * inf", "returned <= control + 1/0"),
    ],
)
def test_what_is_no_guardrail_is_refused_with_the_form(given: str) -> None:
    with pytest.raises(InputError, match=r"cannot be read; write it as 'returned <= control \+ 0.01'"):
        read_guardrails([given])


def test_a_guardrail_fits_its_metric() -> None:
    metrics = read_metrics(METRICS)
    assert read_guardrail("minutes >= control - 2").check(metrics) == Metric("minutes", 0, 600)
    assert read_guardrail("revenue/orders >= control * 0.9").check(metrics).name == "revenue/orders"
    for given, words in (
        ("returnd <= control", "'returnd' is no metric of the log; did you mean 'returned'"),
        ("minutes >= control - 2%", "given in percent (2%), but values of 'minutes' lie between 0 and 600"),
        (
            "returned <= control + 1",
            "as large as the whole range of 'returned', 0 to 1, so that all values are allowed",
        ),
        ("returned <= control - 5", "so that no value is allowed; give a smaller one"),
        ("revenue/orders >= control - 1%", "is in percent, and the metric is a ratio; give it in its units"),
    ):
        with pytest.raises(InputError) as caught:
            read_guardrail(given).check(metrics)
        assert words in str(caught.value)


def test_a_share_of_control_is_of_a_metric_that_is_never_negative() -> None:
    """95 % of a mean of -10 is more than it: 'at least 5 % below control' would be kept above control."""
    for metric in ("profit -50 50", "profit/orders -50 50 0 9"):
        name = metric.split()[0]
        with pytest.raises(InputError, match=r"'profit' may be negative, -50 or more; give an amount, as in 'control"):
            read_guardrail(f"{name} <= control * 0.95").check(read_metrics([metric]))
        assert read_guardrail(f"{name} <= control - 0.5").check(read_metrics([metric])).name == name


def test_guarded_columns_become_metrics() -> None:
    rails = read_guardrails(["returned <= control", "orders >= control - 1", "a/b >= control", "minutes >= control"])
    assert [metric.spelt for metric in with_guarded(METRICS[1:], rails)] == [
        *("minutes 0 600", "revenue/orders 0 500 0 20", "returned", "orders 0 20", "a/b 0 1 0 1")
    ]


def test_rows_carry_their_metrics() -> None:
    log = example()
    assert log.metrics == read_metrics(METRICS)
    assert log.metric_values is not None
    with pytest.raises(ValueError, match="read-only"):
        log.metric_values[0] = 1
    for some, rows in (
        (log.take(np.array([2, 0])), [2, 0]),
        (log.only(np.array([True, False, False, True])), [0, 3]),
        (log.as_of(1), [0, 1]),
        (log.take(np.array([0, 1])).followed_by(log.take(np.array([2, 3]))), [0, 1, 2, 3]),
        (replace(log, remarks=("x",)), [0, 1, 2, 3]),
    ):
        assert some is not None
        assert some.metrics == log.metrics
        assert np.array_equal(some.metric_values, VALUES[rows])
    with pytest.raises(InputError, match="the two logs differ in their metrics"):
        log.followed_by(log.only_metrics(()))


def test_a_metric_can_be_the_reward() -> None:
    log = example(units=[3, 1, 2, 3])
    minutes = log.for_metric("minutes")
    assert (minutes.rewards.tolist(), minutes.reward_range) == ([0.5, 0.1, 1.0, 0.0], (0, 600))
    assert (minutes.metrics, minutes.metric_values) == ((), None)
    for name in ("actions", "propensities", "rounds", "repeats", "units"):
        assert np.array_equal(getattr(minutes, name), getattr(log, name))
    assert minutes.contexts is log.contexts


@pytest.mark.parametrize("c", [0.0, 12.5, 50.0, -3.0])
def test_a_ratio_is_tested_at_a_number(c: float) -> None:
    """The reward is numerator − c · denominator, in their own units, scaled to the range that it can have."""
    log = example().for_metric("revenue/orders", ratio=c)
    low, high = log.reward_range
    assert (low, high) == (min(-20 * c, 0), 500 + max(0, -20 * c))
    assert np.allclose(low + (high - low) * log.rewards, 500 * VALUES[:, 2] - c * 20 * VALUES[:, 3])
    assert log.rewards.min() >= 0
    assert log.rewards.max() <= 1


def test_metrics_that_there_are_not() -> None:
    for name, ratio, words in (
        ("minuets", None, "'minuets' is no metric of the log; did you mean 'minutes'"),
        ("revenue/orders", None, "is a ratio, which is tested at a number"),
        ("minutes", 1.0, "is a column and no ratio"),
    ):
        with pytest.raises(InputError) as caught:
            example().for_metric(name, ratio=ratio)
        assert words in str(caught.value)
    with pytest.raises(InputError, match="'returned' is no metric of the log; it has none"):
        example().only_metrics(()).for_metric("returned")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (None, "there are no values of metric 'returned'"),
        (VALUES[:, :3], r"metric_values must have shape"),
        (VALUES[:3], r"metric_values must have shape"),
        (np.where(VALUES == 0.05, np.nan, VALUES), "row 0 has no value of metric 'orders'; fill it in"),
        (VALUES * 2, "row 1 has the value 2 of metric 'returned'; scale values"),
    ],
)
def test_values_that_cannot_be_are_refused(values: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        example(metric_values=values)


def test_values_need_metrics() -> None:
    with pytest.raises(InputError, match="metric_values are given without metrics"):
        example(metrics=())


def test_a_metric_is_known_when_its_reward_is() -> None:
    """Values in rows whose reward is pending are not used, whatever they are; those of other rows must be there."""
    late: dict[str, Any] = {"rewards": [0, 1, 0.25, np.nan], "known": [1, 2, 2, -1]}
    missing = np.where(np.arange(4)[:, None] == 3, np.nan, VALUES)
    log, other = example(**late), example(**late, metric_values=missing)
    assert digest_log(log) == digest_log(other)
    assert np.array_equal(np.isnan(log.for_metric("minutes").rewards), log.awaited)
    then = log.as_of(1)
    assert then is not None
    assert then.metric_values is not None
    assert np.isnan(then.metric_values).all(axis=1).tolist() == [False, True]
    with pytest.raises(InputError, match="row 2 has no value of metric 'returned'"):
        example(**late, metric_values=np.where(np.arange(4)[:, None] == 2, np.nan, VALUES))


def test_digests_cover_metrics_and_no_others_change() -> None:
    log = example()
    bare = log.only_metrics(())
    assert bare.only_metrics(()) is bare
    assert digest_log(bare) == "35beacc07e2fe6a90c0607a2f3ac81d27a5d74c369d5f0aa31252b22b5ba1c03"  # as before metrics
    changed = [
        example(metric_values=np.where(VALUES == 0.05, 0.06, VALUES)),
        example(metrics=["returned", ("minutes", 0, 601), METRICS[2]]),
        example(metrics=["returns", *METRICS[1:]]),
        bare,
    ]
    assert len({digest_log(one) for one in (log, *changed)}) == 5


@pytest.mark.parametrize("late", [False, True])
def test_parquet_there_and_back(tmp_path: Path, late: bool) -> None:
    pending: dict[str, Any] = {"rewards": [0, 1, 0.25, np.nan], "known": [1, 2, 2, -1]} if late else {}
    log = example(**pending)
    log.write(tmp_path / "log.parquet")
    for again in (Log.read(tmp_path / "log.parquet"), read_log(tmp_path / "log.parquet")[0]):
        assert again.metrics == log.metrics
        assert again.contexts.names == ("age",)
        assert digest_log(again) == digest_log(log)


def test_a_file_that_lists_its_metrics_is_asked_for_these_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    example().write(path)
    assert read_log(path, metrics=["minutes"])[0].metrics == read_metrics(METRICS)
    with pytest.raises(InputError, match="lists its own metrics, and 'clicks' is none of them"):
        read_log(path, metrics=["clicks"])
    with pytest.raises(InputError, match="the file itself tells the range of metric 'minutes'; leave out metrics"):
        read_log(path, metrics=["minutes 0 9"])

"""Metrics read from tables, data frames and sets of files; what is wrong with one is said in a sentence."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pacbandits as pb
from logs.set_cases import same
from pacbandits.logs.data_set import open_set
from pacbandits.logs.readers import log_of
from pacbandits.logs.reading_options import ReadingOptions
from pacbandits.records.log import digest_log
from pacbandits.records.metrics import read_metrics

N = 50
SAID = {"action": "variant", "reward": "converted", "split": "uniform"}
METRICS = ["returned", "minutes 0 600", ("revenue/orders", 0, 500, 0, 20), "opened"]


def table(**changes):
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.integers(18, 90, N),
        "variant": rng.choice(["a", "b"], N),
        "converted": rng.integers(0, 2, N),
        "returned": rng.random(N) < 0.3,
        "minutes": rng.integers(0, 600, N),
        "revenue": [f"${x:.2f}" for x in 400 * rng.random(N)],
        "orders": rng.integers(0, 9, N),
        "opened": rng.choice(["yes", "no"], N),
        "day": rng.permutation(N),
    }
    return pa.table({**columns, **changes})


def csv(path, given):
    rows = [",".join(str(cell) for cell in row.values()) for row in given.to_pylist()]
    path.write_text("\n".join([",".join(given.column_names), *rows]) + "\n")
    return path


def test_metrics_are_no_features_and_lie_in_0_to_1():
    given = table()
    log = log_of(given, **SAID, metrics=METRICS)
    assert log.contexts.names == ("age", "day")
    assert log.metrics == read_metrics(METRICS)
    revenue = np.array([float(cell[1:]) for cell in given["revenue"].to_pylist()])
    expected = [
        given["returned"].to_numpy().astype(float),
        given["minutes"].to_numpy() / 600,
        revenue / 500,
        given["orders"].to_numpy() / 20,
        given["opened"].to_numpy() == "yes",
    ]
    assert np.array_equal(log.metric_values, np.column_stack(expected))
    assert "column 'opened' counts 'yes' as 1 and 'no' as 0" in log.remarks
    assert np.array_equal(log.rewards, given["converted"].to_numpy())


def test_a_name_that_would_be_left_out_is_a_metric_all_the_same():
    """`revenue` has the name of an outcome, and `reward` is not the reward here: both would be left out."""
    given = table(reward=np.arange(N) / N, revenue=np.arange(N))
    log = log_of(given, **SAID, metrics=["revenue 0 500", "reward"])
    assert np.array_equal(log.metric_values, np.column_stack([np.arange(N) / 500, np.arange(N) / N]))
    assert not any("'revenue'" in words or "'reward'" in words for words in log.remarks)


def test_metrics_are_sorted_with_their_rows_and_without_may_name_them():
    given = table()
    log = log_of(given, **SAID, time="day", without=["minutes"], metrics=["minutes 0 600"])
    order = np.argsort(given["day"].to_numpy())
    assert np.array_equal(log.metric_values[:, 0], given["minutes"].to_numpy()[order] / 600)
    assert "minutes" not in log.contexts.names


def test_metrics_stay_with_their_rows_in_counted_blocks():
    """Rows are then drawn in a random order, and some are left out."""
    given = table(age=np.arange(N), minutes=10 * np.arange(N), site=["x", "y"] * (N // 2))
    log = log_of(given, action="variant", reward="converted", block="site", metrics=["minutes 0 600"])
    age = log.contexts.features[:, log.contexts.names.index("age")]
    assert 0 < len(log) < N
    assert np.array_equal(log.metric_values[:, 0], 10 * age / 600)


@pytest.mark.parametrize(
    ("changes", "metrics", "words"),
    [
        ({}, ["returnd"], "there is no column 'returnd' for metric 'returnd'; did you mean 'returned'?"),
        ({}, ["revenue/order"], "there is no column 'order' for metric 'revenue/order'; did you mean 'orders'?"),
        ({}, ["revenue/orders 0 500"], "a ratio of two columns needs the range of each: metrics='revenue/orders 0"),
        ({"x/y": [1] * N}, ["x/y"], "for the column 'x/y', state its range: metrics='x/y 0 1'"),
        ({}, ["converted"], "column 'converted' is the reward, and cannot be a metric as well; leave it out"),
        ({}, ["variant"], "column 'variant' is the action"),
        ({"round": [1] * N}, ["round"], "column 'round' is one of the log's own, and cannot be a metric; rename it"),
        ({}, ["minutes"], "but this metric must lie in [0, 1]; values go from 15 to 575"),
        ({}, ["minutes 0 90"], "state the least and the largest that they can be, as in metrics='minutes 0 575'"),
        ({}, ["age/minutes 0 99 0 9"], "must lie in [0, 9]; values go from 15 to 575"),
        ({}, ["age/minutes 0 99 0 9"], "as in metrics='age/minutes 0 99 0 575'"),
        ({"opened": ["often", "never"] * 25}, ["opened"], "holds text such as 'never', but a metric must be a number"),
        ({"orders": [0] * N}, ["revenue/orders 0 500 0 20"], "divides by 'orders', which is 0 in all rows"),
        ({"orders": [*range(7), None, *range(42)]}, ["orders 0 50"], "column 'orders' has 1 missing value, in row 7"),
        ({"orders": [0.5, np.nan] * 25}, ["orders"], "column 'orders' must be finite, but row 1 (counted from 0)"),
        ({"orders": [0, 5] * 25}, ["orders"], "the orders of row 1 (counted from 0) is 5"),
    ],
)
def test_what_is_wrong_with_a_metric_is_said(changes, metrics, words):
    with pytest.raises(pb.InputError) as caught:
        log_of(table(**changes), **SAID, metrics=metrics)
    assert words in str(caught.value)


@pytest.mark.parametrize("use", ["features", "keep"])
def test_a_metric_cannot_be_a_feature(use):
    with pytest.raises(pb.InputError, match="column 'returned' is a metric, which comes after the action"):
        log_of(table(), **SAID, metrics=["returned"], **{use: ["age", "returned"]})


def test_lines_of_files_are_named(tmp_path):
    path = csv(tmp_path / "test.csv", table(orders=[1] * 10 + [7] + [1] * 39))
    with pytest.raises(pb.InputError, match="the orders of line 12 is 7, but this metric"):
        pb.read_log(path, **SAID, metrics=["orders"])


def test_other_formats_have_no_metrics(tmp_path):
    (tmp_path / "log.dsjson").write_text("{}\n")
    with pytest.raises(pb.InputError, match="fixed columns; leave out metrics"):
        pb.read_log(tmp_path / "log.dsjson", metrics=["returned"])


def test_options_are_recorded_and_read_again():
    options = ReadingOptions(metrics=METRICS)
    told = options.to_json()
    assert told == {
        "metrics": [
            *(["returned", 0.0, 1.0], ["minutes", 0.0, 600.0]),
            *(["revenue/orders", 0.0, 500.0, 0.0, 20.0], ["opened", 0.0, 1.0]),
        ]
    }
    assert ReadingOptions.from_json(told) == options == ReadingOptions(**told)
    assert ReadingOptions().to_json() == {}


@pytest.mark.parametrize("form", ["parquet", "csv", "written"])
def test_blocks_of_a_set_carry_metrics(tmp_path, form):
    given, paths, reading = table(), [], {**SAID, "metrics": METRICS}
    for k, start in enumerate((0, 20)):
        part = given.slice(start, 30 if k else 20)
        paths.append(tmp_path / f"part-{k}.{'csv' if form == 'csv' else 'parquet'}")
        if form == "csv":
            csv(paths[-1], part)
        elif form == "parquet":
            pq.write_table(part, paths[-1], row_group_size=7)
        else:
            log_of(part, **reading).write(paths[-1])
    log = log_of(given, **reading)
    found = open_set(paths, ReadingOptions(**({} if form == "written" else reading)), block_rows=9)
    assert found.metrics == log.metrics
    blocks = list(found.blocks(0, 6))
    assert np.array_equal(np.concatenate([block.metric_values for block in blocks]), log.metric_values)
    if form == "parquet":
        same(blocks[1], log.take(np.arange(9, 18)))
    bare = found.only_metrics(())
    assert bare.metrics == ()
    for block, other in zip(bare.blocks(0, 6), blocks, strict=True):
        assert block.metric_values is None
        assert digest_log(block) == digest_log(other.only_metrics(()))
    found.close()


@pytest.mark.parametrize(
    ("changes", "metrics", "words"),
    [
        ({}, ["returnd"], "there is no column 'returnd'"),
        ({}, ["minutes 0 90"], "(counted from 0)"),
        ({"orders": [0] * N}, ["minutes/orders 0 600 0 20"], "which is 0 in all rows"),
        (
            {"orders": pa.array([1] * 40 + [None] * 10)},
            ["orders 0 20"],
            "column 'orders' has 10 missing values, the first in row 40",
        ),
    ],
)
def test_a_set_is_refused_for_the_same(tmp_path, changes, metrics, words):
    pq.write_table(table(**changes), tmp_path / "a.parquet")
    with pytest.raises(pb.InputError) as caught:
        open_set([tmp_path / "a.parquet"], ReadingOptions(**SAID, metrics=metrics))
    assert words in str(caught.value)


def test_a_denominator_that_is_0_in_a_block_alone_is_none(tmp_path):
    pq.write_table(table(orders=[0] * 30 + [1] * 20), tmp_path / "a.parquet")
    found = open_set(
        [tmp_path / "a.parquet"], ReadingOptions(**SAID, metrics=["minutes/orders 0 600 0 9"]), block_rows=9
    )
    assert sum(len(block) for block in found.blocks(0, 6)) == N


def test_the_reward_may_be_a_column_of_a_ratio_and_no_metric_of_its_own(tmp_path):
    said = {"action": "variant", "reward": "orders", "reward_range": (0, 10), "split": "uniform"}
    given, ratio = table(), ("revenue/orders", 0, 500, 0, 20)
    log = log_of(given, **said, metrics=[ratio])
    orders = given["orders"].to_numpy()
    assert np.array_equal(log.rewards, orders / 10)
    assert np.array_equal(log.metric_values[:, 1], orders / 20)
    assert "orders" not in log.contexts.names
    read, _ = pb.read_log(csv(tmp_path / "log.csv", given), **said, metrics=[ratio])
    assert np.array_equal(read.metric_values, log.metric_values)
    with pytest.raises(pb.InputError, match="'orders' is the reward, and cannot be a metric"):
        log_of(given, **said, metrics=[ratio, "orders 0 20"])

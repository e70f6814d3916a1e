"""Logs: what cannot have happened is refused, and Parquet there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbandits.errors import InputError
from pacbandits.logs import read_log
from pacbandits.records import Contexts, Log
from pacbandits.records.log import digest_log
from pacbandits.records.log_metadata import WEIGHTS_REMARK

CONTEXTS = Contexts.of([[1.5, 0], [2.5, 1], [3.5, 0]], names=["age", "place"], categories=[None, ["b", "a"]])


def example(**changes: Any) -> Log:
    parts: dict[str, Any] = {
        "actions": [0, 1, 2],
        "rewards": [0.0, 1.0, 0.25],
        "propensities": [[1.0, 0.0, 0.0], [0.2, 0.3, 0.5], [0.1, 0.1, 0.8]],
        "rounds": [0, 0, 1],
    }
    return Log.of(changes.pop("contexts", CONTEXTS), **(parts | changes))


def test_holds_what_it_was_given() -> None:
    log = example()
    assert len(log) == 3
    assert log.n_actions == 3
    assert log.rounds.tolist() == [0, 0, 1]
    assert example(rounds=None).rounds.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        log.rewards[0] = 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": [0, 1]}, r"actions must have shape \(3,\), got \(2,\)"),
        ({"actions": [0, 1, 3]}, "actions must be between 0 and 2, got 3"),
        ({"actions": [0, 1, -1]}, "actions must be 0 or more, got -1"),
        ({"actions": [1, 1, 2]}, "row 0 played action 1, whose propensity is 0"),
        ({"rewards": [0, 1, np.nan]}, "rewards must be finite"),
        ({"rewards": [0, 1]}, "rewards must have shape"),
        (
            {"propensities": [[1.0, 0.0], [0.5, 0.5]]},
            r"propensities must have shape \(3, any\), got \(2, 2\)",
        ),
        ({"propensities": [[1.0, 0, 0], [0.2, 0.3, 0.4], [0, 0, 1]]}, "propensities of row 1 sum to 0.9"),
        (
            {"propensities": [[1.0, 0, 0], [0.2, 0.3, 0.5], [-0.5, 0.5, 1]]},
            "propensities must not be negative",
        ),
        ({"propensities": np.zeros((3, 0))}, "propensities have no columns"),
        ({"rounds": [0, 0, -1]}, "rounds must be 0 or more, got -1"),
    ],
)
def test_refuses_what_cannot_have_happened(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        example(**changes)


@pytest.mark.parametrize("contexts", [CONTEXTS, Contexts.finite(3), Contexts.of([[1.0], [2.0], [3.0]])])
def test_parquet_there_and_back(contexts: Contexts, tmp_path: Path) -> None:
    log = example(contexts=contexts)
    log.write(tmp_path / "log.parquet")
    again = Log.read(tmp_path / "log.parquet")
    assert np.array_equal(again.actions, log.actions)
    assert np.array_equal(again.rewards, log.rewards)
    assert np.array_equal(again.propensities, log.propensities)
    assert np.array_equal(again.rounds, log.rounds)
    assert np.array_equal(again.contexts.features, contexts.features)
    assert again.contexts.names == contexts.names
    assert again.contexts.categories == contexts.categories
    assert np.array_equal(again.contexts.ids, contexts.ids) if contexts.ids is not None else again.contexts.ids is None


TABLE = {
    "action": pa.array([0, 1]),
    "reward": pa.array([0.5, 1.0]),
    "propensities": pa.array([[0.5, 0.5], [0.25, 0.75]]),
    "age": pa.array([20, 30]),
}


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float64(), 2)])
def test_reads_every_kind_of_list(kind: pa.DataType, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(TABLE | {"propensities": TABLE["propensities"].cast(kind)}), path)
    log = Log.read(path)
    assert log.propensities.tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert log.rounds.tolist() == [0, 0]
    assert log.contexts.names == ("age",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"action": None}, r"column 'action' is missing \(there are: reward, propensities, age\)"),
        ({"reward": None}, "column 'reward' is missing"),
        ({"propensities": None}, "column 'propensities' is missing"),
        ({"action": pa.array([0.5, 1.0])}, "column 'action' must be integers"),
        ({"action": pa.array([0, None])}, "column 'action' has 1 missing value,"),
        ({"reward": pa.array(["a", "b"])}, "column 'reward' must be numbers"),
        (
            {"propensities": pa.array([0.5, 0.5])},
            "column 'propensities' must hold lists of numbers, got double",
        ),
        ({"propensities": pa.array([[1.0], [0.5, 0.5]])}, "lists of one length"),
        ({"propensities": pa.array([[1.0], [0.5, 0.25, 0.25]])}, "lists of one length"),
        ({"propensities": pa.array([[0.5, 0.5], None])}, "without nulls"),
        ({"propensities": pa.array([[0.5, 0.5], [None, 1.0]])}, "has 1 missing value,"),
        ({"propensities": pa.array([["a"], ["b"]])}, "column 'propensities' must be numbers"),
    ],
)
def test_each_bad_column_gets_one_line(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({name: column for name, column in (TABLE | changes).items() if column is not None}), path)
    with pytest.raises(InputError, match=message) as caught:
        Log.read(path)
    assert "\n" not in str(caught.value)


def test_a_feature_may_not_be_mistaken_for_a_column_of_the_log(tmp_path: Path) -> None:
    contexts = Contexts.of(np.zeros((3, 1)), names=["reward"])
    with pytest.raises(InputError, match="feature 'reward' has the name of a log column"):
        example(contexts=contexts).write(tmp_path / "log.parquet")


def test_rows_of_a_log_count_alike(tmp_path: Path) -> None:
    """Weights that differ are made equal, in memory and in files."""
    contexts = Contexts.of([[1.0], [2.0], [3.0]], weights=[0.5, 0.3, 0.2])
    log = example(contexts=contexts)
    assert log.contexts.weights.tolist() == [1 / 3] * 3
    log.write(tmp_path / "log.parquet")
    assert Log.read(tmp_path / "log.parquet").remarks == ()
    pq.write_table(pa.table(TABLE | {"context_weight": pa.array([0.25, 0.75])}), tmp_path / "log.parquet")
    again = Log.read(tmp_path / "log.parquet")
    assert again.contexts.weights.tolist() == [0.5, 0.5]
    assert again.remarks == (WEIGHTS_REMARK,)


def test_repeats_count_interactions(tmp_path: Path) -> None:
    log = example(repeats=[1, 10**12, 3])
    assert len(log) == 3
    assert log.samples == 10**12 + 4
    assert example().repeats.tolist() == [1, 1, 1]
    assert example().samples == 3
    log.write(tmp_path / "log.parquet")
    again = Log.read(tmp_path / "log.parquet")
    assert again.repeats.tolist() == [1, 10**12, 3]
    assert again.samples == log.samples


def test_a_file_without_repeats_has_one_of_each(tmp_path: Path) -> None:
    pq.write_table(pa.table(TABLE), tmp_path / "log.parquet")
    assert Log.read(tmp_path / "log.parquet").repeats.tolist() == [1, 1]
    pq.write_table(pa.table(TABLE | {"repeats": pa.array([2, 5])}), tmp_path / "log.parquet")
    log = Log.read(tmp_path / "log.parquet")
    assert log.repeats.tolist() == [2, 5]
    assert log.contexts.names == ("age",)  # and is no feature


@pytest.mark.parametrize(
    ("repeats", "message"),
    [
        ([1, 0, 1], "repeats must be 1 or more, got 0"),
        ([1, -1, 1], "repeats must be 0 or more, got -1"),
        ([1, 1.5, 1], "repeats must be integers"),
        ([1, 1], r"repeats must have shape \(3,\)"),
        ([2**62, 2**62, 2**62], r"repeats sum to 1.38351e\+19; fewer than 2\^63"),
    ],
)
def test_refuses_repeats_that_are_no_counts(repeats: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        example(repeats=repeats)


def test_units_there_and_back(tmp_path: Path) -> None:
    log = example(units=[7, 3, 7], rounds=None)
    assert log.weights.tolist() == [0.5, 1.0, 0.5]
    assert (log.samples, log.n_units, log.round_sizes.tolist()) == (3, 2, [2.0])
    assert log.take(np.array([0, 1])).weights.tolist() == [1.0, 1.0]
    log.write(tmp_path / "log.parquet")
    again = Log.read(tmp_path / "log.parquet")
    assert again.units is not None
    assert again.units.tolist() == [0, 1, 0]
    assert again.contexts.names == ("age", "place")
    assert digest_log(again) == digest_log(log) != digest_log(example(rounds=None))
    assert digest_log(example(units=[4, 5, 6])) == digest_log(example())
    assert read_log(tmp_path / "log.parquet")[0].weights.tolist() == [0.5, 1.0, 0.5]
    clash = Contexts.of([[1.0], [2.0], [3.0]], names=["unit"])
    with pytest.raises(InputError, match="feature 'unit' has the name of a log column"):
        example(contexts=clash, units=[0, 0, 1]).write(tmp_path / "clash.parquet")
    example(contexts=clash).write(tmp_path / "feature.parquet")
    assert Log.read(tmp_path / "feature.parquet").contexts.names == ("unit",)
    assert read_log(tmp_path / "feature.parquet")[0].units is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"units": [0, 1]}, r"units must have shape \(3,\), got \(2,\)"),
        ({"units": [0, -1, 1]}, "units must be 0 or more, got -1"),
        ({"units": [0, 1, 1], "repeats": [1, 4, 1]}, "row 1 counts 4 interactions"),
    ],
)
def test_units_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        example(**changes)

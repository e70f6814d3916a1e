"""Contexts: what is refused at the door, and Parquet there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbandits.errors import InputError
from pacbandits.records import Contexts


def example(**changes: Any) -> Contexts:
    options: dict[str, Any] = {
        "names": ["age", "region"],
        "categories": [None, ["south", "north", "west"]],
        "ids": [4, 0, 4],
        "weights": [0.5, 0.25, 0.25],
    }
    return Contexts.of([[31.5, 1], [60.0, 0], [31.5, 1]], **(options | changes))


def same(first: Contexts, second: Contexts) -> bool:
    return (
        np.array_equal(first.features, second.features)
        and first.names == second.names
        and first.categories == second.categories
        and (first.ids is None) == (second.ids is None)
        and (first.ids is None or np.array_equal(first.ids, second.ids))
        and np.allclose(first.weights, second.weights, rtol=1e-15, atol=0)
    )


def test_defaults() -> None:
    contexts = Contexts.of(np.zeros((4, 2)))
    assert contexts.names == ("x0", "x1")
    assert contexts.categories == (None, None)
    assert contexts.ids is None
    assert contexts.weights.tolist() == [0.25] * 4
    assert len(contexts) == 4
    assert contexts.n_features == 2
    assert Contexts.finite(3).ids.tolist() == [0, 1, 2]


def test_is_frozen_and_copies() -> None:
    features = np.ones((2, 1))
    contexts = Contexts.of(features)
    features[0, 0] = 7
    assert contexts.features[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        contexts.features[0, 0] = 7
    with pytest.raises(AttributeError):
        contexts.weights = np.ones(2)


def test_take_draws_rows_with_repetition() -> None:
    taken = example().take([1, 1, 0])
    assert taken.features[:, 0].tolist() == [60.0, 60.0, 31.5]
    assert taken.ids.tolist() == [0, 0, 4]
    assert np.allclose(taken.weights, 1 / 3)
    assert taken.categories == example().categories


def test_ids_are_required_where_they_are() -> None:
    assert example().require_ids(below=5).tolist() == [4, 0, 4]
    with pytest.raises(InputError, match=r"context id 4 is unknown: .* ids 0 to 3"):
        example().require_ids(below=4)
    with pytest.raises(InputError, match="carry no ids"):
        example(ids=None).require_ids(below=9)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Contexts.of(np.zeros(3)), r"features must have shape \(any, any\), got \(3,\)"),
        (lambda: Contexts.of([[1.0], [2.0, 3.0]]), "rows of one length"),
        (lambda: Contexts.of([["a"]]), "features must be numbers"),
        (lambda: Contexts.of([[np.nan, np.inf]]), r"features must be finite, but entry \(0, 1\) is inf"),
        (lambda: Contexts.of(np.zeros((0, 2))), "no contexts"),
        (lambda: Contexts.finite(0), "the number of contexts, must be 1 or more, got 0"),
        (lambda: example(names=["age"]), "2 features need 2 distinct names"),
        (lambda: example(names=["age", "age"]), "2 features need 2 distinct names"),
        (lambda: example(categories=[None]), "2 entries in categories, got 1"),
        (
            lambda: example(categories=[None, ["south"]]),
            "codes of feature 'region' must be between 0 and 0, got 1",
        ),
        (lambda: example(categories=[["a", "b"], None]), "codes of feature 'age' must be integers"),
        (lambda: example(categories=[None, ["a", "a"]]), "labels of feature 'region' must differ"),
        (lambda: example(weights=[0.5, 0.5]), r"context_weights must have shape \(3,\), got \(2,\)"),
        (lambda: example(weights=[1.0, 1.0, -1.0]), "must not be negative, but entry 2 is -1"),
        (lambda: example(weights=[1.0, 1.0, 1.0]), "must sum to 1, but sums to 3"),
        (lambda: example(weights=["a", "b", "c"]), "context_weights must be numbers"),
        (lambda: example(ids=[0, 1]), r"context ids must have shape \(3,\)"),
        (lambda: example(ids=[0, -1, 2]), "context ids must be 0 or more, got -1"),
        (lambda: example(ids=[0, 1.5, 2]), r"context ids must be integers, but entry \(1,\) is 1.5"),
        (lambda: example().take([3]), "rows must be between 0 and 2, got 3"),
        (lambda: example().take([]), "no contexts"),
    ],
)
def test_refuses_what_does_not_fit(build: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build()


@pytest.mark.parametrize(
    "contexts",
    [
        example(),
        example(ids=None),
        example(weights=None),
        Contexts.finite(4, weights=[0.1, 0.2, 0.3, 0.4]),
        Contexts.of(np.random.default_rng(0).normal(size=(100, 3))),
        Contexts.of([[0.0]], categories=[["only"]], names=["a column, with a “strange” name"]),
    ],
)
def test_parquet_there_and_back(contexts: Contexts, tmp_path: Path) -> None:
    path = tmp_path / "contexts.parquet"
    contexts.write(path)
    assert same(Contexts.read(path), contexts)


def test_labels_that_do_not_occur_survive_parquet_with_many_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "contexts.parquet"
    codes = np.repeat([3.0, 1.0], 600_000)[:, None]
    contexts = Contexts.of(codes, names=["letter"], categories=[["z", "y", "x", "w"]])
    contexts.write(path)
    assert pq.ParquetFile(path).num_row_groups > 1
    assert same(Contexts.read(path), contexts)


def test_every_kind_of_column_becomes_a_feature(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    columns = {
        "number": pa.array([1, 2, 3], type=pa.int16()),
        "single": pa.array([0.5, 1.5, 2.5], type=pa.float32()),
        "flag": pa.array([True, False, True]),
        "text": pa.array(["pear", "apple", "pear"]),
        "large": pa.array(["b", "a", "c"], type=pa.large_string()),
        "category": pa.DictionaryArray.from_arrays(pa.array([2, 0, 2], type=pa.int8()), pa.array(["lo", "mid", "hi"])),
        "context_id": pa.array([5, 6, 5], type=pa.uint8()),
    }
    pq.write_table(pa.table(columns), path)
    contexts = Contexts.read(path)
    assert contexts.names == ("number", "single", "flag", "text", "large", "category")
    assert contexts.features.T.tolist() == [
        [1, 2, 3],
        [0.5, 1.5, 2.5],
        [1, 0, 1],
        [1, 0, 1],
        [1, 0, 2],
        [2, 0, 2],
    ]
    assert contexts.categories == (None, None, None, ("apple", "pear"), ("a", "b", "c"), ("lo", "mid", "hi"))
    assert contexts.ids.tolist() == [5, 6, 5]
    assert np.allclose(contexts.weights, 1 / 3)


def test_dictionaries_that_differ_between_row_groups_are_one(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    chunks = [pa.array(["q", "r"]).dictionary_encode(), pa.array(["s", "q"]).dictionary_encode()]
    pq.write_table(pa.table({"letter": pa.chunked_array(chunks)}), path, row_group_size=2)
    contexts = Contexts.read(path)
    labels = contexts.categories[0]
    assert labels is not None
    assert [labels[int(code)] for code in contexts.features[:, 0]] == ["q", "r", "s", "q"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": pa.array([1.0, float("inf")])}, r"column 'x' must be finite, but row 1 \(counted from 0\) holds inf"),
        ({"x": pa.array([0, 1], type=pa.duration("s"))}, "column 'x' must be numbers or text, got duration"),
        ({"context_id": pa.array([0, 1], type=pa.date32())}, "column 'context_id' must be numbers, got date32"),
        ({"x": pa.array([[1], [2]])}, "column 'x' must be numbers or text, got list"),
        ({"context_id": pa.array([0.5, 1.0])}, "column 'context_id' must be integers"),
        ({"context_id": pa.array([1, None])}, "column 'context_id' has 1 missing value,"),
        ({"context_weight": pa.array([0.5, 0.6])}, "must sum to 1, but sums to 1.1"),
        ({"context_weight": pa.array(["a", "b"])}, "column 'context_weight' must be numbers"),
        ({"x": pa.array([], type=pa.float64())}, "has no rows"),
        ({}, "has no rows"),
    ],
)
def test_each_bad_column_gets_one_line(columns: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(InputError, match=message) as caught:
        Contexts.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"a,b\n1,2\n" * 50])
def test_what_is_no_parquet_file_gets_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"is not a readable Parquet file|is empty: a file of 0 bytes") as caught:
        Contexts.read(path)
    assert "\n" not in str(caught.value)


def test_a_truncated_file_gets_one_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    example().write(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="is not a readable Parquet file"):
        Contexts.read(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file at .*gone"):
        Contexts.read(tmp_path / "gone.parquet")
    with pytest.raises(InputError, match="no file at"):
        Contexts.read(tmp_path)
    with pytest.raises(InputError, match="cannot write"):
        example().write(tmp_path / "nowhere" / "a.parquet")


@pytest.mark.parametrize("name", ["context_id", "context_weight"])
def test_a_feature_may_not_be_mistaken_for_a_column_of_its_own(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"feature '{name}' has the name of a column"):
        example(names=["age", name]).write(tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_only_keeps_rows_with_their_weights() -> None:
    contexts = Contexts.of([[1.0], [2.0], [3.0]], ids=[7, 8, 9], weights=[0.25, 0.0, 0.75])
    kept = contexts.only(contexts.weights > 0)
    assert kept.features[:, 0].tolist() == [1.0, 3.0]
    assert kept.ids.tolist() == [7, 9]
    assert kept.weights.tolist() == [0.25, 0.75]
    assert contexts.only(np.ones(3, dtype=bool)) is contexts
    assert Contexts.of([[1.0], [2.0]], weights=[1.0, 0.0]).only(np.array([True, False])).ids is None
    with pytest.raises(InputError, match="must sum to 1"):  # what is left out may not weigh anything
        contexts.only(np.array([True, True, False]))


def test_labels_that_are_not_seen_are_dropped() -> None:
    """Contexts cut out of two tables that differ only elsewhere are the same, and their rows keep their labels."""
    labels = ("pear", "apple", "fig", "plum")
    table = Contexts.of([[0, 3], [1, 0], [2, 5], [0, 1]], names=["fruit", "x"], categories=[labels, None], ids=range(4))
    other = Contexts.of([[2, 3], [1, 0], [0, 7]], names=["fruit", "x"], categories=[("nut", "apple", "pear"), None])
    cut = table.take([0, 1, 3]).with_labels_seen()
    assert cut.categories == (("apple", "pear"), None)
    assert cut.features.tolist() == [[1, 3], [0, 0], [1, 1]]
    assert cut.ids.tolist() == [0, 1, 3]
    elsewhere = other.take([0, 1]).with_labels_seen()
    assert elsewhere.categories == cut.take([0, 1]).with_labels_seen().categories
    assert np.array_equal(elsewhere.features, cut.features[:2])
    weighted = Contexts.of([[1], [1]], categories=[("a", "b")], weights=[0.25, 0.75], phi=np.ones((2, 3, 1)))
    assert weighted.with_labels_seen().weights.tolist() == [0.25, 0.75]
    assert weighted.with_labels_seen().phi is weighted.phi


def test_tallied_counts_each_id_once() -> None:
    contexts = Contexts.of([[5.0], [6.0], [5.0], [5.0]], ids=[3, 1, 3, 3])
    tally = contexts.tallied()
    assert tally.ids.tolist() == [1, 3]
    assert tally.features[:, 0].tolist() == [6.0, 5.0]
    assert tally.weights.tolist() == [0.25, 0.75]
    assert tally.tallied() is tally
    without = Contexts.of([[5.0], [5.0]])
    assert without.tallied() is without


def test_tallied_is_the_same_distribution() -> None:
    rng = np.random.default_rng(2)
    weights = rng.dirichlet(np.ones(30))
    ids = rng.integers(6, size=30)
    tally = Contexts.of(ids[:, None].astype(float), ids=ids, weights=weights).tallied()
    worth = rng.random(6)
    assert tally.weights @ worth[tally.ids] == pytest.approx(weights @ worth[ids])


def test_distinct_finds_each_context_once() -> None:
    by_id = Contexts.of([[5.0], [6.0], [5.0], [5.0]], ids=[3, 1, 3, 2])
    first, which = by_id.distinct()
    assert first.tolist() == [1, 3, 0]
    assert which.tolist() == [2, 0, 2, 1]
    by_features = Contexts.of([[5.0, 1.0], [6.0, 0.0], [5.0, 1.0], [5.0, 2.0]])
    first, which = by_features.distinct()
    assert first.tolist() == [0, 3, 1]
    assert which.tolist() == [0, 2, 0, 1]


def test_joined_adds_strangers_with_weight_0() -> None:
    known = Contexts.of([[20.0], [10.0]], ids=[2, 1], weights=[0.4, 0.6])
    other = Contexts.of([[10.0], [50.0], [40.0], [50.0], [20.0]], ids=[1, 5, 4, 5, 2])
    both, where = known.joined(other)
    assert both.ids.tolist() == [2, 1, 4, 5]
    assert both.weights.tolist() == pytest.approx([0.4, 0.6, 0.0, 0.0])
    assert np.array_equal(both.ids[where], other.ids)
    assert np.array_equal(both.features[where], other.features)
    same_again, where = known.joined(other.take([0, 4, 0]))
    assert same_again is known
    assert where.tolist() == [1, 0, 1]


def test_joined_without_ids_adds_every_row() -> None:
    known = Contexts.of([[1.0], [2.0]], weights=[0.5, 0.5])
    both, where = known.joined(Contexts.of([[1.0], [3.0]]))
    assert both.features[:, 0].tolist() == [1.0, 2.0, 1.0, 3.0]
    assert both.weights.tolist() == [0.5, 0.5, 0.0, 0.0]
    assert both.ids is None
    assert where.tolist() == [2, 3]


def test_joined_refuses_other_features() -> None:
    with pytest.raises(InputError, match=r"features \['y'\] cannot join those with \['x0'\]"):
        Contexts.of([[1.0]]).joined(Contexts.of([[1.0]], names=["y"]))


def test_other_rows_of_the_same_columns() -> None:
    checked = example(weights=None)
    made = checked.with_rows(checked.features, checked.ids)
    assert same(made, checked)
    assert made.phi is None

"""Values that are missing: allowed in contexts, told apart from all others, and the same again from a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbandits import Certificate, Linear, Trees, read_log, verify
from pacbandits.certificate.certify import certify
from pacbandits.certificate.check import cut_in_halves
from pacbandits.certificate.ledger import Ledger
from pacbandits.errors import InputError
from pacbandits.policies.features import map_for
from pacbandits.policies.learners.reductions import OneHot, encoded
from pacbandits.records import Contexts, Log
from pacbandits.records.columns import missing_label
from pacbandits.records.log import digest_contexts, digest_log

NAN = float("nan")


def strange_nan() -> np.ndarray:
    """NaN with its sign set, and a payload."""
    return np.array([0xFFF8000000000123], dtype=np.uint64).view(np.float64)


def test_one_pattern_of_bits(tmp_path: Path) -> None:
    odd = np.array([[1.0], strange_nan()])
    odd.setflags(write=False)
    plain = Contexts.of([[1.0], [None]])
    for given in (odd, odd.copy(), [[1.0], [NAN]], [[1.0], [-np.float64(NAN)]]):
        contexts = Contexts.of(given)
        assert contexts.features.tobytes() == plain.features.tobytes()
        assert digest_contexts(contexts) == digest_contexts(plain)
        straight = Contexts(np.array(given, dtype=float), ("x0",), (None,), None, np.full(2, 0.5))
        assert digest_contexts(straight) == digest_contexts(plain)
    plain.write(tmp_path / "c.parquet")
    assert digest_contexts(Contexts.read(tmp_path / "c.parquet")) == digest_contexts(plain)


def test_columns_with_holes(tmp_path: Path) -> None:
    path = tmp_path / "holes.parquet"
    columns = {
        "whole": pa.array([1, None, 3]),
        "real": pa.array([0.5, NAN, None]),
        "flag": pa.array([True, None, False]),
        "none": pa.nulls(3),
        "text": pa.array(["b", None, "a"]),
        "coded": pa.array(["b", None, "a"]).dictionary_encode(),
        "taken": pa.array(["missing", None, "(missing)"]),
        "odd": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["x", None, "y"])),
    }
    pq.write_table(pa.table({name: column for name, column in columns.items() if name != "odd"}), path)
    contexts = Contexts.read(path)
    assert contexts.categories[:4] == (None,) * 4
    assert contexts.categories[4:6] == (("a", "b", "missing"), ("b", "a", "missing"))
    assert contexts.categories[6] == ("(missing)", "missing", "((missing))")
    np.testing.assert_array_equal(contexts.features[:, :4], [[1, 0.5, 1, NAN], [NAN] * 4, [3, NAN, 0, NAN]])

    def words(c: Contexts, name: str) -> list[str]:
        j = c.names.index(name)
        return [(c.categories[j] or ())[int(code)] for code in c.features[:, j]]

    assert words(contexts, "text") == words(contexts, "coded") == ["b", "missing", "a"]
    assert words(contexts, "taken") == ["missing", "((missing))", "(missing)"]
    odd = Contexts.from_columns({"odd": columns["odd"]}, n=3)
    assert (words(odd, "odd"), odd.categories) == (["x", "missing", "y"], (("x", "y", "missing"),))
    contexts.write(tmp_path / "again.parquet")
    assert digest_contexts(Contexts.read(tmp_path / "again.parquet")) == digest_contexts(contexts)


def test_codes_that_are_missing_are_a_label() -> None:
    contexts = Contexts.of([[0.0, 1.0], [NAN, NAN]], categories=[("a", "b"), None])
    assert contexts.categories == (("a", "b", "missing"), None)
    np.testing.assert_array_equal(contexts.features, [[0, 1], [2, NAN]])
    assert missing_label(["missing", "(missing)"]) == "((missing))"
    with pytest.raises(InputError, match="codes of feature 'x' must be integers, but entry"):
        Contexts(np.array([[NAN]]), ("x",), (("a",),), None, np.ones(1))


def test_which_contexts_are_the_same() -> None:
    contexts = Contexts.of([[NAN, 0.0], [0.0, NAN], [NAN, 0.0], [0.0, 0.0]])
    first, which = contexts.distinct()
    assert len(first) == 3
    assert which[0] == which[2]
    named = Contexts.of([[NAN], [1.0], [NAN]], ids=[0, 1, 0])
    log = Log.of(named, actions=[0, 1, 0], rewards=[1, 0, 1], propensities=np.full((3, 2), 0.5))
    Ledger.of(log, np.full((3, 2), 0.5))
    other = Contexts.of([[NAN], [1.0], [2.0]], ids=[0, 1, 0])
    log = Log.of(other, actions=[0, 1, 0], rewards=[1, 0, 1], propensities=np.full((3, 2), 0.5))
    with pytest.raises(InputError, match="different features"):
        Ledger.of(log, np.full((3, 2), 0.5))


def test_halves() -> None:
    column = np.array([[1.0], [2.0], [3.0], [NAN], [NAN], [5.0], [NAN]])
    halves = cut_in_halves(Contexts.of(column, names=["age"]), np.arange(3))
    assert (halves.names, halves.others) == (("'age' is above 2",), ("'age' is 2 or below, or missing",))
    assert halves.inside.ravel().tolist() == [0, 0, 1, 0, 0, 1, 0]
    halves = cut_in_halves(Contexts.of(column, names=["age"]), np.arange(5))
    assert (halves.names, halves.others) == (("'age' is missing",), ("'age' is not missing",))
    assert halves.inside.ravel().tolist() == [0, 0, 0, 1, 1, 0, 1]
    nothing = cut_in_halves(Contexts.of([[NAN], [NAN]], names=["age"]), np.arange(2))
    assert nothing.inside.all()
    assert nothing.names == ("'age' is missing",)


def test_what_cannot_do_without_says_so() -> None:
    patchy = Contexts.of([[1.0, 2.0], [3.0, NAN]], names=["dose", "age"])
    whole = Contexts.of([[1.0, 2.0], [3.0, 4.0]], names=["dose", "age"])
    words = (
        "feature 'age' of row 1 is missing, and {} cannot do without it; fill it, leave the feature out, or use trees"
    )
    scores = np.eye(2)
    for make in (
        lambda: Linear.learn(patchy, n_actions=2),
        lambda: Linear.learn(whole, n_actions=2).argmax(patchy, scores),
        lambda: Linear.learn(whole, n_actions=2).argmax(whole, scores)(patchy),
        lambda: map_for(patchy, n_actions=2, relative=False),
    ):
        with pytest.raises(InputError) as caught:
            make()
        assert str(caught.value) == words.format("a linear model")
    with pytest.raises(InputError) as caught:
        encoded(OneHot.learn(whole), patchy)
    assert str(caught.value) == words.format("an estimator")


@pytest.mark.thorough
def test_from_a_csv_to_a_checked_certificate(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = ["age,place,action,reward,propensity"]
    for _ in range(3000):
        age = "" if rng.random() < 0.3 else str(rng.integers(20, 60))
        place = rng.choice(["north", "south", ""])
        action = int(rng.integers(2))
        right = int(age == "" or int(age) <= 40)
        rows.append(f"{age},{place},{action},{int(rng.random() < (0.9 if action == right else 0.1))},0.5")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    log, _ = read_log(path)
    assert log.contexts.categories == (None, ("north", "south", "missing"))
    log.write(tmp_path / "log.parquet")
    again, _ = read_log(tmp_path / "log.parquet")
    assert digest_log(again) == digest_log(log)
    policies = Trees.learn(log.contexts, n_actions=2, depth=1, bins=8)
    made = certify(log, policies, epsilon=0.2, delta=0.05)
    assert made.certified
    assert made.policy.describe() == "if age is missing or ≤ 39.5: action 1\nelse: action 0"
    stored = Certificate.from_json(json.loads(json.dumps(made.to_json(), allow_nan=False)))
    assert stored.policy == made.policy
    assert verify(stored, again, policies).good
    filled = Contexts.of(
        np.nan_to_num(log.contexts.features), names=log.contexts.names, categories=log.contexts.categories
    )
    assert not verify(stored, replace(log, contexts=filled), policies).good

"""What is missing is decided the same way by the policy, by SQL and by Python."""

from __future__ import annotations

import sqlite3

import numpy as np

import pacbandits as pb
from pacbandits.policies.trees.tree_policy import AtMost, Is, IsMissing, TreePolicy, TreeSplit

TREE = TreePolicy(
    TreeSplit(
        IsMissing("age"),
        TreeSplit(Is("place", "missing"), 3, 1),
        TreeSplit(AtMost("basket", 0.5, missing=True), 0, TreeSplit(AtMost("age", 30.0, missing=False), 2, 1)),
    ),
    n_actions=4,
)


def test_missing_values_are_decided_alike_everywhere():
    rng = np.random.default_rng(0)
    rows = [
        (age, basket, place)
        for age in (None, 30.0, 31.0, *rng.normal(30, 5, 20))
        for basket in (None, 0.5, 0.6)
        for place in (None, "a", "b")
    ]
    numbers = [[np.nan if value is None else value for value in row[:2]] for row in rows]
    codes = [{None: np.nan, "a": 0.0, "b": 1.0}[row[2]] for row in rows]
    contexts = pb.Contexts.of(
        np.column_stack([numbers, codes]), names=["age", "basket", "place"], categories=[None, None, ("a", "b")]
    )
    own = TREE(contexts).tolist()
    assert set(own) == {0, 1, 2, 3}
    names: dict[str, object] = {}
    exec(pb.to_python(TREE), names)
    assert [names["choose"](dict(zip(contexts.names, row, strict=True))) for row in rows] == own
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE people (age REAL, basket REAL, place TEXT)")
        database.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
        found = database.execute(f"SELECT {pb.to_sql(TREE)} FROM people ORDER BY rowid").fetchall()
    database.close()
    assert [action for (action,) in found] == own
    assert pb.to_rules(TREE)["rules"][0]["if"][0] == {"feature": "age", "is_missing": True}

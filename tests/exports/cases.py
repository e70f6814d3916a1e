"""Policies and contexts with hostile names and values, and three who follow an export: SQLite, Python, rules."""

from __future__ import annotations

import json
import sqlite3

import numpy as np

import pacbandits as pb
from pacbandits.policies import LinearPolicy, TablePolicy, TreePolicy
from pacbandits.policies.trees.tree_policy import AtMost, Is, TreeSplit

# Names that differ by more than case, as columns of a table must.
NUMBERS = ("age", 'a "b" c', "x'; DROP TABLE people; --", "größe\u202e\n\ttab", "select")
CATEGORIES = ("device", 'la"be\\l')
LABELS = (
    "phone",
    "it's",
    '"); DROP TABLE people; --',
    "a\\",
    "\\' OR 1=1",
    "new\nline\r",
    "{x}",
    "日本",
    "",
    "%s",
    "Phone",
)
ACTIONS = ("plain", "it's 5 % \\ off", 'x"); DROP', "zwei\nZeilen", "割引")
N_ACTIONS = len(ACTIONS)


def grow(rng, depth):
    """A random tree, not always full."""
    if depth == 0 or rng.random() < 0.1:
        return int(rng.integers(N_ACTIONS))
    if rng.random() < 0.3:
        test = Is(str(rng.choice(CATEGORIES)), LABELS[rng.integers(len(LABELS))])
    else:
        test = AtMost(NUMBERS[rng.integers(len(NUMBERS))], float(rng.normal() * 10.0 ** rng.integers(-12, 13)))
    return TreeSplit(test, grow(rng, depth - 1), grow(rng, depth - 1))


def tree(seed, *, depth=3):
    return TreePolicy(grow(np.random.default_rng(seed), depth), N_ACTIONS)


def cuts(node):
    """The thresholds of a tree."""
    if isinstance(node, int):
        return []
    own = [node.test.threshold] if isinstance(node.test, AtMost) else []
    return own + cuts(node.then) + cuts(node.otherwise)


def contexts_for(thresholds, *, n, seed):
    """Contexts at thresholds, at the doubles beside them, and elsewhere."""
    rng = np.random.default_rng(seed)
    marks = np.array([*thresholds, 0.0, -0.0, 1e300, 5e-324])
    near = np.concatenate([marks, np.nextafter(marks, np.inf), np.nextafter(marks, -np.inf)])
    far = rng.normal(size=(n, len(NUMBERS))) * 10.0 ** rng.integers(-12, 13, size=(n, len(NUMBERS)))
    numbers = np.where(rng.random((n, len(NUMBERS))) < 0.6, rng.choice(near, size=(n, len(NUMBERS))), far)
    codes = rng.integers(len(LABELS), size=(n, len(CATEGORIES)))
    return pb.Contexts.of(
        np.column_stack([numbers, codes]),
        names=[*NUMBERS, *CATEGORIES],
        categories=[None] * len(NUMBERS) + [LABELS] * len(CATEGORIES),
        ids=rng.integers(7, size=n),
    )


def linear(seed, *, shared=False):
    """A linear policy over all features, with whole coefficients so small that scores tie."""
    rng = np.random.default_rng(seed)
    calm = calm_contexts(n=200, seed=seed)
    features = rng.choice([-1.5, 0.1, 0.3, 1.0, 0.0], size=(N_ACTIONS, 2))
    if shared:
        features[1] = features[0]  # these two tie always
        made = pb.Crossed.shared(calm, features)
    else:
        made = pb.Crossed.blocks(calm, n_actions=N_ACTIONS, relative=True)
    return LinearPolicy(made, tuple(rng.integers(-2, 3, size=made.dimension).tolist()))


def calm_contexts(*, n, seed):
    """Contexts of few values, so that many scores tie."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-2, 3, size=(n, len(NUMBERS))) * 0.1
    codes = rng.integers(len(LABELS), size=(n, len(CATEGORIES)))
    names, kinds = [*NUMBERS, *CATEGORIES], [None] * len(NUMBERS) + [LABELS] * len(CATEGORIES)
    return pb.Contexts.of(np.column_stack([numbers, codes]), names=names, categories=kinds)


def table(seed):
    return TablePolicy(np.random.default_rng(seed).integers(N_ACTIONS, size=7), N_ACTIONS)


def mixture(seed):
    weights = np.random.default_rng(seed).dirichlet([1.0] * 4)
    parts = (tree(seed), table(seed), linear(seed), TreePolicy(2, N_ACTIONS))
    return pb.Mixture(parts, tuple(weights / weights.sum()))


def rows_of(contexts):
    """The contexts as rows of Python's own values."""
    columns = {}
    for j, (name, labels) in enumerate(zip(contexts.names, contexts.categories, strict=True)):
        own = contexts.features[:, j]
        columns[name] = own.tolist() if labels is None else [labels[int(code)] for code in own]
    if contexts.ids is not None:
        columns["context_id"] = contexts.ids.tolist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def by_sqlite(expression, rows, draws=None):
    """What an SQL expression gives for rows."""
    names = list(rows[0])
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in [*names, "my draw"])
    given = draws if draws is not None else [None] * len(rows)
    with sqlite3.connect(":memory:") as base:
        base.execute(f"CREATE TABLE people ({quoted})")
        places = ", ".join("?" * (len(names) + 1))
        values = ((*row.values(), draw) for row, draw in zip(rows, given, strict=True))
        base.executemany(f"INSERT INTO people VALUES ({places})", values)
        found = [one for (one,) in base.execute(f"SELECT {expression} FROM people ORDER BY rowid")]
        assert base.execute("SELECT COUNT(*) FROM people").fetchone() == (len(rows),)
    base.close()
    return found


def by_python(source, rows, draws=None, *, name="choose"):
    """What the function of a source gives for rows, with nothing but Python's own names."""
    space = {}
    exec(compile(source, "exported", "exec", dont_inherit=True), space)
    assert set(space) == {"__builtins__", name}
    if draws is None:
        return [space[name](row) for row in rows]
    return [space[name](row, draw) for row, draw in zip(rows, draws, strict=True)]


def by_rules(rules, rows, draws=None):
    """What rules in JSON give for rows, as a reader of the documentation would follow them."""
    rules = json.loads(json.dumps(rules))
    if "mixture" not in rules:
        return [follow(rules, row) for row in rows]
    taken = [next(one for one in rules["mixture"] if draw < one["below"]) for draw in draws]
    return [follow(one, row) for one, row in zip(taken, rows, strict=True)]


def follow(rules, row):
    for rule in rules["rules"]:
        if all(holds(condition, row[condition["feature"]]) for condition in rule["if"]):
            return rule["then"]
    return rules["else"]


def holds(condition, value):
    if value is None:
        return condition.get("or_missing", False)
    if "at_most" in condition:
        return value <= condition["at_most"]
    return value == condition["is"] if "is" in condition else value in condition["among"]

"""Tables of logs of all kinds, for readers that must agree on them; and what it is for two logs to be the same."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N = 120


def same(one, other):
    """Whether two logs are the same to the last bit, names and words too."""
    for field in dataclasses.fields(one):
        if field.name == "notices":
            continue  # some take all rows at once
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name == "contexts":
            same_contexts(mine, theirs)
        elif isinstance(mine, np.ndarray):
            assert (mine.shape, mine.dtype, mine.tobytes()) == (theirs.shape, theirs.dtype, theirs.tobytes()), field
        else:
            assert mine == theirs, field


def same_contexts(one, other):
    for name in ("features", "ids", "weights"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None), name
        assert mine is None or (mine.shape, mine.tobytes()) == (theirs.shape, theirs.tobytes()), name
    assert (one.names, one.categories, one.phi) == (other.names, other.categories, other.phi)


def write_whole(path, table, seed=0):
    """One file, in row groups of an odd size."""
    pq.write_table(table, path, row_group_size=int(np.random.default_rng(seed).integers(3, N)))
    return path


def write_parts(folder, table, seed):
    """Several files, cut anywhere, in row groups of odd sizes."""
    rng = np.random.default_rng(seed)
    cuts = np.unique(rng.integers(1, len(table), size=int(rng.integers(1, 4))))
    bounds = [0, *(int(cut) for cut in cuts), len(table)]
    paths = []
    for k, (start, stop) in enumerate(pairwise(bounds)):
        paths.append(folder / f"part-{seed}-{k}.parquet")
        pq.write_table(table.slice(start, stop - start), paths[-1], row_group_size=int(rng.integers(3, 60)))
    return paths


def features(rng):
    """Features of all kinds: with values that are missing, labels that come late, and names of identifiers."""
    some = rng.random(N) < 0.1
    place = rng.choice(["north", "south", "East", "west "], N).astype(object)
    place[some] = None
    late = np.where(np.arange(N) < 100, "b", "a").astype(object)
    return {
        "age": pa.array(rng.integers(18, 90, N)),
        "income": pa.array(np.where(some, np.nan, rng.normal(size=N))),
        "weight": pa.array(rng.normal(size=N).astype(np.float32), mask=rng.random(N) < 0.2),
        "place": pa.array(list(place)),
        "late": pa.array(list(late)),
        "member": pa.array(rng.random(N) < 0.5),
        "plan": pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(0, 3, N).astype(np.int32), mask=rng.random(N) < 0.1), ["z", "never", "a", "unseen"]
        ),
        "price": pa.array([f"${x:.2f}" for x in rng.random(N) * 10]),
        "share": pa.array([f"{x} %" for x in rng.integers(0, 9, N)]),
        "user_id": pa.array(rng.integers(0, 30, N)),
        "order_id": pa.array(rng.permutation(N)),
        "note": pa.array([f"note {i}" for i in range(N)]),
        "nothing": pa.nulls(N),
        "twin": pa.array([["web", "Web"][int(i > 70)] for i in range(N)]),
        "__index_level_0__": pa.array(np.arange(N)),
    }


def dates(rng):
    """Dates and times: one in the order of rows, others not, with and without times of day, missing ones, zones."""
    seconds = pa.array(rng.integers(0, 2 * 10**9, N))
    return {
        "when": pa.array(np.sort(rng.integers(0, 2 * 10**9, N))).cast(pa.timestamp("s")),
        "born": pa.array(rng.integers(0, 20000, N).astype(np.int32)).cast(pa.date32()),
        "midnight": pa.array(rng.integers(0, 20000, N) * 86400).cast(pa.timestamp("s")),
        "seen": pa.array(seconds.cast(pa.timestamp("ms")).to_pylist(), mask=rng.random(N) < 0.2),
        "zoned": seconds.cast(pa.timestamp("us", tz="Europe/Berlin")),
        "hour": pa.array(rng.integers(0, 86400, N)).cast(pa.time64("us")),
    }


def played(rng, n_actions=3, *, varied=True):
    """Actions, rewards, and the propensities of all actions."""
    shares = rng.dirichlet(np.full(n_actions, 5.0), N if varied else 1) * 0.9 + 0.1 / n_actions
    shares = np.broadcast_to(shares, (N, n_actions))
    actions = (rng.random((N, 1)) > shares.cumsum(axis=1)).sum(axis=1).clip(0, n_actions - 1)
    actions[:n_actions] = np.arange(n_actions)
    return actions, rng.random(N), np.ascontiguousarray(shares)


def alone(actions, shares):
    return shares[np.arange(N), actions]


def named(actions):
    return pa.array([("stay", "call", "mail", "visit")[a] for a in actions])


def case(kind, rng):
    """The columns of a table of a kind, and what its reader says."""
    actions, rewards, shares = played(rng, varied=kind not in ("constant", "fixed lists"))
    lists = {"propensities": list(shares)}
    base = {"action": actions, "reward": rewards}
    if kind in ("features", "dates"):
        made = features(rng) if kind == "features" else dates(rng)
        return {**made, **base, **lists}, {}
    if kind == "kept":
        keep = ("user_id", "note", "when", "order_id")
        return {**features(rng), **dates(rng), **base, **lists}, {"keep": keep, "without": ("place", "seen")}
    if kind == "chosen features":
        return {**features(rng), **dates(rng), **base, **lists}, {"features": ("place", "born", "age", "note")}
    if kind == "renamed":
        made = {"sold": rewards * 40 - 5, "arm": named(actions), "pi": alone(actions, shares), "clicks": actions}
        return {**features(rng), **made, **base}, {
            "action": "arm",
            "reward": "sold",
            "propensity": "pi",
            "reward_range": (-5, 35),
            "least_propensity": 0.01,
        }
    if kind == "clipped":
        return {**base, "reward": rewards * 3 - 1, **lists}, {"reward_range": (0, 1), "clip": True}
    if kind == "columns":
        return {**features(rng), **base, **{f"propensity_{k}": shares[:, k] for k in range(3)}}, {}
    if kind == "named columns":
        called = {f"propensity_{name}": shares[:, k] for k, name in enumerate(("stay", "call", "mail"))}
        return {"x": rewards, **base, "action": named(actions), **called}, {}
    if kind == "told twice":
        off = alone(actions, shares) * (1 + 4e-4 * rng.random(N))
        return {"x": rewards, **base, **lists, "propensity": off}, {}
    if kind == "named told twice":
        called = {f"propensity_{name}": shares[:, k] for k, name in enumerate(("stay", "call", "mail"))}
        off = alone(actions, shares) * (1 + 4e-4 * rng.random(N))
        return {"x": rewards, **base, "action": named(actions), **called, "propensity": off}, {}
    if kind == "least":
        return {"x": rewards, **base, "propensity": alone(actions, shares)}, {"least_propensity": 0.02, "n_actions": 5}
    if kind == "least columns":
        return {"x": rewards, **base, "propensity": alone(actions, shares), "least_propensity": rng.random(N) / 40}, {}
    if kind == "least lists":
        low = rng.random((N, 3)) / 40
        return {"x": rewards, **base, "propensity": alone(actions, shares), "least_propensity": list(low)}, {}
    if kind == "uniform":
        return {"x": rewards, **base, "propensity": np.full(N, 1 / 3)}, {}
    if kind == "two actions":
        actions, rewards, shares = played(rng, 2)
        return {"x": rewards, "action": actions, "reward": rewards, "propensity": alone(actions, shares)}, {}
    if kind == "constant":
        return {"x": rewards, **base, "action": named(actions), "propensity": alone(actions, shares)}, {}
    if kind == "split":
        split = "stay=0.5,call=1/4,mail=20%,visit=0.05"
        return {**features(rng), "action": named(actions), "reward": rewards}, {"split": split}
    if kind == "split of numbers":
        return {"x": rewards, "action": np.array([17, 3, 2024])[actions], "reward": rewards}, {"split": "uniform"}
    if kind == "truths":
        said = pa.array([["Yes", "no "][int(r < 0.5)] for r in rewards])
        return {"x": rewards, "action": actions > 0, "reward": said}, {"split": "uniform"}
    if kind == "rounds":
        more = {"round": np.sort(rng.integers(0, 4, N)), "repeats": rng.integers(1, 9, N)}
        return {**base, **more, "context_id": rng.integers(0, 9, N), "context_weight": rng.random(N), **lists}, {}
    if kind == "time":
        return {**dates(rng), **features(rng), **base, **lists}, {"time": "when"}
    if kind == "time in text":
        said = pa.array([f"2024-01-{1 + i // 10:02d}" for i in range(N)])
        return {"day": said, "x": rewards, **base, **lists}, {"time": "day", "keep": ("day",)}
    assert kind in ("bare", "fixed lists")
    return {**base, **lists}, {}


KINDS = """features, dates, kept, chosen features, renamed, clipped, columns, named columns, told twice,
 named told twice, least, least columns, least lists, uniform, two actions, constant, split, split of numbers, truths,
 rounds, time, time in text, bare, fixed lists"""
KINDS = [" ".join(kind.split()) for kind in KINDS.split(",")]


def table_of(kind, seed):
    columns, reading = case(kind, np.random.default_rng(seed))
    return pa.table(columns), reading

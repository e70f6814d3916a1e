"""Certificates that say little and ask for much: of which genuine one each is, and how it comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


def _labels(whole: Json) -> None:
    for encoder in whole["class"]["map"]["encoders"]:
        if "labels" in encoder:
            encoder["labels"] = [str(i) for i in range(99_000)]
    whole["class"]["oracle"] = "search"


def _encoders(whole: Json) -> None:
    many = [{"feature": f"f{i}", "centre": 0, "spread": 1} for i in range(90_000)]
    whole["class"] |= {"oracle": "search", "map": whole["class"]["map"] | {"encoders": many}}


def _dimension(whole: Json) -> None:
    whole["class"] |= {"levels": 1000, "oracle": "search"}
    whole["class"]["map"]["dimension"] = 10**5


def _nested(whole: Json) -> None:
    cells = {"kind": "cell-means", "strength": 8.0}
    model = cells
    for _ in range(60):
        model = {"kind": "either", "first": model, "second": cells}
    whole["model"] = model


def _bins() -> list[Json]:
    return [{"name": f"f{i}", "thresholds": [1.0, 2.0]} for i in range(10**5)]


def _tree(depth: int) -> Json:
    if depth == 0:
        return {"action": 0}
    return {"feature": "age", "at_most": 1, "then": _tree(depth - 1), "else": _tree(depth - 1)}


def _put(*path: str, value: Callable[[], Any]) -> Callable[[Json], None]:
    """Another value at a place."""

    def explode(whole: Json) -> None:
        for step in path[:-1]:
            whole = whole[step]
        whole[path[-1]] = value()

    return explode


BOMBS: dict[str, tuple[str, Callable[[Json], None]]] = {
    "a hundred thousand features of actions": ("given", _dimension),
    "a hundred thousand labels": ("crossed", _labels),
    "a hundred thousand encoders": ("crossed", _encoders),
    "a hundred thousand binned features": ("trees", _put("class", "features", value=_bins)),
    "a hundred thousand experts": ("trivial", _put("multipliers", value=lambda: [0.5] * 10**5)),
    "a million rounds": ("trivial", _put("scales", value=lambda: [0.5] * 10**6)),
    "a model in a model": ("trivial", _nested),
    "a hundred thousand cuts": ("crossed", _put("model", "cuts", value=lambda: [[float(i) for i in range(10**5)], 3])),
    "cuts of a hundred thousand features": ("crossed", _put("model", "cuts", value=lambda: [[1.0]] * 10**5)),
    "a million questions": ("trees in blocks, led", _put("model", "depth", value=lambda: 10**6)),
    "a million actions": ("finite", _put("class", "table", value=lambda: [[0] * 1000] * 1000)),
    "the finest resolution": ("trivial", _put("class", "resolution", value=lambda: 2**13)),
    "many contexts": ("trivial", _put("class", "n_contexts", value=lambda: 3 * 10**7)),
    "a million remarks": ("trivial", _put("remarks", value=lambda: ["x"] * 10**6)),
    "a great prior": ("realizable ellipsoid", _put("prior", value=lambda: [[0.0] * 1500] * 1500)),
    "three million lists": ("trivial", _put("remarks", value=lambda: [[]] * (3 * 10**6))),
    "three million objects": ("trivial", _put("model", "x", value=lambda: [{"": 0}] * (3 * 10**6))),
    "more objects than may be": ("trivial", _put("model", "x", value=lambda: [{"": 0}] * (5 * 10**6))),
    "a great tree": ("trees", _put("policy", "root", value=lambda: _tree(15))),
}

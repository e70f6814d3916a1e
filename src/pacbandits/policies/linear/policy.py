"""Linear policies: the action of largest score, where scores are linear in features, with whole coefficients."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakValueDictionary

import numpy as np

from pacbandits.arrays import IntArray, whole_number
from pacbandits.errors import InputError, plain
from pacbandits.policies.features import Category, Crossed, FeatureMap, Number, map_from_json
from pacbandits.policies.linear.acting import act, is_blocks, rows_of
from pacbandits.records import Contexts

_SHOWN = 6  # terms of a score in words


@dataclass(frozen=True, eq=False)
class LinearPolicy:
    """π(c) = argmax_a ⟨φ(c, a), θ⟩, of equals the first; parameter (d,): θ, whole numbers without a common divisor.

    Parallel parameters act alike, so one that has a divisor is divided by it.
    """

    map: FeatureMap
    parameter: tuple[int, ...]

    kind = "linear"

    def __post_init__(self) -> None:
        given = _whole(self.parameter)
        if len(given) != self.map.dimension:
            raise InputError(f"a parameter of {len(given)} numbers does not fit {self.map.dimension} features")
        divisor = math.gcd(*given) or 1
        object.__setattr__(self, "parameter", tuple(one // divisor for one in given))

    @property
    def n_actions(self) -> int:
        return self.map.n_actions

    def __call__(self, contexts: Contexts) -> IntArray:
        rows = rows_of(self.map, contexts)
        return rows.spread_out(act(rows, np.array(self.parameter, dtype=np.int64)))

    def describe(self) -> str:
        if not any(self.parameter):
            return "always action 0"
        if isinstance(self.map, Crossed) and (blocks := _blocks(self.map)) is not None:
            return "\n".join(self._by_action(self.map, blocks))
        names = self.map.names
        terms = [(one, f"[{names[j]}]") for j, one in enumerate(self.parameter)]
        encoders = self.map.encoders if isinstance(self.map, Crossed) else ()
        return "\n".join([f"the action of largest {_sum(terms)}", *_scales(encoders)])

    def _by_action(self, crossed: Crossed, blocks: dict[int, int]) -> list[str]:
        matrix = np.array(self.parameter).reshape(len(crossed.columns), -1)
        kinds = [encoder for encoder in crossed.encoders for _ in encoder.names]
        words = [
            "",
            *(f"[{n}]" if isinstance(k, Category) else n for k, n in zip(kinds, crossed.columns[1:], strict=True)),
        ]
        out = ["the action of the largest score, of equals the first:"]
        for a in range(self.n_actions):
            terms = [(int(t), word) for t, word in zip(matrix[:, blocks[a]], words, strict=True)] if a in blocks else []
            out.append(f"action {a}: {_sum(terms)}")
        used = {id(kind) for kind, row in zip(kinds, matrix[1:], strict=True) if row.any()}
        return [*out, *_scales([encoder for encoder in crossed.encoders if id(encoder) in used])]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "map": self.map.to_json(), "parameter": list(self.parameter)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LinearPolicy:
        return cls(one_map(map_from_json(value["map"])), value["parameter"])


_maps: WeakValueDictionary[str, FeatureMap] = WeakValueDictionary()


def one_map(features: FeatureMap) -> FeatureMap:
    """The map itself or an equal one met before: what is known of contexts is kept by map, and policies of one class
    should share theirs also when they were read one by one."""
    return _maps.setdefault(json.dumps(features.to_json()), features)


def _whole(parameter: object) -> tuple[int, ...]:
    if isinstance(parameter, str) or not isinstance(parameter, Sequence | np.ndarray):
        raise InputError(f"the parameter of a linear policy must be whole numbers, got {plain(parameter)}")
    listed: list[object] = (
        parameter.tolist() if isinstance(parameter, np.ndarray) else list(cast(Sequence[object], parameter))
    )
    return tuple(whole_number(one, name="the parameter of a linear policy") for one in listed)


def _blocks(crossed: Crossed) -> dict[int, int] | None:
    """The block of coefficients of each action that has one, when no two actions share any."""
    if not is_blocks(crossed.table):
        return None
    return {int(a): k for k, a in enumerate(crossed.table.argmax(axis=0))}


def _sum(terms: Sequence[tuple[int, str]]) -> str:
    """`3 − 2·age + 1·[region is north]`: the constant first, then the largest terms."""
    constant = [term for term in terms if term[0] and not term[1]]
    others = sorted((term for term in terms if term[0] and term[1]), key=lambda term: -abs(term[0]))
    kept = (constant + others)[:_SHOWN]
    text = "0"
    for place, (factor, word) in enumerate(kept):
        size = f"{abs(factor)}·{word}" if word else f"{abs(factor)}"
        if place == 0:
            text = size if factor > 0 else f"−{size}"
        else:
            text += f" {'+' if factor > 0 else '−'} {size}"
    rest = len(constant) + len(others) - len(kept)
    return text + (f" … and {rest} more" if rest else "")


def _scales(encoders: Sequence[Number | Category]) -> list[str]:
    """One line that says what the words stand for."""
    said = "; ".join(encoder.describe() for encoder in encoders)
    return [f"features are standardised: {said}"] if said else []

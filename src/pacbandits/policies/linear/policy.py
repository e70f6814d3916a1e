"""Linear policies: the action of largest score, where scores are linear in features, with whole coefficients."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakValueDictionary

import numpy as np

from pacbandits.arrays import IntArray
from pacbandits.checks import whole_number
from pacbandits.errors import InputError, plain
from pacbandits.fields import MAX_WHOLE_NUMBER, Fields
from pacbandits.policies.decisions import AskingPolicy, Inputs, LargestScore
from pacbandits.policies.features import CompactMap, FeatureMap, PlainMap, map_from_json
from pacbandits.policies.features.words import largest_in_words
from pacbandits.policies.linear.acting import act, rows_of
from pacbandits.records import Contexts


@dataclass(frozen=True, eq=False)
class LinearPolicy:
    """π(c) = argmax_a ⟨φ(c, a), θ⟩, of equals the first.

    map: φ.
    parameter (d,): θ, whole numbers without a common divisor. Parallel parameters act alike, so one that has a divisor
        is divided by it.
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
        if isinstance(self.map, CompactMap):
            return "\n".join(self.map.describe_scores(self.parameter))
        return largest_in_words(self.map.names, self.parameter)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "map": self.map.to_json(), "parameter": list(self.parameter)}

    def decision(self) -> LargestScore:
        """The scores, added up in the order in which they are here."""
        if not isinstance(self.map, PlainMap):
            raise InputError(
                f"a policy of kind '{self.kind}' over features that come with each context and action cannot be "
                "written out; use `pacbandits apply`"
            )
        return LargestScore(self.map.score_terms(self.parameter))

    def inputs(self) -> Inputs | None:
        """What its features are made from; None for a map that does not say."""
        return self.map.inputs() if isinstance(self.map, AskingPolicy) else None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LinearPolicy:
        given = Fields.read(value, of="policy")
        given.check_known(("kind", "map", "parameter"))
        parameter = given.whole_numbers("parameter", shortest=1, least=-MAX_WHOLE_NUMBER)
        return cls(one_map(map_from_json(given["map"])), parameter)


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
    return tuple(whole_number(one, name="the parameter of a linear policy", least=-MAX_WHOLE_NUMBER) for one in listed)

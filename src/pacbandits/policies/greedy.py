"""The policy that takes the action with the largest linear score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.fields import Fields
from pacbandits.policies.decisions import AskingPolicy, Inputs
from pacbandits.policies.features import FeatureMap, map_from_json
from pacbandits.records import Contexts

_SHOWN_COEFFICIENTS = 8  # in words


@dataclass(frozen=True, eq=False)
class GreedyPolicy:
    """`argmax_a ⟨φ(c, a), θ⟩`, of equals the first.

    features: φ.
    parameter (d,): θ, real numbers.
    """

    features: FeatureMap
    parameter: FloatArray

    kind = "greedy"

    def __post_init__(self) -> None:
        parameter = floats(self.parameter, name="parameter", shape=(self.features.dimension,))
        object.__setattr__(self, "parameter", parameter)

    @property
    def n_actions(self) -> int:
        return self.features.n_actions

    def __call__(self, contexts: Contexts) -> IntArray:
        return np.argmax(self.features.on(contexts).scores(self.parameter), axis=1)

    def describe(self) -> str:
        order = np.argsort(-np.abs(self.parameter), kind="stable")[:_SHOWN_COEFFICIENTS]
        terms = " ".join(f"{self.parameter[j]:+.3g}·[{self.features.names[j]}]" for j in order if self.parameter[j])
        rest = int((self.parameter != 0).sum()) - _SHOWN_COEFFICIENTS
        more = f" and {rest} more" if rest > 0 else ""
        return f"the action with the largest {terms}{more}" if terms else "always action 0"

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "features": self.features.to_json(), "parameter": self.parameter.tolist()}

    def inputs(self) -> Inputs | None:
        """What its features are made from; None for a map that does not say."""
        return self.features.inputs() if isinstance(self.features, AskingPolicy) else None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> GreedyPolicy:
        given = Fields.read(value, of="policy")
        given.check_known(("kind", "features", "parameter"))
        return cls(map_from_json(given["features"]), np.array(given.numbers("parameter", shortest=1)))

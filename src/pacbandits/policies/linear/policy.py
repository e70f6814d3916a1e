"""Linear policies: the action of largest linear score, with integer or real coefficients."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.checks import whole_number
from pacbandits.compiled import kernel, over_cores
from pacbandits.errors import InputError, plain
from pacbandits.policies.base import PerContexts, compact
from pacbandits.policies.decisions import AskingPolicy, Inputs, LargestScore
from pacbandits.policies.features import CompactMap, FeatureMap, FeatureRows, PlainMap, SpelledRows, map_from_json
from pacbandits.policies.features.crossed import largest_in_words
from pacbandits.policies.features.maps import for_kernels
from pacbandits.policies.finite import sum_by_id
from pacbandits.records.contexts import Contexts
from pacbandits.schema import MAX_WHOLE_NUMBER, Fields

# Actions of linear policies: φ of the distinct rows among contexts, and actions of many policies at once.
#
# Scores are summed one coordinate after the other, as in `features.maps`, also where partial sums are shared.


_BLOCK_ENTRIES = 2**22  # of dense φ at a time

Table = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """φ of the distinct rows among contexts.

    features: φ of m rows.
    which (n,): the row of each context; None if the rows are the contexts in order.
    """

    features: FeatureRows
    which: IntArray | None = None

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n_actions(self) -> int:
        return self.features.n_actions

    @property
    def dimension(self) -> int:
        return self.features.dimension

    def add_up(self, scores: FloatArray) -> FloatArray:
        """Sum scores (n, A) of the contexts to scores (m, A) of the rows, laid out for kernels."""
        if self.which is not None:
            return np.ascontiguousarray(sum_by_id(self.which, scores, n=len(self)))
        # Kernels are compiled once, for contiguous writeable arrays; others are copied.
        return np.require(scores, requirements=("C", "W"))

    def spread_out(self, actions: Table) -> Table:
        """Return actions (…, n) of the contexts from actions (…, m) of the rows."""
        return actions if self.which is None else actions[..., self.which]

    def some(self, index: IntArray | slice) -> DistinctRows:
        """Return the given rows only."""
        return DistinctRows(self.features.some(index))

    def blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """Yield φ in blocks of rows, each with the index of its first row."""
        step = max(1, _BLOCK_ENTRIES // (self.n_actions * self.dimension))
        for start in range(0, len(self), step):
            yield start, self.features.some(slice(start, start + step)).spelled()


_known: WeakKeyDictionary[FeatureMap, PerContexts[DistinctRows]] = WeakKeyDictionary()


def rows_of(features: FeatureMap, contexts: Contexts) -> DistinctRows:
    """Return φ of contexts, cached as long as both objects live."""
    return _known.setdefault(features, PerContexts()).get(contexts, lambda own: _lay_out(features, own))


def _lay_out(features: FeatureMap, contexts: Contexts) -> DistinctRows:
    if isinstance(features, CompactMap):
        return DistinctRows(*features.lay_out(contexts))
    return DistinctRows(SpelledRows(for_kernels(features(contexts))))


def act(rows: DistinctRows, parameter: IntArray) -> IntArray:
    """Return the action (m,) of the policy with the given θ (d,) on each row."""
    return rows.features.act(parameter)


def act_all(rows: DistinctRows, parameters: Table) -> Table:
    """Return the action (K, m) of K policies θ (K, d); fastest if neighbours share their first coordinates."""
    out = np.empty((len(parameters), len(rows)), dtype=compact(rows.n_actions))
    thetas = np.ascontiguousarray(parameters, dtype=np.float64)
    for start, phi in rows.blocks():
        turned = np.ascontiguousarray(phi.transpose(2, 1, 0))
        over_cores(lambda a, b, t=turned, s=start: _act_all(t, thetas, out, s, a, b), count=len(thetas))
    return out


@kernel
def _act_all(turned: FloatArray, thetas: FloatArray, out: Table, offset: int, start: int, stop: int) -> None:
    """Write the actions of policies start … stop − 1, from column `offset` on; turned: φ as (d, A, m).

    Partial sums over the coordinates that a θ shares with the previous one are reused.
    """
    d, n_actions, m = turned.shape
    width = 256
    sums, phi = np.zeros((d + 1, n_actions, width)), np.empty((d, n_actions, width))
    top, best = np.empty(width), np.zeros(width, dtype=np.int64)
    for first in range(0, m, width):
        size = min(width, m - first)
        for j in range(d):  # slices would take seconds to compile
            for a in range(n_actions):
                for i in range(size):
                    phi[j, a, i] = turned[j, a, first + i]
        for k in range(start, stop):
            same = 0
            if k > start:
                while same < d and thetas[k, same] == thetas[k - 1, same]:
                    same += 1
            for j in range(same, d):
                for a in range(n_actions):
                    _add(sums[j, a], phi[j, a], thetas[k, j], sums[j + 1, a], size)
            for i in range(size):
                top[i], best[i] = sums[d, 0, i], 0
            for a in range(1, n_actions):
                _take(sums[d, a], a, top, best, size)
            for i in range(size):
                out[k, offset + first + i] = best[i]


@kernel
def _add(before: FloatArray, phi: FloatArray, theta: float, out: FloatArray, size: int) -> None:
    for i in range(size):
        out[i] = before[i] + phi[i] * theta


@kernel
def _take(scores: FloatArray, action: int, top: FloatArray, best: IntArray, size: int) -> None:
    for i in range(size):
        new = scores[i] > top[i]
        top[i] = scores[i] if new else top[i]
        best[i] = action if new else best[i]


@dataclass(frozen=True, eq=False)
class LinearPolicy:
    """The policy π(c) = argmax_a ⟨φ(c, a), θ⟩; ties go to the first action.

    map: φ.
    parameter (d,): θ, integers without a common divisor. Parallel parameters give the same policy, so a common divisor
        is divided out.
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
        """Return the scores, summed in the same order as here; raise InputError if φ comes with the contexts."""
        if not isinstance(self.map, PlainMap):
            raise InputError(
                f"a policy of kind '{self.kind}' over features that come with each context and action cannot be "
                "written out; use `pacbandits apply`"
            )
        return LargestScore(self.map.score_terms(self.parameter))

    def inputs(self) -> Inputs | None:
        """Return the inputs of its features; None if the map declares none."""
        return self.map.inputs() if isinstance(self.map, AskingPolicy) else None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LinearPolicy:
        given = Fields.read(value, of="policy")
        given.check_known(("kind", "map", "parameter"))
        parameter = given.whole_numbers("parameter", shortest=1, least=-MAX_WHOLE_NUMBER)
        return cls(one_map(map_from_json(given["map"])), parameter)


_maps: WeakValueDictionary[str, FeatureMap] = WeakValueDictionary()


def one_map(features: FeatureMap) -> FeatureMap:
    """Return the map, or an equal one seen before: contexts are cached by map, and policies of one class should share
    their map even when they are read one by one."""
    return _maps.setdefault(json.dumps(features.to_json()), features)


def _whole(parameter: object) -> tuple[int, ...]:
    if isinstance(parameter, str) or not isinstance(parameter, Sequence | np.ndarray):
        raise InputError(f"the parameter of a linear policy must be whole numbers, got {plain(parameter)}")
    listed: list[object] = (
        parameter.tolist() if isinstance(parameter, np.ndarray) else list(cast(Sequence[object], parameter))
    )
    return tuple(whole_number(one, name="the parameter of a linear policy", least=-MAX_WHOLE_NUMBER) for one in listed)


# The greedy policy with real coefficients.


_SHOWN_COEFFICIENTS = 8  # in a description


@dataclass(frozen=True, eq=False)
class GreedyPolicy:
    """The policy `argmax_a ⟨φ(c, a), θ⟩`; ties go to the first action.

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
        """Return the inputs of its features; None if the map declares none."""
        return self.features.inputs() if isinstance(self.features, AskingPolicy) else None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> GreedyPolicy:
        given = Fields.read(value, of="policy")
        given.check_known(("kind", "features", "parameter"))
        return cls(map_from_json(given["features"]), np.array(given.numbers("parameter", shortest=1)))

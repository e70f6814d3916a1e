"""The interface of a feature map, and what a map may offer beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores
from pacbandits.policies.decisions import Term
from pacbandits.records import Contexts

# φ of rows in the two forms that kernels know: crossed, and spelled out.
#
# The score of an action is added up one coordinate after the other, `((φ_1θ_1 + φ_2θ_2) + φ_3θ_3) + …`, wherever an
# action is taken by it: so a row's action depends on nothing but the row, actions with equal φ tie to the last bit, and
# a search that keeps partial sums sees what the policy does.


class Mapped(Protocol):
    """φ on n given contexts, in whatever form computes fast."""

    def scores(self, parameter: FloatArray) -> FloatArray:
        """⟨φ(c, a), θ⟩ as (n, A), for θ (d,)."""
        ...

    def pull(self, weights: FloatArray) -> FloatArray:
        """Σ_{c,a} weights[c, a] φ(c, a) as (d,): the gradient in θ of `Σ weights · scores(θ)`."""
        ...


class FeatureRows(Mapped, Protocol):
    """φ of m rows, in whatever form computes fast."""

    def __len__(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def dimension(self) -> int: ...
    @property
    def action_features(self) -> FloatArray | None:
        """z (A, k) where φ is `x ⊗ z` and the first column of x is constant; None elsewhere."""
        ...

    def act(self, parameter: ArrayLike) -> IntArray:
        """The action (m,) of largest score on each row, of equals the first, for θ (d,)."""
        ...

    def some(self, index: IntArray | slice) -> FeatureRows:
        """The given rows alone."""
        ...

    def spelled(self) -> FloatArray:
        """φ (m, A, d)."""
        ...

    def factors(self) -> tuple[FloatArray, FloatArray | None]:
        """Vectors whose average square is the covariance of φ over the actions of a row, on average over rows.

        Two sets of them (of x, of z) where it is the Kronecker product of two averages; one where it is not.
        """
        ...

    def blocks(self) -> tuple[FloatArray, IntArray] | None:
        """x (m, u) and the action (k,) of each block of coefficients, where every action has its own block or none."""
        ...


@dataclass(frozen=True, eq=False)
class CrossedRows:
    """x(c) ⊗ z(a), kept apart.

    x (m, u): the columns of the rows.
    z (A, k): the features of the actions.
    """

    x: FloatArray
    z: FloatArray

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_actions(self) -> int:
        return self.z.shape[0]

    @property
    def dimension(self) -> int:
        return self.x.shape[1] * self.z.shape[1]

    @property
    def action_features(self) -> FloatArray | None:
        return self.z

    def scores(self, parameter: FloatArray) -> FloatArray:
        return self.x @ (parameter.reshape(self.x.shape[1], -1) @ self.z.T)

    def pull(self, weights: FloatArray) -> FloatArray:
        return (self.x.T @ (weights @ self.z)).reshape(-1)

    def act(self, parameter: ArrayLike) -> IntArray:
        out = np.empty(len(self), dtype=np.int64)
        terms = _terms(self.z, np.asarray(parameter, dtype=np.float64))
        over_cores(lambda a, b: _act_crossed(self.x, terms, len(self.z), out, a, b), count=len(self))
        return out

    def some(self, index: IntArray | slice) -> CrossedRows:
        return replace(self, x=self.x[index])

    def spelled(self) -> FloatArray:
        x, z = self.x, self.z
        return (x[:, None, :, None] * z[:, None, :]).reshape(len(x), len(z), -1)

    def factors(self) -> tuple[FloatArray, FloatArray | None]:
        return self.x, self.z - self.z.mean(axis=0)

    def blocks(self) -> tuple[FloatArray, IntArray] | None:
        return (self.x, self.z.argmax(axis=0)) if is_blocks(self.z) else None


@dataclass(frozen=True, eq=False)
class SpelledRows:
    """φ spelled out.

    phi (m, A, d): of every row and action.
    """

    phi: FloatArray

    def __len__(self) -> int:
        return len(self.phi)

    @property
    def n_actions(self) -> int:
        return self.phi.shape[1]

    @property
    def dimension(self) -> int:
        return self.phi.shape[2]

    @property
    def action_features(self) -> FloatArray | None:
        return None

    def scores(self, parameter: FloatArray) -> FloatArray:
        return self.phi @ parameter

    def pull(self, weights: FloatArray) -> FloatArray:
        return weights.reshape(-1) @ self.phi.reshape(-1, self.phi.shape[2])

    def act(self, parameter: ArrayLike) -> IntArray:
        out = np.empty(len(self), dtype=np.int64)
        theta = np.ascontiguousarray(parameter, dtype=np.float64)
        over_cores(lambda a, b: _act_spelled(self.phi, theta, out, a, b), count=len(self))
        return out

    def some(self, index: IntArray | slice) -> SpelledRows:
        return SpelledRows(self.phi[index])

    def spelled(self) -> FloatArray:
        return self.phi

    def factors(self) -> tuple[FloatArray, FloatArray | None]:
        centred = self.phi - self.phi.mean(axis=1, keepdims=True)
        return centred.reshape(-1, centred.shape[2]), None

    def blocks(self) -> tuple[FloatArray, IntArray] | None:
        return None


def is_blocks(z: FloatArray) -> bool:
    """Whether features (A, k) of actions give each of them a block of coefficients of its own, or none."""
    return bool(((z == 0) | (z == 1)).all() and (z.sum(axis=0) == 1).all() and (z.sum(axis=1) <= 1).all())


def for_kernels(array: FloatArray) -> FloatArray:
    """The array as kernels are compiled for: contiguous and writeable; others are copied."""
    return np.require(array, dtype=np.float64, requirements=("C", "W"))


class _Terms(NamedTuple):
    """What is not zero in ⟨x ⊗ z(a), θ⟩, in the order of θ.

    columns (e,): of x.
    actions (e,): a.
    features (e,): of the action, from z.
    thetas (e,): from θ.
    """

    columns: IntArray
    actions: IntArray
    features: FloatArray
    thetas: FloatArray


def _terms(z: FloatArray, theta: FloatArray) -> _Terms:
    used = np.flatnonzero(theta)
    columns, features = np.divmod(used, z.shape[1])
    place, actions = np.nonzero(z.T[features])
    # numpy finds both in one table: kernels are compiled once, for arrays of their own.
    actions = np.ascontiguousarray(actions)
    return _Terms(columns[place], actions, z[actions, features[place]], theta[used[place]])


@kernel
def _act_crossed(x: FloatArray, terms: _Terms, n_actions: int, out: IntArray, start: int, stop: int) -> None:
    columns, actions, features, thetas = terms
    scores = np.empty(n_actions)
    for i in range(start, stop):
        scores[:] = 0.0
        for e in range(columns.shape[0]):
            scores[actions[e]] += (x[i, columns[e]] * features[e]) * thetas[e]
        best = 0
        for a in range(1, n_actions):
            if scores[a] > scores[best]:
                best = a
        out[i] = best


@kernel
def _act_spelled(phi: FloatArray, theta: FloatArray, out: IntArray, start: int, stop: int) -> None:
    for i in range(start, stop):
        best, top = 0, -np.inf
        for a in range(phi.shape[1]):
            score = 0.0
            for j in range(phi.shape[2]):
                score += phi[i, a, j] * theta[j]
            if score > top:
                best, top = a, score
        out[i] = best


MAX_STORED_DIMENSION = 10**5  # of φ, in a file


@runtime_checkable
class FeatureMap(Protocol):
    """A map from contexts to φ (n, A, d)."""

    @property
    def n_actions(self) -> int: ...
    @property
    def dimension(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...]:
        """What each of the d coordinates is, in words."""
        ...

    def __call__(self, contexts: Contexts) -> FloatArray:
        """φ (n, A, d)."""
        ...

    def on(self, contexts: Contexts) -> Mapped:
        """φ on these contexts without spelling it out."""
        ...

    def played(self, contexts: Contexts, actions: IntArray) -> FloatArray:
        """φ(c, a) (n, d) of one action a context, actions (n,)."""
        ...

    def to_json(self) -> dict[str, Any]: ...


@runtime_checkable
class BlockMap(FeatureMap, Protocol):
    """A feature map that may have coefficients of its own for each action.

    in_blocks: whether it has.
    """

    @property
    def in_blocks(self) -> bool: ...


@runtime_checkable
class CompactMap(FeatureMap, Protocol):
    """A feature map that knows a compact form of φ, and words for its scores; that of another map is spelled out."""

    def check_effect(self) -> None:
        """Raise when scores cannot depend on the action, whatever the parameter."""
        ...

    def lay_out(self, contexts: Contexts) -> tuple[FeatureRows, IntArray | None]:
        """φ of the m different contexts, and which (n,) of them each is; None: they are the contexts, in order."""
        ...

    def describe_columns(self) -> list[str]:
        """What the coordinates are made from, line by line."""
        ...

    def describe_scores(self, parameter: Sequence[int]) -> list[str]:
        """The policy that takes the action of largest score under a parameter (d,) that is not zero, line by line."""
        ...


@runtime_checkable
class PlainMap(FeatureMap, Protocol):
    """A feature map whose scores can be written down in another language, to the last bit."""

    def score_terms(self, parameter: Sequence[int]) -> tuple[tuple[Term, ...], ...]:
        """What the score of each action adds up, in order, under a parameter (d,)."""
        ...

"""Protocols of feature maps: the required interface and optional capabilities, and φ in forms for fast kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel, over_cores, plain_if_few
from pacbandits.records.contexts import Contexts

if TYPE_CHECKING:
    from pacbandits.policies.decisions import Term

# φ of rows in two forms, crossed and dense.
#
# Wherever a score decides an action, it is summed one coordinate after the other, `((φ_1θ_1 + φ_2θ_2) + φ_3θ_3) + …`.
# So a row's action depends on nothing but the row, actions with equal φ tie to the last bit, and a search that keeps
# partial sums takes the same actions as the policy.


class Mapped(Protocol):
    """φ on n given contexts, in a form for fast computation."""

    def scores(self, parameter: FloatArray) -> FloatArray:
        """Return ⟨φ(c, a), θ⟩ as (n, A), for θ (d,)."""
        ...

    def pull(self, weights: FloatArray) -> FloatArray:
        """Return Σ_{c,a} weights[c, a] φ(c, a) as (d,): the gradient in θ of `Σ weights · scores(θ)`."""
        ...


class FeatureRows(Mapped, Protocol):
    """φ of m rows, in a form for fast computation."""

    def __len__(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def dimension(self) -> int: ...
    @property
    def action_features(self) -> FloatArray | None:
        """z (A, k) if φ is `x ⊗ z` and the first column of x is constant; else None."""
        ...

    def act(self, parameter: ArrayLike) -> IntArray:
        """Return the action (m,) of largest score on each row, for θ (d,); ties go to the first action."""
        ...

    def some(self, index: IntArray | slice) -> FeatureRows:
        """Return the given rows only."""
        ...

    def spelled(self) -> FloatArray:
        """Return φ as a dense array (m, A, d)."""
        ...

    def factors(self) -> tuple[FloatArray, FloatArray | None]:
        """Return vectors whose mean outer product is the within-row covariance of φ over actions, averaged over rows.

        Two sets of vectors (of x, of z) if it is the Kronecker product of two such means; else one set and None.
        """
        ...

    def blocks(self) -> tuple[FloatArray, IntArray] | None:
        """Return x (m, u) and the action (k,) of each block, if every action has its own block or none; else None."""
        ...


@dataclass(frozen=True, eq=False)
class CrossedRows:
    """φ as x(c) ⊗ z(a), with the factors stored separately.

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
        choose = plain_if_few(_act_crossed, len(self))
        over_cores(lambda a, b: choose(self.x, terms, len(self.z), out, a, b), count=len(self))
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
    """φ as a dense array.

    phi (m, A, d): φ of every row and action.
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
        choose = plain_if_few(_act_spelled, len(self))
        over_cores(lambda a, b: choose(self.phi, theta, out, a, b), count=len(self))
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
    """Return whether features (A, k) of actions give each action its own block of coefficients, or none."""
    return bool(((z == 0) | (z == 1)).all() and (z.sum(axis=0) == 1).all() and (z.sum(axis=1) <= 1).all())


def for_kernels(array: FloatArray) -> FloatArray:
    """Return the array as kernels are compiled for, contiguous and writeable; copied if it is not."""
    return np.require(array, dtype=np.float64, requirements=("C", "W"))


class _Terms(NamedTuple):
    """The nonzero terms of ⟨x ⊗ z(a), θ⟩, in the order of θ.

    columns (e,): the column of x.
    actions (e,): the action a.
    features (e,): the feature of the action, from z.
    thetas (e,): the coefficient, from θ.
    """

    columns: IntArray
    actions: IntArray
    features: FloatArray
    thetas: FloatArray


def _terms(z: FloatArray, theta: FloatArray) -> _Terms:
    used = np.flatnonzero(theta)
    columns, features = np.divmod(used, z.shape[1])
    place, actions = np.nonzero(z.T[features])
    # np.nonzero returns views into one table; a contiguous copy avoids a second compilation of the kernel.
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


MAX_STORED_DIMENSION = 10**5  # of φ in a file


@runtime_checkable
class FeatureMap(Protocol):
    """A map from contexts to φ (n, A, d)."""

    @property
    def n_actions(self) -> int: ...
    @property
    def dimension(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...]:
        """The name of each of the d coordinates."""
        ...

    def __call__(self, contexts: Contexts) -> FloatArray:
        """Return φ (n, A, d)."""
        ...

    def on(self, contexts: Contexts) -> Mapped:
        """Return φ on these contexts without a dense array."""
        ...

    def played(self, contexts: Contexts, actions: IntArray) -> FloatArray:
        """Return φ(c, a) (n, d) of one action for each context, actions (n,)."""
        ...

    def to_json(self) -> dict[str, Any]: ...


@runtime_checkable
class BlockMap(FeatureMap, Protocol):
    """A feature map that may have separate coefficients for each action.

    in_blocks: whether it has.
    """

    @property
    def in_blocks(self) -> bool: ...


@runtime_checkable
class CompactMap(FeatureMap, Protocol):
    """A feature map with a compact form of φ and a description of its scores; other maps use the dense form."""

    def check_effect(self) -> None:
        """Raise InputError if scores cannot depend on the action, whatever the parameter."""
        ...

    def lay_out(self, contexts: Contexts) -> tuple[FeatureRows, IntArray | None]:
        """Return φ of the m distinct contexts and the index (n,) of each context; None for the identity."""
        ...

    def describe_columns(self) -> list[str]:
        """Describe how the coordinates are made, line by line."""
        ...

    def describe_scores(self, parameter: Sequence[int]) -> list[str]:
        """Describe the policy that takes the action of largest score under a nonzero parameter (d,), line by line."""
        ...


@runtime_checkable
class PlainMap(FeatureMap, Protocol):
    """A feature map whose scores can be exported to another language, exact to the last bit."""

    def score_terms(self, parameter: Sequence[int]) -> tuple[tuple[Term, ...], ...]:
        """Return the terms of each action's score in order, under a parameter (d,)."""
        ...

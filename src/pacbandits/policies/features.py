"""Feature maps φ(c, a) ∈ R^d: what linear policies and linear rewards are linear in.

Three ways to get one: a block of coefficients for each action (`Crossed.blocks`), features of actions crossed with
those of contexts, the coefficients shared (`Crossed.shared`), and φ given with the contexts (`Given`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray, floats, whole_number
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Phi


class Mapped(Protocol):
    """φ on n given contexts, in whatever form computes fast."""

    def scores(self, parameter: FloatArray) -> FloatArray:
        """⟨φ(c, a), θ⟩ as (n, A), for θ (d,)."""
        ...

    def pull(self, weights: FloatArray) -> FloatArray:
        """Σ_{c,a} weights[c, a] φ(c, a) as (d,): the gradient in θ of `Σ weights · scores(θ)`."""
        ...


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


@dataclass(frozen=True)
class Number:
    """A number, centred and divided by its spread as both were on some contexts before."""

    feature: str
    centre: float
    spread: float

    def columns(self, contexts: Contexts) -> list[FloatArray]:
        own = contexts.features[:, contexts.column_of(self.feature, categorical=False)]
        return [(own - self.centre) / self.spread]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.feature,)

    def describe(self) -> str:
        return f"{self.feature} is (its value − {self.centre:.6g})/{self.spread:.6g}"

    def to_json(self) -> dict[str, Any]:
        return {"feature": self.feature, "centre": self.centre, "spread": self.spread}


@dataclass(frozen=True)
class Category:
    """A 0/1 column for every label but the first; a label that is none of these counts as the first."""

    feature: str
    labels: tuple[str, ...]

    def columns(self, contexts: Contexts) -> list[FloatArray]:
        column = contexts.column_of(self.feature, categorical=True)
        own, labels = contexts.features[:, column], contexts.categories[column] or ()
        codes = [labels.index(label) if label in labels else -1 for label in self.labels[1:]]
        return [(own == code).astype(np.float64) for code in codes]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.feature} is {label}" for label in self.labels[1:])

    def describe(self) -> str:
        return f"[{self.feature} is …] is 1 or 0"

    def to_json(self) -> dict[str, Any]:
        return {"feature": self.feature, "labels": list(self.labels)}


Encoder = Number | Category
_LARGEST = 1e150  # value of a feature that can be squared


def learn_encoders(contexts: Contexts) -> tuple[Encoder, ...]:
    """How the features of these contexts become columns; features that never vary are left out."""
    out: list[Encoder] = []
    for j, (name, labels) in enumerate(zip(contexts.names, contexts.categories, strict=True)):
        column = contexts.features[:, j]
        if labels is not None:
            present = tuple(label for code, label in enumerate(labels) if (column == code).any())
            out.extend([Category(name, present)] if len(present) > 1 else [])
            continue
        if np.abs(column).max(initial=0.0) > _LARGEST:
            raise InputError(f"feature '{name}' has values beyond {_LARGEST:g}, whose spread is no number; rescale it")
        centre = float(contexts.weights @ column)
        spread = float(np.sqrt(contexts.weights @ (column - centre) ** 2))
        if spread > 1e-12 * (1.0 + abs(centre)):
            out.append(Number(name, centre, spread))
    return tuple(out)


@dataclass(frozen=True, eq=False)
class Crossed:
    """Every column x(c) of the contexts (a constant first) times every feature z(a) of the actions.

        φ(c, a) = x(c) ⊗ z(a),   ⟨φ(c, a), θ⟩ = x(c)ᵀ Θ z(a),   Θ of shape (columns, k)

    encoders: how features become columns. table (A, k): z of every action.
    """

    encoders: tuple[Encoder, ...]
    table: FloatArray

    kind = "crossed"

    def __post_init__(self) -> None:
        table = floats(self.table, name="features of actions", shape=(None, None))
        if 0 in table.shape:
            raise InputError(f"features of actions have shape {table.shape}; at least one of each is needed")
        object.__setattr__(self, "table", table)

    @classmethod
    def blocks(cls, contexts: Contexts, *, n_actions: int, relative: bool = False) -> Crossed:
        """A block of coefficients for each action; relative: none for the first, whose score is 0.

        Policies only see differences of scores, and need no block for the first action. Rewards do.
        """
        return cls(learn_encoders(contexts), np.eye(n_actions)[:, 1 if relative and n_actions > 1 else 0 :])

    @classmethod
    def shared(cls, contexts: Contexts, action_features: ArrayLike) -> Crossed:
        """Coefficients shared by all actions, which differ by features (A, k) of their own."""
        return cls(learn_encoders(contexts), floats(action_features, name="features of actions", shape=(None, None)))

    @property
    def n_actions(self) -> int:
        return self.table.shape[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """What the columns x(c) are."""
        return ("1", *(name for encoder in self.encoders for name in encoder.names))

    @property
    def dimension(self) -> int:
        return len(self.columns) * self.table.shape[1]

    @property
    def names(self) -> tuple[str, ...]:
        own = [f"action {int(z.argmax())}" if self._one_hot else f"z{j}" for j, z in enumerate(self.table.T)]
        return tuple(f"{column} × {name}" for column in self.columns for name in own)

    @property
    def _one_hot(self) -> bool:
        return bool(((self.table == 0) | (self.table == 1)).all() and (self.table.sum(axis=0) == 1).all())

    def encode(self, contexts: Contexts) -> FloatArray:
        """The columns x(c), (n, 1 + …)."""
        columns = [column for encoder in self.encoders for column in encoder.columns(contexts)]
        return np.column_stack([np.ones(len(contexts)), *columns])

    def on(self, contexts: Contexts) -> CrossedOn:
        return CrossedOn(self.encode(contexts), self.table)

    def __call__(self, contexts: Contexts) -> FloatArray:
        x = self.encode(contexts)
        return np.einsum("nu,ak->nauk", x, self.table).reshape(len(x), self.n_actions, -1)

    def played(self, contexts: Contexts, actions: IntArray) -> FloatArray:
        x = self.encode(contexts)
        return np.einsum("nu,nk->nuk", x, self.table[actions]).reshape(len(x), -1)

    def to_json(self) -> dict[str, Any]:
        encoders = [encoder.to_json() for encoder in self.encoders]
        return {"kind": self.kind, "encoders": encoders, "actions": self.table.tolist()}


@dataclass(frozen=True, eq=False)
class Given:
    """φ as the contexts carry it."""

    n_actions: int
    dimension: int

    kind = "given"

    @classmethod
    def learn(cls, contexts: Contexts, *, n_actions: int) -> Given:
        """For contexts with φ like these."""
        phi = contexts.require_phi(n_actions=n_actions)
        if not phi.table[phi.rows].any():
            raise InputError("phi is zero everywhere, so nothing depends on the action; give other features")
        return cls(n_actions, phi.dimension)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"φ{j}" for j in range(self.dimension))

    def on(self, contexts: Contexts) -> GivenOn:
        return GivenOn(self(contexts))

    def __call__(self, contexts: Contexts) -> FloatArray:
        return self._phi(contexts).array

    def played(self, contexts: Contexts, actions: IntArray) -> FloatArray:
        phi = self._phi(contexts)
        return phi.table[phi.rows, actions]

    def _phi(self, contexts: Contexts) -> Phi:
        phi = contexts.require_phi(n_actions=self.n_actions)
        if phi.dimension != self.dimension:
            raise InputError(f"phi has {phi.dimension} features, but {self.dimension} are needed")
        return phi

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "n_actions": self.n_actions, "dimension": self.dimension}


@dataclass(frozen=True, eq=False)
class CrossedOn:
    """x(c) ⊗ z(a), kept apart: x (n, u), z (A, k)."""

    x: FloatArray
    z: FloatArray

    def scores(self, parameter: FloatArray) -> FloatArray:
        return self.x @ (parameter.reshape(self.x.shape[1], -1) @ self.z.T)

    def pull(self, weights: FloatArray) -> FloatArray:
        return (self.x.T @ (weights @ self.z)).reshape(-1)


@dataclass(frozen=True, eq=False)
class GivenOn:
    """φ (n, A, d) spelled out."""

    phi: FloatArray

    def scores(self, parameter: FloatArray) -> FloatArray:
        return self.phi @ parameter

    def pull(self, weights: FloatArray) -> FloatArray:
        return weights.reshape(-1) @ self.phi.reshape(-1, self.phi.shape[2])


def map_for(contexts: Contexts, *, n_actions: int, relative: bool) -> FeatureMap:
    """The feature map that fits contexts: φ where they carry it, else a block for each action."""
    if contexts.phi is not None:
        return Given.learn(contexts, n_actions=n_actions)
    if contexts.n_features == 0:
        raise InputError("linear scores need features, but the contexts have neither features nor phi")
    return Crossed.blocks(contexts, n_actions=n_actions, relative=relative)


def map_from_json(value: object) -> FeatureMap:
    """The feature map that `to_json` described, or a sentence."""
    given = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    try:
        if given.get("kind") == Given.kind:
            n_actions, dimension = given["n_actions"], given["dimension"]
            return Given(whole_number(n_actions, name="n_actions"), whole_number(dimension, name="dimension"))
        if given.get("kind") == Crossed.kind:
            return Crossed(tuple(_encoder(one) for one in given["encoders"]), given["actions"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the feature map in JSON cannot be read: {error}") from None
    raise InputError("a feature map in JSON must be an object of kind crossed or given")


def _encoder(value: dict[str, Any]) -> Encoder:
    if "labels" in value:
        return Category(str(value["feature"]), tuple(str(label) for label in value["labels"]))
    numbers = floats([value["centre"], value["spread"]], name="centre and spread", shape=(2,))
    if numbers[1] <= 0:
        raise InputError(f"the spread of feature '{value['feature']}' must be positive, got {numbers[1]}")
    return Number(str(value["feature"]), float(numbers[0]), float(numbers[1]))

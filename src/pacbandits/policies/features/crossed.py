"""Feature maps: φ as features of contexts times features of actions, and φ given with the contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.checks import entries, flag, settle, shown
from pacbandits.errors import InputError, plain
from pacbandits.policies.base import check_n_actions
from pacbandits.policies.decisions import Indicator, Inputs, Standardised, Term
from pacbandits.policies.features.maps import (
    MAX_STORED_DIMENSION,
    CrossedRows,
    FeatureMap,
    SpelledRows,
    for_kernels,
    is_blocks,
)
from pacbandits.records.columns import present_numbers
from pacbandits.records.contexts import Contexts, Phi, check_contexts
from pacbandits.schema import Fields, whole_number

# Encoders of context features as columns of a linear model: numbers standardised, labels as 0/1 indicators.


MAX_LABELS_NEVER_MET = 1_000  # per category, as each is a column of zeros
_LARGEST_SQUARABLE_VALUE = 1e150


@dataclass(frozen=True)
class NumberEncoder:
    """A numeric feature, standardised with the centre and spread of the contexts it was learnt from.

    feature: its name.
    centre: subtracted from the value.
    spread: divides the difference.
    """

    feature: str
    centre: float
    spread: float

    def columns(self, contexts: Contexts) -> list[FloatArray]:
        own = present_numbers(contexts, contexts.column_of(self.feature, categorical=False), by="a linear model")
        return [(own - self.centre) / self.spread]

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each column."""
        return (plain(self.feature),)

    @property
    def factors(self) -> tuple[str, ...]:
        """The text of each column as a factor in a sum."""
        return self.names

    @property
    def plain_columns(self) -> tuple[Standardised, ...]:
        """Each column as plain data for export."""
        return (Standardised(self.feature, self.centre, self.spread),)

    def inputs(self) -> Inputs:
        """Return its only input, the number."""
        return Inputs(numbers=(self.feature,))

    def describe(self) -> str:
        return f"{plain(self.feature)} is (its value − {self.centre:.6g})/{self.spread:.6g}"

    def to_json(self) -> dict[str, Any]:
        return {"feature": self.feature, "centre": self.centre, "spread": self.spread}

    @classmethod
    def from_json(cls, given: Fields) -> NumberEncoder:
        given.check_known(("feature", "centre", "spread"))
        largest = _LARGEST_SQUARABLE_VALUE
        centre = given.number("centre", least=-largest, most=largest)
        return cls(given.text("feature"), centre, given.number("spread", least=1.0 / largest, most=largest))


@dataclass(frozen=True)
class Category:
    """A categorical feature as one 0/1 column for every label but the first; an unknown label is coded like the first.

    feature: its name.
    labels: the labels seen when it was learnt.
    """

    feature: str
    labels: tuple[str, ...]

    def columns(self, contexts: Contexts) -> list[FloatArray]:
        column = contexts.column_of(self.feature, categorical=True)
        own, labels = contexts.features[:, column], contexts.categories[column] or ()
        if len(self.labels) > len(labels) + MAX_LABELS_NEVER_MET:
            raise InputError(
                f"{len(self.labels):,} labels of '{plain(self.feature)}' are in the feature map, but the contexts "
                f"have {len(labels):,}; use contexts like those that were learnt from"
            )
        codes = [labels.index(label) if label in labels else -1 for label in self.labels[1:]]
        return [(own == code).astype(np.float64) for code in codes]

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each column."""
        return tuple(f"{plain(self.feature)} is {plain(label)}" for label in self.labels[1:])

    @property
    def factors(self) -> tuple[str, ...]:
        """The text of each column as a factor in a sum."""
        return tuple(f"[{name}]" for name in self.names)

    @property
    def plain_columns(self) -> tuple[Indicator, ...]:
        """Each column as plain data for export."""
        return tuple(Indicator(self.feature, label) for label in self.labels[1:])

    def inputs(self) -> Inputs:
        """Return its only input, the label."""
        return Inputs(labels=(self.feature,))

    def describe(self) -> str:
        return f"[{plain(self.feature)} is …] is 1 or 0"

    def to_json(self) -> dict[str, Any]:
        return {"feature": self.feature, "labels": list(self.labels)}

    @classmethod
    def from_json(cls, given: Fields) -> Category:
        given.check_known(("feature", "labels"))
        return cls(given.text("feature"), given.texts("labels"))


Encoder = NumberEncoder | Category


def learn_encoders(contexts: Contexts) -> tuple[Encoder, ...]:
    """Return an encoder for each feature of these contexts; features that never vary are left out."""
    out: list[Encoder] = []
    for j, (name, labels) in enumerate(zip(contexts.names, contexts.categories, strict=True)):
        column = contexts.features[:, j]
        if labels is not None:
            present = tuple(label for code, label in enumerate(labels) if (column == code).any())
            out.extend([Category(name, present)] if len(present) > 1 else [])
            continue
        present_numbers(contexts, j, by="a linear model")
        if np.abs(column).max(initial=0.0) > _LARGEST_SQUARABLE_VALUE:
            beyond = f"beyond {_LARGEST_SQUARABLE_VALUE:g}"
            raise InputError(f"feature '{name}' has values {beyond}, whose spread is no number; rescale it")
        centre = float(contexts.weights @ column)
        spread = float(np.sqrt(contexts.weights @ (column - centre) ** 2))
        if spread > 1e-12 * (1.0 + abs(centre)):
            out.append(NumberEncoder(name, centre, spread))
    return tuple(out)


def encoder_from_json(value: object) -> Encoder:
    """Read an encoder from the output of its `to_json`."""
    given = Fields.read(value, of="encoder")
    return Category.from_json(given) if "labels" in given else NumberEncoder.from_json(given)


# Linear scores in words.


_SHOWN_TERMS = 6


def sum_in_words(terms: Sequence[tuple[int, str]]) -> str:
    """Return a sum such as `3 − 2·age + 1·[region is north]`: the constant first, then the largest terms."""
    constant = [term for term in terms if term[0] and not term[1]]
    others = sorted((term for term in terms if term[0] and term[1]), key=lambda term: -abs(term[0]))
    kept = (constant + others)[:_SHOWN_TERMS]
    text = "0"
    for place, (factor, word) in enumerate(kept):
        size = f"{abs(factor)}·{word}" if word else f"{abs(factor)}"
        if place == 0:
            text = size if factor > 0 else f"−{size}"
        else:
            text += f" {'+' if factor > 0 else '−'} {size}"
    rest = len(constant) + len(others) - len(kept)
    return text + (f" … and {rest} more" if rest else "")


def largest_in_words(names: Sequence[str], parameter: Sequence[int]) -> str:
    """Describe the policy that takes the action of largest score, with coordinates by name."""
    return f"the action of largest {sum_in_words([(one, f'[{names[j]}]') for j, one in enumerate(parameter)])}"


def scales_in_words(encoders: Iterable[Encoder]) -> list[str]:
    """Return one line that gives the centre and spread of the encoders, or none."""
    said = "; ".join(encoder.describe() for encoder in encoders)
    return [f"features are standardised: {said}"] if said else []


_REPEATS_LOOK_ROWS = 1_000  # sampled to detect whether many rows are equal


@dataclass(frozen=True, eq=False)
class Crossed:
    """The product of every column x(c) of the contexts (a constant first) and every feature z(a) of the actions.

        φ(c, a) = x(c) ⊗ z(a),   ⟨φ(c, a), θ⟩ = x(c)ᵀ Θ z(a),   Θ of shape (columns, k)

    encoders: encode features as columns.
    table (A, k): z of every action.
    """

    encoders: tuple[Encoder, ...]
    table: FloatArray

    kind = "crossed"

    def __post_init__(self) -> None:
        encoders = entries(self.encoders, name="encoders")
        strange = [one for one in encoders if not isinstance(one, Encoder)]
        if strange:
            raise InputError(f"encoders must be such as Crossed.blocks makes, got {shown(strange[0])}")
        settle(self, encoders=encoders)
        table = floats(self.table, name="features of actions", shape=(None, None))
        if 0 in table.shape:
            raise InputError(f"features of actions have shape {table.shape}; at least one of each is needed")
        settle(self, table=table)

    @classmethod
    def blocks(cls, contexts: Contexts, *, n_actions: int, relative: bool = False) -> Crossed:
        """Return a map with a block of coefficients for each action; relative: none for the first, whose score is 0.

        Policies depend only on differences of scores, and need no block for the first action. Rewards do.
        """
        n_actions, relative = check_n_actions(n_actions), flag(relative, name="relative")
        table = np.eye(n_actions)[:, 1 if relative and n_actions > 1 else 0 :]
        return cls(learn_encoders(check_contexts(contexts)), table)

    @classmethod
    def shared(cls, contexts: Contexts, action_features: ArrayLike) -> Crossed:
        """Return a map with coefficients shared by all actions, which differ by their own features (A, k)."""
        check_contexts(contexts)
        return cls(learn_encoders(contexts), floats(action_features, name="features of actions", shape=(None, None)))

    @property
    def n_actions(self) -> int:
        return self.table.shape[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns x(c)."""
        return ("1", *(name for encoder in self.encoders for name in encoder.names))

    @property
    def dimension(self) -> int:
        return len(self.columns) * self.table.shape[1]

    @property
    def in_blocks(self) -> bool:
        return is_blocks(self.table)

    @property
    def names(self) -> tuple[str, ...]:
        own = [f"action {int(z.argmax())}" if self._one_hot else f"z{j}" for j, z in enumerate(self.table.T)]
        return tuple(f"{column} × {name}" for column in self.columns for name in own)

    @property
    def _one_hot(self) -> bool:
        return bool(((self.table == 0) | (self.table == 1)).all() and (self.table.sum(axis=0) == 1).all())

    def encode(self, contexts: Contexts) -> FloatArray:
        """Return the columns x(c), (n, 1 + …)."""
        columns = [column for encoder in self.encoders for column in encoder.columns(contexts)]
        return np.column_stack([np.ones(len(contexts)), *columns])

    def on(self, contexts: Contexts) -> CrossedRows:
        return CrossedRows(self.encode(contexts), self.table)

    def __call__(self, contexts: Contexts) -> FloatArray:
        x = self.encode(contexts)
        return np.einsum("nu,ak->nauk", x, self.table).reshape(len(x), self.n_actions, -1)

    def played(self, contexts: Contexts, actions: IntArray) -> FloatArray:
        x = self.encode(contexts)
        return np.einsum("nu,nk->nuk", x, self.table[actions]).reshape(len(x), -1)

    def check_effect(self) -> None:
        if not self.table.any():
            raise InputError("the features of all actions are zero, so nothing depends on the action; give others")

    def lay_out(self, contexts: Contexts) -> tuple[CrossedRows, IntArray | None]:
        x = self.encode(contexts)
        rows, which = _merged(x)
        return CrossedRows(for_kernels(x[rows]), for_kernels(self.table)), which

    def describe_columns(self) -> list[str]:
        return scales_in_words(self.encoders)

    def describe_scores(self, parameter: Sequence[int]) -> list[str]:
        if not self.in_blocks:
            return [largest_in_words(self.names, parameter), *scales_in_words(self.encoders)]
        block_of = {int(a): k for k, a in enumerate(self.table.argmax(axis=0))}
        matrix = np.array(parameter).reshape(len(self.columns), -1)
        factors = ("", *(factor for encoder in self.encoders for factor in encoder.factors))
        out = ["the action of the largest score, of equals the first:"]
        for a in range(self.n_actions):
            terms = zip(matrix[:, block_of[a]].tolist(), factors, strict=True) if a in block_of else ()
            out.append(f"action {a}: {sum_in_words(list(terms))}")
        of_columns = [place for place, encoder in enumerate(self.encoders) for _ in encoder.names]
        used = {place for place, row in zip(of_columns, matrix[1:], strict=True) if row.any()}
        return [*out, *scales_in_words([self.encoders[place] for place in sorted(used)])]

    def inputs(self) -> Inputs:
        """Return the features that are encoded."""
        out = Inputs()
        for encoder in self.encoders:
            out |= encoder.inputs()
        return out

    def score_terms(self, parameter: Sequence[int]) -> tuple[tuple[Term, ...], ...]:
        columns = [None, *(column for encoder in self.encoders for column in encoder.plain_columns)]
        width: int = self.table.shape[1]
        out: list[list[Term]] = [[] for _ in range(self.n_actions)]
        for place, theta in enumerate(parameter):
            for action, feature in enumerate(self.table[:, place % width].tolist() if theta else ()):
                if feature:
                    out[action].append(Term(columns[place // width], feature, float(theta)))
        return tuple(tuple(terms) for terms in out)

    def to_json(self) -> dict[str, Any]:
        encoders = [encoder.to_json() for encoder in self.encoders]
        return {"kind": self.kind, "encoders": encoders, "actions": self.table.tolist()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Crossed:
        given = Fields.read(value, of="feature map")
        given.check_known(("kind", "encoders", "actions"))
        encoders = tuple(encoder_from_json(one) for one in given.items("encoders"))
        if len({encoder.feature for encoder in encoders}) < len(encoders):
            raise InputError("the feature map has two encoders of one feature")
        made = cls(encoders, np.array(given.number_rows("actions"), dtype=np.float64))
        columns = 1 + sum(len(encoder.names) for encoder in encoders)
        whole_number(columns * made.table.shape[1], name="the dimension of the feature map", most=MAX_STORED_DIMENSION)
        return made


def _merged(x: FloatArray) -> tuple[IntArray | slice, IntArray | None]:
    """Return the index of the first of each set of equal rows, and the set of each row; no merging if few are equal."""
    look = x[:: max(1, len(x) // _REPEATS_LOOK_ROWS)]
    if len(np.unique(look, axis=0)) > len(look) / 2:
        return slice(None), None
    _, first, which = np.unique(x, axis=0, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


# φ given with the contexts.


@dataclass(frozen=True, eq=False)
class Given:
    """φ given with the contexts.

    n_actions: the number of actions it must have.
    dimension: the number of features.
    """

    n_actions: int
    dimension: int

    kind = "given"

    def __post_init__(self) -> None:
        settle(self, n_actions=check_n_actions(self.n_actions))
        settle(self, dimension=whole_number(self.dimension, name="dimension", least=1))

    @classmethod
    def learn(cls, contexts: Contexts, *, n_actions: int) -> Given:
        """Return the map for contexts that carry φ with the same dimension as these; raise InputError if φ is zero."""
        phi = check_contexts(contexts).require_phi(n_actions=check_n_actions(n_actions))
        if not phi.table[phi.rows].any():
            raise InputError("phi is zero everywhere, so nothing depends on the action; give other features")
        return cls(n_actions, phi.dimension)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"φ{j}" for j in range(self.dimension))

    def on(self, contexts: Contexts) -> SpelledRows:
        return SpelledRows(self(contexts))

    def __call__(self, contexts: Contexts) -> FloatArray:
        return self._phi(contexts).array

    def played(self, contexts: Contexts, actions: IntArray) -> FloatArray:
        phi = self._phi(contexts)
        return phi.table[phi.rows, actions]

    def inputs(self) -> Inputs:
        """Return its only input, φ."""
        return Inputs(phi=True)

    def check_effect(self) -> None:
        """Do nothing: φ comes with the contexts."""

    def lay_out(self, contexts: Contexts) -> tuple[SpelledRows, IntArray | None]:
        phi = self._phi(contexts)
        used, which = np.unique(phi.rows, return_inverse=True)
        own = np.array_equal(which, np.arange(len(contexts)))
        table = phi.table if len(used) == len(phi.table) else phi.table[used]
        return SpelledRows(for_kernels(table)), None if own else which.reshape(-1)

    def describe_columns(self) -> list[str]:
        return [f"φ is what the contexts carry, {self.dimension} features"]

    def describe_scores(self, parameter: Sequence[int]) -> list[str]:
        return [largest_in_words(self.names, parameter)]

    def _phi(self, contexts: Contexts) -> Phi:
        phi = contexts.require_phi(n_actions=self.n_actions)
        if phi.dimension != self.dimension:
            raise InputError(f"phi has {phi.dimension} features, but {self.dimension} are needed")
        return phi

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "n_actions": self.n_actions, "dimension": self.dimension}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Given:
        given = Fields.read(value, of="feature map")
        given.check_known(("kind", "n_actions", "dimension"))
        dimension = given.whole_number("dimension", least=1, most=MAX_STORED_DIMENSION)
        return cls(given.whole_number("n_actions", least=1), dimension)


# Feature maps by kind, and the default map for contexts.


# The kinds that a file may contain.
MAPS: dict[str, Callable[[dict[str, Any]], FeatureMap]] = {
    Crossed.kind: Crossed.from_json,
    Given.kind: Given.from_json,
}


def map_for(contexts: Contexts, *, n_actions: int, relative: bool) -> FeatureMap:
    """Return the default feature map for contexts: φ if they carry it, else a block for each action."""
    if contexts.phi is not None:
        return Given.learn(contexts, n_actions=n_actions)
    if contexts.n_features == 0:
        raise InputError("linear scores need features, but the contexts have neither features nor phi")
    return Crossed.blocks(contexts, n_actions=n_actions, relative=relative)


def map_from_json(value: object) -> FeatureMap:
    """Read a feature map from the output of its `to_json`; raise InputError if it is invalid."""
    given = Fields.read(value, of="feature map")
    return MAPS[given.one_of("kind", MAPS)](dict(given.given))

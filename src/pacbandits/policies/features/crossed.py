"""φ as features of contexts times features of actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.checks import entries, flag, settle, shown
from pacbandits.errors import InputError
from pacbandits.fields import Fields, whole_number
from pacbandits.policies.base import check_n_actions
from pacbandits.policies.decisions import Inputs, Term
from pacbandits.policies.features.encoders import Encoder, encoder_from_json, learn_encoders
from pacbandits.policies.features.maps import MAX_STORED_DIMENSION
from pacbandits.policies.features.rows import CrossedRows, for_kernels, is_blocks
from pacbandits.policies.features.words import largest_in_words, scales_in_words, sum_in_words
from pacbandits.records import Contexts, check_contexts

_REPEATS_LOOK_ROWS = 1_000  # by which to tell whether many rows are alike


@dataclass(frozen=True, eq=False)
class Crossed:
    """Every column x(c) of the contexts (a constant first) times every feature z(a) of the actions.

        φ(c, a) = x(c) ⊗ z(a),   ⟨φ(c, a), θ⟩ = x(c)ᵀ Θ z(a),   Θ of shape (columns, k)

    encoders: how features become columns.
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
        """A block of coefficients for each action; relative: none for the first, whose score is 0.

        Policies only see differences of scores, and need no block for the first action. Rewards do.
        """
        n_actions, relative = check_n_actions(n_actions), flag(relative, name="relative")
        table = np.eye(n_actions)[:, 1 if relative and n_actions > 1 else 0 :]
        return cls(learn_encoders(check_contexts(contexts)), table)

    @classmethod
    def shared(cls, contexts: Contexts, action_features: ArrayLike) -> Crossed:
        """Coefficients shared by all actions, which differ by features (A, k) of their own."""
        check_contexts(contexts)
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
        """The columns x(c), (n, 1 + …)."""
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
        """The features that are encoded."""
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
    """The first of each set of equal rows, and which each row is, where there seem to be many."""
    look = x[:: max(1, len(x) // _REPEATS_LOOK_ROWS)]
    if len(np.unique(look, axis=0)) > len(look) / 2:
        return slice(None), None
    _, first, which = np.unique(x, axis=0, return_index=True, return_inverse=True)
    return first, which.reshape(-1)

"""φ(c, a): features of a context and an action together, where actions have features of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.errors import InputError

_BLOCK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Phi:
    """φ of n contexts, as rows of a table, so that many draws of few contexts take little room.

    table (m, A, d): φ of the different contexts.
    rows (n,): which of them each context is.
    """

    table: FloatArray
    rows: IntArray

    @classmethod
    def of(cls, array: ArrayLike, *, n: int) -> Phi:
        """φ from an array (n, A, d), checked."""
        table = floats(array, name="phi", shape=(n, None, None))
        if 0 in table.shape:
            raise InputError(f"phi has shape {table.shape}; at least one context, action and feature are needed")
        return cls(table, np.arange(n))

    @property
    def n_actions(self) -> int:
        return self.table.shape[1]

    @property
    def dimension(self) -> int:
        return self.table.shape[2]

    @property
    def array(self) -> FloatArray:
        """φ (n, A, d)."""
        return self.table if len(self.rows) == len(self.table) and self._whole() else self.table[self.rows]

    @cached_property
    def codes(self) -> IntArray:
        """A number (n,) that two rows share when their φ is the same."""
        _, kinds = np.unique(self.table.reshape(len(self.table), -1), axis=0, return_inverse=True)
        return kinds.reshape(-1)[self.rows]

    def blocks(self) -> Iterator[FloatArray]:
        """φ (·, A, d) in blocks of rows, as all of it at once may be much."""
        for start in range(0, len(self.rows), _BLOCK_ROWS):
            yield self.table[self.rows[start : start + _BLOCK_ROWS]]

    def take(self, rows: IntArray) -> Phi:
        """The given rows."""
        return Phi(self.table, self.rows[rows])

    def followed_by(self, other: Phi) -> Phi:
        """These rows and then the other's."""
        if self.table is other.table:
            return Phi(self.table, np.concatenate([self.rows, other.rows]))
        if self.table.shape[1:] != other.table.shape[1:]:
            raise InputError(
                f"phi of {other.n_actions} actions and {other.dimension} features cannot join that of "
                f"{self.n_actions} and {self.dimension}"
            )
        tables = np.concatenate([self.table, other.table])
        return Phi(tables, np.concatenate([self.rows, len(self.table) + other.rows]))

    def _whole(self) -> bool:
        return bool((self.rows == np.arange(len(self.table))).all())


def joined_phi(first: Phi | None, second: Phi | None) -> Phi | None:
    """The rows of one and then of the other; a sentence when only one has φ."""
    if (first is None) != (second is None):
        raise InputError("contexts with phi cannot join contexts without; give phi to both, or to neither")
    return None if first is None or second is None else first.followed_by(second)

"""Contexts: units to treat, with their features and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, IntArray, floats, floats_or_missing, integers, probabilities
from pacbandits.checks import entries, instance, settle, texts, whole_number
from pacbandits.errors import InputError, nearest, plain
from pacbandits.records.column_types import leave_out_identifiers, read_written, spread_dates
from pacbandits.records.columns import (
    ID_COLUMN,
    PHI_COLUMN,
    SOMEWHERE,
    WEIGHT_COLUMN,
    CellNames,
    Columns,
    comparable,
    dictionary,
    label_missing,
    pop_cube,
    pop_features,
    pop_floats,
    pop_integers,
)
from pacbandits.records.text_files import naming

# φ(c, a): features of a context and an action together.


_BLOCK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Phi:
    """φ of n contexts, as rows of a table, so that many draws of few contexts take little memory.

    table (m, A, d): φ of the distinct contexts.
    rows (n,): the table row of each context.
    """

    table: FloatArray
    rows: IntArray

    @classmethod
    def of(cls, array: ArrayLike, *, n: int) -> Phi:
        """Return φ from an array (n, A, d), checked."""
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
        """Codes (n,) that are equal for rows with the same φ."""
        _, kinds = np.unique(self.table.reshape(len(self.table), -1), axis=0, return_inverse=True)
        return kinds.reshape(-1)[self.rows]

    def blocks(self) -> Iterator[FloatArray]:
        """Yield φ (·, A, d) in blocks of rows, as the whole array may be large."""
        for start in range(0, len(self.rows), _BLOCK_ROWS):
            yield self.table[self.rows[start : start + _BLOCK_ROWS]]

    def take(self, rows: IntArray) -> Phi:
        """Return the given rows."""
        return Phi(self.table, self.rows[rows])

    def followed_by(self, other: Phi) -> Phi:
        """Return these rows followed by the other's."""
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
    """Return the rows of one followed by the other's; raise InputError if only one has φ."""
    if (first is None) != (second is None):
        raise InputError("contexts with phi cannot join contexts without; give phi to both, or to neither")
    return None if first is None or second is None else first.followed_by(second)


@dataclass(frozen=True, eq=False)
class Contexts:
    """n contexts with d features each.

    features (n, d): numbers, NaN where one is missing; a categorical feature holds codes into its `categories`.
    names (d,): the names of the features.
    categories (d,): the labels of a categorical feature, None for a number.
    ids (n,): the element of a finite context set that each row is, for classes that are tables over that set; or None.
    weights (n,): probabilities of the rows; 1/n each for a sample.
    phi: features (n, A, k) of each context and action together, for linear policies and linear rewards; or None.
    """

    features: FloatArray
    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]
    ids: IntArray | None
    weights: FloatArray
    phi: Phi | None = None

    def __post_init__(self) -> None:
        features = floats_or_missing(self.features, name="features", shape=(None, None))
        n, d = features.shape
        if n == 0:
            raise InputError("there are no contexts; at least one row is needed")
        names = texts(self.names, name="names of features")
        settle(self, names=names, categories=_labels(self.categories))
        if len(self.names) != d or len(set(self.names)) != d:
            raise InputError(f"{d} features need {d} distinct names, got {plain(list(self.names))}")
        if len(self.categories) != d:
            raise InputError(f"{d} features need {d} entries in categories, got {len(self.categories)}")
        for j, labels in enumerate(self.categories):
            if labels is not None:
                name = plain(self.names[j])
                integers(features[:, j], name=f"codes of feature '{name}'", shape=(n,), below=len(labels))
                if len(set(labels)) != len(labels):
                    raise InputError(f"the labels of feature '{name}' must differ, got {plain(labels)}")
        settle(self, features=features, weights=probabilities(self.weights, name="context_weights", size=n))
        if self.ids is not None:
            settle(self, ids=integers(self.ids, name="context ids", shape=(n,)))
        if (
            self.phi is not None
            and len(instance(self.phi, Phi, name="phi", remedy="Contexts.of takes arrays").rows) != n
        ):
            raise InputError(f"phi is of {len(self.phi.rows)} contexts, but there are {n}")

    def __len__(self) -> int:
        return self.features.shape[0]

    @property
    def n_features(self) -> int:
        return self.features.shape[1]

    def with_rows(self, features: FloatArray, ids: IntArray | None) -> Contexts:
        """Return other contexts of the same columns, without φ, of weight 1/n each; nothing is checked."""
        made, weights = object.__new__(Contexts), np.full(len(features), 1.0 / len(features))
        settle(
            made, features=features, names=self.names, categories=self.categories, ids=ids, weights=weights, phi=None
        )
        return made

    @classmethod
    def finite(cls, n: int, *, weights: ArrayLike | None = None, phi: ArrayLike | None = None) -> Contexts:
        """Return the n elements of a finite context set, with ids 0 to n − 1, and φ if given."""
        count = whole_number(n, name="n, the number of contexts,", least=1)
        return cls.of(np.empty((count, 0)), ids=np.arange(count), weights=weights, phi=phi)

    @classmethod
    def of(
        cls,
        features: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        categories: Sequence[Sequence[str] | None] | None = None,
        ids: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        phi: ArrayLike | None = None,
    ) -> Contexts:
        """Return contexts from features (n, d) and phi (n, A, k); names default to x0, x1, …, weights to 1/n.

        A number that is NaN or None is missing. A missing code becomes a label "missing", after the others.

        >>> import pacbandits as pb
        >>> labels = [None, ("phone", "desktop")]  # age is a number, device holds codes into these
        >>> contexts = pb.Contexts.of([[20, 0], [40, 1]], names=["age", "device"], categories=labels)
        >>> len(contexts), contexts.names
        (2, ('age', 'device'))
        """
        array = floats_or_missing(features, name="features", shape=(None, None))
        n, d = array.shape
        labels = (None,) * d if categories is None else _labels(categories)
        if len(labels) == d:
            array, labels = label_missing(array, labels)
        equal = np.full(n, 1.0 / max(n, 1))
        return cls(
            features=array,
            names=tuple(f"x{j}" for j in range(d)) if names is None else texts(names, name="names of features"),
            categories=labels,
            ids=None if ids is None else integers(ids, name="context ids", shape=(n,)),
            weights=equal if weights is None else floats(weights, name="context_weights", shape=(n,)),
            phi=None if phi is None else Phi.of(phi, n=n),
        )

    def take(self, rows: ArrayLike) -> Contexts:
        """Return the given rows (with repetition) with equal weights, as for a draw from a population."""
        index = integers(rows, name="rows", shape=(None,), below=len(self))
        return Contexts(
            features=self.features[index],
            names=self.names,
            categories=self.categories,
            ids=None if self.ids is None else self.ids[index],
            weights=np.full(len(index), 1.0 / max(len(index), 1)),
            phi=None if self.phi is None else self.phi.take(index),
        )

    def without_feature(self, name: str) -> Contexts:
        """Return the contexts without a feature; the same ones if they do not have it."""
        if name not in self.names:
            return self
        kept = [j for j, other in enumerate(self.names) if other != name]
        return replace(
            self,
            features=self.features[:, kept],
            names=tuple(self.names[j] for j in kept),
            categories=tuple(self.categories[j] for j in kept),
        )

    def only(self, rows: BoolArray) -> Contexts:
        """Return the rows (n,) marked true, with their weights; rows left out should have weight 0."""
        if rows.all():
            return self
        return Contexts(
            features=self.features[rows],
            names=self.names,
            categories=self.categories,
            ids=None if self.ids is None else self.ids[rows],
            weights=self.weights[rows],
            phi=None if self.phi is None else self.phi.take(np.flatnonzero(rows)),
        )

    def with_labels_seen(self) -> Contexts:
        """Return the same rows with only the labels that occur in them, in alphabetical order.

        `take` and `only` keep the labels of the whole table, and with them information about other rows. A model learnt
        from the returned contexts depends on their rows alone, as does the order of their labels.
        """
        features, categories = self.features.copy(), list(self.categories)
        for j, labels in enumerate(self.categories):
            if labels is not None:
                codes, which = np.unique(self.features[:, j].astype(np.int64), return_inverse=True)
                seen = [labels[int(code)] for code in codes]
                categories[j] = kept = tuple(sorted(seen))
                place = {label: k for k, label in enumerate(kept)}
                features[:, j] = np.array([place[label] for label in seen], dtype=np.float64)[which.reshape(-1)]
        return Contexts(features, self.names, tuple(categories), self.ids, self.weights, self.phi)

    def tallied(self) -> Contexts:
        """Return the same distribution with one row for each id."""
        if self.ids is None:
            return self
        ids, first, which = np.unique(self.ids, return_index=True, return_inverse=True)
        if len(ids) == len(self):
            return self
        weights = np.bincount(which, weights=self.weights)
        phi = None if self.phi is None else self.phi.take(first)
        return Contexts(self.features[first], self.names, self.categories, ids, weights / weights.sum(), phi)

    def distinct(self) -> tuple[IntArray, IntArray]:
        """Return the first row of each of the m distinct contexts (m,), and for every row which of them it is (n,).

        Contexts are the same if their ids are; without ids, if their features and φ are.
        """
        key = comparable(self.features) if self.ids is None else self.ids
        if self.phi is not None and self.ids is None:
            key = np.column_stack([key, self.phi.codes])
        _, first, which = np.unique(key, axis=0, return_index=True, return_inverse=True)
        return first, which.reshape(-1)

    def joined(self, other: Contexts) -> tuple[Contexts, IntArray]:
        """Return these contexts followed by `other`'s new ones, with weight 0, and where other's rows are.

        Contexts are the same if their ids are; without ids, all of other's are added.
        """
        if (self.names, self.categories) != (other.names, other.categories):
            theirs, own = plain(list(other.names)), plain(list(self.names))
            raise InputError(f"contexts with features {theirs} cannot join those with {own}")
        if self.ids is None or other.ids is None:
            fresh, where = np.arange(len(other)), len(self) + np.arange(len(other))
        else:
            known, first = np.unique(self.ids, return_index=True)
            ids, new, which = np.unique(other.ids, return_index=True, return_inverse=True)
            spot = np.minimum(np.searchsorted(known, ids), len(known) - 1)
            among = known[spot] == ids
            place = np.where(among, first[spot], len(self) + np.cumsum(~among) - 1)
            fresh, where = new[~among], place[which]
        if len(fresh) == 0:
            return self, where
        both = Contexts(
            features=np.concatenate([self.features, other.features[fresh]]),
            names=self.names,
            categories=self.categories,
            ids=None if self.ids is None or other.ids is None else np.concatenate([self.ids, other.ids[fresh]]),
            weights=np.concatenate([self.weights, np.zeros(len(fresh))]),
            phi=joined_phi(self.phi, None if other.phi is None else other.phi.take(fresh)),
        )
        return both, where

    def column_of(self, feature: str, *, categorical: bool) -> int:
        """Return the column of a feature; raise InputError unless it holds labels or numbers as required."""
        if feature not in self.names:
            raise InputError(f"the contexts lack the feature '{plain(feature)}'{nearest(feature, self.names)}")
        column = self.names.index(feature)
        if (self.categories[column] is not None) != categorical:
            want, have = ("labels", "numbers") if categorical else ("numbers", "labels")
            raise InputError(f"the feature '{plain(feature)}' must hold {want}, but these contexts hold {have} there")
        return column

    def require_phi(self, *, n_actions: int) -> Phi:
        """Return φ for `n_actions` actions; raise InputError if it is missing."""
        if self.phi is None:
            raise InputError(
                "the contexts carry no features of actions; give Contexts phi of shape (contexts, actions, features), "
                f"or a '{PHI_COLUMN}' column"
            )
        if self.phi.n_actions != n_actions:
            raise InputError(f"phi is of {self.phi.n_actions} actions, but there are {n_actions}")
        return self.phi

    def require_ids(self, below: int) -> IntArray:
        """Return ids (n,) in [0, below); raise InputError if they are missing or too large."""
        if self.ids is None:
            raise InputError(
                "this policy class is a table over a finite context set, but the contexts carry no ids; "
                f"give Contexts ids, or a '{ID_COLUMN}' column"
            )
        high = int(self.ids.max())
        if high >= below:
            raise InputError(f"context id {high} is unknown: this policy class is a table over ids 0 to {below - 1}")
        return self.ids

    @classmethod
    def read(cls, path: str | Path, *, keep: Sequence[str] = ()) -> Contexts:
        """Read contexts from a Parquet or CSV file: every column is a feature, except reserved ones.

        Reserved are `context_id`, `context_weight` and `phi`, which holds a list of features for each action. Columns
        that look like identifiers are dropped (`read_with_remarks` says which), unless `keep` names them. For missing
        values see `of`.
        """
        return cls.read_with_remarks(path, keep=keep)[0]

    @classmethod
    def read_with_remarks(
        cls,
        path: str | Path,
        *,
        keep: Sequence[str] = (),
        features: Sequence[str] | None = None,
        without: Sequence[str] = (),
        remedy: Callable[[str], str] | None = None,
    ) -> tuple[Contexts, tuple[str, ...]]:
        """Read contexts and return them with remarks on how the file was read.

        features: the feature columns, if not all. without: columns to drop. remedy: says how to keep a column that
        looks like an identifier, if not by an option.
        """
        from pacbandits.records import parquet

        with naming(Path(path)):
            source = parquet.read_table(path)
            table, n, cells = source.columns, source.n_rows, CellNames(source.line)
            named = () if features is None else texts(features, name="features")
            left_out, kept = texts(without, name="without"), (*texts(keep, name="keep"), *named)
            for name, use in (*((name, "keep") for name in kept), *((name, "leave out") for name in left_out)):
                if name not in table:
                    raise InputError(f"there is no column '{plain(name)}' to {use}{nearest(name, table)}")
            own = (ID_COLUMN, WEIGHT_COLUMN, PHI_COLUMN)
            for name in tuple(table):
                if name in left_out or (features is not None and name not in (*named, *own)):
                    del table[name]
            written = read_written(table, coded=source.coded, cells=cells)
            said = leave_out_identifiers(table, coded=source.coded, keep=kept, remedy=remedy)
            return cls.from_columns(table, n=n, cells=cells), (*source.remarks, *written, *said)

    @classmethod
    def from_columns(cls, columns: Columns, *, n: int, cells: CellNames = SOMEWHERE) -> Contexts:
        """Return contexts from a table's n rows, removing its columns; cells: names of its cells for messages."""
        ids = pop_integers(columns, ID_COLUMN, cells)
        weights = pop_floats(columns, WEIGHT_COLUMN, cells)
        phi = pop_cube(columns, PHI_COLUMN)
        features, names, categories = pop_features(spread_dates(columns), n=n, cells=cells)
        return cls.of(features, names=names, categories=categories, ids=ids, weights=weights, phi=phi)

    def write(self, path: str | Path | IO[bytes]) -> None:
        """Write to Parquet, to a path or an open file, so that `read` returns the same contexts."""
        from pacbandits.records import parquet

        parquet.write(path, self.columns() | {WEIGHT_COLUMN: self.weights})

    def columns(self) -> dict[str, object]:
        """Return the columns of a table of these contexts: features in their units and labels, ids and φ."""
        for reserved in (ID_COLUMN, WEIGHT_COLUMN, PHI_COLUMN):
            if reserved in self.names:
                raise InputError(f"feature '{reserved}' has the name of a column of its own; rename it")
        out: dict[str, object] = {}
        for j, (name, labels) in enumerate(zip(self.names, self.categories, strict=True)):
            column = self.features[:, j]
            out[name] = column if labels is None else dictionary(column, labels)
        if self.ids is not None:
            out[ID_COLUMN] = self.ids
        if self.phi is not None:
            out[PHI_COLUMN] = self.phi.array
        return out


def check_contexts(contexts: object, *, name: str = "contexts") -> Contexts:
    """Return the contexts; raise InputError if they are not."""
    return instance(contexts, Contexts, name=name, remedy="make them by Contexts.of(features)")


def _labels(categories: object) -> tuple[tuple[str, ...] | None, ...]:
    """Return the labels of each feature, None for a number."""
    given = entries(categories, name="categories")
    return tuple(None if labels is None else texts(labels, name="labels of a category") for labels in given)

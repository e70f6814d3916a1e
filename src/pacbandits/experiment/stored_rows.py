"""The rows that a database holds of an experiment: one definition each.

The columns of a table (`tables`), what is inserted (`book`), what an export holds (`exporting`, `exported`) and what is
hashed (`sealed`) follow from the fields here. Times are whole microseconds since 1970 in UTC. The records of an
experiment, whichever table they are in, are numbered in one sequence, in the order in which they were stored, and
chained by it (`pacbandits.experiment.chain`).

A column that is added later is the last field of its row, with a default that rows of older databases get; the step in
`pacbandits.experiment.migrations` names the same default. If it is `SEALED`, it is hashed wherever it differs from that
default, so that the digests of older records stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import text
from pacbandits.errors import InputError, plain
from pacbandits.experiment.chain import BEGINNING, assignment_bytes, canonical, entry_bytes, outcome_bytes

MAX_UNIT_CHARACTERS = 256
MAX_REASON_CHARACTERS = 1_000
NEVER = 2**62  # the number of a record that is not there
REWARD, GUARDRAIL = 0, 1  # kinds of outcomes
OUTCOME_KINDS = {"reward": REWARD, "guardrail": GUARDRAIL}


class StoredField(NamedTuple):
    """How a field is stored.

    kind: int, float, str, or bytes; of an assignment, bytes are float64 in little-endian order.
    key: whether it is part of the primary key.
    small: whether 32 bits are enough.
    sealed: whether it is hashed though it was added after the first version.
    nullable: whether it may be None.
    default: of older rows.
    """

    kind: type = int
    key: bool = False
    small: bool = False
    sealed: bool = False
    nullable: bool = False
    default: Any = None


KEY, SMALL, SMALL_KEY, SEALED = (
    StoredField(key=True),
    StoredField(small=True),
    StoredField(key=True, small=True),
    StoredField(sealed=True),
)
Small = Annotated[int, SMALL]


class ExperimentRow(NamedTuple):
    """An experiment, as it was created. contexts: packed (`pacbandits.experiment.packed_contexts`)."""

    name: Annotated[str, KEY]
    protocol: str
    contexts: bytes
    secret: bytes
    created: int


class Standing(NamedTuple):
    """The current state of an experiment: the only rows that change, and short, as they do so with every record.

    rows: how many were assigned.
    rewards: how many came, in time.
    sequence: how many records there are.
    head: of the chain.
    round: the open one, from 0.
    round_rows: assigned in it, without the holdout.
    designer, design_until: who designs, and how long nobody else may.
    seen_until: the time of the last record, before which none is made any more: windows that were over then stay over.
    look: the number of the last analysis.
    withdrawn: names of actions, in JSON.
    """

    name: Annotated[str, KEY]
    state: str
    reason: str = ""
    rows: int = 0
    held_out: int = 0
    rewards: int = 0
    too_late: int = 0
    sequence: int = 0
    head: bytes = BEGINNING
    round: Small = 0
    round_rows: int = 0
    planned: int = 0
    designer: str = ""
    design_until: int = 0
    seen_until: int = 0
    look: Small = 0
    withdrawn: str = "[]"


class AssignmentRow(NamedTuple):
    """An assignment, stored once and never changed.

    row: from 0, in the order of assignment.
    visit: from 0, of units that are drawn anew at each visit; no unit has two actions for one visit.
    holdout: 1 for units of the holdout.
    features, propensities: float64 in little-endian order.
    """

    experiment: Annotated[str, KEY]
    row: Annotated[int, KEY]
    sequence: int
    unit: str
    visit: Small
    round: Small
    action: Small
    holdout: Small
    at: int
    features: bytes
    propensities: bytes

    def sealed(self, mark: bytes) -> bytes:
        """The bytes that are hashed; mark: what stands for the unit."""
        _, row, sequence, _, visit, number, action, holdout, at, features, propensities = self[:11]
        return assignment_bytes(
            sequence, row, mark, visit, number, action, holdout, at, features, propensities
        ) + added_bytes(self)


class OutcomeRow(NamedTuple):
    """What came of an assignment. kind: REWARD or GUARDRAIL. late: 1 if it came after the window and does not count."""

    experiment: Annotated[str, KEY]
    row: Annotated[int, KEY]
    kind: Annotated[int, SMALL_KEY]
    sequence: int
    value: float
    late: Small
    at: int

    def sealed(self) -> bytes:
        """The bytes that are hashed."""
        _, row, kind, sequence, value, late, at = self[:7]
        return outcome_bytes(sequence, row, kind, late, value, at) + added_bytes(self)


class EntryRow(NamedTuple):
    """Any other record: creation, rounds, pauses, withdrawals, the end. body: JSON. previous, head: of the chain."""

    experiment: Annotated[str, KEY]
    sequence: Annotated[int, KEY]
    kind: str
    at: int
    body: str
    previous: bytes
    head: bytes

    def sealed(self) -> bytes:
        """The bytes that are hashed."""
        return entry_bytes(self.sequence, self.at, self.kind, self.body) + added_bytes(self)


class AnalysisRow(NamedTuple):
    """What an interim analysis found; analyses can be repeated, and are not chained.

    samples: rows of the trial that were analysed.
    withdrawn: how many actions were.
    best: the ε that was proven.
    """

    experiment: Annotated[str, KEY]
    number: Annotated[int, SMALL_KEY]
    at: int
    rows: int
    sequence: int
    round: Small
    samples: int
    withdrawn: Small
    best: float
    body: str
    certificate: str | None


@cache
def columns_of(row: type[NamedTuple]) -> dict[str, StoredField]:
    """The columns of a row, in their order."""
    out: dict[str, StoredField] = {}
    for name, hint in get_type_hints(row, include_extras=True).items():
        how = next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, StoredField)), StoredField())
        bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        kinds = get_args(bare) or (bare,)
        kind = next(one for one in kinds if one is not NoneType)
        out[name] = how._replace(kind=kind, nullable=NoneType in kinds, default=row._field_defaults.get(name))
    return out


@cache
def _sealed_later(row: type[NamedTuple]) -> tuple[tuple[str, Any], ...]:
    """The name and the default of each sealed column that was added after the first version."""
    return tuple((name, how.default) for name, how in columns_of(row).items() if how.sealed)


def added_bytes(row: AssignmentRow | OutcomeRow | EntryRow) -> bytes:
    """The sealed columns that were added after the first version, where they differ from their defaults, as bytes."""
    given = {name: getattr(row, name) for name, default in _sealed_later(type(row)) if getattr(row, name) != default}
    return canonical(given).encode() if given else b""


# An export has one row for each assignment, in order. These columns are part of its log, under their own names.
_OF_THE_LOG = ("round", "action", "propensities")
EXPORTED = {  # columns of an export, by those of assignments; of a unit, only its mark is exported
    name: name if name in _OF_THE_LOG else f"record_{name}"
    for name in columns_of(AssignmentRow)
    if name not in ("experiment", "row", "unit")
}


@dataclass(frozen=True, eq=False)
class AssignmentColumns:
    """All n assignments in their order, as arrays.

    columns: by the names of `AssignmentRow`; whole numbers (n,), features (n, d), propensities (n, A).
    """

    columns: dict[str, Any]

    def __len__(self) -> int:
        return len(self.sequence)

    @property
    def sequence(self) -> IntArray:
        """The number of each one's record (n,)."""
        return self.columns["sequence"]

    @property
    def rounds(self) -> IntArray:
        """The round each belongs to (n,)."""
        return self.columns["round"]

    @property
    def actions(self) -> IntArray:
        """The action that was drawn (n,)."""
        return self.columns["action"]

    @property
    def visits(self) -> IntArray:
        """Which visit of its unit it was, from 0 (n,)."""
        return self.columns["visit"]

    @property
    def holdout(self) -> BoolArray:
        """Whether it is one of the holdout (n,)."""
        return self.columns["holdout"] > 0

    @property
    def at(self) -> IntArray:
        """When, in microseconds (n,)."""
        return self.columns["at"]

    @property
    def features(self) -> FloatArray:
        """The contexts (n, d); the id stands last where there is one."""
        return self.columns["features"]

    @property
    def propensities(self) -> FloatArray:
        """Of all actions (n, A)."""
        return self.columns["propensities"]


def array_of(kind: type, values: Sequence[Any], *, width: int = 0) -> Any:
    """Values of a column as an array: bytes as rows (n, width) of float64, text as objects."""
    if kind is bytes:
        return np.frombuffer(b"".join(values), dtype="<f8").reshape(len(values), width)
    return np.array(values, dtype={int: np.int64, float: np.float64}.get(kind, np.object_))


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What came of each of n rows, whether it counts or not.

    values (n,): NaN where nothing came.
    sequence (n,): the numbers of the records; NEVER where nothing came.
    at (n,): when, in microseconds.
    late (n,): 1 where it came after the window.
    """

    values: FloatArray
    sequence: IntArray
    at: IntArray
    late: IntArray

    @classmethod
    def of(cls, count: int, rows: Iterable[tuple[int, float, int, int, int]]) -> Outcomes:
        """From row, value, sequence, at and late of each that came."""
        out = cls(np.full(count, np.nan), np.full(count, NEVER), *(np.zeros(count, dtype=np.int64) for _ in range(2)))
        for row, *values in rows:
            for one, value in zip(fields(cls), values, strict=True):
                getattr(out, one.name)[row] = value
        return out


def check_unit(unit: object) -> str:
    """A unit that can be stored; raise InputError for any other."""
    if not isinstance(unit, str) or not 0 < len(unit) <= MAX_UNIT_CHARACTERS or not _is_storable(unit):
        raise InputError(f"a unit is a text of 1 to {MAX_UNIT_CHARACTERS} characters, got {plain(unit)}")
    return unit


def check_reason(reason: object) -> str:
    """Why something is done, without blanks around it; raise InputError for what cannot be stored."""
    words = text(reason, name="reason").strip()
    if not words or len(words) > MAX_REASON_CHARACTERS or not _is_storable(words):
        raise InputError(f"say why in 1 to {MAX_REASON_CHARACTERS:,} characters: the record keeps it")
    return words


def _is_storable(words: str) -> bool:
    """Whether all databases can hold a text: PostgreSQL has no NUL, and none has half a character."""
    try:
        words.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in words

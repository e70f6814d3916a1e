"""The row types of an experiment's tables, one definition each.

The columns of a table (`database`), the inserted values (`store`), the columns of an export (`exports`, `audit`) and
the hashed bytes (`sealed`) follow from the fields here. Times are integer microseconds since 1970 in UTC. The records
of an experiment, in all tables together, are numbered in the order in which they were stored, and chained in that
order (`pacbandits.experiment.chain`).

A column that is added later is the last field of its row, with a default for rows of older databases; the step in
`pacbandits.experiment.migrations` names the same default. If it is `SEALED`, it is hashed only where it differs from
that default, so that the digests of older records do not change.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
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
NEVER = 2**62  # the sequence number of a record that does not exist
REWARD, GUARDRAIL = 0, 1  # kinds of outcomes
FIRST_METRIC = 2  # and so on, in the order of the protocol's metric columns


def outcome_kinds(metrics: int) -> dict[str, int]:
    """Return the kinds of outcomes by the names that exports give them; metrics: the number of metric columns."""
    own = {f"metric_{place}": FIRST_METRIC + place for place in range(metrics)}
    return {"reward": REWARD, "guardrail": GUARDRAIL, **own}


class StoredField(NamedTuple):
    """The storage of a field.

    kind: int, float, str, or bytes; in assignments, bytes are float64 in little-endian order.
    key: whether it is part of the primary key.
    small: whether 32 bits suffice.
    sealed: whether it is hashed though it was added after the first version.
    nullable: whether it may be None.
    default: value in older rows.
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
    """An experiment as created.

    contexts: serialised by `pacbandits.experiment.store.pack_contexts`.
    pseudonymous: 1 if units are stored as keyed hashes.
    """

    name: Annotated[str, KEY]
    protocol: str
    contexts: bytes
    secret: bytes
    created: int
    pseudonymous: Small = 0


class Standing(NamedTuple):
    """The current state of an experiment: the only rows that change; short, as they change with every transaction.

    rows: number of assignments.
    held_out: number of them in the holdout.
    rewards: number of rewards that arrived in time.
    too_late: number of rewards that arrived after their window.
    sequence: number of records.
    head: head of the chain.
    round: number of the open round, from 0.
    round_rows: assignments in it, without the holdout.
    planned: its planned number of rows.
    designer, design_until: holder of the lease to design, and when it expires.
    seen_until: time of the last record; no record has an earlier time afterwards, so a window that is over stays over.
    look: number of the last analysis.
    withdrawn: names of withdrawn actions, in JSON.
    incarnation: how often the database went back to an earlier state, as after a restore from a backup.
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
    incarnation: Small = 0


class AssignmentRow(NamedTuple):
    """An assignment, stored once and never changed.

    row: from 0, in the order of assignment.
    visit: number of the unit's visit, from 0, if actions are drawn anew at each; one action for each unit and visit.
    holdout: 1 for units in the holdout.
    features, propensities: float64 in little-endian order.
    unit: the unit, or its keyed hash in hexadecimal (`ExperimentRow.pseudonymous`).
    nonce: part of the id, drawn with each transaction; '' for ids of the first version.
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
    nonce: str = ""

    def sealed(self, mark: bytes) -> bytes:
        """Return the bytes that are hashed; mark: the keyed hash of the unit."""
        _, row, sequence, _, visit, number, action, holdout, at, features, propensities = self[:11]
        return assignment_bytes(
            sequence, row, mark, visit, number, action, holdout, at, features, propensities
        ) + added_bytes(self)


class OutcomeRow(NamedTuple):
    """An outcome of an assignment.

    kind: REWARD, GUARDRAIL, or FIRST_METRIC and above for metrics, which are reported with the reward.
    late: 1 if it arrived after the window and does not count.
    """

    experiment: Annotated[str, KEY]
    row: Annotated[int, KEY]
    kind: Annotated[int, SMALL_KEY]
    sequence: int
    value: float
    late: Small
    at: int

    def sealed(self) -> bytes:
        """Return the bytes that are hashed."""
        _, row, kind, sequence, value, late, at = self[:7]
        return outcome_bytes(sequence, row, kind, late, value, at) + added_bytes(self)


class EntryRow(NamedTuple):
    """Any other record: creation, rounds, pauses, withdrawals, the end.

    body: JSON.
    previous, head: head of the chain before and after it.
    """

    experiment: Annotated[str, KEY]
    sequence: Annotated[int, KEY]
    kind: str
    at: int
    body: str
    previous: bytes
    head: bytes

    def sealed(self) -> bytes:
        """Return the bytes that are hashed."""
        return entry_bytes(self.sequence, self.at, self.kind, self.body) + added_bytes(self)


class AnalysisRow(NamedTuple):
    """An interim analysis; analyses can be recomputed, and are not chained.

    samples: rows of the trial that were analysed.
    withdrawn: number of withdrawn actions.
    best: the certified ε; infinite without a certificate.
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


class WebhookRow(NamedTuple):
    """A webhook of an experiment; no part of its protocol, its event log or its exports.

    url: the address, or where the worker reads it: "env:NAME" or "file:PATH".
    secret: where the worker reads the key of signatures; '' without one.
    format: json or slack.
    events: the events that it is told of, in JSON.
    """

    id: Annotated[str, KEY]
    experiment: str
    url: str
    secret: str
    format: str
    events: str
    created: int


class DeliveryRow(NamedTuple):
    """An event that a webhook is told of, stored in the transaction of the event.

    id: the idempotency id that the receiver gets.
    cause: what distinguishes it from other events of its kind; a webhook is told once of each.
    at: time of the event.
    body: the request body, the same at each attempt.
    state: waiting, delivered or given up.
    attempts: number of attempts that ended.
    due: when to try next; during an attempt, when another process may try.
    tried: time of the last attempt that ended; 0 before the first.
    answer: how that attempt ended, in words.
    """

    id: Annotated[str, KEY]
    experiment: str
    webhook: str
    event: str
    cause: str
    at: int
    body: str
    state: str
    attempts: Small
    due: int
    tried: int
    answer: str


@cache
def columns_of(row: type[NamedTuple]) -> dict[str, StoredField]:
    """Return the columns of a row type, in order."""
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
    """Return name and default of each sealed column that was added after the first version."""
    return tuple((name, how.default) for name, how in columns_of(row).items() if how.sealed)


def added_bytes(row: AssignmentRow | OutcomeRow | EntryRow) -> bytes:
    """Return the hashed bytes of the sealed columns added after the first version that differ from their defaults."""
    given = {name: getattr(row, name) for name, default in _sealed_later(type(row)) if getattr(row, name) != default}
    return canonical(given).encode() if given else b""


# An export has one row for each assignment, in order. These columns belong to its log and keep their names.
_OF_THE_LOG = ("round", "action", "propensities")
EXPORTED = {  # columns of an export, by those of assignments; of a unit, only its mark is exported
    name: name if name in _OF_THE_LOG else f"record_{name}"
    for name in columns_of(AssignmentRow)
    if name not in ("experiment", "row", "unit", "nonce")
}


@dataclass(frozen=True, eq=False)
class AssignmentColumns:
    """All n assignments in order, as arrays.

    columns: by field name of `AssignmentRow`; integers (n,), features (n, d), propensities (n, A).
    """

    columns: dict[str, Any]

    def __len__(self) -> int:
        return len(self.sequence)

    @property
    def sequence(self) -> IntArray:
        """Return the sequence numbers (n,)."""
        return self.columns["sequence"]

    @property
    def rounds(self) -> IntArray:
        """Return the rounds (n,)."""
        return self.columns["round"]

    @property
    def actions(self) -> IntArray:
        """Return the actions (n,)."""
        return self.columns["action"]

    @property
    def visits(self) -> IntArray:
        """Return the number of the unit's visit, from 0 (n,)."""
        return self.columns["visit"]

    @property
    def holdout(self) -> BoolArray:
        """Return which rows are in the holdout (n,)."""
        return self.columns["holdout"] > 0

    @property
    def at(self) -> IntArray:
        """Return the times of assignment in microseconds (n,)."""
        return self.columns["at"]

    @property
    def features(self) -> FloatArray:
        """Return the encoded contexts (n, d); the id, if there is one, is the last column."""
        return self.columns["features"]

    @property
    def propensities(self) -> FloatArray:
        """Return the propensities of all actions (n, A)."""
        return self.columns["propensities"]


def array_of(kind: type, values: Sequence[Any], *, width: int = 0) -> Any:
    """Return the values of a column as an array: bytes as (n, width) float64, text as objects."""
    if kind is bytes:
        return np.frombuffer(b"".join(values), dtype="<f8").reshape(len(values), width)
    return np.array(values, dtype={int: np.int64, float: np.float64}.get(kind, np.object_))


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of n rows, including late ones.

    values (n,): NaN where none was reported.
    sequence (n,): sequence numbers of the records; NEVER where none was reported.
    at (n,): times of the reports in microseconds.
    late (n,): 1 where it was reported after the window.
    """

    values: FloatArray
    sequence: IntArray
    at: IntArray
    late: IntArray

    @classmethod
    def of(cls, count: int, rows: Iterable[tuple[int, float, int, int, int]]) -> Outcomes:
        """Return the outcomes of `count` rows, from row, value, sequence, at and late of each report."""
        out = cls(np.full(count, np.nan), np.full(count, NEVER), *(np.zeros(count, dtype=np.int64) for _ in range(2)))
        for row, *values in rows:
            for one, value in zip(fields(cls), values, strict=True):
                getattr(out, one.name)[row] = value
        return out


def spell(moment: int) -> str:
    """Format a time as ISO 8601 text in UTC."""
    return datetime.fromtimestamp(moment / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# Durations, in seconds.


SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
MAX_DURATION_SECONDS = 10 * 366 * SECONDS["day"]
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)")


def read_duration(words: object, *, name: str) -> float:
    """Parse a duration such as "7 days", "36 hours" or "1 day 12 hours" to seconds."""
    given = text(words, name=name).strip().lower()
    total, at = 0.0, 0
    remedy = 'write it as "7 days", "36 hours" or "90 minutes"'
    for found in _PART.finditer(given):
        unit = found[2].removesuffix("s")
        if given[at : found.start()].strip(" ,") or unit not in SECONDS:
            raise InputError(f"{name} is '{plain(words)}', which is no duration; {remedy}")
        total, at = total + float(found[1]) * SECONDS[unit], found.end()
    if at == 0 or given[at:].strip():
        raise InputError(f"{name} is '{plain(words)}', which is no duration; {remedy}")
    if not 0 < total <= MAX_DURATION_SECONDS:
        raise InputError(f"{name} must be more than nothing and at most ten years, got '{plain(words)}'")
    return total


def spell_duration(seconds: float) -> str:
    """Format a duration in the largest unit of which it is a whole number, or else with three digits."""
    for unit in ("week", "day", "hour", "minute"):
        count = seconds / SECONDS[unit]
        if count >= 1 and abs(count - round(count)) < 1e-9 * count and not (unit == "week" and count < 3):
            return f"{round(count)} {unit}{'s' * (round(count) != 1)}"
    unit = next((one for one in ("day", "hour", "minute") if seconds >= SECONDS[one]), "second")
    count = seconds / SECONDS[unit]
    return f"{count:.3g} {unit}{'s' * (count != 1)}"


# Texts that all databases can store.


def check_unit(unit: object) -> str:
    """Return a unit that can be stored; raise InputError for any other."""
    if not isinstance(unit, str) or not 0 < len(unit) <= MAX_UNIT_CHARACTERS or not _is_storable(unit):
        raise InputError(f"a unit is a text of 1 to {MAX_UNIT_CHARACTERS} characters, got {plain(unit)}")
    if not unit.isascii() or not unit.isprintable():
        hidden = next((one for one in unit if _is_invisible(one)), None)
        if hidden is not None:
            raise InputError(
                f"a unit holds the invisible character U+{ord(hidden):04X}, so that it may look like another; remove it"
            )
    return unit


# Characters of other categories that Unicode calls default-ignorable: joiners, fillers and variation selectors.
_IGNORABLE = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0)


def _is_invisible(one: str) -> bool:
    """Return whether a character shows nothing, or changes the direction of others."""
    return (
        unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp")
        or (one != " " and one.isspace())
        or ord(one) in _IGNORABLE
        or 0xE0000 <= ord(one) < 0xE1000
    )


def check_reason(reason: object) -> str:
    """Return a reason without surrounding blanks; raise InputError if it is empty, too long or cannot be stored."""
    words = text(reason, name="reason").strip()
    if not words or len(words) > MAX_REASON_CHARACTERS or not _is_storable(words):
        raise InputError(f"say why in 1 to {MAX_REASON_CHARACTERS:,} characters: the record keeps it")
    return words


def _is_storable(words: str) -> bool:
    """Return whether all databases can store a text: PostgreSQL refuses NUL, and lone surrogates have no UTF-8."""
    try:
        words.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in words

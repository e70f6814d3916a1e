"""Read an exported event log: its columns, checked one by one, its entries, and the terms of the experiment in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.certificate.certificate import CountedPilot
from pacbandits.checks import path_of, texts
from pacbandits.errors import InputError, plain
from pacbandits.experiment.chain import ASSIGNMENT, ENTRY, MARK_BYTES, OUTCOME, TimeStamp, digest_published
from pacbandits.experiment.draws import DRAWINGS
from pacbandits.experiment.protocol import REHEARSED, STOP_RULES, LateRule, spell_remarks
from pacbandits.experiment.rounds import ROUND, Round, round_from_json
from pacbandits.experiment.stored_rows import (
    EXPORTED,
    NEVER,
    AssignmentColumns,
    AssignmentRow,
    EntryRow,
    OutcomeRow,
    Outcomes,
    StoredField,
    columns_of,
    outcome_kinds,
    spell,
)
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import class_from_json
from pacbandits.records import Contexts, Log, RewardBounds, parquet
from pacbandits.records.columns import Columns, is_list, is_number, pa
from pacbandits.records.log import digest_contexts
from pacbandits.records.log_metadata import RECORD, PackedText, has_record, unpack_text
from pacbandits.records.metrics import AnyMetric, Guardrail, metric_columns, read_guardrails, read_metrics
from pacbandits.records.text_files import naming
from pacbandits.schema import Fields, Json, items, number, parse_json, read_format, text, whole_number
from pacbandits.trials.pilot_rows import ArrangedPilot, follow_bets
from pacbandits.trials.protocol import Setting
from pacbandits.trials.trial import Trial

# Before format 2, a file ended with the records of its analysis; now it has all, and `sequence` tells how many of them
# its log follows from.
FORMAT = 2  # of the event log in an export (docs/stability.md)
MAX_TIME = 253_402_300_799_000_000  # the end of the year 9999, in microseconds
MAX_SMALL, MAX_BYTE = 2**31 - 1, 255
MAX_ENTRY_CHARACTERS = 2**26  # of the JSON of one entry


@dataclass(frozen=True, eq=False)
class Record(AssignmentColumns):
    """An exported event log: its assignments, as they were hashed, and the rest.

    about: metadata of the file.
    records: number of records in the file.
    claimed: number of first records that the file's log follows from.
    claimed_at: time, in microseconds, by which windows are over in that log.
    mature: number of first rows that the log is taken from.
    entries: sequence, time, kind, body and head of each entry.
    log: the log in the file.
    counted (n,): which rows are part of that log, by the file.
    marks (n, 16): keyed hash of the unit of each row.
    rewards, known (n,): as in the file's log.
    outcomes: outcomes by kind.
    seed: the seed of all draws, if it was disclosed.
    contexts: those that the class was built from, if the file has them: then leaders can be derived again after a
        withdrawal, and stakes and leaders of a pilot.
    """

    about: Json
    records: int
    claimed: int
    claimed_at: int
    mature: int
    entries: tuple[tuple[int, int, str, str, str], ...]
    log: Log
    counted: BoolArray
    marks: IntArray
    rewards: FloatArray
    known: IntArray
    outcomes: dict[str, Outcomes]
    seed: int | None = None
    contexts: Contexts | None = None


def read_record(path: str | Path) -> Record:
    """Read the event log in an exported file.

    Raises:
        InputError: If the file has none, or is damaged.
    """
    with naming(path_of(path)):
        source = parquet.read_table(path)
        table, about = source.columns, source.about
        if not has_record(about):
            raise InputError("the file carries no record of an experiment; export it from one")
        told = about.fields(RECORD, of="record")
        read_format(told.given, "record", latest=FORMAT)
        claimed = told.whole_number("sequence")
        records = told.whole_number("records") if "records" in told else claimed
        if claimed > records:
            raise InputError(f"the log follows from {claimed:,} records, and the file has {records:,}; export it again")
        columns = _assignments(table)
        _within(columns["at"], "record_at", least=0, most=MAX_TIME)
        n = len(columns["sequence"])
        if not n:
            raise InputError("the record has no assignment; export it again")
        log = Log.read(path)
        return Record(
            columns=columns,
            about=dict(told.given),
            records=records,
            claimed=claimed,
            claimed_at=told.whole_number("at"),
            mature=told.whole_number("mature", most=n),
            entries=_entries(_unpacked(table, told, "entries")),
            log=log,
            counted=_whole(table, "record_counted", n, most=1) > 0,
            marks=_whole_matrix(table, "record_mark", n, width=MARK_BYTES),
            rewards=_floats(table, "reward", n),
            known=_whole(table, "known", n, least=-MAX_SMALL, most=MAX_SMALL),
            outcomes={name: _outcomes(table, name, n) for name in outcome_kinds(len(metric_columns(log.metrics)))},
            seed=_seed(told),
            contexts=_contexts(table, told),
        )


def _assignments(table: Columns) -> dict[str, Any]:
    """Return the columns of assignments, with defaults for columns added after the file was written."""
    n, out = len(_column(table, "action", None)), dict[str, Any]()
    for name, how in columns_of(AssignmentRow).items():
        exported = EXPORTED.get(name)
        if name == "features" and exported not in table:
            out[name] = np.zeros((n, 0))
        elif exported is not None and exported not in table and how.default is not None:
            out[name] = np.full(n, how.default)
        elif exported is not None:
            out[name] = _read_as(how, table, exported, n)
    return out


def _read_as(how: StoredField, table: Columns, name: str, n: int) -> Any:
    """Return a column of assignments as its field is stored."""
    if how.kind is bytes:
        return _matrix(table, name, n).astype(np.float64)
    if how.kind is float:
        return _floats(table, name, n)
    if how.kind is str:
        given = _column(table, name, n).to_pylist()
        return np.array([text(one, name=f"the column '{name}'") for one in given], dtype=np.object_)
    return _whole(table, name, n, most=MAX_SMALL if how.small else NEVER)


def _outcomes(table: Columns, name: str, n: int) -> Outcomes:
    """Return the outcomes of one kind."""
    return Outcomes(
        _floats(table, f"record_{name}", n),
        _whole(table, f"record_{name}_sequence", n, most=NEVER),
        _whole(table, f"record_{name}_at", n, most=MAX_TIME),
        _whole(table, f"record_{name}_late", n, most=1),
    )


def _column(table: Columns, name: str, n: int | None) -> Any:
    if name not in table:
        raise InputError(f"the record lacks its column '{name}'; export it again")
    column = table[name]
    if column.null_count or (n is not None and len(column) != n):
        raise InputError(f"the column '{name}' of the record has no value in some rows; export it again")
    return column


def _whole(table: Columns, name: str, n: int, *, least: int = 0, most: int) -> IntArray:
    column = _column(table, name, n)
    if not pa.types.is_integer(column.type):
        raise InputError(f"the column '{name}' of the record must hold whole numbers; export it again")
    return _within(np.asarray(column.to_numpy(zero_copy_only=False)), name, least=least, most=most)


def _within(values: Any, name: str, *, least: int, most: int) -> IntArray:
    """Return whole numbers as int64; raise InputError if one is out of bounds."""
    if values.size and not (least <= int(values.min()) and int(values.max()) <= most):
        raise InputError(f"the column '{name}' of the record holds a number that cannot be; export it again")
    return values.astype(np.int64)


def _floats(table: Columns, name: str, n: int) -> FloatArray:
    column = table.get(name)
    if column is None or len(column) != n or not (is_number(column.type) or pa.types.is_null(column.type)):
        raise InputError(f"the record lacks numbers in its column '{name}'; export it again")
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _matrix(table: Columns, name: str, n: int, *, width: int | None = None) -> Any:
    column = _column(table, name, n)
    if not is_list(column.type) or not is_number(column.type.value_type):
        raise InputError(f"the column '{name}' of the record must hold lists of numbers; export it again")
    flat = column.flatten()
    if flat.null_count or len(flat) % max(n, 1) or (width is not None and len(flat) != n * width):
        raise InputError(f"the lists in the column '{name}' of the record differ in length; export it again")
    if not pa.types.is_fixed_size_list(column.type):
        lengths = np.asarray(pa.compute.list_value_length(column).to_numpy(zero_copy_only=False))
        if (lengths != len(flat) // max(n, 1)).any():
            raise InputError(f"the lists in the column '{name}' of the record differ in length; export it again")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(n, -1)


def _whole_matrix(table: Columns, name: str, n: int, *, width: int) -> IntArray:
    values = _matrix(table, name, n, width=width)
    if not np.issubdtype(values.dtype, np.integer):
        raise InputError(f"the column '{name}' of the record must hold whole numbers; export it again")
    return _within(values, name, least=0, most=MAX_BYTE)


def _unpacked(table: Columns, told: Fields, name: str) -> str:
    """Return the long text of that name, packed as a column."""
    n = len(_column(table, f"record_{name}", None))
    numbers = _matrix(table, f"record_{name}", n)
    if not np.issubdtype(numbers.dtype, np.integer):
        raise InputError(f"the column 'record_{name}' of the record must hold whole numbers; export it again")
    return unpack_text(PackedText(numbers.astype(np.int64), told.whole_number(f"{name}_bytes")))


def _entries(words: str) -> tuple[tuple[int, int, str, str, str], ...]:
    """Return number, time, kind, body and head of each entry."""
    out: list[tuple[int, int, str, str, str]] = []
    for one in items(parse_json(words, name="the entries of the record"), name="the entries of the record"):
        fields = items(one, name="an entry of the record", least=5, most=5)
        place, at = (whole_number(value, name="a number in the record", most=MAX_TIME) for value in fields[:2])
        kind, body, head = (text(value, name="a text in the record", most=MAX_ENTRY_CHARACTERS) for value in fields[2:])
        out.append((place, at, kind, body, head))
    return tuple(out)


def _seed(told: Fields) -> int | None:
    """Return the disclosed seed; None if it was not."""
    if "seed" not in told:
        return None
    given = told.text("seed", most=100)
    if not (given.isascii() and given.isdigit()):
        raise InputError(f"the seed in the record must be a whole number, got '{plain(given)}'")
    return int(given)


def _contexts(table: Columns, told: Fields) -> Contexts | None:
    """Return the contexts that `contexts_to_json` wrote; None if there are none."""
    if "contexts_bytes" not in told:
        return None
    words = _unpacked(table, told, "contexts")
    given = Fields.read(parse_json(words, name="the contexts of the record"), of="contexts of the record")
    names, listed = given.texts("names"), given.items("categories")
    categories = tuple(None if one is None else texts(one, name="labels of a category") for one in listed)
    n = len(weights := given.numbers("weights", shortest=1))
    features = np.zeros((n, len(names)))
    for j, column in enumerate(given.items("features", least=len(names), most=len(names))):
        for i, one in enumerate(items(column, name="a feature of the contexts", least=n, most=n)):
            features[i, j] = np.nan if one is None else number(one, name="a feature of the contexts")
    ids = None if given["ids"] is None else np.array(given.whole_numbers("ids", shortest=n, longest=n), dtype=np.int64)
    return Contexts(features, names, categories, ids, np.array(weights))


def contexts_to_json(contexts: Contexts) -> Json:
    """Serialise the contexts of a protocol to JSON-compatible values, with null for a missing number."""
    return {
        "names": list(contexts.names),
        "categories": [None if one is None else list(one) for one in contexts.categories],
        "features": [[None if np.isnan(one) else one for one in column] for column in contexts.features.T.tolist()],
        "weights": contexts.weights.tolist(),
        "ids": None if contexts.ids is None else contexts.ids.tolist(),
    }


# The protocol, rounds and withdrawals in the entries of an exported event log.


@dataclass(frozen=True, eq=False)
class SealedTerms:
    """The terms of an experiment, from the entries of its event log.

    protocol: the published protocol.
    digest: its digest.
    policies: the policy class.
    rounds: all rounds.
    withdrawals: number of the record and index of the action of each withdrawal, in order.
    """

    protocol: Fields
    digest: str
    policies: PolicyClass
    rounds: tuple[Round, ...]
    withdrawals: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, record: Record) -> SealedTerms:
        """Read the terms; raise InputError if the entries are inconsistent."""
        numbers = [number for number, *_ in record.entries]
        created = [number for number, _, kind, _, _ in record.entries if kind == "created"]
        if numbers != sorted(numbers) or created != [0] or record.entries[0][0] != 0:
            raise InputError("its first record must be the creation of an experiment, and there must be no other")
        first = Fields.read(parse_json(record.entries[0][3], name="the first entry"), of="first entry")
        protocol, digest = first.json_object("protocol"), first.text("digest")
        if digest_published(protocol) != digest:
            raise InputError("the protocol is not the one whose digest was written down")
        given = Fields.read(protocol, of="protocol")
        policies = class_from_json(given.fields("policies", of="class of the protocol")["class"])
        rounds: list[Round] = []
        names, gone = list(given.texts("actions")), list[tuple[int, int]]()
        for sequence, at, kind, body, _ in record.entries:
            if kind == ROUND:
                value = parse_json(body, name="a round")
                rounds.append(round_from_json(value, rounds, policies, opened=at, sequence=sequence))
            elif kind == "withdrawn":
                withdrawal = Fields.read(parse_json(body, name="a withdrawal"), of="withdrawal")
                gone.append((sequence, names.index(withdrawal.one_of("action", names))))
        return cls(given, digest, policies, tuple(rounds), tuple(gone))

    def before(self, records: int) -> SealedTerms:
        """Return the terms as of the first `records` records."""
        rounds = tuple(one for one in self.rounds if one.sequence < records)
        return replace(self, rounds=rounds, withdrawals=tuple(one for one in self.withdrawals if one[0] < records))

    @property
    def withdrawn(self) -> tuple[int, ...]:
        """Return the indices of withdrawn actions."""
        return tuple(sorted(action for _, action in self.withdrawals))

    @property
    def delta_part(self) -> float:
        """Return the share of δ for the set of withdrawn actions."""
        n, k = self.policies.n_actions, len(self.withdrawn)
        return 0.9 if k == 0 else 0.1 * 0.5**k / comb(n, k)

    @property
    def by_gain(self) -> bool:
        """Return whether the experiment stops by a proven gain over the standard action."""
        return "stop" in self.protocol and self.protocol.one_of("stop", STOP_RULES) == "gain"

    @property
    def standard(self) -> int:
        """Return the index of the standard action."""
        return self.protocol.texts("actions").index(self.protocol.one_of("standard", self.protocol.texts("actions")))

    @property
    def late(self) -> LateRule:
        """Return the rule for pending and missing rewards."""
        return LateRule.from_json(self.protocol["late"])

    @property
    def holdout(self) -> float:
        """Return the share of units in the holdout."""
        return self.protocol.number("holdout", least=0.0, most=1.0)

    @property
    def sticky(self) -> bool:
        """Return whether a unit gets the same action at every visit."""
        return self.protocol.text("visits") == "sticky"

    @property
    def by_unit(self) -> bool:
        """Return whether actions were drawn by a keyed hash of the unit, and not by the number of the row."""
        return "draws" in self.protocol and self.protocol.one_of("draws", DRAWINGS) == "unit"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return the remarks that a claim of this experiment carries besides those of every claim."""
        visits, standard = self.protocol.text("visits"), self.protocol.text("standard")
        said = spell_remarks(self.late, visits, self.holdout, standard, bool(self.metrics), self.pilot)
        return (REHEARSED, *said) if "rehearsal" in self.protocol and self.protocol.flag("rehearsal") else said

    @property
    def pilot(self) -> CountedPilot | None:
        """Return the pilot whose rows are the first; None if there is none."""
        return CountedPilot.from_json(self.protocol["pilot"]) if "pilot" in self.protocol else None

    @property
    def metrics(self) -> tuple[AnyMetric, ...]:
        """Return the metrics."""
        return read_metrics(self.protocol.items("metrics")) if "metrics" in self.protocol else ()

    @property
    def guardrails(self) -> tuple[Guardrail, ...]:
        """Return the guardrails on metrics."""
        return read_guardrails(self.protocol.items("guardrails")) if "guardrails" in self.protocol else ()

    @property
    def reward_range(self) -> tuple[float, float]:
        """Return the smallest and the largest possible reward."""
        low, high = self.protocol.numbers("reward_range", shortest=2, longest=2)
        return low, high


def contexts_of(record: Record, terms: SealedTerms, rows: IntArray) -> Contexts:
    """Return the contexts of some rows, encoded by the protocol."""
    about = terms.protocol.fields("contexts", of="contexts of the protocol")
    names, d = about.texts("names"), len(about.texts("names"))
    listed = about.items("categories")
    categories = tuple(None if one is None else texts(one, name="labels of a category") for one in listed)
    features = record.features[rows]
    ids = features[:, d].astype(np.int64) if features.shape[1] > d else None
    return Contexts(features[:, :d], names, categories, ids, np.full(len(rows), 1.0 / len(rows)))


def wrong_pilot_rounds(record: Record, terms: SealedTerms) -> list[str]:
    """Return faults: rounds of a pilot that is not the protocol's, in which nothing is drawn by the experiment."""
    begun = sum(one.kind == "pilot" for one in terms.rounds)
    said = 0 if terms.pilot is None else terms.pilot.rounds
    if begun != said or any(one.kind == "pilot" for one in terms.rounds[begun:]):
        return ["the first rounds are not those of the pilot that the protocol says"]
    inside = record.rounds < begun
    if int(inside.sum()) != (0 if terms.pilot is None else terms.pilot.rows) or record.holdout[inside].any():
        return ["the rows of the pilot are not as many as the protocol says"]
    return []


def own_rows(record: Record, terms: SealedTerms) -> BoolArray:
    """Return which rows (n,) the experiment itself assigned, after those of its pilot."""
    return record.rounds >= (0 if terms.pilot is None else terms.pilot.rounds)


def pilot_bets(
    log: Log, terms: SealedTerms, contexts: Contexts | None
) -> Literal["follow", "tied", "differ", "unknown"]:
    """Return whether stakes and leaders of a pilot's rounds follow from the rows before each (`follow_bets`).

    log: the rows of the record. contexts: those of the protocol; unknown without them.
    """
    pilot, people = terms.pilot, terms.protocol.fields("contexts", of="contexts of the protocol")
    if pilot is None:
        return "follow"
    if contexts is None or digest_contexts(contexts) != people["digest"]:
        return "unknown"
    low, high = terms.reward_range
    delta = replace(terms, withdrawals=()).delta_part * terms.protocol.number("delta")
    setting = Setting(terms.policies, terms.protocol.number("epsilon") / (high - low), delta, RewardBounds())
    trial = cast(Trial, make_algorithm(terms.protocol.text("algorithm"), setting))
    rows = ArrangedPilot(replace(log.only(log.rounds < pilot.rounds), known=None), pilot)
    scales, leaders = zip(*((one.scale, one.leader) for one in terms.rounds[: pilot.rounds]), strict=True)
    return follow_bets(trial, trial.start(terms.policies, contexts), rows, scales, leaders)


# Time-stamps of heads.


KEEPER = "whoever keeps the database"
MAX_CLOCK_ERROR = 5 * 60 * 10**6  # microseconds by which clocks of a database and of a service may differ


class StampCheck(NamedTuple):
    """What comes of the check of a time-stamp: failed checks, passed ones and what remains to be trusted, in words."""

    faults: tuple[str, ...]
    checked: tuple[str, ...]
    trusted: tuple[str, ...]


def check_stamp(stamp: TimeStamp, authorities: Path | None, *, latest: int) -> StampCheck:
    """Check a time-stamp: its signature, if certificates are given, and that no record before it is of later than it.

    latest: the time of the last record that it fixes.
    """
    by = spell(stamp.by)
    if latest > stamp.by + MAX_CLOCK_ERROR:
        return StampCheck((f"the head was time-stamped by {by}, before its last record, of {spell(latest)}",), (), ())
    fixed = f"the head was time-stamped (RFC 3161): all that it fixes was fixed by {by}"
    unsigned = f"the time-stamp is of the service that it names: {KEEPER} could have made it"
    if authorities is None:
        return StampCheck((), (fixed,), (f"{unsigned} (--timestamp-ca CERTIFICATES checks its signature)",))
    try:
        wrong = stamp.wrong_signature(authorities)
    except FileNotFoundError:
        return StampCheck((), (fixed,), (f"{unsigned} (its signature is checked where openssl is installed)",))
    if wrong is not None:
        return StampCheck(
            (f"{plain(authorities)} does not vouch for the signature of the time-stamp: {wrong}",), (), ()
        )
    return StampCheck((), (f"{fixed}; {plain(authorities)} vouches for its signature",), ())


# The records as they are hashed.


class Link(NamedTuple):
    """A record as it is hashed: its number, kind and bytes; and the recorded head after it, if there is one."""

    number: int
    kind: bytes
    record: bytes
    told: str | None


def links_of(record: Record) -> list[Link]:
    """Return all records in the order of their sequence numbers."""
    out: list[Link] = []
    marks = record.marks.astype(np.uint8)
    values = [
        one.tolist() if one.ndim == 1 else [row.tobytes() for row in one.astype("<f8")]
        for one in record.columns.values()
    ]
    for row, one in enumerate(zip(*values, strict=True)):
        made = AssignmentRow(experiment="", row=row, unit="", **dict(zip(record.columns, one, strict=True)))
        out.append(Link(made.sequence, ASSIGNMENT, made.sealed(marks[row].tobytes()), None))
    kinds = outcome_kinds(len(metric_columns(record.log.metrics)))
    for name, came in record.outcomes.items():
        for row in np.flatnonzero(came.sequence < NEVER):
            number, value, at = int(came.sequence[row]), float(came.values[row]), int(came.at[row])
            told = OutcomeRow("", int(row), kinds[name], number, value, int(came.late[row]), at)
            out.append(Link(number, OUTCOME, told.sealed(), None))
    for number, at, kind, body, head in record.entries:
        out.append(Link(number, ENTRY, EntryRow("", number, kind, at, body, b"", b"").sealed(), head))
    return sorted(out, key=lambda one: one.number)

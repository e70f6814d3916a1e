"""Audit an export: the hash chain of its event log, its protocol and rounds, and its certificate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.arrays import BoolArray, FloatArray, IntArray, as_read
from pacbandits.certificate.certificate import BETS_FIXED, CAP_SHARE, FIXED, LED, ROUNDS, Certificate
from pacbandits.certificate.leaders import LOTTERY_MOVING, SINGLE_MOVING
from pacbandits.checks import instance, path_of, text, texts
from pacbandits.errors import InputError, count_of
from pacbandits.experiment.chain import ASSIGNMENT, BEGINNING, ENTRY, OUTCOME, linked
from pacbandits.experiment.protocol import LateRule, digest_published
from pacbandits.experiment.rounds import ROUND, Round, round_from_json
from pacbandits.experiment.stored_rows import (
    EXPORTED,
    NEVER,
    OUTCOME_KINDS,
    AssignmentColumns,
    AssignmentRow,
    EntryRow,
    OutcomeRow,
    Outcomes,
    columns_of,
)
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.constraints import without
from pacbandits.policies.registry import class_from_json, digest_class
from pacbandits.records import Contexts, Log, RewardBounds, parquet
from pacbandits.records.columns import Columns
from pacbandits.records.log import KNOWN_REMARK, NOT_IN
from pacbandits.records.log_metadata import RECORD, PackedText, has_record, unpack_text
from pacbandits.records.text_files import naming
from pacbandits.schema import Fields, Json
from pacbandits.trials.protocol import Setting
from pacbandits.trials.trial import EXPERT_MULTIPLIERS, LEADERS_MULTIPLIERS, Trial
from pacbandits.verifier import Verdict

# Reading an exported event log.


@dataclass(frozen=True, eq=False)
class Record(AssignmentColumns):
    """An exported event log: its assignments, as they were hashed, and the rest.

    about: metadata of the file.
    entries: sequence, time, kind, body and head of each entry.
    log: the log in the file.
    counted (n,): which rows are part of that log, by the file.
    marks (n, 16): keyed hash of the unit of each row.
    rewards, known (n,): as in the file's log.
    outcomes: outcomes by kind.
    """

    about: Json
    entries: tuple[tuple[int, int, str, str, str], ...]
    log: Log
    counted: BoolArray
    marks: FloatArray
    rewards: FloatArray
    known: IntArray
    outcomes: dict[str, Outcomes]


def has_sealed_record(path: str | Path) -> bool:
    """Return whether a log's file contains the event log of an experiment."""
    if Path(path).suffix.lower() not in (".parquet", ".pq", ".parq"):
        return False
    try:
        return has_record(parquet.read_about(path))
    except InputError:
        return False


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
        packed = PackedText(_matrix(table, "record_entries").astype(np.int64), told.whole_number("entries_bytes"))
        entries = tuple(
            (int(one[0]), int(one[1]), str(one[2]), str(one[3]), str(one[4])) for one in json.loads(unpack_text(packed))
        )
        outcomes = {
            name: Outcomes(
                _floats(table, f"record_{name}"),
                _numbers(table, f"record_{name}_sequence"),
                _numbers(table, f"record_{name}_at"),
                _numbers(table, f"record_{name}_late"),
            )
            for name in OUTCOME_KINDS
        }
        return Record(
            columns=_assignments(table),
            about=dict(told.given),
            entries=entries,
            log=Log.read(path),
            counted=_numbers(table, "record_counted") > 0,
            marks=_matrix(table, "record_mark"),
            rewards=_floats(table, "reward"),
            known=_numbers(table, "known"),
            outcomes=outcomes,
        )


def _assignments(table: Columns) -> dict[str, Any]:
    """Return the columns of assignments, with defaults for columns added after the file was written."""
    read = {int: _numbers, float: _floats, bytes: _matrix, str: _texts}
    n, out = len(_column(table, "action")), dict[str, Any]()
    for name, how in columns_of(AssignmentRow).items():
        exported = EXPORTED.get(name)
        if name == "features" and exported not in table:
            out[name] = np.zeros((n, 0))
        elif exported is not None:
            absent = exported not in table and how.default is not None
            out[name] = np.full(n, how.default) if absent else read[how.kind](table, exported)
    return out


def _column(table: Columns, name: str) -> Any:
    if name not in table:
        raise InputError(f"the record lacks its column '{name}'; export it again")
    return table[name]


def _numbers(table: Columns, name: str) -> IntArray:
    return np.asarray(_column(table, name).to_numpy(zero_copy_only=False), dtype=np.int64)


def _texts(table: Columns, name: str) -> Any:
    return np.array(_column(table, name).to_pylist(), dtype=np.object_)


def _floats(table: Columns, name: str) -> FloatArray:
    return np.asarray(_column(table, name).to_numpy(zero_copy_only=False), dtype=np.float64)


def _matrix(table: Columns, name: str) -> Any:
    column = _column(table, name)
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(column), -1)


# The protocol, rounds and withdrawals in the entries of an exported event log.


@dataclass(frozen=True, eq=False)
class SealedTerms:
    """The terms of an experiment, from the entries of its event log.

    protocol: the published protocol.
    digest: its digest.
    policies: the policy class.
    rounds: all rounds.
    withdrawn: indices of withdrawn actions.
    """

    protocol: Fields
    digest: str
    policies: PolicyClass
    rounds: tuple[Round, ...]
    withdrawn: tuple[int, ...]

    @classmethod
    def of(cls, record: Record) -> SealedTerms:
        """Read the terms; raise InputError if the entries are inconsistent."""
        numbers = [number for number, *_ in record.entries]
        created = [number for number, _, kind, _, _ in record.entries if kind == "created"]
        if numbers != sorted(numbers) or created != [0] or record.entries[0][0] != 0:
            raise InputError("its first record must be the creation of an experiment, and there must be no other")
        first = Fields.read(json.loads(record.entries[0][3]), of="first entry")
        protocol, digest = first.json_object("protocol"), first.text("digest")
        if digest_published(protocol) != digest:
            raise InputError("the protocol is not the one whose digest was written down")
        given = Fields.read(protocol, of="protocol")
        policies = class_from_json(given.fields("policies", of="class of the protocol")["class"])
        rounds: list[Round] = []
        names, gone = list(given.texts("actions")), list[int]()
        for sequence, at, kind, body, _ in record.entries:
            if kind == ROUND:
                rounds.append(round_from_json(json.loads(body), rounds, policies, opened=at, sequence=sequence))
            elif kind == "withdrawn":
                gone.append(names.index(Fields.read(json.loads(body), of="withdrawal").one_of("action", names)))
        return cls(given, digest, policies, tuple(rounds), tuple(sorted(gone)))

    @property
    def standard(self) -> int:
        """Return the index of the standard action."""
        return self.protocol.texts("actions").index(self.protocol.text("standard"))

    @property
    def late(self) -> LateRule:
        """Return the rule for pending and missing rewards."""
        return LateRule.from_json(self.protocol["late"])

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


# Comparison of a certificate with the event log: stakes, models, leaders, ε and part of δ.


def wrong_certificate(log: Log, terms: SealedTerms, certificate: Certificate) -> list[str]:
    """Return the faults of a trial's certificate against the protocol and rounds; log: the rows it is about."""
    c, faults = certificate, list[str]()
    n, k = terms.policies.n_actions, len(terms.withdrawn)
    part = 0.9 if k == 0 else 0.1 * 0.5**k / comb(n, k)
    low, high = terms.reward_range
    if not abs(c.delta - part * terms.protocol.number("delta")) <= 1e-12:
        faults.append(
            f"the certificate is at delta {c.delta:g}, and {part:g} of the protocol's is what there is for it"
        )
    if not abs(c.unit_epsilon - terms.protocol.number("epsilon") / (high - low)) <= 1e-12:
        faults.append("the certificate is at another epsilon than the protocol's")
    policies = without(terms.policies, terms.withdrawn) if k else terms.policies
    if digest_class(policies) != c.class_digest:
        faults.append("the certificate is of another policy class than the protocol's")
    people = terms.protocol.fields("contexts", of="contexts of the protocol")
    spec = terms.protocol.fields("policies", of="class of the protocol")["spec"]
    learnt = (spec, people["size"], people["digest"], 0)
    if (of := c.learning) is not None and (of.spec, of.contexts, of.digest, of.spared) != learnt:
        faults.append("the certificate says that its class was learnt otherwise than the protocol says")
    played = [terms.rounds[int(number)] for number in np.unique(log.rounds)]
    multipliers = EXPERT_MULTIPLIERS if c.leaders is None else LEADERS_MULTIPLIERS
    if tuple(one.scale for one in played) != c.bets.scales:
        faults.append("the certificate stakes other than was written down")
    if (c.bets.multipliers, c.bets.share, c.bets.spared) != (multipliers, CAP_SHARE, 0):
        faults.append("the experts of the certificate are not those of every trial")
    if any(as_read(c.model) != as_read(one.model) for one in played):
        faults.append("the certificate predicts by another model than was written down")
    return [*faults, *_wrong_leaders(terms, c, played)]


def _wrong_leaders(terms: SealedTerms, c: Certificate, played: list[Round]) -> list[str]:
    """Return the faults of a certificate's leaders against the rounds and the protocol's algorithm."""
    if c.leaders is None:
        return []
    faults, leaders = list[str](), c.leaders
    setting = Setting(terms.policies, c.unit_epsilon, c.delta, RewardBounds())
    trial = cast(Trial, make_algorithm(terms.protocol.text("algorithm"), setting))
    if leaders.moving != (SINGLE_MOVING if trial.single else LOTTERY_MOVING) or leaders.settled is not None:
        faults.append("weight moves between leaders otherwise than the protocol's algorithm says")
    if tuple(one.planned for one in played) != leaders.sizes:
        return [*faults, "rounds were planned for others than the certificate says"]
    if terms.withdrawn:  # leaders of all rounds were chosen anew; that this was done properly is an assumption
        return faults
    for one, turn in zip(played, leaders.turns, strict=True):
        led = None if turn < 0 else as_read(leaders.policies[turn].to_json())
        if led != (None if one.leader is None else as_read(one.leader.to_json())):
            return [*faults, "a round is led in the certificate by somebody else than was written down"]
    return faults


# The audit of an export, from one file alone: without the database, and without the code that selects rows and rewards
# (`Snapshot`), which it repeats independently. It shares the formats of records, rounds and hashes. It checks that
#
# - the chain is intact: every assignment, outcome and entry is hashed into the recorded heads;
# - the protocol has the digest in the first entry;
# - every round's design, stakes, model and leader are in the chain before its first row, and this design gives the
#   propensities of its rows;
# - times never decrease; and the value of each reward, which rewards were late and which each design knew follow from
#   times, from the order of records and from the rule for late rewards: windows that a design or the export treats as
#   over were over by the time of an earlier record;
# - the log has all first visits outside the holdout, with the protocol's actions, range and rule for late rewards;
# - a certificate has the stakes, predictions and leaders of the rounds, the protocol's ε, and its part of δ. If an
#   action was withdrawn, leaders were chosen anew from the data known before each round; that remains an assumption.
#
# So it is no longer an assumption that designs and stakes were fixed before a round, *as of the time when a head was
# noted down*: a chain without a noted head could have been made all at once afterwards, and proves only consistency. A
# chain cannot show that recorded contexts, rewards and times are true, nor that actions were drawn with the recorded
# propensities rather than chosen.


PROPENSITY_ROUNDING = 1e-9
# Assumptions that an audit verifies: of all claims, and of claims of trials only (not of those made afterwards by a
# rule).
SHOWN_OF_ALL, SHOWN_OF_TRIALS = (ROUNDS, KNOWN_REMARK), (FIXED, BETS_FIXED)
NOTED = "records were made when they say; those up to the head that was noted down, no later than that was noted"
NOBODY_NOTED = (
    "the record was made while the experiment ran, and not afterwards (a head that somebody noted down meanwhile would "
    "show that: --head)"
)


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    faults: failed checks, in words.
    head: recomputed head of the chain.
    records: number of records it covers.
    checked: passed checks, in words; empty if any failed.
    noted: number of records before the noted head; None if none was given or found.
    shown: assumptions of claims that the event log verifies.
    """

    faults: tuple[str, ...]
    head: str
    records: int
    checked: tuple[str, ...]
    noted: int | None = None
    shown: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not self.faults

    def joined(self, verdict: Verdict) -> Verdict:
        """Return the verdict on the certificate of the same file, combined with this audit."""
        faults = (*verdict.faults, *self.faults)
        trusted = () if self.good else verdict.trusted
        return replace(verdict, faults=faults, checked=(*verdict.checked, *self.checked), trusted=trusted)

    def left_to_assume(self, assumptions: Sequence[str]) -> tuple[str, ...]:
        """Return a certificate's assumptions except those verified here, plus the one that the audit itself makes."""
        if not self.good:
            return tuple(assumptions)
        left = tuple(words for words in assumptions if words not in self.shown)
        return (*left, NOBODY_NOTED if self.noted is None else NOTED)


def audit(record: Record, certificate: Certificate | None = None, *, head: str | None = None) -> Audit:
    """Audit an event log, and a certificate against it; head: one noted down earlier, to be found in the chain."""
    instance(record, Record, name="record", remedy="read one by read_record")
    if certificate is not None:
        instance(certificate, Certificate, name="certificate")
    if head is not None:
        text(head, name="--head")
    found, heads = _replay(record)
    last, count = (heads[-1] if heads else BEGINNING).hex(), len(heads)
    noted: int | None = None
    if head is not None:
        places = [number for number, one in enumerate(heads, start=1) if one.hex() == head.strip().lower()]
        if not places:
            found.append(
                f"the head {head[:16]}… that was noted down is none of this chain: the record was altered since"
            )
        else:
            noted = places[0]
    if found:
        return Audit(tuple(found), last, count, ())
    checked = [f"the chain of {count_of(count, 'record')} holds; its head is {last}"]
    if noted is not None:
        checked.append(
            f"the head that was noted down is that after {count_of(noted, 'record')}: they are as they were then"
        )
    try:
        terms = SealedTerms.of(record)
        found += _wrong_rounds(record, terms)
        found += _wrong_times(record, terms)
        found += _wrong_people(record, terms)
        found += _wrong_rows(record, terms)
        found += _wrong_log(record, terms)
        of_trial = certificate is not None and not certificate.by_rule
        if certificate is not None and of_trial and not found:
            found += wrong_certificate(certificate.of(record.log), terms, certificate)
    except InputError as error:
        return Audit((f"the record cannot be read: {error}",), last, count, ())
    checked.append(f"the protocol is the one with the digest {terms.digest}")
    checked.append(
        f"designs, stakes, models and leaders of {count_of(len(terms.rounds), 'round')} were written down before their "
        "rows, whose probabilities are those that these give"
    )
    checked.append("rewards, and which of them each design knew, follow from the order of records and their times")
    shown = SHOWN_OF_ALL
    if of_trial:
        shown += SHOWN_OF_TRIALS if terms.withdrawn else (*SHOWN_OF_TRIALS, LED)
        checked.append(
            "the certificate bets and leads as the rounds say, at the protocol's epsilon and its part of delta"
        )
    return Audit(tuple(found), last, count, () if found else tuple(checked), noted, shown)


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
    for name, kind in OUTCOME_KINDS.items():
        came = record.outcomes[name]
        for row in np.flatnonzero(came.sequence < NEVER):
            number, value, at = int(came.sequence[row]), float(came.values[row]), int(came.at[row])
            told = OutcomeRow("", int(row), kind, number, value, int(came.late[row]), at)
            out.append(Link(number, OUTCOME, told.sealed(), None))
    for number, at, kind, body, head in record.entries:
        out.append(Link(number, ENTRY, EntryRow("", number, kind, at, body, b"", b"").sealed(), head))
    return sorted(out, key=lambda one: one.number)


def _replay(record: Record) -> tuple[list[str], list[bytes]]:
    """Recompute the chain; return its faults and the head after each record."""
    links, heads, head = links_of(record), list[bytes](), BEGINNING
    if [one.number for one in links] != list(range(len(links))):
        return ["records are missing, or stand there twice: their numbers do not follow each other"], heads
    for one in links:
        head = linked(head, one.kind, one.record)
        heads.append(head)
        if one.told is not None and one.told != head.hex():
            return [f"the chain is broken before record {one.number}: something was altered, added or left out"], heads
    if len(links) != record.about.get("sequence"):
        return ["the file does not hold as many records as it says"], heads
    return [], heads


def _wrong_rounds(record: Record, terms: SealedTerms) -> list[str]:
    """Return faults: rounds out of order, opened after their rows, or with other propensities than their design's."""
    faults, rounds = list[str](), terms.rounds
    if [one.number for one in rounds] != list(range(len(rounds))):
        return ["rounds are not numbered one after the other"]
    if len(record) and int(record.rounds.max()) >= len(rounds):
        return ["there are rows of a round that was never opened"]
    opened = np.array([one.sequence for one in rounds])
    if (np.searchsorted(opened, record.sequence) - 1 != record.rounds).any():
        faults.append("a row belongs to another round than the one that was open when it was assigned")
    if any(one.snapshot > one.sequence for one in rounds):
        faults.append("a design knew of records that came after it")
    standard = np.eye(record.propensities.shape[1])[terms.standard]
    for one in rounds:
        rows = np.flatnonzero(record.rounds == one.number)
        if not len(rows):
            continue
        expected = one.sampler.propensities(contexts_of(record, terms, rows))
        expected = np.where(record.holdout[rows, None], standard, expected)
        if not np.allclose(record.propensities[rows], expected, rtol=0, atol=PROPENSITY_ROUNDING):
            faults.append(f"rows of round {one.number} were drawn with other probabilities than its design gives")
    return faults


def _wrong_times(record: Record, terms: SealedTerms) -> list[str]:
    """Return faults: times that decrease, wrong lateness, or windows treated as over before a record shows it."""
    count, window = int(record.about["sequence"]), terms.late.window
    times, faults = np.zeros(count, dtype=np.int64), list[str]()
    times[record.sequence] = record.at
    for came in record.outcomes.values():
        there = came.sequence < NEVER
        times[came.sequence[there]] = came.at[there]
    for number, at, *_ in record.entries:
        times[number] = at
    if (np.diff(times) < 0).any():
        faults.append("times of records go back")
    reward, guardrail = record.outcomes["reward"], record.outcomes["guardrail"]
    over = np.zeros(len(record), dtype=np.bool_) if window is None else reward.at > record.at + window
    if ((reward.late > 0) != (over & (reward.sequence < NEVER))).any() or guardrail.late.any():
        faults.append("a reward counts that came after its window, or one is taken for late that came within it")
    if window is None:
        return faults
    if any(one.snapshot_at > times[max(one.snapshot - 1, 0)] for one in terms.rounds):
        faults.append("a design took windows for over that may not have been, by the records before it")
    if int(record.about["at"]) > times[-1]:
        faults.append("windows are taken for over that may not have been, by the last record")
    return faults


def _wrong_people(record: Record, terms: SealedTerms) -> list[str]:
    """Return faults: visits numbered wrongly, or a holdout that contradicts the protocol."""
    faults = list[str]()
    units = np.ascontiguousarray(record.marks.astype(np.uint8)).view(f"V{record.marks.shape[1]}").reshape(-1)
    _, first, who, visits = np.unique(units, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(who, kind="stable")
    expected = np.empty(len(record), dtype=np.int64)
    expected[order] = np.arange(len(record)) - np.repeat(np.cumsum(visits) - visits, visits)
    sticky = terms.protocol.text("visits") == "sticky"
    if (record.visits != expected).any() or (sticky and expected.any()):
        faults.append("somebody was taken in twice as a new person, or a new one as somebody who had come before")
    held = record.holdout
    if (held != held[first][who]).any() or (held.any() and terms.protocol.number("holdout") == 0.0):
        faults.append("people are of the holdout who cannot be by the protocol, or only at some of their visits")
    if (record.actions[held] != terms.standard).any():
        faults.append("somebody of the holdout got another action than the standard one")
    return faults


def _wrong_log(record: Record, terms: SealedTerms) -> list[str]:
    """Return faults of the file's log against the records: its rows, contexts, actions, range and late rule."""
    log, counted, faults = record.log, np.flatnonzero(record.counted), list[str]()
    if log.units is not None or log.least is not None or log.known is None or log.repeats.max() > 1:
        return ["the log counts rows otherwise than one by one, with all propensities, as they were recorded"]
    same = (
        (log.actions, record.actions),
        (log.rounds, record.rounds),
        (log.propensities, record.propensities),
        (log.rewards, record.rewards),
        (log.known, record.known),
    )
    alike = len(log) == len(counted) and all(
        np.allclose(mine, theirs[counted], rtol=0, atol=PROPENSITY_ROUNDING, equal_nan=True) for mine, theirs in same
    )
    if not alike or not _alike(contexts_of(record, terms, counted), log.contexts):
        faults.append("the log is not what was recorded")
    if log.action_names != terms.protocol.texts("actions") or log.reward_range != terms.reward_range:
        faults.append("actions are called otherwise in the log than in the protocol, or rewards have another range")
    if terms.late.describe() not in log.remarks:
        faults.append("the log does not say what a reward means that is not in")
    return faults


def _came(record: Record, terms: SealedTerms, sequence: int, at: int) -> BoolArray:
    """Return which rows had a known reward when there were `sequence` records, at time `at`."""
    reward = record.outcomes["reward"]
    came = (reward.sequence < sequence) & (reward.late == 0)
    return came if terms.late.window is None else came | (record.at + terms.late.window < at)


def _wrong_rows(record: Record, terms: SealedTerms) -> list[str]:
    """Return faults: rewards, times when they were known, or counted rows that do not follow from the records."""
    faults, rounds = list[str](), terms.rounds
    sequence, at, n = int(record.about["sequence"]), int(record.about["at"]), len(record)
    reward, numbers = record.outcomes["reward"], np.arange(n)
    now = _came(record, terms, sequence, at)
    (low, high), missing = terms.reward_range, terms.late.missing
    there = (reward.sequence < sequence) & (reward.late == 0)
    raw = np.where(there, reward.values, low if missing is None else missing)
    rewards = np.where(now, (raw - low) / (high - low), np.nan)
    if not np.allclose(rewards, record.rewards, rtol=0, atol=1e-12, equal_nan=True):
        faults.append("a reward is not what was reported, or what the rule for late ones says")
    known = np.full(n, len(rounds))
    for one in reversed(rounds):
        if one.kind == "design":
            known[_came(record, terms, one.snapshot, one.snapshot_at) & (numbers < one.mature)] = one.number
    if (np.where(now, known, NOT_IN) != record.known).any():
        faults.append("a design knew of other rewards than the log says")
    trial = np.array([one.kind != "deployed" for one in rounds])
    counted = ~record.holdout & (record.visits == 0) & trial[record.rounds] & (numbers < int(record.about["mature"]))
    if (counted != record.counted).any():
        faults.append("rows were left out of the log, or added to it, that are or are not part of the trial")
    return faults


def _alike(one: Contexts, other: Contexts) -> bool:
    """Return whether contexts are equal, up to the coding of labels."""
    if one.names != other.names or len(one) != len(other):
        return False
    for j, (mine, theirs) in enumerate(zip(one.categories, other.categories, strict=True)):
        a, b = one.features[:, j], other.features[:, j]
        if (mine is None) != (theirs is None):
            return False
        if mine is None or theirs is None:
            if not np.array_equal(a, b, equal_nan=True):
                return False
        elif [mine[int(code)] for code in a] != [theirs[int(code)] for code in b]:
            return False
    return True

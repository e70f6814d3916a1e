"""Auditing a sealed record: from one exported file alone, without the database and without the code that wrote it.

What is found out:

- the chain holds: every assignment, outcome and entry is hashed into the heads that the record tells;
- the protocol is the one whose digest the first entry tells;
- every round's design, stakes, model and leader stand in the chain before its first row, and its rows were drawn with
  the probabilities that this design gives;
- which rewards each design knew, and what each reward is, follow from the order of records and the rule for late ones;
- a certificate stakes, predicts and leads as the rounds say, at the protocol's ε and its part of δ.

So that names and stakes were fixed before a round is no assumption any more, *as of the time when somebody noted down a
head*: a chain that nobody noted down could have been made all at once afterwards, and proves no more than that it fits
together. What a chain cannot show: that the contexts, rewards and times that were recorded are true.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, IntArray, as_read
from pacbandits.certificate.certificate import BETS_FIXED, LED, ROUNDS, Certificate
from pacbandits.certificate.claim import FIXED
from pacbandits.certificate.verify import Verdict
from pacbandits.checks import instance, text, texts
from pacbandits.errors import InputError, count_of
from pacbandits.experiment.chain import (
    ASSIGNMENT,
    BEGINNING,
    ENTRY,
    OUTCOME,
    assignment_bytes,
    entry_bytes,
    linked,
    outcome_bytes,
)
from pacbandits.experiment.exported import KINDS, Record
from pacbandits.experiment.protocol import digest_published
from pacbandits.experiment.rounds import ROUND, Round, round_from_json
from pacbandits.fields import Fields
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import class_from_json, digest_class
from pacbandits.policies.without import without
from pacbandits.records import Contexts
from pacbandits.records.late import KNOWN_REMARK, NOT_IN

Json = dict[str, Any]
PROPENSITY_ROUNDING = 1e-9
# What claims of trials assume that a record shows.
SHOWN = (FIXED, ROUNDS, BETS_FIXED, LED, KNOWN_REMARK)
NOTED = "records were made when they say; those up to the head that was noted down, no later than that was noted"
NOBODY_NOTED = (
    "the record was made while the experiment ran, and not afterwards (a head that somebody noted down meanwhile would "
    "show that: --head)"
)
NEVER = 2**62  # the number of a record that is not there


@dataclass(frozen=True)
class Audit:
    """What came of an audit.

    faults: what does not hold, in words.
    head: of the chain, computed anew.
    records: how many it is of.
    checked: what was found to hold, in words.
    noted: where a head that somebody noted down stands: after how many records; None if none was given.
    """

    faults: tuple[str, ...]
    head: str
    records: int
    checked: tuple[str, ...]
    noted: int | None = None

    @property
    def good(self) -> bool:
        return not self.faults

    def joined(self, verdict: Verdict) -> Verdict:
        """A verdict on the certificate of the same file, together with this."""
        faults = (*verdict.faults, *self.faults)
        trusted = () if self.good else verdict.trusted
        return replace(verdict, faults=faults, checked=(*verdict.checked, *self.checked), trusted=trusted)

    def left_to_assume(self, assumptions: Sequence[str]) -> tuple[str, ...]:
        """What a certificate assumes, without what the record shows; and what that rests on."""
        if not self.good:
            return tuple(assumptions)
        left = tuple(words for words in assumptions if words not in SHOWN)
        return (*left, NOBODY_NOTED if self.noted is None else NOTED)


def audit(record: Record, certificate: Certificate | None = None, *, head: str | None = None) -> Audit:
    """Check a record, and that a certificate is of it; head: one that somebody noted down earlier."""
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
        terms = Terms.of(record)
        found += _wrong_rounds(record, terms)
        found += _wrong_rows(record, terms)
        if certificate is not None and not found:
            found += _wrong_certificate(record, terms, certificate)
    except InputError as error:
        return Audit((f"the record cannot be read: {error}",), last, count, ())
    checked.append(f"the protocol is the one with the digest {terms.digest}")
    checked.append(
        f"designs, stakes, models and leaders of {count_of(len(terms.rounds), 'round')} were written down before their "
        "rows, which were drawn with the probabilities that these give"
    )
    checked.append("rewards, and which of them each design knew, follow from the order of records")
    if certificate is not None:
        checked.append(
            "the certificate bets and leads as the rounds say, at the protocol's epsilon and its part of delta"
        )
    return Audit(tuple(found), last, count, () if found else tuple(checked), noted)


@dataclass(frozen=True, eq=False)
class Terms:
    """What the entries of a record say.

    protocol: as it was published.
    digest: of it.
    policies: the class.
    rounds: all of them.
    withdrawn: the numbers of actions that were.
    """

    protocol: Fields
    digest: str
    policies: PolicyClass
    rounds: tuple[Round, ...]
    withdrawn: tuple[int, ...]

    @classmethod
    def of(cls, record: Record) -> Terms:
        """What they say, if they can be read."""
        if not record.entries or record.entries[0][2] != "created":
            raise InputError("its first entry is not the creation of an experiment")
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
    def window(self) -> int | None:
        """How long a reward is waited for, in microseconds; None where it may come at any time."""
        seconds = self.protocol.fields("late", of="rule for late rewards").number_or_null("window_seconds")
        return None if seconds is None else round(seconds * 1e6)


class Link(NamedTuple):
    """A record as it is hashed: its number, kind and bytes; and the head that is told to stand after it, if one is."""

    number: int
    kind: bytes
    record: bytes
    told: str | None


def links_of(record: Record) -> list[Link]:
    """All records in the order of their numbers."""
    out: list[Link] = []
    c = record.columns
    for row in range(len(record)):
        number = int(c["sequence"][row])
        words = assignment_bytes(
            number,
            row,
            record.marks[row].astype(np.uint8).tobytes(),
            int(c["visit"][row]),
            int(record.rounds[row]),
            int(record.actions[row]),
            int(c["holdout"][row]),
            int(c["at"][row]),
            record.features[row].astype("<f8").tobytes(),
            record.propensities[row].astype("<f8").tobytes(),
        )
        out.append(Link(number, ASSIGNMENT, words, None))
    for name, kind in KINDS.items():
        came = record.outcomes[name]
        for row in np.flatnonzero(came.sequence < NEVER):
            number, late = int(came.sequence[row]), int(came.late[row])
            words = outcome_bytes(number, int(row), kind, late, float(came.values[row]), int(came.at[row]))
            out.append(Link(number, OUTCOME, words, None))
    for number, at, kind, body, head in record.entries:
        out.append(Link(number, ENTRY, entry_bytes(number, at, kind, body), head))
    return sorted(out, key=lambda one: one.number)


def _replay(record: Record) -> tuple[list[str], list[bytes]]:
    """What is wrong with the chain, and the head after each record."""
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


def _wrong_rounds(record: Record, terms: Terms) -> list[str]:
    """Whether rounds follow each other, begin before their rows, and give the probabilities of these."""
    faults, rounds = list[str](), terms.rounds
    if [one.number for one in rounds] != list(range(len(rounds))):
        return ["rounds are not numbered one after the other"]
    if len(record) and int(record.rounds.max()) >= len(rounds):
        return ["there are rows of a round that was never opened"]
    sequence = record.columns["sequence"]
    opened = np.array([one.sequence for one in rounds])
    if (np.searchsorted(opened, sequence) - 1 != record.rounds).any():
        faults.append("a row belongs to another round than the one that was open when it was assigned")
    if any(one.snapshot > one.sequence for one in rounds):
        faults.append("a design knew of records that came after it")
    standard = np.eye(record.propensities.shape[1])[_standard(terms)]
    for one in rounds:
        rows = np.flatnonzero(record.rounds == one.number)
        if not len(rows):
            continue
        expected = one.sampler.propensities(_contexts(record, terms, rows))
        expected = np.where(record.columns["holdout"][rows, None] > 0, standard, expected)
        if not np.allclose(record.propensities[rows], expected, rtol=0, atol=PROPENSITY_ROUNDING):
            faults.append(f"rows of round {one.number} were drawn with other probabilities than its design gives")
    return faults


def _standard(terms: Terms) -> int:
    return terms.protocol.texts("actions").index(terms.protocol.text("standard"))


def _contexts(record: Record, terms: Terms, rows: IntArray) -> Contexts:
    """The contexts of some rows, coded as the protocol has them."""
    about = terms.protocol.fields("contexts", of="contexts of the protocol")
    names, d = about.texts("names"), len(about.texts("names"))
    listed = about.items("categories")
    categories = tuple(None if one is None else texts(one, name="labels of a category") for one in listed)
    features = record.features[rows]
    ids = features[:, d].astype(np.int64) if features.shape[1] > d else None
    return Contexts(features[:, :d], names, categories, ids, np.full(len(rows), 1.0 / len(rows)))


def _came(record: Record, terms: Terms, sequence: int, at: int) -> BoolArray:
    """Of which rows the reward was in, when there were so many records, at that time."""
    reward = record.outcomes["reward"]
    came = (reward.sequence < sequence) & (reward.late == 0)
    return came if terms.window is None else came | (record.columns["at"] + terms.window < at)


def _wrong_rows(record: Record, terms: Terms) -> list[str]:
    """Whether rewards, when they were known, and which rows count follow from the records."""
    faults, rounds, c = list[str](), terms.rounds, record.columns
    sequence, at, n = int(record.about["sequence"]), int(record.about["at"]), len(record)
    reward, numbers = record.outcomes["reward"], np.arange(n)
    now = _came(record, terms, sequence, at)
    low, high = terms.protocol.numbers("reward_range", shortest=2, longest=2)
    missing = terms.protocol.fields("late", of="rule for late rewards").number_or_null("missing")
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
    counted = (c["holdout"] == 0) & (c["visit"] == 0) & trial[record.rounds] & (numbers < int(record.about["mature"]))
    if (counted != (c["counted"] > 0)).any():
        faults.append("rows were left out of the log, or added to it, that are or are not part of the trial")
    if terms.window is not None:
        over = c["at"] + terms.window
        if ((reward.sequence < NEVER) & (reward.late == 0) & (reward.at > over)).any():
            faults.append("a reward counts that came after its window")
    units = np.ascontiguousarray(record.marks.astype(np.uint8)).view(f"V{record.marks.shape[1]}").reshape(-1)
    first = units[c["visit"] == 0]
    if len(np.unique(first)) < len(first):
        faults.append("somebody was taken in twice as a new person")
    coded = _contexts(record, terms, np.flatnonzero(c["counted"] > 0))
    if not _alike(coded, record.log.contexts):
        faults.append("contexts of the log are not those that were recorded")
    return faults


def _alike(one: Contexts, other: Contexts) -> bool:
    """Whether contexts are the same, however their labels are coded."""
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


def _wrong_certificate(record: Record, terms: Terms, certificate: Certificate) -> list[str]:
    """Whether a certificate bets and leads as the rounds say."""
    c, faults = certificate, list[str]()
    n, k = terms.policies.n_actions, len(terms.withdrawn)
    part = 0.9 if k == 0 else 0.1 * 0.5**k / comb(n, k)
    low, high = terms.protocol.numbers("reward_range", shortest=2, longest=2)
    if abs(c.delta - part * terms.protocol.number("delta")) > 1e-12:
        faults.append(
            f"the certificate is at delta {c.delta:g}, and {part:g} of the protocol's is what there is for it"
        )
    if abs(c.unit_epsilon - terms.protocol.number("epsilon") / (high - low)) > 1e-12:
        faults.append("the certificate is at another epsilon than the protocol's")
    policies = without(terms.policies, terms.withdrawn) if k else terms.policies
    if digest_class(policies) != c.class_digest:
        faults.append("the certificate is of another policy class than the protocol's")
    there = [int(number) for number in np.unique(record.log.rounds)]
    played = [terms.rounds[number] for number in there]
    if tuple(one.scale for one in played) != c.bets.scales:
        faults.append("the certificate stakes other than was written down")
    if played and as_read(c.model) != as_read(played[-1].model):
        faults.append("the certificate predicts by another model than was written down")
    if c.leaders is None:
        return faults
    if tuple(one.planned for one in played) != c.leaders.sizes:
        faults.append("rounds were planned for others than the certificate says")
    leaders = [one.leader for one in played]
    if k:
        return faults
    for one, turn in zip(leaders, c.leaders.turns, strict=True):
        if (one is None) != (turn < 0):
            faults.append("a round is led in the certificate by somebody else than was written down")
            break
        if one is not None:
            same = np.array_equal(one(record.log.contexts), c.leaders.policies[turn](record.log.contexts))
            if not same:
                faults.append("a round is led in the certificate by somebody else than was written down")
                break
    return faults

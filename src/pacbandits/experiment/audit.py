"""Audit an export: the hash chain of its event log, its protocol and rounds, and its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.arrays import BoolArray, IntArray, as_read, special
from pacbandits.certificate.certificate import (
    ASSUMPTIONS,
    BETS_FIXED,
    LED,
    MODEL_GIVEN,
    ROUNDS,
    Certificate,
    Improvement,
)
from pacbandits.certificate.claim import FIXED
from pacbandits.certificate.conventions import CAP_SHARE
from pacbandits.certificate.leaders import MIXTURE_MOVING, SINGLE_MOVING, Leaders
from pacbandits.checks import instance, text
from pacbandits.errors import InputError, count_of, plain
from pacbandits.experiment.chain import (
    BEGINNING,
    PUBLISHED,
    TimeStamp,
    hash_seed,
    linked,
)
from pacbandits.experiment.draws import ACTION, HOLDOUT, choose, draws, unit_draws
from pacbandits.experiment.exported_record import (
    KEEPER,
    SealedTerms,
    StampCheck,
    check_stamp,
    contexts_of,
    links_of,
    own_rows,
    pilot_bets,
    wrong_pilot_rounds,
)
from pacbandits.experiment.exported_record import Record as Record
from pacbandits.experiment.exported_record import read_record as read_record
from pacbandits.experiment.rounds import Round, played_rounds
from pacbandits.experiment.stored_rows import NEVER, spell
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.constraints import without
from pacbandits.policies.registry import digest_class
from pacbandits.records import Contexts, Log, Policy, RewardBounds, check_contexts, check_log
from pacbandits.records.log import KNOWN_REMARK, NOT_IN, digest_contexts, digest_log
from pacbandits.records.metrics import metric_columns, read_guardrail
from pacbandits.trials.late_rewards import leaders_again
from pacbandits.trials.protocol import Setting
from pacbandits.trials.trial import EXPERT_MULTIPLIERS, LEADERS_MULTIPLIERS, Trial
from pacbandits.verifier import Verdict
from pacbandits.verifier.order import wrong_pilot
from pacbandits.verifier.rule import CLASS_GIVEN, TRIAL_TOLD
from pacbandits.verifier.trust import SEALED_NAMES

# Comparison of a certificate with the event log: stakes, models, leaders, ε and part of δ.


TIED = (
    "ties between policies were broken, for leaders chosen again after a withdrawal, before it was seen who does better"
)
BETS_ON_PILOT = (
    "stakes and leaders of the pilot's rounds follow from the rows before each: whoever created the experiment could "
    "have chosen them by later rows (the contexts of the protocol show that: --contexts)"
)


def wrong_certificate(
    log: Log, terms: SealedTerms, certificate: Certificate, contexts: Contexts | None = None
) -> tuple[list[str], list[str]]:
    """Return the faults of a trial's certificate against the protocol and rounds, and what remains to be trusted.

    log: the rows it is about. contexts: those of the protocol, by which leaders are derived again after a withdrawal.
    """
    c, faults = certificate, list[str]()
    k, part = len(terms.withdrawn), terms.delta_part
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
    if faults or c.leaders is None:
        return faults, []
    setting = Setting(policies, c.unit_epsilon, c.delta, RewardBounds())
    trial = cast(Trial, make_algorithm(terms.protocol.text("algorithm"), setting))
    if c.leaders.moving != (SINGLE_MOVING if trial.single else MIXTURE_MOVING) or c.leaders.settled is not None:
        faults.append("weight moves between leaders otherwise than the protocol's algorithm says")
    if tuple(one.planned for one in played) != c.leaders.sizes:
        return [*faults, "rounds were planned for others than the certificate says"], []
    if not terms.withdrawn:
        return [*faults, *_wrong_leaders(c.leaders, played)], []
    if contexts is None or digest_contexts(contexts) != people["digest"]:
        fault = (
            "after a withdrawal leaders are derived again from the contexts of the protocol, which the file lacks; "
            "export it again, or pass those contexts with --contexts"
        )
        return [*faults, fault], []
    wrong, ties = _wrong_new_leaders(log, terms, c.leaders, played, trial, policies, contexts)
    return [*faults, *wrong], ties


SOMEBODY_ELSE = "a round is led in the certificate by somebody else than "


def _wrong_leaders(leaders: Leaders, played: Sequence[Round]) -> list[str]:
    """Return the faults of a certificate's leaders against those of the rounds."""
    for one, turn in zip(played, leaders.turns, strict=True):
        led = None if turn < 0 else as_read(leaders.policies[turn].to_json())
        if led != (None if one.leader is None else as_read(one.leader.to_json())):
            return [f"{SOMEBODY_ELSE}was written down"]
    return []


def _wrong_new_leaders(
    log: Log,
    terms: SealedTerms,
    leaders: Leaders,
    played: Sequence[Round],
    trial: Trial,
    policies: PolicyClass,
    contexts: Contexts,
) -> tuple[list[str], list[str]]:
    """Return the faults of leaders after a withdrawal, and ties: each follows from the rewards known before its round.

    Another machine may break ties up to rounding otherwise; the certificate's leaders are then accepted, and that is
    said.
    """
    # Later rounds have no rows in the log.
    rounds = played_rounds(terms.rounds[: played[-1].number + 1], log)
    turns = zip(played, leaders.turns, strict=True)
    led = {one.number: None if turn < 0 else leaders.policies[turn] for one, turn in turns}
    for told in (None, led):
        again = leaders_again(trial, policies, contexts, rounds, log, told=told)
        made = replace(leaders, policies=(), turns=(), sizes=(), start=0)
        for one in played:
            made = made.followed_by(again[one.number].leader, contexts, size=one.planned)
        if made.turns == leaders.turns and _same(made.policies, leaders.policies):
            return [], [] if told is None else [TIED]
    return [f"{SOMEBODY_ELSE}the rewards known before it favour, of the actions that are left"], []


def _same(some: Sequence[Policy], others: Sequence[Policy]) -> bool:
    """Return whether policies are equal, one by one."""
    return [as_read(one.to_json()) for one in some] == [as_read(one.to_json()) for one in others]


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
# - the share of the holdout is the protocol's; and, once the seed is disclosed, everybody of the holdout and every
#   action was drawn by it;
# - the log has all first visits outside the holdout, with the protocol's actions, range and remarks, and is the one
#   that the certificate is of;
# - a certificate has the stakes and predictions of the rounds, the protocol's ε, and its part of δ; and the leaders of
#   the rounds, or, after a withdrawal, those that the rewards known before each round favour.
#
# So it is no longer an assumption that designs and stakes were fixed before a round, *as of the time when a head was
# noted down*: a chain without a noted head could have been made all at once afterwards, and proves only consistency. A
# chain cannot show that recorded contexts, rewards, units and times are true, nor who was never asked for.


PROPENSITY_ROUNDING = 1e-9
MIN_SHARE_PROBABILITY = 1e-6  # of a holdout as far from its share, below which it is refused
# Assumptions that an audit verifies: of all claims, and of claims of trials only (not of those made afterwards by a
# rule).
SHOWN_OF_ALL, SHOWN_OF_TRIALS = (ROUNDS, KNOWN_REMARK), (FIXED, CLASS_GIVEN, BETS_FIXED, LED, TRIAL_TOLD)
DRAWN = ASSUMPTIONS[-1]  # verified once the seed is disclosed
TRUE_RECORDS = (
    "units, contexts and rewards were reported as they were, of all whom the experiment should have taken in: no chain "
    "shows what was reported wrongly, or not at all"
)
NOTED = (
    f"records were made when they say: {KEEPER} could have made those after the noted head at once, knowing all "
    "rewards; those before it, no later than it was noted"
)
NOBODY_NOTED = (
    f"the record was made while the experiment ran: {KEEPER} could have made it afterwards, knowing all rewards (a "
    "head that somebody noted down meanwhile would show that: --head)"
)
SEED_HIDDEN = (
    f"the holdout and all actions were drawn by the sealed seed: {KEEPER} could have chosen who gets what (the seed is "
    "disclosed once the experiment is stopped, or by experiment export --reveal-seed)"
)
SEED_OF_UNITS = (
    f"nobody who knew the seed chose by it whom to take in: {KEEPER} could have left out units whose draw did not "
    "suit, or made units up"
)
SEED_OF_ROWS = (
    f"nobody who knew the seed chose by it whom to take in next: {KEEPER} could have waited for a draw that suits, as "
    'draws are by the number of the assignment (by unit they are not: draws = "unit" in the protocol)'
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
    trusted: what remains to be trusted beyond the assumptions of the claim.
    """

    faults: tuple[str, ...]
    head: str
    records: int
    checked: tuple[str, ...]
    noted: int | None = None
    shown: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not self.faults

    def joined(self, verdict: Verdict) -> Verdict:
        """Return the verdict on the certificate of the same file, combined with this audit."""
        left = tuple(words for words in verdict.trusted if words not in self.shown)
        return replace(
            verdict,
            faults=(*verdict.faults, *self.faults),
            checked=(*verdict.checked, *self.checked),
            trusted=(*left, *self.trusted) if self.good else verdict.trusted,
        )

    def left_to_assume(self, assumptions: Sequence[str]) -> tuple[str, ...]:
        """Return a certificate's assumptions except those verified here, plus the one that no audit can verify."""
        if not self.good:
            return tuple(assumptions)
        left = tuple(words for words in assumptions if words not in self.shown)
        return (*left, TRUE_RECORDS)


def audit(
    record: Record,
    certificate: Certificate | None = None,
    *,
    head: str | None = None,
    stamp: TimeStamp | None = None,
    authorities: Path | None = None,
    contexts: Contexts | None = None,
    log: Log | None = None,
) -> Audit:
    """Audit an event log, and a certificate against it.

    head: one noted down earlier, to be found in the chain; or the line that `experiment head --publish` wrote.
    stamp: a time-stamp of that head. authorities: certificates by which its signature is checked.
    contexts: those of the protocol, if the file lacks them.
    log: the log that the certificate was verified on, if it was read otherwise than `Log.read` does.
    """
    instance(record, Record, name="record", remedy="read one by read_record")
    if certificate is not None:
        instance(certificate, Certificate, name="certificate")
    contexts = None if contexts is None else check_contexts(contexts)
    log = None if log is None else check_log(log)
    found, heads = _replay(record)
    last, count = (heads[-1] if heads else BEGINNING).hex(), len(heads)
    noted, wrong = _find_head(heads, head, stamp)
    found += wrong
    if found:
        return Audit(tuple(found), last, count, ())
    try:
        whole = SealedTerms.of(record)
        terms, trusted = whole.before(record.claimed), list[str]()
        found += _wrong_rounds(record, whole)
        found += [] if found else _wrong_times(record, whole)  # which looks up the records that designs knew
        found += _wrong_people(record, whole)
        found += [] if found else _wrong_draws(record, whole)
        found += _wrong_rows(record, terms)
        found += _wrong_log(record, terms)
        found += _wrong_metrics(record, terms)
        of_trial = certificate is not None and not certificate.by_rule
        of_pilot = None if certificate is None else certificate.pilot
        if certificate is not None and (of_trial or of_pilot is not None) and of_pilot != terms.pilot:
            found.append("the certificate says otherwise than the protocol which rows are those of a pilot")
        if certificate is not None and not found:
            found += _wrong_reading(record, certificate, log)
        if certificate is not None and of_trial and not found:
            known = contexts if record.contexts is None else record.contexts
            wrong, trusted = wrong_certificate(certificate.of(record.log), terms, certificate, known)
            found += wrong
            follows = pilot_bets(record.log, whole, known)
            if follows == "differ":
                found.append("stakes or leaders of the pilot's rounds do not follow from the rows before each")
            trusted += {"tied": [TIED], "unknown": [BETS_ON_PILOT]}.get(follows, [])
        of_gain = certificate is not None and not of_trial and certificate.improvement is not None and terms.by_gain
        sealed = of_gain and certificate is not None and _is_sealed(certificate, terms)
    except InputError as error:
        return Audit((f"the record cannot be read: {error}",), last, count, ())
    stamped = StampCheck((), (), ())
    if stamp is not None and noted is not None:
        stamped = check_stamp(stamp, authorities, latest=int(times_of(record)[noted - 1]))
        found += stamped.faults
    if found:
        return Audit(tuple(found), last, count, (), noted)
    checked = [f"the chain of {count_of(count, 'record')} holds; its head is {last}"]
    if record.claimed < count:
        checked.append(f"the claim is of its first {count_of(record.claimed, 'record')}")
    if noted is not None:
        checked += [_fixed_by(record, whole, noted), *stamped.checked]
    checked += _words_of_rounds(whole, derived=of_trial and BETS_ON_PILOT not in trusted)
    shown = SHOWN_OF_ALL
    trusted.append(SEED_HIDDEN if record.seed is None else SEED_OF_UNITS if whole.by_unit else SEED_OF_ROWS)
    checked += _words_of_draws(record, whole)
    if record.seed is not None and whole.pilot is None:  # nothing shows how those of a pilot were drawn
        shown += (DRAWN,)
    trusted += [NOBODY_NOTED if noted is None else NOTED, *stamped.trusted]
    if terms.metrics:
        checked.append("metrics were reported with the rewards, as the protocol lists them")
    named = certificate is not None and certificate.improvement is not None
    if named and certificate is not None and (sealed or _are_sealed(certificate.improvement, terms)):
        checked.append(SEALED_NAMES)
    if sealed:
        checked.append(
            "the certificate is of the sealed class, control and guardrails, at its part of the sealed delta"
        )
        shown += (FIXED, CLASS_GIVEN)
    if certificate is not None and of_trial:
        shown += (
            SHOWN_OF_TRIALS if certificate.learning is None else (*SHOWN_OF_TRIALS, certificate.learning.assumption)
        )
        checked.append(_words_of_bets(terms, led=certificate.leaders is not None))
    return Audit((), last, count, tuple(checked), noted, shown, tuple(trusted))


def _find_head(heads: list[bytes], head: str | None, stamp: TimeStamp | None) -> tuple[int | None, list[str]]:
    """Return after how many records a chain had a head that was noted down, None if none was; and failed checks."""
    given = head if head is not None or stamp is None else stamp.digest
    if given is None:
        return None, []
    wanted, wrong = PublishedHead.parse(given), list[str]()
    noted = wanted.find(heads)
    if noted is None:
        wrong.append(
            f"the head {wanted.head[:16]}… that was noted down is none of this chain: the record was altered since, or "
            "was exported before"
        )
    if stamp is not None and wanted.head != stamp.digest:
        wrong.append(f"the time-stamp is of {stamp.digest[:16]}…, not of the head {wanted.head[:16]}…")
    return noted, wrong


def _words_of_rounds(terms: SealedTerms, *, derived: bool) -> list[str]:
    """Return what was checked of protocol, rounds and rewards; derived: whether the bets on a pilot were."""
    begun = 0 if terms.pilot is None else terms.pilot.rounds
    checked = [
        f"the protocol is the one with the digest {terms.digest}",
        f"designs, stakes, models and leaders of {count_of(len(terms.rounds) - begun, 'round')} were written down "
        "before their rows, whose probabilities are those that these give",
    ]
    if terms.pilot is not None:
        checked.append(f"the first {terms.pilot.rows:,} rows are those of the pilot that the protocol sealed")
        if derived:
            checked.append("stakes and leaders of the pilot's rounds follow from the rows before each")
    checked.append("rewards, and which of them each design knew, follow from the order of records and their times")
    return checked


def _words_of_draws(record: Record, terms: SealedTerms) -> list[str]:
    """Return what was checked of the draws of actions and of the holdout."""
    if record.seed is None:
        return ["the holdout is as large as the protocol says, up to chance"] if terms.holdout else []
    after = "" if terms.pilot is None else "after the pilot, "
    return [f"{after}every action and everybody of the holdout was drawn by the seed that the protocol sealed"]


def _words_of_bets(terms: SealedTerms, *, led: bool) -> str:
    """Return what was checked of the bets of a trial's certificate; led: whether it has leaders."""
    does = "bets and leads" if led and not terms.withdrawn else "bets"
    words = f"the certificate {does} as the rounds say, at the protocol's epsilon and its part of delta"
    if not (led and terms.withdrawn):
        return words
    by = "the policies that the rewards known before each round favour, of the actions that are left"
    return f"{words}, and is led by {by}"


def _is_sealed(c: Certificate, terms: SealedTerms) -> bool:
    """Return whether a certificate by rule is the one by which an experiment stops that is to prove a gain."""
    assert c.improvement is not None
    own = {read_guardrail(one.spelt) for one in c.improvement.guardrails}
    names = c.improvement.control == terms.standard and own == set(terms.guardrails)
    policies = without(terms.policies, terms.withdrawn) if terms.withdrawn else terms.policies
    same = c.learning is None and MODEL_GIVEN not in c.remarks and digest_class(policies) == c.class_digest
    return names and same and abs(c.delta - terms.delta_part * terms.protocol.number("delta")) <= 1e-12


def _are_sealed(improvement: Improvement | None, terms: SealedTerms) -> bool:
    """Return whether the control and the guardrails of a certificate are those of a protocol that has guardrails."""
    if improvement is None:
        return False
    own = {read_guardrail(one.spelt) for one in improvement.guardrails}
    return improvement.control == terms.standard and own == set(terms.guardrails) != set()


def _fixed_by(record: Record, terms: SealedTerms, noted: int) -> str:
    """Return what the noted head fixes, in words."""
    rows = int(np.searchsorted(record.sequence, noted))
    came = sum(int((one.sequence < noted).sum()) for one in record.outcomes.values())
    rounds = sum(one.sequence < noted for one in terms.rounds)
    return (
        f"the head that was noted down is that after {count_of(noted, 'record')}, the last of which is of "
        f"{spell(int(times_of(record)[noted - 1]))}: fixed by then were the protocol, {rounds} of {len(terms.rounds)} "
        f"rounds, {rows:,} of {count_of(len(record), 'assignment')} and {count_of(came, 'outcome')}"
    )


class PublishedHead(NamedTuple):
    """A head as it was noted down: in hexadecimal, with the number of records before it if the note tells that."""

    head: str
    records: int | None = None

    @classmethod
    def parse(cls, given: str) -> PublishedHead:
        """Parse a head, or the line that `experiment head --publish` wrote."""
        found = PUBLISHED.fullmatch(text(given, name="--head").strip())
        if found is None:
            return cls(given.strip().lower())
        return cls(found["head"].lower(), int(found["records"]))

    def find(self, heads: Sequence[bytes]) -> int | None:
        """Return the number of records before the head in a chain; None if it is not there."""
        places = (number for number, one in enumerate(heads, start=1) if one.hex() == self.head)
        found = next(places, None)
        return found if self.records in (None, found) else None


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
    if len(links) != record.records:
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
    faults += wrong_pilot_rounds(record, terms)
    standard = np.eye(record.propensities.shape[1])[terms.standard]
    for one in rounds:
        rows = np.flatnonzero(record.rounds == one.number)
        if not len(rows) or one.kind == "pilot":
            continue
        expected = one.sampler.propensities(contexts_of(record, terms, rows))
        same = expected.shape == record.propensities[rows].shape  # of the same number of actions
        expected = np.where(record.holdout[rows, None], standard, expected) if same else expected
        if not same or not np.allclose(record.propensities[rows], expected, rtol=0, atol=PROPENSITY_ROUNDING):
            faults.append(f"rows of round {one.number} were drawn with other probabilities than its design gives")
    return faults


def _wrong_times(record: Record, terms: SealedTerms) -> list[str]:
    """Return faults: times that decrease, wrong lateness, or windows treated as over before a record shows it."""
    window, times, faults = terms.late.window, times_of(record), list[str]()
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
    if record.claimed_at > times[max(record.claimed - 1, 0)]:
        faults.append("windows are taken for over that may not have been, by the last record")
    return faults


def times_of(record: Record) -> IntArray:
    """Return the time of each record, in microseconds, in their order."""
    times = np.zeros(record.records, dtype=np.int64)
    times[record.sequence] = record.at
    for came in record.outcomes.values():
        there = came.sequence < NEVER
        times[came.sequence[there]] = came.at[there]
    for number, at, *_ in record.entries:
        times[number] = at
    return times


def _wrong_people(record: Record, terms: SealedTerms) -> list[str]:
    """Return faults: visits numbered wrongly, or a holdout that contradicts the protocol."""
    faults = list[str]()
    units = np.ascontiguousarray(record.marks.astype(np.uint8)).view(f"V{record.marks.shape[1]}").reshape(-1)
    _, first, who, visits = np.unique(units, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(who, kind="stable")
    expected = np.empty(len(record), dtype=np.int64)
    expected[order] = np.arange(len(record)) - np.repeat(np.cumsum(visits) - visits, visits)
    if (record.visits != expected).any() or (terms.sticky and expected.any()):
        faults.append("somebody was taken in twice as a new person, or a new one as somebody who had come before")
    held = record.holdout
    if (held != held[first][who]).any() or (held.any() and terms.holdout == 0.0):
        faults.append("people are of the holdout who cannot be by the protocol, or only at some of their visits")
    if (record.actions[held] != terms.standard).any():
        faults.append("somebody of the holdout got another action than the standard one")
    return faults


def _wrong_draws(record: Record, terms: SealedTerms) -> list[str]:
    """Return faults: a holdout of another share than the protocol's, or draws that are not those of the seed."""
    own = own_rows(record, terms)
    new = (record.visits == 0) & own
    if record.seed is None:
        held, n = int(record.holdout[new].sum()), int(new.sum())
        as_many_or_fewer = special.bdtr(held, n, terms.holdout)
        tails = as_many_or_fewer, special.bdtrc(held - 1, n, terms.holdout)
        if 2.0 * min(tails) >= MIN_SHARE_PROBABILITY:
            return []
        return [
            f"{held:,} of {n:,} units are of the holdout, and the protocol says {100 * terms.holdout:g} %: chance "
            f"alone would give that in less than one of {round(1 / MIN_SHARE_PROBABILITY):,} experiments"
        ]
    if hash_seed(str(record.seed)) != terms.protocol.text("seed_sha256"):
        return ["the seed that was disclosed is not the one that the protocol sealed"]
    if terms.by_unit:
        marks = (one.tobytes() for one in record.marks.astype(np.uint8))
        drawn = unit_draws(record.seed, marks, record.visits.tolist())
    else:
        drawn = draws(record.seed, first=0, count=len(record))
    faults = list[str]()
    if ((drawn[:, HOLDOUT] < terms.holdout) != record.holdout)[new].any():
        faults.append("somebody is of the holdout, or is not, whom the sealed seed drew otherwise")
    if (choose(record.propensities, drawn[:, ACTION]) != record.actions)[own].any():
        faults.append("somebody got another action than the sealed seed drew")
    return faults


def _wrong_reading(record: Record, certificate: Certificate, log: Log | None) -> list[str]:
    """Return faults: the certificate is of other rows than those recorded, as it reads the file otherwise.

    A claim made afterwards may leave out features; everything else must be as it was recorded.
    """
    own, c = record.log, certificate
    told = all(words in c.remarks for words in own.remarks)
    if told and (c.reward_range, c.action_names, c.dates) == (own.reward_range, own.action_names, own.dates):
        if c.is_of(own):
            return []
        if c.by_rule and log is not None and set(log.contexts.names) < set(own.contexts.names):
            places = [own.contexts.names.index(name) for name in log.contexts.names]
            features, kinds = own.contexts.features[:, places], tuple(own.contexts.categories[j] for j in places)
            fewer = replace(own.contexts, features=features, names=log.contexts.names, categories=kinds)
            same = len(log) == len(own) and digest_log(replace(log, contexts=own.contexts)) == digest_log(own)
            if same and c.is_of(log) and _alike(fewer, log.contexts):
                return []
    return ["the certificate is of other rows than those recorded: it reads rewards, actions or contexts otherwise"]


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
    faults += [f"the log does not say that {words}" for words in terms.remarks if words not in log.remarks]
    faults += [] if faults or terms.pilot is None else list(wrong_pilot(terms.pilot, log))
    return faults


def _wrong_metrics(record: Record, terms: SealedTerms) -> list[str]:
    """Return faults: other metrics than the protocol's, or values that were not reported with the rewards."""
    columns, reward = metric_columns(terms.metrics), record.outcomes["reward"]
    if record.log.metrics != terms.metrics:
        return ["the log has other metrics than the protocol"]
    reported, raw = reward.sequence < NEVER, np.empty((len(record), len(columns)))
    for place, column in enumerate(columns):
        own = record.outcomes[f"metric_{place}"]
        due = np.where(reported, reward.sequence + 1 + place, NEVER)
        if (own.sequence != due).any() or ((own.at != reward.at) | (own.late != reward.late))[reported].any():
            return [f"metric '{plain(column.name)}' was reported at another time than the reward"]
        there = (reward.sequence < record.claimed) & (reward.late == 0)
        value = np.where(there, own.values, column.if_missing)
        raw[:, place] = np.where(np.isnan(record.rewards), np.nan, (value - column.low) / (column.high - column.low))
    told = record.log.metric_values
    if told is not None and not np.allclose(raw[record.counted], told, rtol=0, atol=1e-12, equal_nan=True):
        return ["a metric is not what was reported, or what the rule for late rewards says"]
    return []


def _came(record: Record, terms: SealedTerms, sequence: int, at: int) -> BoolArray:
    """Return which rows had a known reward when there were `sequence` records, at time `at`."""
    reward = record.outcomes["reward"]
    came = (reward.sequence < sequence) & (reward.late == 0)
    return came if terms.late.window is None else came | (record.at + terms.late.window < at)


def _wrong_rows(record: Record, terms: SealedTerms) -> list[str]:
    """Return faults: rewards, times when they were known, or counted rows that do not follow from the records."""
    faults, rounds = list[str](), terms.rounds
    n, numbers = len(record), np.arange(len(record))
    reward, claimed = record.outcomes["reward"], record.sequence < record.claimed
    now = _came(record, terms, record.claimed, record.claimed_at) & claimed
    (low, high), missing = terms.reward_range, terms.late.missing
    there = (reward.sequence < record.claimed) & (reward.late == 0)
    raw = np.where(there, reward.values, low if missing is None else missing)
    rewards = np.where(now, (raw - low) / (high - low), np.nan)
    if not np.allclose(rewards, record.rewards, rtol=0, atol=1e-12, equal_nan=True):
        faults.append("a reward is not what was reported, or what the rule for late ones says")
    known = np.full(n, len(rounds))
    for one in reversed(rounds):
        if one.kind in ("design", "pilot"):
            known[_came(record, terms, one.snapshot, one.snapshot_at) & (numbers < one.mature)] = one.number
    if (np.where(now, known, NOT_IN) != record.known).any():
        faults.append("a design knew of other rewards than the log says")
    trial = {one.number for one in rounds if one.kind != "deployed"}
    counted = ~record.holdout & (record.visits == 0) & np.isin(record.rounds, list(trial)) & claimed
    if (counted & (numbers < record.mature) != record.counted).any():
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

"""What `certify`, `evaluate` and `verify` print of a certificate and of the value of a policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pacbandits.certificate import AsymptoticCertificate, Certificate, Claim, Worth
from pacbandits.certificate.certificate import count_words
from pacbandits.records.beside import UNIT_RANGE
from pacbandits.records.log import Log
from pacbandits.report.document import Block, Check, Checks, Code, Document, Items, Note, Section, Table, Text
from pacbandits.report.numbers import about, show_number
from pacbandits.report.page import IN_DOUBT, MAX_SHOWN_ACTIONS, WORTHWHILE_SHARE
from pacbandits.report.summary import Summary, interval_words
from pacbandits.verifier import Verdict

LABEL_WIDTH = 31
OWN_LOG = "the policy was chosen by this log, and the intervals allow for that"
OTHER_LOG = "holds if the policy was not chosen by looking at this log (else the estimates flatter it)"


def alarm_notes(alarms: Sequence[str]) -> tuple[Note, ...]:
    """Return alarms, to be shown before anything else."""
    return tuple(Note("alarm", words) for words in alarms)


def certificate_document(certificate: Certificate, summary: Summary | None = None) -> Document:
    """Return what a log proves: the policy, the claim, the numbers behind it, and what is still missing.

    summary: how good the policy is, and how many more interactions would prove what.
    """
    c, alarms = certificate, certificate.alarms if summary is None else summary.alarms
    facts = {} if summary is None else _value_facts(summary)
    facts |= {
        "certified": "in doubt (alarm)" if alarms else "yes" if c.certified else "no",
        "ε, if the assumptions held" if alarms else "ε that the data certify": (
            show_number(c.certified_epsilon) if c.certified_epsilon < c.unit else "—"
        ),
    }
    if summary is not None and (scale := summary.scale) is not None and not alarms:
        most, likely = summary.show_difference(scale.possible), summary.show_difference(scale.likely)
        empty = ": this ε says nothing" if scale.says_nothing else ""
        facts["most that any rule could gain"] = f"about {likely}, at most {most}{empty}"
    facts |= {
        "interactions" if c.units is None else "returning users": c.counted,
        "least evidence, and needed": f"{c.value:.2f} of {c.threshold:.2f} nats",
    }
    if summary is not None and summary.price is not None:
        name, figure = summary.price.figure
        facts[name] = figure
    if summary is not None and (ahead := summary.ahead) is not None and summary.target is not None and not alarms:
        words = f"about {about(ahead.same)} like these" if math.isfinite(ahead.same) else "too few so far to say"
        facts[f"more {summary.noun} to prove {summary.show_difference(summary.target)}"] = words
        if ahead.best < WORTHWHILE_SHARE * ahead.same:
            facts["  or by the best design"] = f"about {about(ahead.best)}"
    # Under an alarm the answer follows it; else the command has printed it before.
    said = () if summary is None or not alarms else summary.answer()[len(alarms) :]
    return _claim_document(c, facts, alarms=alarms, before=tuple(Text(f"{words}\n") for words in said))


def asymptotic_document(certificate: AsymptoticCertificate) -> Document:
    """Return what a log suggests by a normal approximation, with the warning that it is not a proof."""
    c = certificate
    seed = "" if c.seed is None else f", seed {c.seed}"
    facts = {
        "certified, approximately": "in doubt (alarm)" if c.alarms else "yes" if c.certified else "no",
        "smallest ε, approximately": show_number(c.certified_epsilon) if c.certified_epsilon < c.unit else "—",
        "interactions": f"{c.samples:,}",
        "bootstrap": f"{c.draws:,} draws{seed}, slope {c.slope:g}",
        "policies considered": (
            f"all {c.rivals:,} of the class" if c.complete else f"{c.rivals:,} that the oracle named"
        ),
    }
    warning = Note("warning", "an approximate certificate, which is not a proof")
    return _claim_document(c, facts, alarms=c.alarms, before=(warning, Text("")))


def _claim_document(
    claim: Claim, facts: Mapping[str, str], *, alarms: Sequence[str], before: tuple[Block, ...]
) -> Document:
    """Return alarms, sentences, the policy, the claim, the numbers behind it, its checks and its assumptions."""
    quiet = tuple(Check("", "", check.describe()) for check in claim.checks if not check.alarm)
    blocks: tuple[Block, ...] = (
        *alarm_notes(alarms),
        *before,
        Section("policy", (Code(claim.words),)),
        Section("claim, if its assumptions held" if alarms else "claim", (Text(claim.describe()),)),
        Table((), tuple(facts.items()), widths=(LABEL_WIDTH,)),
        *((Checks(quiet),) if quiet else ()),
        Text(f"assuming that {claim.assuming()}", "dim"),
    )
    return Document("", blocks)


def _value_facts(summary: Summary) -> dict[str, str]:
    """Return how good a policy is with intervals, and each action as it was logged."""
    worth, outcome, names = summary.worth, summary.outcome, summary.actions
    facts: dict[str, str] = {}
    if worth is not None:
        best = int(np.argmax([one.estimate for one in worth.singles]))
        percent = summary.percent
        facts |= {
            f"mean {outcome} of the policy": interval_words(worth.value, percent=percent, difference=False),
            f"always {names[best]}": interval_words(worth.singles[best], percent=percent, difference=False),
            "gain over the best single action": interval_words(worth.over_best, percent=percent, difference=True),
            "measured by": worth.measured_by,
        }
        if (control := summary.control) is not None:
            single, gain = worth.singles[control], worth.over_each[control]
            facts[f"always {names[control]}"] = interval_words(single, percent=percent, difference=False)
            facts[f"gain over the control, {names[control]}"] = interval_words(gain, percent=percent, difference=True)
    for arm in summary.arms[:MAX_SHOWN_ACTIONS]:
        mean = "" if arm.mean is None else f", mean {outcome} {summary.show(arm.mean)}"
        facts[f"rows with {arm.action}"] = f"{arm.rows:,}{mean}" + (
            f" ({arm.awaited:,} pending)" if arm.awaited else ""
        )
    return facts


def worth_document(
    worth: Worth,
    names: tuple[str, ...],
    policy: str,
    *,
    own: bool,
    control: int | None,
    log: Log,
    outcome: str = "reward",
) -> Document:
    """Return a policy, its mean reward, and what it gains.

    names (A,): of the actions. own: whether the policy was chosen by this log. control: the action to compare with.
    log: that it was measured by. outcome: what a reward is called.
    """
    percent = log.reward_range == UNIT_RANGE
    compared = range(len(names)) if control is None else [control]
    facts = [(f"mean {outcome} of the policy", worth.value, False)]
    facts += [(f"always {names[action]}", worth.singles[action], False) for action in compared]
    facts += [(f"gain over always {names[action]}", worth.over_each[action], True) for action in compared]
    facts += [("gain over the best single action", worth.over_best, True)]
    rows = [(name, interval_words(one, percent=percent, difference=gain)) for name, one, gain in facts]
    visits = "" if worth.units is None else f"; {count_words(worth.samples, worth.units)}"
    rows.append(("measured by", f"{worth.measured_by}{visits}"))
    sure = f"each interval is right except with probability {worth.delta:g}; {OWN_LOG if own else OTHER_LOG}"
    sure = IN_DOUBT if worth.alarms else sure
    sure += "; assuming that " + "; that ".join(worth.assumptions)
    blocks = (*alarm_notes(worth.alarms), Section("policy", (Code(policy),)), Table((), tuple(rows)), Text(sure, "dim"))
    return Document("", blocks)


def verdict_document(
    claim: Claim, verdict: Verdict, *, reading: str, policies: str, details: Sequence[str], assumptions: Sequence[str]
) -> Document:
    """Return what came of rechecking a certificate: the claim, its class and policy, what was rechecked and what not.

    reading: how the log was read. policies, details: the class, and what its policies can ask. assumptions: those left.
    """
    if not verdict.good:
        return Document("", (Text("not good:"), Items(tuple(verdict.faults))))
    opening = "doubtful: if its assumptions held, " if verdict.alarms else "good: " if claim.certified else "genuine: "
    facts = [("log", reading)] if reading else []
    facts += [("class", policies), *(("", line) for line in details), ("digest", claim.class_digest or "none")]
    lists = (("rechecked", verdict.checked), ("not rechecked", verdict.trusted), ("assumptions", assumptions))
    blocks: tuple[Block, ...] = (
        *alarm_notes(verdict.alarms),
        Text(f"{opening}{claim.describe()}\n"),
        Table((), tuple(facts)),
        Section("policy", (Code(claim.words),)),
        *(Section(title, (Items(tuple(lines)),)) for title, lines in lists if lines),
    )
    return Document("", blocks)

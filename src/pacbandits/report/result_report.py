"""The report of a result: its page, the table of its claim, and the counts of an applied policy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote

import numpy as np

from pacbandits.certificate import AsymptoticCertificate, Certificate, Claim, Worth
from pacbandits.certificate.certificate import CONTROL, Candidate, Improvement, count_words
from pacbandits.certificate.claim import rounded_down, rounded_up
from pacbandits.certificate.worth import Interval, constant_action
from pacbandits.errors import InputError, count_of, plain
from pacbandits.policies.trees.tree_policy import Node, TreePolicy, TreeSplit
from pacbandits.records import Mixture, likeliest
from pacbandits.records.log import Log
from pacbandits.records.log_metadata import UNIT_RANGE
from pacbandits.records.policy import call
from pacbandits.report import document as d
from pacbandits.report.document import Block, Check, Checks, Code, Document, Items, Note, Section, Table, Text
from pacbandits.report.html import render_html
from pacbandits.report.markdown import render_markdown
from pacbandits.report.numbers import about, show_gain, show_number
from pacbandits.report.result_facts import Arm, interval_words, metric_words
from pacbandits.report.summary import Summary
from pacbandits.rewards import CellMeans
from pacbandits.verifier import Verdict
from pacbandits.verifier.trust import sort_rest
from pacbandits.version import __version__

# The report of a result: the recommendation, its gain, its confidence, and how to verify it.


ENDINGS = (".html", ".htm", ".md")
MAX_SHOWN_ACTIONS = 12
WORTHWHILE_SHARE = 0.9  # a design is mentioned if it needs fewer than this share of the rows
IN_DOUBT = "no interval here can be relied on, as the log speaks against an assumption (see the alarm)"
STATUSES: dict[str, d.Status] = {"green": "good", "yellow": "warning", "red": "alarm"}
RECHECK = (
    "The certificate is a file. With it and the log anyone can recompute every number, by a verifier that shares "
    "policy searches and reward models with the code that made it, and none of the proof's arithmetic:"
)
CUPED = (
    "Estimates are adjusted by a reward model of the features, which removes noise as CUPED or a regression adjustment "
    "does, and cannot bias them."
)
AS_LOGGED = "All rows as they stand in the log, neither weighted nor modelled."


def check_report(path: Path | None) -> None:
    """Raise InputError unless a report can be written under this name."""
    if path is not None and path.suffix.lower() not in ENDINGS:
        raise InputError(f"a report is a file of HTML or Markdown: '{plain(path)}' must end in {' or '.join(ENDINGS)}")


def write_document(document: Document, path: Path) -> None:
    """Write a document as HTML or Markdown, by the suffix of the path."""
    check_report(path)
    text = render_markdown(document) if path.suffix.lower() == ".md" else render_html(document)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def write_report(summary: Summary, path: Path) -> None:
    """Write the report of a result as HTML or Markdown, by the suffix of the path."""
    write_document(result_document(summary), path)


def result_document(summary: Summary) -> Document:
    """Return the report of a result, for colleagues."""
    s, c = summary, summary.certificate
    size = count_of(c.samples, "row") if c.units is None else c.counted
    blocks: list[Block] = [
        Text(f"{s.source}: {count_of(len(s.actions), 'action')}; {size}", "dim"),
        *(Note("warning", f"Note: {words}") for words in s.notices),
        d.Box((*(Note("alarm", f"{words}.") for words in s.alarms), *map(Text, s.findings()))),
    ]
    if not s.alarms and (step := s.next_step().removeprefix("Next: ")):
        blocks.append(Section("What to do next", (Text(step[0].upper() + step[1:]),)))
    blocks.append(Section("The rule" if s.single_action is None else "The recommendation", tuple(_rule(s))))
    if s.gain is not None:
        blocks.append(Section("Candidates", (candidates_table(s, s.gain), gains_picture(s, s.gain))))
        if s.gain.guardrails:
            blocks.append(Section("Guardrails", (guardrails_table(s, s.gain),)))
    if s.worth is not None:
        blocks.append(Section("Estimated value", tuple(_value(s))))
        if s.worth.metrics:
            blocks.append(Section("Metrics", (metrics_table(s.worth),)))
    blocks.append(Section("Results by action", (arms_table(s.arms, s.outcome, s.show),)))
    if s.leaves:
        blocks.append(Section("Results by group", (_leaves_table(s),)))
    checks = (d.Check(STATUSES[mark.light], mark.title, mark.words) for mark in s.marks)
    blocks += [
        Section("Checks", (d.Checks(tuple(checks)),)),
        Section("Confidence and assumptions", (Text(_confidence(s)), d.Items(c.assumptions))),
        Section("More data", (Text(_more_data(s)),)),
    ]
    if s.happened:
        blocks.append(Section("Plan and outcome", (happened_table(s.happened),)))
    # If no certificate was written, the first command writes one.
    source = quote(s.source) if re.match(r"\w+://", s.source) else s.source
    first = "" if s.proof is not None else f"pacbandits certify {source} … --certificate proof.json\n"
    command = d.Code(f"{first}pacbandits verify {s.proof or 'proof.json'} {source}")
    blocks += [
        Section("How to verify it", (Text(RECHECK), command)),
        Section("Appendix", (Table((), tuple(_appendix(s))), d.Code(c.words))),
    ]
    return Document(f"Which action for whom, for the largest mean {s.outcome}?", tuple(blocks))


def happened_table(rows: Sequence[tuple[str, str, str]]) -> Table:
    """Return a table of what was planned and what happened."""
    return Table(("", "planned", "happened"), tuple(rows))


def happened_document(rows: Sequence[tuple[str, str, str]]) -> Document:
    """Return the document that a command prints to compare a plan with what happened."""
    return Document("", (Section("Plan and outcome", (happened_table(rows),)),))


def arms_table(arms: Sequence[Arm], outcome: str, show: Callable[[float], str]) -> Table:
    """Return a table of how often each action was taken, and its mean outcome."""
    rows: list[tuple[str, ...]] = []
    for arm in arms[:MAX_SHOWN_ACTIONS]:
        mean = "—" if arm.mean is None else show(arm.mean)
        mean += f" ({arm.awaited:,} pending)" if arm.awaited else ""
        rows.append((plain(arm.action), f"{arm.rows:,}", f"{100 * arm.share:.3g} %", mean))
    return Table(("action", "rows", "share", f"mean {outcome}"), tuple(rows), note=AS_LOGGED)


def tree_block(root: Node, names: Sequence[str], shares: Iterable[float | None], *, wide: bool = True) -> d.Tree:
    """Return a decision tree; names: of the actions; shares: of people in its leaves, from left to right."""
    left = iter(shares)

    def block_of(node: Node) -> d.Branch | d.Leaf:
        if not isinstance(node, TreeSplit):
            return d.Leaf(call(node, names), node, next(left, None))
        return d.Branch(node.test.describe(), block_of(node.then), block_of(node.otherwise))

    return d.Tree(block_of(root), wide)


def _rule(s: Summary) -> Iterable[Block]:
    policy = likeliest(s.certificate.policy)
    if isinstance(policy, TreePolicy):
        yield tree_block(policy.root, s.actions, [leaf.share for leaf in s.leaves])
    else:
        yield d.Code(s.certificate.words)
    if isinstance(s.certificate.policy, Mixture):
        yield Text("The most likely rule of the mixture; the appendix lists all of them.", "dim")


def _value(s: Summary) -> Iterable[Block]:
    """Yield the values and the gains with their intervals, the rows they are estimated from, and their confidence."""
    assert s.worth is not None
    worth, names = s.worth, [plain(name) for name in s.actions[:MAX_SHOWN_ACTIONS]]

    def drawn(label: str, one: Interval, *, difference: bool) -> d.IntervalLine:
        low, high = (None, None) if one.empty else (one.low, one.high)
        return d.IntervalLine(
            label, interval_words(one, percent=s.percent, difference=difference), one.estimate, low, high
        )

    each = "person" if s.certificate.units is None else "visit, by person"
    policy = "the rule" if s.gain is None or s.single_action is None else "the recommendation"
    plain_means = s.certificate.model.get("kind") == CellMeans.kind
    if s.sole is not None and s.sole < len(names):
        policy = f"always {names[s.sole]}"
    means = [(policy, worth.value)]
    means += [(f"always {name}", worth.singles[k]) for k, name in enumerate(names) if k != s.sole]
    # Gains over control are drawn with the candidates, and a single action gains nothing over itself.
    shown = {s.sole, None if s.gain is None else s.gain.control}
    gains = [("best single action", worth.over_best)] if s.sole is None else []
    gains += [(f"always {name}", worth.over_each[k]) for k, name in enumerate(names) if k not in shown]
    yield d.Intervals(tuple(drawn(*one, difference=False) for one in means), f"Mean {s.outcome} per {each}")
    if gains:
        yield d.Intervals(tuple(drawn(*one, difference=True) for one in gains), f"Gain of {policy} over", zero=True)
    yield Text(f"Measured by {worth.measured_by}.{'' if plain_means else f' {CUPED}'}", "dim")
    if s.alarms:
        yield Note("warning", f"{IN_DOUBT.capitalize()}.")
    else:
        sure = (
            f"Each interval is right with {100 * (1 - worth.delta):g} % confidence{s.whenever}, without approximation"
        )
        yield Text(f"{sure}; that makes it wider than the usual one.", "dim")


def candidates_table(s: Summary, gain: Improvement) -> Table:
    """Return the candidates from the simplest on: value, gains over control, and a mark at the recommended one."""
    control, chosen, worth = call(gain.control, s.actions), gain.recommended, s.worth
    kept = "—"
    if worth is not None:
        kept = s.show(worth.value.estimate if s.sole == gain.control else worth.singles[gain.control].estimate)
    known = {gain.chosen: s.certificate.certified_epsilon} | dict(s.distances)

    def distance(name: str) -> str:
        """Return the proven ε of a candidate, rounded up; nothing if it is not known, or as large as it can be."""
        unknown = known.get(name, math.inf) >= s.certificate.unit
        return "—" if unknown else s.show_difference(rounded_up(known[name]))

    rows = [(f"{CONTROL}: {plain(control)} for everyone", kept, "0", "0", "—", distance(CONTROL))]
    place = 0
    for one in ladder(gain):
        mean, usual = "—", "—"
        if chosen is not None and one.policy.to_json() == chosen.policy.to_json():
            place = len(rows)
        if worth is not None and place == len(rows):
            mean, usual = s.show(worth.value.estimate), s.ordinary(worth.over_each[gain.control])
        elif worth is not None and (action := constant_action(one.policy)) is not None:
            mean = s.show(worth.singles[action].estimate)
        gains = s.show_difference(one.estimate, sign=True), s.show_least(one.low)
        rows.append((_named(s, one), mean, *gains, usual, distance(one.name)))
    head = ("candidate", f"mean {s.outcome}", "estimate", "proven gain", "ordinary interval", "proven ε")
    sides = ("wrap", "right", "right", "right", "wrap", "right")
    if s.alarms:
        head = (*head[:3], "lower bound, in doubt", "ordinary interval", "ε, in doubt")
        note = f"Gains over {plain(control)}. {IN_DOUBT.capitalize()}."
        return Table(head, tuple(rows), note=note, sides=sides)
    rows[place] = (f"{rows[place][0]} (recommended)", *rows[place][1:])
    sure = f"{100 * (1 - s.certificate.delta):g} %"
    note = (
        f"Gains over {plain(control)}. All proven gains hold together with {sure} confidence, so that the "
        "recommendation may be chosen by them. The ordinary interval is a normal approximation on the rows used for "
        "measuring; a test on all rows differs a little."
    )
    if worth is not None and worth.value.error is not None:
        note += f" That of the mean {s.outcome} of the recommended policy is {s.ordinary(worth.value, value=True)}."
    note += (
        f" With {sure} confidence no rule of the class is better than a candidate by more than its ε, for all of them."
    )
    note += " A gain is measured by the leaders of its candidate, and may differ from the difference between two means."
    return Table(head, tuple(rows), note=note, sides=sides, strong=frozenset({place}))


def gains_picture(s: Summary, gain: Improvement) -> d.Intervals:
    """Return the gains of candidates over control as lines from the proven gain to the estimate, from the simplest on.

    The ordinary interval of the recommended one follows.
    """
    sure = "in doubt" if s.alarms else "proven"
    rows = [
        d.IntervalLine(
            _named(s, one),
            f"{s.show_difference(one.estimate, sign=True)}, {sure}: at least {s.show_least(one.low)}",
            one.estimate,
            one.low,
            max(one.low, one.estimate),
        )
        for one in ladder(gain)
    ]
    known = s.worth is not None and gain.recommended is not None and not s.alarms
    over = s.worth.over_each[gain.control] if known and s.worth is not None else None
    usual = None if over is None else over.approximate(s.certificate.delta)
    if over is not None and usual is not None:
        words = f"{s.show_difference(over.estimate, sign=True)} ({s.ordinary(over)})"
        rows.append(d.IntervalLine("recommended, ordinary interval", words, over.estimate, *usual))
    return d.Intervals(tuple(rows), f"Gain over {plain(call(gain.control, s.actions))}", zero=True)


def ladder(gain: Improvement) -> tuple[Candidate, ...]:
    """Return the candidates from the simplest on; of two with the same policy, the better one."""
    found: dict[str, Candidate] = {}
    for one in reversed(gain.candidates):
        same = found.setdefault(str(one.policy.to_json()), one)
        if (one.allowed, one.low) > (same.allowed, same.low):
            found[str(one.policy.to_json())] = one
    return tuple(found.values())


def _named(s: Summary, candidate: Candidate) -> str:
    return plain(f"{candidate.name}: {s.candidate_words(candidate)}")


def metrics_table(worth: Worth) -> Table:
    """Return the metrics of the recommended policy, with intervals that hold together."""
    rows = tuple(
        (
            plain(one.metric),
            metric_words(one.value),
            "—" if one.over_control is None else metric_words(one.over_control, difference=True),
        )
        for one in worth.metrics
    )
    sure = f"{100 * (1 - worth.delta):g} %"
    note = f"Estimates and intervals in the units of each metric; with {sure} confidence all these intervals are right."
    return Table(("metric", "of the policy", "difference from control"), rows, note=note)


def guardrails_table(s: Summary, gain: Improvement) -> Table:
    """Return the guardrails of every candidate, with the bounds on what they limit."""
    rows = tuple(
        (
            plain(s.candidate_words(one)),
            plain(each.guardrail.spelt),
            f"{each.estimate:+.3g}" if math.isfinite(each.estimate) else "—",
            f"{rounded_down(each.low):+.3g} to {rounded_up(each.high):+.3g}"
            if math.isfinite(each.high)
            else "none yet",
            each.state,
        )
        for one in ladder(gain)
        for each in one.guarded
    )
    note = "Differences from control in the units of the metric; these bounds and the proven gains hold together."
    note, bounds = (f"{IN_DOUBT.capitalize()}.", "bounds, in doubt") if s.alarms else (note, "proven bounds")
    return Table(("candidate", "guardrail", "estimate", bounds, "state"), rows, note=note)


def _leaves_table(s: Summary) -> Table:
    """Return the mean outcome of each action in each leaf of the rule."""
    names = s.actions[:MAX_SHOWN_ACTIONS]
    marked = not s.alarms
    rows = tuple(
        (
            " and ".join(leaf.conditions) or "everybody",
            f"{leaf.rows:,}",
            leaf.action,
            *(
                d.Cell(s.show(value) if value == value else "—", "chosen" if marked and name == leaf.action else "")
                for name, value in zip(names, leaf.estimates, strict=False)
            ),
        )
        for leaf in s.leaves
    )
    note = f"Mean {s.outcome} of each action within each group, by {s.leaves_of}; estimates without intervals."
    if s.leaves_mean is not None:
        note += f" By this table the rule comes to {s.show(s.leaves_mean)} on average"
        value = "" if s.worth is None else s.show(s.worth.value.estimate)
        note += f"; the value above, {value}, is of other rows and uses a reward model." if value else "."
    head = ("group", "rows", "gets", *(plain(name) for name in names))
    return Table(head, rows, note=note, sides=("wrap", "right", "left"))


def _confidence(s: Summary) -> str:
    claim = s.certificate.describe()
    if s.alarms:
        return (
            "None: the log contradicts at least one of the assumptions below (see the alarm). If all of them held, "
            f"{claim}."
        )
    c, gain, none = s.certificate, s.gain, ""
    near = c.certified_epsilon < c.unit
    if gain is not None and gain.recommended is None:
        none = f"no gain over {call(gain.control, s.actions)} is proven"
        claim = f"{c.proviso}{c.describe_distance()}"
    if none and not near:
        return f"Nothing is proven yet: {none}, and the distance from the best is {claim}. The assumptions are:"
    if not near and gain is None:
        return f"Nothing is proven yet: {claim}. The assumptions are:"
    rest = f"{none[:1].upper()}{none[1:]}. " if none else ""
    right = "The first claim" if none else "It"
    opening = "This is a proof, not an approximation" if c.certified else "Not all that was asked for is proven"
    return f"{opening}: {claim}. {rest}{right} is right{s.whenever}, under these assumptions:"


def _more_data(s: Summary) -> str:
    if s.alarms:
        return f"More {s.noun} of the same kind would not help. Resolve the alarm first, and certify again."
    if s.certificate.epsilon == 0 and s.certificate.certified:
        return "The policy is proven to be the best of its class; more data of the same kind could add nothing."
    if s.ahead is None or s.target is None:
        return "The distance that was asked for is proven; more data would reduce it further."
    near, ahead = s.show_difference(s.target), s.ahead
    if not math.isfinite(ahead.same):
        return f"There are too few {s.noun} so far to say how many more would prove {near}."
    words = f"To prove {near} it would take about {about(ahead.same)} more {s.noun} like these"
    if ahead.best < WORTHWHILE_SHARE * ahead.same:
        words += f", or about {about(ahead.best)} if actions were tried where they teach most (pacbandits run)"
    return f"{words}."


def _appendix(s: Summary) -> Iterable[tuple[str, str]]:
    c = s.certificate
    yield "evidence", f"{c.value:.2f} nats of {c.threshold:.2f} needed, against the least refuted policy"
    proven = "distance, if the assumptions held" if s.alarms else "distance proven"
    yield proven, s.proven
    yield "policies compared", f"about e^{c.log_size:.3g}" if c.log_size < math.inf else "infinitely many"
    yield "digest of the log", c.digest
    yield "digest of the policy class", c.class_digest or "none"
    yield "made by", f"pacbandits {__version__}"


# The documents that `certify`, `evaluate` and `verify` print: a certificate, and the value of a policy.


LABEL_WIDTH = 31
OWN_LOG = "the policy was chosen by this log, and the intervals allow for that"
OTHER_LOG = "holds if the policy was not chosen by looking at this log (else the estimates flatter it)"


def alarm_notes(alarms: Sequence[str]) -> tuple[Note, ...]:
    """Return alarms as notes, which come before all else."""
    return tuple(Note("alarm", words) for words in alarms)


def certificate_document(certificate: Certificate, summary: Summary | None = None) -> Document:
    """Return the document of a certificate: the policy, the claim, the numbers behind it, and what is missing.

    summary: the policy's value, and the number of further interactions that a proof would take.
    """
    c, alarms = certificate, certificate.alarms if summary is None else summary.alarms
    facts = {} if summary is None else _value_facts(summary)
    control = None if c.improvement is None else c.improvement.control
    control = control if summary is None else summary.question.control
    if control is not None:
        proven = c.improvement is not None and c.improvement.recommended is not None
        names = c.action_names if summary is None else summary.actions
        facts[f"gain over {call(control, names)} proven"] = _verdict(alarms, proven=proven)
    facts |= {
        "distance from best certified": _verdict(alarms, proven=c.certified),
        "ε, if the assumptions held" if alarms else "ε that the data certify": (
            show_number(rounded_up(c.certified_epsilon, digits=4)) if c.certified_epsilon < c.unit else "—"
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


def _verdict(alarms: Sequence[str], *, proven: bool) -> str:
    return "in doubt (alarm)" if alarms else "yes" if proven else "no"


def claim_document(claim: Claim) -> Document:
    """Return the document of a certificate of any kind."""
    if isinstance(claim, Certificate):
        return certificate_document(claim)
    if isinstance(claim, AsymptoticCertificate):
        return asymptotic_document(claim)
    facts = {
        "certified": "in doubt (alarm)" if claim.alarms else "yes" if claim.certified else "no",
        "interactions": f"{claim.samples:,}",
    }
    return _claim_document(claim, facts, alarms=claim.alarms, before=())


def asymptotic_document(certificate: AsymptoticCertificate) -> Document:
    """Return the claim of a normal approximation, with the warning that it is not a proof."""
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
    quiet = tuple(Check("", "", check.describe()) for check in claim.told if not check.alarm)
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
    """Return the policy's value with intervals, and each action as it was logged."""
    worth, outcome, names = summary.worth, summary.outcome, summary.actions
    facts: dict[str, str] = {}
    if worth is not None:
        best, sole = int(np.argmax([one.estimate for one in worth.singles])), summary.sole
        percent = summary.percent
        facts[f"mean {outcome} of the policy"] = interval_words(worth.value, percent=percent, difference=False)
        if best != sole:
            facts[f"always {names[best]}"] = interval_words(worth.singles[best], percent=percent, difference=False)
        if sole is None:
            over_best = interval_words(worth.over_best, percent=percent, difference=True)
            facts["gain over the best single action"] = over_best
        facts["measured by"] = worth.measured_by
        if (gains := summary.gain) is not None:
            for one in gains.candidates:
                middle = summary.show_difference(one.estimate, sign=True)
                least = summary.show_least(one.low)
                facts[f"{one.name}, gain"] = middle if summary.alarms else f"{middle}, proven at least {least}"
        if (control := summary.control) is not None and control != sole:
            single, gain = worth.singles[control], worth.over_each[control]
            facts[f"always {names[control]}"] = interval_words(single, percent=percent, difference=False)
            if gains is None:  # else the proven gain of a candidate is above, and its bound is larger
                over = interval_words(gain, percent=percent, difference=True)
                facts[f"gain over the control, {names[control]}"] = over
            if gain.error is not None:
                label = "  ordinary interval" if gains is None else f"gain over {names[control]}, ordinary interval"
                facts[f"{label} (approximate)"] = summary.ordinary(gain)
        for one in worth.metrics:
            name = plain(one.metric)
            facts[f"{name} of the policy"] = metric_words(one.value)
            if one.over_control is not None:
                facts[f"{name}, less the control's"] = metric_words(one.over_control, difference=True)
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
    proven: Improvement | None = None,
) -> Document:
    """Return a policy, its mean reward, and its gains.

    names (A,): of the actions. own: whether the policy was chosen by this log. control: the action to compare with.
    log: the log of the estimates. outcome: the name of a reward. proven: the gains that the policy's certificate proves
    by this log.
    """
    percent = log.reward_range == UNIT_RANGE
    compared = range(len(names)) if control is None else [control]
    facts = [(f"mean {outcome} of the policy", worth.value, False)]
    facts += [(f"always {names[action]}", worth.singles[action], False) for action in compared]
    facts += [(f"gain over always {names[action]}", worth.over_each[action], True) for action in compared]
    facts += [("gain over the best single action", worth.over_best, True)]
    rows = [(name, interval_words(one, percent=percent, difference=gain)) for name, one, gain in facts]
    if proven is not None and control is not None and proven.control == control and not worth.alarms:
        found, label = proven.recommended, f"gain over {names[control]}, by the certificate"
        least = "—" if found is None else show_gain(rounded_down(found.low), percent=percent, sign=True)
        rows.append((label, "none is proven" if found is None else f"at least {least}"))
    visits = "" if worth.units is None else f"; {count_words(worth.samples, worth.units)}"
    rows.append(("measured by", f"{worth.measured_by}{visits}"))
    sure = f"each interval is right except with probability {worth.delta:g}; {OWN_LOG if own else OTHER_LOG}"
    sure = IN_DOUBT if worth.alarms else sure
    sure += "; assuming that " + "; that ".join(worth.assumptions)
    remarks = tuple(Check("", "", check.describe()) for check in worth.checks if check.remark)
    blocks: tuple[Block, ...] = (
        *alarm_notes(worth.alarms),
        Section("policy", (Code(policy),)),
        Table((), tuple(rows)),
        *((Checks(remarks),) if remarks else ()),
        Text(sure, "dim"),
    )
    return Document("", blocks)


def verdict_document(
    claim: Claim, verdict: Verdict, *, reading: str, policies: str, details: Sequence[str], assumptions: Sequence[str]
) -> Document:
    """Return the result of verifying a certificate: the claim, its class and policy, and what it rests on.

    reading: how the log was read. policies, details: the class, and the features its policies split on.
    assumptions: those that remain.
    """
    if not verdict.good:
        return Document("", (Text("not good:"), Items(tuple(verdict.faults))))
    opening = "doubtful: if its assumptions held, " if verdict.alarms else "good: " if claim.certified else "genuine: "
    facts = [("log", reading)] if reading else []
    facts += [("class", policies), *(("", line) for line in details), ("digest", claim.class_digest or "none")]
    rest = sort_rest(claim, verdict.trusted, assumptions, verdict.checked)
    lists = (
        ("derived again", verdict.checked),
        ("taken on trust", rest.trusted),
        ("not checkable", rest.not_checkable),
    )
    blocks: tuple[Block, ...] = (
        *alarm_notes(verdict.alarms),
        Text(f"{opening}{claim.describe()}\n"),
        Table((), tuple(facts)),
        Section("policy", (Code(claim.words),)),
        *(Section(title, (Items(tuple(lines)),)) for title, lines in lists if lines),
    )
    return Document("", blocks)


# The document that `apply` prints: how many rows a policy assigns to each action.


def applied_document(counted: Sequence[tuple[str | int, int]]) -> Document:
    """Return the number of rows assigned to each action, and the number of actions without rows."""
    total = sum(count for _, count in counted)
    rows = tuple((plain(action), f"{count:,}", f"{count / total:.1%}") for action, count in counted if count)
    idle = [plain(action) for action, count in counted if not count]
    named = ", ".join(idle[:MAX_SHOWN_ACTIONS]) + (", …" if len(idle) > MAX_SHOWN_ACTIONS else "")
    words = f"{count_of(total, 'row')} in all" + (f"; used for nobody: {named}" if idle else "")
    return Document("", (Table(("action", "rows", "share"), rows), Text(words, "dim")))

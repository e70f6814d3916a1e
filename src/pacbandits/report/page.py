"""The report of a result: what to do, how much that gains, how certain it is, and how to verify it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pacbandits.certificate.worth import Interval
from pacbandits.errors import InputError, count_of, plain
from pacbandits.policies.trees.tree import Branch, Node, TreePolicy
from pacbandits.records import Lottery, likeliest
from pacbandits.records.naming import call
from pacbandits.report import document as d
from pacbandits.report.arms import Arm
from pacbandits.report.document import Block, Document, Note, Section, Table, Text
from pacbandits.report.html import render_html
from pacbandits.report.markdown import render_markdown
from pacbandits.report.numbers import about
from pacbandits.report.summary import Summary, interval_words
from pacbandits.version import __version__

ENDINGS = (".html", ".htm", ".md")
MAX_SHOWN_ACTIONS = 12
WORTHWHILE_SHARE = 0.9  # of the rows that it would take otherwise, with which a design is worth a word
IN_DOUBT = "no interval here can be relied on, as the log speaks against an assumption (see the alarm)"
STATUSES: dict[str, d.Status] = {"green": "good", "yellow": "warning", "red": "alarm"}
RECHECK = (
    "The certificate is a file. With it and the log anyone can recompute every number, by a verifier that shares "
    "policy searches and reward models with the code that made it, and none of the proof's arithmetic:"
)
AS_LOGGED = "All rows as they stand in the log, neither weighted nor modelled."


def check_report(path: Path | None) -> None:
    """Raise InputError unless a report can be written under this name."""
    if path is not None and path.suffix.lower() not in ENDINGS:
        raise InputError(f"a report is a file of HTML or Markdown: '{plain(path)}' must end in {' or '.join(ENDINGS)}")


def write_document(document: Document, path: Path) -> None:
    """Write a document as HTML or Markdown, by the ending of the file's name."""
    check_report(path)
    text = render_markdown(document) if path.suffix.lower() == ".md" else render_html(document)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def write_report(summary: Summary, path: Path) -> None:
    """Write the report of a result as HTML or Markdown, by the ending of the file's name."""
    write_document(result_document(summary), path)


def report_html(summary: Summary) -> str:
    """Return the report of a result as a page."""
    return render_html(result_document(summary))


def result_document(summary: Summary) -> Document:
    """Return the report of a result, for colleagues."""
    s, c = summary, summary.certificate
    size = count_of(c.samples, "row") if c.units is None else c.counted
    rule = "The rule" if s.instead is None else f"Best rule found (not estimated to earn more than always {s.instead})"
    blocks: list[Block] = [
        Text(f"{s.source}: {count_of(len(s.actions), 'action')}; {size}", "dim"),
        *(Note("warning", f"Note: {words}") for words in s.notices),
        d.Box((*(Note("alarm", f"{words}.") for words in s.alarms), *map(Text, s.answer()[len(s.alarms) :]))),
        Section(rule, tuple(_rule(s))),
    ]
    if s.worth is not None:
        blocks.append(Section("Estimated value", tuple(_value(s))))
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
    first = "" if s.proof is not None else f"pacbandits certify {s.source} … --certificate proof.json\n"
    command = d.Code(f"{first}pacbandits verify {s.proof or 'proof.json'} {s.source}")
    blocks += [
        Section("How to verify it", (Text(RECHECK), command)),
        Section("Appendix", (Table((), tuple(_appendix(s))), d.Code(c.words))),
    ]
    return Document(f"Which action for whom, for the largest mean {s.outcome}?", tuple(blocks))


def happened_table(rows: Sequence[tuple[str, str, str]]) -> Table:
    """Return what was planned beside what happened."""
    return Table(("", "planned", "happened"), tuple(rows))


def happened_document(rows: Sequence[tuple[str, str, str]]) -> Document:
    """Return what a command prints of a plan and of what happened."""
    return Document("", (Section("Plan and outcome", (happened_table(rows),)),))


def arms_table(arms: Sequence[Arm], outcome: str, show: Callable[[float], str]) -> Table:
    """Return how often each action was taken, and its mean outcome."""
    rows: list[tuple[str, ...]] = []
    for arm in arms[:MAX_SHOWN_ACTIONS]:
        mean = "—" if arm.mean is None else show(arm.mean)
        mean += f" ({arm.awaited:,} pending)" if arm.awaited else ""
        rows.append((plain(arm.action), f"{arm.rows:,}", f"{100 * arm.share:.3g} %", mean))
    return Table(("action", "rows", "share", f"mean {outcome}"), tuple(rows), note=AS_LOGGED)


def tree_block(root: Node, names: Sequence[str], shares: Iterable[float | None], *, wide: bool = True) -> d.Tree:
    """Return a decision tree; names: of the actions; shares: of people at its leaves, from left to right."""
    left = iter(shares)

    def block_of(node: Node) -> d.Branch | d.Leaf:
        if not isinstance(node, Branch):
            return d.Leaf(call(node, names), node, next(left, None))
        return d.Branch(node.test.describe(), block_of(node.then), block_of(node.otherwise))

    return d.Tree(block_of(root), wide)


def _rule(s: Summary) -> Iterable[Block]:
    policy = likeliest(s.certificate.policy)
    if isinstance(policy, TreePolicy):
        yield tree_block(policy.root, s.actions, [leaf.share for leaf in s.leaves])
    else:
        yield d.Code(s.certificate.words)
    if isinstance(s.certificate.policy, Lottery):
        yield Text("The most likely rule of the mixture; the appendix lists all of them.", "dim")


def _value(s: Summary) -> Iterable[Block]:
    """Yield the values and the gains with their intervals, the rows they are of, and their confidence."""
    assert s.worth is not None
    worth, names = s.worth, [plain(name) for name in s.actions[:MAX_SHOWN_ACTIONS]]

    def drawn(label: str, one: Interval, *, difference: bool) -> d.Interval:
        low, high = (None, None) if one.empty else (one.low, one.high)
        return d.Interval(label, interval_words(one, percent=s.percent, difference=difference), one.estimate, low, high)

    each = "person" if s.certificate.units is None else "visit, by person"
    means = [("the rule", worth.value), *((f"always {name}", worth.singles[k]) for k, name in enumerate(names))]
    gains = [("best single action", worth.over_best)]
    gains += [(f"always {name}", worth.over_each[k]) for k, name in enumerate(names)]
    yield d.Intervals(tuple(drawn(*one, difference=False) for one in means), f"Mean {s.outcome} per {each}")
    yield d.Intervals(tuple(drawn(*one, difference=True) for one in gains), "Gain of the rule over", zero=True)
    yield Text(f"Measured by {worth.measured_by}.", "dim")
    if s.alarms:
        yield Note("warning", f"{IN_DOUBT.capitalize()}.")
    else:
        sure = (
            f"Each interval is right with {100 * (1 - worth.delta):g} % confidence{s.whenever}, without approximation"
        )
        yield Text(f"{sure}; that makes it wider than the usual one.", "dim")


def _leaves_table(s: Summary) -> Table:
    """Return the mean outcome of each action in each leaf of the rule."""
    names = s.actions[:MAX_SHOWN_ACTIONS]
    marked = not s.alarms and s.instead is None  # a rule that is not recommended has no action to point out
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
    return f"This is a proof, not an approximation: {claim}. It is right{s.whenever}, under these assumptions:"


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
    yield proven, s.show_difference(c.certified_epsilon)
    yield "policies compared", f"about e^{c.log_size:.3g}" if c.log_size < math.inf else "infinitely many"
    yield "digest of the log", c.digest
    yield "digest of the policy class", c.class_digest or "none"
    yield "made by", f"pacbandits {__version__}"

"""A report for colleagues: one file of HTML that needs nothing else, or the same in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from pacbandits.errors import InputError, count_of, one_line, plain
from pacbandits.policies.trees.tree import TreePolicy
from pacbandits.records import Lottery, likeliest
from pacbandits.report.drawing import draw_intervals, draw_tree
from pacbandits.report.runs import WORTHWHILE_SHARE
from pacbandits.report.summary import Summary, interval_words
from pacbandits.report.worth import ALARM, IN_DOUBT
from pacbandits.version import __version__

ENDINGS = (".html", ".htm", ".md")
MAX_SHOWN_ACTIONS = 12
_LIGHTS = {"green": "✓", "yellow": "•", "red": "✗"}
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:50em;margin:2em auto;padding:0 1em}
h1{font-size:1.5em;margin:0 0 .2em}h2{font-size:1.1em;margin:1.6em 0 .4em;border-bottom:1px solid #ddd}
.answer{font-size:1.08em;background:#f4f8fa;border-left:4px solid #0b6e8f;padding:.6em 1em}.answer p{margin:.3em 0}
.answer.alarm{background:#fdf1f0;border-left-color:#b3261e}
.dim{color:#666;font-size:.9em}svg{max-width:100%;height:auto}table{border-collapse:collapse;font-size:.92em}
td,th{padding:.2em .7em .2em 0;text-align:left;vertical-align:top}td.n,th.n{text-align:right}
.chosen{font-weight:600;background:#eef6ee}.green{color:#2c7a2c}.yellow{color:#a8740a}.red{color:#b3261e;font-weight:600}
pre{background:#f6f6f6;padding:.6em;white-space:pre-wrap;font-size:.8em;line-height:1.25}
ul{font-size:.88em;padding-left:1.2em}li{margin:.1em 0}
@page{margin:14mm}
@media print{body{margin:0;font-size:10px;line-height:1.35;max-width:none}li{page-break-inside:avoid}
h2{page-break-after:avoid;margin:.9em 0 .3em}
svg{page-break-inside:avoid;max-width:80%}pre{columns:2}}
"""


def check_report(path: Path | None) -> None:
    """Raise unless a report can be written under this name."""
    if path is not None and path.suffix.lower() not in ENDINGS:
        raise InputError(f"a report is a file of HTML or Markdown: '{plain(path)}' must end in {' or '.join(ENDINGS)}")


def write_report(summary: Summary, path: Path) -> None:
    """Write the report, in HTML or Markdown by the end of its name."""
    check_report(path)
    text = report_markdown(summary) if path.suffix.lower() == ".md" else report_html(summary)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def report_html(summary: Summary) -> str:
    """The report as a page."""
    s, c = summary, summary.certificate
    parts = [
        f"<h1>Which {escape(_question(s))}?</h1>",
        f'<p class="dim">{escape(s.source)}: {escape(_size(s))}</p>',
        *(f'<p class="yellow">Note: {escape(one_line(words))}</p>' for words in s.notices),
        _answer_html(s),
        f"<h2>{escape(_rule_title(s))}</h2>",
        _rule_html(s),
    ]
    if s.worth is not None:
        parts += ["<h2>How good is it?</h2>", _value_html(s)]
    parts += ["<h2>Each action as it was tried</h2>", _arms_html(s)]
    if s.leaves:
        parts += ["<h2>Group by group</h2>", _leaves_html(s)]
    marks = "".join(
        f'<tr><td class="{m.light}">{_LIGHTS[m.light]}</td><td><b>{escape(m.title)}</b><br>{escape(m.words)}</td></tr>'
        for m in s.marks
    )
    parts += [
        "<h2>What was checked</h2>",
        f"<table>{marks}</table>",
        "<h2>How sure is that, and under which assumptions?</h2>",
        f"<p>{escape(_confidence(s))}</p>",
        f"<ul>{''.join(f'<li>{escape(one_line(words))}</li>' for words in c.assumptions)}</ul>",
        f"<h2>{_more_title(s)}</h2>",
        f"<p>{escape(_more(s))}</p>",
        *_happened_html(s),
        "<h2>How to recheck it</h2>",
        f"<p>{escape(RECHECK)}</p><pre>{escape(_recheck(s))}</pre>",
        "<h2>Appendix</h2>",
        f'<table class="dim">{"".join(_row(name, value) for name, value in _appendix(s))}</table>',
        f"<pre>{escape(c.words)}</pre>",
    ]
    return page_html(f"{ALARM if s.alarms else ''}Which {_question(s)}?", parts)


def _answer_html(s: Summary) -> str:
    """The answer in a box; alarms in red before all else."""
    first = len(s.alarms)
    lines = (
        f'<p class="red">{escape(words)}</p>' if i < first else f"<p>{escape(words)}</p>"
        for i, words in enumerate(s.answer())
    )
    return f'<div class="answer{" alarm" if first else ""}">{"".join(lines)}</div>'


def page_html(title: str, parts: Sequence[str]) -> str:
    """A page of its own that needs nothing else, with this title and these parts."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    view = '<meta name="viewport" content="width=device-width,initial-scale=1">'
    body = "\n".join(parts)
    return f'<!doctype html><html lang="en"><head>{head}{view}</head>\n<body>\n{body}\n</body></html>\n'


AS_TRIED = "All rows as they stand in the log: nothing is weighted or modelled."
RECHECK = (
    "The certificate is a file of its own. Whoever has it and the log can compute every figure again, by a verifier "
    "that shares the policy searches and reward models with the code that made it, and none of the proof's arithmetic:"
)


def report_markdown(summary: Summary) -> str:
    """The report as Markdown."""
    s, c = summary, summary.certificate
    lines = [f"# Which {_question(s)}?", f"{s.source}: {_size(s)}", ""]
    lines += [f"Note: {one_line(words)}\n" for words in s.notices]
    lines += [f"**{words}**\n" if i < len(s.alarms) else words for i, words in enumerate(s.answer())]
    lines += ["", f"## {_rule_title(s)}", "```", c.words, "```"]
    if s.worth is not None:
        head = ("", "estimate (interval in doubt)" if s.alarms else "estimate, and between what it lies")
        lines += ["", "## How good is it?", *markdown_table(head, _value_rows(s)), "", _measured(s)]
    arms = markdown_table(("action", "rows", "share", f"mean {s.outcome}"), _arm_rows(s))
    lines += ["", "## Each action as it was tried", *arms, "", AS_TRIED]
    if s.leaves:
        head = ("group", "rows", "gets", *(plain(name) for name in s.actions[:MAX_SHOWN_ACTIONS]))
        lines += ["", "## Group by group", *markdown_table(head, _leaf_rows(s)), "", _leaves_note(s)]
    lines += ["", "## What was checked", *(f"- {_LIGHTS[m.light]} **{m.title}** {m.words}" for m in s.marks)]
    lines += ["", "## How sure is that, and under which assumptions?", _confidence(s), ""]
    lines += [f"- {one_line(words)}" for words in c.assumptions]
    lines += ["", f"## {_more_title(s)}", _more(s)]
    if s.happened:
        lines += ["", "## Planned against happened", *markdown_table(("", "planned", "happened"), s.happened)]
    lines += ["", "## How to recheck it", RECHECK]
    lines += ["```", _recheck(s), "```", "", "## Appendix"]
    lines += [f"- {name}: {value}" for name, value in _appendix(s)]
    return "\n".join(lines) + "\n"


def _recheck(s: Summary) -> str:
    """The command that rechecks it; where no certificate was written, what writes one first."""
    first = "" if s.proof is not None else f"pacbandits certify {s.source} … --certificate proof.json\n"
    return f"{first}pacbandits verify {s.proof or 'proof.json'} {s.source}"


def _happened_html(s: Summary) -> Iterable[str]:
    if s.happened:
        head = "<tr><th></th><th>planned</th><th>happened</th></tr>"
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in s.happened)
        yield f"<h2>Planned against happened</h2><table>{head}{rows}</table>"


def _question(s: Summary) -> str:
    return f"action for whom, for the largest mean {s.outcome}"


def _size(s: Summary) -> str:
    c = s.certificate
    rows = count_of(c.samples, "row") if c.units is None else c.counted
    return f"{count_of(len(s.actions), 'action')}; {rows}"


def _rule_title(s: Summary) -> str:
    return (
        "The rule" if s.instead is None else f"The rule that looked best on the way (always {s.instead} does as well)"
    )


def _measured(s: Summary) -> str:
    """Which rows the value is told by."""
    return "" if s.worth is None else f"Measured by {s.worth.measured_by}."


def _leaves_note(s: Summary) -> str:
    """Which rows the table of groups is told by, what it sums to, and why that may differ from the value."""
    words = f"Mean {s.outcome} of each action within each group, by {s.leaves_of}; estimates without intervals."
    if s.leaves_mean is None:
        return words
    words += f" By this table the rule comes to {s.show(s.leaves_mean)} on average"
    if s.worth is None:
        return f"{words}."
    value = s.show(s.worth.value.estimate)
    return f"{words}; the value above, {value}, is of other rows and uses a model of rewards."


def _rule_html(s: Summary) -> str:
    policy = likeliest(s.certificate.policy)
    drawn = ""
    if isinstance(policy, TreePolicy):
        drawn = draw_tree(policy.root, s.actions, shares=[leaf.share for leaf in s.leaves])
    if isinstance(s.certificate.policy, Lottery):
        drawn += '<p class="dim">The likeliest of the rules; all of them are in the appendix.</p>'
    return drawn or f"<pre>{escape(s.certificate.words)}</pre>"


def _value_html(s: Summary) -> str:
    assert s.worth is not None
    worth, names = s.worth, s.actions[:MAX_SHOWN_ACTIONS]
    values = [
        ("the rule", worth.value),
        *((f"always {plain(n)}", i) for n, i in zip(names, worth.singles, strict=False)),
    ]
    leads = [("best single action", worth.over_best)]
    leads += [(f"always {plain(name)}", one) for name, one in zip(names, worth.over_each, strict=False)]
    means = draw_intervals([(a, i, interval_words(s, i, difference=False)) for a, i in values], zero=False)
    gains = draw_intervals([(a, i, interval_words(s, i, difference=True)) for a, i in leads], zero=True)
    each = "a person" if s.certificate.units is None else "a visit, by person"
    return (
        f"<p>Mean {escape(s.outcome)} {each}:</p>{means}<p>What the rule gains over</p>{gains}"
        f'<p class="dim">{escape(_measured(s))}</p>{_sure_html(s, 100 * (1 - worth.delta))}'
    )


def _sure_html(s: Summary, percent: float) -> str:
    """How sure intervals are."""
    if s.alarms:
        return f'<p class="red">{escape(IN_DOUBT.capitalize())}.</p>'
    return (
        f'<p class="dim">Each interval is right with {percent:g} % confidence{escape(s.whenever)}, without '
        "approximation; that makes it wider than the usual one.</p>"
    )


def _value_rows(s: Summary) -> Iterable[tuple[str, ...]]:
    assert s.worth is not None
    yield f"mean {s.outcome} of the rule", interval_words(s, s.worth.value, difference=False)
    yield "gain over the best single action", interval_words(s, s.worth.over_best, difference=True)
    for name, one in zip(s.actions[:MAX_SHOWN_ACTIONS], s.worth.over_each, strict=False):
        yield f"gain over always {plain(name)}", interval_words(s, one, difference=True)


def _arm_rows(s: Summary) -> Iterable[tuple[str, ...]]:
    for arm in s.arms[:MAX_SHOWN_ACTIONS]:
        mean = "—" if arm.mean is None else s.show(arm.mean)
        mean += f" ({arm.awaited:,} not in)" if arm.awaited else ""
        yield plain(arm.action), f"{arm.rows:,}", f"{100 * arm.share:.3g} %", mean


def _arms_html(s: Summary) -> str:
    head = "".join(f'<th class="n">{escape(name)}</th>' for name in ("rows", "share", f"mean {s.outcome}"))
    rows = ""
    for name, *cells in _arm_rows(s):
        figures = "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
        rows += f"<tr><td>{escape(name)}</td>{figures}</tr>"
    return f'<table><tr><th>action</th>{head}</tr>{rows}</table><p class="dim">{AS_TRIED}</p>'


def _leaves_html(s: Summary) -> str:
    names = s.actions[:MAX_SHOWN_ACTIONS]
    head = "".join(f'<th class="n">{escape(plain(name))}</th>' for name in names)
    rows: list[str] = []
    marked = not s.alarms and s.instead is None  # a rule that is not recommended has no action to point out
    for leaf in s.leaves:
        cells = "".join(
            f'<td class="n{" chosen" if marked and name == leaf.action else ""}">{escape(_estimate(s, value))}</td>'
            for name, value in zip(names, leaf.estimates, strict=False)
        )
        group = escape(" and ".join(leaf.conditions) or "everybody")
        rows.append(f'<tr><td>{group}</td><td class="n">{leaf.rows:,}</td><td>{escape(leaf.action)}</td>{cells}</tr>')
    title = f'<tr><th>group</th><th class="n">rows</th><th>gets</th>{head}</tr>'
    return f'<table>{title}{"".join(rows)}</table><p class="dim">{escape(_leaves_note(s))}</p>'


def _leaf_rows(s: Summary) -> Iterable[tuple[str, ...]]:
    for leaf in s.leaves:
        estimates = (_estimate(s, value) for value in leaf.estimates[:MAX_SHOWN_ACTIONS])
        yield " and ".join(leaf.conditions) or "everybody", f"{leaf.rows:,}", leaf.action, *estimates


def _estimate(s: Summary, value: float) -> str:
    return s.show(value) if value == value else "—"


def _confidence(s: Summary) -> str:
    c = s.certificate
    if s.alarms:
        return (
            "Not sure at all: the log speaks against at least one of the assumptions below (see the alarm). If all of "
            f"them held, {c.describe()}."
        )
    return f"This is a proof, not an approximation: {c.describe()}. It is right{s.whenever}, if the following holds:"


def _more_title(s: Summary) -> str:
    return "More data" if s.alarms else "What would more data prove?"


def _more(s: Summary) -> str:
    if s.alarms:
        return f"More {s.noun} of the same kind would not help. Resolve the alarm first, and certify again."
    if s.certificate.epsilon == 0 and s.certificate.certified:
        return "That the policy is the best of its class is proven; more data of the same kind could add nothing to it."
    if s.ahead is None or s.target is None:
        return "The distance that was asked for is proven; more data would bring it down further."
    if not math.isfinite(s.ahead.same):
        return f"There are too few {s.noun} so far to say how many more would prove {s.show_difference(s.target)}."
    near, same, best = s.show_difference(s.target), _about(s.ahead.same), _about(s.ahead.best)
    words = f"To prove {near} it would take about {same} more {s.noun} like these"
    if s.ahead.best >= WORTHWHILE_SHARE * s.ahead.same:
        return f"{words}."
    return f"{words}, or about {best} if actions were tried where they teach most (pacbandits run)."


def _about(count: float) -> str:
    return f"{float(f'{count:.2g}'):,.0f}"


def _appendix(s: Summary) -> tuple[tuple[str, str], ...]:
    c = s.certificate
    return (
        ("evidence", f"{c.value:.2f} nats of {c.threshold:.2f} needed, against the least refuted policy"),
        (
            "distance, if the assumptions held" if s.alarms else "distance proven",
            s.show_difference(c.certified_epsilon),
        ),
        ("policies compared", f"about e^{c.log_size:.3g}" if c.log_size < float("inf") else "without number"),
        ("digest of the log", c.digest),
        ("digest of the policy class", c.class_digest or "none"),
        ("made by", f"pacbandits {__version__}"),
    )


def _row(name: str, value: str) -> str:
    return f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines]

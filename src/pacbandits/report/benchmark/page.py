"""The report of a benchmark: one file of HTML that needs nothing else, and its tables in Markdown."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from pacbandits.benchmark.findings import BenchmarkFindings
from pacbandits.benchmark.standings import OURS, CaseStanding
from pacbandits.benchmark.yardsticks import BOOTSTRAP_DRAWS
from pacbandits.errors import count_of, one_line
from pacbandits.report.benchmark.comparing import better_table, proofs_table
from pacbandits.report.benchmark.figures import case_figure
from pacbandits.report.benchmark.tables import (
    TextTable,
    cost_table,
    facts_table,
    main_table,
    ratio_table,
    stopping_table,
)
from pacbandits.report.figures import pyplot
from pacbandits.report.page import markdown_table, page_html

TITLE = "Who identifies the best policy soonest?"
STYLE = """
body{max-width:78em}.wide{overflow-x:auto}.wide table{white-space:nowrap}img{max-width:100%;height:auto}
td,th{border-bottom:1px solid #eee}tr.ours td{font-weight:600;background:#f1f7fb}
td.words{white-space:normal;min-width:14em}
"""
READING = (
    "Every algorithm plays the same problems. Most of them never stop by themselves, so two yardsticks say when they "
    "are done. Oracle stopping knows the truth: the least n of a fixed grid at which 1 − δ of the seeds hold a policy "
    "within ε of the best, where a run holds the answer of its last round, and nothing before the end of the first. Of "
    "two answers the one that is right sooner counts: its own, and the best policy by our certificate's estimates from "
    "its log. "
    "Certified stopping does not know it: our certificate is applied to what the algorithm logged, and the n at which "
    "it accepts counts. A run that is not done within what may be played counts as one that would take longer.",
    "Intervals are over seeds, of 90 %: of medians by order statistics, exact; of oracle stopping by "
    f"{BOOTSTRAP_DRAWS:,} draws of a bootstrap; of error rates exact (Clopper and Pearson); of means by Student's law.",
)
FIGURES = (
    "In the figures below a dot is the best knob with its 90 % interval, a ring the published default where that is "
    "another, a triangle in the grey field what is not done within all that may be played. The lower bound is of what "
    "proves its answer, and no bound of oracle stopping, which knows the truth. Curves are means of published defaults "
    "with 90 % bands, up to a dot at which half of the runs are done; from there on they are thin, as runs go on with "
    "their answers."
)
# Columns whose cells are words, which may be broken into lines.
WORDY = ("problem", "policies", "classes", "why", "commands", "best other", "knob")


@dataclass(frozen=True)
class Chapter:
    """A part of the report about some of the cases together.

    title: above it.
    tables: what was measured.
    figures: of Matplotlib, each with words for whoever does not see it; they are closed once they are drawn.
    """

    title: str
    tables: tuple[TextTable, ...]
    figures: tuple[tuple[Any, str], ...] = ()


def report_html(findings: BenchmarkFindings, *, chapters: Sequence[Chapter] = ()) -> str:
    """The report as a page; everything in it comes from logged results. Chapters come before the cases one by one."""
    parts = [f"<style>{STYLE}</style>", f"<h1>{TITLE}</h1>", f'<p class="dim">{escape(size_words(findings))}</p>']
    if early := unfinished_words(findings):
        parts.insert(2, f'<div class="answer alarm"><p class="red">{escape(early)}</p></div>')
    parts.append(f'<div class="answer">{_paragraphs(answer(findings))}</div>')
    parts += [_paragraphs(READING), *(_section_html(table) for table in overview(findings))]
    for chapter in chapters:
        parts.append(f"<h2>{escape(chapter.title)}</h2>")
        parts += [_image(figure, words) for figure, words in chapter.figures]
        parts += [_table_html(table) for table in chapter.tables]
    parts.append(f'<p class="dim">{escape(FIGURES)}</p>')
    lacking = findings.lacking
    for one in findings.standings:
        asked = asked_words(one, lacking=lacking.get(one.case, 0))
        parts += [f"<h2>{escape(one.case)}</h2>", f'<p class="dim">{escape(asked)}</p>']
        parts += [_picture(findings, one), *(_table_html(table) for table in (stopping_table(one), cost_table(one)))]
    parts += [_section_html(table) for table in provenance(findings)]
    parts += ["<h2>How to repeat a run</h2>", f"<p>{escape(REPEAT)}</p>", f"<pre>{escape(repeat_code(findings))}</pre>"]
    return page_html(TITLE, parts)


def report_markdown(findings: BenchmarkFindings, *, chapters: Sequence[Chapter] = ()) -> str:
    """The tables of the report in Markdown; figures are left out."""
    early = unfinished_words(findings)
    lines = [f"# {TITLE}", "", *([f"**{early}**", ""] if early else [])]
    lines += [size_words(findings), "", *_spaced((*answer(findings), *READING))]
    for table in overview(findings):
        lines += _section_markdown(table, level=2)
    for chapter in chapters:
        lines += [f"## {chapter.title}", ""]
        for table in chapter.tables:
            lines += _section_markdown(table, level=3)
    lacking = findings.lacking
    for one in findings.standings:
        lines += [f"## {one.case}", "", asked_words(one, lacking=lacking.get(one.case, 0)), ""]
        for table in (stopping_table(one), cost_table(one)):
            lines += _section_markdown(table, level=3)
    for table in provenance(findings):
        lines += _section_markdown(table, level=2)
    lines += ["## How to repeat a run", "", REPEAT, "", "```python", repeat_code(findings), "```"]
    return "\n".join(lines) + "\n"


def size_words(findings: BenchmarkFindings) -> str:
    """How much was played."""
    told = [
        count_of(len(findings.rows), "run"),
        count_of(len(findings.standings), "case"),
        count_of(len(findings.entries), "algorithm"),
    ]
    return f"{', '.join(told)}; pacbandits {findings.description.version}"


def unfinished_words(findings: BenchmarkFindings) -> str:
    """That runs are lacking, if any are, and what that means for the figures."""
    lacking, wanted = findings.lacking, findings.wanted
    if not lacking:
        return ""
    cases = {case for _, case, _, _ in wanted}
    done = (
        f"{len(cases) - len(lacking)} of {count_of(len(cases), 'case')} {'is' if len(cases) == 1 else 'are'} finished"
    )
    return (
        f"Unfinished: {len(wanted) - sum(lacking.values()):,} of {len(wanted):,} runs are in; {done}. Figures of the "
        "other cases may still change; the sentences about cases count finished ones only."
    )


def answer(findings: BenchmarkFindings) -> list[str]:
    """What came of our claims on finished cases, in sentences, also where they are broken."""
    sentences: list[str] = []
    lacking = findings.lacking
    verdicts = [one for one in findings.verdicts if one.case not in lacking]
    finished = "finished " if lacking else ""
    for large, told in (
        (
            True,
            f"Where uniform exploration's ρ is at least twice the optimum's, {OURS} is the first to prove its answer",
        ),
        (False, f"Elsewhere {OURS} is within 1.1 of the first"),
    ):
        known = [one for one in verdicts if one.large is large and one.kept is not None]
        broken = [one for one in known if not one.kept]
        if not known:
            continue
        words = f"{told} in {len(known) - len(broken)} of {count_of(len(known), f'{finished}case')}"
        if broken:
            words += "; not in " + ", ".join(
                f"{one.case} ({one.rival.spec}: {one.ratio.value:.2f} times as many"
                f"{'' if one.beyond_chance else ', within chance'})"
                for one in broken
            )
        sentences.append(words + ".")
    if not verdicts:
        sentences.append(f"There is no {finished}case with certificates that {OURS} and others played.")
    wrong, runs = _errors(findings)
    if runs:
        made = f"{count_of(runs, 'certificate')} that accepted{' so far' if lacking else ''}"
        sentences.append(f"Of {made}, {wrong} had a policy that is not within ε.")
    undone = [one.case for one in verdicts if one.kept is None]
    if undone:
        sentences.append(f"Nobody is done within what may be played in {', '.join(undone)}.")
    return sentences


def _errors(findings: BenchmarkFindings) -> tuple[int, int]:
    made = [score.certified for one in findings.standings for score in one.scores if score.certified is not None]
    return sum(one.wrong for one in made), sum(one.stopped for one in made)


def overview(findings: BenchmarkFindings) -> tuple[TextTable, ...]:
    """Tables of all cases together."""
    tables = [main_table(findings)]
    if any(one.row.certified for one in findings.standings):
        tables.append(ratio_table(findings, "certified"))
    tables += [ratio_table(findings, "oracle"), better_table(findings)]
    if (proofs := proofs_table(findings)).rows:
        tables.append(proofs)
    return (*tables, facts_table(findings))


def provenance(findings: BenchmarkFindings) -> tuple[TextTable, ...]:
    """Who refused what, which runs failed, by which commands and where all of it was played."""
    tables: list[TextTable] = []
    if findings.misfits:
        refused = tuple((one.algorithm, one.case, one_line(one.words)) for one in findings.misfits)
        tables.append(TextTable("Who refused what", ("algorithm", "case", "why"), refused))
    if findings.failures:
        failed = tuple((one.algorithm, one.case, f"{one.seed}", one_line(one.words)) for one in findings.failures)
        tables.append(TextTable("Runs that ended in an error", ("algorithm", "case", "seed", "why"), failed))
    sessions = findings.description.sessions
    if sessions:
        rows = tuple((f"{one.began}", one.command, f"{one.runs:,}", f"{one.seconds:,.0f}") for one in sessions)
        tables.append(TextTable("Commands", ("began (UTC)", "commands", "runs", "seconds"), rows))
        where = dict.fromkeys(tuple(one.environment.items()) for one in sessions)
        cells = tuple((name, value) for found in where for name, value in found)
        tables.append(TextTable("Environment", ("", "version"), cells, "Clocks depend on it; no other figure does."))
    return tuple(tables)


def asked_words(one: CaseStanding, *, lacking: int = 0) -> str:
    """What was asked of a case, so that anybody can ask it again; lacking: how many of its runs are not in."""
    row = one.row
    policies = f"; policies {row.policies}" if row.policies else ""
    seeds = sorted({len(score.seeds) for score in one.scores})
    each = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return (
        f"{row.problem}{policies}; ε = {row.epsilon:g}, δ = {row.delta:g}, at most {row.most:,} interactions, "
        f"grid growing by {row.growth:g}; {each} seeds each"
        + (f"; unfinished: {count_of(lacking, 'run')} not in" if lacking else "")
    )


REPEAT = (
    "A row has all that it takes: its suite, case, algorithm and seed. The same seed gives the same row, but for the "
    "clock. For another run change the case, the algorithm or the seed, as the tables name them; from a folder of "
    "results, task_of(row) is the task of a row."
)


def repeat_code(findings: BenchmarkFindings) -> str:
    """Code that plays the first run again, from its columns alone."""
    row = findings.rows[0]
    more = (f", policies={row.policies!r}" if row.policies else "") + ("" if row.certified else ", certified=False")
    return "\n".join(
        (
            "from pacbandits.benchmark.cases import Case, Entry, Task",
            "from pacbandits.benchmark.playing import play",
            "",
            f"case = Case({row.case!r}, {row.problem!r}, {row.epsilon!r}, {row.delta!r}, {row.most!r}, "
            f"growth={row.growth!r}{more})",
            f"entry = Entry({row.entry!r}, {row.algorithm!r}, {row.role!r})",
            f"print(play(Task({row.suite!r}, case, entry, seed={row.seed})))",
        )
    )


def _paragraphs(words: Iterable[str]) -> str:
    return "".join(f"<p>{escape(one)}</p>" for one in words)


def _spaced(words: Iterable[str]) -> list[str]:
    return [line for one in words for line in (one, "")]


def _section_html(table: TextTable) -> str:
    return f"<h2>{escape(table.title)}</h2>{_table_html(table, titled=False)}"


def _table_html(table: TextTable, *, titled: bool = True) -> str:
    sides = ["words" if name in WORDY else "n" if at else "" for at, name in enumerate(table.head)]
    head = "".join(f'<th class="{side}">{escape(cell)}</th>' for side, cell in zip(sides, table.head, strict=True))
    body = "".join(
        f'<tr class="{"ours" if row[0] == OURS else ""}">'
        + "".join(f'<td class="{side}">{escape(one_line(cell))}</td>' for side, cell in zip(sides, row, strict=True))
        + "</tr>"
        for row in table.rows
    )
    title = f"<h3>{escape(table.title)}</h3>" if titled else ""
    note = f'<p class="dim">{escape(table.note)}</p>' if table.note else ""
    return f'{title}<div class="wide"><table><tr>{head}</tr>{body}</table></div>{note}'


def _section_markdown(table: TextTable, *, level: int) -> list[str]:
    note = [table.note, ""] if table.note else []
    cells = ([one_line(cell) for cell in row] for row in table.rows)
    return [f"{'#' * level} {table.title}", "", *markdown_table(table.head, cells), "", *note]


def _picture(findings: BenchmarkFindings, one: CaseStanding) -> str:
    """The figure of a case."""
    rows = [row for row in findings.rows if row.case == one.case]
    figure = case_figure(one, rows=rows, facts=findings.facts.get(one.case))
    return _image(figure, f"{one.case}: when each algorithm is done, and the reward it loses")


def _image(figure: Any, words: str) -> str:
    """A figure as SVG within the page, the same bytes for the same results."""
    data = base64.b64encode(svg_bytes(figure)).decode()
    return f'<img alt="{escape(words)}" src="data:image/svg+xml;base64,{data}">'


def svg_bytes(figure: Any) -> bytes:
    """A figure as SVG without a date, and let go of."""
    made, plt = io.BytesIO(), pyplot()
    with plt.rc_context({"svg.hashsalt": "pacbandits"}):
        figure.savefig(made, format="svg", metadata={"Date": None})
    plt.close(figure)
    return made.getvalue()

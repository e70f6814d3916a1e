"""The report of a benchmark: its page, and the table of finished runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pacbandits.benchmark.cases import Row
from pacbandits.benchmark.claims import BenchmarkFindings
from pacbandits.benchmark.results import Failure, Misfit
from pacbandits.benchmark.standings import BOOTSTRAP_DRAWS, OURS, CaseStanding, Stopped, certified_stopping
from pacbandits.benchmark.suites import Suite
from pacbandits.errors import count_of
from pacbandits.report.benchmark.figures import case_figure
from pacbandits.report.benchmark.tables import (
    NONE,
    better_table,
    chance_table,
    cost_table,
    facts_table,
    main_table,
    proofs_table,
    ratio_table,
    result_table,
    show_stopping,
    single_table,
    stopping_table,
)
from pacbandits.report.document import Block, Box, Code, Document, Figure, Kind, Note, Section, Table, Text
from pacbandits.report.figures import svg_text
from pacbandits.report.html import render_html
from pacbandits.report.markdown import render_markdown

# The report of a benchmark: a page, tables in Markdown, and a summary for a terminal.


TITLE = "Who identifies the best policy soonest?"
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


@dataclass(frozen=True)
class Chapter:
    """A part of the report about several cases together.

    title: the heading.
    tables: the measurements.
    figures: of Matplotlib, each with an alternative text; they are closed once drawn.
    """

    title: str
    tables: tuple[Table, ...]
    figures: tuple[tuple[Any, str], ...] = ()


def report_html(findings: BenchmarkFindings, *, chapters: Sequence[Chapter] = ()) -> str:
    """Return the report as a page; everything in it comes from logged results."""
    return render_html(benchmark_document(findings, chapters))


def report_markdown(findings: BenchmarkFindings, *, chapters: Sequence[Chapter] = ()) -> str:
    """Return the tables of the report as Markdown, without figures."""
    return render_markdown(benchmark_document(findings, chapters, drawn=False))


def benchmark_document(
    findings: BenchmarkFindings, chapters: Sequence[Chapter] = (), *, drawn: bool = True
) -> Document:
    """Return the report of a benchmark: the answer, all cases together, chapters, and the cases one by one.

    drawn: whether it includes figures, which take seconds.
    """
    blocks: list[Block] = []
    if early := unfinished_words(findings):
        blocks.append(Note("warning", early))
    blocks += [Text(size_words(findings), "dim"), Box(tuple(map(Text, answer(findings)))), *map(Text, READING)]
    blocks += map(_section, overview(findings))
    for chapter in chapters:
        figures = [Figure(svg_text(figure), words) for figure, words in chapter.figures] if drawn else []
        blocks.append(Section(chapter.title, (*figures, *chapter.tables)))
    if drawn:
        blocks.append(Text(FIGURES, "dim"))
    for one in findings.standings:
        asked = Text(asked_words(one, lacking=findings.lacking.get(one.case, 0)), "dim")
        figures = (_figure(findings, one),) if drawn else ()
        blocks.append(Section(one.case, (asked, *figures, stopping_table(one), cost_table(one))))
    blocks += map(_section, provenance(findings))
    blocks.append(Section("How to repeat a run", (Text(REPEAT), Code(repeat_code(findings), "python"))))
    return Document(TITLE, tuple(blocks), wide=True)


def benchmark_summary(findings: BenchmarkFindings) -> Document:
    """Return the document that `report` prints: missing runs, the main table, and the answer."""
    early, table = unfinished_words(findings), main_table(findings, brief=True)
    blocks: tuple[Block, ...] = (
        *((Note("warning", early),) if early else ()),
        Text(f"{size_words(findings)}\n", "strong"),
        replace(table, title="", note=""),
        *map(Text, answer(findings)),
        Text(f"\n{table.note}", "dim"),
    )
    return Document("", blocks)


def _section(table: Table) -> Section:
    """Return a table under a heading of its own."""
    return Section(table.title, (replace(table, title=""),))


def _figure(findings: BenchmarkFindings, one: CaseStanding) -> Figure:
    """Return the figure of a case."""
    rows = [row for row in findings.rows if row.case == one.case]
    figure = case_figure(one, rows=rows, facts=findings.facts.get(one.case))
    return Figure(svg_text(figure), f"{one.case}: when each algorithm is done, and the reward it loses")


def size_words(findings: BenchmarkFindings) -> str:
    """Return the size of the benchmark in words."""
    told = [
        count_of(len(findings.rows), "run"),
        count_of(len(findings.standings), "case"),
        count_of(len(findings.entries), "algorithm"),
    ]
    return f"{', '.join(told)}; pacbandits {findings.description.version}"


def unfinished_words(findings: BenchmarkFindings) -> str:
    """Return a sentence on missing runs and what they mean for the figures; "" if there are none."""
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
    """Return the verdicts on our claims for finished cases, in sentences, including broken ones."""
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
    wrong, runs = errors(findings)
    if runs:
        made = f"{count_of(runs, 'certificate')} that accepted{' so far' if lacking else ''}"
        sentences.append(f"Of {made}, {wrong} had a policy that is not within ε.")
    undone = [one.case for one in verdicts if one.kept is None]
    if undone:
        sentences.append(f"Nobody is done within what may be played in {', '.join(undone)}.")
    return sentences


def errors(findings: BenchmarkFindings) -> tuple[int, int]:
    """Return the number of certified policies that are not within ε, and of all that were certified."""
    made = [score.certified for one in findings.standings for score in one.scores if score.certified is not None]
    return sum(one.wrong for one in made), sum(one.stopped for one in made)


def overview(findings: BenchmarkFindings) -> tuple[Table, ...]:
    """Return the tables over all cases."""
    tables = [main_table(findings), *(one for one in (chance_table(findings), single_table(findings)) if one.rows)]
    if any(one.row.certified for one in findings.standings):
        tables.append(ratio_table(findings, "certified"))
    tables += [ratio_table(findings, "oracle"), better_table(findings)]
    if (proofs := proofs_table(findings)).rows:
        tables.append(proofs)
    return (*tables, facts_table(findings))


def provenance(findings: BenchmarkFindings) -> tuple[Table, ...]:
    """Return tables of refused cases, failed runs, commands, and environments."""
    tables: list[Table] = []
    if findings.misfits:
        refused = tuple((one.algorithm, one.case, one.words) for one in findings.misfits)
        tables.append(result_table("Who refused what", ("algorithm", "case", "why"), refused))
    if findings.failures:
        failed = tuple((one.algorithm, one.case, f"{one.seed}", one.words) for one in findings.failures)
        tables.append(result_table("Runs that ended in an error", ("algorithm", "case", "seed", "why"), failed))
    sessions = findings.description.sessions
    if sessions:
        rows = tuple((f"{one.began}", one.command, f"{one.runs:,}", f"{one.seconds:,.0f}") for one in sessions)
        tables.append(result_table("Commands", ("began (UTC)", "commands", "runs", "seconds"), rows))
        where = dict.fromkeys(tuple(one.environment.items()) for one in sessions)
        cells = tuple((name, value) for found in where for name, value in found)
        tables.append(result_table("Environment", ("", "version"), cells, "Clocks depend on it; no other figure does."))
    return tuple(tables)


def asked_words(one: CaseStanding, *, lacking: int = 0) -> str:
    """Return the settings of a case, enough to repeat it; lacking: the number of its missing runs."""
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
    """Return code that repeats the first run, from its columns alone."""
    row = findings.rows[0]
    more = (f", policies={row.policies!r}" if row.policies else "") + ("" if row.certified else ", certified=False")
    return "\n".join(
        (
            "from pacbandits.benchmark.cases import Case, Entry, Task",
            "from pacbandits.benchmark.runs import play",
            "",
            f"case = Case({row.case!r}, {row.problem!r}, {row.epsilon!r}, {row.delta!r}, {row.most!r}, "
            f"growth={row.growth!r}{more})",
            f"entry = Entry({row.entry!r}, {row.algorithm!r}, {row.role!r})",
            f"print(play(Task({row.suite!r}, case, entry, seed={row.seed})))",
        )
    )


# The documents that `bench` prints: finished runs, and the suites.


MAX_SENTENCES = 12  # about refusals, or about failures


@dataclass(frozen=True)
class Played:
    """Runs of an algorithm on a case.

    case, entry, algorithm, role: which.
    most: the budget of interactions of each run.
    runs: their number.
    certified: when our certificate accepts; None if none is made.
    """

    case: str
    entry: str
    algorithm: str
    role: str
    most: int
    runs: int
    certified: Stopped | None

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        which = {"case": self.case, "entry": self.entry, "algorithm": self.algorithm, "role": self.role}
        certified = None if self.certified is None else self.certified.to_json()
        return which | {"most": self.most, "runs": self.runs, "certified": certified}


def played(rows: Iterable[Row], suite: Suite) -> tuple[Played, ...]:
    """Return the finished runs of a suite, case by case; rows of other suites are ignored, and lists are not needed."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.suite == suite.name:
            groups.setdefault((row.case, row.algorithm), []).append(row)
    out: list[Played] = []
    for case in suite.cases:
        for entry in suite.entries:
            of = groups.get((case.name, entry.spec))
            if of:
                found = certified_stopping(of)
                out.append(Played(case.name, entry.name, entry.spec, entry.role, case.most, len(of), found))
    return tuple(out)


def played_document(done: Sequence[Played], *, misfits: Sequence[Misfit], failures: Sequence[Failure]) -> Document:
    """Return when runs were certified, by case and algorithm, and which did not run."""
    rows: list[tuple[str, ...]] = []
    before = ""
    for one in done:
        found = one.certified
        share, median = NONE, NONE
        if found is not None:
            share, median = f"{found.stopped} of {found.runs}", show_stopping(found.samples, most=one.most)
        rows.append(("" if one.case == before else one.case, one.algorithm, f"{one.runs}", share, median))
        before = one.case
    head = ("case", "algorithm", "runs", "certified", "median interactions until then")
    refused = [f"{one.algorithm} does not play {one.case}: {one.words}" for one in misfits]
    failed = [f"{_run(one)} failed: {one.words}" for one in failures]
    return Document(
        "", (Table(head, tuple(rows), sides=("left", "left")), *_notes(refused, "remark"), *_notes(failed, "warning"))
    )


def _run(one: Failure) -> str:
    return f"{one.algorithm} on {one.case}, seed {one.seed}," if one.algorithm else f"the measurement of {one.case}"


def _notes(words: Sequence[str], kind: Kind) -> Iterable[Note]:
    """Yield a few sentences, and the number of further ones."""
    yield from (Note(kind, one) for one in words[:MAX_SENTENCES])
    if len(words) > MAX_SENTENCES:
        more = count_of(len(words) - MAX_SENTENCES, "more like these", "more like these")
        yield Note("remark", f"… and {more}")


def suites_document(suites: Iterable[Suite]) -> Document:
    """Return the suites, one per line."""
    rows = tuple(
        (
            one.name,
            f"{len(one.cases):,}",
            f"{len(one.entries):,}",
            f"{one.seeds:,}",
            f"{len(one.tasks()):,}",
            one.description,
        )
        for one in suites
    )
    head = ("suite", "cases", "algorithms", "seeds", "runs", "what it is for")
    return Document("", (Table(head, rows, sides=("left", "right", "right", "right", "right", "wrap")),))


def suite_document(suite: Suite) -> Document:
    """Return the cases and the algorithms of a suite."""
    cases = tuple(
        (
            case.name,
            case.problem + (f", {case.policies}" if case.policies else ""),
            f"{case.epsilon:g}",
            f"{case.delta:g}",
            f"{case.most:,}",
        )
        for case in suite.cases
    )
    entries = tuple((one.name, one.spec, "published" if one.role == "default" else "tuned") for one in suite.entries)
    blocks = (
        Text(f"{suite.description}; {count_of(suite.seeds, 'seed')}\n"),
        Table(("case", "problem", "ε", "δ", "at most"), cases, sides=("left", "wrap")),
        Table(("entry", "algorithm", "knobs"), entries, sides=("left", "left", "left")),
    )
    return Document("", blocks)

"""The report of a plan, and what `plan` prints: sample sizes, chances, costs and gains, and the assumptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pacbandits.planning import Affordable, StudyPlan
from pacbandits.report.document import Block, Box, Document, Figure, Items, Section, Table, Text
from pacbandits.report.figures import svg_text
from pacbandits.report.page import write_document
from pacbandits.report.plan_figure import plan_figure
from pacbandits.report.planned import (
    ByEffect,
    answer,
    budget_rows,
    effect_rows,
    gain_rows,
    main_rows,
    people,
    scenario_rows,
)

TITLE = "What will the trial cost?"
SHARE_WORDS = ("in half of all cases", "in 4 of 5", "in 19 of 20")
ANALYSIS_HEAD = ("adaptive: half", "4 of 5", "plain: half", "4 of 5", "certify: half", "4 of 5")
SHORT_HEAD = tuple(words.removesuffix(": half") for words in ANALYSIS_HEAD)  # as wide as a terminal
FIGURE_WORDS = "The chance to be done by the number of people, and the number of people in each scenario"
HOW = (
    "Each simulated trial draws a truth that the scenarios leave possible, lets the real algorithm explore people "
    "like those given, and stops when its certificate proves the answer. The adaptive trial (coda) shows each action "
    "as often as it takes to tell rules apart, and the plain one shows all equally often; the same proof ends both. "
    "A finished log is one of a plain test that is analysed once, by pacbandits certify, which learns the class of "
    "rules from its first rows: it takes a multiple of the plain trial's people, fitted to simulated logs. "
    "The quick answer (in brackets) is a formula, fitted to simulated trials: the price of telling rules apart, times "
    "the evidence that a proof takes, with what chance does to the luckiest of many rules."
)


def write_plan_report(
    plan: StudyPlan, path: Path, *, afforded: Affordable | None = None, by_effect: ByEffect | None = None
) -> None:
    """Write the report as HTML or Markdown, by the ending of the file's name."""
    write_document(plan_document(plan, afforded, by_effect, drawn=path.suffix.lower() != ".md"), path)


def plan_document(
    plan: StudyPlan, afforded: Affordable | None = None, by_effect: ByEffect | None = None, *, drawn: bool = True
) -> Document:
    """Return the report of a plan, for colleagues; drawn: whether it has a figure, which takes seconds."""
    blocks: tuple[Block, ...] = (
        Text(plan.source, "dim"),
        Box(tuple(map(Text, answer(plan)))),
        *((Figure(svg_text(plan_figure(plan)), FIGURE_WORDS),) if drawn else ()),
        *_sections(plan, afforded, by_effect, scenario_rows(plan, in_words=True), ANALYSIS_HEAD),
        Section("How this was computed", (Text(HOW), *_lower_bound(plan))),
    )
    return Document(TITLE, blocks)


def plan_summary(plan: StudyPlan, afforded: Affordable | None = None, by_effect: ByEffect | None = None) -> Document:
    """Return what `plan` prints: the answer and the tables of the report, with scenarios by their names."""
    tables = _sections(plan, afforded, by_effect, scenario_rows(plan), SHORT_HEAD)
    return Document("", (Text("\n".join(answer(plan)) + "\n"), *tables, *_lower_bound(plan)))


def _sections(
    plan: StudyPlan,
    afforded: Affordable | None,
    by_effect: ByEffect | None,
    scenarios: Iterable[tuple[str, ...]],
    head: Sequence[str],
) -> Iterable[Block]:
    """Yield the tables of a plan; scenarios: the rows of that table; head: its columns after the first."""

    def table(title: str, columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> Section:
        return Section(title, (Table(tuple(columns), tuple(rows)),))

    brackets = "; in brackets: quick answer" if plan.simulated else ""
    yield table("Number of people until the proof", ("", *SHARE_WORDS), main_rows(plan))
    yield table(f"By scenario (half of all cases, 4 of 5{brackets})", ("if this is true", *head), scenarios)
    if by_effect:
        title = "By mean reward of a better action (half of all cases, 4 of 5; quick answer)"
        yield table(title, ("mean reward", *head), effect_rows(plan, by_effect))
    if plan.simulated:
        yield table("Average costs and gains", ("", "adaptive", "plain"), gain_rows(plan))
    if afforded is not None:
        title = f"What {afforded.budget:,} people afford (quick answer, adaptive trial)"
        yield table(title, (), budget_rows(plan, afforded))
    if findings := plan.findings():
        yield Section("Remarks", (Items(tuple(findings)),))
    yield table("Assumptions", (), plan.supposed.describe())


def _lower_bound(plan: StudyPlan) -> Iterable[Text]:
    if plan.lower_bound is not None:
        fewest = people(plan.lower_bound)
        yield Text(f"No way to explore needs fewer than {fewest} people on average; that is a theorem.")

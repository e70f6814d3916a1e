"""A plan for colleagues: one file of HTML that needs nothing else, or the same in Markdown."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from pacbandits.errors import InputError, one_line
from pacbandits.planning import Affordable, StudyPlan
from pacbandits.report.figures import pyplot
from pacbandits.report.page import check_report, markdown_table, page_html
from pacbandits.report.plan_figure import plan_figure
from pacbandits.report.planned import (
    ANALYSIS_HEAD,
    SHARE_WORDS,
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
SCENARIO_HEAD = ("if this is true", *ANALYSIS_HEAD)
EFFECT_HEAD = ("a better action raises the mean reward to", *ANALYSIS_HEAD)
GAIN_HEAD = ("", "adaptive", "plain")
BY_EFFECT = "By the quick answer."
AFFORDED = "By the quick answer, of the adaptive trial."
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
    """Write the report, in HTML or Markdown by the end of its name."""
    check_report(path)
    text = (
        plan_markdown(plan, afforded, by_effect)
        if path.suffix.lower() == ".md"
        else plan_html(plan, afforded, by_effect)
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def plan_html(plan: StudyPlan, afforded: Affordable | None = None, by_effect: ByEffect | None = None) -> str:
    """The report as a page."""
    parts = [
        f"<h1>{TITLE}</h1>",
        f'<p class="dim">{escape(one_line(plan.source))}</p>',
        f'<div class="answer">{"".join(f"<p>{escape(words)}</p>" for words in answer(plan))}</div>',
        _picture(plan),
        "<h2>How many people until it is proven</h2>",
        _table_html(("", *SHARE_WORDS), main_rows(plan)),
        "<h2>Scenario by scenario</h2>",
        _table_html(SCENARIO_HEAD, scenario_rows(plan, in_words=True)),
    ]
    if by_effect:
        parts += ["<h2>Effect by effect</h2>", f"<p>{BY_EFFECT}</p>"]
        parts += [_table_html(EFFECT_HEAD, effect_rows(plan, by_effect))]
    if plan.simulated:
        parts += ["<h2>What that costs and gains, on average</h2>"]
        parts += [_table_html(GAIN_HEAD, gain_rows(plan))]
    if afforded is not None:
        parts += [
            f"<h2>What {afforded.budget:,} people afford</h2>",
            f"<p>{AFFORDED}</p>",
            _table_html(("", ""), budget_rows(plan, afforded)),
        ]
    if findings := plan.findings():
        parts += ["<h2>What to know</h2>", f"<ul>{''.join(f'<li>{escape(words)}</li>' for words in findings)}</ul>"]
    parts += ["<h2>What is supposed</h2>", _table_html(("", ""), plan.supposed.describe())]
    parts += ["<h2>How this was computed</h2>", *(f"<p>{escape(words)}</p>" for words in (HOW, *_bound(plan)))]
    return page_html(TITLE, parts)


def plan_markdown(plan: StudyPlan, afforded: Affordable | None = None, by_effect: ByEffect | None = None) -> str:
    """The report as Markdown."""
    lines = [f"# {TITLE}", one_line(plan.source), "", *answer(plan), "", "## How many people until it is proven"]
    lines += markdown_table(("", *SHARE_WORDS), main_rows(plan))
    lines += ["", "## Scenario by scenario", *markdown_table(SCENARIO_HEAD, scenario_rows(plan, in_words=True))]
    if by_effect:
        lines += ["", "## Effect by effect", BY_EFFECT, ""]
        lines += markdown_table(EFFECT_HEAD, effect_rows(plan, by_effect))
    if plan.simulated:
        lines += ["", "## What that costs and gains, on average"]
        lines += markdown_table(GAIN_HEAD, gain_rows(plan))
    if afforded is not None:
        lines += [
            "",
            f"## What {afforded.budget:,} people afford",
            AFFORDED,
            "",
            *markdown_table(("", ""), budget_rows(plan, afforded)),
        ]
    if findings := plan.findings():
        lines += ["", "## What to know", *(f"- {words}" for words in findings)]
    lines += ["", "## What is supposed", *markdown_table(("", ""), plan.supposed.describe())]
    return "\n".join([*lines, "", "## How this was computed", HOW, *_bound(plan)]) + "\n"


def _bound(plan: StudyPlan) -> Iterable[str]:
    if plan.lower_bound is not None:
        fewest = people(plan.lower_bound)
        yield f"No way to explore needs fewer than {fewest} people on average; that is a theorem."


def _picture(plan: StudyPlan) -> str:
    """The picture as SVG within the page."""
    figure, text = plan_figure(plan), io.StringIO()
    figure.savefig(text, format="svg")
    pyplot().close(figure)
    return text.getvalue()[text.getvalue().index("<svg") :]


def _table_html(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    first = "".join(
        f'<th class="n">{escape(cell)}</th>' if i else f"<th>{escape(cell)}</th>" for i, cell in enumerate(head)
    )
    side = "n" if any(head) else ""
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{side if i else ""}">{escape(one_line(c))}</td>' for i, c in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f"<table>{f'<tr>{first}</tr>' if any(head) else ''}{body}</table>"

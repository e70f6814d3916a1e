"""Runs for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pacbandits.certificate import Certificate, Claim
from pacbandits.errors import one_line, visible_lines
from pacbandits.options import Option
from pacbandits.report.numbers import show_name, show_number, show_samples
from pacbandits.report.summary import Summary, interval_words
from pacbandits.report.tables import options_table
from pacbandits.report.worth import alarm_lines
from pacbandits.simulation import Run
from pacbandits.trials.protocol import Profile

MAX_SHOWN_ARMS = 12
WORTHWHILE_SHARE = 0.9  # of the rows that it would take otherwise, with which a design is worth a word


def run_table(run: Run) -> RenderableType:
    """One run: its rounds, its policy in words, what is promised of it, and whether that was true."""
    head = Text.assemble(
        (run.algorithm, "bold"),
        f" on {show_name(run.problem)}\nε = {run.epsilon:g}, δ = {run.delta:g}, seed {run.seed}\n",
    )
    rounds = Table(box=None, title="rounds", title_justify="left", title_style="bold cyan", pad_edge=False)
    shown = [key for key in (run.history[0] if run.history else {}) if key != "policy"]
    for key in shown:
        rounds.add_column(key.replace("_", " ").replace("epsilon", "ε"), justify="right")
    for figures in run.history:
        rounds.add_row(*(_figure(figures.get(key)) for key in shown))
    verdict = "right" if run.correct else "wrong"
    alarms = alarm_lines(() if run.certificate is None else run.certificate.alarms)
    policy = Text.assemble(alarms, ("policy\n", "bold cyan"), f"{visible_lines(run.policy.describe())}\n")
    answer = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    answer.add_column(style="bold cyan", no_wrap=True)
    answer.add_column()
    calls = f", {run.oracle_calls:,} oracle calls" if run.oracle_calls else ""
    answer.add_row("samples", f"{run.samples:,} in {run.rounds} round{'s' if run.rounds != 1 else ''}{calls}")
    truth = f"{show_number(run.value_gap)} below the best of the class: {verdict}"
    answer.add_row("truth", Text(truth, style="" if run.correct else "yellow"))
    answer.add_row("promise", Text(run.guarantee))
    parts = [policy, answer, Text(f"\n{run.seconds:.1f} s", style="dim")]
    if run.reason:
        parts.append(Text(f"stopped early ({run.stopped}): {run.reason}", style="yellow"))
    return Group(head, rounds, Text(), *parts) if run.history else Group(head, *parts)


def runs_table(runs: Sequence[Run], *, asked: int) -> RenderableType:
    """Several runs: how often they were right, and what they cost."""
    first = runs[0]
    samples = [run.samples for run in runs]
    wrong = sum(not run.correct for run in runs if run.stopped == "done")
    done = sum(run.stopped == "done" for run in runs)
    head = Text.assemble(
        (first.algorithm, "bold"),
        f" on {show_name(first.problem)}\n"
        f"ε = {first.epsilon:g}, δ = {first.delta:g}, seeds {first.seed} to {runs[-1].seed}\n",
    )
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(width=31)
    table.add_column()
    table.add_row("runs that ended by themselves", f"{done} of {asked}")
    table.add_row(
        "of those, wrong by more than ε", f"{wrong}" + (f" (δ allows {first.delta:g} of them)" if done else "")
    )
    table.add_row("samples, median", show_samples(float(np.median([float(n) for n in samples]))))
    table.add_row("samples, least and most", f"{min(samples):,} … {max(samples):,}")
    table.add_row("largest distance to the best", show_number(max(run.value_gap for run in runs)))
    table.add_row("seconds a run, median", f"{np.median([run.seconds for run in runs]):.2f}")
    table.add_row("promise", Text(first.guarantee))
    reasons = [run.reason for run in runs if run.reason]
    return Group(head, table, *([Text(f"stopped early: {reasons[0]}", style="yellow")] if reasons else []))


def algorithms_table(algorithms: Mapping[Profile, Sequence[Option]]) -> RenderableType:
    """The algorithms, what each assumes and guarantees, and its options."""
    parts: list[RenderableType] = []
    for profile, options in algorithms.items():
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column()
        for key in ("classes", "assumes", "guarantees", "samples"):
            table.add_row(f"  {key}", Text(getattr(profile, key)))
        parts += [Text.assemble((profile.name, "bold"), f"  {profile.source}"), table, options_table(options), Text()]
    parts.append(Text("ε_l = 2^−l, δ_l = 3δ/(π² l² |Π|²), s² a bound on E[r²], V the variance under the design."))
    parts.append(Text("Write name:key=value,key=value. From Python an object with the steps of Algorithm will do."))
    return Group(*parts)


def certificate_table(certificate: Certificate, summary: Summary | None = None) -> RenderableType:
    """What a log proves: the policy in words, the claim, and the figures behind it; and what is still missing.

    summary: how good the policy is, and how many more interactions would prove what.
    """
    c, alarms = certificate, certificate.alarms if summary is None else summary.alarms
    figures = {} if summary is None else _worth_figures(summary)
    figures |= {} if summary is None else _tried_figures(summary)
    figures |= {
        "certified": "in doubt (alarm)" if alarms else "yes" if c.certified else "no",
        "ε, if the assumptions held" if alarms else "ε that the data certify": (
            show_number(c.certified_epsilon) if c.certified_epsilon < c.unit else "—"
        ),
    }
    if summary is not None and (scale := summary.scale) is not None and not alarms:
        most, likely = summary.show_difference(scale.possible), summary.show_difference(scale.likely)
        empty = ": this ε says nothing" if scale.says_nothing else ""
        figures["most that any rule could gain"] = f"about {likely}, at most {most}{empty}"
    figures |= {
        "interactions" if c.units is None else "people who come back": c.counted,
        "least evidence, and needed": f"{c.value:.2f} of {c.threshold:.2f} nats",
    }
    if summary is not None and summary.price is not None:
        name, figure = summary.price.figure
        figures[one_line(name)] = figure
    if summary is not None and summary.ahead is not None and summary.target is not None and not alarms:
        near = summary.show_difference(summary.target)
        many = summary.ahead.same
        words = f"about {float(f'{many:.2g}'):,.0f} like these" if math.isfinite(many) else "too few so far to say"
        figures[f"more {summary.noun} to prove {near}"] = words
        if summary.ahead.best < WORTHWHILE_SHARE * summary.ahead.same:
            figures["  or by the best design"] = f"about {float(f'{summary.ahead.best:.2g}'):,.0f}"
    said = () if summary is None or not alarms else summary.answer()[len(alarms) :]
    return claim_table(c, figures, alarms=alarms, said=said)


def _worth_figures(summary: Summary) -> dict[str, str]:
    """How good a policy is, with intervals."""
    worth = summary.worth
    if worth is None:
        return {}
    best = int(np.argmax([one.estimate for one in worth.singles]))
    figures = {
        f"mean {one_line(summary.outcome)} of the policy": interval_words(summary, worth.value, difference=False),
        f"always {one_line(summary.actions[best])}": interval_words(summary, worth.singles[best], difference=False),
        "gain over the best single action": interval_words(summary, worth.over_best, difference=True),
        "these are measured by": worth.measured_by,
    }
    if summary.control is not None:
        name, one = one_line(summary.actions[summary.control]), summary.control
        figures[f"always {name}"] = interval_words(summary, worth.singles[one], difference=False)
        figures[f"gain over the control, {name}"] = interval_words(summary, worth.over_each[one], difference=True)
    return figures


def _tried_figures(summary: Summary) -> dict[str, str]:
    """Every action as it was tried: how many rows, and what they earned."""
    outcome, shown = one_line(summary.outcome), summary.arms[:MAX_SHOWN_ARMS]
    return {
        f"rows with {one_line(arm.action)}": f"{arm.rows:,}"
        + ("" if arm.mean is None else f", mean {outcome} {summary.show(arm.mean)}")
        + (f" ({arm.awaited:,} not in)" if arm.awaited else "")
        for arm in shown
    }


def claim_table(
    claim: Claim,
    figures: Mapping[str, str],
    *,
    warning: str = "",
    alarms: Sequence[str] | None = None,
    said: Sequence[str] = (),
) -> RenderableType:
    """A claim: where the log speaks against it, the policy in words, what is said of it, the figures behind it, and
    what was looked for in vain or assumed.

    alarms: those to show first, by default those of the claim. said: sentences to follow these.
    """
    told = claim.alarms if alarms is None else alarms
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(width=31)
    table.add_column()
    for name, figure in figures.items():
        table.add_row(name, figure)
    words = Text.assemble(
        alarm_lines(told),
        "".join(f"{words}\n\n" for words in said),
        (warning, "bold yellow"),
        ("policy\n", "bold cyan"),
        f"{visible_lines(claim.words)}\n\n",
        ("claim, if its assumptions held\n" if told else "claim\n", "bold cyan"),
        f"{claim.describe()}\n",
    )
    looks = "".join(f"{check.describe()}\n" for check in claim.checks if not check.alarm)
    return Group(words, table, Text(), Text(looks, style="dim"), Text(f"assuming that {claim.assuming()}", style="dim"))


def _figure(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return show_number(value) if isinstance(value, float) else str(value)

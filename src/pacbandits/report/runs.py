"""What `run` and `algorithms` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pacbandits.errors import count_of
from pacbandits.options import Option
from pacbandits.report.claims import LABEL_WIDTH, alarm_notes
from pacbandits.report.document import Block, Cell, Code, Document, Note, Section, Table, Text
from pacbandits.report.numbers import show_name, show_number, show_samples
from pacbandits.report.tables import options_table
from pacbandits.simulation import Run
from pacbandits.trials.protocol import Profile


def run_document(run: Run) -> Document:
    """Return one run: its rounds, its policy, what is guaranteed of it, and whether that was true."""
    head = f"ε = {run.epsilon:g}, δ = {run.delta:g}, seed {run.seed}\n"
    blocks: list[Block] = [Text(head)]
    if run.history:
        shown = [key for key in run.history[0] if key != "policy"]
        names = tuple(key.replace("_", " ").replace("epsilon", "ε") for key in shown)
        rows = tuple(tuple(_figure(figures.get(key)) for key in shown) for figures in run.history)
        blocks.append(Table(names, rows, title="rounds", sides=("right",)))
    calls = f", {run.oracle_calls:,} oracle calls" if run.oracle_calls else ""
    truth = f"{show_number(run.value_gap)} below the best of the class: {'right' if run.correct else 'wrong'}"
    facts = (
        ("samples", f"{run.samples:,} in {count_of(run.rounds, 'round')}{calls}"),
        ("truth", Cell(truth, "" if run.correct else "warning")),
        ("promise", run.guarantee),
    )
    blocks += [
        *alarm_notes(() if run.certificate is None else run.certificate.alarms),
        Section("policy", (Code(run.policy.describe()),)),
        Table((), facts),
        Text(f"{run.seconds:.1f} s", "dim"),
    ]
    if run.reason:
        blocks.append(Note("warning", f"stopped early ({run.stopped}): {run.reason}"))
    return Document(f"{run.algorithm} on {show_name(run.problem)}", tuple(blocks))


def runs_document(runs: Sequence[Run], *, asked: int) -> Document:
    """Return how often several runs were right, and what they cost."""
    first, samples = runs[0], [run.samples for run in runs]
    done = [run for run in runs if run.stopped == "done"]
    allowed = f" (δ allows {first.delta:g} of them)" if done else ""
    facts = (
        ("runs that ended by themselves", f"{len(done)} of {asked}"),
        ("of those, wrong by more than ε", f"{sum(not run.correct for run in done)}{allowed}"),
        ("samples, median", show_samples(float(np.median([float(n) for n in samples])))),
        ("samples, least and most", f"{min(samples):,} … {max(samples):,}"),
        ("largest distance to the best", show_number(max(run.value_gap for run in runs))),
        ("seconds a run, median", f"{np.median([run.seconds for run in runs]):.2f}"),
        ("promise", first.guarantee),
    )
    head = f"ε = {first.epsilon:g}, δ = {first.delta:g}, seeds {first.seed} to {runs[-1].seed}\n"
    reasons = [run.reason for run in runs if run.reason]
    blocks = (
        Text(head),
        Table((), facts, widths=(LABEL_WIDTH,)),
        *(Note("warning", f"stopped early: {words}") for words in reasons[:1]),
    )
    return Document(f"{first.algorithm} on {show_name(first.problem)}", blocks)


def algorithms_document(algorithms: Mapping[Profile, Sequence[Option]]) -> Document:
    """Return the algorithms, what each assumes and guarantees, and its options."""
    blocks: list[Block] = []
    for profile, options in algorithms.items():
        keys = ("classes", "assumes", "guarantees", "samples")
        facts = tuple((f"  {key}", str(getattr(profile, key))) for key in keys)
        blocks += [Text(f"{profile.name}  {profile.source}", "strong"), Table((), facts), options_table(options)]
    blocks.append(Text("ε_l = 2^−l, δ_l = 3δ/(π² l² |Π|²), s² a bound on E[r²], V the variance under the design."))
    blocks.append(Text("Write name:key=value,key=value. From Python an object with the steps of Algorithm will do."))
    return Document("", tuple(blocks))


def _figure(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return show_number(value) if isinstance(value, float) else str(value)

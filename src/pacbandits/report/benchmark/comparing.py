"""Tables of where others are better than ours, and of the proofs that others make."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from pacbandits.algorithms import profile_of
from pacbandits.benchmark.findings import BenchmarkFindings
from pacbandits.benchmark.intervals import share_interval
from pacbandits.benchmark.standings import OURS, CaseStanding, Score
from pacbandits.errors import InputError, one_line
from pacbandits.report.benchmark.tables import result_table
from pacbandits.report.benchmark.words import NONE, show_clock
from pacbandits.report.document import Table

Cells = tuple[str, ...]
Pair = tuple[float, float]  # a figure of theirs and the same of ours


def better_table(findings: BenchmarkFindings) -> Table:
    """Where each algorithm is better than ours: the number of cases, of those that both played, and by how much."""
    rows: list[Cells] = []
    for entry in findings.entries:
        both = [(a, b, one) for one in findings.standings if (a := _of(one, entry)) and (b := _of(one, OURS))]
        if entry == OURS or not both:
            continue
        cells = (
            _compared((a.by("certified"), b.by("certified")) for a, b, one in both if one.row.certified),
            _compared((a.by("oracle"), b.by("oracle")) for a, b, _ in both),
            _compared((a.cost.lost.value, b.cost.lost.value) for a, b, _ in both),
            _compared((a.cost.decision_microseconds, b.cost.decision_microseconds) for a, b, _ in both),
            _compared((a.cost.microseconds_a_sample, b.cost.microseconds_a_sample) for a, b, _ in both),
        )
        rows.append((entry, *cells, _classes(both[0][0])))
    return result_table(
        "Where others are better than coda",
        (
            "algorithm",
            "sooner proven",
            "sooner right",
            "less reward lost",
            "faster decisions",
            "less time an interaction",
            "classes",
        ),
        tuple(rows),
        "Cases in which an algorithm with its published options has the smaller figure, of all cases that both played, "
        "and in brackets its figure over coda's in the middle case. Reward lost: up to the median at which uniform is "
        "certified, and who is done earlier goes on with its answer. Decisions: to say the probabilities of all "
        "actions for one context, which Vowpal Wabbit looks up in a table that it makes between rounds, and lin-ts "
        "finds by draws. Time an interaction: to choose and learn, over the interactions of a run. Classes: the "
        "policies that it can search; some explore without one, by a regression.",
    )


def proofs_table(findings: BenchmarkFindings) -> Table:
    """How often algorithms prove their answers themselves, how often they are wrong, and how long it takes them."""
    rows: list[Cells] = []
    for entry in findings.entries:
        scores = [score for one in findings.standings if (score := _of(one, entry)) is not None]
        found = [(score, score.own) for score in scores if score.own is not None]
        if not found:
            continue
        runs, proven, wrong = (
            sum(counts) for counts in zip(*((own.runs, own.stopped, own.wrong) for _, own in found), strict=True)
        )
        ratios = [own.samples.value / score.by("certified") for score, own in found if math.isfinite(own.samples.value)]
        known = [ratio for ratio in ratios if ratio > 0]  # our certificate accepts, too
        rows.append(
            (
                entry,
                f"{len(found)}",
                f"{proven} of {runs}",
                f"{wrong}",
                f"{show_clock(100 * share_interval(wrong, runs).high)} %",
                f"{median(known):.2f} ({len(known)} of {len(found)})" if known else NONE,
            )
        )
    return result_table(
        "Proofs of their own",
        ("algorithm", "cases", "proven", "wrong", "error rate at most", "own / our certificate"),
        tuple(rows),
        "Runs with published options that stopped by a proof of the algorithm's own within what may be played, and how "
        "many of these answers are not within ε; the largest error rate that fits all runs (95 %). Then what its proof "
        "takes over what our certificate takes on the same log, the middle of the cases in which half of the runs have "
        "both.",
    )


def _of(one: CaseStanding, entry: str) -> Score | None:
    line = one.line(entry, one.yardstick)
    return None if line is None else line.default or line.best


def _compared(pairs: Iterable[Pair]) -> str:
    """In how many cases theirs is less, and the middle of its ratios to ours where there is one."""
    listed = list(pairs)
    if not listed:
        return NONE
    return f"{sum(a < b for a, b in listed)} of {len(listed)}{_middle(listed)}"


def _middle(pairs: Sequence[Pair]) -> str:
    ratios = sorted(_ratio(a, b) for a, b in pairs if not (math.isnan(a) or math.isnan(b)) and (a or b))
    middle = median(ratios) if ratios else math.inf
    return f" ({show_clock(middle)})" if math.isfinite(middle) else ""


def _ratio(a: float, b: float) -> float:
    if not math.isfinite(a):
        return math.inf if math.isfinite(b) else 1.0
    return a / b if b else math.inf


def _classes(score: Score) -> str:
    try:
        return one_line(profile_of(score.spec).classes)
    except InputError:
        return NONE

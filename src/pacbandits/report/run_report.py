"""Documents of runs, of a comparison of runs, and of the complexity of a problem."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pacbandits.certificate.claim import rounded_up
from pacbandits.complexity import Complexity, Law
from pacbandits.design import Solution
from pacbandits.errors import count_of
from pacbandits.options import Option
from pacbandits.problems import Problem
from pacbandits.report.document import Block, Cell, Code, Document, Note, Section, Table, Text
from pacbandits.report.numbers import show_bracket, show_name, show_number, show_samples
from pacbandits.report.result_report import LABEL_WIDTH, alarm_notes
from pacbandits.simulation import Run
from pacbandits.trials.protocol import Profile

# The documents that `complexity`, `problems` and `policies` print.


Row = tuple[str, str, str]
# Column widths of labels and of short numbers.
NARROW_WIDTHS = (25, 9)
CONFIDENCE_LABEL = "price of confidence alone"
CONFIDENCE_FORMULA = "2ρ_σ log(1/2.4δ)"
UNION_LABEL = "price with a union bound"
UNION_FORMULA = "2ρ_σ log(|Π|/δ)"


def complexity_document(problem: Problem | None, measured: Complexity) -> Document:
    """Return the complexity of a problem: the instance, ρ and its bounds, each number with a remark.

    problem: for its name and description, if it is at hand.
    """
    m = measured
    head = "" if problem is None else f"{problem.description}\n"
    blocks: list[Block] = [
        Text(f"{head}ε = {m.epsilon:g}, δ = {m.delta:g}\n"),
        numbers_table("the instance", _instance_rows(m)),
        numbers_table("complexity", _rho_rows(m)),
        numbers_table("samples", _sample_rows(m)),
        numbers_table("disagreement", _disagreement_rows(m)),
        Section("best policy", (Code(m.gaps.best.describe()),)),
        *closing(seconds=m.seconds, converged=m.converged),
    ]
    return Document("Complexity" if problem is None else show_name(problem.name), tuple(blocks))


def closing(*, seconds: float, converged: bool) -> Iterable[Block]:
    """Yield the last lines: the running time, and whether the requested precision was reached."""
    yield Text(f"{seconds:.1f} s", "dim")
    if not converged:
        yield Note("warning", "the requested precision was not reached: read the brackets")


def _instance_rows(m: Complexity) -> list[Row]:
    if m.n_policies is not None:
        size = show_number(m.n_policies)
    else:
        size = f"about {math.exp(m.log_size):.2g}" if m.log_size < 700 else f"about 10^{m.log_size / math.log(10):,.0f}"
    uniform = "least loss of one wrong action"
    if m.gap_uniform < 0:
        uniform += "; negative, as π* is not best in every context"
    return [
        ("policies", size, f"log|Π| = {m.log_size:.4g}"),
        ("contexts × actions", f"{m.n_contexts:,} × {m.n_actions}", ""),
        ("best value V(π*)", show_number(m.best_value), ""),
        ("least policy gap Δ_pol", show_number(m.min_gap), m.notes.get("min_gap", "")),
        ("Δ_ε = max(ε, Δ_pol)", show_number(m.gap_epsilon), ""),
        ("Δ_uniform", show_number(m.gap_uniform), uniform),
    ]


def _rho_rows(m: Complexity) -> list[Row]:
    saving = ""
    if 0 < m.rho_sigma_upper < math.inf:
        saving = f"{m.rho_sigma_uniform / m.rho_sigma_upper:.3g} times the best design's"
    calls = f", found in {m.oracle_calls} oracle calls" if m.oracle_calls else ""
    return [
        ("ρ", show_bracket(m.rho_lower, m.rho_upper), _bracket_word(m.solution, m.notes.get("rho", ""))),
        ("ρ of uniform exploration", show_number(m.rho_uniform), m.notes.get("rho_uniform", "")),
        (
            "ρ_σ, weighted by noise",
            show_bracket(m.rho_sigma_lower, m.rho_sigma_upper),
            _bracket_word(m.sigma_solution, m.notes.get("rho_sigma", "")),
        ),
        ("ρ_σ of uniform exploration", show_number(m.rho_sigma_uniform), saving),
        ("support of the best design", f"{m.support:,}", f"policies{calls}"),
    ]


def _sample_rows(m: Complexity) -> list[Row]:
    note = m.notes.get
    lower, confidence, union = _yardsticks(m)
    rows = [
        lower,
        ("lower bound of the paper", m.lower_bound_paper, note("lower_bound_paper", "ρ log(1/2.4δ), unit noise")),
        confidence,
        union,
        ("the same, randomised trial", m.union_price_uniform, "2ρ_σ log(|Π|/δ), uniform exploration"),
        ("upper bound, main theorem", m.upper_bound, "order only: constant 1, as the paper states none"),
        ("minimax bound", m.minimax_bound, "order only: constant 1" if m.epsilon > 0 else "needs ε > 0"),
    ]
    if m.trivial_upper_bound is not None:
        rows.append(("trivial class, lower bound", m.trivial_lower_bound, note("trivial_lower_bound", "unit noise")))
        rows.append(("trivial class, upper bound", m.trivial_upper_bound, "order only: constant 1"))
        rows.append(("trivial class, worst instance", m.trivial_minimax_bound, "order only: constant 1"))
    if m.low_regret_bound is not None:
        rows.append(("any low-regret algorithm", m.low_regret_bound, "at least; regret √(log(m)·|A|·T)"))
    return [(label, show_samples(value), word) for label, value, word in rows]


def _yardsticks(m: Complexity) -> list[tuple[str, float | None, str]]:
    silent = "; no yardstick here, as rewards carry no noise" if m.rho_sigma_upper == 0 < m.rho_upper else ""
    return [
        ("lower bound", m.lower_bound, m.notes.get("lower_bound", _lower_formula(m))),
        (CONFIDENCE_LABEL, m.confidence_price, CONFIDENCE_FORMULA + (silent or "; a yardstick, not a bound")),
        (UNION_LABEL, m.union_price, f"{UNION_FORMULA}, best design" + (silent or "; a yardstick")),
    ]


def yardstick_table(measured: Complexity) -> Table:
    """Return the theoretical numbers of samples, to compare a run with."""
    rows = [(label, show_samples(value), word) for label, value, word in _yardsticks(measured)]
    return numbers_table("yardsticks", rows, widths=NARROW_WIDTHS)


def _disagreement_rows(m: Complexity) -> list[Row]:
    note = m.notes.get
    if m.disagreement_policy is None:
        return [("C_pol(ε), C_csc(ε)", "—", note("disagreement_policy", ""))]
    return [
        ("policy disagreement C_pol(ε)", show_number(m.disagreement_policy), ""),
        ("  its bound on ρ", show_number(m.disagreement_policy_bound), note("disagreement_policy_bound", "")),
        ("cost-sensitive C_csc(ε)", show_number(m.disagreement_cost_sensitive), ""),
        (
            "  its bound on ρ",
            show_number(m.disagreement_cost_sensitive_bound),
            note("disagreement_cost_sensitive_bound", ""),
        ),
    ]


def _lower_formula(m: Complexity) -> str:
    if m.law is Law.BERNOULLI:
        return "log(1/2.4δ)/D, D the divergence of coin flips to the nearest other answer"
    formula = CONFIDENCE_FORMULA if m.epsilon == 0 else "with (Δ + ε)² in ρ_σ, as one policy alone is ε-optimal"
    return f"{formula}; Gaussian noise of this size"


class HasOptions(Protocol):
    """An object with a name, a description and options."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def options(self) -> tuple[Option, ...]: ...


def problems_document(problems: Iterable[HasOptions]) -> Document:
    """Return the built-in problems and their options."""
    words = (
        "Write name:key=value,key=value, or the path of an .npz file with context_weights (N,), "
        "mean_rewards (N, A), policy_actions (K, N); optional noise_variance (N, A), action_features (N, A, d)."
    )
    return _listed(problems, words)


def classes_document(classes: Iterable[HasOptions]) -> Document:
    """Return the policy classes and their options."""
    return _listed(classes, "Write name:key=value,key=value. From Python any class with an argmax will do.")


def options_table(options: Iterable[Option]) -> Table:
    """Return options with their defaults, meanings and permitted values."""
    rows = ((Cell(f"  {one.name}={one.default}", "chosen"), one.meaning, Cell(one.permitted, "dim")) for one in options)
    return Table((), tuple(rows))


def _listed(things: Iterable[HasOptions], words: str) -> Document:
    blocks = (
        block
        for one in things
        for block in (Text(f"{one.name}  {one.description}", "strong"), options_table(one.options))
    )
    return Document("", (*blocks, Text(words)))


def numbers_table(title: str, rows: Iterable[Row], *, widths: tuple[int, ...] = (28, 19)) -> Table:
    """Return rows of a label, a number and a remark, under a title."""
    cells = tuple((label, number, Cell(remark, "dim")) for label, number, remark in rows)
    return Table((), cells, title=title, sides=("left", "right", "left"), widths=widths)


def _bracket_word(solution: Solution, note: str) -> str:
    width = f"bracket to {solution.gap:.1%}" if solution.gap >= 1e-3 else f"bracket to {solution.gap:.0e}"
    return "; ".join(word for word in (width if 0 < solution.gap < math.inf else "", note) if word)


# Two runs side by side, and the theoretical numbers of samples.


YARDSTICKS = ("lower_bound", "confidence_price", "union_price")
# Ratios of samples closer to 1 than this are not mentioned.
_MIN_TOLD_RATIO = 1.05
# No gap exceeds this ε, so it certifies nothing.
EMPTY_EPSILON = 1.0


@dataclass(frozen=True, eq=False)
class Comparison:
    """A run, the run it is compared with if any, and the complexity of the problem.

    run: the run.
    against: the run it is compared with.
    measured: the complexity of the problem.
    unmeasured: why `measured` is None.
    compiled: whether the first run had kernels to compile.
    """

    run: Run
    against: Run | None = None
    measured: Complexity | None = None
    unmeasured: str = ""
    compiled: bool = False

    @property
    def runs(self) -> tuple[Run, ...]:
        """Return the run, and the one it is compared with."""
        return (self.run,) if self.against is None else (self.run, self.against)

    @property
    def times_fewer(self) -> float | None:
        """Return the factor by which the run took fewer samples; None unless both runs stopped by themselves."""
        rival = self.against
        if rival is None or min(self.run.samples, rival.samples) == 0:
            return None
        return rival.samples / self.run.samples if self.run.stopped == rival.stopped == "done" else None

    def to_json(self) -> dict[str, Any]:
        """Serialise both runs, their ratio, and the yardsticks, with the reason for each that is missing."""
        if self.measured is None:
            yardsticks: dict[str, Any] = {
                **dict.fromkeys(YARDSTICKS),
                "notes": dict.fromkeys(YARDSTICKS, self.unmeasured),
            }
        else:
            whole = self.measured.to_json()
            notes = {name: self.measured.notes[name] for name in YARDSTICKS if name in self.measured.notes}
            yardsticks = {name: whole[name] for name in YARDSTICKS} | {"notes": notes}
        return {
            "run": self.run.to_json(),
            "against": None if self.against is None else self.against.to_json(),
            "times_fewer": self.times_fewer,
            "yardsticks": yardsticks,
        }


def comparison_document(comparison: Comparison) -> Document:
    """Return both runs side by side, followed by the yardsticks."""
    blocks: list[Block] = []
    if comparison.against is not None:
        blocks += _side_by_side(comparison, comparison.against)
    if comparison.measured is not None:
        blocks.append(yardstick_table(comparison.measured))
    elif comparison.unmeasured:
        blocks.append(Text(f"no yardsticks: {comparison.unmeasured}", "dim"))
    return Document("", tuple(blocks))


def _side_by_side(comparison: Comparison, rival: Run) -> Iterable[Block]:
    one = comparison.run
    compiling = f"{one.algorithm}'s include compiling, once" if comparison.compiled else ""
    rows: tuple[tuple[str | Cell, ...], ...] = (
        ("samples", f"{one.samples:,}", f"{rival.samples:,}", Cell(times_words(comparison), "chosen")),
        ("rounds", f"{one.rounds:,}", f"{rival.rounds:,}"),
        ("certified ε", _certified(one), _certified(rival)),
        ("truly below the best by", _two_digits(one.value_gap), _two_digits(rival.value_gap)),
        ("right", *(Cell("yes") if run.correct else Cell("no", "warning") for run in (one, rival))),
        ("seconds", f"{one.seconds:.1f}", f"{rival.seconds:.1f}", Cell(compiling, "dim")),
    )
    title, head = f"{one.algorithm} against {rival.algorithm}", ("", one.algorithm, rival.algorithm, "")
    sides = ("left", "right", "right", "left")
    yield Table(head, rows, title=title, sides=sides, widths=(NARROW_WIDTHS[0], NARROW_WIDTHS[1], NARROW_WIDTHS[1]))
    for run in (one, rival):
        if run.reason:
            yield Note("warning", f"{run.algorithm} stopped early ({run.stopped}): {run.reason}")


def times_words(comparison: Comparison) -> str:
    """Return the ratio of samples in words, from the run's point of view; "" if there is no ratio."""
    ratio = comparison.times_fewer
    if ratio is None:
        return ""
    if abs(math.log(ratio)) < math.log(_MIN_TOLD_RATIO):
        played = {run.algorithm for run in comparison.runs}
        alike = "as many: no design was worth it" if played == {"coda", "uniform"} else "as many"
        return alike if ratio == 1 else "about as many"
    return f"{_two_digits(ratio)} times fewer" if ratio > 1 else f"{_two_digits(1 / ratio)} times more"


def _two_digits(value: float) -> str:
    return show_number(value, digits=2)


def _certified(run: Run) -> str:
    made = run.certificate
    return (
        "—" if made is None or made.certified_epsilon >= EMPTY_EPSILON else f"{rounded_up(made.certified_epsilon):.3g}"
    )


# The documents that `run` and `algorithms` print.


def run_document(run: Run) -> Document:
    """Return one run: its rounds, its policy, its guarantee, and whether that held."""
    head = f"{_asked(run)}, δ = {run.delta:g}, seed {run.seed}\n"
    blocks: list[Block] = [Text(head)]
    if run.history:
        shown = [key for key in run.history[-1] if key != "policy"]
        names = tuple(key.replace("_", " ").replace("epsilon", "ε") for key in shown)
        rows = tuple(tuple(_figure(figures.get(key)) for key in shown) for figures in run.history)
        blocks.append(Table(names, rows, title="rounds", sides=("right",)))
    calls = f", {run.oracle_calls:,} oracle calls" if run.oracle_calls else ""
    begun = f", {run.pilot_samples:,} of them of the pilot and {run.new_samples:,} new" if run.pilot_samples else ""
    truth = f"{show_number(run.value_gap)} below the best of the class"
    if run.true_gain is not None:
        truth = f"{run.true_gain:+.3g} over action {run.improve_on}, {truth}"
    truth = f"{truth}: {'right' if run.correct else 'wrong'}"
    facts = (
        ("samples", f"{run.samples:,} in {count_of(run.rounds, 'round')}{begun}{calls}"),
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
    """Return how often several runs were right, and their numbers of samples."""
    first, samples = runs[0], [run.samples for run in runs]
    done = [run for run in runs if run.stopped == "done"]
    allowed = f" (δ allows {first.delta:g} of them)" if done else ""
    facts = (
        ("runs that ended by themselves", f"{len(done)} of {asked}"),
        (
            f"of those, wrong{' by more than ε' if first.improve_on is None else ''}",
            f"{sum(not run.correct for run in done)}{allowed}",
        ),
        ("samples, median", show_samples(float(np.median([float(n) for n in samples])))),
        ("samples, least and most", f"{min(samples):,} … {max(samples):,}"),
        ("largest distance to the best", show_number(max(run.value_gap for run in runs))),
        ("seconds a run, median", f"{np.median([run.seconds for run in runs]):.2f}"),
        ("promise", first.guarantee),
    )
    if gains := [run.true_gain for run in runs if run.true_gain is not None]:
        facts = (*facts[:-1], (f"least true gain over action {first.improve_on}", f"{min(gains):+.3g}"), facts[-1])
    head = f"{_asked(first)}, δ = {first.delta:g}, seeds {first.seed} to {runs[-1].seed}\n"
    reasons = [run.reason for run in runs if run.reason]
    blocks = (
        Text(head),
        Table((), facts, widths=(LABEL_WIDTH,)),
        *(Note("warning", f"stopped early: {words}") for words in reasons[:1]),
    )
    return Document(f"{first.algorithm} on {show_name(first.problem)}", blocks)


def _asked(run: Run) -> str:
    """Return what a run stops by: ε, or a gain over an action."""
    if run.improve_on is None:
        return f"ε = {run.epsilon:g}"
    least = f" of at least {run.gain:g}" if run.gain else ""
    return f"stops by a proven gain{least} over action {run.improve_on}"


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
    if value is None:  # no claim is made in the middle of a pilot
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return show_number(value) if isinstance(value, float) else str(value)

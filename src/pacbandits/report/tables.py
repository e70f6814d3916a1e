"""What `complexity`, `problems` and `policies` print."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from pacbandits.complexity import Complexity, Law
from pacbandits.design import Solution
from pacbandits.options import Option
from pacbandits.problems import Problem
from pacbandits.report.document import Block, Cell, Code, Document, Note, Section, Table, Text
from pacbandits.report.numbers import show_bracket, show_name, show_number, show_samples

Row = tuple[str, str, str]
# Widths of the columns of labels and of numbers, where numbers are short.
NARROW_WIDTHS = (25, 9)
CONFIDENCE_LABEL = "price of confidence alone"
CONFIDENCE_FORMULA = "2ρ_σ log(1/2.4δ)"
UNION_LABEL = "price with a union bound"
UNION_FORMULA = "2ρ_σ log(|Π|/δ)"


def complexity_document(problem: Problem, measured: Complexity) -> Document:
    """Return what a problem costs: the instance, its complexity and its bounds, each number with a remark."""
    m = measured
    blocks: list[Block] = [
        Text(f"{problem.description}\nε = {m.epsilon:g}, δ = {m.delta:g}\n"),
        numbers_table("the instance", _instance_rows(m)),
        numbers_table("complexity", _rho_rows(m)),
        numbers_table("samples", _sample_rows(m)),
        numbers_table("disagreement", _disagreement_rows(m)),
        Section("best policy", (Code(m.gaps.best.describe()),)),
        *closing(seconds=m.seconds, converged=m.converged),
    ]
    return Document(show_name(problem.name), tuple(blocks))


def closing(*, seconds: float, converged: bool) -> Iterable[Block]:
    """Yield the last lines: how long it took, and whether the requested precision was reached."""
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
    """Return the samples that theory asks for, to compare a run with."""
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
    """Whatever has a name, a description and options."""

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

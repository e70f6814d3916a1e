"""Tables for people."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pacbandits.complexity import Complexity, Law
from pacbandits.design import Solution
from pacbandits.errors import one_line, visible_lines
from pacbandits.options import Option
from pacbandits.problems import Problem
from pacbandits.report.numbers import show_bracket, show_name, show_number, show_samples

Row = tuple[str, str, str]
# Widths of the columns of labels and of numbers, where numbers are short.
NARROW_WIDTHS = (25, 9)
CONFIDENCE_LABEL = "price of confidence alone"
CONFIDENCE_FORMULA = "2ρ_σ log(1/2.4δ)"
UNION_LABEL = "price with a union bound"
UNION_FORMULA = "2ρ_σ log(|Π|/δ)"


def complexity_table(problem: Problem, measured: Complexity) -> RenderableType:
    """What a problem costs: the instance, its complexity, its bounds, each number with a word on what it is."""
    m = measured
    head = Text.assemble(
        (show_name(problem.name), "bold"), f"\n{one_line(problem.description)}\nε = {m.epsilon:g}, δ = {m.delta:g}\n"
    )
    parts: list[RenderableType] = [
        head,
        section("the instance", _instance_rows(m)),
        section("complexity", _rho_rows(m)),
        section("samples", _sample_rows(m)),
        section("disagreement", _disagreement_rows(m)),
        Text.assemble(
            ("best policy\n", "bold cyan"), visible_lines(m.gaps.best.describe()), (f"\n\n{m.seconds:.1f} s", "dim")
        ),
    ]
    if not m.converged:
        parts.append(Text("the requested precision was not reached: read the brackets", style="yellow"))
    return Group(*parts)


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
    """The samples that theory asks for, to hold a run against."""
    rows = [(label, show_samples(value), word) for label, value, word in _yardsticks(measured)]
    return section("yardsticks", rows, widths=NARROW_WIDTHS)


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


def problems_table(problems: Iterable[HasOptions]) -> RenderableType:
    """The built-in problems and their options."""
    words = (
        "Write name:key=value,key=value, or the path of an .npz file with context_weights (N,), "
        "mean_rewards (N, A), policy_actions (K, N); optional noise_variance (N, A), action_features (N, A, d)."
    )
    return _listed(problems, words)


def classes_table(classes: Iterable[HasOptions]) -> RenderableType:
    """The policy classes and their options."""
    return _listed(classes, "Write name:key=value,key=value. From Python any class with an argmax will do.")


def options_table(options: Iterable[Option]) -> Table:
    """Options with their defaults, meanings and permitted values."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    table.add_column(style="dim")
    for option in options:
        table.add_row(f"  {option.name}={option.default}", option.meaning, option.permitted)
    return table


def _listed(things: Iterable[HasOptions], words: str) -> RenderableType:
    parts: list[RenderableType] = []
    for thing in things:
        parts += [Text.assemble((thing.name, "bold"), f"  {thing.description}"), options_table(thing.options), Text()]
    return Group(*parts, Text(words))


def section(title: str, rows: list[Row], *, widths: tuple[int, int] = (28, 19)) -> Table:
    """Rows of a label, a figure and a word on it, under a title."""
    table = Table(
        box=None,
        title=title,
        title_justify="left",
        title_style="bold cyan",
        show_header=False,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    table.add_column(width=widths[0])
    table.add_column(justify="right", width=widths[1], no_wrap=True)
    table.add_column(style="dim")
    for row in rows:
        table.add_row(*row)
    return table


def _bracket_word(solution: Solution, note: str) -> str:
    width = f"bracket to {solution.gap:.1%}" if solution.gap >= 1e-3 else f"bracket to {solution.gap:.0e}"
    return "; ".join(word for word in (width if 0 < solution.gap < math.inf else "", note) if word)

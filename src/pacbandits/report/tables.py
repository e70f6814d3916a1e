"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pacbandits.complexity import Complexity
from pacbandits.problems import Problem
from pacbandits.problems.built_in import BuiltIn
from pacbandits.report.numbers import show_bracket, show_number, show_samples

Row = tuple[str, str, str]


def complexity_table(problem: Problem, measured: Complexity) -> RenderableType:
    """What a problem costs: the instance, its complexity, its bounds, each number with a word on what it is."""
    m = measured
    saving = m.rho_sigma_uniform / m.rho_sigma_upper if 0 < m.rho_sigma_upper < float("inf") else None
    instance: list[Row] = [
        ("policies", show_number(m.n_policies), f"log|Π| = {m.log_size:.4g}"),
        ("contexts × actions", f"{m.n_contexts:,} × {m.n_actions}", ""),
        ("best value V(π*)", show_number(m.best_value), ""),
        ("least policy gap Δ_pol", show_number(m.min_gap), m.notes.get("min_gap", "")),
        ("Δ_ε = max(ε, Δ_pol)", show_number(m.gap_epsilon), ""),
        ("Δ_uniform", show_number(m.gap_uniform), "least loss of one wrong action; negative: π* is not perfect"),
    ]
    rho: list[Row] = [
        ("ρ", show_bracket(m.rho_lower, m.rho_upper), m.notes.get("rho", _gap(m.solution.gap))),
        ("ρ of uniform exploration", show_number(m.rho_uniform), ""),
        ("ρ_σ, weighted by noise", show_bracket(m.rho_sigma_lower, m.rho_sigma_upper), _sigma_word(m)),
        ("ρ_σ of uniform exploration", show_number(m.rho_sigma_uniform), _saving(saving)),
        ("policies in the design's support", show_number(m.support), f"{m.oracle_calls} oracle calls"),
    ]
    samples: list[Row] = [
        (
            "lower bound",
            show_samples(m.lower_bound),
            m.notes.get("lower_bound", "2ρ_σ log(1/2.4δ), Gaussian noise of this size"),
        ),
        (
            "lower bound, as in the paper",
            show_samples(m.lower_bound_paper),
            m.notes.get("lower_bound_paper", "ρ log(1/2.4δ), unit noise"),
        ),
        ("price of a union bound", show_samples(m.union_price), "2ρ_σ log(|Π|/δ), best design; a yardstick"),
        ("the same, randomised trial", show_samples(m.union_price_uniform), "2ρ_σ log(|Π|/δ), uniform exploration"),
        ("upper bound of the main theorem", show_samples(m.upper_bound), "with constant 1; the paper states none"),
        ("minimax bound", show_samples(m.minimax_bound), "with constant 1" if m.epsilon > 0 else "needs ε > 0"),
    ]
    for name, label in (
        ("trivial_lower_bound", "trivial class, lower bound"),
        ("trivial_upper_bound", "trivial class, upper bound"),
        ("low_regret_bound", "for any low-regret algorithm"),
    ):
        value: float | None = getattr(m, name)
        if value is not None:
            samples.append((label, show_samples(value), "with constant 1" if "upper" in name else ""))
    regions: list[Row] = [
        ("policy disagreement C_pol(ε)", show_number(m.disagreement_policy), m.notes.get("disagreement_policy", "")),
        (
            "  and its bound on ρ",
            show_number(m.disagreement_policy_bound),
            m.notes.get("disagreement_policy_bound", ""),
        ),
        (
            "cost-sensitive C_csc(ε)",
            show_number(m.disagreement_cost_sensitive),
            m.notes.get("disagreement_cost_sensitive", ""),
        ),
        (
            "  and its bound on ρ",
            show_number(m.disagreement_cost_sensitive_bound),
            m.notes.get("disagreement_cost_sensitive_bound", ""),
        ),
    ]
    head = Text.assemble((problem.name, "bold"), f"\n{problem.description}\nε = {m.epsilon:g}, δ = {m.delta:g}")
    parts: list[RenderableType] = [head]
    for title, rows in (
        ("the instance", instance),
        ("complexity", rho),
        ("samples", samples),
        ("disagreement", regions),
    ):
        parts.append(_section(title, rows))
    parts.append(Text.assemble(("best policy\n", "bold"), measured.gaps.best.describe()))
    if not m.converged:
        parts.append(Text("the requested precision was not reached: read the brackets", style="yellow"))
    return Group(*parts)


def problems_table(problems: Iterable[BuiltIn[...]]) -> RenderableType:
    """The built-in problems and their options."""
    parts: list[RenderableType] = []
    for problem in problems:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column()
        for option in problem.options:
            table.add_row(f"  {option.name}={option.default}", option.permitted, option.meaning)
        parts += [Text.assemble((problem.name, "bold"), f"  {problem.description}"), table, Text()]
    parts.append(
        Text(
            "write name:key=value,key=value, or the path of an .npz file with context_weights (N,), "
            "mean_rewards (N, A), policy_actions (K, N) and optionally noise_variance (N, A)"
        )
    )
    return Group(*parts)


def _section(title: str, rows: list[Row]) -> Table:
    table = Table(
        box=None, title=title, title_justify="left", title_style="bold cyan", show_header=False, pad_edge=False
    )
    table.add_column(min_width=34)
    table.add_column(justify="right", min_width=22, no_wrap=True)
    table.add_column(style="dim")
    for row in rows:
        table.add_row(*row)
    return table


def _gap(gap: float) -> str:
    return f"bracket to {gap:.1e}" if 0 < gap < float("inf") else ""


def _sigma_word(m: Complexity) -> str:
    return m.notes.get("rho_sigma", _gap(m.sigma_solution.gap))


def _saving(saving: float | None) -> str:
    return "" if saving is None else f"{saving:.3g} times the best design's"

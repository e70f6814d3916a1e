"""The document and the figure of `complexity --realizable`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.design.weights import relative_gap
from pacbandits.problems import Problem
from pacbandits.realizable.complexity import RealizableComplexity
from pacbandits.report.document import Document, Text
from pacbandits.report.figures import BEST_COLOUR, GREY, UNIFORM_COLOUR, draw_bars, new_figure, save_figure
from pacbandits.report.numbers import show_bracket, show_in_figure, show_name, show_number, show_samples
from pacbandits.report.run_report import Row, closing, numbers_table

_LABEL_WIDTH, _NUMBER_WIDTH = 30, 25  # numbers may be large at ε = 0
_CLASS_WORDS = {
    "listed": "listed policies",
    "linear": "all linear policies, argmax_a ⟨φ(c, a), θ⟩",
    "all": "all maps from contexts to actions",
}
_MAX_DRAWN_CONTEXTS = 400


def realizable_document(problem: Problem, measured: RealizableComplexity) -> Document:
    """Return the sample complexity of a problem with linear rewards: the instance, ρ_lin, and numbers of samples."""
    m = measured
    head = f"{problem.description}\nrealizable: rewards are known to be linear in the features\n"
    tables = (("the instance", _instance_rows(m)), ("complexity", _rho_rows(m)), ("samples", _sample_rows(m)))
    blocks = (
        Text(f"{head}ε = {m.epsilon:g}, δ = {m.delta:g}\n"),
        *(numbers_table(title, rows, widths=(_LABEL_WIDTH, _NUMBER_WIDTH)) for title, rows in tables),
        Text(_comparison(m)),
        *closing(seconds=m.seconds, converged=m.converged),
    )
    return Document(show_name(problem.name), blocks)


def draw_realizable(problem: Problem, measured: RealizableComplexity, *, path: Path) -> None:
    """Draw two panels: samples needed, and the propensities of the best design."""
    figure = new_figure(11.5, 5.2)
    axes = figure.subplots(1, 2)
    _draw_samples(axes[0], measured)
    _draw_design(figure, axes[1], problem, measured)
    rho = show_bracket(measured.rho_lower, measured.rho_upper)
    figure.suptitle(
        f"{show_in_figure(problem.name)}\nε = {measured.epsilon:g}, δ = {measured.delta:g}, ρ_lin = {rho}", fontsize=11
    )
    save_figure(figure, path)


def _instance_rows(m: RealizableComplexity) -> list[Row]:
    size = "—" if m.n_policies is None else show_number(m.n_policies)
    bound = "" if m.n_policies is not None else " at the most"
    return [
        ("policies", size, f"{_CLASS_WORDS[m.policies]}; log|Π| = {m.log_size:.4g}{bound}"),
        ("contexts × actions", f"{m.n_contexts:,} × {m.n_actions}", ""),
        ("dimension of the features", f"{m.dimension}", m.notes.get("rank", "")),
        ("best value V(π*)", show_number(m.best_value), ""),
        ("log of a cover", show_number(m.log_cover), "r log(1 + 2/ε): directions, to a share ε"),
    ]


def _rho_rows(m: RealizableComplexity) -> list[Row]:
    saving = ""
    if 0 < m.rho_sigma_upper < math.inf:
        saving = f"{m.rho_sigma_uniform / m.rho_sigma_upper:.3g} times the best design's"
    rows = [
        ("ρ_lin", show_bracket(m.rho_lower, m.rho_upper), _describe_bracket(m, m.rho_lower, m.rho_upper, "rho")),
        ("ρ_lin of uniform exploration", show_number(m.rho_uniform), ""),
        (
            "ρ_lin,σ, weighted by noise",
            show_bracket(m.rho_sigma_lower, m.rho_sigma_upper),
            _describe_bracket(m, m.rho_sigma_lower, m.rho_sigma_upper, "rho_sigma"),
        ),
        ("ρ_lin,σ of uniform exploration", show_number(m.rho_sigma_uniform), saving),
        ("never more than", show_number(m.rho_minimax), "4r/ε², for ρ_lin"),
    ]
    if not m.exact:
        rows.insert(1, ("  proven not to exceed", show_number(m.rho_proven), "a theorem, over all policies"))
        rows.insert(4, ("  proven not to exceed", show_number(m.rho_sigma_proven), "a theorem, over all policies"))
    return rows


def _sample_rows(m: RealizableComplexity) -> list[Row]:
    formula = "2ρ_lin,σ log(1/2.4δ); Gaussian noise of this size"
    union = "2ρ_lin,σ (min(log cover, log|Π|) + log(1/δ))"
    rows = [
        ("lower bound", m.lower_bound, m.notes.get("lower_bound", formula)),
        ("price of confidence alone", m.confidence_price, "2ρ_lin,σ log(1/2.4δ); a yardstick, not a bound"),
        ("price with a union bound", m.union_price, f"{union}, best design; a yardstick"),
        ("the same, randomised trial", m.union_price_uniform, "uniform exploration"),
        ("minimax bound", m.minimax_bound, "order only: constant 1" if m.epsilon > 0 else "needs ε > 0"),
    ]
    return [(label, show_samples(value), word) for label, value, word in rows]


def _comparison(m: RealizableComplexity) -> str:
    """Return the last line: the saving of the best design."""
    if not 0 < m.union_price < math.inf:
        return (
            "\nThe best design saves nothing that could be counted." if m.union_price else "\nThere is nothing to pay."
        )
    ratio = m.union_price_uniform / m.union_price
    return (
        f"\nWith a union bound the best design pays {show_samples(m.union_price)} samples and uniform exploration "
        f"{show_samples(m.union_price_uniform)}: {ratio:.3g} times as many."
    )


def _describe_bracket(m: RealizableComplexity, lower: float, upper: float, name: str) -> str:
    gap = relative_gap(lower, upper)
    width = f"bracket to {gap:.1%}" if gap >= 1e-3 else f"bracket to {gap:.0e}"
    if not 0 < gap < math.inf:
        width = ""
    elif not m.exact:
        width += "; its upper end was searched for"
    return "; ".join(word for word in (width, m.notes.get(name, "")) if word)


def _draw_samples(axis: Any, m: RealizableComplexity) -> None:
    bars = [
        ("lower bound", m.lower_bound, GREY),
        ("price of\nconfidence alone", m.confidence_price, BEST_COLOUR),
        ("best design,\nunion bound", m.union_price, BEST_COLOUR),
        ("randomised trial,\nunion bound", m.union_price_uniform, UNIFORM_COLOUR),
        ("minimax,\nconstant 1", m.minimax_bound, GREY),
    ]
    draw_bars(axis, bars)


def _draw_design(figure: Any, axis: Any, problem: Problem, m: RealizableComplexity) -> None:
    order = np.lexsort((-m.propensities.max(axis=1), m.best_actions))
    order = order[problem.population.weights[order] > 0]
    rows = order[np.linspace(0, len(order) - 1, min(len(order), _MAX_DRAWN_CONTEXTS)).astype(int)]
    image = axis.imshow(m.propensities[rows], aspect="auto", cmap="viridis", vmin=0, interpolation="nearest")
    axis.set_title("best design for ρ_lin: p(action | context)")
    axis.set_xlabel("action")
    axis.set_ylabel("contexts, grouped by the best policy's action")
    if m.n_actions <= 20:
        axis.set_xticks(range(m.n_actions))
    axis.set_yticks([])
    figure.colorbar(image, ax=axis, shrink=0.85)

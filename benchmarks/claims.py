"""The paper's claims in data: a small table for each, and a picture.

python -m benchmarks.claims                  all tables
python -m benchmarks.claims disagreement     ρ beside what disagreement coefficients say of it
python -m benchmarks.claims agnostic         ρ and ρ_lin on the same problems as actions grow
python -m benchmarks.claims minimax          ρ beside 2|A|/ε², which it never exceeds
python -m benchmarks.claims lower            the lower bound beside what algorithms take
python -m benchmarks.claims mixtures         the best design beside the best mixture of policies
python -m benchmarks.claims argmax           ρ beside ρ′, which designs through an argmax alone attain
python -m benchmarks.claims picture          writes docs/figures/disagreement.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import pacbandits as pb
from benchmarks.constants import Linear
from benchmarks.measuring import print_table
from pacbandits.arrays import FloatArray
from pacbandits.complexity import measure_gaps
from pacbandits.complexity.gaps import table_gaps
from pacbandits.design import DesignTask, solve_design
from pacbandits.realizable.complexity import measure_realizable
from pacbandits.report.figures import BEST_COLOUR, GREY, UNIFORM_COLOUR, new_figure, save_figure

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "disagreement.png"
POLICY_COLOUR = "#6a4c93"
DELTA = 0.05
LOOSE = (
    ("hard:m=50", (0.1, 0.04, 0.01, 0.001)),
    ("two-of-many:actions=6,policies=40", (0.1, 0.01, 0.001)),
    ("random", (0.1, 0.01, 0.001)),
    ("trivial:contexts=4,actions=3,gap=0.4,seed=2", (0.1, 0.01, 0.001)),
)
DIMENSIONS, ACTIONS, EPSILON = (4, 16), (2, 4, 8, 16, 32, 64), 0.05
WORST = ("hard:m=50", "random", "random:actions=8", "two-of-many", "trivial:contexts=4,actions=3,gap=0.4,seed=2")
# Noise of the kind that the bound is a theorem for, and ε below the gap of the second-best policy.
NOISY = (("hard:m=8", 0.1), ("hard:m=16", 0.05), ("random:noise=gaussian,policies=10,contexts=10", 0.02))
PLAYERS = ("rage", "rage-free")
MIXED = ("hard:m=10", "hard:m=50", "random:policies=40,contexts=30", "two-of-many:actions=6,policies=40")


def measured(spec: str, *, epsilon: float) -> pb.Complexity:
    """What a problem costs, with its own class."""
    problem = pb.load_problem(spec)
    return pb.measure(problem, problem.policies, epsilon=epsilon, delta=DELTA)


def number(value: float | None) -> str:
    """Whole, or to three digits; a dash where there is none."""
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def disagreement() -> None:
    rows: list[list[str]] = []
    for spec, levels in LOOSE:
        for epsilon in levels:
            found = measured(spec, epsilon=epsilon)
            bounds = found.disagreement_policy_bound, found.disagreement_cost_sensitive_bound
            least = min(bound for bound in bounds if bound is not None)
            cells = [number(found.rho_upper), *map(number, bounds), f"{least / found.rho_upper:,.1f}"]
            rows.append([f"`{spec}`", f"{epsilon:g}", *cells])
    head = ["problem", "ε", "ρ", "by C_pol", "by C_csc", "the smaller over ρ"]
    print_table("ρ, and what disagreement coefficients say of it", head, rows)


def agnostic() -> None:
    rows: list[list[str]] = []
    for n_actions in ACTIONS:
        row = [f"{n_actions}"]
        for dimension in DIMENSIONS:
            problem = pb.load_problem(f"linear:dimension={dimension},actions={n_actions},seed=1")
            assert problem.realizable is not None
            asked = {"epsilon": EPSILON, "delta": DELTA}
            plain = pb.measure(problem, problem.policies, **asked).rho_upper
            linear = measure_realizable(problem, problem.realizable.features, problem.policies, **asked).rho_upper
            row += [number(plain), number(linear), f"{plain / linear:.1f}"]
        rows.append(row)
    head = ["actions", *(words for d in DIMENSIONS for words in (f"d = {d}: ρ", "ρ_lin", "ratio"))]
    print_table(f"`linear:dimension=d,actions=…,seed=1` at ε = {EPSILON:g}", head, rows)


def minimax() -> None:
    rows: list[list[str]] = []
    for spec in WORST:
        for epsilon in (0.1, 0.01):
            found = measured(spec, epsilon=epsilon)
            most = 2 * found.n_actions / epsilon**2
            rows.append([f"`{spec}`", f"{epsilon:g}", number(found.rho_upper), number(most)])
            rows[-1].append(f"{most / found.rho_upper:,.1f}")
    print_table("ρ against its largest value", ["problem", "ε", "ρ", "2\\|A\\|/ε²", "ratio"], rows)


def lower() -> None:
    rows: list[list[str]] = []
    for spec, epsilon in NOISY:
        row = [f"`{spec}`", f"{epsilon:g}", number(measured(spec, epsilon=epsilon).lower_bound)]
        for algorithm in PLAYERS:
            problem = pb.load_problem(spec)
            row.append(f"{pb.run(problem, algorithm=algorithm, epsilon=epsilon, delta=DELTA, rng=0).samples:,}")
        rows.append(row)
    head = ["problem", "ε", "no algorithm takes fewer", *PLAYERS]
    print_table(f"Gaussian noise, δ = {DELTA:g}, one run each", head, rows)


def mixtures() -> None:
    rows: list[list[str]] = []
    for spec in MIXED:
        problem = pb.load_problem(spec)
        best, mixed = measured(spec, epsilon=0.0).rho_upper, best_mixture(problem)
        rows.append([f"`{spec}`", number(best), number(mixed), f"{mixed / best:.2f}"])
    print_table("the best design and the best mixture of policies, ε = 0", ["problem", "ρ", "mixtures", "ratio"], rows)


def argmax() -> None:
    rows: list[list[str]] = []
    for spec, levels in LOOSE:
        problem = pb.load_problem(spec)
        gaps = measure_gaps(problem, problem.policies)
        asked = {"reference": gaps.best, "gaps": gaps.scores}
        for epsilon in levels:
            task = DesignTask(problem.policies, problem.population, scale=Linear(epsilon), **asked)
            best, linear = measured(spec, epsilon=epsilon).rho_upper, solve_design(task).upper
            shown = number(float(f"{linear:.4g}"))  # the digits after these differ between processors
            rows.append([f"`{spec}`", f"{epsilon:g}", number(best), shown, f"{linear / best:,.1f}"])
    print_table("ρ, and the price V/(ε max(Δ, ε)) of an argmax alone", ["problem", "ε", "ρ", "ρ′", "ratio"], rows)


def best_mixture(problem: pb.Problem) -> float:
    """`min_λ max_π V_π(p)/Δ_π²` over p(a|c) = Σ_π λ_π 1{π(c) = a}, by a general convex solver."""
    import cvxpy as cp

    policies, contexts = problem.policies, problem.population
    gaps = measure_gaps(problem, policies)
    table = np.asarray(policies.actions(contexts))
    n_policies, n_contexts = table.shape
    each, best = np.arange(n_contexts), gaps.best_actions
    plays: FloatArray = np.zeros((n_contexts, policies.n_actions, n_policies))
    plays[each[:, None], table.T, np.arange(n_policies)] = 1.0
    played = plays.any(axis=2)
    loss, _ = table_gaps(table, contexts, gaps)
    worth = np.zeros((n_policies, n_contexts, policies.n_actions))
    for k, row in enumerate(table):
        differs = np.flatnonzero(row != best)
        worth[k, differs, row[differs]] = worth[k, differs, best[differs]] = contexts.weights[differs]
    rivals = np.flatnonzero((table != best).any(axis=1))
    costs = worth[rivals][:, played] / loss[rivals, None] ** 2
    share, unit = cp.Variable(n_policies, nonneg=True), costs.max()
    question = cp.Problem(cp.Minimize(cp.max((costs / unit) @ cp.inv_pos(plays[played] @ share))), [cp.sum(share) == 1])
    return float(question.solve(solver=cp.CLARABEL)) * unit


def picture() -> None:
    """ρ, the two bounds and 2|A|/ε² as ε falls."""
    levels = np.geomspace(0.3, 1e-4, 24)
    figure = new_figure(11, 4.4)
    axes: Any = figure.subplots(1, 2)
    for axis, (spec, _) in zip(axes, LOOSE[:2], strict=True):
        found = [measured(spec, epsilon=float(epsilon)) for epsilon in levels]
        curves = (
            ("2|A|/ε²", GREY, ":", [2 * one.n_actions / one.epsilon**2 for one in found]),
            ("by $C_{csc}$", UNIFORM_COLOUR, "-", [one.disagreement_cost_sensitive_bound for one in found]),
            ("by $C_{pol}$", POLICY_COLOUR, "--", [one.disagreement_policy_bound for one in found]),
            ("ρ", BEST_COLOUR, "-", [one.rho_upper for one in found]),
        )
        for label, colour, style, values in curves:
            axis.plot(levels, values, color=colour, linestyle=style, linewidth=1.8, label=label)
        axis.axvline(found[0].min_gap, color=GREY, linewidth=1)
        axis.annotate(
            "least gap",
            (found[0].min_gap, 0.03),
            xycoords=("data", "axes fraction"),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color="#5f5f5f",
        )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.invert_xaxis()
        axis.set_xlabel("ε")
        axis.set_title(spec, loc="left", fontsize=10)
    axes[0].set_ylabel("ρ, and upper bounds on it")
    axes[0].legend(frameon=False, loc="upper left")
    save_figure(figure, FIGURE)


PARTS = {
    "disagreement": disagreement,
    "agnostic": agnostic,
    "minimax": minimax,
    "lower": lower,
    "mixtures": mixtures,
    "argmax": argmax,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        (PARTS | {"picture": picture})[part]()

"""Designs: the enumerated solver against a general convex solver, and column generation over trees, as they grow.

python -m benchmarks.designs             everything
python -m benchmarks.designs convex      against cvxpy with Clarabel, both to 1 %, in one run
python -m benchmarks.designs growth      the enumerated solver alone
python -m benchmarks.designs columns     column generation over depth-2 trees, by frontier and by argmax alone
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks.measuring import in_subprocess, print_table
from pacbandits.complexity import measure_gaps
from pacbandits.design import (
    Clipped,
    DesignTask,
    price_by_argmax,
    price_by_frontier,
    solve_by_pricing,
    solve_enumerated,
)
from pacbandits.problems import Problem, load_problem

EPSILON = 0.05


def task_of(problem: Problem) -> DesignTask:
    """The design problem behind ρ."""
    gaps = measure_gaps(problem, problem.policies)
    return DesignTask(
        problem.policies,
        problem.population,
        reference=gaps.best,
        gaps=gaps.scores,
        scale=Clipped(gaps.floor(EPSILON)),
    )


def solve_listed(spec: str, tolerance: float) -> dict[str, float]:
    """Seconds and bracket of the enumerated solver on a built-in problem with a finite class."""
    task = task_of(load_problem(spec))
    warm_up()
    began = time.perf_counter()
    solution = solve_enumerated(task, tolerance=tolerance)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "lower": solution.lower, "upper": solution.upper, "iterations": solution.iterations}


def solve_convex(spec: str, target: float) -> dict[str, float]:
    """The same problem through cvxpy and Clarabel: one inv_pos a propensity, one row a policy.

    Its tolerances are the loosest at which its value comes within 1 % of `target`; only that solve is timed.
    """
    import cvxpy as cp
    import scipy.sparse as sp

    problem = load_problem(spec)
    gaps = measure_gaps(problem, problem.policies)
    table = problem.policies.table.astype(np.int64)
    n, a = problem.mean_rewards.shape
    weights, q = problem.population.weights, gaps.best_actions
    totals = np.array([gaps.scores[np.arange(n), row].sum() for row in table])
    urgency = 1.0 / np.maximum(totals, gaps.floor(EPSILON)) ** 2
    k, c = np.nonzero(table != q)
    data = np.concatenate([urgency[k] * weights[c]] * 2) / urgency.max()
    columns = np.concatenate([c * a + table[k, c], c * a + q[c]])
    matrix = sp.csr_matrix((data, (np.concatenate([k, k]), columns)), shape=(len(table), n * a))
    matrix = matrix[matrix.getnnz(axis=1) > 0]
    p, t = cp.Variable(n * a), cp.Variable()
    rows = sp.kron(sp.eye(n), np.ones((1, a)), format="csr")
    out = {}
    for level in (1e-2, 1e-3, 1e-4, 1e-6, 1e-8):
        convex = cp.Problem(cp.Minimize(t), [matrix @ cp.inv_pos(p) <= t, rows @ p == 1])
        began = time.perf_counter()
        convex.solve(solver=cp.CLARABEL, tol_gap_rel=level, tol_gap_abs=level, tol_feas=min(level, 1e-4))
        out = {
            "seconds": time.perf_counter() - began,
            "solver_seconds": float(convex.solver_stats.solve_time),
            "value": float(convex.value) * float(urgency.max()),
        }
        if abs(out["value"] / target - 1) <= 0.01:
            break
    return out


def solve_trees(n_contexts: int, how: str, tolerance: float, max_rounds: int) -> dict[str, object]:
    """Column generation over depth-2 trees on 10 features × 32 bins and 10 actions."""
    problem = load_problem(f"trees:actions=10,features=10,contexts={n_contexts},bins=32,seed=1")
    began = time.perf_counter()
    task = task_of(problem)
    compiled = time.perf_counter() - began
    pricing = (price_by_frontier if how == "frontier" else price_by_argmax)(problem.policies)
    warm_up()
    began = time.perf_counter()
    solution = solve_by_pricing(task, pricing=pricing, tolerance=tolerance, max_rounds=max_rounds)
    return {
        "seconds": time.perf_counter() - began,
        "first": compiled,
        "lower": solution.lower,
        "upper": solution.upper,
        "gap": solution.gap,
        "calls": solution.oracle_calls,
        "support": len(solution.design.support),
    }


def warm_up() -> None:
    """Compile what will be timed."""
    solve_enumerated(task_of(load_problem("random:policies=5,contexts=300,actions=3")), tolerance=0.1)


def compare_with_convex() -> None:
    rows = []
    for policies, contexts, actions in ((50, 20, 5), (100, 50, 5), (200, 100, 10), (500, 200, 10)):
        spec = f"random:policies={policies},contexts={contexts},actions={actions},seed=1"
        ours = in_subprocess(solve_listed, spec, 0.01)[0]
        tight = in_subprocess(solve_listed, spec, 1e-6)[0]
        theirs = in_subprocess(solve_convex, spec, tight["upper"])[0]
        rows.append(
            [
                f"{policies} × {contexts} × {actions}",
                f"{ours['seconds'] * 1e3:.1f} ms",
                f"{tight['seconds'] * 1e3:.1f} ms",
                f"{theirs['seconds']:.2f} s ({theirs['solver_seconds']:.2f} s)",
                f"{theirs['seconds'] / ours['seconds']:,.0f} ({theirs['solver_seconds'] / ours['seconds']:,.0f})",
                f"{tight['upper']:.5g}",
                f"{theirs['value']:.5g}",
            ]
        )
    print_table(
        "Against cvxpy + Clarabel (in brackets: the solver alone, without cvxpy's own work)",
        [
            "policies × contexts × actions",
            "ours, 1 %",
            "ours, 1e-6",
            "cvxpy + Clarabel, 1 %",
            "ratio",
            "ρ, ours",
            "ρ, theirs",
        ],
        rows,
    )


def grow() -> None:
    rows = []
    for policies, contexts, actions in (
        (500, 200, 10),
        (2000, 200, 10),
        (2000, 2000, 10),
        (2000, 2000, 20),
        (8000, 2000, 20),
        (2000, 8000, 20),
        (100_000, 500, 10),
    ):
        spec = f"random:policies={policies},contexts={contexts},actions={actions},seed=1"
        loose, memory = in_subprocess(solve_listed, spec, 0.01)
        tight, _ = in_subprocess(solve_listed, spec, 1e-6)
        rows.append(
            [
                f"{policies} × {contexts} × {actions}",
                f"{loose['seconds']:.3f} s",
                f"{loose['iterations']}",
                f"{tight['seconds']:.3f} s",
                f"{tight['iterations']}",
                f"{memory:.0f} MB",
            ]
        )
    print_table(
        "The enumerated solver as it grows",
        [
            "policies × contexts × actions",
            "to 1 %",
            "evaluations",
            "to 1e-6",
            "evaluations",
            "peak memory of the process",
        ],
        rows,
    )


def columns() -> None:
    rows = []
    for contexts in (1_000, 10_000, 100_000):
        for how, tolerance, rounds in (("frontier", 0.05, 200), ("argmax", 0.05, 40)):
            got, memory = in_subprocess(solve_trees, contexts, how, tolerance, rounds)
            rows.append(
                [
                    f"{contexts:,}",
                    how,
                    f"{got['lower']:.5g} … {got['upper']:.5g}",
                    f"{got['gap']:.1%}",
                    f"{got['seconds']:.1f} s",
                    f"{got['calls']}",
                    f"{got['support']}",
                    f"{memory:.0f} MB",
                ]
            )
    print_table(
        "Column generation over depth-2 trees, 10 features × 32 bins × 10 actions, asked for 5 %",
        ["contexts", "oracle", "bracket on ρ", "gap", "time", "oracle calls", "support", "peak memory"],
        rows,
    )


PARTS = {"convex": compare_with_convex, "growth": grow, "columns": columns}


def main() -> None:
    for name in sys.argv[1:] or list(PARTS):
        PARTS[name]()


if __name__ == "__main__":
    main()

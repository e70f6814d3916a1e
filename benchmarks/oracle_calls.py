"""Oracle calls of `coda-oracle:solver=fw-gd` against |A|, 1/ε, log|Π| and |C|, beside the bound on its steps.

python -m benchmarks.oracle_calls        prints a table, writes docs/figures/oracle-calls.png
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import power, print_table
from pacbandits.confidence import oracle_confidence, round_epsilon
from pacbandits.paper.frank_wolfe_oracle import max_steps
from pacbandits.problems import load_problem
from pacbandits.simulation import run

ALGORITHM, SMOOTHING = "coda-oracle:solver=fw-gd", 0.01
DELTA, EPSILON, SEED = 0.1, 0.05, 1
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "oracle-calls.png"
LISTS = {"policies": 300, "contexts": 30, "actions": 4}
TREES = {"competitive": 2, "features": 4, "bins": 8, "contexts": 300, "actions": 4}
# For each quantity, the options that change it, for lists and for trees.
CHANGES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "|A|": ([{"actions": a} for a in (2, 4, 8, 16, 32)], [{"actions": a} for a in (2, 4, 8, 16, 32)]),
    "1/ε": ([{"epsilon": e} for e in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)],) * 2,
    "log|Π|": (
        [{"policies": size} for size in (10, 100, 1_000, 10_000)],
        [{"features": d, "bins": b} for d, b in ((2, 2), (2, 4), (4, 8), (6, 16), (8, 32))],
    ),
    "|C|": (
        [{"contexts": c} for c in (10, 30, 100, 300, 1_000)],
        [{"contexts": c} for c in (30, 100, 300, 1_000, 3_000)],
    ),
}
NAMES = {"random": "lists", "trees": "trees of depth 2"}
COLOURS = {"random": "#1b6ca8", "trees": "#d1732e"}


@dataclass(frozen=True)
class Measured:
    """The calls of one run.

    at: the value of the quantity that was changed.
    steps: steps of Frank–Wolfe, over all rounds.
    limits: constrained argmaxes that the steps asked for, over all rounds.
    bound: the sum over rounds of the bound on steps.
    rounds: the number of rounds.
    """

    at: float
    steps: int
    limits: int
    bound: float
    rounds: int


def measure(kind: str, quantity: str, change: dict[str, Any]) -> Measured:
    """Run once, with these options changed."""
    options = {**(LISTS if kind == "random" else TREES), **change}
    epsilon = options.pop("epsilon", EPSILON)
    problem = load_problem(f"{kind}:{','.join(f'{key}={value}' for key, value in options.items())}")
    done = run(problem, algorithm=ALGORITHM, epsilon=epsilon, delta=DELTA, rng=SEED)
    log_size, n_actions = problem.policies.log_size, problem.policies.n_actions
    at = {"|A|": n_actions, "1/ε": 1 / epsilon, "log|Π|": log_size, "|C|": len(problem.population)}[quantity]
    bounds = [
        max_steps(
            epsilon=round_epsilon(number),
            confidence=oracle_confidence(DELTA, round_number=number, log_size=log_size),
            smoothing=SMOOTHING * round_epsilon(number) ** 2 / n_actions**4,
            n_actions=n_actions,
        )
        for number in range(1, done.rounds + 1)
    ]
    steps, limits = (sum(int(figures[key]) for figures in done.history) for key in ("steps", "limits"))
    return Measured(at, steps, limits, sum(bounds), done.rounds)


def main() -> None:
    found = {
        quantity: {
            kind: [measure(kind, quantity, one) for one in changes] for kind, changes in zip(NAMES, both, strict=True)
        }
        for quantity, both in CHANGES.items()
    }
    rows = [
        [
            quantity.replace("|", "\\|"),
            NAMES[kind],
            f"{one.at:,.4g}",
            str(one.rounds),
            f"{one.steps:,}",
            f"{one.limits:,}",
            power(one.bound),
        ]
        for quantity, kinds in found.items()
        for kind, runs in kinds.items()
        for one in runs
    ]
    title = f"`{ALGORITHM}` at δ = {DELTA:g}, ε = {EPSILON:g} unless it is what changes; sums over rounds"
    heads = ["changed", "class", "value", "rounds", "steps", "constrained argmaxes", "bound on steps"]
    print_table(title, heads, rows)
    draw(found)


def draw(found: dict[str, dict[str, list[Measured]]]) -> None:
    """One panel a quantity: steps and constrained argmaxes, logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure: Any
    axes: Any
    figure, axes = plt.subplots(1, len(found), figsize=(12.5, 3.8), layout="constrained", sharey=True)
    for axis, (quantity, kinds) in zip(axes, found.items(), strict=True):
        for kind, runs in kinds.items():
            at = [one.at for one in runs]
            colour, name = COLOURS[kind], NAMES[kind]
            axis.plot(at, [one.steps for one in runs], marker="o", ms=4, lw=1.6, color=colour, label=f"steps, {name}")
            limits = [one.limits for one in runs]
            axis.plot(at, limits, marker="s", ms=3, lw=1.2, ls="--", color=colour, label=f"argmaxes, {name}")
        if quantity != "log|Π|":
            axis.set_xscale("log")
        if quantity == "|A|":
            sizes = [int(one.at) for one in kinds["trees"]]
            axis.set_xticks(sizes, [str(size) for size in sizes])
            axis.minorticks_off()
        axis.set_yscale("log")
        axis.set_xlabel(quantity)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("in all rounds")
    axes[0].legend(fontsize=7, frameon=False)
    figure.savefig(FIGURE, dpi=150)
    print(f"written: docs/figures/{FIGURE.name}", file=sys.stderr)


if __name__ == "__main__":
    main()

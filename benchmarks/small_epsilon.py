"""Samples as ε falls to 0, where the best policy is unique: rounds end with one policy left.

python -m benchmarks.small_epsilon        prints a table, writes docs/figures/small-epsilon.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import print_table
from pacbandits.complexity import measure_gaps
from pacbandits.problems import load_problem
from pacbandits.simulation import Run, run

EPSILONS = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 0.0)
DELTA, SEED = 0.1, 1
LISTED = ("rage", "rage-free", "coda-paper:solver=fw-gd")
ORACLES = ("coda-oracle", "coda-oracle:solver=fw-gd", "coda-common-gamma")
PROBLEMS = (
    ("trivial:contexts=4,actions=3,gap=0.4,seed=2", (*LISTED, *ORACLES)),
    ("trees:actions=4,features=4,contexts=500,bins=8", ORACLES),
)
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "small-epsilon.png"
COLOURS = ("#8a8a8a", "#b9975b", "#5b8c5a", "#1b6ca8", "#7aa6cc", "#d1732e")


def runs_of(spec: str, algorithm: str) -> list[Run]:
    problem = load_problem(spec)
    return [run(problem, algorithm=algorithm, epsilon=e, delta=DELTA, rng=SEED) for e in EPSILONS]


def main() -> None:
    drawn: list[tuple[str, float, dict[str, list[Run]]]] = []
    for spec, algorithms in PROBLEMS:
        problem = load_problem(spec)
        least = measure_gaps(problem, problem.policies).minimum
        done = {algorithm: runs_of(spec, algorithm) for algorithm in algorithms}
        drawn.append((spec, float(least or np.nan), done))
        title = f"`{spec}`, samples at δ = {DELTA:g}, seed {SEED}" + (f"; Δ_min = {least:.3g}" if least else "")
        rows = [
            [f"`{algorithm}`", *(f"{one.samples:,}" for one in runs), str(runs[-1].rounds), str(runs[-1].oracle_calls)]
            for algorithm, runs in done.items()
        ]
        heads = [f"ε = {e:g}" for e in EPSILONS]
        print_table(title, ["algorithm", *heads, "rounds at 0", "oracle calls at 0"], rows)
        wrong = sum(not one.correct for runs in done.values() for one in runs)
        print(f"\n{wrong} of {sum(map(len, done.values()))} answers were wrong.")
    draw(drawn)


def draw(drawn: list[tuple[str, float, dict[str, list[Run]]]]) -> None:
    """One panel a problem, samples against 1/ε, all logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure: Any
    axes: Any
    figure, axes = plt.subplots(1, len(drawn), figsize=(10.5, 4.6), layout="constrained")
    colour = dict(zip((*LISTED, *ORACLES), COLOURS, strict=True))
    positive = [e for e in EPSILONS if e > 0]
    for axis, (spec, least, done) in zip(axes, drawn, strict=True):
        for algorithm, runs in done.items():
            sizes = [one.samples for one in runs[: len(positive)]]
            style = {"ls": "--"} if algorithm.endswith("fw-gd") else {}
            axis.plot(1 / np.array(positive), sizes, marker="o", ms=4, lw=1.6, color=colour[algorithm], **style)
            # Two that end within a tenth of each other would write over one another.
            lift = 5 if algorithm == "coda-paper:solver=fw-gd" else -11 if algorithm == "coda-common-gamma" else -3
            lift += {"coda-oracle": -5, "coda-oracle:solver=fw-gd": 5}.get(algorithm, 0)
            where = (1 / positive[-1], sizes[-1])
            label = algorithm.replace(":solver=", ", ")
            axis.annotate(label, where, xytext=(6, lift), textcoords="offset points", fontsize=8)
        if np.isfinite(least):
            axis.axvline(1 / least, color="#bbbbbb", lw=1, ls=":")
            axis.annotate(
                "1/Δ_min",
                (1 / least, 0.98),
                xycoords=("data", "axes fraction"),
                xytext=(3, 0),
                textcoords="offset points",
                va="top",
                fontsize=8,
                color="#777777",
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlim(right=3e6)
        axis.set_title(spec, fontsize=9)
        axis.set_xlabel("1/ε")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("samples")
    figure.savefig(FIGURE, dpi=150)
    print(f"written: docs/figures/{FIGURE.name}", file=sys.stderr)


if __name__ == "__main__":
    main()

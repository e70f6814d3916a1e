"""linear-rage against its yardstick, against agnostic coda as actions grow, and when rewards are not linear.

python -m benchmarks.realizable                      everything
python -m benchmarks.realizable yardstick [runs]     samples against what a union bound pays at the best design
python -m benchmarks.realizable misfit [runs]        rewards that are not linear
python -m benchmarks.realizable large                ten thousand contexts
python -m benchmarks.realizable actions [runs]       against coda as actions grow; writes docs/figures/realizable.png
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.policies.finite import Trivial
from pacbandits.realizable.complexity import measure_realizable
from pacbandits.report.figures import BEST_COLOUR, UNIFORM_COLOUR, new_figure, save_figure

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "realizable.png"
EPSILON, DELTA = 0.05, 0.05
PROBLEMS = (
    "linear:dimension=3,actions=8,seed=1",
    "linear:dimension=5,actions=10,seed=1",
    "linear:dimension=10,actions=20,seed=1",
)
ACTIONS, DIMENSIONS = (2, 4, 8, 16, 32, 64), (4, 8, 16)
MISFIT_PROBLEM = "linear:dimension=3,actions=10,contexts=60,policies=80,spread=3,misfit={},seed=2"
LARGE_PROBLEM = "linear:dimension=10,actions=20,contexts=10000,seed=1"


def classes(problem: pb.Problem) -> dict[str, Any]:
    """The problem's own list, and all policies."""
    return {"list": problem.policies, "all policies": Trivial(len(problem.population), problem.n_actions)}


def play(spec: str, algorithm: str, *, runs: int, policies: Any = None) -> list[pb.Run]:
    problem = pb.load_problem(spec)
    return [
        pb.run(problem, policies, algorithm=algorithm, epsilon=EPSILON, delta=DELTA, rng=seed) for seed in range(runs)
    ]


def median(runs: list[pb.Run]) -> float:
    return statistics.median(run.samples for run in runs)


def against_yardstick(runs: int) -> None:
    rows: list[list[str]] = []
    for spec in PROBLEMS:
        problem = pb.load_problem(spec)
        assert problem.realizable is not None
        for name, policies in classes(problem).items():
            measured = measure_realizable(
                problem,
                problem.realizable.features,
                policies if name == "list" else None,
                epsilon=EPSILON,
                delta=DELTA,
            )
            done = play(spec, "linear-rage", runs=runs, policies=policies)
            samples, yardstick = median(done), measured.union_price
            wrong = sum(not run.correct for run in done)
            rho = f"{measured.rho_sigma_lower:.3g} … {measured.rho_sigma_upper:.3g}"
            rows.append([f"`{spec}`", name, rho, f"{yardstick:,.0f}", f"{samples:,.0f}"])
            rows[-1] += [f"{samples / yardstick:.2f}", f"{wrong} of {runs}"]
    head = ["problem", "over", "ρ_lin,σ", "yardstick", "samples", "ratio", "wrong"]
    print_table(f"linear-rage, ε = δ = {EPSILON}, medians of {runs} runs", head, rows)


def by_actions(runs: int) -> None:
    found: dict[int, dict[str, list[float]]] = {}
    rows: list[list[str]] = []
    for dimension in DIMENSIONS:
        found[dimension] = {"coda": [], "linear-rage": []}
        for actions in ACTIONS:
            spec = f"linear:dimension={dimension},actions={actions},seed=1"
            for algorithm, samples in found[dimension].items():
                samples.append(median(play(spec, algorithm, runs=runs)))
            one, two = (found[dimension][name][-1] for name in ("coda", "linear-rage"))
            rows.append([str(dimension), str(actions), f"{one:,.0f}", f"{two:,.0f}", f"{one / two:.1f}"])
            print(f"# d = {dimension}, {actions} actions: {one / two:.1f}", file=sys.stderr, flush=True)
    head = ["d", "actions", "coda (agnostic)", "linear-rage (realizable)", "times fewer"]
    print_table(f"`linear`, 200 policies, ε = δ = {EPSILON}, medians of {runs} runs", head, rows)
    draw(found)


def when_not_linear(runs: int) -> None:
    rows: list[list[str]] = []
    for misfit in (0.0, 0.5, 0.9):
        row = [f"{misfit:g}"]
        for algorithm in ("linear-rage", "coda"):
            done = play(MISFIT_PROBLEM.format(misfit), algorithm, runs=runs)
            wrong = sum(not run.correct for run in done)
            far = max(run.value_gap for run in done)
            words = f"{wrong} of {runs}"
            row += [f"{median(done):,.0f}", f"**{words}**" if wrong > DELTA * runs else words, f"{far:.3f}"]
        rows.append(row)
    head = ["misfit", "linear-rage, samples", "wrong", "farthest", "coda, samples", "wrong", "farthest"]
    print_table(f"`{MISFIT_PROBLEM.format('…')}`, all certified at ε = {EPSILON}, δ = {DELTA}", head, rows)


def large(_: int) -> None:
    problem = pb.load_problem(LARGE_PROBLEM)
    rows: list[list[str]] = []
    for name, policies in classes(problem).items():
        began = time.perf_counter()
        done = pb.run(problem, policies, algorithm="linear-rage", epsilon=EPSILON, delta=DELTA, rng=0)
        rows.append([name, f"{done.samples:,}", str(done.rounds), f"{time.perf_counter() - began:.1f} s"])
    print_table(f"`{LARGE_PROBLEM}`", ["over", "samples", "rounds", "time"], rows)


def draw(found: dict[int, dict[str, list[float]]]) -> None:
    figure = new_figure(13, 4.6)
    axes: Any = figure.subplots(1, len(found), sharey=True)
    for axis, (dimension, samples) in zip(axes, found.items(), strict=True):
        axis.set_xscale("log")
        axis.set_yscale("log")
        for (name, values), colour in zip(samples.items(), (UNIFORM_COLOUR, BEST_COLOUR), strict=True):
            axis.plot(ACTIONS, values, marker="o", color=colour)
            agnostic = name == "coda"
            axis.annotate(
                "agnostic (coda)" if agnostic else "realizable (linear-rage)",
                (ACTIONS[3], values[3]),
                xytext=(-8, 8) if agnostic else (8, -16),
                textcoords="offset points",
                ha="right" if agnostic else "center",
                va="bottom" if agnostic else "top",
                color=colour,
            )
        axis.axvline(dimension, color="#8f8f8f", linewidth=1, linestyle=":")
        axis.annotate(
            f"actions = d = {dimension}",
            (dimension, 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=9,
            color="#5f5f5f",
        )
        axis.set_xticks(ACTIONS, [str(a) for a in ACTIONS])
        axis.minorticks_off()
        axis.set_xlabel("number of actions")
        axis.set_title(f"{dimension} features", loc="left")
    low = min(np.min(v) for s in found.values() for v in s.values())
    high = max(np.max(v) for s in found.values() for v in s.values())
    axes[0].set_ylim(low / 1.6, high * 1.8)
    axes[0].set_ylabel(f"samples to a certificate (ε = δ = {EPSILON})")
    save_figure(figure, FIGURE)


# What can be asked for, and how many runs it takes.
PARTS = {
    "yardstick": (against_yardstick, 9),
    "misfit": (when_not_linear, 36),
    "large": (large, 1),
    "actions": (by_actions, 5),
}


def main(names: list[str] | None = None, runs: int | None = None) -> None:
    for name in names or PARTS:
        part, usual = PARTS[name]
        part(runs or usual)


if __name__ == "__main__":
    main(sys.argv[1:2], int(sys.argv[2]) if len(sys.argv) > 2 else None)

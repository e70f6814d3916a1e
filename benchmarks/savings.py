"""How what coda saves grows with the number of actions and as ε shrinks: four tables and a picture.

python -m benchmarks.savings [runs]              writes docs/figures/savings.png
python -m benchmarks.savings epsilon [runs]      what a smaller ε costs, on `trees` with 16 actions
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.report.figures import BEST_COLOUR, UNIFORM_COLOUR, new_figure, save_figure

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "savings.png"
EPSILON, DELTA = 0.05, 0.05
ACTIONS = {"two-of-many": (3, 4, 8, 16, 32, 64), "trees": (2, 4, 8, 16, 32, 64)}
EPSILONS = (0.2, 0.14, 0.1, 0.07, 0.05, 0.035)
FAMILIES = {
    "two-of-many": lambda actions: f"two-of-many:actions={actions}",
    "trees": lambda actions: f"trees:actions={actions},competitive={min(3, actions)}",
}

Samples = dict[str, list[float]]  # by algorithm, one an entry of the sweep


def samples_of(spec: str, *, epsilon: float, runs: int) -> dict[str, float]:
    """The median samples of coda and of uniform."""
    problem = pb.load_problem(spec)
    found: dict[str, float] = {}
    for algorithm in ("uniform", "coda"):
        done = [
            pb.run(problem, algorithm=algorithm, epsilon=epsilon, delta=DELTA, rng=seed).samples for seed in range(runs)
        ]
        found[algorithm] = statistics.median(done)
    return found


def sweep(name: str, cases: list[tuple[float, str, float]], *, title: str, head: str, runs: int) -> Samples:
    """Measure and print; cases are (what is varied, spec, ε)."""
    found: Samples = {"uniform": [], "coda": []}
    rows: list[list[str]] = []
    for varied, spec, epsilon in cases:
        here = samples_of(spec, epsilon=epsilon, runs=runs)
        for algorithm, samples in here.items():
            found[algorithm].append(samples)
        ratio = here["uniform"] / here["coda"]
        rows.append([f"{varied:g}", f"{here['uniform']:,.0f}", f"{here['coda']:,.0f}", f"{ratio:.1f}"])
        print(f"# {name} {varied:g}: {ratio:.2f}", file=sys.stderr, flush=True)
    print_table(f"`{name}`, {title}, medians of {runs} runs", [head, "uniform", "coda", "times fewer"], rows)
    return found


def main(runs: int = 3) -> None:
    sweeps: dict[tuple[str, str], Samples] = {}
    for name, spec in FAMILIES.items():
        by_actions = [(float(a), spec(a), EPSILON) for a in ACTIONS[name]]
        by_epsilon = [(e, spec(16), e) for e in EPSILONS]
        sweeps[name, "actions"] = sweep(name, by_actions, title=f"ε = δ = {EPSILON}", head="actions", runs=runs)
        sweeps[name, "ε"] = sweep(name, by_epsilon, title=f"16 actions, δ = {DELTA}", head="ε", runs=runs)
    draw(sweeps)
    print(f"\npicture: {FIGURE.name}")


def draw(sweeps: dict[tuple[str, str], Samples]) -> None:
    """Samples on the left axis of each panel's sweep, both algorithms, with the ratio written where it is largest."""
    figure = new_figure(12, 8)
    axes: Any = figure.subplots(2, 2)
    for row, name in enumerate(FAMILIES):
        for column, (what, values) in enumerate((("actions", ACTIONS[name]), ("ε", EPSILONS))):
            axis, found = axes[row][column], sweeps[name, what]
            axis.set_xscale("log")
            axis.set_yscale("log")
            for algorithm, colour in (("uniform", UNIFORM_COLOUR), ("coda", BEST_COLOUR)):
                axis.plot(values, found[algorithm], marker="o", color=colour)
                axis.annotate(
                    algorithm,
                    (values[-1], found[algorithm][-1]),
                    xytext=(8, 0),
                    textcoords="offset points",
                    va="center",
                    color=colour,
                )
            for x, one, two in zip(values, found["uniform"], found["coda"], strict=True):
                spot = (x, (one * two) ** 0.5)
                if one < 1.35 * two:  # no room between the points
                    continue
                axis.annotate(f"{one / two:.1f} ×", spot, ha="center", va="center", fontsize=9, color="#5f5f5f")
            axis.set_xticks(values, [f"{x:g}" for x in values])
            axis.minorticks_off()
            if what == "ε":
                axis.invert_xaxis()
            low, high = (min(values), max(values))
            span = (high / low) ** 0.18
            axis.set_xlim(*((high * span**0.4, low / span) if what == "ε" else (low / span**0.4, high * span)))
            axis.set_xlabel(f"number of actions (ε = {EPSILON})" if what == "actions" else "ε (16 actions)")
            axis.set_title(name, loc="left")
            if column == 0:
                axis.set_ylabel("samples to a certificate")
    save_figure(figure, FIGURE)


def by_epsilon(runs: int) -> None:
    """The samples of coda alone."""
    problem = pb.load_problem(FAMILIES["trees"](16))
    shown = (0.2, 0.1, 0.05, 0.035)
    done = [[pb.run(problem, epsilon=e, delta=DELTA, rng=seed).samples for seed in range(runs)] for e in shown]
    print_table(
        f"coda on `trees` with 16 actions, δ = {DELTA}, medians of {runs} runs",
        ["ε", *(f"{e:g}" for e in shown)],
        [["samples", *(f"{statistics.median(samples):,.0f}" for samples in done)]],
    )


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "epsilon"]
    (by_epsilon if "epsilon" in sys.argv else main)(int(words[0]) if words else 3)

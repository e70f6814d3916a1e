"""How what coda saves grows with the number of actions and as ε shrinks: four tables and a picture.

python -m benchmarks.savings [runs]              writes docs/figures/savings.png
python -m benchmarks.savings epsilon [runs]      what a smaller ε costs, on `trees` with 16 actions
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

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


def play(spec: str, algorithm: str, epsilon: float, seed: int) -> int:
    """The samples of one run."""
    return pb.run(spec, algorithm=algorithm, epsilon=epsilon, delta=DELTA, rng=seed).samples


def sweep(name: str, cases: list[tuple[float, str, float]], *, title: str, head: str, runs: int) -> Samples:
    """Measure and print medians; cases are (what is varied, spec, ε)."""
    jobs = [
        (spec, algorithm, epsilon, seed)
        for algorithm in ("uniform", "coda")
        for _, spec, epsilon in cases
        for seed in range(runs)
    ]
    with ProcessPoolExecutor() as pool:
        samples = np.array(list(pool.map(play, *zip(*jobs, strict=True)))).reshape(2, len(cases), runs)
    uniform, coda = np.median(samples, axis=2).tolist()
    rows = [
        [f"{varied:g}", f"{one:,.0f}", f"{two:,.0f}", f"{one / two:.1f}"]
        for (varied, _, _), one, two in zip(cases, uniform, coda, strict=True)
    ]
    print_table(f"`{name}`, {title}, medians of {runs} runs", [head, "uniform", "coda", "times fewer"], rows)
    return {"uniform": uniform, "coda": coda}


def main(runs: int = 9) -> None:
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
    shown = (0.2, 0.1, 0.05, 0.035)
    jobs = [(FAMILIES["trees"](16), "coda", epsilon, seed) for epsilon in shown for seed in range(runs)]
    with ProcessPoolExecutor() as pool:
        samples = np.array(list(pool.map(play, *zip(*jobs, strict=True)))).reshape(len(shown), runs)
    print_table(
        f"coda on `trees` with 16 actions, δ = {DELTA}, medians of {runs} runs",
        ["ε", *(f"{e:g}" for e in shown)],
        [["samples", *(f"{median:,.0f}" for median in np.median(samples, axis=1))]],
    )


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "epsilon"]
    (by_epsilon if "epsilon" in sys.argv else main)(int(words[0]) if words else 9)

"""What log(1/δ) costs on the trivial class: once in every context, or once for the class as one problem.

python -m benchmarks.per_context          samples against δ and |C|, and their slopes in log(1/δ)

Every context is alike: one action of mean 1/2 + Δ/2, the others Δ behind, Δ = 2ε, coin flips. What is to be expected,
in units of |A|/ε²:

    per context        2|C|/9 · log(|C||A|/δ)                    8R²L/(Δ + ε)² plays of each action, R² = 1/4
    as one problem     1/8 · (√(|C| log|A|) + √(log(1/δ)))²

The second is of a policy that errs in a share f of the contexts. Under uniform exploration its gap is estimated with
variance σ²V_f/n = f|A|/(2n), and to show that it is not ε ahead means to tell fΔ from −ε: the unluckiest of |A|^|C|
policies seems √(2 log|Π|) standard errors better than it is, and a proof wants √(2 log(1/δ)) more. The largest
f/(fΔ + ε)² is that of f = 1/2.
"""

from __future__ import annotations

import math
import sys
from statistics import median

import numpy as np

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.policies.finite import Trivial
from pacbandits.simulation import repeat

EPSILON, GAP, ACTIONS = 0.1, 0.2, 4
CONTEXTS = (4, 16, 64)
DELTAS = (1e-1, 1e-3, 1e-6, 1e-12, 1e-48, 1e-192)
SMALL_DELTA = 1e-12  # smaller ones nobody asks for; they show where slopes go
UNIT = ACTIONS / EPSILON**2
# Column, algorithm, runs: as many as time allows.
ALGORITHMS = (
    ("per context, elimination", "per-context:growth=0.04", 5),
    ("per context, lucb", "per-context:rule=lucb,growth=0.04", 5),
    ("`uniform`", "uniform", 3),
    ("`coda`", "coda", 1),
)
EXPECTED_PER_CONTEXT, EXPECTED_AS_ONE = "expected per context", "expected as one problem"


def equal_gaps(contexts: int) -> pb.Problem:
    """Every context alike, but for which action is the best."""
    means = np.full((contexts, ACTIONS), 0.5 - GAP / 2)
    means[np.arange(contexts), np.arange(contexts) % ACTIONS] = 0.5 + GAP / 2
    words = f"Every map from {contexts} contexts to {ACTIONS} actions; all but one are {GAP:g} behind."
    trivial = Trivial(contexts, ACTIONS)
    return pb.Problem("equal gaps", words, pb.Contexts.finite(contexts), means, pb.Bernoulli(), trivial)


def samples_of(contexts: int, algorithm: str, *, delta: float, runs: int) -> tuple[float, int]:
    """The median of the runs, and how many were wrong."""
    done = repeat(equal_gaps(contexts), runs=runs, seed=0, algorithm=algorithm, epsilon=EPSILON, delta=delta)
    return median(run.samples for run in done), sum(not run.correct for run in done)


def expected_per_context(contexts: int, delta: float) -> float:
    """What a best-arm identification in each context should take."""
    return UNIT * 2.0 / 9.0 * contexts * (math.log(contexts * ACTIONS) - math.log(delta))


def expected_as_one(contexts: int, delta: float) -> float:
    """What the class should take as one problem."""
    return UNIT / 8.0 * (math.sqrt(contexts * math.log(ACTIONS)) + math.sqrt(-math.log(delta))) ** 2


def slope(points: dict[float, float]) -> float:
    """Of the samples at each δ in log(1/δ), by least squares, in units of |A|/ε²."""
    logs = [-math.log(delta) for delta in points]
    return float(np.polyfit(logs, np.array(list(points.values())) / UNIT, 1)[0])


def main() -> None:
    columns = [*(name for name, _, _ in ALGORITHMS), EXPECTED_PER_CONTEXT, EXPECTED_AS_ONE]
    found: dict[int, dict[str, dict[float, float]]] = {}
    wrong, played = 0, 0
    for contexts in CONTEXTS:
        here = found[contexts] = {
            EXPECTED_PER_CONTEXT: {delta: expected_per_context(contexts, delta) for delta in DELTAS},
            EXPECTED_AS_ONE: {delta: expected_as_one(contexts, delta) for delta in DELTAS},
        }
        for name, algorithm, runs in ALGORITHMS:
            here[name] = {}
            for delta in DELTAS:
                here[name][delta], errors = samples_of(contexts, algorithm, delta=delta, runs=runs)
                wrong, played = wrong + errors, played + runs
            print(f"# {contexts} contexts, {name}", file=sys.stderr, flush=True)
    print_table(
        f"Samples: {ACTIONS} actions, every gap {GAP:g}, ε = {EPSILON:g}; medians; {wrong} of {played} runs were wrong",
        ["\\|C\\|", "δ", *columns],
        [
            [str(contexts), f"{delta:.0e}", *(f"{here[name][delta]:,.0f}" for name in columns)]
            for contexts, here in found.items()
            for delta in DELTAS
        ],
    )
    for words, kept in (
        (f"δ ≥ {SMALL_DELTA:.0e}", [delta for delta in DELTAS if delta >= SMALL_DELTA]),
        (f"δ ≤ {SMALL_DELTA:.0e}", [delta for delta in DELTAS if delta <= SMALL_DELTA]),
    ):
        print_table(
            f"Slope of samples in log(1/δ), in units of |A|/ε², over {words}",
            ["\\|C\\|", *columns],
            [
                [str(contexts), *(f"{slope({delta: here[name][delta] for delta in kept}):.2f}" for name in columns)]
                for contexts, here in found.items()
            ],
        )


if __name__ == "__main__":
    main()

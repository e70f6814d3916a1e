"""RAGE for given features, and planner and sampler, beside linear-rage and beside what assumes nothing of rewards.

python -m benchmarks.given_features                      everything
python -m benchmarks.given_features problems [runs]      all algorithms on three problems
python -m benchmarks.given_features actions [runs]       as actions grow
python -m benchmarks.given_features dimensions [runs]    over all policies, as features grow
"""

from __future__ import annotations

import statistics
import sys

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.complexity import measure_gaps, measure_rho
from pacbandits.confidence import fixed_design_bound
from pacbandits.policies.finite import Trivial
from pacbandits.realizable.complexity import measure_realizable

EPSILON, DELTA = 0.05, 0.05
PROBLEMS = (
    "linear:dimension=3,actions=8,policies=60,seed=1",
    "linear:dimension=5,actions=10,policies=60,seed=1",
    "linear:dimension=10,actions=20,policies=60,seed=1",
)
# What assumes that rewards are linear, and what does not.
REALIZABLE = ("linear-rage", "planner-sampler", "rage-features", "rage-free-features")
AGNOSTIC = ("coda", "rage", "rage-free")
ACTIONS = (2, 4, 8, 16, 32)
GROWING = "linear:dimension=4,actions={},policies=60,seed=1"
DIMENSIONS = (2, 4, 8)
WIDENING = "linear:dimension={},actions=16,contexts=100,seed=1"


def play(spec: str, algorithm: str, *, runs: int, epsilon: float = EPSILON) -> tuple[float, int]:
    """The median of samples, and how many answers were wrong."""
    problem = pb.load_problem(spec)
    done = [pb.run(problem, algorithm=algorithm, epsilon=epsilon, delta=DELTA, rng=seed) for seed in range(runs)]
    return statistics.median(run.samples for run in done), sum(not run.correct for run in done)


def complexities(spec: str) -> tuple[float, float]:
    """ρ_lin,ε and ρ_ε of a problem, their upper ends."""
    problem = pb.load_problem(spec)
    assert problem.realizable is not None
    given = measure_realizable(
        problem, problem.realizable.features, problem.policies, epsilon=EPSILON, delta=DELTA
    ).rho_upper
    gaps = measure_gaps(problem, problem.policies)
    return given, measure_rho(problem.policies, problem.population, gaps, epsilon=EPSILON).upper


def side_by_side(runs: int) -> None:
    found = {spec: complexities(spec) for spec in PROBLEMS}
    rows: list[list[str]] = []
    wrong = 0
    for number, names in enumerate((REALIZABLE, AGNOSTIC)):
        label = ("ρ_lin,ε", "ρ_Π,ε")[number]
        rows.append([label, *(f"{found[spec][number]:.1f}" for spec in PROBLEMS)])
        for name in names:
            cells: list[str] = []
            for spec in PROBLEMS:
                samples, errors = play(spec, name, runs=runs)
                wrong += errors
                cells.append(f"{samples:,.0f}")
            rows.append([name, *cells])
            print(f"# {name}", file=sys.stderr, flush=True)
    head = ["", *(f"`{spec}`" for spec in PROBLEMS)]
    print_table(f"samples at ε = δ = {EPSILON}, medians of {runs} runs; {wrong} wrong answers", head, rows)


def by_actions(runs: int) -> None:
    rows: list[list[str]] = []
    for actions in ACTIONS:
        spec = GROWING.format(actions)
        one, two = complexities(spec)
        cells = [play(spec, name, runs=runs)[0] for name in ("rage-features", "rage")]
        rows.append([str(actions), f"{one:.1f}", f"{cells[0]:,.0f}", f"{two:.1f}", f"{cells[1]:,.0f}"])
    head = ["actions", "ρ_lin,ε", "rage-features", "ρ_Π,ε", "rage"]
    print_table(f"`{GROWING.format('…')}`, ε = δ = {EPSILON}, medians of {runs} runs", head, rows)


def by_dimension(runs: int) -> None:
    """Over all policies: what is planned for every direction alike, and what asks for gaps."""
    rows: list[list[str]] = []
    for dimension in DIMENSIONS:
        spec = WIDENING.format(dimension)
        problem = pb.load_problem(spec)
        every = Trivial(len(problem.population), problem.n_actions)
        cells: list[float] = []
        for name in ("planner-sampler", "linear-rage"):
            done = [
                pb.run(problem, every, algorithm=name, epsilon=EPSILON, delta=DELTA, rng=seed) for seed in range(runs)
            ]
            cells.append(statistics.median(run.samples for run in done))
        most = 4 * dimension * fixed_design_bound(dimension, noise=0.25, delta=DELTA) / EPSILON**2
        rows.append([str(dimension), f"{most:,.0f}", *(f"{cell:,.0f}" for cell in cells)])
    head = ["d", "4dB/ε²", "planner-sampler", "linear-rage"]
    print_table(f"`{WIDENING.format('…')}`, all policies, ε = δ = {EPSILON}, medians of {runs} runs", head, rows)


# What can be asked for, and how many runs it takes.
PARTS = {"problems": (side_by_side, 5), "actions": (by_actions, 5), "dimensions": (by_dimension, 3)}


def main(names: list[str] | None = None, runs: int | None = None) -> None:
    for name in names or PARTS:
        part, usual = PARTS[name]
        part(runs or usual)


if __name__ == "__main__":
    main(sys.argv[1:2], int(sys.argv[2]) if len(sys.argv) > 2 else None)

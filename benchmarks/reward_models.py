"""The reward model that certificates are centred by: what it leaves unexplained, against its parts.

python -m benchmarks.reward_models

Rows are of uniform exploration in 70 % of a problem's contexts; errors are squared, of rewards of all actions in the
same contexts, noise included. One run.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.arrays import FloatArray
from pacbandits.records import Design, Log
from pacbandits.rewards import Additive, Regions, default_model
from pacbandits.rewards.base import Constant, FittedModel, action_means

PROBLEMS = ("digits", "digits:components=0", "wine", "breast-cancer", "actg175", "trees:actions=10,seed=3")
SIZES, SHARE = (2000, 5000, 10_000), 0.7


def some_of(problem: pb.Problem, rng: np.random.Generator) -> pb.Problem:
    """The problem with a share of its contexts, all equally likely."""
    n = len(problem.population)
    kept = np.sort(rng.permutation(n)[: round(SHARE * n)])
    weights = np.full(len(kept), 1 / len(kept))
    population = replace(problem.population.take(kept), ids=np.arange(len(kept)), weights=weights)
    return pb.Problem(
        problem.name, problem.name, population, problem.mean_rewards[kept], problem.noise, problem.policies
    )


def error(fitted: FittedModel, problem: pb.Problem, noise: float) -> float:
    """The squared error of a prediction of a reward."""
    return float(np.mean((fitted.predict(problem.population) - problem.mean_rewards) ** 2)) + noise


def errors(log: Log, problem: pb.Problem, noise: float) -> FloatArray:
    """Those of the means of actions, of the better of regions and steps, and of the whole model."""
    contexts = problem.population
    parts = Regions.learn(contexts), Additive.learn(contexts)
    best = min(error(part.fit(log), problem, noise) for part in parts)
    whole = error(default_model(contexts).fit(log), problem, noise)
    return np.array([error(Constant(action_means(log)), problem, noise), best, whole])


def main() -> None:
    rows: list[list[str]] = []
    for spec in PROBLEMS:
        rng = np.random.default_rng(0)
        problem = some_of(pb.load_problem(spec), rng)
        noise = float(problem.noise_variance.mean())
        uniform = Design((), np.empty(0), problem.best_policy())
        logs = [problem.interact(uniform, samples=samples, rng=rng) for samples in SIZES]
        found = np.array([errors(log, problem, noise) for log in logs])
        digits = 3 if noise == 0 else 4
        means, *both = (", ".join(f"{x:.{digits}f}" for x in column) for column in found.T)
        rows.append([f"`{spec}`", means.rpartition(" ")[2], *both, f"{noise:.{digits}f}" if noise else "0"])
    sizes = ", ".join(f"{size:,}" for size in SIZES)
    head = [f"squared error at {sizes} rows", "means alone", "the better of regions and steps", "the sum of three"]
    print_table("reward models", [*head, "noise"], rows)


if __name__ == "__main__":
    main()

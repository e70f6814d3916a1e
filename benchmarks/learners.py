"""Greedy trees of scikit-learn as oracles, against the exact search over depth-2 trees on the same scores.

python -m benchmarks.learners

Scores are the mean rewards of a problem, or one reward a context, importance-weighted. A figure for each of three
seeds: the sum of the scores that the policy found collects, over that of the best depth-2 tree.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import pacbandits as pb
from benchmarks.measuring import print_table
from pacbandits.arrays import FloatArray

SEEDS = (0, 1, 2)
REDUCTIONS = ("regression", "classification", "pairs")


def draw_scores(problem: pb.Problem, kind: str, seed: int) -> FloatArray:
    """The mean rewards, or what one uniform interaction a context shows of them."""
    if kind == "true means":
        return problem.mean_rewards
    rng = np.random.default_rng([seed, 1])  # apart from what drew the problem
    n, n_actions = problem.mean_rewards.shape
    each, played = np.arange(n), rng.integers(n_actions, size=n)
    scores = np.zeros((n, n_actions))
    scores[each, played] = n_actions * (rng.random(n) < problem.mean_rewards[each, played])
    return scores


def find(policies: pb.PolicyClass, contexts: pb.Contexts, scores: FloatArray) -> tuple[float, float]:
    """The value that an oracle finds, and the milliseconds of its second call."""
    policies.argmax(contexts, scores)
    began = time.perf_counter()
    found = policies.argmax(contexts, scores)
    seconds = time.perf_counter() - began
    return float(scores[np.arange(len(scores)), found(contexts)].sum()), 1000 * seconds


def main() -> None:
    rows: list[list[str]] = []
    for kind in ("true means", "noise"):
        for n_actions in (4, 16):
            shares: dict[str, list[float]] = {name: [] for name in REDUCTIONS}
            times: dict[str, list[float]] = {name: [] for name in (*REDUCTIONS, "exact")}
            for seed in SEEDS:
                problem = pb.load_problem(f"trees:contexts=2000,actions={n_actions},seed={seed}")
                contexts, scores = problem.population, draw_scores(problem, kind, seed)
                exact = pb.Trees.learn(contexts, n_actions=n_actions, depth=2, bins=256)
                best, spent = find(exact, contexts, scores)
                times["exact"].append(spent)
                for name in REDUCTIONS:
                    tree = DecisionTreeRegressor if name == "regression" else DecisionTreeClassifier
                    estimator = tree(max_depth=2, random_state=0)
                    oracle = pb.Learned(estimator, n_actions=n_actions, reduction=name)
                    value, spent = find(oracle, contexts, scores)
                    shares[name].append(value / best)
                    times[name].append(spent)
            medians = [f"{statistics.median(times[name]):.0f}" for name in (*REDUCTIONS, "exact")]
            cells = [", ".join(f"{share:.3f}" for share in shares[name]) for name in REDUCTIONS]
            rows.append([kind, str(n_actions), *cells, f"{', '.join(medians[:-1])} ({medians[-1]})"])
    head = ["scores", "actions", *(f"`{name}`" for name in REDUCTIONS), "milliseconds (exact)"]
    print_table("values found, relative to the best depth-2 tree", head, rows)


if __name__ == "__main__":
    main()

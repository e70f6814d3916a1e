"""The problems that rest on real data: what policies earn there, and the model behind `actg175`.

python -m benchmarks.data problems     sizes, and the values of the best policies
python -m benchmarks.data arms         the regression of each arm of the trial
"""

from __future__ import annotations

import sys

from benchmarks.measuring import print_table
from pacbandits.problems import load_problem
from pacbandits.problems.actg175 import ARMS, fit_arms, load_trial, regressors

PROBLEMS = ("digits", "wine", "iris", "breast-cancer", "actg175")


def problems() -> None:
    rows: list[list[str]] = []
    for name in PROBLEMS:
        problem = load_problem(name)
        weights, means = problem.population.weights, problem.mean_rewards
        values = (weights @ means).max(), problem.value(problem.best_policy()), weights @ means.max(axis=1)
        sizes = len(weights), problem.population.n_features, problem.n_actions
        rows.append([f"`{name}`", *map(str, sizes), *(f"{value:.4f}" for value in values)])
    head = ["problem", "N", "features", "actions", "best constant", "best tree", "best per context"]
    print_table("real data", head, rows)


def arms() -> None:
    trial = load_trial(fall=0.2)
    rows: list[list[str]] = []
    for arm, model in zip(ARMS, fit_arms(trial, regressors(trial.patients)), strict=True):
        losses = f"{model.log_loss:.4f}", f"{model.log_loss_of_share:.4f}"
        rows.append([arm, f"{len(model.outcomes)}", f"{model.outcomes.mean():.3f}", f"{model.penalty:.0f}", *losses])
    head = ["arm", "patients", "good outcomes", "penalty", "log-loss, cross-validated", "of the share alone"]
    print_table("the model of `actg175`", head, rows)


PARTS = {"problems": problems, "arms": arms}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()

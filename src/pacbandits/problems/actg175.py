"""The trial ACTG 175: its patients and its four arms, with rewards drawn from a model fitted to its outcomes.

The truth of this problem is that model, not medicine. docs/data.md says where the data are from, how well the model
fits, and how to get its figures.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, special
from pacbandits.options import About
from pacbandits.policies.trees import Trees
from pacbandits.problems.base import Problem
from pacbandits.problems.built_in import LIFELINES, built_in
from pacbandits.problems.noise import Bernoulli
from pacbandits.records import Contexts

DATA_FILE = "datasets/ACTG175.csv"
ARMS = ("zidovudine", "zidovudine and didanosine", "zidovudine and zalcitabine", "didanosine")
PENALTIES = 10.0 ** np.arange(0, 3.6, 0.25)
FOLDS = 10
MOST_NEWTON_STEPS = 50  # a handful suffices
MEAN_REWARD_DECIMALS = 6  # further digits differ between machines


@dataclass(frozen=True)
class Covariate:
    """A covariate of a patient before treatment.

    name: its name here.
    column: its name in the file.
    labels: its labels, if it is categorical.
    first: the code of the first label in the file.
    """

    name: str
    column: str
    labels: tuple[str, ...] | None = None
    first: int = 0


NO_YES = ("no", "yes")
COVARIATES = (
    Covariate("age", "age"),
    Covariate("weight", "wtkg"),
    Covariate("karnofsky", "karnof"),
    Covariate("cd4", "cd40"),
    Covariate("cd8", "cd80"),
    Covariate("prior therapy", "strat", ("none", "up to 52 weeks", "over 52 weeks"), first=1),
    Covariate("recent zidovudine", "z30", NO_YES),
    Covariate("prior other drugs", "oprior", NO_YES),
    Covariate("symptoms", "symptom", NO_YES),
    Covariate("hemophilia", "hemo", NO_YES),
    Covariate("injected drugs", "drugs", NO_YES),
    Covariate("homosexual activity", "homo", NO_YES),
    Covariate("race", "race", ("white", "non-white")),
    Covariate("gender", "gender", ("female", "male")),
)


@dataclass(frozen=True, eq=False)
class PastTrial:
    """The data of the trial.

    patients: n contexts.
    arms (n,): the arm that each was randomised to.
    outcomes (n,): 1 for a success, else 0.
    """

    patients: Contexts
    arms: IntArray
    outcomes: FloatArray


@dataclass(frozen=True, eq=False)
class ArmModel:
    """The outcome model of one arm, and its cross-validated predictions.

    coefficients (1 + p,): of the intercept and the p regressors.
    penalty: the ridge.
    outcomes (m,): of the arm's patients.
    held_out (m,): their cross-validated probabilities by this model.
    shares (m,): the same by a model without regressors, which predicts the share of successes.
    """

    coefficients: FloatArray
    penalty: float
    outcomes: FloatArray
    held_out: FloatArray
    shares: FloatArray

    @property
    def log_loss(self) -> float:
        """The cross-validated log-loss."""
        return log_loss(self.outcomes, self.held_out)

    @property
    def log_loss_of_share(self) -> float:
        """The cross-validated log-loss of the model without regressors."""
        return log_loss(self.outcomes, self.shares)


@built_in(
    "actg175",
    description="2139 patients and the 4 arms of an HIV trial, outcomes by a model fitted to it (needs lifelines)",
)
def actg175(
    *,
    fall: Annotated[
        float, About("largest fall of the CD4 count that is a success, as a share", least=0, most=0.5)
    ] = 0.2,
    bins: Annotated[int, About("bins a number is cut into, for the trees", least=2, most=256)] = 16,
) -> Problem:
    """Patients with HIV, four treatments, and a reward if the CD4 count holds for 20 weeks.

        reward 1 when cd4 at 20 ± 5 weeks ≥ (1 − fall) · cd4 before treatment, else 0

    Every patient in the file has both counts, so none is censored. Single counts vary by a quarter of their value
    within a person (Hughes et al. 1994), so that fall=0 would reward mostly noise; the trial's own laboratory
    end point, a fall by half, had occurred in 1 of 40 patients by then, and a fall by more than a fifth in 1 of 5.

    Mean rewards are the predictions, for each patient under each arm, of a logistic regression fitted to the arm's
    own patients: randomisation makes them comparable. Regressors are all covariates and the square of the CD4 count,
    standardised; the ridge penalty minimises the log-loss of 10-fold cross-validation. Rewards are Bernoulli.
    """
    trial = load_trial(fall=fall)
    x = regressors(trial.patients)
    models = fit_arms(trial, x)
    means = np.column_stack([success_probabilities(x, model.coefficients) for model in models])
    named = ", ".join(f"{a} {arm}" for a, arm in enumerate(ARMS))
    return Problem(
        name="actg175",
        description=(
            f"{len(means)} patients of the trial ACTG 175 and its arms ({named}); reward 1 when the CD4 count has "
            f"fallen by no more than {100 * fall:g}% after 20 weeks, by a model fitted to the trial; "
            "decision trees of depth 2."
        ),
        population=trial.patients,
        mean_rewards=np.round(means, MEAN_REWARD_DECIMALS),
        noise=Bernoulli(),
        policies=Trees.learn(trial.patients, n_actions=len(ARMS), depth=2, bins=bins),
    )


def load_trial(*, fall: float) -> PastTrial:
    """Return the trial from the file, with the outcome that `fall` defines."""
    with LIFELINES.file(DATA_FILE, problem="actg175").open(newline="") as file:
        rows = list(csv.DictReader(file))

    def column(name: str) -> FloatArray:
        return np.array([float(row[name]) for row in rows])

    patients = Contexts.of(
        np.column_stack([np.round(column(covariate.column), 1) - covariate.first for covariate in COVARIATES]),
        names=[covariate.name for covariate in COVARIATES],
        categories=[covariate.labels for covariate in COVARIATES],
        ids=np.arange(len(rows)),
    )
    held = column("cd420") >= (1 - fall) * column("cd40")
    return PastTrial(patients=patients, arms=column("arms").astype(np.int64), outcomes=held.astype(np.float64))


def regressors(patients: Contexts) -> FloatArray:
    """Return the regressors (n, p), each with mean 0 and variance 1.

    The numbers, an indicator of every label but the first, and the square of the standardised CD4 count.
    """
    columns: list[FloatArray] = []
    for values, labels in zip(patients.features.T, patients.categories, strict=True):
        codes = range(1, 1 if labels is None else len(labels))
        columns += [values] if labels is None else [(values == code).astype(np.float64) for code in codes]
    cd4 = _standardised(patients.features[:, patients.names.index("cd4")])
    return _standardised(np.column_stack([*columns, cd4**2]))


def fit_arms(trial: PastTrial, x: FloatArray) -> tuple[ArmModel, ...]:
    """Return the model of each arm, fitted to its own patients; x (n, p): the regressors of all."""
    own = [np.flatnonzero(trial.arms == arm) for arm in range(len(ARMS))]
    return tuple(_fit_arm(x[rows], trial.outcomes[rows]) for rows in own)


def _fit_arm(x: FloatArray, y: FloatArray) -> ArmModel:
    """Return the model whose penalty predicts best across folds; a fold is every tenth patient."""
    fold = np.arange(len(y)) % FOLDS
    held_out = np.empty((len(PENALTIES), len(y)))
    shares = np.empty(len(y))
    for f in range(FOLDS):
        inside, outside = fold != f, fold == f
        shares[outside] = y[inside].mean()
        for i, penalty in enumerate(PENALTIES):
            held_out[i, outside] = success_probabilities(
                x[outside], ridge_logistic(x[inside], y[inside], penalty=penalty)
            )
    best = int(np.argmin([log_loss(y, predicted) for predicted in held_out]))
    penalty = float(PENALTIES[best])
    return ArmModel(ridge_logistic(x, y, penalty=penalty), penalty, y, held_out[best], shares)


def ridge_logistic(x: FloatArray, y: FloatArray, *, penalty: float) -> FloatArray:
    """Return the coefficients (1 + p,) that minimise the summed log-loss plus `penalty · |β|²/2`, by Newton's method.

    x (n, p), y (n,) of 0 and 1. The intercept comes first and is free.
    """
    rows = np.column_stack([np.ones(len(x)), x])
    ridge = np.full(rows.shape[1], penalty)
    ridge[0] = 0.0
    coefficients = np.zeros(rows.shape[1])
    for _ in range(MOST_NEWTON_STEPS):
        step = _newton_step(rows, y, ridge, coefficients)
        coefficients += step
        if np.abs(step).max() < 1e-10:
            break
    return coefficients


def _newton_step(rows: FloatArray, y: FloatArray, ridge: FloatArray, coefficients: FloatArray) -> FloatArray:
    p = success_probabilities(rows[:, 1:], coefficients)
    gradient = rows.T @ (y - p) - ridge * coefficients
    curvature = (rows.T * (p * (1 - p))) @ rows + np.diag(ridge)
    return np.linalg.solve(curvature, gradient).astype(np.float64)


def success_probabilities(x: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Return the probability (n,) of a success at regressors x (n, p)."""
    return special.expit(coefficients[0] + x @ coefficients[1:])


def log_loss(y: FloatArray, predicted: FloatArray) -> float:
    """Return the mean log-loss of predicted probabilities (n,); y (n,) of 0 and 1."""
    return -float(np.log(np.where(y == 1, predicted, 1 - predicted)).mean())


def _standardised(x: FloatArray) -> FloatArray:
    return (x - x.mean(axis=0)) / x.std(axis=0)

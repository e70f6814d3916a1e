"""Real data as problems: what was made of them, and what is said when they are not there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from pacbandits.errors import InputError
from pacbandits.policies.trees import Trees
from pacbandits.problems import Bernoulli, list_problems, load_problem
from pacbandits.problems.actg175 import (
    ARMS,
    FOLDS,
    PENALTIES,
    ArmModel,
    PastTrial,
    fit_arms,
    load_trial,
    regressors,
    ridge_logistic,
)
from pacbandits.problems.built_in import LIFELINES, SCIKIT_LEARN
from pacbandits.problems.classification import breast_cancer, digits, iris, principal_components, wine

DOCS = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
NAMES = ("digits", "wine", "iris", "breast-cancer", "actg175")


@pytest.fixture(scope="module")
def trial() -> PastTrial:
    return load_trial(fall=0.2)


@pytest.fixture(scope="module")
def models(trial: PastTrial) -> tuple[ArmModel, ...]:
    return fit_arms(trial, regressors(trial.patients))


def table() -> dict[str, np.ndarray]:
    """The raw file of the trial, read another way."""
    path = LIFELINES.file("datasets/ACTG175.csv", problem="actg175")
    names = [name.strip('"') for name in path.read_text().splitlines()[0].split(",")]
    rows = np.genfromtxt(path, delimiter=",", skip_header=1, missing_values="NA")
    return {name: rows[:, j] for j, name in enumerate(names)}


@pytest.mark.parametrize(("name", "loader"), [(name, f"load_{name.replace('-', '_')}") for name in NAMES[:4]])
def test_the_right_label_and_no_other_is_rewarded(name: str, loader: str) -> None:
    bunch = getattr(SCIKIT_LEARN.load("datasets", problem=name), loader)()
    problem = load_problem(name)
    assert isinstance(problem.noise, Bernoulli)
    assert np.array_equal(problem.mean_rewards.argmax(axis=1), bunch.target)
    assert set(np.unique(problem.mean_rewards)) == {0.0, 1.0}
    assert (problem.mean_rewards.sum(axis=1) == 1).all()
    assert (problem.noise_variance == 0).all()
    assert problem.n_actions == len(bunch.target_names)
    assert np.allclose(problem.population.weights, 1 / len(bunch.data))
    assert isinstance(problem.policies, Trees)
    raw = load_problem(f"{name}:components=0").population
    varies = np.flatnonzero(bunch.data.std(axis=0))
    assert np.array_equal(raw.features, bunch.data[:, varies])
    assert raw.names == tuple(str(bunch.feature_names[j]) for j in varies)


def test_pixels_that_are_always_blank_are_dropped() -> None:
    population = digits(components=0).population
    assert population.n_features == 61
    assert population.features.std(axis=0).min() > 0
    assert "pixel_0_0" not in population.names


def test_rewards_are_flipped_with_the_given_probability() -> None:
    problem, clean = iris(flip=0.2), iris()
    right = clean.mean_rewards == 1
    assert np.allclose(problem.mean_rewards[right], 0.8)
    assert np.allclose(problem.mean_rewards[~right], 0.2)
    assert np.allclose(problem.noise_variance, 0.16)
    best = problem.best_policy()
    assert problem.value(best) == pytest.approx(0.2 + 0.6 * clean.value(best))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("iris:flip=0.5", "flip must be a number from 0 to 0.49, got 0.5"),
        ("iris:components=5", "components must be an integer from 0 to 4, got 5"),
        ("digits:components=62", "components must be an integer from 0 to 61, got 62"),
        ("actg175:fall=0.6", "fall must be a number from 0 to 0.5, got 0.6"),
        ("breast_cancer", "did you mean 'breast-cancer'"),
        ("actg175:arms=2", "has no option 'arms'"),
    ],
)
def test_options_are_checked(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        load_problem(spec)


def test_components_are_the_eigenvectors_of_the_covariance() -> None:
    raw, problem = digits(components=0).population.features, digits(components=61)
    scores = problem.population.features
    assert problem.population.names == tuple(f"pc{j}" for j in range(1, 62))
    assert np.allclose(scores.mean(axis=0), 0, atol=1e-6)
    assert np.allclose(np.cov(scores.T, bias=True), np.eye(61), atol=1e-5)
    sizes, vectors = np.linalg.eigh(np.cov(raw.T, bias=True))
    plain = (raw - raw.mean(axis=0)) @ vectors[:, ::-1] / np.sqrt(sizes[::-1])
    signs = np.sign((plain * scores).sum(axis=0))
    assert np.allclose(scores, signs * plain, atol=1e-5)
    # Each component rises with the pixel of its largest loading, on its own.
    largest = np.abs(vectors[:, ::-1]).argmax(axis=0)
    assert (signs * vectors[:, ::-1][largest, np.arange(61)] > 0).all()


def test_components_forget_units_where_features_have_their_own() -> None:
    for build in (wine, breast_cancer):
        raw = build().population.features
        scores = build(components=3).population.features
        correlations = np.linalg.eigvalsh(np.corrcoef(raw.T))[::-1]
        loadings = np.corrcoef(scores.T, raw.T)[:3, 3:]  # correlations of components with features
        assert np.allclose((loadings**2).sum(axis=1), correlations[:3], atol=1e-4)
    raw = iris().population.features
    loadings = np.cov(iris(components=2).population.features.T, raw.T, bias=True)[:2, 2:]
    assert np.allclose((loadings**2).sum(axis=1), np.linalg.eigvalsh(np.cov(raw.T, bias=True))[:1:-1], atol=1e-4)


def test_the_sign_of_a_component_does_not_depend_on_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(3).normal(size=(40, 5))
    first = principal_components(features, count=4)
    svd = np.linalg.svd

    def other(array: np.ndarray, *, full_matrices: bool) -> tuple[np.ndarray, ...]:
        u, s, v = svd(array, full_matrices=full_matrices)
        return -u, s, -v

    monkeypatch.setattr(np.linalg, "svd", other)
    assert np.array_equal(principal_components(features, count=4), first)


def test_the_best_tree_of_irises_is_that_of_enumeration() -> None:
    problem = iris(bins=16)
    x, right = problem.population.features, problem.mean_rewards
    columns = dict(zip(problem.population.names, x.T, strict=True))
    tests = [columns[cuts.name] <= t for cuts in problem.policies.bins.features for t in cuts.thresholds]

    def leaf(rows: np.ndarray) -> float:
        return right[rows].sum(axis=0).max()

    def stump(rows: np.ndarray) -> float:
        return max(leaf(rows & test) + leaf(rows & ~test) for test in tests)

    best = max(stump(test) + stump(~test) for test in tests)
    assert problem.value(problem.best_policy()) == pytest.approx(best / 150)


def test_patients_and_outcomes_are_those_of_the_file(trial: PastTrial) -> None:
    raw = table()
    assert len(trial.patients) == 2139
    assert np.bincount(trial.arms).tolist() == [532, 522, 524, 561]
    assert np.array_equal(trial.arms, raw["arms"])
    assert np.array_equal(trial.outcomes == 1, raw["cd420"] >= 0.8 * raw["cd40"])
    # The arms of the file are those of its own indicator: 0 is zidovudine alone.
    assert np.array_equal(trial.arms == 0, raw["treat"] == 0)
    assert ARMS[0] == "zidovudine"

    def column(name: str) -> np.ndarray:
        return trial.patients.features[:, trial.patients.names.index(name)]

    assert np.array_equal(column("cd4"), raw["cd40"])
    assert np.abs(column("weight") - raw["wtkg"]).max() <= 0.05 + 1e-9
    assert np.array_equal(column("prior therapy") == 0, raw["str2"] == 0)
    assert np.array_equal(column("gender"), raw["gender"])
    labels = dict(zip(trial.patients.names, trial.patients.categories, strict=True))
    assert labels["gender"] == ("female", "male")
    assert labels["prior therapy"] == ("none", "up to 52 weeks", "over 52 weeks")
    # Nothing that was measured after treatment began.
    for later in ("cd420", "cd820", "cd496", "offtrt", "days", "cens", "arms", "treat"):
        same = [np.array_equal(values, raw[later]) for values in trial.patients.features.T]
        assert not any(same)


@pytest.mark.parametrize("penalty", [1.0, 30.0, 3000.0])
def test_the_regression_is_that_of_a_general_solver(penalty: float) -> None:
    rng = np.random.default_rng(int(penalty))
    x = rng.normal(size=(80, 4))
    y = (rng.random(80) < 0.3 + 0.4 * (x[:, 0] > 0)).astype(float)

    def loss(b: np.ndarray) -> float:
        z = b[0] + x @ b[1:]
        return np.logaddexp(0, z).sum() - y @ z + penalty * (b[1:] @ b[1:]) / 2

    expected = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-7}).x
    assert np.allclose(ridge_logistic(x, y, penalty=penalty), expected, atol=1e-5)


@pytest.mark.thorough
def test_the_model_of_an_arm_is_the_best_of_cross_validation(trial: PastTrial, models: tuple[ArmModel, ...]) -> None:
    x = regressors(trial.patients)
    assert np.allclose(x.mean(axis=0), 0, atol=1e-9)
    assert np.allclose(x.std(axis=0), 1)
    for arm, model in enumerate(models):
        rows = np.flatnonzero(trial.arms == arm)
        y = trial.outcomes[rows]
        assert np.array_equal(model.outcomes, y)
        assert PENALTIES.min() < model.penalty < PENALTIES.max()
        assert model.log_loss < model.log_loss_of_share - 0.01
        # With a free intercept the fitted probabilities average to the share of good outcomes.
        fitted = 1 / (1 + np.exp(-model.coefficients[0] - x[rows] @ model.coefficients[1:]))
        assert fitted.mean() == pytest.approx(y.mean(), abs=1e-9)
    rows = np.flatnonzero(trial.arms == 3)
    loss = {}
    for factor in (0.1, 1.0, 10.0):
        held = np.empty(len(rows))
        for fold in range(FOLDS):
            out = np.arange(len(rows)) % FOLDS == fold
            b = ridge_logistic(x[rows[~out]], trial.outcomes[rows[~out]], penalty=factor * models[3].penalty)
            held[out] = 1 / (1 + np.exp(-b[0] - x[rows[out]] @ b[1:]))
        loss[factor] = -np.log(np.where(trial.outcomes[rows] == 1, held, 1 - held)).mean()
    assert loss[1.0] == pytest.approx(models[3].log_loss)
    assert loss[1.0] < min(loss[0.1], loss[10.0])


@pytest.mark.thorough
def test_the_model_is_calibrated_and_fits_as_the_docs_say(models: tuple[ArmModel, ...]) -> None:
    predicted = np.concatenate([model.held_out for model in models])
    happened = np.concatenate([model.outcomes for model in models])
    fifths = np.array_split(np.argsort(predicted), 5)
    assert max(abs(predicted[rows].mean() - happened[rows].mean()) for rows in fifths) < 0.0215
    for arm, model in zip(ARMS, models, strict=True):
        row = f"| {arm} | {len(model.outcomes)} | {model.outcomes.mean():.3f} | {model.penalty:.0f} | "
        assert row + f"{model.log_loss:.4f} | {model.log_loss_of_share:.4f} |" in DOCS


@pytest.mark.thorough
def test_mean_rewards_are_predictions_for_every_arm(trial: PastTrial, models: tuple[ArmModel, ...]) -> None:
    problem = load_problem("actg175")
    x = regressors(trial.patients)
    for arm, model in enumerate(models):
        logits = np.log(problem.mean_rewards[:, arm] / (1 - problem.mean_rewards[:, arm]))
        assert np.allclose(logits, model.coefficients[0] + x @ model.coefficients[1:], atol=3e-4)
    assert np.array_equal(np.round(problem.mean_rewards, 6), problem.mean_rewards)
    assert all(arm in problem.description for arm in ARMS)
    other = load_problem("actg175:fall=0.5")
    assert other.mean_rewards.mean() > problem.mean_rewards.mean() + 0.1


@pytest.mark.first(4)
@pytest.mark.parametrize("name", NAMES)
def test_the_docs_say_what_each_problem_is(name: str) -> None:
    problem = load_problem(name)
    weights, means = problem.population.weights, problem.mean_rewards
    constant, tree = (weights @ means).max(), problem.value(problem.best_policy())
    ceiling = weights @ means.max(axis=1)
    assert constant + 0.01 < tree < ceiling - 0.005
    sizes = f"{len(weights)} | {problem.population.n_features} | {problem.n_actions}"
    assert f"| `{name}` | {sizes} | {constant:.4f} | {tree:.4f} | {ceiling:.4f} |" in DOCS


@pytest.mark.first(1)
@pytest.mark.parametrize("name", NAMES)
def test_a_missing_package_is_one_line(name: str, command, monkeypatch: pytest.MonkeyPatch) -> None:
    module, package, install = ("lifelines", "lifelines", "--no-deps 'lifelines>=0.30.3'")
    if name != "actg175":
        module, package, install = ("sklearn", "scikit-learn", "'pacbandits[learn]'")
    for loaded in [key for key in sys.modules if key.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    code, out, err = command("run", name)
    assert (code, out) == (2, "")
    assert err == f"pacbandits: problem '{name}' needs {package}; pip install {install}\n"
    assert name in {problem.name for problem in list_problems()}
    assert command("problems")[0] == 0


def test_a_version_without_the_file_is_one_line() -> None:
    with pytest.raises(
        InputError, match=r"needs a version of lifelines that holds datasets/none.csv; pip install --up"
    ):
        LIFELINES.file("datasets/none.csv", problem="actg175")


@pytest.mark.slow
def test_listing_imports_no_optional_package_and_the_trial_is_read_without_any() -> None:
    program = """
import sys
import pacbandits
from pacbandits import cli
from pacbandits.problems import list_problems, load_problem
heavy = {"sklearn", "lifelines", "pandas"}
sys.argv = ["pacbandits", "problems", "--json"]
try:
    cli.main()
except SystemExit:
    pass
assert len(list_problems()) >= 11
assert not heavy & set(sys.modules), "listing"
load_problem("actg175")
assert not heavy & set(sys.modules), "the trial"
"""
    # What an old typer still calls of click is no concern of this project.
    strict = ("-W", "error", "-W", "ignore::DeprecationWarning:typer")
    done = subprocess.run([sys.executable, *strict, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(f'"{name}"' in done.stdout for name in NAMES)


@pytest.mark.thorough
def test_a_run_names_the_features(command) -> None:
    code, out, _ = command("run", "iris", "--epsilon", "0.3")
    assert code == 0
    assert "petal" in out
    assert "right" in out

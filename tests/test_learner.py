"""`PolicyLearner`: an estimator of scikit-learn over `certify`."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone

import pacbandits as pb

COPIES = 40  # of each row of scikit-learn's small data sets: the class is learnt from the first 256 rows
SHARES = np.array([0.3, 0.7])


class OnLabels(pb.PolicyLearner):
    """A `PolicyLearner` whose log is made from labels, as `fit(X, y)` of scikit-learn's checks has no rewards.

    Each row becomes rows with uniformly random actions, and a reward of 1 where the action is the label.
    """

    def fit(self, X, y):
        self._table(X, reset=True)  # to refuse what the checks expect to be refused
        if y is None:
            return super().fit(X, y)
        labels = np.unique(y, return_inverse=True)[1].reshape(-1) % 3
        rows = np.tile(np.arange(len(labels)), COPIES)
        drawn = np.random.default_rng(0).integers(3, size=len(rows))
        many = X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows]
        return super().fit(many, drawn, drawn == labels[rows])

    def score(self, X, y):
        return super().score(X, y, np.ones(len(y)))


# check_fit_score_takes_y is passed by the class above and not by PolicyLearner, whose second argument is named action.
NOT_APPLICABLE = {"check_fit2d_1sample": "the error for a single row names the rows that the class is learnt from"}


@pytest.mark.thorough
def test_the_checks_of_scikit_learn():
    from sklearn.utils.estimator_checks import check_estimator

    learner = OnLabels(split="uniform")
    outcomes = check_estimator(learner, expected_failed_checks=NOT_APPLICABLE, on_skip=None, on_fail="raise")
    counted = Counter(one["status"] for one in outcomes)
    assert counted["passed"] > 35
    assert counted["skipped"] <= 1  # other kinds of arrays, without an environment variable
    assert {one["check_name"] for one in outcomes if one["status"] == "xfail"} == set(NOT_APPLICABLE)


def a_log(n=900, *, seed=0):
    """A log in which "call" is best for those above 50, with shares of 0.3 and 0.7."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.integers(20, 80, n), "city": rng.choice(["Bonn", "Rome"], n)})
    action = rng.choice(["call", "mail"], p=SHARES, size=n)
    reward = rng.random(n) < np.where((action == "call") == (frame.age > 50), 0.95, 0.05)
    return frame, action, reward, SHARES[(action == "mail").astype(int)]


@pytest.fixture(scope="module")
def fitted():
    frame, action, reward, propensity = a_log()
    return pb.PolicyLearner("trees:depth=1").fit(frame, action, reward, propensity=propensity)


def test_it_certifies_what_certify_certifies(fitted):
    frame, action, reward, propensity = a_log()
    result = pb.certify(frame.assign(action=action, reward=reward, propensity=propensity), "trees:depth=1", single=True)
    assert fitted.result_.certificate.to_json() == result.certificate.to_json()
    assert fitted.result_.verify().good
    assert fitted.classes_.tolist() == ["call", "mail"]
    few = pd.DataFrame({"age": [30, 70, 60], "city": ["Rome", "Bonn", "Oslo"]}, index=[7, 3, 9])
    assert fitted.predict(few).tolist() == ["mail", "call", "call"]
    assert fitted.predict_proba(few).tolist() == [[0, 1], [1, 0], [1, 0]]
    assert pickle.loads(pickle.dumps(fitted)).predict(few).tolist() == ["mail", "call", "call"]


def test_the_score_is_the_estimated_value_by_another_log(fitted):
    frame, action, reward, propensity = a_log(seed=1)
    score = fitted.score(frame, action, reward, propensity=propensity)
    assert score == pytest.approx(0.95, abs=0.04)
    only = action == "mail"  # a part of a log without one of the actions
    both = np.tile(SHARES, (only.sum(), 1))
    assert fitted.score(frame[only], action[only], reward[only], propensity=both) > 0.7


def test_one_propensity_is_that_of_all_rows(fitted):
    frame, action, reward, _ = a_log(n=300)
    same = [fitted.score(frame, action, reward, propensity=given) for given in (0.5, np.full(300, 0.5))]
    assert same[0] == same[1]


def test_numbers_of_actions_come_back_as_numbers(fitted):
    frame, action, reward, _ = a_log()
    numbers = np.where(action == "call", 30, 4)
    learner = clone(fitted).set_params(split={4: 0.7, 30: 0.3}, control=4)
    learner.fit(frame[["age"]].to_numpy(), numbers, reward)
    assert learner.predict([[25], [75]]).tolist() == [4, 30]
    assert learner.predict([[25], [75]]).dtype == numbers.dtype
    assert learner.classes_.tolist() == [4, 30]
    assert learner.result_.gain > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": None}, "the rewards are missing; pass them after the actions"),
        ({"propensity": None}, "told by fit(…, propensity=…) or by split=…; neither was given"),
        ({"split": "uniform"}, "told by fit(…, propensity=…) or by split=…; both were given; leave one out"),
        ({"split": "a=1", "propensity": None}, "split must be 'uniform' or a dict such as"),
        ({"split": {"call": 0.2, "mail": 0.7}, "propensity": None}, "sum to 0.9; they must sum to 1"),
        ({"action": [4, 7] * 450, "split": {"a": 1}, "propensity": None}, "split names 'a' and an action is 4, of an"),
        ({"propensity": np.ones((900, 3)) / 3}, "has the shape (900, 3); it must be (900,)"),
        (
            {"action": ["call", "mail", "fax"] * 300, "propensity": np.linspace(0.1, 0.9, 900)},
            "give the minimum propensity of every action (least_propensity=0.01)",
        ),
        ({"action": [None, *["call"] * 899]}, "the values of action must be of one type, got NoneType and str"),
        ({"action": [np.nan, *[1.0] * 899]}, "row 0 has no action; fill it in, or leave the row out"),
        ({"reward": np.full(900, 2.0)}, "rewards must lie in [0, 1]"),
        ({"reward": np.ones(3)}, "inconsistent numbers of samples"),
        ({"control": "cal"}, "control names 'cal', which is no action; did you mean 'call'?"),
        ({"X": pd.DataFrame({"round": np.ones(900)})}, "column 'round' of X has a name that a log keeps for itself"),
        ({"X": scipy.sparse.eye(900, format="csr")}, "needs a dense X; pass X.toarray()"),
    ],
)
def test_what_cannot_be_is_named(change, message):
    frame, action, reward, propensity = a_log()
    given = {"X": frame, "action": action, "reward": reward, "propensity": propensity} | change
    learner = pb.PolicyLearner(split=given.pop("split", None), control=given.pop("control", None))
    with pytest.raises((ValueError, TypeError)) as caught:
        learner.fit(**given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_columns_than_in_fit_are_refused(fitted):
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(pd.DataFrame({"age": [1], "town": ["Rome"]}))
    with pytest.raises(pb.InputError, match="the action 'fax' is not among those of fit"):
        fitted.score(a_log()[0], np.full(900, "fax"), np.ones(900), propensity=np.ones(900))


@pytest.mark.thorough
def test_a_mixture_is_drawn_by_its_probabilities():
    problem = pb.load_problem("trees:contexts=300,features=3,actions=4,competitive=2")
    log = pb.run(problem, algorithm="uniform", epsilon=0.3, delta=0.05, rng=1).log
    learner = pb.PolicyLearner("trees:depth=2", single=False, ordered=True, split="uniform", random_state=3)
    learner.fit(log.contexts.features, log.actions, log.rewards)
    chances = learner.predict_proba(log.contexts.features)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    drawn = learner.predict(log.contexts.features)
    assert (chances[np.arange(len(drawn)), drawn] > 0).all()
    assert (drawn == learner.predict(log.contexts.features)).all()


@pytest.mark.thorough
def test_a_pipeline_prepares_the_features(fitted):
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame, action, reward, propensity = a_log()
    dense = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(sparse_output=False), ["city"]), sparse_threshold=0
    )
    for prepare in (dense, clone(dense).set_output(transform="pandas")):
        pipe = make_pipeline(prepare, clone(fitted))
        pipe.fit(frame, action, policylearner__reward=reward, policylearner__propensity=propensity)
        assert (pipe.predict(frame) == fitted.predict(frame)).mean() > 0.95


@pytest.mark.thorough
def test_cross_validation_chooses_the_depth():
    from sklearn.model_selection import GridSearchCV, cross_val_score

    frame, action, reward, propensity = a_log(1500)
    given = {"reward": reward, "propensity": propensity}
    with sklearn.config_context(enable_metadata_routing=True):
        learner = pb.PolicyLearner("trees:depth=0")
        learner.set_fit_request(reward=True, propensity=True).set_score_request(reward=True, propensity=True)
        scores = cross_val_score(learner, frame, action, params=given, cv=3)
        assert scores.mean() == pytest.approx(0.5, abs=0.1)
        search = GridSearchCV(learner, {"policies": ["trees:depth=0", "trees:depth=1"]}, cv=2)
        search.fit(frame, action, **given)
    assert search.best_params_ == {"policies": "trees:depth=1"}
    assert search.best_score_ > 0.85


@pytest.mark.thorough
def test_a_policy_of_an_estimator_predicts():
    from sklearn.tree import DecisionTreeRegressor

    frame, action, reward, propensity = a_log()
    trees = pb.Learned(DecisionTreeRegressor(max_depth=1), n_actions=2, reduction="regression")
    learner = pb.PolicyLearner(trees, ordered=True).fit(frame, action, reward, propensity=propensity)
    assert learner.predict(pd.DataFrame({"age": [25, 75], "city": "Rome"})).tolist() == ["mail", "call"]


@pytest.mark.thorough
def test_a_missing_extra_is_named_in_one_line():
    code = "import sys; sys.modules['sklearn'] = None; import pacbandits as pb; pb.certify; pb.PolicyLearner"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    told = "PolicyLearner needs scikit-learn 1.6 or newer; pip install 'pacbandits[learn]'"
    assert done.stderr.splitlines()[-1] == f"pacbandits.errors.InputError: {told}"

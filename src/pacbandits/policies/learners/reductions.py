"""Three reductions of the argmax over policies to fitting estimators.

All start from a `LearningTask`: one row for each distinct context, with the gain of each action over the worst action
there. Only gains matter, so a constant added to a row of scores, or a positive factor of all scores, changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray, floats, integers
from pacbandits.errors import InputError, plain
from pacbandits.policies.finite import sum_by_id
from pacbandits.policies.trees.tree_policy import AtMost, Is, Node, TreePolicy, branch
from pacbandits.records.columns import present_numbers
from pacbandits.records.contexts import Contexts

# Encoding of contexts as the numeric features of an estimator.


Encode = Callable[[Contexts], FloatArray]
ColumnMeanings = tuple[tuple[str, str | None], ...]  # the feature of each column, and the label it indicates


@runtime_checkable
class MeaningfulEncoder(Protocol):
    """An encoder that names its columns.

    column_meanings (d',): the feature of each column, and the label it indicates; None for a number.
    """

    @property
    def column_meanings(self) -> ColumnMeanings: ...

    def __call__(self, contexts: Contexts) -> FloatArray: ...


@dataclass(frozen=True)
class OneHot:
    """One-hot encoding: numbers unchanged, and for a category one 0/1 column for each label.

    names (d,): the features, found by name on any contexts.
    labels (d,): the labels of each category; None for a number. An unknown label is 0 in every column.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...] | None, ...]

    @classmethod
    def learn(cls, contexts: Contexts) -> OneHot:
        """Return the encoder with the features and labels of these contexts."""
        if contexts.n_features == 0:
            raise InputError(
                "the contexts have no features, so an estimator has nothing to learn from; use Finite or Trivial, or "
                "give contexts with features, or an encode of your own"
            )
        return cls(contexts.names, contexts.categories)

    @property
    def column_meanings(self) -> ColumnMeanings:
        return tuple(
            (name, label)
            for name, labels in zip(self.names, self.labels, strict=True)
            for label in ((None,) if labels is None else labels)
        )

    def __call__(self, contexts: Contexts) -> FloatArray:
        """Return the columns (n, d')."""
        out = np.empty((len(contexts), len(self.column_meanings)))
        for k, (name, label) in enumerate(self.column_meanings):
            column = contexts.column_of(name, categorical=label is not None)
            values = contexts.features[:, column]
            if label is None:
                out[:, k] = present_numbers(contexts, column, by="an estimator")
            else:
                theirs = contexts.categories[column] or ()
                out[:, k] = values == theirs.index(label) if label in theirs else 0.0
        return out


def encoded(encode: Encode, contexts: Contexts) -> FloatArray:
    """Return the output of `encode`; raise InputError unless it is finite, (n, d) with d ≥ 1."""
    columns = floats(encode(contexts), name="what encode returns", shape=(len(contexts), None))
    if columns.shape[1] == 0:
        raise InputError("encode returns no columns, so an estimator has nothing to learn from; return at least one")
    return columns


# The interface to estimators: clone, fit to weighted examples, predict.
#
# scikit-learn is imported only by this module, and only when needed.


AVERAGE_COPIES = 4  # of an example, if an estimator takes no weights


class FittedEstimator(Protocol):
    """A fitted estimator."""

    def predict(self, features: FloatArray, /) -> NDArray[Any]:
        """Return a label or a number for each row of features (n, d)."""
        ...


@dataclass(frozen=True)
class SameForAll:
    """A predictor of one constant value, for targets that are all equal.

    value: the value it predicts.
    """

    value: float

    def predict(self, features: FloatArray, /) -> NDArray[Any]:
        return np.full(len(features), self.value)


def prepared(estimator: Any) -> Any:
    """Return an unfitted clone with reproducible fits: every random_state of None, also of parts, becomes 0."""
    if isinstance(estimator, type):
        raise InputError(f"the estimator must be an instance, such as {estimator.__name__}(), not a class")
    lacking = [name for name in ("get_params", "set_params", "fit", "predict") if not hasattr(estimator, name)]
    if lacking:
        raise InputError(f"the estimator must have {lacking[0]}, as scikit-learn's have; got {name_of(estimator)}")
    copy = _base().clone(estimator)
    parameters = cast(dict[str, Any], copy.get_params())
    unset = [name for name, value in parameters.items() if name.split("__")[-1] == "random_state" and value is None]
    return copy.set_params(**dict.fromkeys(unset, 0)) if unset else copy


def name_of(estimator: object) -> str:
    """Return the name of an estimator's class; for a pipeline, of its last step."""
    steps = getattr(estimator, "steps", None)
    return name_of(steps[-1][1]) if steps else type(estimator).__name__


def kind_of(estimator: Any) -> str | None:
    """Return "classifier" or "regressor"; None if unknown."""
    base = _base()
    try:
        return "classifier" if base.is_classifier(estimator) else "regressor" if base.is_regressor(estimator) else None
    except AttributeError:  # not derived from scikit-learn's base class
        return None


def fit_weighted(estimator: Any, features: FloatArray, targets: NDArray[Any], weights: FloatArray) -> FittedEstimator:
    """Return a clone fitted to features (n, d) and targets (n,) with positive weights (n,).

    Equal weights are not passed on. For an estimator that takes no weights, each example is repeated in proportion to
    its weight, to rounding. Equal targets give a constant predictor.
    """
    given: dict[str, FloatArray] = {}
    if (weights != weights[0]).any():
        argument = _weight_argument(estimator)
        if argument is None:
            rows = _copies(weights)
            features, targets = features[rows], targets[rows]
        else:
            given[argument] = weights
    if (targets == targets[0]).all():
        return SameForAll(float(targets[0]))
    own = _base().clone(estimator)
    with _told(own, doing=f"be fitted to {len(targets)} examples"):
        own.fit(features, targets, **given)
    return own


def predict_labels(fitted: FittedEstimator, features: FloatArray, *, below: int) -> IntArray:
    """Return labels (n,) in [0, below)."""
    with _told(fitted, doing="predict"):
        labels = np.asarray(fitted.predict(features)).reshape(-1)
    return integers(labels, name=f"labels from {name_of(fitted)}", shape=(len(features),), below=below)


def predict_numbers(fitted: FittedEstimator, features: FloatArray) -> FloatArray:
    """Return numeric predictions (n,)."""
    with _told(fitted, doing="predict"):
        numbers = np.asarray(fitted.predict(features)).reshape(-1)
    return floats(numbers, name=f"predictions of {name_of(fitted)}", shape=(len(features),))


def _base() -> Any:
    try:
        import_module("sklearn")
        return import_module("sklearn.base")
    except ImportError:
        raise InputError(
            "a policy class of learned policies needs scikit-learn; pip install 'pacbandits[learn]'"
        ) from None


def _weight_argument(estimator: Any) -> str | None:
    """Return the argument of `fit` for the weights of examples; a pipeline passes them to its last step."""
    if "sample_weight" in inspect.signature(estimator.fit).parameters:
        return "sample_weight"
    steps = getattr(estimator, "steps", None)
    if not steps:
        return None
    name, last = steps[-1]
    inner = _weight_argument(last)
    return None if inner is None else f"{name}__{inner}"


def _copies(weights: FloatArray) -> IntArray:
    """Return the indices of repeated examples; each occurs in proportion to its weight, to within one."""
    ends = np.floor(np.cumsum(weights) / weights.sum() * (AVERAGE_COPIES * len(weights)) + 0.5).astype(np.int64)
    return np.repeat(np.arange(len(weights)), np.diff(ends, prepend=0))


@contextmanager
def _told(estimator: object, *, doing: str) -> Generator[None]:
    """Turn a ValueError of an estimator into an InputError."""
    try:
        yield
    except ValueError as error:
        raise InputError(f"{name_of(estimator)} could not {doing}: {plain(error)}") from error


# Descriptions of small fitted decision trees, in the form of `TreePolicy`.


MOST_SHOWN_LEAVES = 8


def words_of_tree(fitted: FittedEstimator, actions: IntArray, columns: ColumnMeanings) -> str | None:
    """Describe a fitted decision tree classifier; None for a large tree or another estimator.

    actions (k,): the action of each label.
    """
    tree = getattr(fitted, "tree_", None)
    if tree is None or int(tree.n_leaves) > MOST_SHOWN_LEAVES:
        return None
    return TreePolicy(root=_node(tree, 0, actions, columns), n_actions=int(actions.max()) + 1).describe()


def _node(tree: Any, place: int, actions: IntArray, columns: ColumnMeanings) -> Node:
    """Return the node at an index of scikit-learn's tree arrays."""
    if tree.children_left[place] < 0:
        return int(actions[int(np.argmax(tree.value[place, 0]))])
    low, high = (_node(tree, int(side[place]), actions, columns) for side in (tree.children_left, tree.children_right))
    name, label = columns[int(tree.feature[place])]
    if label is None:
        return branch(AtMost(name, float(tree.threshold[place])), low, high)
    return branch(Is(name, label), high, low)


# Rows whose largest gain is a smaller share of the largest of all are left out: their gains may be rounding.
LEAST_STAKE_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class LearningTask:
    """The examples of a learning problem.

    features (m, d): distinct rows.
    gains (m, A): the scores summed over the contexts of a row, minus the row's minimum, divided by the largest of all.
    counts (m,): the number of contexts of each row.
    """

    features: FloatArray
    gains: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, features: FloatArray, which: IntArray, scores: FloatArray) -> LearningTask:
        """Make a task from the row (n,) of each context and the scores (n, A); rows without gains are left out."""
        # Scores are scaled by a power of two, which is exact.
        _, exponent = np.frexp(np.abs(scores).max())
        sums = sum_by_id(which, np.ldexp(scores, -exponent), n=len(features))
        gains = sums - sums.min(axis=1, keepdims=True)
        stakes = gains.max(axis=1)
        kept = stakes > LEAST_STAKE_SHARE * stakes.max()
        counts = np.bincount(which, minlength=len(features)).astype(np.float64)
        return cls(features[kept], gains[kept] / (stakes.max() or 1.0), counts[kept])

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n_actions(self) -> int:
        return self.gains.shape[1]

    def value(self, actions: IntArray) -> float:
        """Return the total gain of actions (m,) over the worst actions."""
        return float(self.gains[np.arange(len(self)), actions].sum())


class Rule(Protocol):
    """A map from encoded features to actions."""

    def __call__(self, features: FloatArray) -> IntArray:
        """Return the action (n,) for each row of features (n, d)."""
        ...

    def describe(self, name: str, columns: ColumnMeanings | None) -> str:
        """Describe the rule in words. name: of the estimator. columns: the meaning of the features, if known."""
        ...


@dataclass(frozen=True, eq=False)
class Largest:
    """The rule that takes the action of largest prediction; ties go to the first.

    fitted (A,): one regressor for each action.
    """

    fitted: tuple[FittedEstimator, ...]

    def __call__(self, features: FloatArray) -> IntArray:
        return np.argmax([predict_numbers(own, features) for own in self.fitted], axis=0)

    def describe(self, name: str, columns: ColumnMeanings | None) -> str:
        return f"the action with the largest of {len(self.fitted)} predictions, one {name} an action"


@dataclass(frozen=True, eq=False)
class Label:
    """The rule that takes the action predicted by one classifier; a small tree is described line by line.

    fitted: the classifier.
    actions (k,): the action of each label.
    """

    fitted: FittedEstimator
    actions: IntArray

    def __call__(self, features: FloatArray) -> IntArray:
        return self.actions[predict_labels(self.fitted, features, below=len(self.actions))]

    def describe(self, name: str, columns: ColumnMeanings | None) -> str:
        words = None if columns is None else words_of_tree(self.fitted, self.actions, columns)
        return f"the action that one {name} predicts" if words is None else words


@dataclass(frozen=True, eq=False)
class Votes:
    """The rule that takes the action that wins most pairs; ties go to the first.

    fitted: a classifier for each pair of actions, in the order of `itertools.combinations`; label 1 is the second.
    n_actions: the number of actions.
    """

    fitted: tuple[FittedEstimator, ...]
    n_actions: int

    def __call__(self, features: FloatArray) -> IntArray:
        wins = np.zeros((len(features), self.n_actions), dtype=np.int64)
        for (first, second), own in zip(combinations(range(self.n_actions), 2), self.fitted, strict=True):
            labels = predict_labels(own, features, below=2)
            wins[:, first] += 1 - labels
            wins[:, second] += labels
        return np.argmax(wins, axis=1)

    def describe(self, name: str, columns: ColumnMeanings | None) -> str:
        pairs = len(self.fitted)
        return f"the action that wins most of {pairs} pair{'s' if pairs > 1 else ''}, one {name} a pair of actions"


def by_regression(estimator: Any, task: LearningTask) -> list[Rule]:
    """Fit one regressor for each action, twice: to mean gains, weighted by counts, and to relative gains, by stakes.

        Σ_i w_i (f_a(x_i) − S_{i,a}/w_i)²,     S the gains minus their mean in the row

    For any weights w shared by the actions, the best f_a is E[S_a|x]/E[w|x], whose argmax over a is that of E[S_a|x].
    w = counts fits the rows as they were given, and finds a linear score if there is one. With w = stakes, the largest
    gain of the row, a context that occurs twice counts like one whose scores are twice as large.
    """
    centred = task.gains - task.gains.mean(axis=1, keepdims=True)
    rules: list[Rule] = []
    for weights in (task.counts, task.gains.max(axis=1)):
        targets = centred / weights[:, None]
        targets = targets / np.abs(targets).max()
        even = _mean_one(weights, len(task))
        rules.append(Largest(tuple(fit_weighted(estimator, task.features, column, even) for column in targets.T)))
    return rules


def by_classification(estimator: Any, task: LearningTask) -> list[Rule]:
    """Fit one classifier of actions to an example for each row and action, weighted by the gain of that action.

    The total weight of correctly classified examples is then the gain of the policy, for any number of actions
    [Abe2004]. With two actions, only the better one has a weight, the difference. With more, most examples contradict
    each other, which weak classifiers cannot resolve: so there is a second fit, to the actions above the median
    of their row only, weighted by the excess over the median.
    """
    weightings = [task.gains]
    if task.n_actions > 2:
        weightings.append(np.maximum(task.gains - np.median(task.gains, axis=1, keepdims=True), 0.0))
    return [_classifier(estimator, task, weights) for weights in weightings if weights.any()]


def _classifier(estimator: Any, task: LearningTask, weights: FloatArray) -> Rule:
    """Fit one classifier to an example for each positive weight (m, A)."""
    rows, actions = np.nonzero(weights)
    labels, codes = np.unique(actions, return_inverse=True)
    even = _mean_one(weights[rows, actions], len(task))
    return Label(fit_weighted(estimator, task.features[rows], codes.reshape(-1), even), labels)


def by_pairs(estimator: Any, task: LearningTask) -> list[Rule]:
    """Fit a classifier of the better action for each pair of actions, weighted by their difference [Lin2014].

    In every row the vote loses at most the weight of the misclassified pairs there. (Take a level between the gain of
    the best action and that of the elected one. If every action above it beat every action below, one above would have
    more wins than the elected one, which is below: so at each level there is a wrong pair on either side of it.)
    """
    fitted: list[FittedEstimator] = []
    for first, second in combinations(range(task.n_actions), 2):
        lead = task.gains[:, second] - task.gains[:, first]
        rows = np.flatnonzero(lead)
        if len(rows) == 0:
            fitted.append(SameForAll(0))
            continue
        labels = (lead[rows] > 0).astype(np.int64)
        fitted.append(fit_weighted(estimator, task.features[rows], labels, _mean_one(np.abs(lead[rows]), len(rows))))
    return [Votes(tuple(fitted), task.n_actions)]


REDUCTIONS: dict[str, Callable[[Any, LearningTask], list[Rule]]] = {
    "regression": by_regression,
    "classification": by_classification,
    "pairs": by_pairs,
}
ESTIMATOR_KINDS = {"regression": "regressor", "classification": "classifier", "pairs": "classifier"}


def _mean_one(weights: FloatArray, rows: int) -> FloatArray:
    """Scale weights to sum to the number of rows, to which an estimator's regularisation is calibrated."""
    return weights * (rows / weights.sum())

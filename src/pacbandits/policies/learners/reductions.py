"""From an argmax over policies to what estimators do: three reductions.

All start from a `LearningTask`: one row a distinct context, with the gain of each action over the worst action there.
Only gains count, so a constant added to a row of scores changes nothing, and neither does a positive factor of all
scores.
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
from pacbandits.records import Contexts
from pacbandits.records.columns import present_numbers

# Contexts as the numbers that an estimator is given.


Encode = Callable[[Contexts], FloatArray]
ColumnMeanings = tuple[tuple[str, str | None], ...]  # of each column the feature, and the label that it stands for


@runtime_checkable
class MeaningfulEncoder(Protocol):
    """An encoder that says what its columns are.

    column_meanings (d',): the feature of each column, and the label that it stands for; None for a number.
    """

    @property
    def column_meanings(self) -> ColumnMeanings: ...

    def __call__(self, contexts: Contexts) -> FloatArray: ...


@dataclass(frozen=True)
class OneHot:
    """Numbers as they are, and for a category one column a label: 1 where it has that label, else 0.

    names (d,): the features, which are found by name on any contexts.
    labels (d,): of the categories, None for a number. A label not among them is 0 in every column.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...] | None, ...]

    @classmethod
    def learn(cls, contexts: Contexts) -> OneHot:
        """The features and labels that these contexts have."""
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
        """The columns (n, d')."""
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
    """What `encode` makes of contexts: finite, one row a context, at least one column; or a sentence."""
    columns = floats(encode(contexts), name="what encode returns", shape=(len(contexts), None))
    if columns.shape[1] == 0:
        raise InputError("encode returns no columns, so an estimator has nothing to learn from; return at least one")
    return columns


# What is asked of an estimator: to be cloned, to be fitted to weighted examples, to predict.
#
# scikit-learn enters through this module alone, and only when it is called.


AVERAGE_COPIES = 4  # of an example, where an estimator takes no weights


class FittedEstimator(Protocol):
    """A fitted estimator."""

    def predict(self, features: FloatArray, /) -> NDArray[Any]:
        """A label or a number for each row of features (n, d)."""
        ...


@dataclass(frozen=True)
class SameForAll:
    """Predicts one value, where there is nothing to learn.

    value: what it predicts.
    """

    value: float

    def predict(self, features: FloatArray, /) -> NDArray[Any]:
        return np.full(len(features), self.value)


def prepared(estimator: Any) -> Any:
    """An unfitted copy whose fits can be repeated: a random_state that is None, also of a part, becomes 0."""
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
    """The name of its class; of a pipeline, of its last step."""
    steps = getattr(estimator, "steps", None)
    return name_of(steps[-1][1]) if steps else type(estimator).__name__


def kind_of(estimator: Any) -> str | None:
    """classifier or regressor; None for one that does not say."""
    base = _base()
    try:
        return "classifier" if base.is_classifier(estimator) else "regressor" if base.is_regressor(estimator) else None
    except AttributeError:  # not derived from scikit-learn's base class
        return None


def fit_weighted(estimator: Any, features: FloatArray, targets: NDArray[Any], weights: FloatArray) -> FittedEstimator:
    """A clone fitted to features (n, d) and targets (n,) of positive weights (n,).

    Equal weights are left out. An estimator that takes no weights is given each example as many times as its weight
    asks, to rounding. Targets that are all the same need no estimator.
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
    """Labels (n,) in [0, below)."""
    with _told(fitted, doing="predict"):
        labels = np.asarray(fitted.predict(features)).reshape(-1)
    return integers(labels, name=f"labels from {name_of(fitted)}", shape=(len(features),), below=below)


def predict_numbers(fitted: FittedEstimator, features: FloatArray) -> FloatArray:
    """Numbers (n,)."""
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
    """The name by which `fit` takes the weights of examples; a pipeline hands them to its last step."""
    if "sample_weight" in inspect.signature(estimator.fit).parameters:
        return "sample_weight"
    steps = getattr(estimator, "steps", None)
    if not steps:
        return None
    name, last = steps[-1]
    inner = _weight_argument(last)
    return None if inner is None else f"{name}__{inner}"


def _copies(weights: FloatArray) -> IntArray:
    """Which examples to give, so that each comes as often as its share of the weights says, to one more or less."""
    ends = np.floor(np.cumsum(weights) / weights.sum() * (AVERAGE_COPIES * len(weights)) + 0.5).astype(np.int64)
    return np.repeat(np.arange(len(weights)), np.diff(ends, prepend=0))


@contextmanager
def _told(estimator: object, *, doing: str) -> Generator[None]:
    """A sentence in the place of what an estimator raises when it cannot use its examples."""
    try:
        yield
    except ValueError as error:
        raise InputError(f"{name_of(estimator)} could not {doing}: {plain(error)}") from error


# A small fitted decision tree in the words of `TreePolicy`.


MOST_SHOWN_LEAVES = 8


def words_of_tree(fitted: FittedEstimator, actions: IntArray, columns: ColumnMeanings) -> str | None:
    """The tree of a fitted decision tree classifier; None for a large one, or for another estimator.

    actions (k,): what its labels stand for.
    """
    tree = getattr(fitted, "tree_", None)
    if tree is None or int(tree.n_leaves) > MOST_SHOWN_LEAVES:
        return None
    return TreePolicy(root=_node(tree, 0, actions, columns), n_actions=int(actions.max()) + 1).describe()


def _node(tree: Any, place: int, actions: IntArray, columns: ColumnMeanings) -> Node:
    """The node at a place of the arrays that scikit-learn keeps a tree in."""
    if tree.children_left[place] < 0:
        return int(actions[int(np.argmax(tree.value[place, 0]))])
    low, high = (_node(tree, int(side[place]), actions, columns) for side in (tree.children_left, tree.children_right))
    name, label = columns[int(tree.feature[place])]
    if label is None:
        return branch(AtMost(name, float(tree.threshold[place])), low, high)
    return branch(Is(name, label), high, low)


# A row with less at stake, as a share of the largest stake, is left out: its gains may be rounding.
LEAST_STAKE_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class LearningTask:
    """What is to be learned.

    features (m, d): distinct rows.
    gains (m, A): the row's scores less their least, added up over the contexts of the row, in units of the largest.
    counts (m,): how many contexts the row stands for.
    """

    features: FloatArray
    gains: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, features: FloatArray, which: IntArray, scores: FloatArray) -> LearningTask:
        """From the row (n,) that each context is, and the contexts' scores (n, A); without rows that tell nothing."""
        # Scores are brought into range by a power of two, which rounds nothing.
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
        """What actions (m,) gain over the worst."""
        return float(self.gains[np.arange(len(self)), actions].sum())


class Rule(Protocol):
    """Actions from encoded features."""

    def __call__(self, features: FloatArray) -> IntArray:
        """The action (n,) for each row of features (n, d)."""
        ...

    def describe(self, name: str, columns: ColumnMeanings | None) -> str:
        """What it does, in words. name: of the estimator. columns: what the features are, if that is known."""
        ...


@dataclass(frozen=True, eq=False)
class Largest:
    """The action of the largest prediction, the first of equals.

    fitted (A,): one regressor an action.
    """

    fitted: tuple[FittedEstimator, ...]

    def __call__(self, features: FloatArray) -> IntArray:
        return np.argmax([predict_numbers(own, features) for own in self.fitted], axis=0)

    def describe(self, name: str, columns: ColumnMeanings | None) -> str:
        return f"the action with the largest of {len(self.fitted)} predictions, one {name} an action"


@dataclass(frozen=True, eq=False)
class Label:
    """The action that one classifier predicts; a small tree is told line by line.

    fitted: the classifier.
    actions (k,): what its labels stand for.
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
    """The action that wins most pairs, the first of equals.

    fitted: a classifier for each pair of actions, in the order of `itertools.combinations`; label 1 is the second.
    n_actions: how many actions there are.
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
    """One regressor an action, fitted twice: to what a context gains, and to what it gains for what is at stake there.

        Σ_i w_i (f_a(x_i) − S_{i,a}/w_i)²,     S the gains less their mean in the row

    For any weights w that the actions share, the best f_a is E[S_a|x]/E[w|x], whose argmax over a is that of E[S_a|x].
    w = counts fits the rows as they were given, and finds a linear score if there is one; w = stakes, the largest gain
    of the row, makes nothing of whether a context comes twice or its scores are twice as large.
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
    """One classifier of actions, from an example for each row and action, weighted by the gain of that action.

    The weight of the examples that a classifier gets right is then the gain of the policy, for any number of actions
    [Abe2004]. Of two actions, the better alone has a weight, which is the difference. Of more, most examples contradict
    each other, and classifiers that are not sure of themselves drown in them: so there is a second fit, to the actions
    above the median of their row alone, weighted by how far they are above it.
    """
    weightings = [task.gains]
    if task.n_actions > 2:
        weightings.append(np.maximum(task.gains - np.median(task.gains, axis=1, keepdims=True), 0.0))
    return [_classifier(estimator, task, weights) for weights in weightings if weights.any()]


def _classifier(estimator: Any, task: LearningTask, weights: FloatArray) -> Rule:
    """One classifier, from an example for each positive weight (m, A)."""
    rows, actions = np.nonzero(weights)
    labels, codes = np.unique(actions, return_inverse=True)
    even = _mean_one(weights[rows, actions], len(task))
    return Label(fit_weighted(estimator, task.features[rows], codes.reshape(-1), even), labels)


def by_pairs(estimator: Any, task: LearningTask) -> list[Rule]:
    """A classifier for each pair of actions, which says the better one, weighted by their difference [Lin2014].

    In every row the votes lose at most the weight of the pairs decided wrongly there. (Take a level between the gain of
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
    """Weights that sum to the number of rows, as an estimator's own regularisation is set against those."""
    return weights * (rows / weights.sum())

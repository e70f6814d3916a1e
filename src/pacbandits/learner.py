"""`PolicyLearner`: certify with the methods of a scikit-learn estimator, for pipelines and cross-validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from pacbandits.analysis import Result, certify, evaluate
from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate import LearntClass
from pacbandits.certificate.certify import DEFAULT_CLASS, DEFAULT_DELTA
from pacbandits.errors import InputError, nearest, plain
from pacbandits.exports.rules import inputs_of
from pacbandits.logs.customers import customers_of
from pacbandits.logs.log_table import PROPENSITY_PREFIX, is_own
from pacbandits.logs.raw_log import UNIFORM, parse_split
from pacbandits.logs.readers import arrow_table, log_of
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Log, parquet
from pacbandits.records.columns import pa

if TYPE_CHECKING:  # scikit-learn has no types

    class BaseEstimator:
        """The base of all estimators."""

        def __sklearn_tags__(self) -> Any: ...

    def check_is_fitted(estimator: object) -> None: ...
    def check_consistent_length(*arrays: object) -> None: ...
    def column_or_1d(y: object) -> Any: ...
    def validate_data(estimator: object, X: object, **options: object) -> Any: ...

    UNUSED = ""
else:
    try:
        BaseEstimator = import_module("sklearn.base").BaseEstimator
        UNUSED = import_module("sklearn.utils.metadata_routing").UNUSED
        validation = import_module("sklearn.utils.validation")
        check_is_fitted, validate_data = validation.check_is_fitted, validation.validate_data
        check_consistent_length, column_or_1d = validation.check_consistent_length, validation.column_or_1d
    except (ImportError, AttributeError):
        raise InputError("PolicyLearner needs scikit-learn 1.6 or newer; pip install 'pacbandits[learn]'") from None


class PolicyLearner(BaseEstimator):
    """Find the best policy of a class from a log, and prove how good it is, as an estimator of scikit-learn.

    policies: the class to search: a name such as "trees:depth=2", or a class that was fixed before the log was seen.
    split: the probabilities of actions, if they were the same for everybody: "uniform", or {"a": 0.4, "b": 0.6}; else
        pass `propensity` to `fit`.
    epsilon, delta, control, reward_range, clip, least_propensity, ordered, shuffle: as for `certify`.
    single: certify a single policy, so that `predict` is a function of the row. With False the result may be a mixture
        policy, which needs fewer rows if the class is large; `predict` then draws from `predict_proba`.
    random_state: the seed of these draws.

    After `fit`: result_, what `certify` returns; classes_, the actions; n_features_in_; feature_names_in_, if X has
    names. Every column of X is a feature: of numbers, labels, dates; numbers and labels may be missing.

    >>> import numpy as np
    >>> import pacbandits as pb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((3000, 2))
    >>> action = rng.choice(["call", "mail"], size=3000)
    >>> reward = rng.random(3000) < np.where((action == "call") == (X[:, 0] > 0.5), 0.9, 0.1)
    >>> learner = pb.PolicyLearner("trees:depth=1", split="uniform").fit(X, action, reward)
    >>> learner.predict([[0.1, 0.5], [0.9, 0.5]]).tolist()
    ['mail', 'call']
    >>> learner.result_.verify().good
    True
    """

    __metadata_request__fit = {"action": UNUSED}  # noqa: RUF012 - the second argument, y elsewhere, is passed by place
    __metadata_request__score = {"action": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        policies: PolicyClass | LearntClass | str = DEFAULT_CLASS,
        *,
        split: str | Mapping[Any, float] | None = None,
        epsilon: float | None = None,
        delta: float = DEFAULT_DELTA,
        control: object = None,
        reward_range: tuple[float, float] | None = None,
        clip: bool = False,
        least_propensity: float | None = None,
        ordered: bool = False,
        shuffle: bool = False,
        single: bool = True,
        random_state: int = 0,
    ) -> None:
        self.policies = policies
        self.split = split
        self.epsilon = epsilon
        self.delta = delta
        self.control = control
        self.reward_range = reward_range
        self.clip = clip
        self.least_propensity = least_propensity
        self.ordered = ordered
        self.shuffle = shuffle
        self.single = single
        self.random_state = random_state

    result_: Result
    classes_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, action: Any, reward: Any = None, *, propensity: Any = None, unit: Any = None) -> Self:
        """Certify the best policy.

        X (n, d): the features, as a data frame or an array.
        action (n,): the action of each row, as names or numbers. reward (n,): its reward.
        propensity (n,): the probability of that action; or (n, A), of every action in the order of their sorted names;
            or one number, if it was the same in all rows. Needed without `split`.
        unit (n,): identifies users who may return.
        """
        table = self._table(X, reset=True)
        if action is None:
            raise InputError("fit requires y to be passed, but the target y is None; pass the action of each row")
        played = _labels(action)
        self.classes_ = np.unique(self._with_named(played))
        log = self._log(table, played, reward, propensity, unit)
        self.result_ = certify(
            log,
            self.policies,
            epsilon=self.epsilon,
            delta=self.delta,
            control=None if self.control is None else str(self.control),
            ordered=self.ordered,
            shuffle=self.shuffle,
            single=self.single,
        )
        return self

    def _with_named(self, played: Any) -> Any:
        """Return the actions played, and those that the split names."""
        if not isinstance(self.split, Mapping) or not self.split:
            return played
        named = np.array(list(self.split), dtype=object if played.dtype.kind == "O" else None)
        both: Any = np.concatenate([played, named])
        if both.dtype.kind != played.dtype.kind:
            raise InputError(f"split names '{plain(named[0])}' and an action is {plain(played[0])}, of another type")
        return both

    def predict(self, X: Any) -> Any:
        """Return the action of each row (n,), as `fit` was given it."""
        contexts = self._contexts(X)
        return self.classes_[self.result_.policy.decide(contexts, seed=self.random_state)[0]]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each action (n, A), in the order of `classes_`: 0 and 1 if the policy is single."""
        contexts = self._contexts(X)
        return self.result_.policy.propensities(contexts)

    def score(self, X: Any, action: Any, reward: Any = None, *, propensity: Any = None, unit: Any = None) -> float:
        """Return the estimated mean reward of the policy by another log, doubly robust; arguments as for `fit`.

        On the log of `fit` it flatters the policy; `result_.worth` has intervals that allow for that.
        """
        check_is_fitted(self)
        log = self._log(self._table(X, reset=False), _labels(action), reward, propensity, unit)
        worth = evaluate(log, self.result_.policy, delta=self.delta, ordered=self.ordered, shuffle=self.shuffle)
        assert worth is not None  # which is for a certificate's own log
        return float(worth.value.estimate)

    def _contexts(self, X: Any) -> Contexts:
        """Return the contexts of rows to decide about, with the columns that the policy needs."""
        check_is_fitted(self)
        table, policy = self._table(X, reset=False), self.result_.policy
        if inputs_of(policy.chosen) is not None:
            return customers_of(table, policy.asked).contexts
        read = parquet.table_of(table, name="X")
        return Contexts.from_columns(read.columns, n=read.n_rows)

    def _table(self, X: Any, *, reset: bool) -> Any:
        """Return X as an Arrow table; reset: whether these are the columns to fit on, or must be the same."""
        if type(X).__module__.startswith("scipy.sparse"):
            raise TypeError("Sparse data was passed, but PolicyLearner needs a dense X; pass X.toarray()")
        framed = hasattr(X, "__arrow_c_stream__")
        options = {"skip_check_array": True} if framed else {"dtype": None, "ensure_all_finite": "allow-nan"}
        checked = validate_data(self, X, reset=reset, **options)
        width = getattr(self, "n_features_in_", 0)
        names = [*getattr(self, "feature_names_in_", (f"x{j}" for j in range(width)))]
        if taken := [name for name in names if is_own(name)]:
            raise InputError(f"column '{plain(taken[0])}' of X has a name that a log keeps for itself; rename it")
        if not framed:
            return pa.table([_column(checked[:, j]) for j in range(width)], names=names)
        try:
            table = arrow_table(X)
        except pa.ArrowException as error:
            raise InputError(f"X cannot be read as an Arrow table: {plain(error)}; convert its columns") from None
        # pandas appends its index as a column.
        return pa.table(table.columns[:width], names=names)

    def _log(self, table: Any, played: Any, reward: Any, propensity: Any, unit: Any) -> Log:
        """Return the log of these rows, whose actions are those of `classes_`."""
        actions = self.classes_
        if reward is None:
            raise InputError("the rewards are missing; pass them after the actions: fit(X, action, reward, …)")
        rewards = column_or_1d(reward)
        if isinstance(propensity, float | int):
            propensity = np.full(len(played), float(propensity))
        check_consistent_length(table, played, rewards, *(given for given in (propensity, unit) if given is not None))
        codes = cast(IntArray, np.searchsorted(actions, played))
        codes[codes == len(actions)] = 0
        strange: Any = actions[codes] != played
        if strange.any():
            first = played[strange.argmax()]
            raise InputError(
                f"the action '{plain(first)}' is not among those of fit{nearest(str(first), map(str, actions))}"
            )
        names = tuple(map(str, actions))
        columns = {"action": pa.array(codes), "reward": _column(rewards)}
        columns |= self._propensities(propensity, n=len(codes), names=names)
        features = list(table.column_names)
        user = next(name for name in (f"{'_' * k}unit" for k in range(len(features) + 1)) if name not in features)
        columns |= {} if unit is None else {user: _column(_labels(unit, name="unit"))}
        for name, column in columns.items():
            table = table.append_column(name, column)
        log = log_of(
            table,
            features=features,
            unit=None if unit is None else user,
            n_actions=len(actions),
            reward_range=self.reward_range,
            clip=self.clip,
            least_propensity=self.least_propensity,
        )
        return replace(log, action_names=names)

    def _propensities(self, propensity: Any, *, n: int, names: tuple[str, ...]) -> dict[str, Any]:
        """Return the columns of propensities of n rows."""
        if (propensity is None) == (self.split is None):
            word = "both were given; leave one out" if propensity is not None else "neither was given"
            raise InputError(f"the probabilities of actions are told by fit(…, propensity=…) or by split=…; {word}")
        if self.split is not None:
            spelt = self.split
            if isinstance(spelt, Mapping):
                spelt = ",".join(f"{name}={share}" for name, share in spelt.items())
            elif not isinstance(cast(object, spelt), str) or spelt != UNIFORM:
                example = "{'a': 0.4, 'b': 0.6}"
                raise InputError(f"split must be 'uniform' or a dict such as {example}, got '{plain(spelt)}'")
            shares, _ = parse_split(spelt, n_actions=len(names), names=names)
            given = np.tile(shares, (n, 1))
        else:
            given = np.asarray(propensity, dtype=np.float64)
        if given.ndim == 1:
            return {"propensity": pa.array(given)}
        if given.ndim != 2 or given.shape[1] != len(names):
            raise InputError(
                f"propensity has the shape {given.shape}; it must be ({n},), of the actions played, or "
                f"({n}, {len(names)}), of {plain(', '.join(names))}"
            )
        return {f"{PROPENSITY_PREFIX}{k}": pa.array(np.ascontiguousarray(given[:, k])) for k in range(len(names))}


def _labels(given: Any, *, name: str = "action") -> Any:
    """Return labels (n,) that can be sorted; raise InputError if one is missing or their types are mixed."""
    labels = column_or_1d(given)
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise InputError(f"row {int((~np.isfinite(labels)).argmax())} has no {name}; fill it in, or leave the row out")
    if labels.dtype.kind == "O":
        kinds = sorted({str(type(label).__name__) for label in labels})
        if len(kinds) > 1:
            shown = " and ".join(kinds)
            raise InputError(f"the values of {name} must be of one type, got {shown}; convert them to text")
    return labels


def _column(values: Any) -> Any:
    """Return an array (n,) as an Arrow column: of numbers where it can be, else of text."""
    if values.dtype.kind != "O":
        return pa.array(np.ascontiguousarray(values))
    try:
        return pa.array(values.astype(np.float64))
    except (TypeError, ValueError):
        missing = (value is None or value != value for value in values)
        return pa.array([None if lost else str(value) for value, lost in zip(values, missing, strict=True)])

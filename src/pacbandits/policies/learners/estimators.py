"""What is asked of an estimator: to be cloned, to be fitted to weighted examples, to predict.

scikit-learn enters through this module alone, and only when it is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray, floats, integers
from pacbandits.errors import InputError, plain

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

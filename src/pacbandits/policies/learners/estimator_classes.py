"""Policy classes made from scikit-learn estimators."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, NoReturn

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import function, positive, texts
from pacbandits.errors import InputError, nearest, plain
from pacbandits.policies.base import PerContexts, PolicyClass, check_n_actions, check_scores
from pacbandits.policies.learners.reductions import (
    ESTIMATOR_KINDS,
    REDUCTIONS,
    Encode,
    LearningTask,
    MeaningfulEncoder,
    OneHot,
    Rule,
    encoded,
    kind_of,
    name_of,
    prepared,
)
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.records.contexts import Contexts
from pacbandits.records.policy import Policy

# Values this close, relative to the sum of all gains, count as equal, as in the search for trees.
GAIN_TIE_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class LearnedPolicy:
    """A policy learned by an estimator.

    rule: the fitted estimators and how their predictions become actions.
    encode: makes features of contexts.
    n_actions: the number of actions.
    name: the estimator's class name.
    """

    rule: Rule
    encode: Encode
    n_actions: int
    name: str

    kind = "learned"

    def __call__(self, contexts: Contexts) -> IntArray:
        return self.rule(encoded(self.encode, contexts))

    def describe(self) -> str:
        """Describe a small tree line by line, anything else in a sentence."""
        columns = self.encode.column_meanings if isinstance(self.encode, MeaningfulEncoder) else None
        return self.rule.describe(self.name, columns)

    def to_json(self) -> NoReturn:
        raise InputError(
            f"a policy learned by {self.name} has no form in JSON, as no code is ever loaded from a file; keep the "
            "data and learn it again, or use Trees"
        )


class Learned(PolicyClass):
    """The class of policies that an estimator can learn, and all constant policies.

    estimator: an unfitted scikit-learn classifier or regressor (`get_params`, `fit`, `predict`), or a pipeline that
        ends in one. It is cloned, and a random_state of None becomes 0: the same scores give the same policy.
    reduction: regression (for regressors), classification or pairs (for classifiers), or several in a tuple; see
        `reductions`.
    log_size: log|Π|, which an estimator does not reveal: count the policies it can return over all scores
        (docs/learners.md says how). Without it the class has no size: `coda`, `uniform` and sequential logs can still
        be certified, but nothing that needs a union bound over all policies.
    encode: makes features (n, d) of contexts; by default `OneHot` learnt from the contexts of the call.

    `argmax` returns the policy of largest total score among those learned by each reduction and the constant policies.
    It is not exact: a better policy of the same kind may exist.
    """

    exact = False

    def __init__(
        self,
        estimator: Any,
        *,
        n_actions: int,
        reduction: str | tuple[str, ...],
        log_size: float | None = None,
        encode: Encode | None = None,
    ) -> None:
        self.n_actions = check_n_actions(n_actions)
        self.log_size = inf if log_size is None else positive(log_size, name="log_size")
        if encode is not None:
            function(encode, name="encode")
        self.estimator = prepared(estimator)
        self.reductions = _checked(reduction, estimator)
        self.encode = encode
        self._rows: PerContexts[EncodedRows] = PerContexts()

    def describe(self) -> str:
        """Return the kind of policies in a few words."""
        return f"what {name_of(self.estimator)} learns"

    def to_json(self) -> NoReturn:
        """Raise InputError: the class has no JSON form."""
        raise InputError(
            f"the class of what {name_of(self.estimator)} learns has no form in JSON, as no code is ever loaded from a "
            "file; keep the data and learn again, or use Trees"
        )

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        """Return the best policy found; ties (to rounding) go to a constant policy, then to the first reduction."""
        scores = check_scores(scores, contexts=contexts, n_actions=self.n_actions)
        rows = self._rows.get(contexts, self._encoded)
        task = LearningTask.of(rows.features, rows.which, scores)
        totals = task.gains.sum(axis=0)
        action = int(np.argmax(totals >= totals.max() - GAIN_TIE_SHARE * totals.sum()))
        best: Policy = TreePolicy(root=action, n_actions=self.n_actions)
        value = float(totals.max())
        if len(task) == 0:
            return best
        for reduction in self.reductions:
            for rule in REDUCTIONS[reduction](self.estimator, task):
                found = task.value(rule(task.features))
                if found > value + GAIN_TIE_SHARE * float(totals.sum()):
                    best, value = LearnedPolicy(rule, rows.encode, self.n_actions, name_of(self.estimator)), found
        return best

    def _encoded(self, contexts: Contexts) -> EncodedRows:
        return EncodedRows.of(OneHot.learn(contexts) if self.encode is None else self.encode, contexts)


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Encoded contexts.

    Rows are in a fixed random order that does not depend on the order of the contexts, for estimators that hold out
    some rows.

    encode: the encoder that made the rows.
    features (m, d): the distinct rows.
    which (n,): the row of each context.
    """

    encode: Encode
    features: FloatArray
    which: IntArray

    @classmethod
    def of(cls, encode: Encode, contexts: Contexts) -> EncodedRows:
        columns = encoded(encode, contexts)
        distinct, which = np.unique(columns, axis=0, return_inverse=True)
        mixed = np.random.default_rng(0).permutation(len(distinct))
        return cls(encode, distinct[mixed], np.argsort(mixed)[which.reshape(-1)])


def _checked(reduction: str | tuple[str, ...], estimator: Any) -> tuple[str, ...]:
    """Return the names of the reductions; raise InputError if one is unknown or the estimator is of the wrong kind."""
    names = (reduction,) if isinstance(reduction, str) else tuple(dict.fromkeys(texts(reduction, name="reduction")))
    if not names:
        raise InputError(f"at least one reduction is needed, of {', '.join(REDUCTIONS)}")
    kind = kind_of(estimator)
    for name in names:
        if name not in REDUCTIONS:
            raise InputError(f"unknown reduction '{plain(name)}'{nearest(str(name), REDUCTIONS)}")
        needed = ESTIMATOR_KINDS[name]
        if kind is not None and kind != needed:
            fitting = " or ".join(other for other, wanted in ESTIMATOR_KINDS.items() if wanted == kind)
            raise InputError(
                f"the reduction '{name}' needs a {needed}, and {name_of(estimator)} is a {kind}; use {fitting}"
            )
    return names

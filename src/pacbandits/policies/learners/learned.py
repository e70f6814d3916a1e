"""The policies that an estimator learns."""

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
from pacbandits.records import Contexts, Policy

# Values this close, relative to the sum of all gains, are taken for equal, as in the search for trees.
GAIN_TIE_SHARE = 1e-12


@dataclass(frozen=True, eq=False)
class LearnedPolicy:
    """A policy that an estimator learned.

    rule: what was fitted, and how its predictions become actions.
    encode: makes features of contexts.
    n_actions: how many actions there are.
    name: of the estimator.
    """

    rule: Rule
    encode: Encode
    n_actions: int
    name: str

    kind = "learned"

    def __call__(self, contexts: Contexts) -> IntArray:
        return self.rule(encoded(self.encode, contexts))

    def describe(self) -> str:
        """A small tree line by line, anything else in a sentence."""
        columns = self.encode.column_meanings if isinstance(self.encode, MeaningfulEncoder) else None
        return self.rule.describe(self.name, columns)

    def to_json(self) -> NoReturn:
        raise InputError(
            f"a policy learned by {self.name} has no form in JSON, as no code is ever loaded from a file; keep the "
            "data and learn it again, or use Trees"
        )


class Learned(PolicyClass):
    """The policies that an estimator can learn, and all constant ones.

    estimator: an unfitted classifier or regressor of scikit-learn's kind (`get_params`, `fit`, `predict`), or a
        pipeline that ends in one. It is cloned, and a random_state of None becomes 0: the same scores give the same
        policy.
    reduction: regression (for regressors), classification or pairs (for classifiers), or several in a tuple; see
        `reductions`.
    log_size: log|Π|, which cannot be read off an estimator: count what it can return, whatever the scores
        (docs/learners.md says how). Without it the class has no size: `coda`, `uniform` and logs in order are certified
        all the same, and what needs a union over all policies is not.
    encode: makes features (n, d) of contexts; by default `OneHot` of what the contexts of the call have.

    `argmax` takes the best, by its sum of scores, of what each reduction learned and of the constant policies. It is
    not exact: a better policy of the same kind may exist.
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
        """The kind of policies, in a few words."""
        return f"what {name_of(self.estimator)} learns"

    def to_json(self) -> NoReturn:
        """No form in JSON."""
        raise InputError(
            f"the class of what {name_of(self.estimator)} learns has no form in JSON, as no code is ever loaded from a "
            "file; keep the data and learn again, or use Trees"
        )

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        """The best policy found; of equals (to rounding) a constant one, then that of the first reduction."""
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
    """Contexts encoded.

    Rows stand in an order that is the same however the contexts come, and mixed, for estimators that hold out some.

    encode: what made the rows.
    features (m, d): the distinct rows.
    which (n,): the row that each context is.
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
    """The reductions by name, each one that the estimator is of a kind for."""
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

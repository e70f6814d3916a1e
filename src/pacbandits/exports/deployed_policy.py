"""A deployed policy: it returns action names on data frames, and action numbers on contexts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import whole_number
from pacbandits.errors import InputError
from pacbandits.exports.rules import inputs_of, written_actions
from pacbandits.logs.customers import CustomerFeatures, customers_of
from pacbandits.logs.readers import DataFrame
from pacbandits.records import Chosen, Contexts, Mixture, describe_chosen
from pacbandits.records.column_types import date_parts

ROWS_AT_ONCE = 100_000


@dataclass(frozen=True)
class DeployedPolicy:
    """A certified policy or mixture policy that acts on data frames of any library that supports Arrow.

    chosen: the policy itself.
    action_names (A,): the names of the actions; None if they are only numbered.
    dates: the columns of dates and times that features are made of.
    """

    chosen: Chosen
    action_names: tuple[str, ...] | None = None
    dates: tuple[str, ...] = ()

    @property
    def n_actions(self) -> int:
        return self.chosen.n_actions

    def __call__(self, rows: Contexts | DataFrame, *, seed: int = 0) -> Any:
        """Return the action of each row (n,): for a data frame its name, if it has one; for contexts its number.

        seed: of the draws of a mixture policy, one for each row. The same seed gives the same actions, here and with
            `pacbandits apply`; `propensities` gives their probabilities.
        """
        contexts = self._contexts(rows)
        actions = self.decide(contexts, seed=seed)[0]
        if isinstance(rows, Contexts):
            return actions
        names = written_actions(self.chosen, self.action_names)
        return np.array(names, dtype=object if self.action_names is not None else np.int64)[actions]

    def propensities(self, rows: Contexts | DataFrame) -> FloatArray:
        """Return the probability of each action (n, A), for the log."""
        contexts = self._contexts(rows)
        if isinstance(self.chosen, Mixture):
            return self.chosen.propensities(contexts)
        return np.eye(self.n_actions)[self.chosen(contexts)]

    def decide(
        self, contexts: Contexts, *, seed: int = 0, tell: Callable[[str], None] | None = None
    ) -> tuple[IntArray, FloatArray | None]:
        """Return the action (n,) of each context, and for a mixture policy the probability (n,) of that action.

        seed: of the draws. tell: receives progress messages.
        """
        n, policy = len(contexts), self.chosen
        actions, propensities = np.empty(n, dtype=np.int64), np.empty(n)
        draws = np.random.default_rng(whole_number(seed, name="seed", least=0)).random(n)
        for start in range(0, n, ROWS_AT_ONCE):
            if tell is not None:
                tell(f"deciding for row {start + 1:,} of {n:,}")
            rows = np.arange(start, min(n, start + ROWS_AT_ONCE))
            some = contexts.take(rows)
            if isinstance(policy, Mixture):
                actions[rows] = policy.play(some, draws=draws[rows])
                propensities[rows] = policy.propensities(some)[np.arange(len(rows)), actions[rows]]
            else:
                actions[rows] = policy(some)
        return actions, propensities if isinstance(policy, Mixture) else None

    def describe(self) -> str:
        """Describe the policy, with the names of actions if there are any."""
        return describe_chosen(self.chosen, self.action_names)

    def to_json(self) -> dict[str, Any]:
        """Serialise the policy itself to JSON-compatible values."""
        return self.chosen.to_json()

    @property
    def asked(self) -> CustomerFeatures:
        """The columns of a table that it needs; raise InputError if the policy does not declare them."""
        inputs = inputs_of(self.chosen)
        if inputs is None:
            raise InputError("the policy does not say what it asks about; call it on contexts from Python")
        return CustomerFeatures(inputs.numbers, inputs.labels, ids=inputs.ids, phi=inputs.phi, dates=self.dates)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs, if declared; for a feature made of a date, it and the date column."""
        inputs = inputs_of(self.chosen)
        features = () if inputs is None else (*inputs.numbers, *inputs.labels)
        made = date_parts(features, self.dates)
        return tuple(dict.fromkeys((*features, *(name for part in made.values() for name in part.columns))))

    def _contexts(self, rows: Contexts | DataFrame) -> Contexts:
        return rows if isinstance(rows, Contexts) else customers_of(rows, self.asked).contexts

"""Finite classes: an explicit table of actions, one row a policy, one column a context of a finite set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray, integers, read_only
from pacbandits.checks import texts
from pacbandits.compiled import cores, kernel, over_cores
from pacbandits.errors import InputError, plain
from pacbandits.fields import Fields
from pacbandits.policies.base import Frontier, PolicyClass, SearchCost, check_n_actions, check_scores, compact
from pacbandits.policies.decisions import DecisionRule, IdAmong, Inputs, RuleList
from pacbandits.policies.pareto import pareto
from pacbandits.records import Contexts, Policy
from pacbandits.records.naming import call

SECONDS_PER_ENTRY = 1e-9  # of a table, looked up and added
MOST_LISTED_CONTEXTS = 1_000  # in rules for other languages


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """An action for every element of a finite context set.

    table (n_contexts,): the actions.
    n_actions: how many actions there are.
    name: what the policy is called in words.
    """

    table: IntArray
    n_actions: int
    name: str = "table"

    kind = "table"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "table", integers(self.table, name="table of actions", shape=(None,), below=self.n_actions)
        )

    def __call__(self, contexts: Contexts) -> IntArray:
        return self.table[contexts.require_ids(below=len(self.table))]

    def describe(self) -> str:
        return self._words(None)

    def describe_with(self, actions: Sequence[str]) -> str:
        """The same, with the names of actions (A,) in the place of their numbers."""
        return self._words(actions)

    def _words(self, names: Sequence[str] | None) -> str:
        actions, counts = np.unique(self.table, return_counts=True)
        name = plain(self.name)
        if len(actions) == 1:
            return f"{name}: always {call(int(actions[0]), names)}"
        if len(self.table) <= 12:
            return f"{name}: " + ", ".join(f"context {c} → {call(int(a), names)}" for c, a in enumerate(self.table))
        order = np.argsort(-counts, kind="stable")[:5]
        parts = ", ".join(f"{call(int(actions[i]), names)} on {counts[i]}" for i in order)
        rest = len(actions) - len(order)
        more = f", {rest} other action{'s' if rest > 1 else ''} on the rest" if rest > 0 else ""
        return f"{name}: of {len(self.table)} contexts, {parts}{more}"

    def renumbered(self, numbers: tuple[int, ...], n_actions: int) -> TablePolicy:
        """The same policy where action a is called numbers[a], of so many actions."""
        return TablePolicy(np.array(numbers, dtype=np.int64)[self.table], n_actions, self.name)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "n_actions": self.n_actions,
            "actions": self.table.tolist(),
        }

    def decision(self) -> RuleList:
        """A rule for each action that occurs, with the contexts that take it."""
        if len(self.table) > MOST_LISTED_CONTEXTS:
            raise InputError(
                f"a policy of kind '{self.kind}' over {len(self.table):,} contexts is too large to be written out (at "
                f"most {MOST_LISTED_CONTEXTS:,}); use `pacbandits apply`, or join with a table of them"
            )
        taken: list[int] = np.unique(self.table).tolist()
        each = [(action, tuple(np.flatnonzero(self.table == action).tolist())) for action in taken]
        return RuleList(tuple(DecisionRule((IdAmong(ids),), action) for action, ids in each), None)

    def inputs(self) -> Inputs:
        """Which context it is."""
        return Inputs(ids=True)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TablePolicy:
        given = Fields.read(value, of="policy")
        given.check_known(("kind", "name", "n_actions", "actions"))
        table = np.array(given.whole_numbers("actions", shortest=1), dtype=np.int64)
        return cls(table, given.whole_number("n_actions", least=1), given.text("name"))


def sum_scores(actions: np.ndarray[Any, Any], scores: FloatArray) -> FloatArray:
    """`Σ_c scores[c, actions[k, c]]` for every row k of a table of actions (K, N) and scores (N, A): (K,)."""
    out = np.empty(actions.shape[0])
    table, given = read_only(actions), read_only(scores)
    over_cores(lambda a, b: _sum_scores(table, given, out, a, b), count=actions.shape[0])
    return out


@kernel
def _sum_scores(actions: np.ndarray[Any, Any], scores: FloatArray, out: FloatArray, start: int, stop: int) -> None:
    for k in range(start, stop):
        total = 0.0
        for c in range(actions.shape[1]):
            total += scores[c, actions[k, c]]
        out[k] = total


def listed_cost(n_policies: int, n_rows: int, *, n_actions: int) -> SearchCost:
    """What it takes to look through a list of policies whose actions on so many contexts are a table."""
    entries = float(n_policies) * n_rows
    table = entries * np.dtype(compact(n_actions)).itemsize
    return SearchCost(entries * SECONDS_PER_ENTRY / cores(), table + 8.0 * n_rows * n_actions)


class Finite(PolicyClass):
    """The policies in the rows of a table (policies × contexts of a finite set).

    names: what they are called in words, if not by their number.
    """

    kind = "finite"
    exact = True

    def __init__(self, table: ArrayLike, *, n_actions: int, names: Sequence[str] | None = None) -> None:
        n_actions = check_n_actions(n_actions)
        checked = integers(table, name="policy_actions", shape=(None, None), below=n_actions)
        if 0 in checked.shape:
            raise InputError(
                f"policy_actions has shape {checked.shape}; at least one policy and one context are needed"
            )
        self.table = np.ascontiguousarray(checked, dtype=compact(n_actions))
        self.table.setflags(write=False)
        self.n_actions, self.n_contexts, self.log_size = n_actions, self.table.shape[1], math.log(len(self.table))
        self.names = None if names is None else texts(names, name="names of policies")
        if self.names is not None and len(self.names) != len(self.table):
            raise InputError(f"{len(self.table)} policies need as many names, got {len(self.names)}")

    def __len__(self) -> int:
        return self.table.shape[0]

    def describe(self) -> str:
        """The kind of policies, in a word."""
        return self.kind

    @property
    def size_words(self) -> str:
        """How many policies and actions there are."""
        return f"a list of {len(self):,} policies × {self.n_actions:,} actions"

    @property
    def lighter(self) -> str:
        """What would make searches lighter."""
        return "take fewer policies"

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """What an argmax takes on so many contexts."""
        return listed_cost(len(self), n_rows, n_actions=self.n_actions)

    def frontier_cost(self, n_rows: int) -> SearchCost:
        """What a frontier takes on so many contexts."""
        return self.argmax_cost(n_rows) * 2

    def to_json(self) -> dict[str, Any]:
        names = {} if self.names is None else {"names": list(self.names)}
        return {"kind": self.kind, "n_actions": self.n_actions, "table": self.table.tolist(), **names}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Finite:
        given = Fields.read(value, of="policy class")
        given.check_known(("kind", "n_actions", "table", "names"))
        table = np.array(given.whole_number_rows("table"), dtype=np.int64)
        names = None if value.get("names") is None else given.texts("names")
        return cls(table, n_actions=given.whole_number("n_actions", least=1), names=names)

    def policy(self, index: int) -> TablePolicy:
        """The policy in the given row."""
        name = f"policy {index}" if self.names is None else self.names[index]
        return TablePolicy(table=self.table[index].astype(np.int64), n_actions=self.n_actions, name=name)

    def narrowed(self, kept: tuple[int, ...]) -> Finite:
        """The policies that take these actions alone, which are numbered from 0."""
        rows = np.flatnonzero(np.isin(self.table, kept).all(axis=1))
        if len(rows) == 0:
            raise InputError("each policy of the list takes an action that would be withdrawn; stop the experiment")
        names = None if self.names is None else [self.names[row] for row in rows]
        return Finite(np.searchsorted(np.array(kept), self.table[rows]), n_actions=len(kept), names=names)

    def has(self, policy: Policy) -> bool:
        """Whether this is one of the rows, by whatever name."""
        if not isinstance(policy, TablePolicy) or policy.table.shape != self.table.shape[1:]:
            return False
        return bool((self.table == policy.table).all(axis=1).any())

    def actions(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        """The action (|Π|, n) of every policy on every context."""
        width: int = self.table.shape[1]
        ids = contexts.require_ids(below=width)
        if np.array_equal(ids, np.arange(width)):
            return self.table
        return np.ascontiguousarray(self.table[:, ids])

    def values(self, contexts: Contexts, scores: FloatArray) -> FloatArray:
        """`Σ_i scores[i, π(c_i)]` for every policy, (|Π|,)."""
        scores = check_scores(scores, contexts=contexts, n_actions=self.n_actions)
        ids = contexts.require_ids(below=self.table.shape[1])
        return sum_scores(self.table, sum_by_id(ids, scores, n=self.table.shape[1]))

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TablePolicy:
        return self.policy(int(np.argmax(self.values(contexts, scores))))

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        firsts, seconds = self.values(contexts, first), self.values(contexts, second)
        keep = pareto(firsts, seconds)
        return Frontier(firsts[keep], seconds[keep], exact=True, build=lambda i: self.policy(int(keep[i])))


def sum_by_id(ids: IntArray, scores: FloatArray, *, n: int) -> FloatArray:
    """Scores (rows, A) added up over the rows of each id: (n, A)."""
    if np.array_equal(ids, np.arange(n)):
        return np.ascontiguousarray(scores)
    columns: list[FloatArray] = [
        np.bincount(ids, weights=column, minlength=n).astype(np.float64) for column in scores.T
    ]
    return np.stack(columns, axis=1)

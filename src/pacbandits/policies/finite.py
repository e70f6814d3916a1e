"""Finite classes: a table of actions with one row for each policy and one column for each context of a finite set."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray, integers, read_only
from pacbandits.checks import settle, texts, whole_number
from pacbandits.compiled import cores, kernel, over_cores
from pacbandits.errors import InputError, plain
from pacbandits.policies.base import (
    Frontier,
    PolicyClass,
    RisingValue,
    SearchCost,
    check_n_actions,
    check_scores,
    compact,
    policy_class,
)
from pacbandits.policies.decisions import DecisionRule, IdAmong, Inputs, RuleList
from pacbandits.records.contexts import Contexts
from pacbandits.records.policy import Policy, call
from pacbandits.schema import Fields

# Pareto frontiers of points in the plane, exact and rounded outward.


@kernel
def pareto(first: FloatArray, second: FloatArray) -> IntArray:
    """Return the indices of the maximal points, by decreasing `first`; of equal points, the first."""
    n = first.shape[0]
    order = np.argsort(-first, kind="mergesort")
    keep = np.empty(n, dtype=np.int64)
    count = 0
    best = -np.inf
    i = 0
    while i < n:
        # Among equal `first`, the largest `second`; ties go to the lowest index, as the sort is stable.
        top = order[i]
        j = i + 1
        while j < n and first[order[j]] == first[top]:
            if second[order[j]] > second[top]:
                top = order[j]
            j += 1
        i = j
        if second[top] > best:
            best = second[top]
            keep[count] = top
            count += 1
    return keep[:count]


SORTED_SUMS_PER_INTERVAL = 32  # beyond this many, sums are binned instead of sorted


@kernel
def pareto_of_sums(
    first_a: FloatArray, second_a: FloatArray, first_b: FloatArray, second_b: FloatArray, bins: int
) -> tuple[FloatArray, FloatArray, IntArray, bool]:
    """Return the Pareto frontier of all sums of a point of `a` and a point of `b`.

    Exact while it has at most `bins` points (and there are few enough sums to sort). Beyond, sums are binned into
    `bins` intervals of `first`, and the frontier has one point for each interval, its largest first and its largest
    second: every sum is dominated. The intervals are equal on the scale of the fourth root of `first` above its
    minimum, so that small values keep their relative precision. Returns first, second, pair (index of a · len(b) +
    index of b, for the sum with the largest second), and exactness.
    """
    na, nb = first_a.shape[0], first_b.shape[0]
    total = na * nb
    if total <= SORTED_SUMS_PER_INTERVAL * bins:
        first = np.empty(total)
        second = np.empty(total)
        for i in range(na):
            for j in range(nb):
                first[i * nb + j] = first_a[i] + first_b[j]
                second[i * nb + j] = second_a[i] + second_b[j]
        keep = pareto(first, second)
        if keep.shape[0] <= bins:
            return first[keep], second[keep], keep, True
    low = first_a.min() + first_b.min()
    high = first_a.max() + first_b.max()
    unit = 1.0 / (high - low) if high > low else 0.0
    if not unit < np.inf:
        unit = 0.0  # a range too narrow to divide: one interval
    most = np.full(bins, -np.inf)
    best = np.full(bins, -np.inf)
    reach = np.full(bins, -np.inf)  # the first of the pair with the best second
    pair = np.full(bins, -1, dtype=np.int64)
    for i in range(na):
        for j in range(nb):
            f = first_a[i] + first_b[j]
            s = second_a[i] + second_b[j]
            k = min(int(np.sqrt(np.sqrt((f - low) * unit)) * bins), bins - 1)
            if f > most[k]:
                most[k] = f
            if s > best[k] or (s == best[k] and f > reach[k]):
                best[k] = s
                reach[k] = f
                pair[k] = i * nb + j
    first = np.empty(bins)
    second = np.empty(bins)
    pairs = np.empty(bins, dtype=np.int64)
    count = 0
    exact = True
    top = -np.inf
    for k in range(bins - 1, -1, -1):
        if pair[k] >= 0 and best[k] > top:
            top = best[k]
            first[count] = most[k]
            second[count] = top
            pairs[count] = pair[k]
            exact = exact and reach[k] == most[k]
            count += 1
    return first[:count], second[:count], pairs[:count], exact


SECONDS_PER_ENTRY = 1e-9  # to look up and add one entry of a table
MOST_LISTED_CONTEXTS = 1_000  # in an exported rule list


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """A policy given by its action on each element of a finite context set.

    table (n_contexts,): the actions.
    n_actions: the number of actions.
    name: the policy's name in descriptions.
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
        """Describe the policy with the names of actions (A,) instead of their numbers."""
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
        """Return the same policy with action a renumbered to numbers[a], out of n_actions actions."""
        return TablePolicy(np.array(numbers, dtype=np.int64)[self.table], n_actions, self.name)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "n_actions": self.n_actions,
            "actions": self.table.tolist(),
        }

    def decision(self) -> RuleList:
        """Return one rule for each action that occurs, with its ids; raise InputError beyond the limit of contexts."""
        if len(self.table) > MOST_LISTED_CONTEXTS:
            raise InputError(
                f"a policy of kind '{self.kind}' over {len(self.table):,} contexts is too large to be written out (at "
                f"most {MOST_LISTED_CONTEXTS:,}); use `pacbandits apply`, or join with a table of them"
            )
        taken: list[int] = np.unique(self.table).tolist()
        each = [(action, tuple(np.flatnonzero(self.table == action).tolist())) for action in taken]
        return RuleList(tuple(DecisionRule((IdAmong(ids),), action) for action, ids in each), None)

    def inputs(self) -> Inputs:
        """Return its only input, the id of the context."""
        return Inputs(ids=True)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TablePolicy:
        given = Fields.read(value, of="policy")
        given.check_known(("kind", "name", "n_actions", "actions"))
        table = np.array(given.whole_numbers("actions", shortest=1), dtype=np.int64)
        return cls(table, given.whole_number("n_actions", least=1), given.text("name"))


def sum_scores(actions: np.ndarray[Any, Any], scores: FloatArray) -> FloatArray:
    """Return `Σ_c scores[c, actions[k, c]]` (K,) for every row k of actions (K, N), with scores (N, A)."""
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
    """Return the cost of one pass over a list of policies whose actions on n_rows contexts are a table."""
    entries = float(n_policies) * n_rows
    table = entries * np.dtype(compact(n_actions)).itemsize
    return SearchCost(entries * SECONDS_PER_ENTRY / cores(), table + 8.0 * n_rows * n_actions)


class Finite(PolicyClass):
    """The class of the policies in the rows of a table (policies × contexts of a finite set).

    names: the names of the policies; their numbers by default.
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
        """Return the kind of policies in a word."""
        return self.kind

    @property
    def size_words(self) -> str:
        """The numbers of policies and actions, in words."""
        return f"a list of {len(self):,} policies × {self.n_actions:,} actions"

    @property
    def lighter(self) -> str:
        """Advice on how to reduce search costs."""
        return "take fewer policies"

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """Return the cost of an argmax on n_rows contexts."""
        return listed_cost(len(self), n_rows, n_actions=self.n_actions)

    def frontier_cost(self, n_rows: int) -> SearchCost:
        """Return the cost of a frontier on n_rows contexts."""
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
        """Return the policy in the given row."""
        name = f"policy {index}" if self.names is None else self.names[index]
        return TablePolicy(table=self.table[index].astype(np.int64), n_actions=self.n_actions, name=name)

    def narrowed(self, kept: tuple[int, ...]) -> Finite:
        """Return the policies that take only these actions, renumbered from 0; raise InputError if there is none."""
        rows = np.flatnonzero(np.isin(self.table, kept).all(axis=1))
        if len(rows) == 0:
            raise InputError("each policy of the list takes an action that would be withdrawn; stop the experiment")
        names = None if self.names is None else [self.names[row] for row in rows]
        return Finite(np.searchsorted(np.array(kept), self.table[rows]), n_actions=len(kept), names=names)

    def has(self, policy: Policy) -> bool:
        """Return whether a policy equals one of the rows; names do not matter."""
        if not isinstance(policy, TablePolicy) or policy.table.shape != self.table.shape[1:]:
            return False
        return bool((self.table == policy.table).all(axis=1).any())

    def actions(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        """Return the action (|Π|, n) of every policy on every context."""
        width: int = self.table.shape[1]
        ids = contexts.require_ids(below=width)
        if np.array_equal(ids, np.arange(width)):
            return self.table
        return np.ascontiguousarray(self.table[:, ids])

    def values(self, contexts: Contexts, scores: FloatArray) -> FloatArray:
        """Return `Σ_i scores[i, π(c_i)]` for every policy, (|Π|,)."""
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
    """Return scores (rows, A) summed over the rows of each id, (n, A)."""
    if np.array_equal(ids, np.arange(n)):
        return np.ascontiguousarray(scores)
    sums = np.empty((n, scores.shape[1]))
    for j in range(scores.shape[1]):
        sums[:, j] = np.bincount(ids, weights=scores[:, j], minlength=n)
    return sums


# The trivial class: every map from a finite context set to actions.


MOST_TABLE_ENTRIES = 10**8  # contexts × actions that fit into an ordinary machine's memory
DEFAULT_RESOLUTION = 2048  # intervals
MAX_STORED_RESOLUTION = 2**13  # intervals; work grows with the square
SECONDS_PER_SCORE = 1e-8  # to add a score to the sum of its context
SECONDS_PER_INTERVAL = 1.8e-8  # for each context and action, in a frontier
_LOG_GAIN_JITTER = 0.5  # standard deviation of the log gain
_SEED_BITS = 10  # of a score, that count for the seed of the jitter


@dataclass(frozen=True)
class Trivial(PolicyClass):
    """The class of all |A|^|C| maps from contexts 0 … n_contexts − 1 to actions.

    n_contexts: the number of contexts.
    n_actions: the number of actions.
    resolution: the number of intervals of the frontier's first score, used once it has more points than this.
    """

    n_contexts: int = field()  # required, although the base class has a default
    n_actions: int
    resolution: int = DEFAULT_RESOLUTION
    log_size: float = field(init=False, repr=False, compare=False)

    kind = "trivial"
    exact = True
    accepts_greedy = True  # every policy belongs to the class

    def __post_init__(self) -> None:
        settle(self, n_contexts=whole_number(self.n_contexts, name="n_contexts", least=1))
        settle(self, n_actions=check_n_actions(self.n_actions))
        settle(self, resolution=whole_number(self.resolution, name="resolution", least=1))
        if self.n_contexts * self.n_actions > MOST_TABLE_ENTRIES:
            raise InputError(
                f"{self.n_contexts:,} contexts and {self.n_actions:,} actions are more than the trivial class can hold "
                f"(together at most {MOST_TABLE_ENTRIES:,}); number contexts from 0, or use another class"
            )
        settle(self, log_size=self.n_contexts * math.log(self.n_actions))

    def has(self, policy: Policy) -> bool:
        """Return whether a policy maps each of the contexts to one of the actions."""
        if not isinstance(policy, TablePolicy) or policy.table.shape != (self.n_contexts,):
            return False
        return bool(policy.table.max() < self.n_actions)

    def narrowed(self, kept: tuple[int, ...]) -> Trivial:
        """Return the class of all maps to these actions only, renumbered from 0."""
        return replace(self, n_actions=len(kept))

    def describe(self) -> str:
        """Return the kind of policies in a word."""
        return self.kind

    @property
    def size_words(self) -> str:
        """The numbers of contexts and actions, in words."""
        return f"every map from {self.n_contexts:,} contexts to {self.n_actions:,} actions"

    @property
    def lighter(self) -> str:
        """Advice on how to reduce search costs."""
        return "take fewer contexts or a coarser resolution"

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """Return the cost of an argmax on n_rows contexts."""
        entries = (n_rows + self.n_contexts) * self.n_actions
        return SearchCost(entries * SECONDS_PER_SCORE, 16.0 * entries)

    def frontier_cost(self, n_rows: int) -> SearchCost:
        """Return the cost of a frontier on n_rows contexts."""
        merging = self.n_contexts * self.n_actions * self.resolution * SECONDS_PER_INTERVAL
        held = 24.0 * self.n_contexts * min(self.resolution, self.n_actions * self.n_contexts)
        return self.argmax_cost(n_rows) * 2 + SearchCost(merging, held)

    def to_json(self) -> dict[str, Any]:
        resolution = {} if self.resolution == DEFAULT_RESOLUTION else {"resolution": self.resolution}
        return {"kind": self.kind, "n_actions": self.n_actions, "n_contexts": self.n_contexts, **resolution}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Trivial:
        given = Fields.read({"resolution": DEFAULT_RESOLUTION} | value, of="policy class")
        given.check_known(("kind", "n_actions", "n_contexts", "resolution"))
        resolution = given.whole_number("resolution", least=2, most=MAX_STORED_RESOLUTION)
        return cls(given.whole_number("n_contexts", least=1), given.whole_number("n_actions", least=1), resolution)

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TablePolicy:
        return self.policy_of(np.argmax(self._totals(contexts, scores), axis=1))

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """Return the frontier, merged from those of single contexts; rounded outward beyond `resolution` points."""
        f, s = self._totals(contexts, first), self._totals(contexts, second)
        level = [_leaf(f[c], s[c]) for c in range(self.n_contexts)]
        while len(level) > 1:
            pairs = [_merge(a, b, self.resolution) for a, b in zip(level[::2], level[1::2], strict=False)]
            level = pairs + level[len(pairs) * 2 :]
        root = level[0]
        return Frontier(
            root.first,
            root.second,
            exact=root.exact,
            build=lambda i: self.policy_of(root.actions(i)),
            search=lambda value, most: [self.policy_of(actions) for actions in large_maps(f, s, value, most=most)],
        )

    def _totals(self, contexts: Contexts, scores: FloatArray) -> FloatArray:
        scores = check_scores(scores, contexts=contexts, n_actions=self.n_actions)
        return sum_by_id(contexts.require_ids(below=self.n_contexts), scores, n=self.n_contexts)

    def policy_of(self, actions: IntArray) -> TablePolicy:
        """Return the policy that takes these actions (n_contexts,)."""
        return TablePolicy(table=actions, n_actions=self.n_actions, name="trivial")


def large_maps(first: FloatArray, second: FloatArray, value: RisingValue, *, most: int) -> list[IntArray]:
    """Return up to `most` varied maps (n_contexts,) with a large `value`.

    Starting from the map with the largest second, actions are changed in order of gain in first divided by loss in
    second, up to where `value` is largest. Gains are jittered at random, so that passes change different contexts.
    """
    # The seed depends on the scores only, so equal scores give equal maps; no experiment's random state is used. Last
    # digits, in which processors and packages differ, do not count.
    mantissas, exponents = np.frexp(first)
    coarse = np.ldexp(np.rint(mantissas * 2**_SEED_BITS), exponents - _SEED_BITS) + 0.0  # no −0
    rng = np.random.default_rng(zlib.crc32(np.ascontiguousarray(coarse).tobytes()))
    rows = np.arange(len(first))
    base = np.argmax(second, axis=1)
    gain = first - first[rows, base][:, None]
    loss = second[rows, base][:, None] - second
    tiny = 1e-12 * max(float(loss.max()), 1e-12)
    found: list[IntArray] = []
    for _ in range(most):
        worth = gain * np.exp(_LOG_GAIN_JITTER * rng.standard_normal(gain.shape)) / (loss + tiny)
        change = np.argmax(worth, axis=1)
        order = np.argsort(-worth[rows, change], kind="stable")
        order = order[worth[rows, change][order] > 0]
        if len(order) == 0:
            break
        firsts = first[rows, base].sum() + np.cumsum(gain[order, change[order]])
        seconds = second[rows, base].sum() - np.cumsum(loss[order, change[order]])
        until = int(np.argmax(value(firsts, seconds))) + 1
        actions = base.copy()
        actions[order[:until]] = change[order[:until]]
        found.append(actions)
    return found


@dataclass(frozen=True, eq=False)
class _Node:
    """The frontier over a run of consecutive contexts, with the origin of each point.

    first (m,): first scores of the points.
    second (m,): second scores of the points.
    origin (m,): at a leaf the action, elsewhere the pair of the children's points.
    exact: whether every point is attained.
    children: the frontiers of the two halves of the run; None at a leaf.
    """

    first: FloatArray
    second: FloatArray
    origin: IntArray
    exact: bool
    children: tuple[_Node, _Node] | None = None

    def actions(self, index: int) -> IntArray:
        """Return the actions of the run's contexts at a point, in order."""
        if self.children is None:
            return self.origin[index : index + 1]
        left, right = self.children
        i, j = divmod(int(self.origin[index]), len(right.first))
        return np.concatenate([left.actions(i), right.actions(j)])


def _leaf(first: FloatArray, second: FloatArray) -> _Node:
    keep = pareto(first, second)
    return _Node(first[keep], second[keep], origin=keep, exact=True)


def _merge(left: _Node, right: _Node, bins: int) -> _Node:
    first, second, pairs, exact = pareto_of_sums(left.first, left.second, right.first, right.second, bins)
    return _Node(first, second, pairs, exact=exact and left.exact and right.exact, children=(left, right))


@policy_class("trivial", description="every map from a finite context set to actions", learns=False)
def trivial(contexts: Contexts, *, n_actions: int) -> Trivial:
    """Return the class of all maps on these contexts, which must have ids."""
    if contexts.ids is None:
        raise InputError("the trivial class is over a finite context set, but the contexts have no ids")
    return Trivial(int(contexts.ids.max()) + 1, n_actions)

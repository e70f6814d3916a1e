"""The trivial class: every map from a finite context set to actions."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import settle, whole_number
from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.policies.base import Frontier, PolicyClass, RisingValue, SearchCost, check_n_actions, check_scores
from pacbandits.policies.finite import TablePolicy, sum_by_id
from pacbandits.policies.pareto import pareto, pareto_of_sums
from pacbandits.policies.spec import policy_class
from pacbandits.records import Contexts, Policy

MOST_TABLE_ENTRIES = 10**8  # contexts × actions: what fits into an ordinary machine's memory
DEFAULT_RESOLUTION = 2048  # intervals
MAX_STORED_RESOLUTION = 2**13  # intervals; work grows with the square
SECONDS_PER_SCORE = 1e-8  # added to those of its context
SECONDS_PER_INTERVAL = 1.8e-8  # of a frontier, for each context and action
_LOG_GAIN_JITTER = 0.5  # standard deviation


@dataclass(frozen=True)
class Trivial(PolicyClass):
    """All |A|^|C| maps from contexts 0 … n_contexts − 1 to actions.

    n_contexts: how many contexts there are.
    n_actions: how many actions.
    resolution: how many intervals the frontier's first score is cut into once its points outnumber them.
    """

    n_contexts: int = field()  # no default, although the base class has a value
    n_actions: int
    resolution: int = DEFAULT_RESOLUTION
    log_size: float = field(init=False, repr=False, compare=False)

    kind = "trivial"
    exact = True
    accepts_greedy = True  # any policy is one of its own

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
        """Whether this maps each of the contexts to one of the actions."""
        if not isinstance(policy, TablePolicy) or policy.table.shape != (self.n_contexts,):
            return False
        return bool(policy.table.max() < self.n_actions)

    def narrowed(self, kept: tuple[int, ...]) -> Trivial:
        """All maps to these actions alone, which are numbered from 0."""
        return replace(self, n_actions=len(kept))

    def describe(self) -> str:
        """The kind of policies, in a word."""
        return self.kind

    @property
    def size_words(self) -> str:
        """How many contexts and actions there are."""
        return f"every map from {self.n_contexts:,} contexts to {self.n_actions:,} actions"

    @property
    def lighter(self) -> str:
        """What would make searches lighter."""
        return "take fewer contexts or a coarser resolution"

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """What an argmax takes on so many contexts."""
        entries = (n_rows + self.n_contexts) * self.n_actions
        return SearchCost(entries * SECONDS_PER_SCORE, 16.0 * entries)

    def frontier_cost(self, n_rows: int) -> SearchCost:
        """What a frontier takes on so many contexts."""
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
        """Frontiers of the contexts, merged two by two; rounded outward once they outgrow the resolution."""
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
        """The policy that takes these actions (n_contexts,)."""
        return TablePolicy(table=actions, n_actions=self.n_actions, name="trivial")


def large_maps(first: FloatArray, second: FloatArray, value: RisingValue, *, most: int) -> list[IntArray]:
    """Up to `most` maps (n_contexts,) at which `value` is large, different on purpose.

    From the map of largest second, contexts are changed in the order of what a change gains in first for what it loses
    in second, as far as `value` rises; gains are jittered, so that each pass changes other contexts.
    """
    # Part of the search, not of any experiment: the same scores give the same maps, other scores other jitter.
    rng = np.random.default_rng(zlib.crc32(np.ascontiguousarray(first).tobytes()))
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
    """A frontier over a run of contexts, and for each point where it came from.

    first (m,): of the points.
    second (m,): of the points.
    origin (m,): the action at a leaf, the pair of the children's points elsewhere.
    exact: whether every point is attained.
    children: the frontiers of the two halves of the run; None at a leaf.
    """

    first: FloatArray
    second: FloatArray
    origin: IntArray
    exact: bool
    children: tuple[_Node, _Node] | None = None

    def actions(self, index: int) -> IntArray:
        """The actions of the run's contexts at a point, in order."""
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
    """All maps on these contexts, which must have ids."""
    if contexts.ids is None:
        raise InputError("the trivial class is over a finite context set, but the contexts have no ids")
    return Trivial(int(contexts.ids.max()) + 1, n_actions)

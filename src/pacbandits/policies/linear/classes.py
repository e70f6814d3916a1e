"""The class of linear policies on a grid: its searches, their costs, upper bounds, and its name."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import instance, positive, text, whole_number
from pacbandits.compiled import cores
from pacbandits.errors import InputError, nearest, plain
from pacbandits.options import About
from pacbandits.policies.base import (
    Frontier,
    PerContexts,
    PolicyClass,
    RisingValue,
    SearchCost,
    at_stake,
    check_n_actions,
    check_scores,
    compact,
    policy_class,
)
from pacbandits.policies.features import CompactMap, FeatureMap, map_for, map_from_json
from pacbandits.policies.features.maps import BlockMap
from pacbandits.policies.finite import listed_cost, pareto, sum_scores
from pacbandits.policies.linear.enumeration import Turns, count_directions, directions, simplest, values_of
from pacbandits.policies.linear.milp import Solved, count_binaries, solve
from pacbandits.policies.linear.policy import DistinctRows, LinearPolicy, Table, act, act_all, one_map, rows_of
from pacbandits.policies.linear.search import Ground, climbing_work, kicks_for, sampled_rows
from pacbandits.records import Contexts, Policy, check_contexts
from pacbandits.schema import Fields

# What a search for linear policies takes: the rows it climbs on, or the policies and rows it looks at.
#
# The speeds were measured on one core of 2024 (benchmarks/estimates.py measures them again).


SECONDS_PER_SEARCH = 0.05
SECONDS_PER_CLIMB_STEP = 1.2e-7  # of a row and coefficient, from a start or a kick to where that ends
SECONDS_PER_POLISH_STEP = 2e-7  # of a row and coefficient, all starts together
CLIMBED_STARTS = 8
SECONDS_PER_ACTION_LOOKED_UP = 1e-9
SECONDS_PER_SCORE = 2.5e-9  # of an action, where a policy's choice on a row is worked out
SECONDS_PER_TURN = 4e-8  # of a row and action, where two coefficients turn around
BYTES_PER_NUMBER = 8.0


def search_cost(map: FeatureMap, n_rows: int) -> SearchCost:
    """The local search from many starts."""
    in_blocks = isinstance(map, BlockMap) and map.in_blocks
    work = climbing_work(map.dimension, n_actions=map.n_actions, in_blocks=in_blocks)
    sampled = min(n_rows, sampled_rows(work))
    climbs = sampled * work * (CLIMBED_STARTS + kicks_for(sampled, work)) * SECONDS_PER_CLIMB_STEP
    polish = n_rows * work * SECONDS_PER_POLISH_STEP if n_rows > sampled else 0.0
    columns = 2.0 * map.dimension / max(map.n_actions - 1, 1) if in_blocks else 2.0 * map.dimension * map.n_actions
    numbers = n_rows * (columns + 3.0 * map.n_actions)
    return SearchCost(SECONDS_PER_SEARCH + (climbs + polish) / cores(), BYTES_PER_NUMBER * numbers)


def sweep_cost(n_policies: int, map: FeatureMap, n_rows: int, *, most_kept: int) -> SearchCost:
    """A look at every policy on every row; up to so many actions are worked out once and kept."""
    entries = float(n_policies) * n_rows
    kept = entries <= most_kept
    each = SECONDS_PER_ACTION_LOOKED_UP + (0.0 if kept else map.n_actions * SECONDS_PER_SCORE)
    table = min(entries, most_kept) * np.dtype(compact(map.n_actions)).itemsize
    return SearchCost(
        entries * each / cores(), table + BYTES_PER_NUMBER * n_rows * map.n_actions * (map.dimension + 2.0)
    )


def turning_cost(map: FeatureMap, n_rows: int) -> SearchCost:
    """A look at every direction of two coefficients."""
    rows = n_rows * map.n_actions
    return SearchCost(rows * SECONDS_PER_TURN, BYTES_PER_NUMBER * rows * 6.0)


# What no linear policy exceeds, and how far a policy found is from it.


MOST_SWEPT_POLICIES = 1_000_000  # that are looked at one by one when asked to
MOST_BOUND_WORK = 3e9  # policies × rows that are looked at for a bound
MOST_BINARIES = 2_000  # variables of an integer program

# Values this close, relative to all that is at stake, are taken for equal: sums differ by as much in rounding.
VALUE_TIE_SHARE = 1e-12
# How far from its bound, relative to all that is at stake, an exact value may lie.
_PROOF_SLACK_SHARE = 1e-9


@dataclass(frozen=True)
class Shortfall:
    """How far a policy found is from the best.

    found: its value.
    bound: the best value if `exact`, else no less.
    baseline: the value of the best action for all.
    exact: whether the best value is known.
    """

    found: float
    bound: float
    baseline: float
    exact: bool

    @property
    def share(self) -> float:
        """(found − baseline)/(bound − baseline): 1 for the best policy, 0 for one no better than a single action."""
        gain = self.bound - self.baseline
        return (self.found - self.baseline) / gain if gain > 0 else 1.0


def bound_value(rows: DistinctRows, scores: FloatArray, *, levels: int, seconds: float) -> tuple[float, bool]:
    """What no policy of the grid exceeds on scores (m, A), and whether one is known to attain it."""
    size = count_directions(rows.dimension, levels)
    if size <= MOST_SWEPT_POLICIES and size * len(rows) <= MOST_BOUND_WORK:
        (values,) = values_of(rows, directions(rows.dimension, levels), scores)
        return float(values.max()), True
    if count_binaries(scores) <= MOST_BINARIES:
        solved = solve(rows, scores, levels=levels, seconds=seconds)
        return solved.bound, proven(rows, scores, solved)
    return float(scores.max(axis=1).sum()), False


def value_of(rows: DistinctRows, scores: FloatArray, parameter: IntArray) -> float:
    """`Σ_i scores[i, π(c_i)]` of the policy with the given θ (d,), for scores (m, A)."""
    return float(scores[np.arange(len(scores)), act(rows, parameter)].sum())


def snapped(values: FloatArray, scores: FloatArray) -> FloatArray:
    """Values without the last digits, in which sums of the same scores in another order differ."""
    unit = VALUE_TIE_SHARE * at_stake(scores)
    return np.rint(values / unit) * unit if unit > 0 else values


def proven(rows: DistinctRows, scores: FloatArray, solved: Solved) -> bool:
    """Whether the policy found attains what no policy exceeds."""
    if not solved.done or solved.parameter is None:
        return False
    rounding = _PROOF_SLACK_SHARE * at_stake(scores) + VALUE_TIE_SHARE * float(np.abs(scores).sum())
    return value_of(rows, scores, solved.parameter) >= solved.bound - rounding


# The class of linear policies with coefficients on a grid, and the ways to search it.


Oracle = Literal["auto", "list", "milp", "search"]
ORACLES: tuple[Oracle, ...] = ("auto", "list", "milp", "search")

MOST_LISTED_POLICIES = 6_000
MOST_POLICIES_SWEPT_UNASKED = 60_000
MOST_LEVELS = 1_000
PROGRAM_SECONDS = 60.0  # for one integer program
TYPICAL_PROGRAM_SECONDS = 0.5
_MOST_KEPT_ACTIONS = 2**28  # of a table


def default_levels(dimension: int) -> int:
    """Levels that are worth their price in log|Π| (see docs/linear.md)."""
    return next(levels for most, levels in ((3, 8), (5, 4), (100, 2), (math.inf, 1)) if dimension <= most)


class Linear(PolicyClass):
    """π(c) = argmax_a ⟨φ(c, a), θ⟩ with θ in {−L, …, L}^d, ties to the lowest action.

        log|Π| = log #{θ without a common divisor} ≤ d log(2L + 1)

    map: φ.
    levels: L.
    oracle: how the best policy is found. `list` looks at all of them, up to a million, and where they are few the class
        can be listed; it is exact. `milp` solves an integer program, for a few dozen rows, and is exact to the solver's
        tolerance; `search` is not. Of both certificates say that they rest on the oracle. `auto` looks at all policies
        where that is quick, and searches elsewhere.
    """

    kind = "linear"
    exact = False
    accepts_greedy = True  # real coefficients are as welcome as whole ones

    def __new__(cls, *_: Any, **__: Any) -> Self:
        if cls is Linear:
            raise InputError("make linear policies by Linear.of(map) or Linear.learn(contexts): they choose an oracle")
        return super().__new__(cls)

    def __init__(self, map: FeatureMap, *, levels: int | None = None, oracle: str = "auto") -> None:
        if isinstance(map, CompactMap):
            map.check_effect()
        self.map = one_map(map)
        self.levels = _checked_levels(map, levels)
        self.oracle = oracle
        self.n_actions = map.n_actions
        self.log_size = math.log(count_directions(map.dimension, self.levels))

    @staticmethod
    def of(map: FeatureMap, *, levels: int | None = None, oracle: str = "auto") -> Linear:
        """The policies that are linear in these features, with the oracle that suits their number."""
        instance(map, FeatureMap, name="map", remedy="Crossed.blocks(contexts, n_actions=…) is one")
        size = count_directions(map.dimension, _checked_levels(map, levels))
        return _kind(map, size, oracle)(map, levels=levels, oracle=oracle)

    @staticmethod
    def learn(contexts: Contexts, *, n_actions: int, levels: int | None = None, oracle: str = "auto") -> Linear:
        """For contexts like these: linear in φ where they carry it, else in their features, a block for each action.

        Where these are all contexts there are (they have ids) and few, `auto` looks at more policies than otherwise;
        where there are many, at fewer.
        """
        check_contexts(contexts)
        text(oracle, name="oracle")
        features = map_for(contexts, n_actions=check_n_actions(n_actions), relative=True)
        if oracle == "auto" and features.dimension > 2:
            size = count_directions(features.dimension, _checked_levels(features, levels))
            if contexts.ids is not None and size <= min(MOST_SWEPT_POLICIES, _MOST_KEPT_ACTIONS // len(contexts)):
                oracle = "list"
            elif size > MOST_LISTED_POLICIES and size * len(contexts) > _MOST_KEPT_ACTIONS:
                oracle = "search"
        return Linear.of(features, levels=levels, oracle=oracle)

    def describe(self) -> str:
        """The kind of policies, in a word."""
        return self.kind

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """The features, how they are scaled, and how large coefficients may be."""
        columns = self.map.describe_columns() if isinstance(self.map, CompactMap) else []
        return (f"whole coefficients from −{self.levels} to {self.levels} of {', '.join(self.map.names)}", *columns)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "map": self.map.to_json(), "levels": self.levels, "oracle": self.oracle}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Linear:
        """The class whose `to_json` this is."""
        given = Fields.read(value, of="policy class")
        given.check_known(("kind", "map", "levels", "oracle"))
        levels = given.whole_number("levels", least=1, most=MOST_LEVELS)
        return Linear.of(map_from_json(given["map"]), levels=levels, oracle=given.one_of("oracle", ORACLES))

    def has(self, policy: Policy) -> bool:
        """Whether this is linear in the same features, with whole coefficients no larger than these."""
        if not isinstance(policy, LinearPolicy) or max(map(abs, policy.parameter)) > self.levels:
            return False
        return policy.map is self.map or policy.map.to_json() == self.map.to_json()

    def argmax(self, contexts: Contexts, scores: FloatArray) -> LinearPolicy:
        """The best policy found; of equals (to rounding) that of the fewest and smallest coefficients."""
        rows, added = self._laid_out(contexts, scores)
        return LinearPolicy(self.map, tuple(self._best(contexts, rows, added).tolist()))

    def upper_bound(self, contexts: Contexts, scores: FloatArray, *, seconds: float = 10.0) -> float:
        """What no policy of the class exceeds: exact where all can be looked at, else what an integer program proves
        in the given time, and never more than the best action of every context by itself."""
        rows, added = self._laid_out(contexts, scores)
        return self._bound(rows, added, seconds)[0]

    def shortfall(self, contexts: Contexts, scores: FloatArray, *, seconds: float = 10.0) -> Shortfall:
        """What the oracle finds for these scores, beside the best there is, or what is known of it."""
        rows, added = self._laid_out(contexts, scores)
        found = value_of(rows, added, self._best(contexts, rows, added))
        bound, exact = self._bound(rows, added, seconds)
        return Shortfall(found, max(bound, found), float(added.sum(axis=0).max()), exact)

    @property
    def size_words(self) -> str:
        """How many coefficients and actions there are."""
        return f"linear policies of {self.map.dimension:,} coefficients × {self.n_actions:,} actions"

    @property
    def lighter(self) -> str:
        """What would make searches lighter."""
        return "take fewer features or levels, or oracle=search"

    @abstractmethod
    def argmax_cost(self, n_rows: int) -> SearchCost:
        """What an argmax takes on so many contexts."""

    @abstractmethod
    def _best(self, contexts: Contexts, rows: DistinctRows, scores: FloatArray) -> IntArray:
        """The coefficients of the best policy found."""

    def _bound(self, rows: DistinctRows, scores: FloatArray, seconds: float) -> tuple[float, bool]:
        """What no policy exceeds, and whether one attains it."""
        return bound_value(rows, scores, levels=self.levels, seconds=seconds)

    def _laid_out(
        self, contexts: Contexts, scores: FloatArray, name: str = "scores"
    ) -> tuple[DistinctRows, FloatArray]:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions, name=name)
        rows = rows_of(self.map, contexts)
        return rows, rows.add_up(checked)


class SearchedLinear(Linear):
    """The best policy by local search from many starts, which may miss it."""

    def __init__(self, map: FeatureMap, *, levels: int | None = None, oracle: str = "search") -> None:
        super().__init__(map, levels=levels, oracle=oracle)
        self._grounds: PerContexts[Ground] = PerContexts()

    def argmax_cost(self, n_rows: int) -> SearchCost:
        return search_cost(self.map, n_rows)

    def _best(self, contexts: Contexts, rows: DistinctRows, scores: FloatArray) -> IntArray:
        return self._grounds.get(contexts, lambda _: Ground.of(rows, levels=self.levels)).search(scores)


class SweptLinear(Linear):
    """All policies are looked at, one by one or (of two coefficients) direction by direction."""

    exact = True

    def __init__(self, map: FeatureMap, *, levels: int | None = None, oracle: str = "auto") -> None:
        super().__init__(map, levels=levels, oracle=oracle)
        self.parameters = directions(map.dimension, self.levels)
        self._turns: PerContexts[Turns] = PerContexts()
        self._tables: PerContexts[Table] = PerContexts()

    def argmax_cost(self, n_rows: int) -> SearchCost:
        if self.map.dimension == 2:
            return turning_cost(self.map, n_rows)
        return sweep_cost(len(self.parameters), self.map, n_rows, most_kept=_MOST_KEPT_ACTIONS)

    def frontier_cost(self, n_rows: int) -> SearchCost:
        return self.argmax_cost(n_rows) * 2

    def values(self, contexts: Contexts, *scores: FloatArray) -> list[FloatArray]:
        """`Σ_i scores[i, π(c_i)]` (|Π|,) of every policy, for each of several scores."""
        added = [self._laid_out(contexts, one)[1] for one in scores]
        return self._values(contexts, rows_of(self.map, contexts), *added)

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """The Pareto frontier of two scores over all policies."""
        rows, one = self._laid_out(contexts, first, name="first scores")
        two = self._laid_out(contexts, second, name="second scores")[1]
        firsts, seconds = (
            snapped(values, score)
            for values, score in zip(self._values(contexts, rows, one, two), (one, two), strict=True)
        )
        keep = pareto(firsts, seconds)

        def search(value: RisingValue, most: int) -> list[LinearPolicy]:
            values = value(firsts, seconds)
            pieces = np.array_split(np.arange(len(values)), min(most, len(values)))
            return [self._policy(int(piece[values[piece].argmax()])) for piece in pieces]

        return Frontier(
            firsts[keep], seconds[keep], exact=True, build=lambda i: self._policy(int(keep[i])), search=search
        )

    def _best(self, contexts: Contexts, rows: DistinctRows, scores: FloatArray) -> IntArray:
        (values,) = self._values(contexts, rows, scores)
        top = np.flatnonzero(values >= values.max() - VALUE_TIE_SHARE * at_stake(scores))
        return self.parameters[top[simplest(self.parameters[top])]]

    def _bound(self, rows: DistinctRows, scores: FloatArray, seconds: float) -> tuple[float, bool]:
        if self.map.dimension == 2:
            return float(Turns.of(rows, self.parameters).values(scores).max()), True
        (values,) = values_of(rows, self.parameters, scores)
        return float(values.max()), True

    def _values(self, contexts: Contexts, rows: DistinctRows, *scores: FloatArray) -> list[FloatArray]:
        if self.map.dimension == 2:
            turns = self._turns.get(contexts, lambda _: Turns.of(rows, self.parameters))
            return [turns.values(one) for one in scores]
        if len(self.parameters) * len(rows) > _MOST_KEPT_ACTIONS:
            return values_of(rows, self.parameters, *scores)
        table = self._table(contexts, rows)
        return [sum_scores(table, one) for one in scores]

    def _table(self, contexts: Contexts, rows: DistinctRows) -> Table:
        """The action (|Π|, m) of every policy on every row, kept as long as the contexts unless it is large."""
        if len(self.parameters) * len(rows) > _MOST_KEPT_ACTIONS:
            return act_all(rows, self.parameters)
        return self._tables.get(contexts, lambda _: act_all(rows, self.parameters))

    def _policy(self, index: int) -> LinearPolicy:
        return LinearPolicy(self.map, tuple(self.parameters[index].tolist()))


class ListedLinear(SweptLinear):
    """Policies few enough to be listed."""

    def __len__(self) -> int:
        return len(self.parameters)

    def argmax_cost(self, n_rows: int) -> SearchCost:
        return listed_cost(len(self), n_rows, n_actions=self.n_actions)

    def policy(self, index: int) -> LinearPolicy:
        """The policy of the given number."""
        return self._policy(range(len(self))[index])

    def actions(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        """The action (|Π|, n) of every policy on every context."""
        rows = rows_of(self.map, contexts)
        return rows.spread_out(self._table(contexts, rows))


class SolvedLinear(Linear):
    """The best policy by an integer program, or a sentence where that takes more than so many seconds.

    A solver works to a tolerance, so policies that keep two actions apart by next to nothing may escape it;
    certificates therefore say that they rest on the oracle.
    """

    exact = False

    def __init__(
        self,
        map: FeatureMap,
        *,
        levels: int | None = None,
        oracle: str = "milp",
        seconds: float = PROGRAM_SECONDS,
    ) -> None:
        super().__init__(map, levels=levels, oracle=oracle)
        self.seconds = positive(seconds, name="seconds")

    def argmax_cost(self, n_rows: int) -> SearchCost:
        return SearchCost(min(self.seconds, TYPICAL_PROGRAM_SECONDS), search_cost(self.map, n_rows).memory_bytes)

    def _best(self, contexts: Contexts, rows: DistinctRows, scores: FloatArray) -> IntArray:
        many = f"{len(contexts):,} rows are too many for an exact search"
        if count_binaries(scores) > MOST_BINARIES:
            raise InputError(f"{many}; use oracle=search")
        solved = solve(rows, scores, levels=self.levels, seconds=self.seconds)
        if not solved.done or solved.parameter is None:
            raise InputError(f"{many} in {self.seconds:.0f} s; use oracle=search")
        if not proven(rows, scores, solved):
            raise InputError(
                "the best policy rests on scores that are equal to rounding, so that it cannot be shown to "
                "be the best; use oracle=search"
            )
        return solved.parameter


def _checked_levels(map: FeatureMap, levels: int | None) -> int:
    if levels is None:
        return default_levels(map.dimension)
    return whole_number(levels, name="levels", least=1, most=MOST_LEVELS)


def _kind(map: FeatureMap, size: int, oracle: str) -> type[Linear]:
    if text(oracle, name="oracle") not in ORACLES:
        raise InputError(f"unknown oracle '{plain(oracle)}'{nearest(oracle, ORACLES)}")
    if oracle == "milp":
        return SolvedLinear
    turning = map.dimension == 2
    most = MOST_SWEPT_POLICIES if oracle == "list" else MOST_POLICIES_SWEPT_UNASKED
    if oracle == "search" or (size > most and not turning):
        if oracle == "list":
            raise InputError(
                f"about 10^{math.log10(size):.0f} policies are too many to list; take fewer levels or oracle=search"
            )
        return SearchedLinear
    return ListedLinear if size <= MOST_LISTED_POLICIES else SweptLinear


# Linear policies by name.


@policy_class("linear", description="the action of the largest linear score, with small whole coefficients")
def linear(
    contexts: Contexts,
    *,
    n_actions: int,
    levels: Annotated[int, About("the largest coefficient; 0: what suits how many there are", least=0, most=1000)] = 0,
    oracle: Annotated[Literal["auto", "list", "milp", "search"], About("how the best linear policy is found")] = "auto",
) -> Linear:
    """Policies that are linear in the φ of these contexts, or else in their features."""
    if contexts.n_features == 0 and contexts.phi is None:
        raise InputError("linear policies need features or phi, but the contexts have neither")
    return Linear.learn(contexts, n_actions=n_actions, levels=levels or None, oracle=oracle)

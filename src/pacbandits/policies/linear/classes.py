"""Classes of linear policies on a grid of coefficients: oracles, search costs and upper bounds."""

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
from pacbandits.records.contexts import Contexts, check_contexts
from pacbandits.records.policy import Policy
from pacbandits.schema import Fields

# Search costs of linear policies: rows climbed on, or policies × rows evaluated.
#
# The speeds were measured on one core of 2024 (benchmarks/estimates.py measures them again).


SECONDS_PER_SEARCH = 0.05
SECONDS_PER_CLIMB_STEP = 1.2e-7  # per row and coefficient, for the whole ascent from a start or a kick
SECONDS_PER_POLISH_STEP = 2e-7  # per row and coefficient, all starts together
CLIMBED_STARTS = 8
SECONDS_PER_ACTION_LOOKED_UP = 1e-9
SECONDS_PER_SCORE = 2.5e-9  # per action, to compute a policy's choice on a row
SECONDS_PER_TURN = 4e-8  # per row and action, with two coefficients
BYTES_PER_NUMBER = 8.0


def search_cost(map: FeatureMap, n_rows: int) -> SearchCost:
    """Return the cost of the local search from many starts."""
    in_blocks = isinstance(map, BlockMap) and map.in_blocks
    work = climbing_work(map.dimension, n_actions=map.n_actions, in_blocks=in_blocks)
    sampled = min(n_rows, sampled_rows(work))
    climbs = sampled * work * (CLIMBED_STARTS + kicks_for(sampled, work)) * SECONDS_PER_CLIMB_STEP
    polish = n_rows * work * SECONDS_PER_POLISH_STEP if n_rows > sampled else 0.0
    columns = 2.0 * map.dimension / max(map.n_actions - 1, 1) if in_blocks else 2.0 * map.dimension * map.n_actions
    numbers = n_rows * (columns + 3.0 * map.n_actions)
    return SearchCost(SECONDS_PER_SEARCH + (climbs + polish) / cores(), BYTES_PER_NUMBER * numbers)


def sweep_cost(n_policies: int, map: FeatureMap, n_rows: int, *, most_kept: int) -> SearchCost:
    """Return the cost of evaluating all policies on all rows; up to `most_kept` actions are cached."""
    entries = float(n_policies) * n_rows
    kept = entries <= most_kept
    each = SECONDS_PER_ACTION_LOOKED_UP + (0.0 if kept else map.n_actions * SECONDS_PER_SCORE)
    table = min(entries, most_kept) * np.dtype(compact(map.n_actions)).itemsize
    return SearchCost(
        entries * each / cores(), table + BYTES_PER_NUMBER * n_rows * map.n_actions * (map.dimension + 2.0)
    )


def turning_cost(map: FeatureMap, n_rows: int) -> SearchCost:
    """Return the cost of evaluating every direction of two coefficients."""
    rows = n_rows * map.n_actions
    return SearchCost(rows * SECONDS_PER_TURN, BYTES_PER_NUMBER * rows * 6.0)


# Upper bounds on the value of linear policies, and the shortfall of a policy found.


MOST_SWEPT_POLICIES = 1_000_000  # evaluated one by one with oracle=list
MOST_BOUND_WORK = 3e9  # policies × rows evaluated for a bound
MOST_BINARIES = 2_000  # variables of an integer program

# Values this close, relative to the total stake, count as equal: sums differ by as much in rounding.
VALUE_TIE_SHARE = 1e-12
# The largest distance of an exact value from its bound, relative to the total stake.
_PROOF_SLACK_SHARE = 1e-9


@dataclass(frozen=True)
class Shortfall:
    """The shortfall of a policy found from the best policy.

    found: the value of the policy.
    bound: the best value if `exact`, else an upper bound on it.
    baseline: the value of the best constant policy.
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
    """Return an upper bound on the value over the grid for scores (m, A), and whether it is known to be attained."""
    size = count_directions(rows.dimension, levels)
    if size <= MOST_SWEPT_POLICIES and size * len(rows) <= MOST_BOUND_WORK:
        (values,) = values_of(rows, directions(rows.dimension, levels), scores)
        return float(values.max()), True
    if count_binaries(scores) <= MOST_BINARIES:
        solved = solve(rows, scores, levels=levels, seconds=seconds)
        return solved.bound, proven(rows, scores, solved)
    return float(scores.max(axis=1).sum()), False


def value_of(rows: DistinctRows, scores: FloatArray, parameter: IntArray) -> float:
    """Return `Σ_i scores[i, π(c_i)]` of the policy with the given θ (d,), for scores (m, A)."""
    return float(scores[np.arange(len(scores)), act(rows, parameter)].sum())


def snapped(values: FloatArray, scores: FloatArray) -> FloatArray:
    """Round values so that sums of the same scores in a different order are equal."""
    unit = VALUE_TIE_SHARE * at_stake(scores)
    return np.rint(values / unit) * unit if unit > 0 else values


def proven(rows: DistinctRows, scores: FloatArray, solved: Solved) -> bool:
    """Return whether the policy found attains the upper bound, to rounding."""
    if not solved.done or solved.parameter is None:
        return False
    rounding = _PROOF_SLACK_SHARE * at_stake(scores) + VALUE_TIE_SHARE * float(np.abs(scores).sum())
    return value_of(rows, scores, solved.parameter) >= solved.bound - rounding


# The class of linear policies with coefficients on a grid, by oracle.


Oracle = Literal["auto", "list", "milp", "search"]
ORACLES: tuple[Oracle, ...] = ("auto", "list", "milp", "search")

MOST_LISTED_POLICIES = 6_000
MOST_POLICIES_SWEPT_UNASKED = 60_000
MOST_LEVELS = 1_000
PROGRAM_SECONDS = 60.0  # for one integer program
TYPICAL_PROGRAM_SECONDS = 0.5
_MOST_KEPT_ACTIONS = 2**28  # in a cached table


def default_levels(dimension: int) -> int:
    """Return a number of levels that balances approximation against log|Π| (see docs/linear.md)."""
    return next(levels for most, levels in ((3, 8), (5, 4), (100, 2), (math.inf, 1)) if dimension <= most)


class Linear(PolicyClass):
    """The class of policies π(c) = argmax_a ⟨φ(c, a), θ⟩ with θ in {−L, …, L}^d; ties go to the lowest action.

        log|Π| = log #{θ without a common divisor} ≤ d log(2L + 1)

    map: φ.
    levels: L.
    oracle: the search for the best policy. `list` evaluates all policies, up to a million, and lists them if they are
        few; it is exact. `milp` solves an integer program, for a few dozen rows, exact to the solver's tolerance;
        `search` is a local search and not exact. Certificates state that they rely on either oracle. `auto` evaluates
        all policies if that is fast, and otherwise searches.
    """

    kind = "linear"
    exact = False
    accepts_greedy = True  # real coefficients are admissible too

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
        """Return the class of policies linear in these features, with an oracle suited to its size."""
        instance(map, FeatureMap, name="map", remedy="Crossed.blocks(contexts, n_actions=…) is one")
        size = count_directions(map.dimension, _checked_levels(map, levels))
        return _kind(map, size, oracle)(map, levels=levels, oracle=oracle)

    @staticmethod
    def learn(contexts: Contexts, *, n_actions: int, levels: int | None = None, oracle: str = "auto") -> Linear:
        """Return the class for contexts like these: linear in φ if they carry it, else in features with action blocks.

        If the contexts have ids (and so are all contexts there are) and are few, `auto` evaluates more policies than
        otherwise; if there are many contexts, fewer.
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
        """Return the kind of policies in a word."""
        return self.kind

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """Return the features, their scaling, and the range of the coefficients."""
        columns = self.map.describe_columns() if isinstance(self.map, CompactMap) else []
        return (f"whole coefficients from −{self.levels} to {self.levels} of {', '.join(self.map.names)}", *columns)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "map": self.map.to_json(), "levels": self.levels, "oracle": self.oracle}

    @staticmethod
    def from_json(value: dict[str, Any]) -> Linear:
        """Read the class from the output of its `to_json`."""
        given = Fields.read(value, of="policy class")
        given.check_known(("kind", "map", "levels", "oracle"))
        levels = given.whole_number("levels", least=1, most=MOST_LEVELS)
        return Linear.of(map_from_json(given["map"]), levels=levels, oracle=given.one_of("oracle", ORACLES))

    def has(self, policy: Policy) -> bool:
        """Return whether a policy is linear in the same features, with integer coefficients of at most L."""
        if not isinstance(policy, LinearPolicy) or max(map(abs, policy.parameter)) > self.levels:
            return False
        return policy.map is self.map or policy.map.to_json() == self.map.to_json()

    def argmax(self, contexts: Contexts, scores: FloatArray) -> LinearPolicy:
        """Return the best policy found; ties (to rounding) go to the smallest Σ|θ_j|."""
        rows, added = self._laid_out(contexts, scores)
        return LinearPolicy(self.map, tuple(self._best(contexts, rows, added).tolist()))

    def upper_bound(self, contexts: Contexts, scores: FloatArray, *, seconds: float = 10.0) -> float:
        """Return an upper bound on the value of every policy: exact if all policies can be evaluated, else the bound
        that an integer program proves in the given time, and never more than the sum of each context's best score."""
        rows, added = self._laid_out(contexts, scores)
        return self._bound(rows, added, seconds)[0]

    def shortfall(self, contexts: Contexts, scores: FloatArray, *, seconds: float = 10.0) -> Shortfall:
        """Return the value that the oracle finds for these scores, with the best value or a bound on it."""
        rows, added = self._laid_out(contexts, scores)
        found = value_of(rows, added, self._best(contexts, rows, added))
        bound, exact = self._bound(rows, added, seconds)
        return Shortfall(found, max(bound, found), float(added.sum(axis=0).max()), exact)

    @property
    def size_words(self) -> str:
        """The numbers of coefficients and actions, in words."""
        return f"linear policies of {self.map.dimension:,} coefficients × {self.n_actions:,} actions"

    @property
    def lighter(self) -> str:
        """Advice on how to reduce search costs."""
        return "take fewer features or levels, or oracle=search"

    @abstractmethod
    def argmax_cost(self, n_rows: int) -> SearchCost:
        """Return the cost of an argmax on n_rows contexts."""

    @abstractmethod
    def _best(self, contexts: Contexts, rows: DistinctRows, scores: FloatArray) -> IntArray:
        """Return the coefficients of the best policy found."""

    def _bound(self, rows: DistinctRows, scores: FloatArray, seconds: float) -> tuple[float, bool]:
        """Return an upper bound on the value, and whether a policy attains it."""
        return bound_value(rows, scores, levels=self.levels, seconds=seconds)

    def _laid_out(
        self, contexts: Contexts, scores: FloatArray, name: str = "scores"
    ) -> tuple[DistinctRows, FloatArray]:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions, name=name)
        rows = rows_of(self.map, contexts)
        return rows, rows.add_up(checked)


class SearchedLinear(Linear):
    """Linear policies with a local search from many starts, which may miss the best policy."""

    def __init__(self, map: FeatureMap, *, levels: int | None = None, oracle: str = "search") -> None:
        super().__init__(map, levels=levels, oracle=oracle)
        self._grounds: PerContexts[Ground] = PerContexts()

    def argmax_cost(self, n_rows: int) -> SearchCost:
        return search_cost(self.map, n_rows)

    def _best(self, contexts: Contexts, rows: DistinctRows, scores: FloatArray) -> IntArray:
        return self._grounds.get(contexts, lambda _: Ground.of(rows, levels=self.levels)).search(scores)


class SweptLinear(Linear):
    """Linear policies that are all evaluated, one by one or (with two coefficients) by sweeping the direction of θ."""

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
        """Return `Σ_i scores[i, π(c_i)]` (|Π|,) of every policy, for each of several scores."""
        added = [self._laid_out(contexts, one)[1] for one in scores]
        return self._values(contexts, rows_of(self.map, contexts), *added)

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """Return the Pareto frontier of two scores over all policies."""
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
        """Return the action (|Π|, m) of every policy on every row; cached with the contexts unless it is large."""
        if len(self.parameters) * len(rows) > _MOST_KEPT_ACTIONS:
            return act_all(rows, self.parameters)
        return self._tables.get(contexts, lambda _: act_all(rows, self.parameters))

    def _policy(self, index: int) -> LinearPolicy:
        return LinearPolicy(self.map, tuple(self.parameters[index].tolist()))


class ListedLinear(SweptLinear):
    """Linear policies that are few enough to list."""

    def __len__(self) -> int:
        return len(self.parameters)

    def argmax_cost(self, n_rows: int) -> SearchCost:
        return listed_cost(len(self), n_rows, n_actions=self.n_actions)

    def policy(self, index: int) -> LinearPolicy:
        """Return the policy with the given index."""
        return self._policy(range(len(self))[index])

    def actions(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        """Return the action (|Π|, n) of every policy on every context."""
        rows = rows_of(self.map, contexts)
        return rows.spread_out(self._table(contexts, rows))


class SolvedLinear(Linear):
    """Linear policies with an integer program as oracle; it raises InputError if that takes longer than `seconds`.

    A solver works to a tolerance, so it may miss policies that separate two actions by a tiny margin; certificates
    therefore state that they rely on the oracle.
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
    levels: Annotated[
        int, About("largest coefficient; 0 chooses it by the number of coefficients", least=0, most=1000)
    ] = 0,
    oracle: Annotated[
        Literal["auto", "list", "milp", "search"], About("search method for the best linear policy")
    ] = "auto",
) -> Linear:
    """Return the class of policies linear in the φ of these contexts, or else in their features."""
    if contexts.n_features == 0 and contexts.phi is None:
        raise InputError("linear policies need features or phi, but the contexts have neither")
    return Linear.learn(contexts, n_actions=n_actions, levels=levels or None, oracle=oracle)

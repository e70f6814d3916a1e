"""What no linear policy exceeds, and how far a policy found is from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.policies.base import at_stake
from pacbandits.policies.linear.acting import DistinctRows, act
from pacbandits.policies.linear.grid import count_directions, directions, values_of
from pacbandits.policies.linear.milp import Solved, count_binaries, solve

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

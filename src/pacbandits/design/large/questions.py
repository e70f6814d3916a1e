"""What is summed over all contexts: what policies earn, and how badly a design serves them.

Everything is a sum over rows of whole numbers, so that it does not matter who adds up, nor in which order:

- mean rewards are rounded to the nearest multiple of 2^−bits;
- the costs of a design, whose sum over π's actions is V_π, are rounded up, row by row;
- its value Σ_a x_a/p_a is rounded down.

Bits are chosen such that no sum exceeds 2^52: sums are whole numbers in doubles, too, and so is all that is added and
subtracted when trees are searched. What rounding may have changed is added to the bracket, on the safe side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pacbandits.allocation import fill_row
from pacbandits.arrays import FloatArray, IntArray
from pacbandits.compiled import kernel
from pacbandits.design.large.on_card import serve_on_card
from pacbandits.design.large.task import OfContexts, shares
from pacbandits.design.objective import fill_costs
from pacbandits.engines.base import ROWS_PER_BLOCK, Sums
from pacbandits.engines.cuda.serving import MOST_ACTIONS
from pacbandits.engines.cuda.stretch import Stretch
from pacbandits.policies.summing import Summation
from pacbandits.policies.trees.forest import Forest
from pacbandits.records import Contexts, Design, Log, Policy

MOST_BITS = 52  # of a sum
WEIGHT_BITS = 40  # of the largest weight of a design


def bits_below(largest: float) -> int:
    """By how many bits numbers that add up to at most this may be shifted up; down where that is negative."""
    return MOST_BITS - math.ceil(math.log2(largest))


@dataclass(frozen=True, eq=False)
class MeanRewardSums:
    """What policies earn, and the rows of a sample.

    summing: how rows are added up for the class.
    means: makes the mean rewards of contexts.
    reference: q, if there is one.
    n_actions: A.
    bits: of mean rewards.
    sampled (m,): the rows of the sample, in order.
    n_features: of contexts.

    Its sums: mean rewards and ones (…, A + 1) as the class wants them; the features and, last, the ids of the sample's
    contexts (m, d + 1), bit by bit; what q earns.
    """

    summing: Summation
    means: OfContexts
    reference: Policy | None
    n_actions: int
    bits: int
    sampled: IntArray
    n_features: int

    def begin(self) -> Sums:
        sample = np.zeros((len(self.sampled), self.n_features + 1), dtype=np.int64)
        return self.summing.zeros(self.n_actions + 1), sample, np.zeros(1, dtype=np.int64)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        contexts, n = block.contexts, len(block)
        means = shares(self.means, contexts, n_actions=self.n_actions, name="mean rewards")
        scores = np.ones((n, self.n_actions + 1), dtype=np.int64)
        scores[:, :-1] = np.rint(np.ldexp(means, self.bits))
        self.summing.add(contexts, scores, sums[0])
        start = number * ROWS_PER_BLOCK
        first, last = np.searchsorted(self.sampled, (start, start + n))
        rows = self.sampled[first:last] - start
        # No other block has these rows: what is added to is zero, and bits stay what they are.
        sums[1][first:last, :-1] += np.ascontiguousarray(contexts.features[rows]).view(np.int64)
        if contexts.ids is not None:
            sums[1][first:last, -1] += contexts.ids[rows]
        if self.reference is not None:
            sums[2][0] += scores[np.arange(n), self.reference(contexts)].sum()


@dataclass(frozen=True, eq=False)
class DesignCostSums:
    """How badly a design serves policies.

    summing: how rows are added up for the class.
    design: whose weights are whole numbers.
    noise: makes variances of contexts, if they are not all 1.
    floor: the least probability of every action that the task asks for; the design may have a larger one.
    cost_bits: of costs.
    value_bits: of the value.

    Its sums: the costs (…, A) of all rows as the class wants them, and G of the design's weights (1,), not normalised.
    """

    summing: Summation
    design: Design
    noise: OfContexts | None
    floor: float
    cost_bits: int
    value_bits: int

    @classmethod
    def of(
        cls, design: Design, *, summing: Summation, noise: OfContexts | None, floor: float, n_rows: int
    ) -> DesignCostSums:
        """The question with as many bits as sums over so many rows have room for."""
        largest_cost = 2.0 / max(design.floor, 1e-300)
        largest_value = 2.0 * design.n_actions * max(float(design.weights.sum()), 1.0)
        bits = [bits_below(n_rows * largest) for largest in (largest_cost, largest_value)]
        return cls(summing, design, noise, floor, cost_bits=bits[0], value_bits=bits[1])

    @property
    def n_actions(self) -> int:
        return self.design.n_actions

    @cached_property
    def weights(self) -> IntArray:
        """Of the support, as whole numbers."""
        return self.design.weights.astype(np.int64)

    @cached_property
    def forest(self) -> Forest | None:
        """The support as a forest, where it is one."""
        bins = self.summing.coded_bins
        return None if bins is None else Forest.of(self.design.support, self.weights, bins, n_actions=self.n_actions)

    def begin(self) -> Sums:
        return self.summing.zeros(self.n_actions), np.zeros(1, dtype=np.int64)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        contexts, summing, forest = block.contexts, self.summing, self.forest
        mass = np.zeros((len(block), self.n_actions), dtype=np.int64)
        if summing.coded_bins is not None and forest is not None:
            codes = summing.coded_bins.encode(contexts)
            forest.add_weights(codes, mass)
            sums[1][0] += self._score(contexts, mass)
            summing.add_coded(codes, mass, sums[0])
            return
        rows = np.arange(len(block))
        for weight, policy in zip(self.weights, self.design.support, strict=True):
            mass[rows, policy(contexts)] += weight
        sums[1][0] += self._score(contexts, mass)
        summing.add(contexts, mass, sums[0])

    def can_use_card(self) -> bool:
        """Whether a CUDA card can answer: of trees, with not too many actions."""
        return self.forest is not None and self.n_actions <= MOST_ACTIONS

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        """The same as `add`, for rows on a card."""
        bins, forest = self.summing.coded_bins, self.forest
        assert bins is not None
        assert forest is not None
        serve_on_card(self, stretch, sums, bins=bins, forest=forest)

    def _score(self, contexts: Contexts, mass: IntArray) -> int:
        """Turn the weights (n, A) of those who take each action into costs, in place; return the value of all rows."""
        if self.noise is None:
            noise = np.ones((1, self.n_actions))
        else:
            noise = np.array(shares(self.noise, contexts, n_actions=self.n_actions, name="noise variances"))
        reference = np.array(self.design.reference(contexts), dtype=np.int64)
        scales = np.array([math.ldexp(1.0, self.cost_bits), math.ldexp(1.0, self.value_bits)])
        return score_rows(mass, reference, noise, np.array([self.floor, self.design.floor]), scales)


@kernel
def score_rows(mass: IntArray, reference: IntArray, noise: FloatArray, floors: FloatArray, scales: FloatArray) -> int:
    """Turn weights (n, A) of those who take each action into costs rounded up, in place; return the value rounded down.

    noise (n, A), or (1, A) for all rows. floors (2,): of the value, of the design. scales (2,): of costs, of values.
    """
    n, n_actions = mass.shape
    x, p, costs, none = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions), np.zeros(n_actions)
    total = 0
    for r in range(n):
        q = reference[r]
        variances = noise[r if noise.shape[0] > 1 else 0]
        disagree = 0
        for a in range(n_actions):
            if a != q:
                disagree += mass[r, a]
                x[a] = mass[r, a] * variances[a]
        x[q] = disagree * variances[q]
        total += int(np.floor(fill_row(x, floors[0], p) * scales[1]))
        fill_row(x, floors[1], p)
        fill_costs(p, variances, none, 1.0, q, costs)
        for a in range(n_actions):
            mass[r, a] = int(np.ceil(costs[a] * scales[0]))
    return total


def whole_weights(design: Design) -> Design:
    """The same design with weights that are whole numbers, the largest 2^40."""
    largest = float(design.weights.max()) if len(design.weights) else 0.0
    whole = np.rint(np.ldexp(design.weights / largest, WEIGHT_BITS)) if largest > 0 else np.zeros_like(design.weights)
    used = np.flatnonzero(whole)
    support = tuple(design.support[i] for i in used)
    return Design(support, whole[used], design.reference, floor=design.floor)

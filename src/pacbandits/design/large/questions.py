"""Sums over all contexts: the value of policies, and their costs under a design.

Everything is a sum of integers over rows, so that the result does not depend on the engine nor on the order:

- mean rewards are rounded to the nearest multiple of 2^−bits;
- the costs of a design, whose sum over π's actions is V_π, are rounded up, row by row;
- its value Σ_a x_a/p_a is rounded down.

Bits are chosen such that no sum exceeds 2^52: sums are exact integers in doubles, too, and so are all additions and
subtractions in a search of trees. The bracket is widened by the possible effect of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pacbandits.allocation import check_floor, fill_row
from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.checks import instance, settle
from pacbandits.compiled import kernel
from pacbandits.design.task import GapScale
from pacbandits.design.weights import fill_costs
from pacbandits.engines.base import ROWS_PER_BLOCK, ContextsSource, LogSource, Source, Sums
from pacbandits.engines.cuda.aggregations import MOST_SERVED_ACTIONS, CardWeights, serve_rows
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.engine import Parts, Stretch, Wanted
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.summation import Summation
from pacbandits.policies.trees.bins import Bins, Forest
from pacbandits.policies.trees.on_card import add_tree_sums, codes_on_card
from pacbandits.records import Contexts, Design, Log, Policy, check_policy

# The design problem over contexts that are read a block at a time.


OfContexts = Callable[[Contexts], FloatArray]


@dataclass(frozen=True, eq=False)
class LargeTask:
    """`min_p max_π V_π(p; q)/d(Δ_π)²` over a class, where every row of a source is a context of equal weight.

    policies: Π, a class that is searched by sums over rows.
    source: the contexts, or a source of them; of the rows of a log only contexts are used, without their repeats.
    means: maps any n contexts to mean rewards (n, A) in [0, 1], such as `predict` of a fitted reward model; the gap
        of a policy is q's value less its own by these.
    scale: d.
    reference: q; by default the policy of the class with the largest value.
    noise: maps any n contexts to variances σ² (n, A) in [0, 1]; ones by default.
    floor: the minimum probability of every action.
    """

    policies: PolicyClass
    source: Source | Contexts | Log
    means: OfContexts = field(kw_only=True)
    scale: GapScale = field(kw_only=True)
    reference: Policy | None = field(kw_only=True, default=None)
    noise: OfContexts | None = field(kw_only=True, default=None)
    floor: float = field(kw_only=True, default=0.0)

    def __post_init__(self) -> None:
        instance(self.scale, GapScale, name="scale", remedy="Clipped(epsilon) is one")
        if not self.scale(np.zeros(1))[0] > 0:
            raise InputError(
                "over many contexts some policies hardly differ: the scale needs an epsilon above 0, got 0"
            )
        if not isinstance(self.source, Contexts | Log):
            instance(self.source, Source, name="source", remedy="Contexts will do")
        if self.reference is not None:
            check_policy(self.reference, name="reference")
        _check_function(self.means, name="means")
        if self.noise is not None:
            _check_function(self.noise, name="noise")
        settle(self, policies=check_class(self.policies))
        settle(self, floor=check_floor(self.floor, n_actions=self.policies.n_actions))

    @property
    def rows(self) -> Source:
        """The source of the contexts."""
        if isinstance(self.source, Contexts):
            return ContextsSource(self.source)
        return LogSource(self.source) if isinstance(self.source, Log) else self.source


def _check_function(given: object, *, name: str) -> None:
    if not callable(given) or isinstance(given, type):
        raise InputError(f"{name} must be a function of contexts, got {type(given).__name__}")


def shares(made: OfContexts, contexts: Contexts, *, n_actions: int, name: str) -> FloatArray:
    """Return a function's values for contexts, as (n, A) numbers in [0, 1]; raise InputError if they are not."""
    got = floats(made(contexts), name=name, shape=(len(contexts), n_actions))
    if got.size and (got.min() < 0 or got.max() > 1):
        worst = got.min() if got.min() < 0 else got.max()
        raise InputError(f"{name} must lie between 0 and 1, got {worst:.6g}; rewards are counted in such units")
    return got


# The costs of policies under a design, summed on a CUDA card: the same numbers as elsewhere, to the last bit.


def serve_on_card(
    question: DesignCostSums, stretch: Stretch, sums: tuple[Any, ...], *, bins: Bins, forest: Forest
) -> None:
    """Add the rows of a stretch to the sums of a question, on the card and in place."""
    cp = cupy()
    # Codes, and all that does not depend on a design, stay on the card between passes.
    codes = codes_on_card(stretch, bins)
    wanted = [_reference(question)] + ([] if question.noise is None else [_noise(question)])
    found = stretch.get(*wanted)
    noise = cp.ones((1, question.n_actions)) if question.noise is None else found[1]["noise"]
    weights = CardWeights.send(forest.starts, forest.pairs, forest.table, forest.always)
    scores = serve_rows(
        codes,
        weights,
        reference=found[0]["reference"],
        noise=noise,
        floors=(question.floor, question.design.floor),
        scales=(math.ldexp(1.0, question.cost_bits), math.ldexp(1.0, question.value_bits)),
        total=sums[1],
    )
    add_tree_sums(stretch, bins, scores, sums[0], depth=sums[0].ndim - 1 if len(bins.features) else 0)


def _reference(question: DesignCostSums) -> Wanted:
    """The reference's actions, to be kept on the card."""
    policy = question.design.reference

    def make(_: int, block: Log) -> Parts:
        return {"reference": np.asarray(policy(block.contexts), dtype=np.uint8)}

    return Wanted("reference", policy, make)


def _noise(question: DesignCostSums) -> Wanted:
    """The variances of rewards, to be kept on the card."""
    of = question.noise
    assert of is not None

    def make(_: int, block: Log) -> Parts:
        return {"noise": np.array(shares(of, block.contexts, n_actions=question.n_actions, name="noise variances"))}

    return Wanted("noise", of, make)


MOST_BITS = 52  # of a sum
WEIGHT_BITS = 40  # of the largest weight of a design


def bits_below(largest: float) -> int:
    """Return by how many bits numbers that add up to at most this may be shifted up; down if it is negative."""
    return MOST_BITS - math.ceil(math.log2(largest))


@dataclass(frozen=True, eq=False)
class MeanRewardSums:
    """A question for the value of policies, and the rows of a sample.

    summing: how rows are summed for the class.
    means: maps contexts to mean rewards.
    reference: q, if there is one.
    n_actions: A.
    bits: of mean rewards.
    sampled (m,): the rows of the sample, in order.
    n_features: of contexts.

    Its sums: mean rewards and ones (…, A + 1) in the form of the class; the features and, last, the ids of the sample's
    contexts (m, d + 1), as bit patterns; the value of q.
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
        # No other block has these rows: the sums are zero there, and bit patterns are kept.
        sums[1][first:last, :-1] += np.ascontiguousarray(contexts.features[rows]).view(np.int64)
        if contexts.ids is not None:
            sums[1][first:last, -1] += contexts.ids[rows]
        if self.reference is not None:
            sums[2][0] += scores[np.arange(n), self.reference(contexts)].sum()


@dataclass(frozen=True, eq=False)
class DesignCostSums:
    """A question for the costs of policies under a design.

    summing: how rows are summed for the class.
    design: with integer weights.
    noise: maps contexts to variances, if they are not all 1.
    floor: the task's minimum probability of every action; the design may have a larger one.
    cost_bits: of costs.
    value_bits: of the value.

    Its sums: the costs (…, A) of all rows in the form of the class, and G of the design's weights (1,), not normalised.
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
        """Return the question with as many bits as sums over this many rows allow."""
        largest_cost = 2.0 / max(design.floor, 1e-300)
        largest_value = 2.0 * design.n_actions * max(float(design.weights.sum()), 1.0)
        bits = [bits_below(n_rows * largest) for largest in (largest_cost, largest_value)]
        return cls(summing, design, noise, floor, cost_bits=bits[0], value_bits=bits[1])

    @property
    def n_actions(self) -> int:
        return self.design.n_actions

    @cached_property
    def weights(self) -> IntArray:
        """The weights of the support, as integers."""
        return self.design.weights.astype(np.int64)

    @cached_property
    def forest(self) -> Forest | None:
        """The support as a forest, if it is one."""
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
        """Whether a CUDA card can answer: for trees, with not too many actions."""
        return self.forest is not None and self.n_actions <= MOST_SERVED_ACTIONS

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        """Do the same as `add`, for rows on a card."""
        bins, forest = self.summing.coded_bins, self.forest
        assert bins is not None
        assert forest is not None
        serve_on_card(self, stretch, sums, bins=bins, forest=forest)

    def _score(self, contexts: Contexts, mass: IntArray) -> int:
        """Turn the weights (n, A) of policies by their actions into costs, in place; return the value of all rows."""
        if self.noise is None:
            noise = np.ones((1, self.n_actions))
        else:
            noise = np.array(shares(self.noise, contexts, n_actions=self.n_actions, name="noise variances"))
        reference = np.array(self.design.reference(contexts), dtype=np.int64)
        scales = np.array([math.ldexp(1.0, self.cost_bits), math.ldexp(1.0, self.value_bits)])
        return score_rows(mass, reference, noise, np.array([self.floor, self.design.floor]), scales)


@kernel
def score_rows(mass: IntArray, reference: IntArray, noise: FloatArray, floors: FloatArray, scales: FloatArray) -> int:
    """Turn weights (n, A) of policies by their actions into costs rounded up, in place; return the value rounded down.

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
    """Return the same design with integer weights, the largest 2^40."""
    largest = float(design.weights.max()) if len(design.weights) else 0.0
    whole = np.rint(np.ldexp(design.weights / largest, WEIGHT_BITS)) if largest > 0 else np.zeros_like(design.weights)
    used = np.flatnonzero(whole)
    support = tuple(design.support[i] for i in used)
    return Design(support, whole[used], design.reference, floor=design.floor)

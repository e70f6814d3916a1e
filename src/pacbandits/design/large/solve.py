"""Solve on a sample, prove on all contexts: designs by few passes over data that need not be in memory.

1. One pass sums the value of policies, and reads a sample of contexts.
2. The design is solved on the sample by column generation.
3. One pass sums the costs of policies under that design, and the value of its weights. Both ends of the bracket come
   from these sums alone: they hold on all contexts, for any sample.
4. While the bracket is too wide, the sample is corrected by those sums (`Surrogate`), the policies of largest cost on
   all contexts join the pool, and 2 and 3 are repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import instance, positive, whole_number
from pacbandits.compiled import cores
from pacbandits.design.columns import DesignPrice, Pool, best_pricing, solve_columns
from pacbandits.design.large.questions import (
    DesignCostSums,
    LargeTask,
    MeanRewardSums,
    bits_below,
    shares,
    whole_weights,
)
from pacbandits.design.solve import action_seekers, find_stranger
from pacbandits.design.task import DesignTask, GapScale
from pacbandits.design.weights import relative_gap
from pacbandits.engines.base import Engine, Sums
from pacbandits.engines.registry import STREAM, using_engine
from pacbandits.errors import InputError
from pacbandits.machine import free_memory_bytes
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.summation import Summation, can_be_summed, summing
from pacbandits.progress import Progress, listener
from pacbandits.records import Contexts, Design, Policy

# A surrogate of a large problem: a sample of contexts, corrected by sums over all of them.
#
# Sums over the sample differ from those over all contexts by chance. Once a design p₀ has been summed over all,
#
#     V_π(p) ≈ V_π(p; sample) + (V_π(p₀; all) − V_π(p₀; sample))
#
# is exact at p₀, and nearby far more precise than the sample itself: only the *change* of V_π is subject to chance. The
# correction is a sum over contexts of scores of π's action, as V itself is, so that the class is searched for the
# policies of largest cost as usual; and it does not depend on p, so that the best p for given weights is the same. Gaps
# do not depend on a design, and are those over all contexts from the start.


class Surrogate:
    """Knowledge of policies on all contexts, by sums and a sample.

    task: the problem on the sample.
    summing: how rows are summed for the class.
    gaps: sums of gap scores over all contexts, in the form of the class.
    correction: sums of costs over all contexts less those over the sample, for the last design summed.
    """

    def __init__(self, task: DesignTask, *, summing: Summation, gaps: FloatArray) -> None:
        self.task, self.summing, self.gaps = task, summing, gaps
        self.correction = np.zeros_like(gaps)
        self._price = best_pricing(summing.policies)

    def gap(self, policy: Policy) -> float:
        """Return Δ_π on all contexts."""
        return self._attained(self.gaps, policy)

    def added(self, policy: Policy) -> float:
        """Return V_π on all contexts less V_π on the sample."""
        return self._attained(self.correction, policy)

    def learn(self, design: Design, costs: FloatArray) -> None:
        """Update the correction by a design summed over all contexts; costs: its sums, as shares of all contexts."""
        here = self.task.possible
        noise = here.objective.noise
        propensities = design.propensities(here.contexts, noise=noise)
        self.correction = costs - self._add_up(here.objective.costs(propensities))

    def price(self, contexts: Contexts, costs: FloatArray, gaps: FloatArray, scale: GapScale) -> DesignPrice:
        """Return the policies of largest cost under a design, by its costs (m, A) on the sample."""
        return self.price_all(self._add_up(costs) + self.correction)

    def price_all(self, costs: FloatArray, *, gaps: FloatArray | None = None) -> DesignPrice:
        """Return the same by sums of costs over all contexts; gaps: other sums of gap scores, if given."""
        return self._price(self.summing.contexts, costs, self.gaps if gaps is None else gaps, self.task.scale)

    def _add_up(self, costs: FloatArray) -> FloatArray:
        """Return sums of costs (m, A) over the sample, to many digits."""
        bits = bits_below(max(float(costs.max(axis=1).sum()), 1e-300))
        sums = self.summing.zeros(costs.shape[1])
        self.summing.add(self.task.possible.contexts, np.rint(np.ldexp(costs, bits)).astype(np.int64), sums)
        return np.ldexp(self.summing.finish(sums), -bits)

    def _attained(self, sums: FloatArray, policy: Policy) -> float:
        return self.summing.policies.attained(self.summing.contexts, sums, policy)


SAMPLE_ROWS = 2**14  # the sample's own error is corrected by sums over all contexts
LARGE_TOLERANCE = 0.05
# Once the sample is corrected, it is solved to this share of the requested relative gap; the rest is left for chance.
# Before that, to the gap itself, as chance is larger then.
CORRECTED_TOLERANCE_SHARE = 0.8
SAMPLE_SEED = 20_210_713
# Sums of integers are exact; later divisions and multiplications are more precise than this.
ENDS_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class LargeSolution:
    """A design and a bracket on the optimum over all contexts: lower ≤ min_p max_π V_π(p; q)/d(Δ_π)² ≤ upper.

    design: attains `upper`, over the whole class and all contexts.
    lower: the lower end.
    upper: the upper end.
    tolerance: the requested relative gap.
    n_contexts: the number of all contexts.
    n_sampled: the number of sampled ones.
    passes: the number of passes over all contexts.
    note: why the requested gap was not reached, or a special case.
    """

    design: Design
    lower: float
    upper: float
    tolerance: float
    n_contexts: int
    n_sampled: int
    passes: int
    note: str = ""

    @property
    def gap(self) -> float:
        """upper/lower − 1."""
        return relative_gap(self.lower, self.upper)

    @property
    def converged(self) -> bool:
        """Whether the requested relative gap was reached."""
        return bool(self.gap <= self.tolerance)


def solve_large_design(
    task: LargeTask,
    *,
    engine: Engine | str = STREAM,
    tolerance: float = LARGE_TOLERANCE,
    sample_rows: int = SAMPLE_ROWS,
    max_passes: int = 12,
    progress: Progress | None = None,
) -> LargeSolution:
    """Return the best design over the contexts of a source, and a bracket that holds on all of them.

    engine: sums over rows, or its name: `stream` (the cores of this machine), `dask`, `cuda`.
    sample_rows: the number of contexts on which it is solved.
    max_passes: the largest number of passes over all contexts.
    """
    instance(task, LargeTask, name="task")
    if not isinstance(engine, str):
        instance(engine, Engine, name="engine", remedy="leave it out for the cores of this machine")
    tolerance = positive(tolerance, name="tolerance")
    most = whole_number(max_passes, name="max_passes", least=2)
    whole = whole_number(sample_rows, name="sample_rows", least=1)
    with using_engine(engine) as adding:
        asking = _Asking(task, adding, tolerance, sample_rows=whole, tell=listener(progress))
        return asking.solve(max_passes=most)


class _Asking:
    """The passes over the contexts so far, and the best design."""

    def __init__(self, task: LargeTask, engine: Engine, tolerance: float, *, sample_rows: int, tell: Progress) -> None:
        self.task, self.engine, self.tolerance, self.tell = task, engine, tolerance, tell
        self.summing: Summation = summing_of(task.policies)
        self.source = task.rows
        self.n = self.source.n_rows
        self.rows = sampled_rows(self.n, sample_rows)
        self.passes = 0
        self.lower, self.upper = 0.0, np.inf
        self.best: Design | None = None
        self._sum_worth()

    def solve(self, *, max_passes: int) -> LargeSolution:
        surrogate, tolerance = self.surrogate, self.tolerance
        sample = surrogate.task
        stranger = find_stranger(sample.policies, sample.contexts, sample.possible.objective.reference)
        seeds: tuple[Policy, ...] = (stranger, *action_seekers(sample.policies, sample.contexts))
        pool = Pool(sample.possible, scale=sample.scale, beyond=surrogate)
        pool.add(seeds)
        note = f"stopped after {max_passes} passes over all contexts"
        while self.passes < max_passes:
            design = self._uniform()
            if pool.policies:
                found = solve_columns(
                    sample, pricing=surrogate.price, seeds=seeds, pool=pool, tolerance=tolerance, progress=self.tell
                )
                design = whole_weights(found.design)
            price, costs = self._sum_service(design)
            self.tell(f"pass {self.passes}: between {self.lower:.5g} and {self.upper:.5g} on all {self.n:,} contexts")
            if self.upper == 0.0:
                note = "every policy acts alike: there is nothing to learn"
                break
            if relative_gap(self.lower, self.upper) <= self.tolerance:
                note = ""
                break
            surrogate.learn(design, costs)
            pool.learn(surrogate)
            seeds, tolerance = price.policies, CORRECTED_TOLERANCE_SHARE * self.tolerance
            if pool.add(seeds) == 0 and not pool.policies:
                note = "policies differ on contexts too rare for the sample; take a larger one"
                break
        assert self.best is not None
        return LargeSolution(
            self.best, self.lower, self.upper, self.tolerance, self.n, len(self.rows), self.passes, note=note
        )

    def _uniform(self) -> Design:
        """Return uniform exploration."""
        return Design((), np.empty(0), self.reference, floor=1.0 / self.task.policies.n_actions)

    def _sum_worth(self) -> None:
        """Make the first pass: the value of policies, the reference, and the sample."""
        task, n_actions = self.task, self.task.policies.n_actions
        bits = bits_below(float(self.n))
        like = next(iter(self.source.blocks(0, 1))).contexts
        question = MeanRewardSums(self.summing, task.means, task.reference, n_actions, bits, self.rows, like.n_features)
        sums = self._ask(question, what="adding up what policies earn")
        worth = self.summing.finish(sums[0])
        policies, contexts = self.summing.policies, self.summing.contexts
        earned, count = np.ascontiguousarray(worth[..., :-1]), worth[..., -1:]
        if task.reference is None:
            self.reference = policies.argmax(contexts, earned)
            own = policies.attained(contexts, earned, self.reference)
        else:
            self.reference, own = task.reference, float(sums[2][0])
        unit = 2.0**-bits / self.n
        gaps = (own / self.n * count - earned) * unit
        # The mean rewards of both policies are rounded by at most half a unit each where they differ.
        self.least_gaps, self.gap_error = gaps - count * unit, unit * self.n
        sample = contexts_of_bits(sums[1], like)
        self.surrogate = Surrogate(self._sample_task(sample), summing=self.summing, gaps=gaps)

    def _sample_task(self, sample: Contexts) -> DesignTask:
        task, rows = self.task, np.arange(len(sample))
        n_actions = task.policies.n_actions
        means = shares(task.means, sample, n_actions=n_actions, name="mean rewards")
        gaps = (means[rows, self.reference(sample)][:, None] - means) / len(sample)
        noise = None if task.noise is None else shares(task.noise, sample, n_actions=n_actions, name="noise variances")
        return DesignTask(
            task.policies,
            sample,
            reference=self.reference,
            gaps=gaps,
            scale=task.scale,
            noise=noise,
            floor=task.floor,
        )

    def _sum_service(self, design: Design) -> tuple[DesignPrice, FloatArray]:
        """Make a pass; return the price of a design, and the sums of its costs as shares of all contexts."""
        task = self.task
        question = DesignCostSums.of(design, summing=self.summing, noise=task.noise, floor=task.floor, n_rows=self.n)
        sums = self._ask(question, what="adding up how a design serves policies")
        costs = np.ldexp(self.summing.finish(sums[0]), -question.cost_bits) / self.n
        price = self.surrogate.price_all(costs, gaps=self.least_gaps)
        if price.upper < self.upper or self.best is None:
            self.best, self.upper = design, price.upper
        value = float(np.ldexp(float(sums[1][0]), -question.value_bits)) / self.n
        self.lower = max(self.lower, self._proven(design, value))
        return price, costs

    def _proven(self, design: Design, value: float) -> float:
        """Return the lower end proven by weights κ: G(κ)/Σ_π κ_π d(Δ_π)², as κ_π = λ_π/d(Δ_π)² and Σλ = 1."""
        if not design.support:
            return 0.0
        gaps = np.array([self.surrogate.gap(policy) for policy in design.support]) + self.gap_error
        return value / float(design.weights @ self.task.scale(gaps) ** 2) * (1.0 - ENDS_ROUNDING)

    def _ask(self, question: MeanRewardSums | DesignCostSums, *, what: str) -> Sums:
        self.passes += 1
        return self.engine.ask(self.source, question, what=what)


def summing_of(policies: PolicyClass) -> Summation:
    """Return how rows are summed for a class.

    Raises:
        InputError: If it needs all rows at once, or its sums would not fit into memory.
    """
    if not can_be_summed(policies):
        raise InputError(
            f"policies of this class ({policies.type_name}) are searched with all rows at once; take trees of "
            "depth 2 or less, or a class over contexts with ids, or solve_design with contexts in memory"
        )
    found = summing(policies)
    # One per core, the total, and those that are searched: of gaps, of costs, of both, and the correction.
    needed, free = found.zeros(policies.n_actions + 1).nbytes * (cores() + 8), free_memory_bytes()
    if free is not None and needed > free:
        lighter = policies.lighter
        raise InputError(
            f"sums over contexts would take {needed / 1e6:,.0f} MB of the {free / 1e6:,.0f} MB that are free; {lighter}"
        )
    return found


def sampled_rows(n_rows: int, most: int) -> IntArray:
    """Return all rows, or `most` in order: one at random from each of as many stretches of equal length."""
    if n_rows <= most:
        return np.arange(n_rows)
    edges = np.arange(most + 1) * n_rows // most
    return np.random.default_rng(SAMPLE_SEED).integers(edges[:-1], edges[1:])


def contexts_of_bits(bits: IntArray, like: Contexts) -> Contexts:
    """Return contexts from their features and, last, their ids (m, d + 1) as bit patterns, with the names of others."""
    features = np.ascontiguousarray(bits[:, :-1]).view(np.float64)
    ids = None if like.ids is None else bits[:, -1]
    return Contexts.of(features, names=like.names, categories=like.categories, ids=ids)

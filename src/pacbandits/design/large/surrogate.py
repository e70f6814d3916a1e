"""A small stand-in for a large problem: a sample of contexts, corrected by what was summed over all of them.

Sums over the sample miss those over all contexts by chance. Once a design p₀ has been summed over all,

    V_π(p) ≈ V_π(p; sample) + (V_π(p₀; all) − V_π(p₀; sample))

is exact at p₀, and right nearby to far less than the sample's own error: what is left is the chance in the *change* of
V_π. The correction is a sum over contexts of scores of π's action, as V itself is, so that the class is searched for
the policies served worst as ever; and it does not depend on p, so that the best p for given weights stays what it is.
Gaps do not depend on a design, and are those over all contexts from the start.
"""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.design.large.questions import bits_below
from pacbandits.design.pricing import DesignPrice, best_pricing
from pacbandits.design.scale import GapScale
from pacbandits.design.task import DesignTask
from pacbandits.policies.summing import Summation
from pacbandits.records import Contexts, Design, Policy


class Surrogate:
    """What is known of policies on all contexts, by sums and a sample.

    task: the problem on the sample.
    summing: how rows are added up for the class.
    gaps: sums of gap scores over all contexts, as the class wants them.
    correction: what sums of costs are larger by on all contexts than on the sample, for the last design summed.
    """

    def __init__(self, task: DesignTask, *, summing: Summation, gaps: FloatArray) -> None:
        self.task, self.summing, self.gaps = task, summing, gaps
        self.correction = np.zeros_like(gaps)
        self._price = best_pricing(summing.policies)

    def gap(self, policy: Policy) -> float:
        """Δ_π on all contexts."""
        return self._attained(self.gaps, policy)

    def added(self, policy: Policy) -> float:
        """What V_π is larger by on all contexts than on the sample."""
        return self._attained(self.correction, policy)

    def learn(self, design: Design, costs: FloatArray) -> None:
        """A design has been summed over all contexts; costs: the sums of its costs, as shares of all contexts."""
        here = self.task.possible
        noise = here.objective.noise
        propensities = design.propensities(here.contexts, noise=noise)
        self.correction = costs - self._add_up(here.objective.costs(propensities))

    def price(self, contexts: Contexts, costs: FloatArray, gaps: FloatArray, scale: GapScale) -> DesignPrice:
        """Which policies a design serves worst, by its costs (m, A) on the sample."""
        return self.price_all(self._add_up(costs) + self.correction)

    def price_all(self, costs: FloatArray, *, gaps: FloatArray | None = None) -> DesignPrice:
        """The same by sums of costs over all contexts; gaps: sums of gap scores, if they are to be others."""
        return self._price(self.summing.contexts, costs, self.gaps if gaps is None else gaps, self.task.scale)

    def _add_up(self, costs: FloatArray) -> FloatArray:
        """Sums of costs (m, A) over the sample, to many digits."""
        bits = bits_below(max(float(costs.max(axis=1).sum()), 1e-300))
        sums = self.summing.zeros(costs.shape[1])
        self.summing.add(self.task.possible.contexts, np.rint(np.ldexp(costs, bits)).astype(np.int64), sums)
        return np.ldexp(self.summing.finish(sums), -bits)

    def _attained(self, sums: FloatArray, policy: Policy) -> float:
        return self.summing.policies.attained(self.summing.contexts, sums, policy)

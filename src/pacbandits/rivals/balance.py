"""Estimated values of policies from rounds that played differently, where 1/p of single rounds would be too large.

    p̄(a|c) = Σ_k (n_k/n) p_k(a|c)                     over rounds of n_k interactions each, n in all
    V̂(π) = b + (1/n) Σ (r − b) 1{π(c) = a}/p̄(a|c)     with b the mean reward of all interactions

Weights 1/p̄ see all rounds as one that drew its way to play by lot: the balance heuristic of Veach and Guibas,
"Optimally combining sampling techniques for Monte Carlo rendering", SIGGRAPH 1995. Where exploration falls like 1/t,
weights 1/p grow like t and estimates never settle, but the number of times that p̄ has an action explored, and with it
the estimate's precision, grows like log t. With one context it is the mean reward of each action, but that expected
plays stand for plays. Taking off b makes the noise of these small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.records import Contexts, Sampler
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan


@dataclass(frozen=True, eq=False)
class Balance:
    """How often each action was expected to be played in each context that was seen.

    samplers: of the rounds so far.
    sizes: interactions of each round.
    expected (n, A): `n p̄(a|c)`, for every context once.
    """

    samplers: tuple[Sampler, ...]
    sizes: tuple[int, ...]
    expected: FloatArray

    @classmethod
    def nothing(cls, contexts: Contexts, *, n_actions: int) -> Balance:
        """No rounds yet."""
        return cls((), (), np.zeros((len(contexts.tallied()), n_actions)))

    def with_round(self, plan: Plan, seen: Seen) -> Balance:
        """The same and a round more, after which this was seen."""
        samplers, sizes, known = (*self.samplers, plan.sampler), (*self.sizes, plan.samples), len(self.expected)
        expected = np.zeros(seen.plays.shape)
        if known == len(seen.contexts):
            expected = self.expected + plan.samples * plan.sampler.propensities(seen.contexts)
            return Balance(samplers, sizes, expected)
        expected[:known] = self.expected
        expected += plan.samples * plan.sampler.propensities(seen.contexts)
        fresh = seen.contexts.take(np.arange(known, len(seen.contexts)))
        for sampler, size in zip(self.samplers, self.sizes, strict=True):
            expected[known:] += size * sampler.propensities(fresh)
        return Balance(samplers, sizes, expected)

    def scores(self, seen: Seen) -> FloatArray:
        """Scores (n, A) whose sum over what a policy plays is n (V̂(π) − b)."""
        plays, samples = seen.plays.sum(), seen.samples
        baseline = float(seen.sums.sum() / plays) if plays > 0 else 0.0
        centred = (seen.sums - baseline * seen.plays) * samples
        return np.divide(centred, self.expected, out=np.zeros_like(centred), where=seen.plays > 0)

"""Policy values by balanced importance weighting: centred rewards, and all rounds pooled, for a smaller variance.

    V̂(π) = b + (1/n) Σ (r − b) 1{π(c) = a}/p(a|c)     with b the mean reward of all n interactions

is centred: how often π was followed by luck no longer counts for it, which leaves a fraction of the variance. Proofs
for rewards as they are carry over: V̂ is linear in b, so that an error bound for b = 0 and for b = 1 (losses in the
place of rewards; together they take δ twice) is one for every b between, also for one that data chose. Over rounds of
n_k interactions each that played by other p_k,

    p̄(a|c) = Σ_k (n_k/n) p_k(a|c)

in the place of p sees all rounds as one that drew its way to play by lot: the balance heuristic of Veach and Guibas,
"Optimally combining sampling techniques for Monte Carlo rendering", SIGGRAPH 1995. Where exploration falls like 1/t,
weights 1/p grow like t and estimates never settle, but with 1/p̄ they do, as what is explored in all grows like log t.
With one context and p̄ that is the mean reward of each action, but that expected plays stand for plays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Policy, Sampler
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan


@dataclass(frozen=True, eq=False)
class Balance:
    """The expected number of plays of each action in each context seen.

    samplers: of the rounds so far.
    sizes: interactions of each round.
    expected (n, A): `n p̄(a|c)`, for every context once.
    """

    samplers: tuple[Sampler, ...]
    sizes: tuple[int, ...]
    expected: FloatArray

    @classmethod
    def nothing(cls, contexts: Contexts, *, n_actions: int) -> Balance:
        """Return the balance before the first round."""
        return cls((), (), np.zeros((len(contexts.tallied()), n_actions)))

    def with_round(self, plan: Plan, seen: Seen) -> Balance:
        """Return the balance after one more round; seen: all observations after it."""
        samplers, sizes, known = (*self.samplers, plan.sampler), (*self.sizes, plan.samples), len(self.expected)
        expected = plan.samples * plan.sampler.propensities(seen.contexts)
        expected[:known] += self.expected
        if known < len(seen.contexts):
            fresh = seen.contexts.take(np.arange(known, len(seen.contexts)))
            for sampler, size in zip(self.samplers, self.sizes, strict=True):
                expected[known:] += size * sampler.propensities(fresh)
        return Balance(samplers, sizes, expected)

    def scores(self, seen: Seen) -> FloatArray:
        """Return scores (n, A) whose sum over a policy's actions is n (V̂(π) − b)."""
        centred = (seen.sums - mean_reward(seen) * seen.plays) * seen.samples
        return np.divide(centred, self.expected, out=np.zeros_like(centred), where=seen.plays > 0)


def mean_reward(seen: Seen) -> float:
    """Return b, the mean reward of all interactions; 0 if there were none."""
    return float(seen.sums.sum() / max(seen.samples, 1.0))


def centred_scores(seen: Seen) -> FloatArray:
    """Return scores (n, A) whose sum over a policy's actions is n (V̂(π) − b), with weights 1/p."""
    return seen.scores - mean_reward(seen) * seen.inverses


def best_by_centred_scores(policies: PolicyClass, seen: Seen) -> tuple[Policy, int]:
    """Return the policy of largest value, by centred rewards weighted by 1/p, and the number of oracle calls, 1."""
    return policies.argmax(seen.contexts, centred_scores(seen)), 1

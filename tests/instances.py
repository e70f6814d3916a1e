"""Random instances for tests: small, awkward on purpose, and made from a seed so that a failure can be replayed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from pacbandits.arrays import FloatArray
from pacbandits.policies.finite import Finite
from pacbandits.records import Contexts


@dataclass(frozen=True, eq=False)
class Instance:
    """A truth and a finite class on it."""

    population: Contexts
    mean_rewards: FloatArray
    noise_variance: FloatArray
    policies: Finite

    @property
    def values(self) -> FloatArray:
        """V(π) of every policy, by the definition."""
        rows = np.arange(len(self.population))
        return np.array([self.population.weights @ self.mean_rewards[rows, row] for row in self.policies.table])


def make_instance(
    seed: int,
    *,
    n_policies: int | None = None,
    n_contexts: int | None = None,
    n_actions: int | None = None,
    awkward: bool = True,
) -> Instance:
    """A finite class on a random problem; `awkward` adds skewed and zero weights, copies and near-copies."""
    rng = np.random.default_rng(seed)
    n = n_contexts or int(rng.integers(1, 9))
    a = n_actions or int(rng.integers(2, 6))
    k = n_policies or int(rng.integers(2, 30))
    weights = rng.dirichlet(np.full(n, rng.choice([0.1, 1.0, 10.0]) if awkward else 5.0))
    if awkward and n > 1 and rng.random() < 0.3:
        weights[rng.integers(n)] = 0.0
        weights = weights / weights.sum()
    table = rng.integers(0, a, size=(k, n))
    if awkward:
        # Policies that differ from the first on few contexts, or on none.
        near = rng.random((k, n)) < rng.choice([0.0, 0.5, 0.9])
        table = np.where(near, table[0], table)
        table[rng.random(k) < 0.15] = table[0]
    rewards = rng.random((n, a))
    return Instance(
        population=Contexts.finite(n, weights=weights),
        mean_rewards=rewards,
        noise_variance=rewards * (1 - rewards),
        policies=Finite(table, n_actions=a),
    )


seeds = st.integers(min_value=0, max_value=2**31 - 1)
epsilons = st.sampled_from([0.001, 0.01, 0.05, 0.2, 1.0])

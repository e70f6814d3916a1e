"""Small policy classes with every behaviour listed, to be searched through oracles and by looking."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from tests.policies.brute import all_actions, values

from instances import make_instance
from pacbandits.arrays import FloatArray, IntArray
from pacbandits.policies import Finite, PolicyClass, Trees, Trivial
from pacbandits.policies.base import ArgmaxOnly
from pacbandits.records import Contexts, Policy

KINDS = ("finite", "trivial", "stumps", "trees")


@dataclass(frozen=True, eq=False)
class Case:
    """A class, contexts (some of them twice), and the different behaviours (K, n) of its policies there."""

    policies: PolicyClass
    contexts: Contexts
    behaviours: IntArray

    def scores(self, seed: int, *, whole: bool = False) -> FloatArray:
        drawn = np.random.default_rng(seed).normal(size=(len(self.contexts), self.policies.n_actions))
        return np.round(drawn) if whole else drawn

    def values(self, scores: FloatArray) -> FloatArray:
        return values(self.behaviours, scores)

    def value(self, policy: Policy, scores: FloatArray) -> float:
        return float(values(policy(self.contexts)[None], scores)[0])

    def policy(self, behaviour: IntArray) -> Policy:
        """The policy of the class that acts as told: no other agrees on so many contexts."""
        scores = np.zeros((len(self.contexts), self.policies.n_actions))
        scores[np.arange(len(behaviour)), behaviour] = 1.0
        policy = self.policies.argmax(self.contexts, scores)
        np.testing.assert_array_equal(policy(self.contexts), behaviour)
        return policy

    def row(self, policy: Policy) -> int:
        """The number of a policy's behaviour."""
        return int(np.flatnonzero((self.behaviours == policy(self.contexts)).all(axis=1))[0])


class ListOnly(ArgmaxOnly):
    """A class stripped of all but its argmax and its list."""

    lists_policies = True

    def __init__(self, policies: Finite) -> None:
        super().__init__(policies)
        self.policy, self.actions, self._n = policies.policy, policies.actions, len(policies)

    def __len__(self) -> int:
        return self._n


def make_case(kind: str, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    if kind == "finite":
        instance = make_instance(seed)
        n = len(instance.population)
        contexts = instance.population.take([*range(n), *rng.integers(0, n, size=rng.integers(0, 3))])
        return Case(instance.policies, contexts, np.unique(instance.policies.actions(contexts), axis=0).astype(int))
    if kind == "trivial":
        contexts = Contexts.finite(4).take([*range(4), *rng.integers(0, 4, size=2)])
        maps = np.array(list(itertools.product(range(3), repeat=4)))
        return Case(Trivial(4, 3), contexts, maps[:, contexts.ids])
    features = np.column_stack([rng.normal(size=7), rng.integers(0, 3, 7)])
    contexts = Contexts.of(features[[*range(7), 0]], categories=[None, ["a", "b", "c"]])
    depth = 1 if kind == "stumps" else 2
    policies = Trees.learn(contexts, n_actions=2 if kind == "trees" else 3, depth=depth, bins=4)
    return Case(policies, contexts, all_actions(policies.bins, contexts, n_actions=policies.n_actions, depth=depth))

"""Samplers that baselines share: mixtures of policies, tables, and rules over a model's predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, floats
from pacbandits.checks import entries, number, settle
from pacbandits.errors import InputError
from pacbandits.records import Contexts, Policy

TIED = 1e-9  # how far scores that are the same may lie apart; what is computed in another order differs in last digits


@dataclass(frozen=True, eq=False)
class PolicyMixture:
    """A mixture of policies with a minimum propensity.

        p(a|c) = (1 − Aμ) Σ_π w_π 1{π(c) = a} + μ

    policies: that are drawn.
    weights (len(policies),): w, which sum to 1.
    floor: μ, at most 1/A.
    """

    policies: tuple[Policy, ...]
    weights: FloatArray
    floor: float = 0.0

    def __post_init__(self) -> None:
        entries(self.policies, name="policies")
        weights = floats(self.weights, name="weights of policies", shape=(len(self.policies),))
        if not self.policies or weights.min() < 0 or weights.sum() <= 0:
            raise InputError("a mixture needs a policy, and weights that are not negative and not all 0")
        most = 1.0 / self.n_actions
        settle(self, weights=weights / weights.sum(), floor=number(self.floor, name="floor", least=0.0, most=most))

    @property
    def n_actions(self) -> int:
        return self.policies[0].n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        rows = np.arange(len(contexts))
        out = np.zeros((len(contexts), self.n_actions))
        for policy, weight in zip(self.policies, self.weights, strict=True):
            out[rows, policy(contexts)] += weight
        return floored(out, self.floor)


def floored(propensities: FloatArray, floor: float) -> FloatArray:
    """Return propensities (n, A) mixed so that each action has the minimum propensity μ ≤ 1/A, summing to 1 exactly."""
    out = (1.0 - propensities.shape[1] * floor) * propensities + floor
    return out / out.sum(axis=1, keepdims=True)


def best_shares(scores: FloatArray) -> FloatArray:
    """Return shares with all weight on the action of largest score (…, A); ties, up to rounding, are split evenly."""
    top = scores.max(axis=-1)
    among = scores >= (top - TIED * np.maximum(np.abs(top), 1.0))[..., None]
    count = among.sum(axis=-1)
    return among.astype(np.float64) if count.max() == 1 else among / count[..., None]


def even(n_actions: int) -> EvenSampler:
    """Return uniform exploration."""
    return EvenSampler(n_actions)


@dataclass(frozen=True)
class EvenSampler:
    """Uniform exploration.

    n_actions: how many there are.
    """

    n_actions: int

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return 1/A as (n, A)."""
        return np.full((len(contexts), self.n_actions), 1.0 / self.n_actions)


@dataclass(frozen=True, eq=False)
class RuleSampler:
    """A sampler defined by a function of the contexts.

    n_actions: how many there are.
    rule: propensities (n, A) of contexts; pure, and of each context by itself.
    """

    n_actions: int
    rule: Callable[[Contexts], FloatArray]

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        return self.rule(contexts)

"""Designs: exploration by a sparse weighting of policies against a reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from pacbandits.allocation import allocate, check_floor
from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.checks import entries, flag, instance, number, settle
from pacbandits.confidence import check_noise
from pacbandits.errors import InputError
from pacbandits.records.contexts import Contexts
from pacbandits.records.policy import Policy, check_policy


@runtime_checkable
class Sampler(Protocol):
    """Anything that gives the probability of each action."""

    @property
    def n_actions(self) -> int: ...

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        ...


def check_sampler(sampler: object) -> Sampler:
    """Return the sampler; raise InputError if it is not one."""
    return instance(sampler, Sampler, name="sampler", remedy="Design.uniform(policy) is one")


@dataclass(frozen=True, eq=False)
class Sparing:
    """A sampler that never plays certain actions: another's probabilities of the other actions, normalised.

    sampler: the other sampler.
    spared: the excluded actions.
    """

    sampler: Sampler
    spared: tuple[int, ...]

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        strange = [action for action in self.spared if not 0 <= action < self.sampler.n_actions]
        if strange or len(set(self.spared)) >= self.sampler.n_actions:
            last = self.sampler.n_actions - 1
            raise InputError(f"some of the actions from 0 to {last} can be spared, but not all; got {self.spared}")

    @property
    def n_actions(self) -> int:
        return self.sampler.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A); uniform over the other actions if their probabilities are all 0."""
        return spare_actions(self.sampler.propensities(contexts), self.spared)


def spare_actions(propensities: FloatArray, actions: tuple[int, ...]) -> FloatArray:
    """Return propensities (n, A) without some actions: the others in proportion, or equal if all of them are 0."""
    if not actions:
        return propensities
    out = propensities.copy()
    out[:, actions] = 0.0
    left = [action for action in range(out.shape[1]) if action not in actions]
    nothing = np.flatnonzero(out.sum(axis=1) <= 0)
    out[np.ix_(nothing, np.array(left))] = 1.0
    return out / out.sum(axis=1, keepdims=True)


def spare(sampler: Sampler, actions: tuple[int, ...]) -> Sampler:
    """Return the sampler with exactly these actions excluded, whatever it excluded before."""
    if isinstance(sampler, Sparing):
        return sampler if sampler.spared == actions else spare(sampler.sampler, actions)
    return Sparing(sampler, actions) if actions else sampler


@dataclass(frozen=True, eq=False)
class Design:
    """Play `a` with probability `p(a|c) ∝ √x`, where x is the weight of the support that disagrees over `a`.

        x_{c,a} = Σ_π κ_π · (1{exactly one of π(c), q(c) is a} + η)

    A context on which the whole support agrees with the reference is played uniformly. With probability `even_share`,
    so is any context.

    support: the policies π.
    weights (len(support),): κ_π ≥ 0, of any scale.
    reference: q.
    floor: the minimum probability of any action, at most 1/A.
    smoothing: η ≥ 0, the paper's regulariser.
    even_share: the probability of playing uniformly.
    """

    support: tuple[Policy, ...]
    weights: FloatArray
    reference: Policy
    floor: float = 0.0
    smoothing: float = 0.0
    even_share: float = 0.0

    def __post_init__(self) -> None:
        check_policy(self.reference, name="reference")
        support = entries(self.support, name="support")
        settle(self, support=tuple(check_policy(one, name="a policy of the support") for one in support))
        weights = floats(self.weights, name="design weights", shape=(len(self.support),))
        if weights.size and weights.min() < 0:
            raise InputError(f"design weights must not be negative, got {weights.min()}")
        n_actions = self.n_actions
        if any(policy.n_actions != n_actions for policy in self.support):
            raise InputError("the policies of a design must have the same number of actions as its reference")
        floor = check_floor(self.floor, n_actions=n_actions)
        smoothing = number(self.smoothing, name="smoothing", least=0, wanted="be 0 or more and finite")
        even = number(self.even_share, name="even_share", least=0, most=1)
        settle(self, weights=weights, floor=floor, smoothing=smoothing, even_share=even)

    @classmethod
    def uniform(cls, reference: Policy) -> Design:
        """Return the design in which every action is equally likely in every context."""
        return cls((), np.empty(0), reference)

    @property
    def n_actions(self) -> int:
        return self.reference.n_actions

    def propensities(
        self, contexts: Contexts, *, noise: FloatArray | None = None, asked: IntArray | None = None
    ) -> FloatArray:
        """Return p(a|c) as (n, A) on any contexts.

        noise (n, A): weights each action by its noise variance.
        asked (len(support) + 1, n): the actions of the support's policies and of the reference, if already known.
        """
        n = len(contexts)
        rows = np.arange(n)
        mass = np.zeros((n, self.n_actions))
        flat, starts = mass.reshape(-1), rows * self.n_actions
        if asked is not None:
            reference = asked[-1]
            weights = np.repeat(self.weights, n)
            flat += np.bincount((starts + asked[:-1]).reshape(-1), weights=weights, minlength=len(flat))
        else:
            reference = self.reference(contexts)
            for weight, policy in zip(self.weights, self.support, strict=True):
                if weight > 0:
                    flat[starts + policy(contexts)] += weight
        mass[rows, reference] = 0.0
        mass[rows, reference] = mass.sum(axis=1)
        mass += self.smoothing * self.weights.sum()
        if noise is not None:
            variance = floats(noise, name="noise", shape=(n, self.n_actions))
            if variance.min() < 0:
                raise InputError(f"noise must not be negative, got {variance.min()}")
            mass *= variance
        chosen = allocate(mass, floor=self.floor)[0]
        return (1.0 - self.even_share) * chosen + self.even_share / self.n_actions if self.even_share > 0 else chosen


# Assumptions about rewards.


@dataclass(frozen=True)
class RewardBounds:
    """Bounds on rewards: means lie in [0, 1], and `E[r² | c, a] ≤ second_moment`.

    second_moment: that bound, 1 or more.
    in_unit: whether every reward lies in [0, 1], not only its mean.
    proxy: an R² for which noise is R²-sub-Gaussian, if known; 1/4 for rewards in [0, 1] (Hoeffding's lemma).
    """

    second_moment: float = 1.0
    in_unit: bool = True
    proxy: float | None = None

    def __post_init__(self) -> None:
        bound = number(self.second_moment, name="second_moment, the bound on E[r²],", least=1)
        settle(self, second_moment=bound, in_unit=flag(self.in_unit, name="in_unit"))
        if self.in_unit and self.second_moment > 1.0:
            raise InputError(f"rewards in [0, 1] have E[r²] ≤ 1; a bound of {self.second_moment} does not fit")
        if self.proxy is None and self.in_unit:
            settle(self, proxy=0.25)
        if self.proxy is not None:
            settle(self, proxy=check_noise(self.proxy, name="proxy, the sub-Gaussian proxy of the noise,"))

    def describe(self) -> str:
        """Return the assumption in words."""
        if self.in_unit:
            return "rewards lie in [0, 1]"
        return f"mean rewards lie in [0, 1], and E[r² | c, a] ≤ {self.second_moment:g}"

"""A problem: contexts, the true mean rewards, noise, and the policy class to search.

A problem from outside the package is a `Problem` made by hand, or a function of declared options that returns one (see
`built_in`): it works wherever a built-in one does, and can be saved if its policies can be listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from warnings import warn

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray, floats, integers
from pacbandits.checks import generator, instance, settle, text, whole_number
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.problems.noise import Noise
from pacbandits.records import (
    Chosen,
    Contexts,
    Log,
    Mixture,
    Policy,
    RewardBounds,
    Sampler,
    check_chosen,
    check_contexts,
    check_sampler,
)

MOST_DRAWN_ENTRIES = 5 * 10**7  # of a log, rows × actions: about a gigabyte while it is drawn
MOST_COUNTED_SAMPLES = 2**62  # of a round: counts must fit into 64 bits


@dataclass(frozen=True, eq=False)
class RealizableTruth:
    """Mean rewards that are linear in known features: `r(c, a) = ⟨φ(c, a), θ*⟩`.

    features (N, A, d): φ.
    parameter (d,): θ*.
    """

    features: FloatArray
    parameter: FloatArray

    def __post_init__(self) -> None:
        features = floats(self.features, name="linear features", shape=(None, None, None))
        parameter = floats(self.parameter, name="linear parameter", shape=(features.shape[2],))
        settle(self, features=features, parameter=parameter)

    @property
    def mean_rewards(self) -> FloatArray:
        """Return ⟨φ(c, a), θ*⟩ as (N, A)."""
        return self.features @ self.parameter


@dataclass(frozen=True, eq=False)
class Problem:
    """A contextual bandit with a finite population of contexts and known mean rewards.

        problem = Problem("two doors", "The left door is better.", Contexts.finite(1), [[0.6, 0.4]], Bernoulli(),
                          Finite([[0], [1]], n_actions=2))
        run(problem, algorithm="coda", epsilon=0.1, delta=0.05)

    name: the spec or file it came from, with every option.
    description: the same in words.
    population: the N contexts, ids 0 … N − 1, weighted by ν.
    mean_rewards (N, A): r(c, a).
    noise: the distribution of rewards about their means.
    policies: the class that the problem suggests.
    realizable: φ and θ* if mean rewards are linear in features; else None.
    most_drawn_entries: the largest log, in rows × actions, whose rewards are drawn one by one; limited by memory.
    """

    name: str
    description: str
    population: Contexts
    mean_rewards: FloatArray
    noise: Noise
    policies: PolicyClass
    realizable: RealizableTruth | None = None
    most_drawn_entries: int = MOST_DRAWN_ENTRIES

    def __post_init__(self) -> None:
        n = len(check_contexts(self.population, name="population"))
        text(self.name, name="name")
        text(self.description, name="description")
        instance(self.noise, Noise, name="noise", remedy="Bernoulli() and Gaussian(variance) are such")
        settle(self, policies=check_class(self.policies))
        settle(self, most_drawn_entries=whole_number(self.most_drawn_entries, name="most_drawn_entries", least=1))
        if self.population.ids is None or not np.array_equal(self.population.ids, np.arange(n)):
            raise InputError(f"the contexts of a problem must carry the ids 0 to {n - 1}, in order")
        means = floats(self.mean_rewards, name="mean_rewards", shape=(n, None))
        if means.shape[1] == 0:
            raise InputError("mean_rewards has no columns; at least one action is needed")
        self.noise.check(means)
        if self.policies.n_actions != means.shape[1]:
            raise InputError(
                f"the policies have {self.policies.n_actions} actions, but mean_rewards has {means.shape[1]} columns"
            )
        if self.policies.n_contexts and self.policies.n_contexts != n:
            raise InputError(
                f"the policies are tables over {self.policies.n_contexts} contexts, but the problem has {n}"
            )
        if self.realizable is not None:
            linear = instance(self.realizable, RealizableTruth, name="realizable").mean_rewards
            if linear.shape != means.shape or not np.allclose(linear, means, rtol=0, atol=1e-9):
                raise InputError("mean_rewards must be the product of the linear features and parameter")
        settle(self, mean_rewards=means)

    @property
    def n_actions(self) -> int:
        return self.mean_rewards.shape[1]

    @property
    def linear(self) -> RealizableTruth | None:
        """The former name of `realizable`."""
        warn("Problem.linear is now Problem.realizable", DeprecationWarning, stacklevel=2)
        return self.realizable

    @property
    def noise_variance(self) -> FloatArray:
        """Return σ²(c, a) as (N, A): `r(1 − r)` for Bernoulli rewards, as given for Gaussian ones."""
        return self._noise_variance

    @cached_property
    def _noise_variance(self) -> FloatArray:
        variance = self.noise.variances(self.mean_rewards)
        variance.setflags(write=False)
        return variance

    def contexts(self, n: int, rng: np.random.Generator) -> Contexts:
        """Return n contexts drawn independently from ν."""
        n = whole_number(n, name="n, the number of contexts to draw,", least=1)
        weights = self.population.weights
        return self.population.take(generator(rng).choice(len(weights), size=n, p=weights))

    def rewards(self, contexts: Contexts, actions: ArrayLike, rng: np.random.Generator) -> FloatArray:
        """Draw a reward (n,) for each of the contexts (by its id) under each of the actions (n,)."""
        ids = check_contexts(contexts).require_ids(below=len(self.population))
        played = integers(actions, name="actions", shape=(len(contexts),), below=self.n_actions)
        means, variances = self.mean_rewards[ids, played], self.noise_variance[ids, played]
        return self.noise.sample(means, variances=variances, rng=generator(rng))

    @property
    def reward_bounds(self) -> RewardBounds:
        """Return the bounds on rewards that an algorithm may know."""
        return self.noise.bounds(self.mean_rewards)

    def check_affordable(self, samples: int) -> None:
        """Raise unless that many interactions of one round fit into memory.

        Bernoulli rewards are counted, up to 2^62 of them; other rewards are drawn one by one.
        """
        samples = whole_number(samples, name="samples", least=1)
        if samples > MOST_COUNTED_SAMPLES:
            raise InputError(
                f"a round of {samples:.3g} interactions is more than can be counted (at most 2^62 = "
                f"{MOST_COUNTED_SAMPLES:.3g}); take a larger epsilon or a smaller scale"
            )
        most = self.most_drawn_entries // self.n_actions
        if samples > most and not self.noise.counted:
            raise InputError(
                f"a round of {samples:.3g} interactions with {self.noise.name} rewards would need about "
                f"{samples * self.n_actions * 20 / 1e9:.3g} GB; at most {most:.3g} fit: "
                "take a larger epsilon, or noise=bernoulli (whose rewards are counted, not stored)"
            )

    def interact(self, sampler: Sampler, *, samples: int, rng: np.random.Generator, round_number: int = 0) -> Log:
        """Return a round of interactions: contexts from ν, actions from the sampler, rewards from the true means.

        Drawn as counts of (context, action, reward), which have the distribution of independent draws; rows are ordered
        by context, not by time.
        """
        self.check_affordable(samples)
        check_sampler(sampler)
        generator(rng)
        round_number = whole_number(round_number, name="round_number", least=0)
        propensities = sampler.propensities(self.population)
        visits = _multinomial(np.array(samples), self.population.weights, rng)
        plays = _multinomial(visits, propensities / propensities.sum(axis=1, keepdims=True), rng)
        context, action = np.nonzero(plays)
        which, rewards, repeats = self.noise.tally(
            plays[context, action],
            means=self.mean_rewards[context, action],
            variances=self.noise_variance[context, action],
            rng=rng,
        )
        return Log.of(
            self.population.take(context[which]),
            actions=action[which],
            rewards=rewards,
            propensities=propensities[context[which]],
            rounds=np.full(len(which), round_number),
            repeats=repeats,
        )

    def value(self, policy: Chosen) -> float:
        """Return V(π) = Σ_c ν(c) r(c, π(c)), exactly; for a mixture policy, its expected value."""
        return self._average(policy, self.mean_rewards)

    def gain(self, policy: Chosen, control: int) -> float:
        """Return V(π) − V(control), summed by context: exactly 0 for a policy that plays the control everywhere."""
        return self._average(policy, self.mean_rewards - self.mean_rewards[:, [control]])

    def _average(self, policy: Chosen, rewards: FloatArray) -> float:
        """Return Σ_c ν(c) rewards(c, π(c)), averaged over the parts of a mixture."""
        chosen = check_chosen(policy)
        if isinstance(chosen, Mixture):
            return sum(w * self._average(one, rewards) for one, w in zip(chosen.policies, chosen.weights, strict=True))
        return float(self.population.weights @ rewards[np.arange(len(rewards)), chosen(self.population)])

    def best_policy(self) -> Policy:
        """Return π*, the class's argmax over the true values."""
        return self.policies.argmax(self.population, self.population.weights[:, None] * self.mean_rewards)


def _multinomial(counts: IntArray, probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return counts (…,) distributed over the last axis of the probabilities (…, k).

    numpy assigns the rounding error to the last category, whatever its probability. Here the most probable one comes
    last, for which it is negligible; in numpy's own order an action of probability 0 could be played.
    """
    order = np.argsort(probabilities, axis=-1, kind="stable")
    sorted_counts = rng.multinomial(counts, np.take_along_axis(probabilities, order, axis=-1))
    out = np.empty_like(sorted_counts)
    np.put_along_axis(out, order, sorted_counts, axis=-1)
    return out

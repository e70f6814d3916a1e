"""The shared part of the paper's algorithms: their rounds, and a class as a table of policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import instance, number, positive, settle
from pacbandits.confidence import check_delta, check_epsilon, round_confidence, round_epsilon, rounds_needed
from pacbandits.design import Objective
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.finite import Finite, sum_scores
from pacbandits.records import Contexts, RewardBounds, Sampler
from pacbandits.trials.protocol import Algorithm, Answer, Details, Plan, Setting, State, check_sampled_contexts

# The base class of the paper's algorithms.


# Contexts outside a sample may need actions that no support policy of the design takes there: every action gets at
# least this share of its probability under uniform exploration.
_SAMPLED_CONTEXTS_FLOOR_SHARE = 0.05

SampleScale = Annotated[float, About("multiplies every sample size; below 1 the guarantee is void", above=0)]


@dataclass(frozen=True)
class PaperAlgorithm:
    """The base of the paper's algorithms: dyadic accuracies, a split of δ, and the words of the guarantee.

    epsilon: ε; with 0 only the best policy of the class qualifies, and a round that leaves no other ends the run.
    delta: δ.
    scale: multiplies every sample size; below 1 the guarantee is void.
    rewards: the assumptions about rewards.
    sampled_contexts: the number of contexts that were drawn to represent ν; None if ν is known.
    floor: the minimum propensity as a share of uniform exploration, for contexts outside the sample.
    precision: the relative gap to which designs are solved.
    """

    name: ClassVar[str] = ""

    epsilon: float
    delta: float
    scale: float = field(default=1.0, kw_only=True)
    rewards: RewardBounds = field(default=RewardBounds(), kw_only=True)
    sampled_contexts: int | None = field(default=None, kw_only=True)
    floor: float = field(default=0.0, kw_only=True)
    precision: float = field(default=1e-3, kw_only=True)

    def __post_init__(self) -> None:
        settle(self, epsilon=check_epsilon(self.epsilon))
        settle(self, delta=check_delta(self.delta), scale=positive(self.scale, name="scale"))
        settle(self, floor=number(self.floor, name="floor, a share of uniform exploration,", least=0, below=1))
        settle(self, sampled_contexts=check_sampled_contexts(self.sampled_contexts))
        settle(self, precision=positive(self.precision, name="precision"))
        instance(self.rewards, RewardBounds, name="rewards")

    @classmethod
    def made_for(cls, setting: Setting, *, scale: SampleScale = 1.0) -> Algorithm[Any]:
        """Return the algorithm for this setting."""
        made: Any = cls(setting.epsilon, setting.delta, scale=scale, **options_for(setting))
        return made

    @property
    def rounds(self) -> int:
        """⌈log₂(1/ε)⌉, the largest number of rounds; 0 if ε = 0, as it is unknown."""
        return rounds_needed(self.epsilon) if self.epsilon > 0 else 0

    @property
    def any_will_do(self) -> bool:
        """Whether ε ≥ 1, so that no gap is larger, as mean rewards lie in [0, 1]."""
        return self.epsilon >= 1

    def fine_enough(self, round_number: int) -> bool:
        """Return whether ε_l ≤ ε, so that an ε_l-good policy is enough."""
        return self.epsilon > 0 and round_number >= self.rounds

    def confidence(self, policies: PolicyClass, round_number: int) -> float:
        """Return log(1/δ_l)."""
        return round_confidence(self.delta, round_number=round_number, log_size=policies.log_size)

    def plan(
        self, state: State, *, sampler: Sampler, samples: int, oracle_calls: int = 0, details: Details | None = None
    ) -> Plan:
        """Return the plan of the round after `state`."""
        number = state.round_number + 1
        epsilon = round_epsilon(number)
        return Plan(number, epsilon, sampler, samples, oracle_calls, {"epsilon": epsilon, **(details or {})})

    def result(self, state: State) -> Answer:
        """Return the best policy so far, and its guarantee."""
        return Answer(state.policy, state.finished, self.guarantee(state))

    def guarantee(self, state: State) -> str:
        """Return the guarantee for the policy of `state` with its assumptions, or why there is none."""
        if not state.finished:
            of_all = f" of about {self.rounds}" if self.rounds else ""
            return f"none: stopped after {state.round_number}{of_all} rounds"
        if self.scale < 1:
            return f"void: sample sizes were multiplied by {self.scale:g}, and the proof needs 1"
        promise = f"within {self.epsilon:g} of the best of its class" if self.epsilon else "the best of its class"
        words = (
            f"except with probability {self.delta:g} the policy is {promise}; "
            f"assumes that contexts are independent, that {self.rewards.describe()}"
        )
        if self.sampled_contexts is None:
            words += ", and that the distribution of contexts is known"
        else:
            words += (
                f", and that {self.sampled_contexts:,} contexts stand well enough for their distribution "
                "(policies that act alike on them are not told apart)"
            )
        return words if state.policies.exact else words + ", and that the argmax oracle, which is not exact, was right"


def options_for(setting: Setting) -> dict[str, Any]:
    """Return the fields that a setting determines for all of the paper's algorithms."""
    return {
        "rewards": setting.rewards,
        "sampled_contexts": setting.sampled_contexts,
        "floor": 0.0 if setting.sampled_contexts is None else _SAMPLED_CONTEXTS_FLOOR_SHARE,
    }


def check_bounded(algorithm: PaperAlgorithm) -> None:
    """Raise unless rewards are known to lie in [0, 1]: the regularised estimate bounds its terms by 1/γ."""
    if not algorithm.rewards.in_unit:
        raise InputError(
            f"{algorithm.name} needs rewards in [0, 1], and these are not known to be; use rage or rage-free, "
            "or noise=bernoulli where a problem has that option"
        )


# For algorithms that visit every policy: a class as a table, and how often its policies disagree.


# A trivial class of at most this many policies is listed.
_MAX_LISTED_MAPS = 5_000


def listed(policies: PolicyClass, *, algorithm: str) -> PolicyClass:
    """Return the class as one that can be listed; else raise InputError, naming an algorithm for it."""
    policies = check_class(policies)
    if policies.lists_policies:
        return policies
    if _few_maps(policies):
        maps = list(product(range(policies.n_actions), repeat=policies.n_contexts))
        return Finite(maps, n_actions=policies.n_actions)
    raise InputError(
        f"{algorithm} visits every policy, and the class {policies.type_name} has about "
        f"10^{policies.log_size / np.log(10):.1f}, too many to list; coda-paper can run on it"
    )


def can_be_listed(policies: PolicyClass) -> bool:
    """Return whether `listed` can list the class."""
    return policies.lists_policies or _few_maps(policies)


def _few_maps(policies: PolicyClass) -> bool:
    return policies.holds_every_map and policies.log_size <= np.log(_MAX_LISTED_MAPS)


def all_alike(actions: np.ndarray[Any, Any], contexts: Contexts) -> bool:
    """Return whether all policies of a table (K, n) act alike on the contexts that can occur; then any is best."""
    return bool((actions == actions[0])[:, contexts.weights > 0].all())


def stands_alone(best: int, gaps: FloatArray, *, listing: PolicyClass, contexts: Contexts, most: float) -> bool:
    """Return whether every policy that acts unlike policy `best`, on contexts that can occur, has a gap above `most`.

    gaps (|Π|,): estimated. most: an upper bound, on the good event, of the estimated gap of a best policy. Then no
    other policy is a best one, so this one is.
    """
    possible = contexts.weights > 0
    table = np.asarray(listing.actions(contexts))[:, possible]
    near = table[gaps <= most]
    return bool((near == table[best]).all())


def variances(
    actions: np.ndarray[Any, Any], *, reference: IntArray, contexts: Contexts, sampler: Sampler
) -> FloatArray:
    """Return V_π(p; q) (K,) for actions (K, n) on the contexts, q's actions (n,) and the sampler's propensities."""
    ones = np.ones((len(contexts), sampler.n_actions))
    objective = Objective(reference, contexts.weights, ones)
    return sum_scores(actions, objective.costs(np.ascontiguousarray(sampler.propensities(contexts))))


def disagreements(actions: np.ndarray[Any, Any], *, reference: IntArray, contexts: Contexts) -> FloatArray:
    """Return P(π(c) ≠ q(c)) (K,): no gap is larger, as mean rewards lie in [0, 1]."""
    return (actions != reference) @ contexts.weights

"""Planner and sampler for linear contextual bandits (Zanette et al. 2021), with proven constants.

The planner makes a mixture of policies from contexts alone, no reward seen:

    Σ = λI;   until the mixture is thought to be enough:
        π_k(c) = argmax_a ‖φ(c, a)‖_{Σ⁻¹},   A_k = E_c φ(c, π_k(c))φ(c, π_k(c))ᵀ
        play π_k for t_k samples in mind, Σ ← Σ + t_k A_k, with t_k such that det Σ doubles

The sampler plays π_k with probability t_k/Σt on every context, whatever comes of it, until

    √B · E_c max_{a,a'} ‖φ(c, a) − φ(c, a')‖_{V⁻¹} ≤ ε,     V = Σ_i φ_i φ_iᵀ of what was played

and answers with the best policy for least squares. This is (ε, δ)-PAC for rewards that are linear in φ. Given contexts
and actions, the noise is independent: neither what is played nor when it stops depends on rewards. So with
B = R²(r + 2√(rL) + 2L), L = log(1/δ) (`confidence.fixed_design_bound`), ⟨x, θ* − θ̂⟩ ≤ √B ‖x‖_{V⁻¹} for all x together,
except with probability δ; and as π̂ is best for θ̂,

    V(π*) − V(π̂) ≤ ⟨φ_π* − φ_π̂, θ* − θ̂⟩ ≤ √B ‖φ_π* − φ_π̂‖_{V⁻¹} ≤ √B E_c max_{a,a'} ‖φ(c, a) − φ(c, a')‖_{V⁻¹}.

**Source.** Zanette, Dong, Lee and Brunskill, "Design of experiments for stochastic contextual linear bandits", NeurIPS
2021. How it departs from the paper, which has orders and no constants: the planner averages over all contexts in each
step, where the paper's takes one offline context at a time (its limit of many); coordinates are those in which uniform
exploration has the identity for its A, so that λ counts samples; least squares are plain, as every direction of the
span is seen; the uncertainty is of differences; and the sampler's size is not Õ(d²/ε²), fixed beforehand, but what the
bound above asks for. It never asks for much more than 4rB/ε², as some design has E max_a ‖φ(c, a)‖²_{A⁻¹} ≤ r.

**Tuning.** `regularisation` is λ, in samples.

**Guarantees.** (ε, δ)-PAC where rewards are linear in φ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import instance, positive, settle
from pacbandits.confidence import check_delta, check_positive_epsilon, fixed_design_bound, whole_samples
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.features import FeatureMap, map_for
from pacbandits.progress import Progress
from pacbandits.realizable.algorithm import MIN_EPSILON, best_for
from pacbandits.realizable.features import information_of, pseudo_inverse
from pacbandits.realizable.moments import Population, played_coordinates
from pacbandits.records import Contexts, Log, Policy, RewardBounds, check_contexts
from pacbandits.trials.protocol import Answer, Plan, Profile, Setting, State, check_played, check_sampled_contexts

# The size of the first round, as a share of the plan (plays differ from their mean); of a later one, of all so far.
FIRST_ROUND_SHARE, LATER_ROUND_SHARE = 1.05, 0.1
# Actions whose uncertainty is this near to the largest are as uncertain; the first of them is taken.
_TIED_SHARE = 1e-9
# Information whose least eigenvalue is no larger than this share of the largest leaves a direction unseen.
_MAX_SINGULAR_SHARE = 1e-10
# Actions whose features differ by no more than this, in coordinates where no reward differs by more, are all alike.
_NO_DIFFERENCE = 1e-12
_BISECTIONS = 40
_BLOCK_PAIRS = 2**21


@dataclass(frozen=True, eq=False)
class MixtureSampler:
    """A sampler that draws one of K policies, each of which takes the action of largest uncertainty.

    features: φ, of any contexts.
    basis (d, r): takes φ to the coordinates of its span.
    inverses (K, r, r): Σ_k⁻¹.
    shares (K,): how often each is played, summing to one.
    """

    features: FeatureMap
    basis: FloatArray
    inverses: FloatArray
    shares: FloatArray

    @property
    def n_actions(self) -> int:
        return self.features.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        phi = self.features(contexts) @ self.basis
        return mix([uncertain_actions(phi, inverse) for inverse in self.inverses], self.shares, phi.shape[1])


def uncertain_actions(phi: FloatArray, inverse: FloatArray) -> IntArray:
    """argmax_a ‖φ(c, a)‖²_{Σ⁻¹} (n,) for φ (n, A, r) and Σ⁻¹ (r, r); of those that are equal to rounding, the first."""
    scores = ((phi @ inverse) * phi).sum(axis=2)
    return np.argmax(scores >= (1.0 - _TIED_SHARE) * scores.max(axis=1, keepdims=True), axis=1)


def mix(actions: list[IntArray], shares: FloatArray, n_actions: int) -> FloatArray:
    """Propensities (n, A) of policies that take these actions (n,), each with its share."""
    out = np.zeros((len(actions[0]), n_actions))
    rows = np.arange(len(out))
    for own, share in zip(actions, shares, strict=True):
        out[rows, own] += share
    return out / out.sum(axis=1, keepdims=True)


def mean_uncertainty(phi: FloatArray, weights: FloatArray, information: FloatArray) -> float:
    """`E_c max_{a,a'} ‖φ(c, a) − φ(c, a')‖_{V⁻¹}` for φ (N, A, r), ν (N,), V (r, r); infinite where V is singular."""
    values, vectors = np.linalg.eigh(information)
    if values[0] <= _MAX_SINGULAR_SHARE * max(float(values[-1]), 1e-300):
        return math.inf
    n_actions = phi.shape[1]
    root, total, size = vectors / np.sqrt(values), 0.0, max(1, _BLOCK_PAIRS // n_actions**2)
    for start in range(0, len(phi), size):
        own = phi[start : start + size] @ root
        own = own - own.mean(axis=1, keepdims=True)  # so that little cancels
        squares = (own**2).sum(axis=2)
        apart = squares[:, :, None] + squares[:, None, :] - 2.0 * own @ own.transpose(0, 2, 1)
        total += float(weights[start : start + size] @ np.sqrt(np.maximum(apart.max(axis=(1, 2)), 0.0)))
    return total


@dataclass(frozen=True, eq=False)
class PlannerState(State):
    """The plays and observations, in the coordinates of the features' span.

    population: the contexts that can occur.
    information (r, r): V.
    totals (r,): Σ φ r.
    sampler: the mixture, once it is planned.
    """

    policy: Policy
    population: Population = field(kw_only=True)
    information: FloatArray = field(kw_only=True)
    totals: FloatArray = field(kw_only=True)
    sampler: MixtureSampler | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class PlannerSampler:
    """Identify the best policy, assuming `r(c, a) = ⟨φ(c, a), θ*⟩`, by a mixture planned without rewards.

    If the class can be listed, the best policy of the list; for any other class, of all policies.

    epsilon: how far from the best the answer may be.
    delta: the probability of being wrong.
    rewards: their noise must have a sub-Gaussian proxy.
    regularisation: λ, what the planner takes for known beforehand, in samples of uniform exploration.
    sampled_contexts: how many contexts were drawn to stand for their distribution; None when it is known.
    """

    name: ClassVar[str] = "planner-sampler"
    profile: ClassVar[Profile] = Profile(
        name="planner-sampler",
        source="planner and sampler (Zanette et al. 2021): the most uncertain actions, planned without rewards",
        classes="classes that can be listed; with linear or trivial, all policies",
        assumes="realizability: mean rewards are linear in the features; contexts known; sub-Gaussian noise",
        guarantees="(ε, δ)-PAC if rewards are linear",
        samples="until √B E max ‖φ(c, a) − φ(c, a')‖_{V⁻¹} ≤ ε, about 4rB/ε² at the most",
    )

    epsilon: float
    delta: float
    rewards: RewardBounds = field(default=RewardBounds(), kw_only=True)
    regularisation: float = field(default=1.0, kw_only=True)
    sampled_contexts: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        epsilon = check_positive_epsilon(self.epsilon, asker=self.name, least=MIN_EPSILON)
        settle(self, epsilon=epsilon, delta=check_delta(self.delta))
        settle(self, regularisation=positive(self.regularisation, name="regularisation"))
        settle(self, sampled_contexts=check_sampled_contexts(self.sampled_contexts))
        if instance(self.rewards, RewardBounds, name="rewards").proxy is None:
            raise InputError(
                f"{self.name} needs rewards in [0, 1], or RewardBounds with the sub-Gaussian proxy of their noise"
            )

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        regularisation: Annotated[float, About("regularisation λ, in samples of uniform exploration", above=0)] = 1.0,
    ) -> PlannerSampler:
        """Return the algorithm for this setting."""
        return cls(
            setting.epsilon,
            setting.delta,
            rewards=setting.rewards,
            regularisation=regularisation,
            sampled_contexts=setting.sampled_contexts,
        )

    @property
    def rounds(self) -> int:
        """The number of rounds, which is not known in advance; mostly one."""
        return 0

    def start(self, policies: PolicyClass, contexts: Contexts) -> PlannerState:
        """Return the state before planning."""
        policies = check_class(policies)
        check_contexts(contexts)
        greedy = policies.accepts_greedy
        if not (greedy or policies.lists_policies):
            raise InputError(
                f"{self.name} finds the best of a list, or of all policies, but not of {policies.type_name}; "
                "use --policies linear or trivial, or coda"
            )
        possible = contexts.only(contexts.weights > 0)
        population = Population.of(policies, contexts, map_for(possible, n_actions=policies.n_actions, relative=False))
        rank = population.span.rank
        alike = mean_uncertainty(population.phi, population.contexts.weights, np.eye(rank)) <= _NO_DIFFERENCE
        return PlannerState(
            policies,
            contexts,
            best_for(policies, population, np.zeros(rank)),
            finished=bool(self.epsilon >= 1 or alike),
            population=population,
            information=np.zeros((rank, rank)),
            totals=np.zeros(rank),
        )

    def design(self, state: PlannerState, *, progress: Progress | None = None) -> Plan | None:
        """All of it at once; and a tenth more, while what was played is not enough by its luck."""
        instance(state, PlannerState, name="state")
        if state.finished:
            return None
        if state.sampler is None:
            sampler, planned = self.plan_mixture(state.population)
            samples = whole_samples(FIRST_ROUND_SHARE * planned)
        else:
            sampler, samples = state.sampler, math.ceil(LATER_ROUND_SHARE * state.samples)
            samples = max(samples, state.population.span.rank)
        details = {"policies": len(sampler.shares)}
        return Plan(state.round_number + 1, self.epsilon, sampler, samples, 0, details)

    def plan_mixture(self, population: Population) -> tuple[MixtureSampler, float]:
        """The mixture, and how many samples of it are enough if they are spread as their mean is."""
        phi, weights, rank = population.phi, population.contexts.weights, population.span.rank
        rows, played = np.arange(len(phi)), np.zeros((rank, rank))
        inverses: list[FloatArray] = []
        times: list[float] = []
        while True:
            sigma = played + self.regularisation * np.eye(rank)
            inverse = np.asarray(np.linalg.inv(sigma), dtype=np.float64)
            taken = np.zeros(phi.shape[:2])
            taken[rows, uncertain_actions(phi, inverse)] = 1.0
            own = information_of(phi, weights, taken)
            time = _doubling_time(inverse, own)
            inverses.append(inverse)
            enough = self._enough(population, played + time * own)
            times.append(self._least_time(population, played, own, time) if enough else time)
            played = played + times[-1] * own
            if enough:
                break
        total = float(np.sum(times))
        shares = np.array(times) / total
        return MixtureSampler(population.features, population.span.basis, np.stack(inverses), shares), total

    def absorb(self, state: PlannerState, plan: Plan, log: Log) -> PlannerState:
        """Return the state after the round."""
        instance(state, PlannerState, name="state")
        check_played(state, plan, log, rewards=self.rewards)
        if not isinstance(plan.sampler, MixtureSampler):
            raise InputError(f"{self.name} absorbs plans of its own, not one of a {type(plan.sampler).__name__}")
        if state.policies.n_contexts:
            log.contexts.require_ids(below=state.policies.n_contexts)
        population = state.population
        own = played_coordinates(log, population.features, population.span)
        weighted = own * log.repeats[:, None]
        information = state.information + weighted.T @ own
        totals = state.totals + weighted.T @ log.rewards
        bound = self.bound(population, information)
        estimate = pseudo_inverse(information) @ totals
        return state.after(
            plan,
            log,
            policy=best_for(state.policies, population, estimate),
            finished=bound <= self.epsilon,
            details={"bound": min(bound, 1.0)},  # no gap is larger than 1
            information=information,
            totals=totals,
            sampler=plan.sampler,
        )

    def bound(self, population: Population, information: FloatArray) -> float:
        """`√B E_c max_{a,a'} ‖φ(c, a) − φ(c, a')‖_{V⁻¹}`: how far from the best the best for least squares may be."""
        assert self.rewards.proxy is not None
        width = mean_uncertainty(population.phi, population.contexts.weights, information)
        if math.isinf(width):
            return math.inf
        rank = population.span.rank
        return width * math.sqrt(fixed_design_bound(rank, noise=self.rewards.proxy, delta=self.delta))

    def result(self, state: PlannerState) -> Answer:
        """Return the best policy so far, and its guarantee."""
        if not state.finished:
            words = f"none: the contexts and actions of {state.samples:,} samples do not tell enough yet"
            return Answer(state.policy, False, words)
        words = (
            f"except with probability {self.delta:g} the policy is within {self.epsilon:g} of the best of its class; "
            f"assumes that mean rewards are linear in the given features, that interactions are independent, that "
            f"{self.rewards.describe()}, that their noise is sub-Gaussian with proxy {self.rewards.proxy:g}, and that "
        )
        if self.sampled_contexts is None:
            words += "the distribution of contexts is known"
        else:
            words += f"{self.sampled_contexts:,} contexts that were drawn stand well enough for their distribution"
        return Answer(state.policy, True, words)

    def _enough(self, population: Population, information: FloatArray) -> bool:
        return self.bound(population, information) <= self.epsilon

    def _least_time(self, population: Population, played: FloatArray, own: FloatArray, most: float) -> float:
        """The least t at which what was played and t A_k are enough, as `most` is."""
        least = 0.0
        for _ in range(_BISECTIONS // 4):
            middle = (least + most) / 2.0
            if self._enough(population, played + middle * own):
                most = middle
            else:
                least = middle
        return most


def _doubling_time(inverse: FloatArray, own: FloatArray) -> float:
    """Return the t for which det(Σ + tA) = 2 det Σ, for Σ⁻¹ and A (r, r)."""
    root = np.linalg.cholesky(inverse)
    values = np.maximum(np.linalg.eigvalsh(root.T @ own @ root), 0.0)
    low, high = 0.0, 1.0 / float(values.max())  # there the largest factor alone is 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if np.log1p(middle * values).sum() < math.log(2.0) else (low, middle)
    return high

"""RAGE for rewards that are linear in known features: designs for the estimated gaps, least squares, few rounds.

    until the certificate holds:
        p = argmin_p max_π ‖φ_π − φ_q‖²_{A(p)⁻¹} / (ε + Δ̂_π)²         over a list, or over all policies by search
        play about as many samples as the certificate still lacks
        θ̂ by least squares on all rounds, q its best policy; certify q             (pacbandits.realizable.certificate)

The paper leaves an efficient algorithm for this setting open. Over all policies the argmax is trivial, as the best
policy for a parameter is greedy; the worst direction remains, and is searched for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import instance, settle, whole_number
from pacbandits.confidence import best_share, check_delta, check_positive_epsilon, self_normalised_bound
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.features import map_for
from pacbandits.policies.linear.policy import GreedyPolicy
from pacbandits.progress import Progress, silent
from pacbandits.realizable.certificate import Form, RealizableCertificate, skipped_rounds
from pacbandits.realizable.certify import Terms, choose_form, make_realizable_certificate
from pacbandits.realizable.features import information_of, pseudo_inverse, squared_lengths
from pacbandits.realizable.moments import Moments, Population
from pacbandits.realizable.sampler import DESIGN_TOLERANCE, GainSampler, Sketch, SketchedDesign
from pacbandits.records import Contexts, Log, Policy, RewardBounds, check_contexts
from pacbandits.trials.protocol import Answer, Plan, Profile, Setting, State, check_played, check_sampled_contexts

# The state of linear-rage between rounds, and its plan of a round.


@dataclass(frozen=True, eq=False)
class RealizableState(State):
    """The state of linear-rage: that of every algorithm, and

    population: the contexts in whitened coordinates.
    form: of the certificate.
    price: the form's counterpart of log(|Π|/δ).
    moments: of all rounds.
    propensities (N, A): of the last design.
    prior (r, r): Λ of the certificate, once it is chosen.
    certificate: the last.
    """

    policy: Policy
    population: Population = field(kw_only=True)
    form: Form = field(kw_only=True)
    price: float = field(kw_only=True)
    moments: Moments | None = None
    propensities: FloatArray | None = None
    prior: FloatArray | None = None
    certificate: RealizableCertificate | None = None

    @property
    def seen(self) -> Moments:
        """The moments; there must have been a round."""
        assert self.moments is not None
        return self.moments

    @property
    def counted(self) -> Moments:
        """The moments of the rounds that the certificate counts."""
        return self.seen.after(skipped_rounds(self.form))


@dataclass(frozen=True, eq=False)
class RealizablePlan(Plan):
    """The plan of a round.

    table (N, A): its propensities.
    prior (r, r): Λ, as it was chosen before the round.
    """

    table: FloatArray = field(kw_only=True)
    prior: FloatArray | None = field(kw_only=True)


# The design of a round: for which policies, how accurately, and how many samples the certificate still needs.


# Estimated gaps are reduced by this many standard errors.
GAP_MARGIN_IN_STANDARD_ERRORS = 1.0
# Policies are searched for in the ellipsoids after these multiples of the current number of samples.
SEARCHED_SAMPLE_MULTIPLES = (1.0, 4.0)
# Searches for policies with a larger cost than those of the design.
MAX_DESIGN_SEARCHES = 3
_MAX_LACKING_SAMPLES = 2.0**50
_LACKING_SAMPLES_HALVINGS = 8


def first_design(population: Population) -> SketchedDesign:
    """Return a design of equal accuracy for all policies, as their gaps are unknown."""
    sketch = Sketch.of(population)
    if population.points is not None:
        pool = population.points - population.points.mean(axis=0)
    else:
        rank = population.span.rank
        pool = sketch.search(np.zeros(rank), np.eye(rank))
    return sketch.solve(pool, np.ones(len(pool)))


def next_design(state: RealizableState, *, epsilon: float, noise: float, tell: Progress) -> SketchedDesign:
    """Return a design for the gaps estimated so far; noise: R²."""
    population, sketch = state.population, Sketch.of(state.population)
    assert state.propensities is not None
    parameter = state.seen.estimate()
    covariance = noise * pseudo_inverse(state.seen.information.sum(axis=0))

    def accuracies(pool: FloatArray) -> FloatArray:
        margins = GAP_MARGIN_IN_STANDARD_ERRORS * np.sqrt(squared_lengths(pool, covariance))
        return epsilon + np.maximum(-pool @ parameter - margins, 0.0)

    if population.points is not None:
        tell("the next design")
        pool = population.points - population.mean(state.policy(population.contexts))
        return sketch.solve(pool, accuracies(pool), start=state.propensities)
    inverse = pseudo_inverse(information_of(population.phi, population.contexts.weights, state.propensities))
    width = 2.0 * noise * state.price / state.samples
    design, pool = None, np.empty((0, population.span.rank))
    for turn in range(MAX_DESIGN_SEARCHES):
        tell(f"the next design, search {turn + 1}")
        found = [sketch.search(parameter, width / multiple * inverse) for multiple in SEARCHED_SAMPLE_MULTIPLES]
        pool = np.unique(np.round(np.concatenate([pool, *found]), 12), axis=0)
        if design is not None:
            costs = squared_lengths(pool, inverse) / accuracies(pool) ** 2
            if costs.max(initial=0.0) <= (1.0 + 2 * DESIGN_TOLERANCE) * design.worst_cost:
                break
        start = state.propensities if design is None else design.table
        design = sketch.solve(pool, accuracies(pool), start=start)
        inverse = pseudo_inverse(design.information)
    assert design is not None
    return design


def lacking_samples(
    state: RealizableState,
    design: SketchedDesign,
    *,
    epsilon: float,
    noise: float,
    price: Callable[[FloatArray], float],
) -> float:
    """Return the number of samples of the design that would make the certificate hold, if gaps are as estimated.

    price: the counterpart of log(|Π|/δ) with this information (r, r).
    """
    seen = state.counted.information.sum(axis=0)
    gaps = np.maximum(-design.pool @ state.seen.estimate(), 0.0)
    wanted = (epsilon + gaps) ** 2 / 2.0

    def enough(n: float) -> bool:
        information = seen + n * design.information
        lengths = squared_lengths(design.pool, pseudo_inverse(information))
        return bool((noise * price(information) * lengths <= wanted).all())

    high = 1.0
    while not enough(high) and high < _MAX_LACKING_SAMPLES:
        high *= 2.0
    low = high / 2.0
    for _ in range(_LACKING_SAMPLES_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


PILOT_SAMPLES_PER_DIMENSION, MIN_PILOT_SAMPLES = 10, 60
# The size of a later round: this factor times the estimate of the samples still needed, within these shares of the
# samples so far.
LACKING_SAMPLES_FACTOR = 1.1
MIN_ROUND_SHARE, MAX_ROUND_SHARE = 0.1, 1.5
MIN_EPSILON = 1e-9


@dataclass(frozen=True)
class LinearRage:
    """Identify the best policy, assuming `r(c, a) = ⟨φ(c, a), θ*⟩`.

    If the class can be listed, the best policy of the list; for any other class, of all policies.

    epsilon: ε, the largest distance of the answer from the best.
    delta: the error probability.
    rewards: their noise must have a sub-Gaussian proxy.
    pilot: the size of the first round.
    sampled_contexts: the number of contexts drawn to represent their distribution; None if it is known.
    """

    name: ClassVar[str] = "linear-rage"
    profile: ClassVar[Profile] = Profile(
        name="linear-rage",
        source="RAGE for rewards linear in features: designs over p(a|c), least squares, a certificate of its own",
        classes="classes that can be listed; with linear or trivial, all policies",
        assumes="realizability: mean rewards are linear in the features; contexts known; sub-Gaussian noise",
        guarantees="(ε, δ)-PAC if rewards are linear, with a certificate that `verify` rechecks",
        samples="until the certificate holds",
        certifies=True,
    )

    epsilon: float
    delta: float
    rewards: RewardBounds = field(default=RewardBounds(), kw_only=True)
    pilot: int | None = field(default=None, kw_only=True)
    sampled_contexts: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        epsilon = check_positive_epsilon(self.epsilon, asker=self.name, least=MIN_EPSILON)
        settle(self, epsilon=epsilon, delta=check_delta(self.delta))
        settle(self, sampled_contexts=check_sampled_contexts(self.sampled_contexts))
        if instance(self.rewards, RewardBounds, name="rewards").proxy is None:
            raise InputError(
                f"{self.name} needs rewards in [0, 1], or RewardBounds with the sub-Gaussian proxy of their noise"
            )
        if self.pilot is not None:
            settle(self, pilot=whole_number(self.pilot, name="pilot", least=1))

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        pilot: Annotated[int, About("the size of the first round; 0: 10 a dimension, or 60", least=0)] = 0,
    ) -> LinearRage:
        """Return the algorithm for this setting."""
        return cls(
            setting.epsilon,
            setting.delta,
            rewards=setting.rewards,
            pilot=pilot or None,
            sampled_contexts=setting.sampled_contexts,
        )

    @property
    def rounds(self) -> int:
        """The number of rounds, which is not known in advance."""
        return 0

    @property
    def noise(self) -> float:
        """R²."""
        assert self.rewards.proxy is not None
        return self.rewards.proxy

    def start(self, policies: PolicyClass, contexts: Contexts) -> RealizableState:
        """Return the state before the first round."""
        policies = check_class(policies)
        check_contexts(contexts)
        greedy = policies.accepts_greedy
        if not (greedy or policies.lists_policies):
            raise InputError(
                f"{self.name} finds the best of a list, or of all policies, but not of {policies.type_name}; "
                "use --policies linear or trivial, or coda"
            )
        possible = contexts.only(contexts.weights > 0)
        features = map_for(possible, n_actions=policies.n_actions, relative=False)
        population = Population.of(policies, contexts, features)
        form, price = choose_form(policies, dimension=population.span.rank, delta=self.delta)
        return RealizableState(
            policies,
            contexts,
            best_for(policies, population, np.zeros(population.span.rank)),
            finished=self.epsilon >= 1,
            population=population,
            form=form,
            price=price,
        )

    def design(self, state: RealizableState, *, progress: Progress | None = None) -> RealizablePlan | None:
        """Return the plan of the next round."""
        instance(state, RealizableState, name="state")
        if state.finished:
            return None
        tell = progress or silent
        rank = state.population.span.rank
        if state.moments is None:
            tell("a first design that serves all policies alike")
            design = first_design(state.population)
            samples = max(MIN_PILOT_SAMPLES, PILOT_SAMPLES_PER_DIMENSION * rank) if self.pilot is None else self.pilot
            return self._plan(state, design, samples=samples, prior=None)
        design = next_design(state, epsilon=self.epsilon, noise=self.noise, tell=tell)
        lacking = partial(lacking_samples, state, design, epsilon=self.epsilon, noise=self.noise)
        prior = state.prior
        if prior is None and state.form == "ellipsoid":
            wanted = lacking(price=lambda information: state.price)
            prior = best_share(rank, delta=self.delta) * wanted * design.information
        needed = LACKING_SAMPLES_FACTOR * lacking(price=lambda information: self._price(state, information, prior))
        samples = math.ceil(min(max(needed, MIN_ROUND_SHARE * state.samples), MAX_ROUND_SHARE * state.samples))
        return self._plan(state, design, samples=samples, prior=prior)

    def absorb(self, state: RealizableState, plan: Plan, log: Log) -> RealizableState:
        """Return the state after the round."""
        instance(state, RealizableState, name="state")
        if not isinstance(plan, RealizablePlan):
            raise InputError(f"{self.name} absorbs plans of its own, not a {type(plan).__name__}")
        check_played(state, plan, log, rewards=self.rewards)
        number = plan.round_number - 1
        log = replace(log, rounds=np.full(len(log), number))
        population = state.population
        own = Moments.of(log, population.features, population.span)
        moments = own if state.moments is None else state.moments.followed_by(own)
        whole = log if state.log is None else state.log.followed_by(log)
        policy = best_for(state.policies, population, moments.estimate())
        certificate = make_realizable_certificate(
            whole,
            moments,
            population,
            state.policies,
            reference=policy,
            terms=Terms(self.epsilon, self.delta, self.noise, state.form, plan.prior),
        )
        if self.sampled_contexts is not None:
            drawn = f"{self.sampled_contexts:,} contexts that were drawn stand well enough for their distribution"
            certificate = certificate.with_remarks(drawn)
        return state.after(
            plan,
            log,
            policy=policy,
            finished=certificate.certified,
            details={"certified_epsilon": certificate.certified_epsilon},
            log=whole,
            moments=moments,
            propensities=plan.table,
            prior=plan.prior,
            certificate=certificate,
        )

    def result(self, state: RealizableState) -> Answer:
        """Return the best policy so far, and its certificate."""
        certificate = state.certificate
        if certificate is None:
            words = "none: no round was played" if self.epsilon < 1 else "none needed: no two policies differ by 1"
            return Answer(state.policy, state.finished, words)
        assert state.log is not None
        looked = certificate.looked_at(state.log)
        return Answer(state.policy, state.finished, looked.promise(), looked)

    def _plan(
        self, state: RealizableState, design: SketchedDesign, *, samples: int, prior: FloatArray | None
    ) -> RealizablePlan:
        population = state.population
        basis = population.span.basis
        gain = basis @ design.gain @ basis.T
        sampler = GainSampler(population.contexts, design.table, population.features, gain, design.power)
        details = {"price": float(design.worst_cost), "policies served": len(design.pool)}
        number = state.round_number + 1
        return RealizablePlan(number, self.epsilon, sampler, samples, 0, details, table=design.table, prior=prior)

    def _price(self, state: RealizableState, information: FloatArray, prior: FloatArray | None) -> float:
        """Return the counterpart of log(|Π|/δ) with this information (r, r)."""
        if prior is None or self.noise == 0:
            return state.price
        bound = self_normalised_bound(information, prior, noise=self.noise, delta=self.delta)
        stretch = 1.0 + float(np.trace(np.linalg.solve(information, prior))) / len(prior)
        return bound / (2.0 * self.noise) * stretch


def best_for(policies: PolicyClass, population: Population, parameter: FloatArray) -> Policy:
    """Return the best policy for a parameter: of the list, or greedy."""
    if population.points is not None and policies.lists_policies:
        return policies.policy(int(np.argmax(population.points @ parameter)))
    return GreedyPolicy(population.features, population.span.parameter(parameter))

"""RAGE for rewards that are linear in known features: designs for the gaps seen so far, least squares, few rounds.

    until the certificate holds:
        p = argmin_p max_π ‖φ_π − φ_q‖²_{A(p)⁻¹} / (ε + Δ̂_π)²         over a list, or over all policies by search
        play about as many samples as the certificate still lacks
        θ̂ by least squares on all rounds, q its best policy; certify q             (pacbandits.realizable.certificate)

The paper leaves an efficient algorithm for this setting open. Over all policies the argmax is free, as the best policy
for a parameter is greedy; what is left is the worst direction, which is searched for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.confidence import best_share, check_delta, self_normalised_bound
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import EnumeratedClass, GreedyClass, PolicyClass
from pacbandits.policies.features import map_for
from pacbandits.policies.greedy import GreedyPolicy
from pacbandits.progress import Progress, silent
from pacbandits.realizable.certificate import (
    Form,
    Population,
    RealizableCertificate,
    choose_form,
    make_realizable_certificate,
)
from pacbandits.realizable.deviation import largest_deviation
from pacbandits.realizable.exploration import POWERS, LinearExploration, shares_by_gain, with_floor
from pacbandits.realizable.moments import Moments
from pacbandits.realizable.pool_design import PoolOptions, solve_pool
from pacbandits.records import Contexts, Log, Policy, RewardBounds
from pacbandits.trials.protocol import Answer, Plan, Profile, Setting, State, check_played

PILOT = 10  # samples for each dimension in the first round, 60 at least
LEAST = 0.1  # the least round, as a share of what was seen
GROWTH = 1.5  # the largest round, as a share of what was seen
DOUBT = 1.0  # standard errors by which gaps are taken to be smaller than they look
SPARE = 1.1  # of what the certificate is thought to lack
REACHES = (1.0, 4.0)  # of how many times what was seen, the widths at which policies are searched for
SEARCHES = 3  # of policies that a design serves too little
STARTS = 32  # of a search for policies to serve
SKETCH = 1000  # contexts by which a design is made
PRECISION = 0.05  # of a design


@dataclass(frozen=True, eq=False)
class RealizableState(State):
    """population: the contexts in coordinates that suit them. form, price: of the certificate, and what it pays in the
    place of log(|Π|/δ). moments: of all rounds. propensities (N, A): of the last design. prior (r, r): Λ of the
    certificate, once it is chosen.
    """

    population: Population = field(kw_only=True)
    form: Form = field(kw_only=True)
    price: float = field(kw_only=True)
    moments: Moments | None = None
    propensities: FloatArray | None = None
    prior: FloatArray | None = None
    certificate: RealizableCertificate | None = None


@dataclass(frozen=True, eq=False)
class RealizablePlan(Plan):
    """A round, and the prior that was chosen before it."""

    table: FloatArray = field(kw_only=True)
    prior: FloatArray | None = field(kw_only=True)


@dataclass(frozen=True)
class LinearRage:
    """Identify the best policy when `r(c, a) = ⟨φ(c, a), θ*⟩`, which is assumed.

    Of a class that can be listed, the best policy of the list; for any other class, of all policies. rewards:
    their noise must have a sub-Gaussian proxy. pilot: the size of the first round. sampled_contexts: how many contexts
    were drawn to stand for their distribution; None when it is known.
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
        if not 1e-9 <= self.epsilon < float("inf"):
            raise InputError(f"{self.name} needs an epsilon above 0, of 1e-9 or more; got {self.epsilon}")
        check_delta(self.delta)
        if self.rewards.proxy is None:
            raise InputError(
                f"{self.name} needs rewards in [0, 1], or RewardBounds with the sub-Gaussian proxy of their noise"
            )
        if self.pilot is not None and (type(self.pilot) is not int or self.pilot < 1):
            raise InputError(f"pilot must be a whole number, 1 or more; got {self.pilot}")

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        pilot: Annotated[int, About("the size of the first round; 0: 10 a dimension, or 60", least=0)] = 0,
    ) -> LinearRage:
        """The algorithm for this setting."""
        return cls(
            setting.epsilon,
            setting.delta,
            rewards=setting.rewards,
            pilot=pilot or None,
            sampled_contexts=setting.sampled_contexts,
        )

    @property
    def rounds(self) -> int:
        """Not known beforehand."""
        return 0

    @property
    def noise(self) -> float:
        """R²."""
        assert self.rewards.proxy is not None
        return self.rewards.proxy

    def start(self, policies: PolicyClass, contexts: Contexts) -> RealizableState:
        """Nothing seen."""
        greedy = isinstance(policies, GreedyClass) and policies.accepts_greedy
        if not (greedy or isinstance(policies, EnumeratedClass)):
            raise InputError(
                f"{self.name} finds the best of a list, or of all policies, but not of {type(policies).__name__}; "
                "use --policies linear or trivial, or coda"
            )
        possible = contexts.only(contexts.weights > 0)
        features = map_for(possible, n_actions=policies.n_actions, relative=False)
        population = Population.of(policies, contexts, features)
        form, price = choose_form(policies, dimension=population.span.rank, delta=self.delta)
        return RealizableState(
            policies,
            contexts,
            _best(policies, population, np.zeros(population.span.rank)),
            finished=self.epsilon >= 1,
            population=population,
            form=form,
            price=price,
        )

    def design(self, state: RealizableState, *, progress: Progress | None = None) -> RealizablePlan | None:
        """The next round."""
        if state.finished:
            return None
        tell = progress or silent
        rank = state.population.span.rank
        if state.moments is None:
            tell("a first design that serves all policies alike")
            designed = self._first(state)
            samples = max(60, PILOT * rank) if self.pilot is None else self.pilot
            return self._plan(state, designed, samples=samples, prior=None)
        designed = self._redesign(state, tell)
        prior = state.prior
        if prior is None and state.form == "ellipsoid":
            wanted = self._lacking(state, designed, lambda information: state.price)
            prior = best_share(rank, delta=self.delta) * wanted * designed.information
        lacking = self._lacking(state, designed, lambda information: self._price(state, information, prior))
        samples = math.ceil(min(max(SPARE * lacking, LEAST * state.samples), GROWTH * state.samples))
        return self._plan(state, designed, samples=samples, prior=prior)

    def absorb(self, state: RealizableState, plan: Plan, log: Log) -> RealizableState:
        """The state after the round."""
        if not isinstance(plan, RealizablePlan):
            raise InputError(f"{self.name} absorbs plans of its own, not a {type(plan).__name__}")
        check_played(state, plan, log, rewards=self.rewards)
        number = plan.round_number - 1
        log = replace(log, rounds=np.full(len(log), number))
        population = state.population
        own = Moments.of(log, population.features, population.span)
        moments = own if state.moments is None else state.moments.followed_by(own)
        whole = log if state.log is None else state.log.followed_by(log)
        policy = _best(state.policies, population, moments.estimate())
        certificate = make_realizable_certificate(
            whole,
            moments,
            population,
            state.policies,
            reference=policy,
            epsilon=self.epsilon,
            delta=self.delta,
            noise=self.noise,
            form=state.form,
            prior=plan.prior,
            skipped=1 if state.form == "ellipsoid" else 0,
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
        """The best policy so far, and what is certified of it."""
        certificate = state.certificate
        if certificate is None:
            words = "none: no round was played" if self.epsilon < 1 else "none needed: no two policies differ by 1"
            return Answer(state.policy, state.finished, words)
        return Answer(state.policy, state.finished, certificate.promise(), certificate)

    def _plan(
        self, state: RealizableState, designed: Designed, *, samples: int, prior: FloatArray | None
    ) -> RealizablePlan:
        population = state.population
        basis = population.span.basis
        sampler = LinearExploration(
            population.contexts, designed.table, population.features, basis @ designed.gain @ basis.T, designed.power
        )
        details = {"price": float(designed.price), "policies served": len(designed.pool)}
        number = state.round_number + 1
        return RealizablePlan(number, self.epsilon, sampler, samples, 0, details, table=designed.table, prior=prior)

    def _first(self, state: RealizableState) -> Designed:
        """A design that serves all policies alike, as nothing is known of their gaps."""
        population, sketch = state.population, Sketch.of(state.population)
        if population.points is not None:
            pool = population.points - population.points.mean(axis=0)
        else:
            rank = population.span.rank
            pool = sketch.search(np.zeros(rank), np.eye(rank))
        return sketch.solve(pool, np.ones(len(pool)))

    def _redesign(self, state: RealizableState, tell: Progress) -> Designed:
        """A design for the gaps seen so far."""
        population, sketch, moments = state.population, Sketch.of(state.population), state.moments
        assert moments is not None
        assert state.propensities is not None
        parameter = moments.estimate()
        covariance = self.noise * _inverse(moments.information.sum(axis=0))

        def accuracies(pool: FloatArray) -> FloatArray:
            errors = np.sqrt(_squares(pool, covariance))
            return self.epsilon + np.maximum(-pool @ parameter - DOUBT * errors, 0.0)

        if population.points is not None:
            tell("the next design")
            pool = population.points - population.mean(state.policy(population.contexts))
            return sketch.solve(pool, accuracies(pool), start=state.propensities)
        inverse = _inverse(_information(population.phi, population.contexts.weights, state.propensities))
        width = 2.0 * self.noise * state.price / state.samples
        designed, pool = None, np.empty((0, population.span.rank))
        for turn in range(SEARCHES):
            tell(f"the next design, search {turn + 1}")
            found = [sketch.search(parameter, width / reach * inverse) for reach in REACHES]
            pool = np.unique(np.round(np.concatenate([pool, *found]), 12), axis=0)
            if designed is not None:
                ratios = _squares(pool, inverse) / accuracies(pool) ** 2
                if ratios.max(initial=0.0) <= (1.0 + 2 * PRECISION) * designed.price:
                    break
            start = state.propensities if designed is None else designed.table
            designed = sketch.solve(pool, accuracies(pool), start=start)
            inverse = _inverse(designed.information)
        assert designed is not None
        return designed

    def _price(self, state: RealizableState, information: FloatArray, prior: FloatArray | None) -> float:
        """What is paid in the place of log(|Π|/δ) with this much information (r, r)."""
        if prior is None or self.noise == 0:
            return state.price
        bound = self_normalised_bound(information, prior, noise=self.noise, delta=self.delta)
        stretch = 1.0 + float(np.trace(np.linalg.solve(information, prior))) / len(prior)
        return bound / (2.0 * self.noise) * stretch

    def _lacking(self, state: RealizableState, designed: Designed, price: Callable[[FloatArray], float]) -> float:
        """How many samples of the design would make the certificate hold, if gaps are as they seem."""
        moments = state.moments
        assert moments is not None
        parameter = moments.estimate()
        skipped = 1 if state.form == "ellipsoid" else 0
        seen = moments.after(skipped).information.sum(axis=0)
        gaps = np.maximum(-designed.pool @ parameter, 0.0)
        wanted = (self.epsilon + gaps) ** 2 / 2.0

        def enough(n: float) -> bool:
            information = seen + n * designed.information
            return bool(
                (self.noise * price(information) * _squares(designed.pool, _inverse(information)) <= wanted).all()
            )

        high = 1.0
        while not enough(high) and high < 2.0**50:
            high *= 2.0
        low = high / 2.0
        for _ in range(8):
            middle = (low + high) / 2.0
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


@dataclass(frozen=True, eq=False)
class Designed:
    """table (N, A): propensities. information (r, r): A(p). gain (r, r): A⁻¹MA⁻¹. power: see `LinearExploration`.

    price: of the worst policy served. pool (m, r): x_π of those.
    """

    table: FloatArray
    information: FloatArray
    gain: FloatArray
    power: float
    price: float
    pool: FloatArray


@dataclass(frozen=True, eq=False)
class Sketch:
    """The contexts, or enough of them to design by: phi (n, A, r), weights (n,)."""

    population: Population
    phi: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, population: Population) -> Sketch:
        phi, weights = population.phi, population.contexts.weights
        if len(weights) <= SKETCH:
            return cls(population, phi, weights)
        some = np.random.default_rng(0).choice(len(weights), size=SKETCH, p=weights)
        return cls(population, phi[some], np.full(SKETCH, 1.0 / SKETCH))

    @property
    def whole(self) -> bool:
        """Whether these are all contexts."""
        return len(self.weights) == len(self.population.contexts)

    def search(self, parameter: FloatArray, shape: FloatArray) -> FloatArray:
        """x_π of policies that the ellipsoid leaves possible and that differ much from the greedy one."""
        reference = np.argmax(self.phi @ parameter, axis=1)
        return largest_deviation(
            self.phi, self.weights, reference=reference, parameter=parameter, shape=shape, starts=STARTS
        ).points

    def solve(self, pool: FloatArray, accuracies: FloatArray, *, start: FloatArray | None = None) -> Designed:
        """The best design for the differences x_π in the pool (m, r)."""
        apart = np.abs(pool).max(axis=1, initial=0.0) > 1e-12
        whole, nu = self.population.phi, self.population.contexts.weights
        if not apart.any():
            table = np.full(whole.shape[:2], 1.0 / whole.shape[1])
            information = _information(whole, nu, table)
            return Designed(table, information, _inverse(information), POWERS[0], 0.0, np.zeros((1, whole.shape[2])))
        pool, accuracies = pool[apart], accuracies[apart]
        start = start if self.whole else None
        solved = solve_pool(
            self.phi, self.weights, pool, accuracies, start=start, options=PoolOptions(tolerance=PRECISION)
        )
        inverse = _inverse(_information(self.phi, self.weights, solved.propensities))
        scaled = pool / accuracies[:, None]
        gain = inverse @ ((scaled * solved.multipliers[:, None]).T @ scaled) @ inverse

        def price(table: FloatArray) -> float:
            return float(_squares(scaled, _inverse(_information(whole, nu, table))).max())

        power, table = POWERS[1], with_floor(solved.propensities) if self.whole else solved.propensities
        if not self.whole:
            tables = {power: with_floor(shares_by_gain(whole, gain, power=power)) for power in POWERS}
            power = min(POWERS, key=lambda one: price(tables[one]))
            table = tables[power]
        return Designed(table, _information(whole, nu, table), gain, power, price(table), pool)


def _information(phi: FloatArray, weights: FloatArray, table: FloatArray) -> FloatArray:
    """A(p) = Σ ν p φφᵀ (r, r)."""
    flat = phi.reshape(-1, phi.shape[2])
    return (flat * (weights[:, None] * table).reshape(-1, 1)).T @ flat


def _inverse(matrix: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.pinv(matrix, hermitian=True), dtype=np.float64)


def _squares(vectors: FloatArray, form: FloatArray) -> FloatArray:
    """xᵀQx (m,) for vectors (m, r) and Q (r, r)."""
    return np.maximum(((vectors @ form) * vectors).sum(axis=1), 0.0)


def _best(policies: PolicyClass, population: Population, parameter: FloatArray) -> Policy:
    """The best policy for a parameter: of the list, or greedy."""
    if population.points is not None and isinstance(policies, EnumeratedClass):
        return policies.policy(int(np.argmax(population.points @ parameter)))
    return GreedyPolicy(population.features, population.span.parameter(parameter))

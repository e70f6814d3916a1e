"""The certificate for rewards that are linear in known features: what least squares proves of a policy.

Realizability, `r(c, a) = ⟨φ(c, a), θ*⟩`, is assumed, and printed: where it fails the claim may be wrong. Two forms, of
which the one with the smaller price is chosen before anything is seen (pacbandits.confidence):

    ellipsoid   over all policies: θ* lies in {θ : ‖V(θ̂ − θ)‖²_{(V + Λ)⁻¹} ≤ B}, and no θ there makes any policy better
                than q by more than ε. Anytime-valid for rows after those that chose Λ.
    list        over the policies of a list: π is refuted when a stake κ on each round's estimate of ⟨x_π, θ*⟩, taken
                with the inverse of its variance, has won log(|Π|K/δ).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.certificate.claim import Claim, Json, check_follows, read_common, reading
from pacbandits.confidence import (
    best_share,
    certificate_threshold,
    check_delta,
    ellipsoid_price,
    list_price,
    self_normalised_bound,
)
from pacbandits.policies.base import EnumeratedClass, PolicyClass
from pacbandits.policies.features import FeatureMap, map_from_json
from pacbandits.realizable.deviation import LargestDeviation, largest_deviation
from pacbandits.realizable.moments import Moments
from pacbandits.realizable.span import Span
from pacbandits.records import Contexts, Log, Policy
from pacbandits.records.digest import digest_contexts, digest_log

REALIZABLE = "mean rewards are linear in the given features (realizability), without which the claim may be wrong"
ASSUMPTIONS = (
    REALIZABLE,
    "mean rewards lie in [0, 1]",
    "the given contexts, with their weights, are the distribution of contexts",
    "rewards of a round are independent given its contexts and actions",
    "rounds are numbered in the order in which they occurred, and none was designed by its own or later rewards",
)
FIXED_LIST = "the form of the certificate, the list of policies and the stakes were fixed before the log was seen"
FIXED_PRIOR = "the form of the certificate was fixed before the log was seen, and the prior before its second round"
SEARCHED = "the search over directions, which is not exact, found the policy that may be best"
MULTIPLIERS = (1.0, 2.0, 4.0, 8.0)  # of the stake ε/R², for policies that are ever farther from the best

_ALLOWANCE = 1.01  # for what a search may have missed
_MANY, _QUICK = 2000, 16  # contexts for which a search takes long, and starts of a quick one

Form = Literal["ellipsoid", "list"]


@dataclass(frozen=True, eq=False, kw_only=True)
class RealizableCertificate(Claim):
    """What least squares has proven of a policy if rewards are linear: a `Claim`, and

    proven_epsilon: bounds V* − V(q) without relying on the search over directions.
    form: see above.
    listed: whether the policies were compared one by one; else q is compared with all policies.
    features: φ.
    parameter (d,): θ̂.
    noise: R².
    log_size: log|Π|.
    skipped: rounds that only chose the prior.
    prior (d, d): Λ.
    stake: ε at which the stakes were set.
    contexts_digest: of the contexts that it speaks of.
    """

    kind: ClassVar[str] = "pacbandits realizable certificate"
    speaks_of_contexts: ClassVar[bool] = True
    unit_rewards: ClassVar[bool] = False  # only their means

    proven_epsilon: float
    form: Form
    listed: bool
    features: FeatureMap
    parameter: FloatArray
    noise: float
    log_size: float
    contexts_digest: str
    skipped: int = 0
    prior: FloatArray | None = None
    stake: float | None = None

    @property
    def certified(self) -> bool:
        return self.certified_epsilon <= self.epsilon

    @property
    def exact(self) -> bool:
        """Whether the claim does without the search."""
        return self.listed or (self.certified and self.proven_epsilon <= self.epsilon)

    @property
    def assumptions(self) -> tuple[str, ...]:
        names = ", ".join(self.features.names[:8]) + (", …" if self.features.dimension > 8 else "")
        given = f"the {self.features.dimension} features are {names}"
        noise = f"rewards scatter about their means as {self.noise:g}-sub-Gaussian noise"
        if self.noise == 0.25:
            noise += " (as all do that lie in [0, 1])"
        fixed = FIXED_LIST if self.form == "list" else FIXED_PRIOR
        return (*ASSUMPTIONS, given, noise, fixed, *(() if self.exact else (SEARCHED,)), *self.remarks)

    @property
    def proviso(self) -> str:
        return "if rewards are linear, then "

    @property
    def best(self) -> str:
        return "the best of its class" if self.listed else "the best of all policies"

    def figures(self) -> Json:
        return {
            "proven_epsilon": self.proven_epsilon,
            "form": self.form,
            "listed": self.listed,
            "features": self.features.to_json(),
            "parameter": self.parameter.tolist(),
            "noise": self.noise,
            "log_size": self.log_size,
            "skipped": self.skipped,
            "prior": None if self.prior is None else self.prior.tolist(),
            "stake": self.stake,
            "multipliers": list(MULTIPLIERS),
            "contexts_digest": self.contexts_digest,
            "exact": self.exact,
        }

    @classmethod
    def from_json(cls, value: object, policies: PolicyClass | None = None) -> RealizableCertificate:
        with reading(value, kind=cls) as given:
            prior, stake = given["prior"], given["stake"]
            if given["form"] not in ("ellipsoid", "list"):
                raise ValueError(f"there is no form '{given['form']}'")
            made = cls(
                **read_common(given, policies),
                proven_epsilon=float(given["proven_epsilon"]),
                form=given["form"],
                listed=bool(given["listed"]),
                features=map_from_json(given["features"]),
                parameter=floats(given["parameter"], name="parameter", shape=(None,)),
                noise=float(given["noise"]),
                log_size=float(given["log_size"]),
                contexts_digest=str(given["contexts_digest"]),
                skipped=int(given["skipped"]),
                prior=None if prior is None else floats(prior, name="prior", shape=(None, None)),
                stake=None if stake is None else float(stake),
            )
            check_delta(made.delta)
        anew = made.to_json()
        check_follows(given, anew, names=anew)
        return made


def choose_form(policies: PolicyClass, *, dimension: int, delta: float) -> tuple[Form, float]:
    """The form with the smaller price, and that price: what is paid in the place of log(|Π|/δ)."""
    ellipsoid = ellipsoid_price(dimension, share=best_share(dimension, delta=delta), delta=delta)
    if isinstance(policies, EnumeratedClass):
        listed = list_price(log_size=policies.log_size, experts=len(MULTIPLIERS), delta=delta)
        if listed < ellipsoid:
            return "list", listed
    return "ellipsoid", ellipsoid


@dataclass(frozen=True, eq=False)
class Population:
    """The contexts and what is to be compared on them, in the coordinates of the span.

    phi (N, A, r). points (|Π|, r): φ_π of a listed class, None for all policies.
    """

    contexts: Contexts
    features: FeatureMap
    span: Span
    phi: FloatArray
    points: FloatArray | None

    @classmethod
    def of(cls, policies: PolicyClass, contexts: Contexts, features: FeatureMap) -> Population:
        """For a class that can be listed, its policies; for any other, all policies."""
        here = contexts.only(contexts.weights > 0)
        phi = features(here)
        span = Span.of(phi, here.weights)
        own = span.coordinates(phi)
        points = None
        if isinstance(policies, EnumeratedClass):
            points = mean_features(own, here.weights, np.asarray(policies.actions(here)))
        return cls(here, features, span, own, points)

    @property
    def rows(self) -> IntArray:
        return np.arange(len(self.phi))

    def mean(self, actions: IntArray) -> FloatArray:
        """φ_π (r,) of the policy that takes these actions (N,)."""
        return self.contexts.weights @ self.phi[self.rows, actions]


def mean_features(phi: FloatArray, weights: FloatArray, actions: np.ndarray[Any, Any]) -> FloatArray:
    """φ_π = Σ_c ν_c φ(c, π(c)) (K, d) for every row of a table of actions (K, N)."""
    rows = np.arange(len(phi))
    return np.stack([weights @ phi[rows, own] for own in actions])


def certified_by_list(
    points: FloatArray,
    moments: Moments,
    *,
    reference: FloatArray,
    log_size: float,
    noise: float,
    stake: float,
    delta: float,
) -> float:
    """The largest `V(π) − V(q)` that the list form leaves possible; points (K, r), reference (r,): φ_q.

    For x = φ_π − φ_q, each round's ⟨x, θ̂_k⟩ errs as R²‖x‖²_k-sub-Gaussian noise, ‖x‖²_k its inverse information. A
    stake κ/‖x‖²_k on it, which is known before the rewards are, wins `κ I(ε − ⟨x, θ̄⟩) − κ²R²I/2` with I = Σ 1/‖x‖²_k.
    """
    estimates, inverses = moments.each_round()
    x = points - reference
    x = x[np.abs(x).max(axis=1) > 1e-12]
    if len(x) == 0:
        return 0.0
    if len(estimates) == 0:
        return np.inf
    information = 1.0 / np.einsum("pi,kij,pj->kp", x, inverses, x)
    total = information.sum(axis=0)
    centre = (information * (estimates @ x.T)).sum(axis=0) / total
    if noise == 0:
        return max(float(centre.max()), 0.0)
    threshold = certificate_threshold(log_size=log_size, experts=len(MULTIPLIERS), delta=delta)
    stakes = np.array(MULTIPLIERS)[:, None] * stake / noise
    width = (stakes * noise / 2.0 + threshold / (stakes * total)).min(axis=0)
    return max(float((centre + width).max()), 0.0)


def ellipsoid(moments: Moments, prior: FloatArray, *, noise: float, delta: float) -> FloatArray | None:
    """C (r, r) with ‖θ̂ − θ*‖_{C⁻¹} ≤ 1, except with probability δ; None while a direction is unseen.

    `⟨x, θ̂ − θ*⟩ = xᵀV⁻¹S ≤ ‖V⁻¹x‖_{V + Λ} ‖S‖_{(V + Λ)⁻¹}`, so C = B V⁻¹(V + Λ)V⁻¹.
    """
    if moments.singular:
        return None
    information = moments.information.sum(axis=0)
    inverse = np.asarray(np.linalg.inv(information), dtype=np.float64)
    bound = self_normalised_bound(information, prior, noise=noise, delta=delta)
    return bound * (inverse + inverse @ prior @ inverse)


def make_realizable_certificate(
    log: Log,
    moments: Moments,
    population: Population,
    policies: PolicyClass,
    *,
    reference: Policy,
    epsilon: float,
    delta: float,
    noise: float,
    form: Form,
    prior: FloatArray | None = None,
    skipped: int = 0,
) -> RealizableCertificate:
    """What the data say of `reference` if rewards are linear."""
    own = reference(population.contexts)
    counted = moments.after(skipped)
    certified = proven = np.inf
    if form == "list":
        assert population.points is not None
        certified = proven = certified_by_list(
            population.points,
            counted,
            reference=population.mean(own),
            log_size=policies.log_size,
            noise=noise,
            stake=epsilon,
            delta=delta,
        )
    elif prior is not None and (shape := ellipsoid(counted, prior, noise=noise, delta=delta)) is not None:
        certified, proven = certified_by_ellipsoid(population, counted.estimate(), shape, own, target=epsilon)
    return RealizableCertificate(
        policy=reference,
        epsilon=epsilon,
        delta=delta,
        certified_epsilon=min(certified, 1.0),
        proven_epsilon=min(proven, 1.0),
        form=form,
        listed=population.points is not None,
        features=population.features,
        parameter=population.span.parameter(moments.estimate()),
        noise=noise,
        log_size=policies.log_size,
        samples=log.samples,
        rows=len(log),
        digest=digest_log(log),
        contexts_digest=digest_contexts(population.contexts),
        skipped=skipped,
        prior=None if prior is None else population.span.spelled_out(prior),
        stake=epsilon if form == "list" else None,
        remarks=log.assumed,
    )


def certified_by_ellipsoid(
    population: Population, parameter: FloatArray, shape: FloatArray, reference: IntArray, *, target: float
) -> tuple[float, float]:
    """The largest `V(π) − V(q)` that the ellipsoid leaves possible: as far as is known, and at the most.

    Of a listed class both are the maximum over its policies. What a search finds counts 1 % more. With many contexts,
    as long as a quick search finds far more than the target, both are the bound.
    """
    if population.points is not None:
        x = population.points - population.mean(reference)
        widths = np.sqrt(np.maximum(np.einsum("pi,ij,pj->p", x, shape, x), 0.0))
        largest = max(float((x @ parameter + widths).max()), 0.0)
        return largest, largest

    def search(**how: Any) -> LargestDeviation:
        return largest_deviation(
            population.phi,
            population.contexts.weights,
            reference=reference,
            parameter=parameter,
            shape=shape,
            **how,
        )

    if len(population.phi) > _MANY and (quick := search(starts=_QUICK)).value > 2.0 * target:
        return quick.proven, quick.proven
    found = search(target=target)
    return min(_ALLOWANCE * found.value, found.proven), found.proven

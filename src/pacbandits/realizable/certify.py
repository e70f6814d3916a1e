"""Make the certificate for linear rewards: the largest gap that each of its two forms leaves possible."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.confidence import (
    RESIDUAL_ALARM_RATE,
    best_share,
    ellipsoid_price,
    list_price,
    residual_bound,
    self_normalised_bound,
    union_threshold,
)
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import digest_class
from pacbandits.realizable.certificate import STAKE_MULTIPLIERS, Form, RealizableCertificate, skipped_rounds
from pacbandits.realizable.deviation import largest_deviation
from pacbandits.realizable.moments import Moments, Population
from pacbandits.records import Log, Policy
from pacbandits.records.log import digest_contexts, digest_log

# The largest deviation found by a search is multiplied by this, for what the search may have missed.
_SEARCH_ALLOWANCE_FACTOR = 1.01
# With more contexts than this a search takes long, so a quick one from few starts comes first. If that finds more than
# the factor times the target, the long one is skipped.
_MAX_CONTEXTS_SEARCHED_AT_ONCE, _QUICK_SEARCH_STARTS, _HOPELESS_FACTOR = 2000, 16, 2.0
# Policies whose mean features differ by at most this in every coordinate are equal.
_SAME_POINT = 1e-12
# The share of the squares of rewards that may be left by rounding alone.
_MAX_ROUNDED_SQUARE = 1e-12


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of a certificate, fixed before the rows that count are seen.

    epsilon: the requested distance, at which the stakes of the list form are set.
    delta: the error probability.
    noise: R².
    form: see `realizable.certificate`.
    prior (r, r): Λ of an ellipsoid, in the coordinates of the span; None until it is chosen.
    """

    epsilon: float
    delta: float
    noise: float
    form: Form
    prior: FloatArray | None = None

    @property
    def skipped(self) -> int:
        """The number of rounds that only chose the prior, and do not count."""
        return skipped_rounds(self.form)


def choose_form(policies: PolicyClass, *, dimension: int, delta: float) -> tuple[Form, float]:
    """Return the form with the smaller price, and that price: its counterpart of log(|Π|/δ)."""
    ellipsoid = ellipsoid_price(dimension, share=best_share(dimension, delta=delta), delta=delta)
    if policies.lists_policies:
        listed = list_price(log_size=policies.log_size, experts=len(STAKE_MULTIPLIERS), delta=delta)
        if listed < ellipsoid:
            return "list", listed
    return "ellipsoid", ellipsoid


def make_realizable_certificate(
    log: Log, moments: Moments, population: Population, policies: PolicyClass, *, reference: Policy, terms: Terms
) -> RealizableCertificate:
    """Return the certificate of `reference`, assuming linear rewards. moments: of the log, by round.

    Raises:
        InputError: If rewards vary more about every linear function than the noise allows.
    """
    _check_residuals(log, moments, population, noise=terms.noise)
    own = reference(population.contexts)
    counted = moments.after(terms.skipped)
    certified = proven = np.inf
    if terms.form == "list":
        assert population.points is not None
        x = population.points - population.mean(own)
        certified = proven = certified_by_list(x, counted, log_size=policies.log_size, terms=terms)
    elif (shape := confidence_ellipsoid(counted, terms)) is not None:
        certified, proven = certified_by_ellipsoid(population, counted.estimate(), shape, own, target=terms.epsilon)
    return RealizableCertificate(
        policy=reference,
        epsilon=terms.epsilon,
        delta=terms.delta,
        certified_epsilon=min(certified, 1.0),
        proven_epsilon=min(proven, 1.0),
        form=terms.form,
        listed=population.points is not None,
        features=population.features,
        parameter=population.span.parameter(moments.estimate()),
        noise=terms.noise,
        log_size=policies.log_size,
        samples=log.samples,
        rows=len(log),
        digest=digest_log(log),
        class_digest=digest_class(policies),
        contexts_digest=digest_contexts(population.contexts),
        skipped=terms.skipped,
        prior=None if terms.prior is None else population.span.spelled_out(terms.prior),
        stake=terms.epsilon if terms.form == "list" else None,
        remarks=log.assumed,
        action_names=log.action_names,
        dates=log.dates,
    )


def _check_residuals(log: Log, moments: Moments, population: Population, *, noise: float) -> None:
    """Raise if the residuals refute the noise (`pacbandits.confidence.residual_bound`)."""
    phi = population.span.coordinates(population.features.played(log.contexts, log.actions))
    left = log.rewards - phi @ moments.estimate()
    # One step of iterative refinement, as the first fit has lost digits.
    inverse = np.asarray(np.linalg.pinv(moments.information.sum(axis=0)), dtype=np.float64)
    left = left - phi @ (inverse @ ((phi * log.repeats[:, None]).T @ left))
    squares = float(log.repeats @ left**2)
    most = residual_bound(log.samples, noise=noise, alpha=RESIDUAL_ALARM_RATE)
    if squares > most + _MAX_ROUNDED_SQUARE * float(log.repeats @ log.rewards**2):
        raise InputError(
            f"rewards scatter about every linear function by more than noise of {noise:g} allows (a mean square of "
            f"{squares / log.samples:.3g} in {log.samples:,} interactions); give a larger proxy of their noise, or "
            "other features"
        )


def certified_by_list(x: FloatArray, moments: Moments, *, log_size: float, terms: Terms) -> float:
    """Return the largest `V(π) − V(q)` that the list form leaves possible; x (K, r): φ_π − φ_q.

    The error of each round's ⟨x, θ̂_k⟩ is R²‖x‖²_k-sub-Gaussian, ‖x‖²_k in its inverse information. A stake κ/‖x‖²_k on
    it, which is known before the rewards are, wins `κ I(ε − ⟨x, θ̄⟩) − κ²R²I/2` with I = Σ 1/‖x‖²_k.
    """
    noise = terms.noise
    estimates, inverses = moments.each_round()
    x = x[np.abs(x).max(axis=1) > _SAME_POINT]
    if len(x) == 0:
        return 0.0
    if len(estimates) == 0:
        return np.inf
    information = 1.0 / np.einsum("pi,kij,pj->kp", x, inverses, x)
    total = information.sum(axis=0)
    centre = (information * (estimates @ x.T)).sum(axis=0) / total
    if noise == 0:
        return max(float(centre.max()), 0.0)
    threshold = union_threshold(log_size=log_size, experts=len(STAKE_MULTIPLIERS), delta=terms.delta)
    stakes = np.array(STAKE_MULTIPLIERS)[:, None] * terms.epsilon / noise
    width = (stakes * noise / 2.0 + threshold / (stakes * total)).min(axis=0)
    return max(float((centre + width).max()), 0.0)


def confidence_ellipsoid(moments: Moments, terms: Terms) -> FloatArray | None:
    """Return C (r, r) with ‖θ̂ − θ*‖_{C⁻¹} ≤ 1, except with probability δ; None while a direction is unseen.

    `⟨x, θ̂ − θ*⟩ = xᵀV⁻¹S ≤ ‖V⁻¹x‖_{V + Λ} ‖S‖_{(V + Λ)⁻¹}`, so C = B V⁻¹(V + Λ)V⁻¹.
    """
    if terms.prior is None or moments.singular:
        return None
    information = moments.information.sum(axis=0)
    inverse = np.asarray(np.linalg.inv(information), dtype=np.float64)
    bound = self_normalised_bound(information, terms.prior, noise=terms.noise, delta=terms.delta)
    return bound * (inverse + inverse @ terms.prior @ inverse)


def certified_by_ellipsoid(
    population: Population, parameter: FloatArray, shape: FloatArray, reference: IntArray, *, target: float
) -> tuple[float, float]:
    """Return the largest `V(π) − V(q)` that the ellipsoid leaves possible: as found by search, and an upper bound.

    For a listed class both are the maximum over its policies. A search's result is raised by 1 %. With many contexts,
    if a quick search finds far more than the target, both are the upper bound.
    """
    if population.points is not None:
        x = population.points - population.mean(reference)
        widths = np.sqrt(np.maximum(np.einsum("pi,ij,pj->p", x, shape, x), 0.0))
        largest = max(float((x @ parameter + widths).max()), 0.0)
        return largest, largest
    search = partial(
        largest_deviation,
        population.phi,
        population.contexts.weights,
        reference=reference,
        parameter=parameter,
        shape=shape,
    )
    if len(population.phi) > _MAX_CONTEXTS_SEARCHED_AT_ONCE:
        quick = search(starts=_QUICK_SEARCH_STARTS)
        if quick.value > _HOPELESS_FACTOR * target:
            return quick.proven, quick.proven
    found = search(target=target)
    return min(_SEARCH_ALLOWANCE_FACTOR * found.value, found.proven), found.proven

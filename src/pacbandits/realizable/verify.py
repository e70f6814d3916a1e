"""Check a certificate for linear rewards against its log and contexts, apart from the code that made it.

Information, estimates and radii are recomputed from their definitions, in coordinates of their own. Over all policies
the worst one is searched for again, by the same search (`deviation`) from many more starts.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import instance
from pacbandits.confidence import MAX_NOISE, MIN_NOISE, RESIDUAL_ALARM_RATE, residual_bound
from pacbandits.errors import InputError, count_of
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.policies.features import map_for
from pacbandits.policies.linear.policy import GreedyPolicy
from pacbandits.policies.registry import digest_class
from pacbandits.realizable.certificate import STAKE_MULTIPLIERS, RealizableCertificate
from pacbandits.realizable.deviation import largest_deviation
from pacbandits.records import Contexts, Log, check_contexts, check_log
from pacbandits.records.log import digest_contexts, digest_log
from pacbandits.records.log_metadata import UNIT_RANGE
from pacbandits.verifier import Verdict

# The largest relative excess of a recomputed value over the one in the certificate.
_MAX_RELATIVE_EXCESS = 1e-6
_SEARCH_STARTS = 1000
# Stakes and priors outside this range cannot be computed with.
_MIN_MAGNITUDE, _MAX_MAGNITUDE = 1e-100, 1e100
# The share of the squares of rewards that may be left by rounding alone; own copy, on purpose.
_MAX_ROUNDED_SQUARE = 1e-12
# Singular values of the scaled features, as shares of the largest: up to the first they are rounding errors, and up to
# the second too small to compute with.
_MAX_ROUNDING_SHARE, _MAX_COLLINEAR_SHARE = 1e-13, 1e-9


def verify_realizable(
    certificate: RealizableCertificate, log: Log, contexts: Contexts, policies: PolicyClass
) -> Verdict:
    """Recheck every claim of a certificate for linear rewards; the verdict's value is the recomputed distance.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("linear:dimension=2,actions=3,contexts=20")
    >>> done = pb.run(problem, algorithm="linear-rage", epsilon=0.2, delta=0.1, rng=1)
    >>> pb.verify_realizable(done.certificate, done.log, done.contexts, problem.policies).good
    True
    """
    instance(certificate, RealizableCertificate, name="certificate")
    check_log(log)
    policies = check_class(policies)
    here = check_contexts(contexts).only(contexts.weights > 0)
    faults = _faults_on_sight(certificate, log, here, policies)
    if faults:
        return Verdict(tuple(faults), None)
    try:
        phi, played = certificate.features(here), certificate.features.played(log.contexts, log.actions)
    except InputError as error:
        return Verdict((f"the features of the certificate do not fit: {error}",), None)
    axes = _axes(phi, here.weights)
    if axes is None:
        return Verdict(("the features are zero, or too nearly collinear to compute with",), None)
    if not _within_span(played, phi):
        return Verdict(("the log has features outside the span of those of the contexts",), None)
    if log.awaited.any():
        return Verdict(("a certificate for linear rewards cannot have pending rewards",), None)
    inside = played @ axes
    parts = [log.rounds == number for number in np.unique(log.rounds)]
    information = np.array([(inside[own] * log.repeats[own, None]).T @ inside[own] for own in parts])
    totals = np.array([(inside[own] * log.repeats[own, None]).T @ log.rewards[own] for own in parts])
    faults.extend(_faults_of_parameter(certificate, phi, axes, information.sum(axis=0), totals.sum(axis=0)))
    faults.extend(_faults_of_noise(certificate, inside, log))
    counted = slice(certificate.skipped, None)
    if len(parts) <= certificate.skipped:
        value = proven = 1.0
    elif certificate.form == "list":
        value = proven = _by_list(certificate, phi @ axes, here, policies, information[counted], totals[counted])
    else:
        sums = information[counted].sum(axis=0), totals[counted].sum(axis=0)
        value, proven = _by_ellipsoid(certificate, phi @ axes, axes, here, policies, *sums)
    for name, anew, claimed in (
        ("policy is within", value, certificate.certified_epsilon),
        ("policy is proven, without the search, to be within", proven, certificate.proven_epsilon),
    ):
        if not min(anew, 1.0) <= claimed * (1.0 + _MAX_RELATIVE_EXCESS) + 1e-12:
            faults.append(f"the {name} {min(anew, 1.0):.6g} of the best, not {claimed:.6g}")
    return Verdict(tuple(faults), min(value, 1.0))


def _axes(phi: FloatArray, weights: FloatArray) -> FloatArray | None:
    """Return coordinates (d, r) of the span of φ, with the identity as information of uniform exploration, or None."""
    flat = phi.reshape(-1, phi.shape[2])
    scales = np.abs(flat).max(axis=0)
    if not 0 < scales.max() < _MAX_MAGNITUDE:
        return None
    scales = np.where(scales > 0, scales, 1.0)
    _, sizes, rows = np.linalg.svd(flat / scales, full_matrices=False)
    if ((sizes > _MAX_ROUNDING_SHARE * sizes[0]) & (sizes <= _MAX_COLLINEAR_SHARE * sizes[0])).any():
        return None
    kept = sizes > _MAX_COLLINEAR_SHARE * sizes[0]
    first = (rows[kept] / sizes[kept, None] / scales).T
    points = flat @ first
    gram = (points * (np.repeat(weights, phi.shape[1]) / phi.shape[1])[:, None]).T @ points
    values, vectors = np.linalg.eigh(gram)
    return None if values[0] <= 1e-18 * values[-1] else first @ (vectors / np.sqrt(values))


def _within_span(played: FloatArray, phi: FloatArray) -> bool:
    """Return whether every row played (n, d) lies in the span of the contexts' features (N, A, d)."""
    flat = phi.reshape(-1, phi.shape[2])
    scales = np.where(np.abs(flat).max(axis=0) > 0, np.abs(flat).max(axis=0), 1.0)
    _, sizes, rows = np.linalg.svd(flat / scales, full_matrices=False)
    basis = rows[sizes > _MAX_COLLINEAR_SHARE * sizes[0]]
    scaled = played / scales
    return bool((np.abs(scaled - scaled @ basis.T @ basis) <= 1e-6 * max(1.0, float(np.abs(scaled).max()))).all())


def _faults_of_parameter(
    c: RealizableCertificate, phi: FloatArray, axes: FloatArray, information: FloatArray, totals: FloatArray
) -> list[str]:
    """Return a fault if the parameter is not that of least squares over all rounds."""
    if np.linalg.cond(information) > 1e9:
        return []
    anew = phi @ (axes @ np.linalg.solve(information, totals))
    off = np.abs(phi @ c.parameter - anew).max()
    fits = off <= 1e-5 * max(1.0, float(np.abs(anew).max()))
    return [] if fits else ["the parameter is not that of least squares on the log"]


def _faults_of_noise(c: RealizableCertificate, inside: FloatArray, log: Log) -> list[str]:
    """Return a fault if the residuals of least squares refute the noise; a correct one with probability at most α."""
    roots = np.sqrt(log.repeats.astype(np.float64))
    design, rewards = inside * roots[:, None], log.rewards * roots
    inverse, left = np.linalg.pinv(design.T @ design), rewards
    for _ in range(3):  # iterative refinement, against rounding
        left = left - design @ (inverse @ (design.T @ left))
    squares = float((left**2).sum())
    most = residual_bound(log.samples, noise=c.noise, alpha=RESIDUAL_ALARM_RATE)
    if squares <= most + _MAX_ROUNDED_SQUARE * float((rewards**2).sum()):
        return []
    found, allowed = squares / log.samples, most / log.samples
    return [
        f"the rewards refute noise of {c.noise:g}, or that they are linear: their residuals have a mean square of "
        f"{found:.3g}, where {allowed:.3g} is the most but for one time in {1.0 / RESIDUAL_ALARM_RATE:,.0f}"
    ]


def _faults_on_sight(c: RealizableCertificate, log: Log, contexts: Contexts, policies: PolicyClass) -> list[str]:
    faults: list[str] = []
    if digest_log(log) != c.digest:
        faults.append("the log is not the one that was certified: its digest differs")
    if digest_class(policies) != c.class_digest:
        faults.append("the policy class is not the one that was certified: its digest differs")
    if digest_contexts(contexts) != c.contexts_digest:
        faults.append("the contexts are not those that the certificate speaks of: their digest differs")
    if log.samples != c.samples or len(log) != c.rows:
        faults.append(f"the log has {count_of(log.samples, 'interaction')}, the certificate speaks of {c.samples}")
    if (log.action_names, log.dates, UNIT_RANGE) != (c.action_names, c.dates, c.reward_range):
        faults.append("the certificate and the log differ in names of actions, columns of dates, or units of rewards")
    if not log.n_actions == policies.n_actions == c.features.n_actions:
        faults.append(f"the log has {log.n_actions} actions, the class {policies.n_actions}")
        return faults
    faults.extend(_faults_of_features(c, log, contexts))
    if c.listed is not policies.lists_policies:
        faults.append("the certificate and the policy class disagree on whether it is a list")
    elif c.listed and not (policies.checks_membership and policies.has(c.policy)):
        faults.append("the certified policy is not one of the class")
    elif not c.listed and not (isinstance(c.policy, GreedyPolicy) and c.policy.n_actions == policies.n_actions):
        faults.append("the certified policy must be greedy for a parameter")
    if not abs(policies.log_size - c.log_size) <= 1e-9 * max(1.0, policies.log_size):
        faults.append(f"the policy class has log size {policies.log_size:.6g}, the certificate {c.log_size:.6g}")
    if not 0 < c.delta < 1 or not 0 < c.epsilon < np.inf or not 0 <= c.certified_epsilon <= 1:
        faults.append(f"epsilon {c.epsilon} (or {c.certified_epsilon}) and delta {c.delta} are no confidence statement")
    if c.noise != 0 and not MIN_NOISE <= c.noise <= MAX_NOISE:
        faults.append(f"noise of {c.noise} cannot be computed with")
    if c.form == "list":
        if not (c.listed and c.stake is not None and _MIN_MAGNITUDE <= c.stake <= _MAX_MAGNITUDE and c.skipped == 0):
            faults.append("a certificate over a list needs the list, its stake, and all rounds")
    elif c.skipped != 1:
        faults.append("an ellipsoid needs one first round that chose its prior")
    elif c.certified_epsilon < 1 and not _is_prior(c.prior, c.features.dimension):
        faults.append("an ellipsoid needs a prior that is a symmetric matrix of moderate size")
    faults.extend(f"the certificate does not say that it assumes: {w}" for w in log.assumed if w not in c.remarks)
    return faults


def _faults_of_features(c: RealizableCertificate, log: Log, contexts: Contexts) -> list[str]:
    """Return faults if the features are not those of the contexts and of the log."""
    try:
        own = map_for(contexts, n_actions=c.features.n_actions, relative=False)
    except InputError as error:
        return [f"the contexts have no features to be linear in: {error}"]
    if not _alike(own.to_json(), c.features.to_json()):
        return ["the features of the certificate are not those of the contexts"]
    if c.parameter.shape != (own.dimension,):
        return [f"a parameter of {c.parameter.size} numbers does not fit {own.dimension} features"]
    if contexts.ids is None or log.contexts.ids is None or len(np.unique(contexts.ids)) < len(contexts):
        return []
    order = np.argsort(contexts.ids)
    spot = np.minimum(np.searchsorted(contexts.ids[order], log.contexts.ids), len(order) - 1)
    known = contexts.ids[order][spot] == log.contexts.ids
    theirs = own.played(log.contexts, log.actions)[known]
    mine = own.played(contexts.take(order[spot]), log.actions)[known]
    return [] if np.array_equal(mine, theirs) else ["the log has other features for the same context ids"]


def _alike(one: object, two: object) -> bool:
    """Return whether two JSON values are equal up to rounding: means and spreads are sums, added in any order."""
    if isinstance(one, dict) and isinstance(two, dict):
        mine, theirs = cast(dict[str, object], one), cast(dict[str, object], two)
        return mine.keys() == theirs.keys() and all(_alike(mine[name], theirs[name]) for name in mine)
    if isinstance(one, list) and isinstance(two, list):
        first, second = cast(list[object], one), cast(list[object], two)
        return len(first) == len(second) and all(map(_alike, first, second))
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9)
    return one == two


def _is_prior(prior: FloatArray | None, dimension: int) -> bool:
    if prior is None or prior.shape != (dimension, dimension):
        return False
    largest = float(np.abs(prior).max())
    return 0 < largest <= _MAX_MAGNITUDE and bool((np.abs(prior - prior.T) <= 1e-9 * largest).all())


def _by_list(
    c: RealizableCertificate,
    phi: FloatArray,
    contexts: Contexts,
    policies: PolicyClass,
    information: FloatArray,
    totals: FloatArray,
) -> float:
    assert policies.lists_policies
    assert c.stake is not None
    rows, weights = np.arange(len(contexts)), contexts.weights
    best = weights @ phi[rows, c.policy(contexts)]
    whole = np.array([np.linalg.cond(v) < 1e10 for v in information], dtype=np.bool_)
    inverses = np.asarray(np.linalg.inv(information[whole]), dtype=np.float64)
    rounds = list(zip(inverses, totals[whole], strict=True))
    needed = policies.log_size + np.log(len(STAKE_MULTIPLIERS)) - np.log(c.delta)
    found = [0.0]
    for actions in np.asarray(policies.actions(contexts)):
        x = weights @ phi[rows, actions] - best
        if np.abs(x).max() <= 1e-12:
            continue
        if not rounds:
            return np.inf
        precisions = np.array([1.0 / (x @ v @ x) for v, _ in rounds])
        means = np.array([x @ v @ t for v, t in rounds])
        centre = float(precisions @ means / precisions.sum())
        stakes = np.array(STAKE_MULTIPLIERS) * c.stake
        widths = stakes / 2.0 + c.noise * needed / (stakes * precisions.sum())
        found.append(centre + (float(widths.min()) if c.noise > 0 else 0.0))
    return _largest(np.array(found))


def _by_ellipsoid(
    c: RealizableCertificate,
    phi: FloatArray,
    axes: FloatArray,
    contexts: Contexts,
    policies: PolicyClass,
    information: FloatArray,
    totals: FloatArray,
) -> tuple[float, float]:
    nothing = np.inf, np.inf
    if c.prior is None or np.linalg.cond(information) > 1e12:
        return nothing
    prior = axes.T @ ((c.prior + c.prior.T) / 2.0) @ axes
    if not np.isfinite(prior).all() or np.linalg.eigvalsh(prior)[0] <= 0:
        return nothing
    both = information + prior
    grown = float(np.linalg.slogdet(both)[1] - np.linalg.slogdet(prior)[1])
    bound = c.noise * (max(grown, 0.0) - 2.0 * np.log(c.delta))
    estimate = np.asarray(np.linalg.solve(information, totals), dtype=np.float64)
    half = np.linalg.solve(information, np.linalg.cholesky(both))
    shape = np.asarray(bound * half @ half.T, dtype=np.float64)
    if not np.isfinite(shape).all():
        return nothing
    rows, weights, own = np.arange(len(contexts)), contexts.weights, c.policy(contexts)
    if policies.lists_policies:
        best, found = weights @ phi[rows, own], [0.0]
        for actions in np.asarray(policies.actions(contexts)):
            x = weights @ phi[rows, actions] - best
            found.append(float(x @ estimate + np.sqrt(max(x @ shape @ x, 0.0))))
        largest = _largest(np.array(found))
        return largest, largest
    target = c.epsilon if c.proven_epsilon <= c.epsilon else None
    worst = largest_deviation(
        phi, weights, reference=own, parameter=estimate, shape=shape, starts=_SEARCH_STARTS, target=target
    )
    return worst.value, worst.proven


def _largest(values: FloatArray) -> float:
    """Return the largest value; infinite if one is not finite."""
    return float(values.max()) if np.isfinite(values).all() else np.inf

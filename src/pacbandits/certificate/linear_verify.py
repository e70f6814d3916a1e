"""Check a certificate for linear rewards against its log and contexts, without the code that made it.

Information, estimates and radii are computed anew from their definitions, in coordinates of their own. Over all
policies the worst one is searched for again, from many more starts.
"""

from __future__ import annotations

import numpy as np

from pacbandits.certificate.certificate import digest
from pacbandits.certificate.deviation import largest_deviation
from pacbandits.certificate.linear import MULTIPLIERS, LinearCertificate, digest_contexts
from pacbandits.certificate.verify import Verdict
from pacbandits.errors import FloatArray, InputError
from pacbandits.policies.base import ClosedClass, EnumeratedClass, PolicyClass
from pacbandits.policies.greedy import GreedyPolicy
from pacbandits.records import Contexts, Log

_ROUNDING = 1e-6
_STARTS = 1000


def verify_linear(certificate: LinearCertificate, log: Log, contexts: Contexts, policies: PolicyClass) -> Verdict:
    """Recheck every claim of a certificate for linear rewards; value: the distance from the best, anew."""
    here = contexts.only(contexts.weights > 0)
    faults = _faults_on_sight(certificate, log, here, policies)
    if faults:
        return Verdict(tuple(faults), None)
    try:
        phi, played = certificate.features(here), certificate.features(log.contexts)[np.arange(len(log)), log.actions]
    except InputError as error:
        return Verdict((f"the features of the certificate do not fit: {error}",), None)
    # Orthonormal coordinates of what the features span; anything outside is 0 on every context.
    flat = phi.reshape(-1, phi.shape[2])
    _, sizes, rows = np.linalg.svd(flat / np.maximum(np.abs(flat).max(axis=0), 1e-300), full_matrices=False)
    axes = (rows[sizes > 1e-9 * sizes[0]] / np.maximum(np.abs(flat).max(axis=0), 1e-300)).T
    inside, rounds = played @ axes, np.unique(log.rounds)[certificate.skipped :]
    parts = [log.rounds == number for number in rounds]
    information = np.array([(inside[own] * log.repeats[own, None]).T @ inside[own] for own in parts])
    totals = np.array([(inside[own] * log.repeats[own, None]).T @ log.rewards[own] for own in parts])
    if not parts:
        value = proven = 1.0
    elif certificate.form == "list":
        value = proven = _by_list(certificate, phi @ axes, here, policies, information, totals)
    else:
        value, proven = _by_ellipsoid(
            certificate, phi @ axes, axes, here, policies, information.sum(axis=0), totals.sum(axis=0)
        )
    for name, anew, claimed in (
        ("policy is within", value, certificate.certified_epsilon),
        ("policy is proven, without the search, to be within", proven, certificate.proven_epsilon),
    ):
        if not min(anew, 1.0) <= claimed * (1.0 + _ROUNDING) + 1e-12:
            faults.append(f"the {name} {min(anew, 1.0):.6g} of the best, not {claimed:.6g}")
    return Verdict(tuple(faults), min(value, 1.0))


def _faults_on_sight(c: LinearCertificate, log: Log, contexts: Contexts, policies: PolicyClass) -> list[str]:
    faults: list[str] = []
    if digest(log) != c.digest:
        faults.append("the log is not the one that was certified: its digest differs")
    if digest_contexts(contexts) != c.contexts_digest:
        faults.append("the contexts are not those that the certificate speaks of: their digest differs")
    if log.samples != c.samples or len(log) != c.rows:
        faults.append(f"the log has {log.samples} interactions, the certificate speaks of {c.samples}")
    if not log.n_actions == policies.n_actions == c.features.n_actions:
        faults.append(f"the log has {log.n_actions} actions, the class {policies.n_actions}")
        return faults
    if c.listed is not isinstance(policies, EnumeratedClass):
        faults.append("the certificate and the policy class disagree on whether it is a list")
    elif c.listed and not (isinstance(policies, ClosedClass) and policies.has(c.policy)):
        faults.append("the certified policy is not one of the class")
    elif not c.listed and not isinstance(c.policy, GreedyPolicy):
        faults.append("the certified policy must be greedy for a parameter")
    if not abs(policies.log_size - c.log_size) <= 1e-9 * max(1.0, policies.log_size):
        faults.append(f"the policy class has log size {policies.log_size:.6g}, the certificate {c.log_size:.6g}")
    if not 0 < c.delta < 1 or not 0 < c.epsilon < np.inf or not 0 <= c.certified_epsilon <= 1:
        faults.append(f"epsilon {c.epsilon} (or {c.certified_epsilon}) and delta {c.delta} are no confidence statement")
    if not 0 <= c.noise < np.inf or c.skipped < 0:
        faults.append(f"noise {c.noise} and {c.skipped} skipped rounds mean nothing")
    if c.form == "list" and not (c.stake is not None and 0 < c.stake < np.inf and c.listed):
        faults.append("a certificate over a list needs the list and its stake")
    if c.form == "ellipsoid" and c.certified_epsilon < 1 and c.prior is None:
        faults.append("an ellipsoid needs its prior")
    if c.form == "ellipsoid" and c.skipped == 0:
        faults.append("an ellipsoid needs a first round that chose its prior")
    faults.extend(f"the certificate does not say that it assumes: {w}" for w in log.assumed if w not in c.remarks)
    return faults


def _by_list(
    c: LinearCertificate,
    phi: FloatArray,
    contexts: Contexts,
    policies: PolicyClass,
    information: FloatArray,
    totals: FloatArray,
) -> float:
    assert isinstance(policies, EnumeratedClass)
    assert c.stake is not None
    rows, weights = np.arange(len(contexts)), contexts.weights
    best = weights @ phi[rows, c.policy(contexts)]
    whole = np.array([np.linalg.cond(v) < 1e10 for v in information], dtype=np.bool_)
    inverses = np.asarray(np.linalg.inv(information[whole]), dtype=np.float64)
    rounds = list(zip(inverses, totals[whole], strict=True))
    needed = policies.log_size + np.log(len(MULTIPLIERS)) - np.log(c.delta)
    largest = 0.0
    for actions in np.asarray(policies.actions(contexts)):
        x = weights @ phi[rows, actions] - best
        if np.abs(x).max() <= 1e-12:
            continue
        precisions = np.array([1.0 / (x @ v @ x) for v, _ in rounds])
        if precisions.sum() == 0:
            return np.inf
        means = np.array([x @ v @ t for v, t in rounds])
        centre = float(precisions @ means / precisions.sum())
        stakes = np.array(MULTIPLIERS) * c.stake
        widths = stakes / 2.0 + c.noise * needed / (stakes * precisions.sum())
        largest = max(largest, float(centre + (widths.min() if c.noise > 0 else 0.0)))
    return largest


def _by_ellipsoid(
    c: LinearCertificate,
    phi: FloatArray,
    axes: FloatArray,
    contexts: Contexts,
    policies: PolicyClass,
    information: FloatArray,
    totals: FloatArray,
) -> tuple[float, float]:
    if c.prior is None or np.linalg.cond(information) > 1e12:
        return np.inf, np.inf
    prior = axes.T @ c.prior @ axes
    if np.linalg.eigvalsh(prior)[0] <= 0:
        return np.inf, np.inf
    both = information + prior
    bound = c.noise * (np.linalg.slogdet(both)[1] - np.linalg.slogdet(prior)[1] - 2.0 * np.log(c.delta))
    estimate = np.asarray(np.linalg.solve(information, totals), dtype=np.float64)
    half = np.linalg.solve(information, np.linalg.cholesky(both))
    shape = bound * half @ half.T
    rows, weights, own = np.arange(len(contexts)), contexts.weights, c.policy(contexts)
    if isinstance(policies, EnumeratedClass):
        best, largest = weights @ phi[rows, own], 0.0
        for actions in np.asarray(policies.actions(contexts)):
            x = weights @ phi[rows, actions] - best
            largest = max(largest, float(x @ estimate + np.sqrt(max(x @ shape @ x, 0.0))))
        return largest, largest
    found = largest_deviation(
        phi, weights, reference=own, parameter=estimate, shape=shape, starts=_STARTS, target=c.proven_epsilon
    )
    return found.value, found.proven

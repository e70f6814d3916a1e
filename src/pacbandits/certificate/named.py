"""Policies named in advance, and which of several candidates the data speak for most clearly.

A certificate may be asked of any policy, however it was chosen, and pays for that with log|Π|. A policy that was named
before some round, and is tested by the later rounds alone, is fixed beforehand and pays almost nothing
(`pacbandits.confidence.head_start`). In return chance is no longer on its side: it is not the luckiest on the rows that
test it. On large classes that is by far the better bargain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pacbandits.certificate.bets import Bets, Naming
from pacbandits.certificate.certificate import Certificate, find_least, make_certificate, slope_of, wealth
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.search import Least, least_of_all, least_of_one
from pacbandits.confidence import certificate_threshold
from pacbandits.policies.base import EnumeratedClass, PolicyClass
from pacbandits.records import Contexts, Log, Policy

_LEAST_SIZE = 10.0  # nats of log|Π| from which on half of δ is well spent on naming
_GLANCED_AT, _LOOKED_AT = 6, 2  # of the policies named, the latest; and of these, closely


class Named(NamedTuple):
    """A policy and when it was named."""

    policy: Policy
    naming: Naming


def worth_naming(policies: PolicyClass) -> bool:
    """Whether half of δ is kept for policies named in advance: with large classes and an exact oracle."""
    return policies.exact and policies.log_size >= _LEAST_SIZE


def with_name(named: Sequence[Named], policy: Policy, contexts: Contexts, *, round_number: int) -> tuple[Named, ...]:
    """One more policy named before the given round (from 0), unless one that acts alike on the contexts was already.

    contexts: known before that round.
    """
    actions = policy(contexts)
    if any(np.array_equal(one.policy(contexts), actions) for one in named):
        return tuple(named)
    return (*named, Named(policy, Naming(round_number, len(named) + 1)))


def best_certificate(
    log: Log,
    ledger: Ledger,
    policies: PolicyClass,
    *,
    leader: Policy,
    named: Sequence[Named],
    epsilon: float,
    delta: float,
    bets: Bets,
    model: dict[str, Any],
    reserved: bool,
    ordered: bool = False,
) -> tuple[Certificate, int]:
    """The certificate of the policy, the leader or one that was named, with most to show; and oracle calls.

    leader: the best policy by all data. bets: without a naming. reserved: whether half of δ was kept for the named.
    """
    needed = certificate_threshold(log_size=policies.log_size, experts=len(bets), delta=delta, reserved=reserved)

    def look(policy: Policy, bets: Bets, experts: Sequence[int] | None = None) -> _Candidate:
        own = policy(ledger.contexts)
        least = find_least(ledger, policies, reference=own, bets=bets, epsilon=epsilon, needed=needed, experts=experts)
        return _Candidate(policy, bets, least, _reach(ledger, bets, least.experts, epsilon, needed - least.value))

    best, calls = _Candidate(leader, bets, None, np.inf), 0
    if reserved:
        best = look(leader, bets)
        assert best.least is not None
        found = best.least.experts
        latest = named[-_GLANCED_AT:] if best.least.value < needed else ()
        glances = [_glance(ledger, policies, one, bets, found, epsilon=epsilon, needed=needed) for one in latest]
        calls = best.least.oracle_calls
        calls += 0 if isinstance(policies, EnumeratedClass) else len(found) * len(latest)
        near = sorted({k + step for k in found for step in (-1, 0, 1)} & set(range(len(bets))))
        for i in sorted(range(len(latest)), key=lambda i: glances[i])[:_LOOKED_AT]:
            late = replace(bets, naming=latest[i].naming)
            other = look(latest[i].policy, late, (*found, *(len(bets) + k for k in near)))
            assert other.least is not None
            calls += other.least.oracle_calls
            best = min(best, other, key=lambda candidate: candidate.reach)
    certificate, asked = make_certificate(
        log,
        ledger,
        policies,
        reference=best.policy,
        epsilon=epsilon,
        delta=delta,
        bets=best.bets,
        model=model,
        ordered=ordered,
        reserved=reserved,
        least=best.least,
    )
    return certificate, calls + asked


class _Candidate(NamedTuple):
    """A policy, its bets, what they left of its least refuted rival, and the ε that they would seem to certify."""

    policy: Policy
    bets: Bets
    least: Least | None
    reach: float


def _glance(
    ledger: Ledger,
    policies: PolicyClass,
    named: Named,
    bets: Bets,
    experts: Sequence[int],
    *,
    epsilon: float,
    needed: float,
) -> float:
    """The ε that these experts, when they wait for the naming, would seem to certify of a policy, one at a time."""
    own, late = named.policy(ledger.contexts), replace(bets, naming=named.naming)
    reaches: list[float] = []
    for expert in (len(bets) + k for k in experts):
        score = wealth(ledger, late, expert, reference=own, epsilon=epsilon, log_size=policies.log_size)
        if isinstance(policies, EnumeratedClass):
            value = least_of_all(policies, ledger.contexts, [score])
        else:
            value = least_of_one(policies, ledger.contexts, score)
        reaches.append(_reach(ledger, late, [expert], epsilon, needed - value))
    return min(reaches)


def _reach(ledger: Ledger, bets: Bets, experts: Sequence[int], epsilon: float, missing: float) -> float:
    """About the ε at which wealth would reach what is needed; at most the given ε if nothing is missing."""
    slope = slope_of(ledger, bets, experts)
    return epsilon + missing / slope if slope > 0 else np.inf

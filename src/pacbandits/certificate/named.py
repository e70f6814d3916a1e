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
from pacbandits.certificate.certificate import Certificate, find_least, make_certificate, wealth
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.search import Least, least_of_all, least_of_one
from pacbandits.confidence import certificate_threshold
from pacbandits.policies.base import EnumeratedClass, PolicyClass
from pacbandits.records import Contexts, Log, Policy

_LEAST_SIZE = 10.0  # nats of log|Π| from which on half of δ is well spent on naming
_LOOKED_AT = 2  # of the policies named, those that seem most refuting are looked at closely


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

    def look(policy: Policy, bets: Bets) -> Least:
        own = policy(ledger.contexts)
        return find_least(ledger, policies, reference=own, bets=bets, epsilon=epsilon, needed=needed)

    found, calls = None, 0
    candidate = leader, bets
    if reserved:
        found = look(leader, bets)
        calls = found.oracle_calls
        if found.value < needed and named:
            glances = [_glance(ledger, policies, one, bets, found, epsilon=epsilon) for one in named]
            calls += sum(asked for _, asked in glances)
            for i in sorted(range(len(named)), key=lambda i: -glances[i][0])[:_LOOKED_AT]:
                late = replace(bets, naming=named[i].naming)
                least = look(named[i].policy, late)
                calls += least.oracle_calls
                if least.value > found.value:
                    found, candidate = least, (named[i].policy, late)
    certificate, asked = make_certificate(
        log,
        ledger,
        policies,
        reference=candidate[0],
        epsilon=epsilon,
        delta=delta,
        bets=candidate[1],
        model=model,
        ordered=ordered,
        reserved=reserved,
        least=found,
    )
    return certificate, calls + asked


def _glance(
    ledger: Ledger, policies: PolicyClass, named: Named, bets: Bets, found: Least, *, epsilon: float
) -> tuple[float, int]:
    """The least wealth that the experts who did best for the leader have for a named policy, one at a time."""
    own, late = named.policy(ledger.contexts), replace(bets, naming=named.naming)
    scores = [
        wealth(ledger, late, expert + len(bets), reference=own, epsilon=epsilon, log_size=policies.log_size)
        for expert in found.experts
    ]
    if isinstance(policies, EnumeratedClass):
        return least_of_all(policies, ledger.contexts, scores), 0
    return max(least_of_one(policies, ledger.contexts, score) for score in scores), len(scores)

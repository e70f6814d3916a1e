"""Policies named in advance, and which of several candidates the data speak for most clearly.

A certificate may be asked of any policy, however it was chosen, and pays for that with log|Π|. A policy that was named
before some round, and is tested by the later rounds alone, is fixed beforehand and pays almost nothing
(`pacbandits.confidence.head_start`). In return chance is no longer on its side: it is not the luckiest on the rows that
test it. On large classes that is by far the better bargain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pacbandits.certificate.bets import Bets, Naming
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.making import Evidence, make_certificate
from pacbandits.certificate.search import Least, least_again
from pacbandits.policies.base import EnumeratedClass
from pacbandits.records import Contexts, Policy

MAX_NAMES_GLANCED_AT = 6  # the latest
MAX_NAMES_LOOKED_AT = 2  # the most promising of these


class Named(NamedTuple):
    """A policy that was named in advance.

    policy: which one.
    naming: when.
    """

    policy: Policy
    naming: Naming


def with_name(named: Sequence[Named], policy: Policy, contexts: Contexts, *, round_number: int) -> tuple[Named, ...]:
    """One more policy named before the given round (from 0), unless one that acts alike on the contexts was already.

    contexts: known before that round.
    """
    actions = policy(contexts)
    if any(np.array_equal(one.policy(contexts), actions) for one in named):
        return tuple(named)
    return (*named, Named(policy, Naming(round_number, len(named) + 1)))


def best_certificate(
    evidence: Evidence, *, leader: Policy, named: Sequence[Named], bets: Bets
) -> tuple[Certificate, int]:
    """The certificate of the policy, the leader or one that was named, with most to show; and oracle calls.

    leader: the best policy by all data. bets: without a naming. Where half of δ was kept for the named, the latest of
    them are glanced at unless the leader is certified anyway, and the most promising looked at as closely as it is.
    """
    if not evidence.reserved:
        return make_certificate(evidence, leader, bets)
    best = _look(evidence, leader, bets)
    calls = best.least.oracle_calls
    if best.least.value < evidence.needed(bets):
        experts = best.least.experts
        promising, asked = _most_promising(evidence, named[-MAX_NAMES_GLANCED_AT:], bets, experts)
        others = [_look_at_named(evidence, one, bets, experts) for one in promising]
        best = min([best, *others], key=lambda candidate: candidate.reach)
        calls += asked + sum(other.least.oracle_calls for other in others)
    certificate, more = make_certificate(evidence, best.policy, best.bets, least=best.least)
    return certificate, calls + more


class _Candidate(NamedTuple):
    """A policy that may be certified.

    policy: which one.
    bets: for it.
    least: what they left of its least refuted rival.
    reach: the ε that they would seem to certify.
    """

    policy: Policy
    bets: Bets
    least: Least
    reach: float


def _look(evidence: Evidence, policy: Policy, bets: Bets, experts: Sequence[int] | None = None) -> _Candidate:
    """What the bets, or these experts of them, have to show for a policy."""
    least = evidence.find_least(bets, reference=policy(evidence.ledger.contexts), experts=experts)
    return _Candidate(policy, bets, least, _reach(evidence, bets, least.experts, least.value))


def _look_at_named(evidence: Evidence, named: Named, bets: Bets, experts: Sequence[int]) -> _Candidate:
    """What these experts have to show for a policy that was named, and those who wait for the naming.

    Of the latter those who otherwise stake as these do, or one step more or less.
    """
    near = {k + step for k in experts for step in (-1, 0, 1)} & set(range(len(bets)))
    waiting = [len(bets) + k for k in sorted(near)]
    return _look(evidence, named.policy, replace(bets, naming=named.naming), (*experts, *waiting))


def _most_promising(
    evidence: Evidence, named: Sequence[Named], bets: Bets, experts: Sequence[int]
) -> tuple[list[Named], int]:
    """The names of which these experts, when they wait for the naming, would seem to certify most; and oracle calls."""
    order = sorted(named, key=lambda one: _glance(evidence, one, bets, experts))
    calls = 0 if isinstance(evidence.policies, EnumeratedClass) else len(experts) * len(named)
    return order[:MAX_NAMES_LOOKED_AT], calls


def _glance(evidence: Evidence, named: Named, bets: Bets, experts: Sequence[int]) -> float:
    """The ε that these experts, when they wait for the naming, would seem to certify of a policy, one at a time."""
    policies, contexts = evidence.policies, evidence.ledger.contexts
    own, late = named.policy(contexts), replace(bets, naming=named.naming)
    reaches: list[float] = []
    for expert in (len(bets) + k for k in experts):
        value = least_again(policies, contexts, [evidence.wealth(late, expert, reference=own)])
        reaches.append(_reach(evidence, late, [expert], value))
    return min(reaches)


def _reach(evidence: Evidence, bets: Bets, experts: Sequence[int], value: float) -> float:
    """About the ε at which this log-wealth would be what is needed; at most the ε asked for if nothing is missing."""
    slope, missing = evidence.slope(bets, experts), evidence.needed(bets) - value
    return evidence.epsilon + missing / slope if slope > 0 else np.inf

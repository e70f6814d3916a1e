"""Whether a certificate is the one that a sealed record comes to: its stakes, models, leaders, ε and part of δ."""

from __future__ import annotations

from math import comb
from typing import cast

import numpy as np

from pacbandits.algorithms import make_algorithm
from pacbandits.arrays import as_read
from pacbandits.certificate.bets import CAP_SHARE
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.leaders import LOTTERY_MOVING, SINGLE_MOVING
from pacbandits.experiment.rounds import Round
from pacbandits.experiment.sealed_terms import Terms
from pacbandits.policies.registry import digest_class
from pacbandits.policies.without import without
from pacbandits.records import Log, RewardBounds
from pacbandits.trials.protocol import Setting
from pacbandits.trials.trial import EXPERT_MULTIPLIERS, LEADERS_MULTIPLIERS, Trial


def wrong_certificate(log: Log, terms: Terms, certificate: Certificate) -> list[str]:
    """Why a certificate of a trial is not what the rounds of its record come to; log: the rows that it is of."""
    c, faults = certificate, list[str]()
    n, k = terms.policies.n_actions, len(terms.withdrawn)
    part = 0.9 if k == 0 else 0.1 * 0.5**k / comb(n, k)
    low, high = terms.reward_range
    if not abs(c.delta - part * terms.protocol.number("delta")) <= 1e-12:
        faults.append(
            f"the certificate is at delta {c.delta:g}, and {part:g} of the protocol's is what there is for it"
        )
    if not abs(c.unit_epsilon - terms.protocol.number("epsilon") / (high - low)) <= 1e-12:
        faults.append("the certificate is at another epsilon than the protocol's")
    policies = without(terms.policies, terms.withdrawn) if k else terms.policies
    if digest_class(policies) != c.class_digest:
        faults.append("the certificate is of another policy class than the protocol's")
    people = terms.protocol.fields("contexts", of="contexts of the protocol")
    spec = terms.protocol.fields("policies", of="class of the protocol")["spec"]
    learnt = (spec, people["size"], people["digest"], 0)
    if (of := c.learning) is not None and (of.spec, of.contexts, of.digest, of.spared) != learnt:
        faults.append("the certificate says that its class was learnt otherwise than the protocol says")
    played = [terms.rounds[int(number)] for number in np.unique(log.rounds)]
    multipliers = EXPERT_MULTIPLIERS if c.leaders is None else LEADERS_MULTIPLIERS
    if tuple(one.scale for one in played) != c.bets.scales:
        faults.append("the certificate stakes other than was written down")
    if (c.bets.multipliers, c.bets.share, c.bets.spared) != (multipliers, CAP_SHARE, 0):
        faults.append("the experts of the certificate are not those of every trial")
    if any(as_read(c.model) != as_read(one.model) for one in played):
        faults.append("the certificate predicts by another model than was written down")
    return [*faults, *_wrong_leaders(terms, c, played)]


def _wrong_leaders(terms: Terms, c: Certificate, played: list[Round]) -> list[str]:
    """Whether others lead than was written down, or move weight otherwise than the protocol's algorithm does."""
    if c.leaders is None:
        return []
    faults, leaders = list[str](), c.leaders
    setting = Setting(terms.policies, c.unit_epsilon, c.delta, RewardBounds())
    trial = cast(Trial, make_algorithm(terms.protocol.text("algorithm"), setting))
    if leaders.moving != (SINGLE_MOVING if trial.single else LOTTERY_MOVING) or leaders.settled is not None:
        faults.append("weight moves between leaders otherwise than the protocol's algorithm says")
    if tuple(one.planned for one in played) != leaders.sizes:
        return [*faults, "rounds were planned for others than the certificate says"]
    if terms.withdrawn:  # leaders of all rounds were chosen again, as whoever relies on the claim has to assume
        return faults
    for one, turn in zip(played, leaders.turns, strict=True):
        led = None if turn < 0 else as_read(leaders.policies[turn].to_json())
        if led != (None if one.leader is None else as_read(one.leader.to_json())):
            return [*faults, "a round is led in the certificate by somebody else than was written down"]
    return faults

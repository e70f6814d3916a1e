"""Estimate how many more interactions a certificate needs, as explored so far and with the best design.

An expert with good stakes gains about 1/(2 price) nats per interaction, where the price is the largest V/d² of any
policy under the exploration: the missing log-wealth times 2 price is the number of interactions left. Under a design
that equalises the costs of many policies the unluckiest of them decides, and gaps count for less (as in `coda`); under
others they count in full. Gaps, noise and price are estimates from the log; so is the answer, to a factor of about 2,
and more often too large than too small. A single policy may have to wait until it has all the weight of others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate import Certificate, Ledger
from pacbandits.certificate.leaders import MAX_SLACK
from pacbandits.checks import instance
from pacbandits.design import Shifted, price_propensities, solve_design
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.progress import hearer, prefixed
from pacbandits.records import Log, check_log, likeliest
from pacbandits.rewards import RewardModel, check_model, model_from_json
from pacbandits.trials.coda import DEFAULT_FLOOR_SHARE, MIN_DESIGN_PRICE, Findings, gap_task, noise_share

MAX_ROWS_LOOKED_AT = 20_000  # a sample of this size estimates prices well enough
# Exponent of rows in 1/ε: 1.4 to 2.0 in tests of 2 to 10 actions, reward rates 0.5 % to 50 %, 3,000 to 30,000 rows.
ROWS_EXPONENT = 1.7
DESIGN_PRECISION = 0.1  # the relative gap to which the best design is solved


@dataclass(frozen=True)
class Outlook:
    """The estimated number of further interactions that would certify ε; 0 when nothing is missing.

    same: with propensities like those of the log; infinite if no estimate is possible.
    best: with the best design.
    """

    same: float
    best: float

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        same, best = (round(count) if math.isfinite(count) else None for count in (self.same, self.best))
        return {"more_like_these": same, "more_of_the_best_design": best}


def outlook(certificate: Certificate, log: Log, policies: PolicyClass, *, model: RewardModel | None = None) -> Outlook:
    """Estimate how many more interactions would certify the certificate's ε, above 0.

    model: for certificates whose reward model cannot be made from its description.
    """
    instance(certificate, Certificate, name="certificate")
    check_log(log)
    policies = check_class(policies)
    if model is not None:
        check_model(model)
    if certificate.certified:
        return Outlook(0.0, 0.0)
    if certificate.epsilon == 0:
        raise InputError(
            "how many more interactions would prove the best policy itself depends on gaps that may be as small as can "
            "be; ask about an epsilon above 0"
        )
    # Experts that prove a larger ε may have lost at this one the wealth that others with tiny stakes would have kept.
    begun = -np.log(len(certificate.bets))
    missing = max(certificate.threshold - max(certificate.value, begun), 0.0)
    # Where weight has still to move to a single policy, each row moves as much as it stakes.
    to_move = certificate.slack * certificate.independent if certificate.slack > MAX_SLACK else 0.0
    made = model_from_json(certificate.model) if model is None else model
    informed = log.rows_in()
    if informed is None:
        return Outlook(np.inf, np.inf)
    part = _sampled(informed)
    fitted = made.fit(informed)
    ledger = Ledger.of(part, fitted.predict(part.contexts))
    mixed = _mixture(part, ledger)
    epsilon = certificate.unit_epsilon
    uniform_price = policies.n_actions / (2.0 * epsilon**2)
    findings = Findings(ledger, None, mixed, likeliest(certificate.policy), fitted, uniform_price)
    best_task = gap_task(findings, policies, epsilon=epsilon, floor=DEFAULT_FLOOR_SHARE)
    same_task = replace(
        gap_task(findings, policies, epsilon=epsilon, floor=0.0, standard_errors=0.0), scale=Shifted(epsilon, 1.0)
    )
    # An action that was never possible would have infinite cost; a small probability is as good.
    same = max(price_propensities(same_task, np.maximum(mixed, 1e-9)).upper, MIN_DESIGN_PRICE)
    heard = hearer()
    progress = None if heard is None else prefixed(heard[0], "the best design")
    solved = solve_design(best_task, tolerance=DESIGN_PRECISION, progress=progress)
    best = min(max(solved.upper, MIN_DESIGN_PRICE), same)
    nats = 2.0 * missing * noise_share(ledger)
    return Outlook(max(nats * same, to_move), max(nats * best, to_move))


def look_ahead(certificate: Certificate, log: Log, policies: PolicyClass) -> tuple[float, Outlook]:
    """Return the ε to prove next, and how many more interactions that would take.

    It is the ε that was asked for, if that is not proven; else, or if that is 0, the next round number below the
    certified ε. Where the log certifies some ε, its decrease with rows predicts more than prices do: leaders improve,
    and rivals are outlasted at a rate that no price captures. Prices then only give the ratio for the best design.
    """
    lacking = certificate.epsilon > 0 and not certificate.certified
    target = certificate.epsilon if lacking else round_below(certificate.certified_epsilon)
    priced = outlook(at_distance(certificate, target), log, policies)
    if not target < certificate.certified_epsilon < certificate.unit:
        return target, priced if certificate.certified_epsilon < certificate.unit else Outlook(np.inf, np.inf)
    more = certificate.independent * ((certificate.certified_epsilon / target) ** ROWS_EXPONENT - 1.0)
    return target, Outlook(more, more * float(priced.best / priced.same if priced.same > 0 else 1.0))


def round_below(value: float) -> float:
    """Return the largest of 1, 2 or 5 times a power of ten that is at most three quarters of a number."""
    power = 10.0 ** np.floor(np.log10(0.75 * value))
    return float(max(step * power for step in (1.0, 2.0, 5.0) if step * power <= 0.75 * value))


def at_distance(certificate: Certificate, epsilon: float) -> Certificate:
    """Approximate a certificate at a smaller ε: its wealth rises with ε by the total stake."""
    c = certificate
    stakes = np.mean([c.bets.stakes(k).mean() for k in c.experts]) * c.independent
    less = (c.unit_certified_epsilon - epsilon / c.unit) * float(stakes)
    return replace(c, epsilon=epsilon, value=c.threshold - max(less, 0.0))


def _sampled(log: Log) -> Log:
    """Return the log, or evenly spaced rows of it; units are ignored."""
    if len(log) <= MAX_ROWS_LOOKED_AT:
        return log
    return log.take(np.linspace(0, len(log) - 1, MAX_ROWS_LOOKED_AT).astype(np.int64))


def _mixture(log: Log, ledger: Ledger) -> FloatArray:
    """Return the propensities (m, A) of each context, averaged over rounds; per action alone if the log has no more."""
    if log.least is None:
        return ledger.mean_propensities
    rows = ledger.rows
    counts = np.bincount(rows.actions, weights=rows.repeats, minlength=log.n_actions)
    inverse = np.bincount(rows.actions, weights=rows.repeats / rows.played, minlength=log.n_actions)
    means = np.divide(counts, inverse, out=np.zeros(log.n_actions), where=counts > 0)
    return np.tile(means, (len(ledger.contexts), 1))

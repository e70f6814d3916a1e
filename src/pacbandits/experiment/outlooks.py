"""How far an experiment still has to go: people, days, and what a plain trial would take."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate import Certificate, Ledger
from pacbandits.design import Shifted, price_propensities
from pacbandits.experiment.rules import Forecast
from pacbandits.fields import Json
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Log, likeliest
from pacbandits.rewards import model_from_json
from pacbandits.trials.exploration import Findings, gap_task
from pacbandits.trials.forecast import MAX_ROWS_LOOKED_AT, look_ahead

MIN_TRAFFIC_SECONDS, MIN_TRAFFIC_ROWS = 60.0, 10  # before which nobody knows how many come a day
TRAFFIC_SECONDS = 7 * 86_400.0  # that the traffic is told by: the last week, as days of the week differ
LEAST_PROPENSITY = 1e-9  # in place of 0, so that prices are numbers


@dataclass(frozen=True)
class ToGo:
    """What is still missing to the ε that was asked for, as estimated: right to a factor of 2 or so.

    samples: how many more people; None where too little is known to say.
    days: how many days these take, as people came of late; None likewise.
    plain_trial: how many people a plain randomised trial would take in all; None likewise.
    plan: what was foretold.
    """

    samples: int | None
    days: float | None
    plain_trial: int | None
    plan: Forecast | None

    def to_json(self) -> Json:
        """As what JSON knows."""
        plan = None if self.plan is None else self.plan.to_json()
        return {"samples": self.samples, "days": self.days, "plain_trial": self.plain_trial, "plan": plan}


def look_forward(
    certificate: Certificate | None,
    log: Log | None,
    policies: PolicyClass,
    *,
    a_day: float | None,
    plan: Forecast | None,
) -> ToGo | None:
    """What is still missing, by a log; a_day: how many people come a day. None where nothing at all is known.

    How many a plain trial would take is by how much its price, V/d² of the policy that it serves worst, exceeds that of
    all that was played.
    """
    seen = None if log is None else log.rows_in()
    if certificate is None or seen is None:
        foretold = None if plan is None or plan.plain_trial is None else round(plan.plain_trial)
        return None if plan is None else ToGo(None, None, foretold, plan)
    more = 0.0 if certificate.certified else float(look_ahead(certificate, seen, policies)[1].same)
    if not math.isfinite(more):
        return ToGo(None, None, None, plan)
    times = _plain_price(certificate, seen, policies)
    whole = (certificate.independent + more) * times
    return ToGo(
        round(more),
        None if a_day is None else more / a_day,
        round(whole) if math.isfinite(whole) else None,
        plan,
    )


def people_a_day(at: IntArray, *, now: int) -> float | None:
    """How many came a day of late; at (n,): when each did, in microseconds, in order. None where that is not known."""
    if len(at) < MIN_TRAFFIC_ROWS:
        return None
    since = max(int(at[0]), now - round(TRAFFIC_SECONDS * 1e6))
    seconds = (now - since) / 1e6
    count = int(len(at) - np.searchsorted(at, since))
    if seconds < MIN_TRAFFIC_SECONDS or count == 0:
        return None
    return count / seconds * 86_400.0


def _plain_price(certificate: Certificate, seen: Log, policies: PolicyClass) -> float:
    """How many times the price of what was played uniform exploration has."""
    rows = np.linspace(0, len(seen) - 1, MAX_ROWS_LOOKED_AT).astype(np.int64)
    part = seen if len(seen) <= MAX_ROWS_LOOKED_AT else seen.take(rows)
    fitted = model_from_json(certificate.model).fit(part)
    ledger = Ledger.of(part, fitted.predict(part.contexts))
    played, epsilon, n = ledger.mean_propensities, certificate.unit_epsilon, policies.n_actions
    findings = Findings(ledger, None, played, likeliest(certificate.policy), fitted, n / (2.0 * epsilon**2))
    task = gap_task(findings, policies, epsilon=epsilon, floor=0.0, standard_errors=0.0)
    task = replace(task, scale=Shifted(epsilon, 1.0))
    gone = policies.withdrawn
    even: FloatArray = np.ones(played.shape)
    even[:, list(gone)] = 0.0
    even /= even.sum(axis=1, keepdims=True)
    plain, same = (price_propensities(task, np.maximum(p, LEAST_PROPENSITY)).upper for p in (even, played))
    return float(plain / same) if same > 0 else math.inf

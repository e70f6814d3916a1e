"""How many more interactions a certificate needs: with exploration as it was, and with the best there is.

An expert that stakes well gains about 1/(2 price) nats an interaction, where the price is V/d² of the policy that the
exploration serves worst, so what is missing to the threshold times 2 price is what is still to be played. Under a
design that serves many policies equally badly the unluckiest of them decides, and gaps count for less (as in `coda`);
under others they count in full. Gaps, noise and price are estimates from the log; so is the answer, to a factor of 2 or
so, and rather too large than too small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate import Certificate, Ledger
from pacbandits.design import Shifted, price_propensities, solve_design
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Log
from pacbandits.rewards import RewardModel, model_from_json
from pacbandits.trials.coda import DOUBT, FLOOR, LEAST_PRICE, gap_task

_MOST_CONTEXTS = 20_000  # a sample of them tells prices well enough
_PRECISION = 0.1


@dataclass(frozen=True)
class Outlook:
    """same, best: about how many more interactions would certify ε, with the log's propensities or the best design.

    Both are 0 when nothing is missing.
    """

    same: float
    best: float

    def to_json(self) -> dict[str, Any]:
        """As what JSON knows."""
        return {"more_like_these": round(self.same), "more_of_the_best_design": round(self.best)}


def outlook(certificate: Certificate, log: Log, policies: PolicyClass, *, model: RewardModel | None = None) -> Outlook:
    """What is still missing to a certificate at its ε.

    model: for certificates whose own cannot be made from its description.
    """
    missing = certificate.threshold - certificate.value
    if certificate.certified or missing <= 0:
        return Outlook(0.0, 0.0)
    made = model_from_json(certificate.model) if model is None else model
    part = _sampled(log)
    fitted = made.fit(log)
    ledger = Ledger.of(part, fitted.predict(part.contexts))
    mixed = _mixture(part, ledger)
    task, plain = (
        gap_task(
            ledger,
            policies,
            None,
            mixed=mixed,
            reference=certificate.policy,
            fitted=fitted,
            epsilon=certificate.epsilon,
            price=policies.n_actions / (2.0 * certificate.epsilon**2),
            floor=FLOOR,
            doubt=doubt,
        )
        for doubt in (DOUBT, 0.0)
    )
    plain = replace(plain, scale=Shifted(certificate.epsilon, 1.0), floor=0.0)
    # An action that was never possible would cost infinitely many; a small probability says as much.
    same = max(price_propensities(plain, np.maximum(mixed, 1e-9)).upper, LEAST_PRICE)
    best = min(max(solve_design(task, tolerance=_PRECISION).upper, LEAST_PRICE), same)
    return Outlook(2.0 * missing * same, 2.0 * missing * best)


def _sampled(log: Log) -> Log:
    """The log, or rows evenly taken from it."""
    if len(log) <= _MOST_CONTEXTS:
        return log
    return log.take(np.linspace(0, len(log) - 1, _MOST_CONTEXTS).astype(np.int64))


def _mixture(log: Log, ledger: Ledger) -> FloatArray:
    """The propensities (m, A) of each context, rounds taken together; of each action alone where a log has no more."""
    if log.least is not None:
        counts = np.bincount(ledger.rows.actions, weights=ledger.rows.repeats, minlength=log.n_actions)
        inverse = np.bincount(
            ledger.rows.actions, weights=ledger.rows.repeats / ledger.rows.played, minlength=log.n_actions
        )
        means = np.divide(counts, inverse, out=np.zeros(log.n_actions), where=counts > 0)
        return np.tile(means, (len(ledger.contexts), 1))
    weights = np.add.reduceat(ledger.rows.repeats, ledger.rows.starts[:-1])
    return (
        np.add.reduceat(ledger.rows.repeats[:, None] * ledger.rows.propensities, ledger.rows.starts[:-1])
        / weights[:, None]
    )

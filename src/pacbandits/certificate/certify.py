"""Certify anyone's log: nothing is needed of the algorithm that collected it but its propensities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pacbandits.certificate.bets import Bets
from pacbandits.certificate.certificate import Certificate, make_certificate
from pacbandits.certificate.ledger import Ledger
from pacbandits.errors import InputError, IntArray, check_delta
from pacbandits.estimators.models import RewardModel, default_model, predict_by_round
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Log

# Bets fixed in advance, as nothing is known of the design: from one that suits a trial of two actions to one that suits
# rare actions and small gaps.
STAKES = tuple(0.4 * 0.5**j for j in range(10))
_FIRST_BLOCK = 1.0 / 64.0  # of the log; blocks double from there


def certify(
    log: Log, policies: PolicyClass, *, epsilon: float, delta: float, model: RewardModel | None = None
) -> Certificate:
    """What the log proves of the policy it favours.

    A log of a single round is cut into blocks, in its order: the first 64th, then as much again as before, and so on.
    The reward model of a block is fitted on the earlier ones.
    """
    if not 0 < epsilon < float("inf"):
        raise InputError(f"epsilon must be positive and finite, got {epsilon}")
    check_delta(delta)
    if log.n_actions != policies.n_actions:
        raise InputError(f"the log has {log.n_actions} actions, but the policies have {policies.n_actions}")
    blocks = in_blocks(log)
    used = default_model(log.contexts) if model is None else model
    ledger = Ledger.of(blocks, predict_by_round(blocks, used))
    best = policies.argmax(ledger.contexts, _cautious_values(ledger, policies, epsilon=epsilon))
    certificate, _ = make_certificate(
        blocks,
        ledger,
        policies,
        reference=best,
        epsilon=epsilon,
        delta=delta,
        bets=Bets(STAKES, (1.0,) * ledger.n_rounds),
        model=used.to_json(),
    )
    return certificate


def in_blocks(log: Log) -> Log:
    """The log itself if it has rounds, else with its rows numbered by block."""
    if len(np.unique(log.rounds)) > 1:
        return log
    share = (np.cumsum(log.repeats) - log.repeats) / log.samples
    blocks: IntArray = np.where(share < _FIRST_BLOCK, 0, 1 + np.floor(np.log2(np.maximum(share, _FIRST_BLOCK)) + 6))
    return replace(log, rounds=blocks.astype(np.int64))


def _cautious_values(ledger: Ledger, policies: PolicyClass, *, epsilon: float) -> np.ndarray:
    """Scores (m, A): the value a policy seems to have, less a standard error (see `Ledger.gaps`)."""
    weights = np.add.reduceat(ledger.repeats, ledger.starts[:-1])
    mixed = np.add.reduceat(ledger.repeats[:, None] * ledger.propensities, ledger.starts[:-1]) / weights[:, None]
    first = policies.argmax(ledger.contexts, ledger.values(np.ones(ledger.n_rounds)))
    gaps, squares = ledger.gaps(mixed, reference=first(ledger.contexts))
    return -gaps - squares / (2.0 * epsilon)

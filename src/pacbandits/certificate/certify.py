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
_FIRST_BLOCK = 256  # rows; a log grows, so blocks must not depend on where it ends


def certify(
    log: Log,
    policies: PolicyClass,
    *,
    epsilon: float,
    delta: float,
    model: RewardModel | None = None,
    ordered: bool = False,
) -> Certificate:
    """What the log proves of the policy it favours.

    The reward model of a round is fitted on the earlier ones, so a log of a single round goes without. When its rows
    are known to stand in the order in which they occurred, say so (`ordered`): it is then cut into blocks, the first
    256 rows, then as many again as before, and so on. The order matters: in a log sorted by its rewards the model of a
    block would see what it should predict. (Rows independent of each other may be shuffled, and are then in order.)
    """
    if not 0 < epsilon < float("inf"):
        raise InputError(f"epsilon must be positive and finite, got {epsilon}")
    check_delta(delta)
    if log.n_actions != policies.n_actions:
        raise InputError(f"the log has {log.n_actions} actions, but the policies have {policies.n_actions}")
    blocks = in_blocks(log) if ordered else log
    first = np.flatnonzero(blocks.rounds == blocks.rounds.min())
    used = default_model(blocks.contexts.take(first)) if model is None else model
    ledger = Ledger.of(blocks, predict_by_round(blocks, used))
    best = policies.argmax(
        ledger.contexts, _cautious_values(ledger, policies, epsilon=epsilon, known=blocks.least is None)
    )
    certificate, _ = make_certificate(
        blocks,
        ledger,
        policies,
        reference=best,
        epsilon=epsilon,
        delta=delta,
        bets=Bets(STAKES, (1.0,) * ledger.n_rounds),
        model=used.to_json(),
        ordered=blocks is not log,
    )
    return certificate


def in_blocks(log: Log) -> Log:
    """The log itself if it has rounds, else with its rows, in their order, numbered by block."""
    if len(np.unique(log.rounds)) > 1:
        return log
    if log.repeats.max() > 1:
        raise InputError(
            "the log counts repeated interactions, so its rows cannot stand in the order in which they occurred; "
            "certify it without that assumption"
        )
    doublings = np.log2(np.maximum(np.arange(len(log)) // _FIRST_BLOCK, 0.5))
    blocks: IntArray = (np.floor(doublings) + 1).astype(np.int64)
    return replace(log, rounds=blocks)


def _cautious_values(ledger: Ledger, policies: PolicyClass, *, epsilon: float, known: bool) -> np.ndarray:
    """Scores (m, A): the value a policy seems to have, less a standard error (see `Ledger.gaps`).

    known: whether the ledger has the propensities of all actions.
    """
    weights = np.add.reduceat(ledger.repeats, ledger.starts[:-1])
    if known:
        mixed = np.add.reduceat(ledger.repeats[:, None] * ledger.propensities, ledger.starts[:-1]) / weights[:, None]
    else:
        mixed = _harmonic(ledger)
    first = policies.argmax(ledger.contexts, ledger.values(np.ones(ledger.n_rounds)))
    gaps, squares = ledger.gaps(mixed, reference=first(ledger.contexts))
    return -gaps - squares / (2.0 * epsilon)


def _harmonic(ledger: Ledger) -> np.ndarray:
    """The harmonic mean (m, A) of an action's propensities in the rows that played it, 1 where none did.

    Weights 1/p of these rows then add up to what they are.
    """
    context = np.repeat(np.arange(len(ledger.contexts)), np.diff(ledger.starts))
    counts, inverse = (np.zeros((len(ledger.contexts), ledger.propensities.shape[1])) for _ in range(2))
    np.add.at(counts, (context, ledger.actions), ledger.repeats)
    np.add.at(inverse, (context, ledger.actions), ledger.repeats / ledger.played)
    return np.divide(counts, inverse, out=np.ones_like(counts), where=counts > 0)

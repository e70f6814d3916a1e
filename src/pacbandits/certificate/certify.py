"""Certify anyone's log: nothing is needed of the algorithm that collected it but its propensities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.bets import Bets
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.claim import LEARNT
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.making import Evidence
from pacbandits.certificate.named import Named, best_certificate, with_name, worth_naming
from pacbandits.confidence import check_delta
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Log, Policy
from pacbandits.rewards import RewardModel, default_model, predict_by_round

# Bets fixed in advance, as nothing is known of the design: from one that suits a trial of two actions to one that suits
# rare actions and small gaps.
STAKES = tuple(0.4 * 0.5**j for j in range(10))
_FIRST_BLOCK = 256  # rows; a log grows, so blocks must not depend on where it ends
# A policy is named when the data have grown by this factor since the last time, at first when there is a block of them.
_GROWTH = 1.5
_SOME_EPSILON = 0.05  # by which names are chosen


def certify(
    log: Log,
    policies: PolicyClass,
    *,
    epsilon: float,
    delta: float,
    model: RewardModel | None = None,
    ordered: bool = False,
    learnt: bool = False,
) -> Certificate:
    """What the log proves of the policy it favours.

    log: what was seen and done, with propensities.
    policies: the class to search.
    epsilon, delta: how near to the best, and with what probability of being wrong.
    model: the reward model, if not one that suits the contexts.
    ordered: whether the rows stand in the order in which they occurred.
    learnt: whether the class was learnt from the contexts of this very log, which the certificate then says.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("two-of-many:actions=6,policies=40")
    >>> log = pb.run(problem, algorithm="uniform", epsilon=0.2, delta=0.05, rng=1).log  # or anyone's, by read_log
    >>> certificate = pb.certify(log, problem.policies, epsilon=0.3, delta=0.05)
    >>> certificate.describe()
    'except with probability 0.05 the policy is within 0.3 of the best of its class'

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
    predictions = predict_by_round(blocks, used)
    ledger = Ledger.of(blocks, predictions)
    # Half of δ is kept also with a single round: more may follow, and all looks together must err no more often than δ.
    evidence = Evidence(
        blocks,
        ledger,
        policies,
        epsilon,
        delta,
        model=used.to_json(),
        ordered=blocks is not log,
        reserved=worth_naming(policies),
    )
    certificate, _ = best_certificate(
        evidence,
        leader=_leader(ledger, policies, epsilon=epsilon, known=blocks.least is None),
        named=_named(blocks, predictions, policies) if evidence.reserved else (),
        bets=Bets(STAKES, (1.0,) * ledger.n_rounds),
    )
    return certificate.with_remarks(LEARNT) if learnt else certificate


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


def _named(log: Log, predictions: FloatArray, policies: PolicyClass) -> tuple[Named, ...]:
    """The leaders of growing parts of a log, each named before the round that follows.

    They are the same for every ε that is asked for: so the certificates of all of them hold together.
    """
    rounds = np.unique(log.rounds)
    ends = np.cumsum([log.repeats[log.rounds == number].sum() for number in rounds])
    named: tuple[Named, ...] = ()
    last = _FIRST_BLOCK / _GROWTH
    for i in range(1, len(rounds)):
        if ends[i - 1] < _GROWTH * last:
            continue
        last = ends[i - 1]
        before = np.flatnonzero(log.rounds < rounds[i])
        part = log.take(before)
        ledger = Ledger.of(part, predictions[before])
        leader = _leader(ledger, policies, epsilon=_SOME_EPSILON, known=log.least is None)
        named = with_name(named, leader, part.contexts, round_number=i)
    return named


def _leader(ledger: Ledger, policies: PolicyClass, *, epsilon: float, known: bool) -> Policy:
    """The policy of largest value, less a standard error (see `Ledger.gaps`).

    known: whether the ledger has the propensities of all actions.
    """
    weights = np.add.reduceat(ledger.repeats, ledger.starts[:-1])
    if known:
        mixed = np.add.reduceat(ledger.repeats[:, None] * ledger.propensities, ledger.starts[:-1]) / weights[:, None]
    else:
        mixed = _harmonic(ledger)
    first = policies.argmax(ledger.contexts, ledger.values(np.ones(ledger.n_rounds)))
    gaps, squares = ledger.gaps(mixed, reference=first(ledger.contexts))
    return policies.argmax(ledger.contexts, -gaps - squares / (2.0 * epsilon))


def _harmonic(ledger: Ledger) -> np.ndarray:
    """The harmonic mean (m, A) of an action's propensities in the rows that played it, 1 where none did.

    Weights 1/p of these rows then add up to what they are.
    """
    context = np.repeat(np.arange(len(ledger.contexts)), np.diff(ledger.starts))
    counts, inverse = (np.zeros((len(ledger.contexts), ledger.propensities.shape[1])) for _ in range(2))
    np.add.at(counts, (context, ledger.actions), ledger.repeats)
    np.add.at(inverse, (context, ledger.actions), ledger.repeats / ledger.played)
    return np.divide(counts, inverse, out=np.ones_like(counts), where=counts > 0)

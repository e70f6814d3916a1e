"""The policy that a log favours, and those that it favoured while it grew.

A policy that relies on rare actions often looks best by luck. So the leader is the policy of largest estimated value
less about one standard error. A standard error √v is no sum over contexts, but at most (v/ε + ε)/2, which is one.
"""

from __future__ import annotations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.conventions import FIRST_BLOCK_ROWS
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.named import Named, with_name
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Log, Policy

NAMING_GROWTH_FACTOR = 1.5  # by which the data have grown since the last time when a policy is named again
NAMING_EPSILON = 0.05  # by which leaders that are named are chosen, the same whatever ε is to be certified


def find_leader(ledger: Ledger, policies: PolicyClass, *, epsilon: float, all_propensities: bool) -> Policy:
    """The leader by a ledger.

    all_propensities: whether the ledger has the propensities of all actions, or of played ones alone.
    """
    scores = leader_scores(ledger, policies, epsilon=epsilon, all_propensities=all_propensities)
    return policies.argmax(ledger.contexts, scores)


def leader_scores(
    ledger: Ledger, policies: PolicyClass, *, epsilon: float = NAMING_EPSILON, all_propensities: bool
) -> FloatArray:
    """Scores (m, A) that the leader by a ledger maximises: its estimated value, less about one standard error."""
    mixture = ledger.mean_propensities if all_propensities else _harmonic_propensities(ledger)
    first = policies.argmax(ledger.contexts, ledger.values(np.ones(ledger.n_rounds)))
    gaps, squares = ledger.gaps(mixture, reference=first(ledger.contexts))
    return marked_down(gaps, squares, epsilon=epsilon)


def least_gap(
    policies: PolicyClass, contexts: Contexts, gaps: FloatArray, squares: FloatArray, *, epsilon: float
) -> Policy:
    """The policy of least gap and error together; gaps, squares (m, A): scores that sum to Δ̂(π) and its error's v."""
    return policies.argmax(contexts, marked_down(gaps, squares, epsilon=epsilon))


def marked_down(gaps: FloatArray, squares: FloatArray, *, epsilon: float) -> FloatArray:
    """Scores (m, A) that are larger the smaller gap and error are together."""
    return -gaps - squares / (2.0 * epsilon)


def name_leaders(log: Log, predictions: FloatArray, policies: PolicyClass) -> tuple[Named, ...]:
    """The leaders of growing parts of a log, each named before the round that follows, the first after a block of rows.

    They are the same for every ε that is asked for: so the certificates of all of them hold together.
    """
    rounds = np.unique(log.rounds)
    ends = np.cumsum([log.repeats[log.rounds == number].sum() for number in rounds])
    named: tuple[Named, ...] = ()
    last = FIRST_BLOCK_ROWS / NAMING_GROWTH_FACTOR
    for i in range(1, len(rounds)):
        if ends[i - 1] < NAMING_GROWTH_FACTOR * last:
            continue
        last = ends[i - 1]
        part, ledger = part_before(log, predictions, i)
        leader = find_leader(ledger, policies, epsilon=NAMING_EPSILON, all_propensities=log.least is None)
        named = with_name(named, leader, part.contexts, round_number=i)
    return named


def part_before(log: Log, predictions: FloatArray, number: int) -> tuple[Log, Ledger]:
    """The rows of a log that came before its round of this number, from 0; and the same laid out."""
    before = np.flatnonzero(log.rounds < np.unique(log.rounds)[number])
    part = log.take(before)
    return part, Ledger.of(part, predictions[before])


def _harmonic_propensities(ledger: Ledger) -> FloatArray:
    """The harmonic mean (m, A) of an action's propensities in the rows that played it, 1 where none did.

    Weights 1/p of these rows then add up to what they are.
    """
    rows = ledger.rows
    context = np.repeat(np.arange(len(ledger.contexts)), np.diff(rows.starts))
    counts, inverse = (np.zeros((len(ledger.contexts), ledger.n_actions)) for _ in range(2))
    np.add.at(counts, (context, rows.actions), rows.repeats)
    np.add.at(inverse, (context, rows.actions), rows.repeats / rows.played)
    return np.divide(counts, inverse, out=np.ones_like(counts), where=counts > 0)

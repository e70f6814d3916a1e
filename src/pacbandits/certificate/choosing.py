"""The favourite policy of a log, and the choice of leaders while it grows.

A policy that relies on rare actions often looks best by chance. So the favourite is the policy of largest estimated
value less about one standard error. A standard error √v is no sum over contexts, but at most (v/ε + ε)/2, which is one.

A leader is replaced only by a policy that seems better by a relevant amount, and if all weight has to end at one policy
only by one that seems clearly better: comparing the two costs more than a small difference is worth.

Of very many policies some look good by chance. So the size of a leader that will stay is chosen by cross-validation: of
nested classes (one action for everybody, trees of one question, of two) a larger one is used if on held-out rows its
best policies gain more than one standard error over those of the simpler one. The leader is the favourite in the class
that was found. A class without simpler ones within it is pruned instead: the leader is the simplest policy that the
data so far cannot distinguish from the favourite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.conventions import (
    DOUBT_STANDARD_ERRORS,
    FIRST_BLOCK_ROWS,
    FOLDS,
    GROWING_STANDARD_ERRORS,
    LEADING_GROWTH_FACTOR,
    MAX_CHOOSING_EPSILON,
    MIN_ADVANTAGE_EPSILONS,
    MIN_CHOOSING_EPSILON,
    MIN_CLEAR_ADVANTAGE_EPSILONS,
    MIN_CLEAR_ADVANTAGE_STANDARD_ERRORS,
)
from pacbandits.certificate.leaders import MIXTURE_MOVING, SINGLE_MOVING, Leaders
from pacbandits.certificate.ledger import Ledger
from pacbandits.policies.base import PolicyClass, total
from pacbandits.records import Contexts, Log, Policy
from pacbandits.records.log import number_units

ROWS_LOST_PER_AWAITED = 2.0  # times the number of actions over ε: the cost in rows of a pending reward


def find_favourite(ledger: Ledger, policies: PolicyClass, *, epsilon: float | None, all_propensities: bool) -> Policy:
    """Return the favourite by a ledger.

    epsilon: the scale of the penalty for errors; None for about their own size. all_propensities: whether the ledger
    has the propensities of all actions, or of played ones alone.
    """
    if epsilon is None:
        return policies.argmax(
            ledger.contexts, favourite_scores(ledger, policies, all_propensities=all_propensities)[0]
        )
    gaps, squares = _gaps_to_first(ledger, policies, all_propensities=all_propensities)
    return policies.argmax(ledger.contexts, marked_down(gaps, squares, epsilon=epsilon))


def favourite_scores(ledger: Ledger, policies: PolicyClass, *, all_propensities: bool) -> tuple[FloatArray, float]:
    """Return scores (m, A) that the favourite by a ledger maximises: estimated value less about one standard error.

    Also return ε, the scale of the penalty: about the error of the gap of a policy that always takes the same action.
    """
    gaps, squares = _gaps_to_first(ledger, policies, all_propensities=all_propensities)
    typical = float(np.sqrt(squares.sum(axis=0).mean()))
    epsilon = min(max(typical, MIN_CHOOSING_EPSILON), MAX_CHOOSING_EPSILON)
    return marked_down(gaps, squares, epsilon=epsilon), epsilon


def _gaps_to_first(ledger: Ledger, policies: PolicyClass, *, all_propensities: bool) -> tuple[FloatArray, FloatArray]:
    """Return scores (m, A) that sum to a policy's gap to the one that seems best, and to the square of its error."""
    mixture = mixed_propensities(ledger, all_propensities=all_propensities)
    first = policies.argmax(ledger.contexts, ledger.values(np.ones(ledger.n_rounds)))
    return ledger.gaps(mixture, reference=first(ledger.contexts))


def mixed_propensities(ledger: Ledger, *, all_propensities: bool) -> FloatArray:
    """Return the mean propensities (m, A) of each context over all rounds; harmonic means if not all are known."""
    return ledger.mean_propensities if all_propensities else _harmonic_propensities(ledger)


def least_gap(
    policies: PolicyClass, contexts: Contexts, gaps: FloatArray, squares: FloatArray, *, epsilon: float
) -> Policy:
    """Return the policy of smallest gap and error together; gaps, squares (m, A): scores that sum to Δ̂(π) and to v."""
    return policies.argmax(contexts, marked_down(gaps, squares, epsilon=epsilon))


def marked_down(gaps: FloatArray, squares: FloatArray, *, epsilon: float) -> FloatArray:
    """Return scores (m, A) that are larger for smaller gap and error: −Δ̂ − v/(2ε)."""
    return -gaps - squares / (2.0 * epsilon)


def makes_way(
    leader: Policy, favourite: Policy, ledger: Ledger, mixture: FloatArray, *, epsilon: float, single: bool
) -> bool:
    """Return whether the favourite of a ledger seems enough better than the leader to replace it.

    mixture (m, A): propensities. single: whether all weight has to end at one policy.
    """
    gaps, squares = ledger.gaps(mixture, reference=leader(ledger.contexts))
    actions = favourite(ledger.contexts)
    advantage, error = -total(gaps, actions), np.sqrt(total(squares, actions))
    return is_clear(advantage, error, epsilon=epsilon, single=single)


def is_clear(advantage: float, error: float, *, epsilon: float, single: bool) -> bool:
    """Return whether an estimated advantage over the leader, with this standard error, is enough to lead."""
    if not single:
        return advantage > MIN_ADVANTAGE_EPSILONS * epsilon
    return advantage > max(MIN_CLEAR_ADVANTAGE_EPSILONS * epsilon, MIN_CLEAR_ADVANTAGE_STANDARD_ERRORS * error)


def lead_log(
    log: Log,
    predictions: FloatArray,
    policies: PolicyClass,
    *,
    sizes: Sequence[int],
    spared: int,
    single: bool,
    settled: int | None = None,
) -> Leaders:
    """Return the leaders of a log's rounds, each the favourite of the rows whose rewards were known before its round.

    They do not depend on the requested ε: so the certificates for all ε hold together.

    sizes (rounds,): the planned size of each round. spared: the number of first rounds that only teach. settled: the
    round from which on the leader stays.
    """
    rounds, validated = np.unique(log.rounds), settled is not None and bool(policies.simpler())
    seen = [float(np.rint(log.weights[log.known_by(int(number))].sum())) for number in rounds]

    def choose(leader: Policy | None, i: int) -> Policy:
        before = np.flatnonzero(log.known_by(int(rounds[i])))
        part, own = log.take(before), predictions[before]
        return lead_after(part, own, policies, leader, single=single, simple=settled is not None)

    def known(i: int) -> Contexts:
        before = np.flatnonzero(log.rounds < rounds[i]) if i > 0 else np.arange(len(log))  # round 0 has no leader
        return log.contexts.take(before)

    return lead_rounds(
        Choices(seen, [LEADING_GROWTH_FACTOR] * len(sizes), choose, known, cross_validated=validated),
        sizes=sizes,
        spared=spared,
        single=single,
        settled=settled,
    )


class Choices(NamedTuple):
    """The choice of the leaders of rounds, counted from 0.

    seen (rounds,): interactions whose rewards were known before each round.
    growth (rounds,): the factor by which these must have grown since the last choice for a new one before each round.
    choose: returns the leader from a round on, given the leader before.
    known: returns the contexts that were known before a round, on which leaders are compared.
    cross_validated: as for `Leaders`.
    """

    seen: Sequence[float] | FloatArray
    growth: Sequence[float]
    choose: Callable[[Policy | None, int], Policy]
    known: Callable[[int], Contexts]
    cross_validated: bool = False


def lead_rounds(
    choices: Choices,
    *,
    sizes: Sequence[int],
    spared: int,
    single: bool,
    settled: int | None,
) -> Leaders:
    """Return the leaders of all rounds, for rows in memory or in files.

    sizes, spared, single, settled: as for `lead_log`.
    """
    moving = SINGLE_MOVING if single else MIXTURE_MOVING
    leaders = Leaders(moving=moving, settled=settled, cross_validated=choices.cross_validated)
    leader, last = None, FIRST_BLOCK_ROWS / LEADING_GROWTH_FACTOR
    for i, size in enumerate(sizes):
        late = settled is not None and i > settled
        if i > 0 and not late and (i == settled or choices.seen[i] >= choices.growth[i] * last):
            leader, last = choices.choose(leader, i), float(choices.seen[i])
        leaders = leaders.followed_by(leader if i >= spared else None, choices.known(i), size=size)
        leader = leader if leaders.last is None else leaders.last
    return leaders


def lead_after(
    part: Log,
    predictions: FloatArray,
    policies: PolicyClass,
    leader: Policy | None,
    *,
    single: bool,
    simple: bool,
    searched: PolicyClass | None = None,
) -> Policy:
    """Return the leader after these rows, given the leader before; predictions (n, A): of their rewards.

    simple: whether to prefer simpler policies, by cross-validation or pruning. searched: the class that
    cross-validation on these rows has found, if that is known.
    """
    complete, ledger = part.least is None, Ledger.of(part, predictions)
    if searched is None:
        searched = validated_class(part, predictions, policies) if simple else policies
    scores, epsilon = favourite_scores(ledger, searched, all_propensities=complete)
    mixture = mixed_propensities(ledger, all_propensities=complete)
    favourite = searched.argmax(ledger.contexts, scores)
    if simple and searched is policies:
        favourite = _simplified(favourite, policies, ledger, mixture)
    if leader is None or (searched is not policies and not searched.has(leader)):
        return favourite
    follows = makes_way(leader, favourite, ledger, mixture, epsilon=epsilon, single=single)
    return favourite if follows else leader


def validated_class(part: Log, predictions: FloatArray, policies: PolicyClass) -> PolicyClass:
    """Return the class to search, of those nested in a class and itself, by cross-validation on these rows.

    Row i, or unit i, is in fold i modulo 5. predictions (n, A): of the rewards of the rows.
    """
    classes = (*policies.simpler(), policies)
    unit = np.arange(len(part)) if part.units is None else number_units(part.units)
    n_units = int(unit.max(initial=0)) + 1
    if len(classes) == 1 or n_units < FOLDS:
        return classes[0] if n_units < FOLDS else policies
    rows = np.arange(len(part))
    values = predictions.copy()
    values[rows, part.actions] += (part.rewards - predictions[rows, part.actions]) / part.played_propensities
    values *= part.weights[:, None]
    held_out = np.zeros((len(classes), len(part)))
    for fold in range(FOLDS):
        inside, outside = (np.flatnonzero((unit % FOLDS == fold) == there) for there in (True, False))
        learnt_from, tested_on = part.contexts.take(outside), part.contexts.take(inside)
        for j, each in enumerate(classes):
            actions = each.argmax(learnt_from, values[outside])(tested_on)
            held_out[j, inside] = values[inside, actions]
    best = 0
    for j in range(1, len(classes)):
        better: FloatArray = held_out[j] - held_out[best]
        gains = np.bincount(unit, weights=better, minlength=n_units)
        if gains.mean() > GROWING_STANDARD_ERRORS * gains.std() / np.sqrt(n_units):
            best = j
    return classes[best]


def _simplified(favourite: Policy, policies: PolicyClass, ledger: Ledger, mixture: FloatArray) -> Policy:
    """Return the simplest policy that a ledger cannot distinguish from its favourite, if the class can simplify.

    mixture (m, A): propensities.
    """
    if not policies.simplifies_policies:
        return favourite
    losses, squares = ledger.gaps(mixture, reference=favourite(ledger.contexts))
    return policies.simplest(favourite, ledger.contexts, losses, squares, standard_errors=DOUBT_STANDARD_ERRORS)


def end_that_pays(log: Log, *, epsilon: float) -> int | None:
    """Return the round before which to end the log, as too many rewards of later ones are pending; None to count all.

    A row at its worst costs as much as some 2A/ε others gain: about 1/p of the stake, where a row gains ε/2 of it.
    Using the first rows alone is free, as certificates hold at all times together.

    epsilon: for rewards in [0, 1]; 0 if the relevant size of differences is unknown. The rows must stand in the order
    of their rounds, or all are counted.
    """
    out = log.awaited
    if not out.any() or (np.diff(log.rounds) < 0).any():
        return None
    numbers, which = np.unique(log.rounds, return_inverse=True)
    lost = ROWS_LOST_PER_AWAITED * log.n_actions / (epsilon or MAX_CHOOSING_EPSILON)
    worth = np.cumsum(np.bincount(which, weights=np.where(out, -lost, 1.0)))
    best = int(worth.argmax())
    return None if best == len(numbers) - 1 or worth[best] <= 0 else int(numbers[best]) + 1


def _harmonic_propensities(ledger: Ledger) -> FloatArray:
    """Return the harmonic mean (m, A) of an action's propensities in the rows that played it, 1 if none did.

    The weights 1/p of these rows then keep their sum.
    """
    rows = ledger.rows
    context = np.repeat(np.arange(len(ledger.contexts)), np.diff(rows.starts))
    counts, inverse = (np.zeros((len(ledger.contexts), ledger.n_actions)) for _ in range(2))
    np.add.at(counts, (context, rows.actions), rows.repeats)
    np.add.at(inverse, (context, rows.actions), rows.repeats / rows.played)
    return np.divide(counts, inverse, out=np.ones_like(counts), where=counts > 0)

"""A trial with late or missing rewards: its state is computed from all rows so far, in the order of assignment.

`absorb` adds a round whose rewards are all known. Late rewards change the past: a reward of the first round may arrive
after the fifth. So every analysis computes the state anew from all rows.

Why the certificate stays valid. Let G_i hold everything that had happened when row i was assigned, *and* the rewards of
all earlier rows, known or not. A row's reward depends on no other row, even one assigned before it is known, so that
given G_i the context of row i is a draw from ν, and its action a draw from the row's propensities. Leader, stake,
prediction and moving weight are fixed before the round by rewards known then, and never change: so they are in G_i, and
the wealth W_n of the first n rows *with their true rewards* is a supermartingale in n. By Ville's inequality it reaches
1/δ for some n with probability at most δ. An analysis of n rows counts missing rewards at their worst: that is at most
W_n, whatever these rewards will be and for whatever reason they are missing. So an analysis that sees 1/δ is one at
which W_n has reached it, at any number of analyses and any times: the n of an analysis may depend on anything, also on
which rewards arrived, as the bound holds for all n at once. For that reason an analysis may also use the first rounds
alone, whose rewards are known. The ends of rounds must only satisfy that whether another row follows is in G_i: rounds
may close by count, by clock or by hand, even by someone who knows unreported rewards.

Validity breaks if a prediction or leader of a round is computed again once more rewards are known, as then each
analysis has its own bets; if rows are left out because their rewards are missing; if later rounds are counted without
earlier ones; or if rewards depend on later assignments while they are pending, as where the last item in stock is sold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate import Ledger
from pacbandits.certificate.choosing import end_that_pays
from pacbandits.certificate.making import claim_rank
from pacbandits.checks import instance, positive, settle, whole_number
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import digest_class
from pacbandits.records import Contexts, Guardrail, Log, Policy, Sampler, check_log, check_policy, likeliest
from pacbandits.rewards import predict_by_round
from pacbandits.trials.protocol import check_like
from pacbandits.trials.trial import Exploration, Trial, TrialState, merge


@dataclass(frozen=True, eq=False)
class PlayedRound:
    """The choices fixed before a round.

    exploration: its exploration.
    scale: the scale of its bets.
    planned: its planned number of interactions; the actual number may differ.
    leader: the best policy by the rewards known then; None if none were.
    """

    exploration: Exploration
    scale: float
    planned: int
    leader: Policy | None

    def __post_init__(self) -> None:
        instance(self.exploration, Exploration, name="exploration")
        settle(self, scale=positive(self.scale, name="scale"))
        settle(self, planned=whole_number(self.planned, name="planned", least=1))
        if self.leader is not None:
            check_policy(self.leader)


def catch_up(
    trial: Trial,
    state: TrialState,
    rounds: Sequence[PlayedRound],
    log: Log,
    *,
    guardrails: Sequence[Guardrail] = (),
) -> TrialState:
    """Return the state of a trial after these rounds, computed from all rows so far.

    Missing rewards count at their worst; choices use the rewards known before the next round. Where many rewards of the
    last rounds are missing, the certificate may be of the first rounds alone: the bound holds for all n at once, so an
    analysis may use the first n of all rows, for the n that proves most. If no reward is missing, the result is the
    state that `absorb` reaches round by round.

    state: the trial's starting state; a certificate in it, of an earlier analysis, stays the answer unless more is
        proven now.
    rounds: the choices fixed before each, in order.
    log: rows of these rounds, which are numbered from 0, in the order of assignment; a round may have none yet.
    guardrails: limits on the harm in metrics of the log, for a trial that stops by a gain. Its certificate is the one
        that `certify` makes of the log, of the first rounds alone if these prove more.
    """
    instance(state, TrialState, name="state")
    _check_rounds(state, rounds, log)
    _check_earlier(trial, state)
    predictions = predict_by_round(log, state.model)
    there = [number for number in range(len(rounds)) if (log.rounds == number).any()]
    leaders = state.leaders
    for number in there:
        one = rounds[number]
        if leaders is not None:
            leaders = leaders.followed_by(one.leader, state.contexts, size=one.planned)
    seen = replace(
        state,
        log=log,
        predictions=predictions,
        scales=tuple(rounds[number].scale for number in there),
        leaders=leaders,
        pool=next((one.exploration.pool for one in reversed(rounds) if one.exploration.pool), state.pool),
        current=rounds[-1].exploration,
        leader=rounds[-1].leader,
        round_number=len(rounds),
        samples=log.samples,
    )
    leader = _choose_leader(trial, seen, rounds, predictions)
    favourite = likeliest(state.policy) if leader is None else leader
    if trial.improve_on is not None:
        made = trial.certify_gain(seen, guardrails)
        found = None if made is None else made.improvement
        return replace(
            seen,
            played=_samplers(rounds, seen.informed),
            policy=state.policy if made is None else made.policy,
            finished=trial.proves(seen, found),
            oracle_calls=state.oracle_calls + 1,
            leader=leader,
            certificate=made,
            improvement=found,
        )
    latest, calls = trial.certify(seen, Ledger.of(log, predictions), favourite)
    if (end := end_that_pays(log, epsilon=trial.epsilon)) is not None:
        shorter, more = trial.certify(*_first_rounds(seen, there, end), favourite)
        latest, calls = min(latest, shorter, key=claim_rank), calls + more
    best = latest
    if state.certificate is not None and state.certificate.certified_epsilon < latest.certified_epsilon:
        best = latest if trial.epsilon == 0 and latest.certified else state.certificate
    return replace(
        seen,
        played=_samplers(rounds, seen.informed),
        policy=best.policy,
        finished=state.finished or latest.certified or best.certified,
        oracle_calls=state.oracle_calls + calls + 1,
        leader=leader,
        missing=max(latest.threshold - latest.value, 0.0),
        certificate=best,
    )


def leaders_again(
    trial: Trial,
    policies: PolicyClass,
    contexts: Contexts,
    rounds: Sequence[PlayedRound],
    log: Log,
    *,
    told: Mapping[int, Policy | None] | None = None,
) -> tuple[PlayedRound, ...]:
    """Return the same rounds with leaders of another class, each chosen by the rewards known before its round.

    For a class that was not considered before, as after the withdrawal of an action: leaders follow from what was known
    then, so that they are as good as fixed before the round. The class itself is chosen by the data; the δ of the trial
    must pay for that (`pacbandits.confidence.withdrawal_part`).

    told: leaders by round, to be preferred where policies tie up to rounding; for verification.
    """
    state = trial.start(policies, contexts)
    _check_rounds(state, rounds, log)
    predictions = predict_by_round(log, state.model)
    leader, known, out = None, 0, list[PlayedRound]()
    for number, one in enumerate(rounds):
        rows = np.flatnonzero(log.known_by(number))
        if len(rows) > known:
            part, known = log.take(rows), len(rows)
            seen = replace(state, log=part, leader=leader, round_number=number)
            leader = _choose_leader(trial, seen, rounds, predictions[rows], told=(told or {}).get(number))
        pool = tuple(policy for policy in one.exploration.pool if _belongs(policy, policies))
        out.append(replace(one, leader=leader, exploration=replace(one.exploration, pool=pool)))
    return tuple(out)


def _belongs(policy: Policy, policies: PolicyClass) -> bool:
    """Return whether a policy may belong to a class; True if the class cannot check membership."""
    return not policies.checks_membership or policies.has(policy)


def _choose_leader(
    trial: Trial,
    state: TrialState,
    rounds: Sequence[PlayedRound],
    predictions: FloatArray,
    *,
    told: Policy | None = None,
) -> Policy | None:
    """Return the leader by the rewards known by the state's round; the last leader if none are known."""
    informed = state.informed
    if state.log is None or informed is None:
        return state.leader
    ledger = Ledger.of(informed, predictions[state.log.known_by(state.round_number)])
    return trial.choose_leader(replace(state, played=_samplers(rounds, informed)), ledger, told=told)


def _first_rounds(state: TrialState, there: Sequence[int], end: int) -> tuple[TrialState, Ledger]:
    """Return a state with the rows of rounds before `end` alone, and its ledger; there: the rounds that have rows."""
    assert state.log is not None
    assert state.predictions is not None
    rows, count = np.flatnonzero(state.log.rounds < end), sum(number < end for number in there)
    leaders = state.leaders
    if leaders is not None:
        leaders = replace(leaders, turns=leaders.turns[:count], sizes=leaders.sizes[:count])
    log, predictions = state.log.take(rows), state.predictions[rows]
    cut = replace(state, log=log, predictions=predictions, scales=state.scales[:count], leaders=leaders)
    return cut, Ledger.of(log, predictions)


def _samplers(rounds: Sequence[PlayedRound], log: Log | None) -> tuple[tuple[Sampler, int], ...]:
    """Return the samplers in order, with the number of rows of a log that each played."""
    counts = np.bincount(np.zeros(0, dtype=np.int64) if log is None else log.rounds, minlength=len(rounds))
    played: tuple[tuple[Sampler, int], ...] = ()
    for one, count in zip(rounds, counts, strict=True):
        if count > 0:
            played = merge(played, one.exploration.sampler, int(count))
    return played


def _check_earlier(trial: Trial, state: TrialState) -> None:
    """Raise if the earlier certificate has another class or δ, as before the withdrawal of an action."""
    earlier = state.certificate
    if earlier is None:
        return
    if earlier.delta != trial.delta or earlier.class_digest != digest_class(state.policies):
        raise InputError(
            "the certificate of the state is of another policy class or delta than the trial; what was proven there is "
            "no claim of this one: leave it out"
        )


def _check_rounds(state: TrialState, rounds: Sequence[PlayedRound], log: Log) -> None:
    """Raise unless the log can be of these rounds."""
    if not rounds:
        raise InputError("there are no rounds to catch up with; design the first one, and play it")
    for one in rounds:
        instance(one, PlayedRound, name="rounds")
    last = int(check_log(log).rounds.max())
    if last >= len(rounds):
        raise InputError(
            f"the log has rows of round {last}, but {len(rounds)} rounds were played, which are numbered from 0"
        )
    if (back := np.flatnonzero(np.diff(log.rounds) < 0)).size:
        row = int(back[0]) + 1
        raise InputError(
            f"row {row} is of round {log.rounds[row]} and stands after one of round {log.rounds[row - 1]}; rows must "
            "stand by round, and within a round in the order of assignment"
        )
    if log.n_actions != state.policies.n_actions:
        raise InputError(
            f"the policies have {state.policies.n_actions} actions and the log {log.n_actions}; log a propensity for "
            "each action of the class"
        )
    if log.least is not None or log.units is not None or log.repeats.max() > 1:
        raise InputError(
            "a trial takes each row for one interaction of another person, with the propensities of all actions; leave "
            "out repeats, units and rows of people who had come before"
        )
    check_like(state.contexts, log.contexts)

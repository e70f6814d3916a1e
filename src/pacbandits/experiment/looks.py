"""A look at the data of an experiment: what is proven, what is likely, and whether all is well.

It is made by whoever advances the experiment, stored, and shown until the next. What it proves holds at all looks
together, however many there are; what it estimates is said to be an estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from pacbandits.certificate import Certificate, Interval, Worth, evaluate, measure_worth
from pacbandits.certificate.watching import Check, look
from pacbandits.errors import plain
from pacbandits.experiment.guardrail import guardrail_of
from pacbandits.experiment.history import Snapshot
from pacbandits.experiment.leaves import leaves_of
from pacbandits.experiment.outlooks import look_forward, people_a_day
from pacbandits.experiment.protocol import ExperimentProtocol
from pacbandits.experiment.times import spell
from pacbandits.fields import Json
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.trees.tree import TreePolicy
from pacbandits.records import Contexts, Log, likeliest
from pacbandits.trials.late import PlayedRound, catch_up, leaders_again
from pacbandits.trials.trial import Trial, TrialState


@dataclass(frozen=True, eq=False)
class Found:
    """What the data say at a snapshot.

    snapshot: which one.
    trial: at the part of δ that there is for what was withdrawn.
    policies: the class without those actions.
    state: of the trial; None before the first row.
    withdrawn: names of actions.
    """

    snapshot: Snapshot
    trial: Trial
    policies: PolicyClass
    state: TrialState | None
    withdrawn: tuple[str, ...] = ()


def find_out(snapshot: Snapshot, withdrawn: tuple[str, ...]) -> Found:
    """What the trial makes of a snapshot, without the actions that were withdrawn."""
    protocol = snapshot.stored.protocol
    trial, policies = protocol.trial(withdrawn)
    log = snapshot.log()
    if log is None:
        return Found(snapshot, trial, policies, None, withdrawn)
    # Those that were deployed as well, of which no row counts: rounds are told apart by their numbers.
    rounds: Sequence[PlayedRound] = [one.played() for one in snapshot.rounds]
    start = trial.start(policies, protocol.contexts)
    if withdrawn:
        rounds = leaders_again(trial, policies, protocol.contexts, rounds, log)
    return Found(snapshot, trial, policies, catch_up(trial, start, rounds, log), withdrawn)


@dataclass(frozen=True)
class Look:
    """What was found at one look, each part as `Status` shows it.

    number: of the look, from 1; 0 before it is stored.
    snapshot_at: when the data were read, in microseconds.
    samples: how many rows were looked at.
    claim: what is proven, in words and figures; None before anything is.
    to_go: what is still missing; None where nothing is known of that.
    value: what the policy earns, and the standard action, and by how much it leads; None before anything is proven.
    arms: every action as it was tried.
    leaves: who gets what by the policy in question, and what they were given.
    policy: that policy; None before any is.
    health: how many rewards are out, the smallest propensity, signs against what the claim assumes, the guardrail.
    holdout_compared: what those earn who always get the standard action, and the others; None without a holdout.
    certificate: the claim itself, with what speaks against it; not part of the JSON.
    """

    number: int = 0
    snapshot_at: int = 0
    samples: int = 0
    claim: Json | None = None
    to_go: Json | None = None
    value: Json | None = None
    arms: tuple[Json, ...] = ()
    leaves: tuple[Json, ...] = ()
    policy: Json | None = None
    health: Json | None = None
    holdout_compared: Json | None = None
    certificate: Certificate | None = field(default=None, compare=False)

    def to_json(self) -> Json:
        """As what JSON knows."""
        out = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "certificate"}
        return out | {"arms": list(self.arms), "leaves": list(self.leaves)}


def look_at(found: Found, *, at: int) -> Look:
    """What the data say. found: what the trial makes of a snapshot. at: when this is, in microseconds."""
    snapshot, state, protocol = found.snapshot, found.state, found.snapshot.stored.protocol
    log = None if state is None else state.log
    table = snapshot.table() if len(snapshot.rows) else None
    drawn = None if table is None or not snapshot.counted.any() else table.only(snapshot.counted)
    checks = () if log is None else look(log)
    # The class of a name is said to be that, so that whoever verifies can make it again from the contexts.
    learning = None if found.withdrawn else protocol.learning
    certificate = None if state is None else state.certificate
    certificate = None if certificate is None else replace(certificate, checks=checks, learning=learning)
    worth = None
    if certificate is not None and log is not None and not log.awaited.all():
        worth = measure_worth(certificate, log)
    policy = None if certificate is None else certificate.policy
    a_day = people_a_day(snapshot.rows.at[snapshot.counted], now=at)
    to_go = look_forward(certificate, log, found.policies, a_day=a_day, plan=protocol.plan)
    leaves = () if policy is None or drawn is None else leaves_of(likeliest(policy), drawn, protocol.actions)
    return Look(
        snapshot_at=snapshot.at,
        samples=0 if log is None else log.samples,
        claim=None if certificate is None else _claim(certificate, at=at, round_number=len(snapshot.rounds) - 1),
        to_go=None if to_go is None else to_go.to_json(),
        value=None if worth is None else _value(protocol, worth),
        arms=_arms(protocol, drawn, log, withdrawn=found.withdrawn),
        leaves=tuple(one.to_json() for one in leaves),
        policy=None if policy is None else policy.to_json(),
        health=_health(snapshot, drawn, checks),
        holdout_compared=_compare_holdout(protocol, snapshot, table, log),
        certificate=certificate,
    )


def _claim(certificate: Certificate, *, at: int, round_number: int) -> Json:
    """What is proven."""
    return {
        "certified": certificate.certified,
        "certified_epsilon": certificate.certified_epsilon,
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "samples": certificate.samples,
        "describe": certificate.describe(),
        "promise": certificate.promise(),
        "assumptions": list(certificate.assumptions),
        "alarms": list(certificate.alarms),
        "words": certificate.words,
        "at": spell(at),
        "round": round_number,
    }


def _value(protocol: ExperimentProtocol, worth: Worth) -> Json:
    """What the policy earns, what the standard action does, and the lead, with intervals that hold at all looks."""
    number, name = protocol.standard_action, plain(protocol.standard)
    own, other, lift = worth.value, worth.singles[number], worth.over_each[number]
    sure = f"Each interval is right at all times together, except with probability {worth.delta:g}"
    doubt = "No interval can be relied on, as the data speak against an assumption (see the alarm)"
    words = (
        f"the policy earns {_spelt(own)} on average and '{name}' {_spelt(other)}: {_spelt(lift, sign='+')} more. "
        f"{doubt if worth.alarms else sure}"
    )
    return {
        "alarms": list(worth.alarms),
        "policy": own.to_json(),
        "standard": other.to_json(),
        "lift": lift.to_json(),
        "confidence": 1.0 - worth.delta,
        "words": words,
    }


def _spelt(interval: Interval, *, sign: str = "") -> str:
    if interval.empty:
        return f"{interval.estimate:{sign}.3g} (empty interval)"
    return f"{interval.estimate:{sign}.3g} ({interval.low:{sign}.3g} to {interval.high:{sign}.3g})"


def _arms(
    protocol: ExperimentProtocol, drawn: Log | None, log: Log | None, *, withdrawn: tuple[str, ...]
) -> tuple[Json, ...]:
    """Every action as it was tried, none of it weighted or modelled.

    drawn: all rows that count. log: those of them that are looked at, by which means are told: of later rows the good
    rewards may be in, and the others out.
    """
    low, high = protocol.reward_range
    out: list[Json] = []
    for number, name in enumerate(protocol.actions):
        rows = 0 if drawn is None else int((drawn.actions == number).sum())
        known = 0 if drawn is None else int(((drawn.actions == number) & ~drawn.awaited).sum())
        seen = np.empty(0) if log is None else log.rewards[(log.actions == number) & ~log.awaited]
        out.append(
            {
                "action": name,
                "assigned": rows,
                "share": 0.0 if drawn is None else rows / len(drawn),
                "mean": float(low + (high - low) * seen.mean()) if len(seen) else None,
                "rewards_in": known,
                "withdrawn": name in withdrawn,
            }
        )
    return tuple(out)


def _health(snapshot: Snapshot, drawn: Log | None, checks: tuple[Check, ...]) -> Json:
    """How many rewards are out or were missed, the smallest probability of an action, and signs against the claim."""
    found, rows = guardrail_of(snapshot), snapshot.rows
    came = rows.reward_sequence < snapshot.sequence
    return {
        "awaited_share": None if drawn is None else float(drawn.awaited.mean()),
        "missed_share": None if not len(rows) else float((snapshot.in_ & ~came).mean()),
        "late_share": None,
        "least_propensity": None if drawn is None else float(drawn.propensities[drawn.propensities > 0].min()),
        "checks": [
            {
                "name": one.kind,
                "alarm": one.alarm,
                "words": one.describe(),
                "evidence": one.log_evidence,
                "needed": one.needed,
            }
            for one in checks
        ],
        "guardrail": None if found is None else found.to_json(),
    }


def _compare_holdout(
    protocol: ExperimentProtocol, snapshot: Snapshot, table: Log | None, log: Log | None
) -> Json | None:
    """Mean rewards of those who always get the standard action and of those who are drawn for, first visits of both.

    table: all rows. log: those of the trial that are looked at; of the holdout as many of the first rows are.
    """
    held = np.flatnonzero((snapshot.rows.holdout & (snapshot.rows.visits == 0))[: snapshot.mature])
    if table is None or log is None or not len(held):
        return None
    parts = {"holdout": table.take(held), "experiment": log}
    return {name: mean_reward(part, delta=protocol.delta) for name, part in parts.items()}


def mean_reward(log: Log, *, delta: float) -> Json:
    """What rows earned on average, whatever they got, between bounds that hold at all times together; in its units.

    It is the value of doing what was done: of a policy with one action, played with probability 1. What is not in
    counts as the least for the lower bound and as the most for the upper one.
    """
    n = len(log)
    alone = Log(
        contexts=Contexts.of(np.zeros((n, 1)), names=["everybody"]),
        actions=np.zeros(n, dtype=np.int64),
        rewards=log.rewards,
        propensities=np.ones((n, 1)),
        rounds=log.rounds,
        repeats=log.repeats,
        reward_range=log.reward_range,
        known=log.known,
    )
    low, high = log.reward_range
    known = log.rewards[~log.awaited]
    worth = evaluate(alone, TreePolicy(0, 1), delta=delta).value
    return {
        "rows": n,
        "rewards_in": len(known),
        "mean": float(low + (high - low) * known.mean()) if len(known) else None,
        "low": None if worth.empty else worth.low,
        "high": None if worth.empty else worth.high,
    }

"""Interim analyses: certificate, outlook, segments, and the guardrail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, IntArray, floats
from pacbandits.certificate import Certificate, Interval, Ledger, Worth, evaluate, measure_worth
from pacbandits.certificate.alarms import AssumptionCheck, look
from pacbandits.checks import instance
from pacbandits.design import Shifted, price_propensities
from pacbandits.errors import InputError, plain
from pacbandits.experiment.database import spell
from pacbandits.experiment.protocol import ExperimentProtocol, Forecast, GuardrailRule
from pacbandits.experiment.store import Snapshot
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.trees.tree_policy import AtMost, Is, Node, Test, TreePolicy
from pacbandits.records import Contexts, Log, Policy, likeliest
from pacbandits.records.column_types import say_number
from pacbandits.rewards import model_from_json
from pacbandits.schema import Json
from pacbandits.trials.coda import Findings, gap_task
from pacbandits.trials.forecast import MAX_ROWS_LOOKED_AT, look_ahead
from pacbandits.trials.late_rewards import PlayedRound, catch_up, leaders_again
from pacbandits.trials.trial import Trial, TrialState

if TYPE_CHECKING:
    from pacbandits.experiment.store import Snapshot


# How far an experiment still has to go: people, days, and what a plain trial would take.


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
        """Serialise to JSON-compatible values."""
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


# The leaves of a policy: who they are in words, how many, and what they were given.


EVERYBODY = "everybody"
MAX_LEAVES = 256  # that are told of


@dataclass(frozen=True)
class SegmentAnalysis:
    """People whom a policy gives the same action for the same reason.

    where: who they are, in words.
    share: of all people who came.
    action: what the policy gives them.
    shares: by actions, of those among them who got each; empty where nobody came.
    """

    where: str
    share: float
    action: str
    shares: dict[str, float]

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {"where": self.where, "share": self.share, "action": self.action, "shares": self.shares}


def leaves_of(policy: Policy, log: Log, actions: tuple[str, ...]) -> tuple[SegmentAnalysis, ...]:
    """The leaves of a policy, from the left; of one that is no tree, all whom it gives the same.

    log: who came, and what they got. actions (A,): the names.
    """
    contexts, played = log.contexts, log.actions
    if isinstance(policy, TreePolicy):
        parts = _tree_parts(policy.root, contexts, np.ones(len(contexts), dtype=np.bool_), ())
    else:
        given = policy(contexts)
        taken: list[int] = np.unique(given).tolist()
        parts = [(f"where it says {plain(actions[a])}", given == a, a) for a in taken]
    return tuple(_leaf(where, inside, action, played, actions) for where, inside, action in parts[:MAX_LEAVES])


def _leaf(where: str, inside: BoolArray, action: int, played: IntArray, actions: tuple[str, ...]) -> SegmentAnalysis:
    counts = np.bincount(played[inside], minlength=len(actions))
    total = int(counts.sum())
    shares = {name: float(count / total) for name, count in zip(actions, counts, strict=True)} if total else {}
    return SegmentAnalysis(where, float(inside.mean()), actions[action], shares)


def _tree_parts(
    node: Node, contexts: Contexts, here: BoolArray, answers: tuple[tuple[Test, bool], ...]
) -> list[tuple[str, BoolArray, int]]:
    """Words, people (n,) and the action of each leaf; answers: to the tests on the way there."""
    if isinstance(node, int):
        words = [test.describe() if held else _denied(test) for test, held in answers if _tells(test, held, answers)]
        return [(" and ".join(dict.fromkeys(words)) or EVERYBODY, here, node)]
    passed = node.test(contexts)
    then = _tree_parts(node.then, contexts, here & passed, (*answers, (node.test, True)))
    return then + _tree_parts(node.otherwise, contexts, here & ~passed, (*answers, (node.test, False)))


def _tells(test: Test, held: bool, answers: tuple[tuple[Test, bool], ...]) -> bool:
    """Whether an answer says more than all others together: of two bounds on one side, the tighter does."""
    if not isinstance(test, AtMost):
        return not (isinstance(test, Is) and not held and _is_known(test.feature, answers))
    others = [
        one.threshold
        for one, same in answers
        if isinstance(one, AtMost) and (one.feature, one.missing, same) == (test.feature, test.missing, held)
    ]
    return test.threshold == (min(others) if held else max(others))


def _is_known(feature: str, answers: tuple[tuple[Test, bool], ...]) -> bool:
    """Whether the label of a feature is known."""
    return any(isinstance(test, Is) and test.feature == feature and held for test, held in answers)


def _denied(test: Test) -> str:
    """What holds of those who fail a test."""
    if isinstance(test, AtMost):
        name, cut = say_number(test.feature, test.threshold, digits=6 if abs(test.threshold) < 1e5 else 15)
        return f"{name} is missing or > {cut}" if test.missing is False else f"{name} > {cut}"
    if isinstance(test, Is):
        return f"{plain(test.feature)} is not {plain(test.label)}"
    return f"{plain(test.feature)} is not missing"


# Tests, valid at all times together, that an outcome which must not become too frequent does.
#
# Let X_1, X_2, … in [0, 1] be the guardrail outcomes of rows in the order of assignment, of all or of those with one
# action. The null hypothesis is that E[X_i | rows before i] ≤ m for every i, with the `most` m > 0 of the rule; where
# propensities depend on contexts it speaks of the people to whom the action was given, whose harm it is. For any p > m,
#
#     W_n(p) = Π_{i ≤ n} (p/m)^{X_i} ((1 − p)/(1 − m))^{1 − X_i} = (p/m)^S ((1 − p)/(1 − m))^{n − S},     S = Σ X_i
#
# is a nonnegative supermartingale then: the logarithm of 1 + λ(X − m) with λ = (p − m)/(m(1 − m)) is concave in X, so
# not below its chord between X = 0 and 1, which is the logarithm of the factor above; and E[1 + λ(X − m)] ≤ 1. It needs
# n and S alone, and so does a mixture over several p, which starts at 1. By Ville's inequality it ever exceeds 1/α with
# probability at most α.
#
# **Values that are not in count as 0.** W_n rises in every X_i, so what is seen of it, at whatever time, is at most
# what it would be with all values in; and that is the supermartingale. So late, lost and selectively reported values
# raise no false alarm, whatever delays depend on. For the same reason the largest of W_n over the rounds that are over
# may be taken: rows at the end, of which nothing is in yet, hide nothing that came before them.
#
# The level is shared evenly over A + 1 tests: of all rows, and of each action.


# How far p lies above m, as shares of 1 − m: a share m' of the best one makes about 2m' − m'² of its growth, so that of
# neighbours a factor of 2 apart one makes 91 % or more.
ALTERNATIVES = 2.0 ** -np.arange(1, 13)
OF_ALL = "all"


@dataclass(frozen=True)
class GuardrailTest:
    """Whether the guardrail outcome exceeds its limit somewhere.

    of: "all", or the name of an action.
    rows: that are counted.
    seen: of which the outcome is in.
    mean: of these; None where there are none.
    evidence: the logarithm of the mixture of W, at the end of the round at which it was largest.
    needed: the evidence from which on there is an alarm.
    """

    of: str
    rows: int
    seen: int
    mean: float | None
    evidence: float
    needed: float

    @property
    def alarm(self) -> bool:
        """Whether the limit is exceeded, but for the probability of a false alarm."""
        return self.evidence >= self.needed

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return asdict(self) | {"alarm": self.alarm}


@dataclass(frozen=True)
class GuardrailLook:
    """What was found at one look.

    rule: what was tested.
    tests (A + 1,): of all rows, and of each action.
    """

    rule: GuardrailRule
    tests: tuple[GuardrailTest, ...]

    @property
    def alarms(self) -> tuple[GuardrailTest, ...]:
        """Those that raise an alarm."""
        return tuple(one for one in self.tests if one.alarm)

    def words(self) -> str:
        """Why to pause, in a sentence; nothing where there is no alarm."""
        if not self.alarms:
            return ""
        found = [
            f"{'over all' if one.of == OF_ALL else f'with {plain(one.of)}'} ({show_share(one.mean)} of {one.seen:,})"
            for one in self.alarms
        ]
        return (
            f"{plain(self.rule.name)} exceeds {show_share(self.rule.most)} {', '.join(found)}; chance alone says so in "
            f"at most {show_share(self.rule.false_alarms)} of experiments"
        )

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {
            "name": self.rule.name,
            "most": self.rule.most,
            "false_alarms": self.rule.false_alarms,
            "tests": [one.to_json() for one in self.tests],
        }


def look_at_guardrail(
    rule: GuardrailRule, actions: tuple[str, ...], *, rows: ArrayLike, seen: ArrayLike, totals: ArrayLike
) -> GuardrailLook:
    """The tests of all rows and of each action, from counts by round.

    actions (A,): their names. rows (K, A): how many rows of a round got an action, in the order of rounds; the last may
    go on. seen (K, A): of how many the outcome is in. totals (K, A): the sum of these outcomes.

    >>> rule = GuardrailRule("complaint", most=0.02)
    >>> found = look_at_guardrail(rule, ("a", "b"), rows=[[500, 500]], seen=[[400, 380]], totals=[[6, 45]])
    >>> [(one.of, one.alarm) for one in found.tests]
    [('all', True), ('a', False), ('b', True)]

    Raises:
        InputError: When more outcomes are in than there are rows, or they are not in [0, 1].
    """
    instance(rule, GuardrailRule, name="rule", remedy='say GuardrailRule("complaint", 0.02)')
    counts = floats(rows, name="rows", shape=(None, len(actions)))
    known = floats(seen, name="seen", shape=counts.shape)
    sums = floats(totals, name="totals", shape=counts.shape)
    if (known > counts).any() or (sums > known + 1e-9 * (1.0 + known)).any() or min(sums.min(initial=0), 0) < 0:
        raise InputError("of a guardrail no more can be in than there are rows, and each outcome is from 0 to 1")
    needed = math.log(len(actions) + 1) - math.log(rule.false_alarms)

    def test(of: str, n: FloatArray, inside: FloatArray, total: FloatArray) -> GuardrailTest:
        evidence = float(log_evidence(np.cumsum(n), np.cumsum(total), most=rule.most).max(initial=0.0))
        mean = float(total.sum() / inside.sum()) if inside.sum() else None
        return GuardrailTest(of, int(n.sum()), int(inside.sum()), mean, evidence, needed)

    each = [test(name, counts[:, a], known[:, a], sums[:, a]) for a, name in enumerate(actions)]
    return GuardrailLook(rule, (test(OF_ALL, counts.sum(axis=1), known.sum(axis=1), sums.sum(axis=1)), *each))


def guardrail_of(snapshot: Snapshot) -> GuardrailLook | None:
    """Whether the second outcome is too frequent among those who are drawn for; None where there is none."""
    protocol, rows = snapshot.stored.protocol, snapshot.rows
    if protocol.guardrail is None or not len(rows):
        return None
    shape, drawn = (len(snapshot.rounds), protocol.n_actions), ~rows.holdout
    cells = np.ravel_multi_index((rows.rounds[drawn], rows.actions[drawn]), shape)
    values = np.where(rows.guardrail_sequence < snapshot.sequence, rows.guardrail, np.nan)[drawn]
    came = ~np.isnan(values)
    counts = [
        np.bincount(cells, weights=weights, minlength=shape[0] * shape[1]).reshape(shape)
        for weights in (None, came, np.where(came, values, 0.0))
    ]
    return look_at_guardrail(protocol.guardrail, protocol.actions, rows=counts[0], seen=counts[1], totals=counts[2])


def log_evidence(rows: FloatArray, totals: FloatArray, *, most: float) -> FloatArray:
    """The logarithm of the mixture of W (k,) after so many rows (k,), whose outcomes sum to totals (k,)."""
    p = most + (1.0 - most) * ALTERNATIVES
    gains = totals[:, None] * np.log(p / most) + (rows - totals)[:, None] * np.log((1.0 - p) / (1.0 - most))
    top = gains.max(axis=1, initial=-np.inf)
    return top + np.log(np.exp(gains - top[:, None]).mean(axis=1))


def show_share(share: float | None) -> str:
    """A share in percent."""
    return "none" if share is None else f"{100 * share:.3g} %"


# A look at the data of an experiment: what is proven, what is likely, and whether all is well.
#
# It is made by whoever advances the experiment, stored, and shown until the next. What it proves holds at all looks
# together, however many there are; what it estimates is said to be an estimate.


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
        """Serialise to JSON-compatible values."""
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


def _health(snapshot: Snapshot, drawn: Log | None, checks: tuple[AssumptionCheck, ...]) -> Json:
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

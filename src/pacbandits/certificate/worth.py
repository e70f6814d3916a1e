"""The value and gains of a policy with intervals: their parts, the same for rows in memory and in files.

`pacbandits.certificate.intervals` says why the intervals are valid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray, special
from pacbandits.certificate.alarms import AssumptionCheck, alarm_words, look, look_along_file
from pacbandits.certificate.certificate import ORDERED, ROUNDS, SHUFFLED, UNITS_SHUFFLED, Certificate, basic_assumptions
from pacbandits.certificate.claim import ToldOfLog
from pacbandits.certificate.leaders import NOBODY, Leaders
from pacbandits.certificate.ledger import plan_moves
from pacbandits.certificate.stakes import ExpertWealth, Stakes, even_stakes, trial_stakes, tuned_stakes
from pacbandits.confidence import certificate_threshold, check_asked_delta, check_delta, recommended_part
from pacbandits.errors import InputError
from pacbandits.policies.summation import actions_on
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.progress import count_aloud
from pacbandits.records import Chosen, Log, Mixture, Policy, parts_of
from pacbandits.records.row_order import COUNTED, says
from pacbandits.rewards import RewardModel, check_model, first_model, model_from_json

MAX_WEIGHT_ROUNDING = 1e-9  # of the weights of leaders
CONTRADICTION = (
    "an interval is empty, as its lower end lies above its upper end: the assumptions contradict the data, so at least "
    "one of them is wrong (often the propensities or the split)"
)


@dataclass(frozen=True)
class Interval:
    """An interval and an estimate of a number, in the units of rewards.

    low, high: the ends, between which it lies except with probability δ; at all times together, unless rows were
        shuffled or units return.
    estimate: the point estimate.
    error: its standard error; None if it is unknown.
    """

    low: float
    estimate: float
    high: float
    error: float | None = None

    @property
    def empty(self) -> bool:
        """Whether low is above high: then the data contradict an assumption."""
        return self.low > self.high

    def __repr__(self) -> str:
        ends = "empty" if self.empty else f"low={self.low!r}, high={self.high!r}"
        return f"Interval({ends}, estimate={self.estimate!r})"

    def to_json(self) -> dict[str, float | None]:
        """Serialise to JSON-compatible values; an empty interval has no ends, nor has an unbounded one."""
        ends = {"low": self.low, "estimate": self.estimate, "high": self.high}
        told = {name: None if not math.isfinite(end) else end for name, end in ends.items()}
        return told | ({"low": None, "high": None} if self.empty else {}) | {"standard_error": self.error}

    def approximate(self, delta: float) -> tuple[float, float] | None:
        """Return the ordinary interval, by a normal approximation; None if the standard error is unknown."""
        if self.error is None:
            return None
        off = float(special.ndtri(1.0 - delta / 2.0)) * self.error
        return self.estimate - off, self.estimate + off


class MeasuredMetric(NamedTuple):
    """A metric under a policy, in its units; the intervals of all metrics hold together except with probability δ.

    Ends are infinite, and the estimate may be not a number, if the rows do not show that the denominator of a ratio is
    above 0.

    metric: the metric, as it is written.
    value: its mean, or ratio of means, under the policy.
    over_control: the difference from that under control; None if none was named.
    """

    metric: str
    value: Interval
    over_control: Interval | None

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        over = None if self.over_control is None else self.over_control.to_json()
        return {"metric": self.metric, "value": self.value.to_json(), "over_control": over}


@dataclass(frozen=True)
class Worth:
    """The value and gains of a policy; each interval holds except with probability δ.

    value: the mean reward under the policy.
    over_each (A,): its gain over always taking one action.
    over_best: its gain over the best single action, whichever that is.
    singles (A,): the mean reward of each single action.
    delta: the probability that each interval is wrong.
    shuffled: whether rows were shuffled: the intervals are then for one analysis of a log whose end did not depend on
        rewards.
    samples: the number of interactions that count.
    units: the number of people; None if each interaction is of another person.
    assumptions: the assumptions of the intervals, in words.
    checks: the results of testing the assumptions on the log.
    measured_by: the rows that the estimates are computed from, in words.
    metrics: of the log.
    """

    value: Interval
    over_each: tuple[Interval, ...]
    over_best: Interval
    singles: tuple[Interval, ...]
    delta: float
    shuffled: bool
    samples: int
    units: int | None
    assumptions: tuple[str, ...]
    checks: tuple[AssumptionCheck, ...] = ()
    measured_by: str = ""
    metrics: tuple[MeasuredMetric, ...] = ()

    @property
    def alarms(self) -> tuple[str, ...]:
        """The evidence in the log against the assumptions of the intervals, in words."""
        found = (self.value, self.over_best, *self.over_each, *self.singles)
        return alarm_words(self.checks) or ((CONTRADICTION,) if any(one.empty for one in found) else ())

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return {
            "alarms": list(self.alarms),
            "value": self.value.to_json(),
            "over_best_single_action": self.over_best.to_json(),
            "over_each_action": [one.to_json() for one in self.over_each],
            "single_actions": [one.to_json() for one in self.singles],
            "delta": self.delta,
            "shuffled": self.shuffled,
            "samples": self.samples,
            "units": self.units,
            "measured_by": self.measured_by,
            **({"metrics": [one.to_json() for one in self.metrics]} if self.metrics else {}),
        }


class Kind(NamedTuple):
    """A kind of coefficients u: the policy's, the policy's less 1 at an action (its gain), or 1 at an action alone.

    of_policy: whether the policy's coefficients count.
    against: the action from which 1 is subtracted, or `times`.
    alone: the action that has 1.
    """

    of_policy: bool = True
    against: int | None = None
    alone: int | None = None
    times: float = 1.0

    def weights(self, own: FloatArray, counted: BoolArray) -> FloatArray:
        """Return u (n, A), given the policy's; counted (n,): the rows that count for θ."""
        out = own.copy() if self.of_policy else np.zeros_like(own)
        if self.against is not None:
            out[counted, self.against] -= self.times
        if self.alone is not None:
            out[counted, self.alone] = 1.0
        return out


def kinds_of(n_actions: int, *, times: float = 1.0) -> tuple[Kind, ...]:
    """Return all kinds that intervals need: the policy, its gain over each action, and each action alone."""
    leads = (Kind(against=action, times=times) for action in range(n_actions))
    return (Kind(), *leads, *(Kind(of_policy=False, alone=action) for action in range(n_actions)))


class Decided(NamedTuple):
    """The policies that decide in each round, with their weights: what u is computed from.

    policies: the L policies.
    shares (rounds, L): the weight of each in a row of each round.
    counted (rounds,): the rounds that count for θ.
    """

    policies: tuple[Policy, ...]
    shares: FloatArray
    counted: BoolArray

    @classmethod
    def always(cls, policy: Chosen, counted: BoolArray) -> Decided:
        """Return one policy, or a mixture, for all rounds; counted: as above."""
        drawn = policy.weights if isinstance(policy, Mixture) else (1.0,)
        return cls(parts_of(policy), np.tile(np.array(drawn), (len(counted), 1)), counted)

    @classmethod
    def led(cls, leaders: Leaders, moves: FloatArray, bet_on: BoolArray) -> Decided:
        """Return the leaders of rounds; moves (rounds, L): by `plan_moves`. bet_on (rounds,): rounds with a stake."""
        turns, shares = np.array(leaders.counted), -moves
        led = np.flatnonzero(turns != NOBODY)
        shares[led, turns[led]] += 1.0 + moves[led].sum(axis=1)
        shares[turns == NOBODY] = 0.0
        return cls(leaders.policies, shares, bet_on & (turns != NOBODY))

    def done(self, block: Log, rounds: IntArray) -> IntArray:
        """Return the action of each policy (L, n) in the rows of a block; 0 if the policy has no weight there."""
        out = np.zeros((len(self.policies), len(block)), dtype=np.int64)
        for j, policy in enumerate(self.policies):
            if self.shares[rounds, j].any():
                out[j] = actions_on(policy, block.contexts)
        return out

    def weights(self, block: Log, rounds: IntArray, *, onto: FloatArray | None = None) -> tuple[FloatArray, BoolArray]:
        """Return u (n, A) of the rows of a block, added to `onto`, and which rows (n,) count for θ."""
        out, rows = np.zeros((len(block), block.n_actions)) if onto is None else onto, np.arange(len(block))
        for j, policy in enumerate(self.policies):
            share = self.shares[rounds, j]
            if share.any():
                out[rows, actions_on(policy, block.contexts)] += share
        return out, self.counted[rounds]


class Weighing(Protocol):
    """The source of interval ends and estimates, for rows in memory or in files."""

    def wealth(self, kind: Kind, *, sign: float = 1.0) -> ExpertWealth:
        """Return the experts' wealth from bets on θ (on −θ for a sign of −1)."""
        ...

    def estimate(self, kind: Kind) -> float:
        """Return the estimate of θ."""
        ...


class Weighable(Protocol):
    """Rows that intervals can be computed from, in memory or in files; `survey.LogSurvey` describes the members."""

    @property
    def facts(self) -> ToldOfLog: ...
    @property
    def watched(self) -> Log: ...
    @property
    def early(self) -> Log: ...
    @property
    def shuffled(self) -> bool: ...
    @property
    def has_rounds(self) -> bool: ...
    @property
    def in_order(self) -> bool: ...
    @property
    def counts(self) -> FloatArray:
        """The number of interactions, or of units, of each round (rounds,)."""
        ...

    @property
    def rows_by_round(self) -> FloatArray:
        """The number of interactions of each round (rounds,), also if there are units."""
        ...

    def predict_early(self, model: RewardModel) -> FloatArray:
        """Return the predictions (n, A) for the early rows, each made before its round."""
        ...

    def for_metric(self, name: str, *, ratio: float | None = None) -> Weighable:
        """Return the same rows in the same order with a metric as their reward, as `Log.for_metric`."""
        ...

    def weigh(self, decided: Decided, stakes: Stakes, model: RewardModel) -> Weighing:
        """Return the source of intervals."""
        ...


@dataclass(frozen=True)
class Confidence:
    """The confidence of intervals, and its basis.

    delta: the probability that each is wrong.
    log_size: log|Π| if the policy was chosen from a class by the same rows.
    slack: the largest difference between the value of the policy and θ.
    part: the share of δ for the policy.
    shuffled: whether rows were shuffled.
    assumptions: the assumptions of the intervals, in words.
    checks: the results of testing the assumptions on the log.
    measured_by: the rows that the estimates are computed from, in words.
    constant: the action that the policy assigns to everybody, over which it gains nothing; None if it is a rule.
    """

    delta: float
    log_size: float = 0.0
    slack: float = 0.0
    part: float = 1.0
    shuffled: bool = False
    assumptions: tuple[str, ...] = ()
    checks: tuple[AssumptionCheck, ...] = ()
    measured_by: str = ""
    constant: int | None = None


def constant_action(policy: Chosen) -> int | None:
    """Return the action that a policy assigns to everybody; None if it is not known to be one."""
    root = policy.root if isinstance(policy, TreePolicy) else None
    return root if isinstance(root, int) else None


def rows_words(counted: float, rows: float, *, led: bool) -> str:
    """Describe the rows that measured a policy chosen by the same log.

    counted: the number of rows that bet. led: whether each was scored with a rule chosen before it.
    """
    many = count_counted(counted, rows)
    if led:
        return f"{many}, each scored with a rule that was chosen before it"
    return f"{many}, which also chose the policy: the intervals allow for that, the estimates may flatter it"


def stakes_for(rows: Weighable, model: RewardModel, *, spared: int, nats: float) -> Stakes:
    """Return the stakes of bets on values: for the number of rows if they are shuffled, else for any number.

    spared: the number of first rounds that do not bet. nats: the log-wealth that a bound takes.
    """
    if not rows.shuffled or len(rows.counts) < 2:
        return even_stakes(len(rows.counts), spared=spared)
    return tuned_stakes(rows.early, rows.predict_early(model), rows.counts, spared=spared, nats=nats)


def count_counted(counted: float, rows: float) -> str:
    """Return the number of rows that measured a policy, in words."""
    return f"all {round(rows):,} rows" if counted == rows else f"{round(counted):,} of {round(rows):,} rows"


class Ends(NamedTuple):
    """The ends of an interval, the estimate, and its standard error, for rewards in [0, 1]."""

    low: float
    estimate: float
    high: float
    error: float | None = None


def compose_worth(weighing: Weighing, log: ToldOfLog, sure: Confidence) -> Worth:
    """Return all intervals, in the units of rewards."""
    (low, high), n_actions = log.reward_range, log.n_actions
    one_side = sure.part * sure.delta / 2.0
    done = count_aloud("interval", 2 * n_actions + (sure.constant is None))

    def interval(kind: Kind, *, union: int = 1) -> Ends:
        size, loose = (sure.log_size, sure.slack) if kind.of_policy else (0.0, 0.0)
        needed = certificate_threshold(log_size=size, delta=one_side)
        above = certificate_threshold(log_size=size, delta=one_side / union)
        rising, falling = weighing.wealth(kind), weighing.wealth(kind, sign=-1.0)
        least, most = rising.bound(needed) - loose, -falling.bound(above) + loose
        done()
        return Ends(least, weighing.estimate(kind), most, rising.standard_error(falling))

    unit = high - low
    leads = [
        Ends(0.0, 0.0, 0.0) if action == sure.constant else interval(Kind(against=action), union=n_actions)
        for action in range(n_actions)
    ]
    value = interval(Kind())
    singles = [interval(Kind(of_policy=False, alone=action)) for action in range(n_actions)]
    best = Ends(*(min(ends) for ends in zip(*(one[:3] for one in leads), strict=True)))

    def within(ends: Ends, least: float, start: float) -> Interval:
        """Cut an interval to the range; one that lies outside it is empty, and stays so."""
        bottom, middle, top, error = ends
        cut = max(bottom, least), min(max(middle, least), 1.0), min(top, 1.0)
        return Interval(*(start + unit * x for x in cut), error=None if error is None else unit * error)

    return Worth(
        value=within(value, 0.0, low),
        over_each=tuple(within(one, -1.0, 0.0) for one in leads),
        over_best=within(best, -1.0, 0.0),
        singles=tuple(within(one, 0.0, low) for one in singles),
        delta=sure.delta,
        shuffled=sure.shuffled,
        samples=log.samples,
        units=None if log.units is None else log.n_units,
        assumptions=sure.assumptions,
        checks=sure.checks,
        measured_by=sure.measured_by,
    )


def evaluate_policy(rows: Weighable, policy: Chosen, *, delta: float = 0.05, model: RewardModel | None = None) -> Worth:
    """Return bounds on the value and the gains of a policy that was not chosen by these rows."""
    facts, wrong = rows.facts, check_asked_delta(delta)
    if policy.n_actions != facts.n_actions:
        raise InputError(f"the policy is for {policy.n_actions} actions, and the log has {facts.n_actions}")
    used = first_model(rows.early) if model is None else check_model(model)
    needed = certificate_threshold(delta=wrong / 2.0)
    stakes = stakes_for(rows, used, spared=0, nats=needed)
    decided = Decided.always(policy, stakes.bets.units > 0)
    weighing, by_round = rows.weigh(decided, stakes, used), rows.rows_by_round
    units, (low, high) = facts.units is not None, facts.reward_range
    order = (ROUNDS,) if rows.has_rounds else (ORDERED,) if rows.in_order else ()
    if rows.shuffled:
        order = () if says(facts.assumed, COUNTED) else (UNITS_SHUFFLED if units else SHUFFLED,)
    basis = basic_assumptions(units=units, shuffled=rows.shuffled, in_order=rows.has_rounds or rows.in_order)
    sure = Confidence(
        wrong,
        shuffled=rows.shuffled,
        assumptions=(*basis, f"rewards lie in [{low:g}, {high:g}]", *order, *facts.assumed),
        checks=look(rows.watched, shuffled=rows.shuffled),
        measured_by=count_counted(by_round[decided.counted].sum(), facts.samples),
        constant=constant_action(policy),
    )
    return compose_worth(weighing, facts, sure)


def measure_policy(
    rows: Weighable, certificate: Certificate, *, delta: float | None = None, model: RewardModel | None = None
) -> Worth | None:
    """Return bounds on the value and the gains of a certificate's policy; rows: its own, arranged as it states.

    None if the rows give no bound. delta: the probability that each interval is wrong (default: the certificate's).
    """
    c, counts, by_round = certificate, rows.counts, rows.rows_by_round
    if c.any_file_order and c.along_file is None:  # read from a file
        c = replace(c, along_file=look_along_file(rows.watched))
    used = model_from_json(c.model) if model is None else check_model(model)
    wrong = c.delta if delta is None else check_delta(delta)
    part, slack, log_size = part_of_policy(c, counts), 0.0, 0.0 if c.leaders is not None else c.log_size
    if not math.isfinite(log_size):
        return None
    needed = certificate_threshold(log_size=log_size, delta=part * wrong / 2.0)
    stakes = stakes_for(rows, used, spared=c.bets.spared, nats=needed)
    if c.leaders is None:
        decided = Decided.always(c.policy, stakes.bets.units > 0)
    else:
        stakes = stakes if c.by_rule else trial_stakes(c.bets, c.leaders)
        found = decide_led(c.policy, c.leaders, stakes, counts)
        if found is None:
            return None
        decided, slack = found
    weighing = rows.weigh(decided, stakes, used)
    sure = Confidence(
        wrong,
        log_size,
        slack,
        part,
        shuffled=c.shuffled,
        assumptions=c.assumptions,
        checks=c.told,
        measured_by=rows_words(by_round[decided.counted].sum(), by_round.sum(), led=c.leaders is not None),
        constant=constant_action(c.policy),
    )
    return compose_worth(weighing, rows.facts, sure)


def part_of_policy(c: Certificate, counts: FloatArray) -> float:
    """Return the share of δ of a certificate's policy: that of its start, as one of several policies by the data."""
    part = 1.0 if c.leaders is None else c.leaders.part(counts)
    if c.improvement is None:
        return part
    kept = c.improvement.recommended is None
    return part * recommended_part(control=kept, candidates=len(c.improvement.candidates))


def decide_led(policy: Chosen, leaders: Leaders, stakes: Stakes, counts: FloatArray) -> tuple[Decided, float] | None:
    """Return who decides in each round, given leaders, and the largest difference between θ and the policy's value.

    None if no leader has any weight. counts (rounds,): interactions, or units, of each round.
    """
    units = stakes.bets.units
    moves, ends = plan_moves(leaders, units=units, counts=counts)
    if not ends.any():
        return None
    return Decided.led(leaders, moves, units > 0), slack_of(policy, leaders.policies, ends / ends.sum())


def slack_of(policy: Chosen, leaders: Sequence[Policy], shares: FloatArray) -> float:
    """Bound the difference between the certified policy's value and θ: by the dropped weight (see `ledger.choose`).

    And by what its weights differ from those of the leaders in θ, if these had other stakes.
    """
    parts, weights = parts_of(policy), policy.weights if isinstance(policy, Mixture) else (1.0,)
    own = {j: w for j, leader in enumerate(leaders) for one, w in zip(parts, weights, strict=True) if leader is one}
    if not own:  # read from a file: compared by their JSON
        told = [one.to_json() for one in parts]
        there = [(j, one.to_json()) for j, one in enumerate(leaders)]
        own = {j: weights[told.index(one)] for j, one in there if one in told}
    kept = list(own)
    dropped, held = np.abs(np.delete(shares, kept)).sum(), shares[kept].sum()
    other = 0.5 * np.abs(shares[kept] / held - np.array(list(own.values()))).sum() if held > 0 else 0.0
    off = float(dropped + abs(1.0 - held)) + (float(other) if other > MAX_WEIGHT_ROUNDING else 0.0)
    return off if off > MAX_WEIGHT_ROUNDING else 0.0

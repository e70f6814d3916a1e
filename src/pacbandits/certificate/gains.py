"""The gain of a policy over today's practice: candidates, the proof that one is better, and the recommendation.

A log is often asked "is this better than what we do now, by how much at least?" before "is it the best?". For a leader
q_t and a control c, both fixed before round t, the score of q_t less that of c is unbiased for V(q_t) − V(c), and bets
on it bound the gain from below (`pacbandits.certificate.intervals`). Only two policies are compared, so that no union
over the class is paid, and stakes suit the number of rows if that is known (`pacbandits.certificate.stakes`).

There are at most two candidates: the rule that the class leads with, and one action for everybody, each by leaders of
its own. Each has a part of δ that is fixed before the first row, so that both bounds hold together, and the
recommendation may be chosen by them: the candidate with the largest proven gain, or control if none is above 0. (Parts
that depend on whether the two have settled at the same policy would not be valid, as both bet before they settle.)

A guardrail limits the harm in another metric: V(q) − V(c) of that metric is at most a margin. Its two bounds are
computed in the same way, with the metric as the reward, and have parts of δ of their own; so what is said of gains and
guardrails holds together. A candidate that is proven to violate one is not recommended. For a ratio of two columns,
r/o, the reward is r − ρo with a number ρ fixed before the rows that bet, and the difference of two ratios follows from
that of these means and from the means of o (`pacbandits.confidence.ratio_part`).

The recommended policy is the certified one. Its distance from the best of the class is proven in addition, and as it is
one of three policies by the data, each has its part of δ there, too (`pacbandits.confidence.recommended_part`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from pacbandits.certificate.certificate import MIN_DENOMINATOR, Candidate, Certificate, GuardedMetric, Improvement
from pacbandits.certificate.leaders import Leaders
from pacbandits.certificate.ledger import choose, plan_moves
from pacbandits.certificate.worth import (
    Decided,
    Ends,
    Interval,
    Kind,
    MeasuredMetric,
    Weighable,
    Weighing,
    constant_action,
    decide_led,
    part_of_policy,
    stakes_for,
)
from pacbandits.confidence import candidate_part, certificate_threshold, guardrail_part, ratio_part
from pacbandits.records import Chosen, Guardrail, Log, Ratio
from pacbandits.records.metrics import AnyMetric, find_metric
from pacbandits.rewards import RewardModel, first_model


def improve_on(
    rows: Weighable,
    control: int,
    leaders: Mapping[str, Leaders],
    *,
    delta: float,
    spared: int,
    model: RewardModel,
    guardrails: Sequence[Guardrail] = (),
) -> Improvement | None:
    """Bound the gain of each candidate over control; None if no candidate has led in a round that bets.

    leaders: of each candidate, by its name. spared: the number of first rounds that taught the class. guardrails:
    limits on the harm in other metrics of the rows.
    """
    needed = certificate_threshold(delta=candidate_part(len(leaders), guardrails=len(guardrails)) * delta)
    stakes = stakes_for(rows, model, spared=spared, nats=needed)
    unit, found = rows.facts.reward_range[1] - rows.facts.reward_range[0], list[Candidate]()
    for name, own in leaders.items():
        weights = plan_moves(own, units=stakes.bets.units, counts=rows.counts)[1]
        if not weights.any():
            return None
        policy, _ = choose(own, weights)
        decided = decide_led(policy, own, stakes, rows.counts)
        assert decided is not None
        weighing, kind = rows.weigh(decided[0], stakes, model), Kind(against=control)
        low = max(weighing.wealth(kind).bound(needed) - decided[1], -1.0)
        estimate = min(max(weighing.estimate(kind), -1.0), 1.0)
        found.append(Candidate(name, policy, own, low=unit * low, estimate=unit * estimate))
    if guardrails:
        part = guardrail_part(len(leaders), guardrails=len(guardrails))
        found = [
            replace(
                one,
                guarded=tuple(
                    guard(rows, rail, control, one, delta=part * delta, spared=spared) for rail in guardrails
                ),
            )
            for one in found
        ]
    return Improvement(control, tuple(found), scale=stakes.bets.scales[0], spared=stakes.bets.spared)


def guard(
    rows: Weighable, guardrail: Guardrail, control: int, candidate: Candidate, *, delta: float, spared: int
) -> GuardedMetric:
    """Bound the difference that a guardrail limits; delta: the probability that each end is wrong."""
    metric, lead = find_metric(rows.watched.metrics, guardrail.metric), Lead(candidate.policy, candidate.leaders)
    up = guardrail.margin if guardrail.side == "<=" else -guardrail.margin
    over = Kind(against=control, times=1.0 + up if guardrail.relative else 1.0)
    found = bound_metric(rows, metric, lead, over, nats=certificate_threshold(delta=delta), spared=spared)
    assert found is not None
    return GuardedMetric(guardrail, 0.0 if guardrail.relative else up, *found[:3])


# Metrics: the mean of one, or its difference from control's, under a policy that leads.


class Lead(NamedTuple):
    """A policy and its leaders; None if it was fixed before the rows, or a union over its class is taken."""

    policy: Chosen
    leaders: Leaders | None


class MetricBets(NamedTuple):
    """Bets on the mean of a reward, in the units of that reward.

    weighing: the source of bounds. spared: the number of first rounds that do not bet. slack: the largest difference
    between the value of the policy and θ. low, unit: the smallest reward, and the width of the range.
    """

    weighing: Weighing
    spared: int
    slack: float
    low: float
    unit: float

    @classmethod
    def of(cls, own: Weighable, lead: Lead, *, nats: float, spared: int) -> MetricBets | None:
        """Return bets on the rewards of these rows; None if no leader has any weight."""
        model, (low, high) = first_model(own.early), own.facts.reward_range
        stakes, slack = stakes_for(own, model, spared=spared, nats=nats), 0.0
        decided = Decided.always(lead.policy, stakes.bets.units > 0)
        if lead.leaders is not None:
            found = decide_led(lead.policy, lead.leaders, stakes, own.counts)
            if found is None:
                return None
            decided, slack = found
        return cls(own.weigh(decided, stakes, model), stakes.bets.spared, slack, low, high - low)

    def bound(self, kind: Kind, needed: float) -> Ends:
        """Bound V(q) − f V(c), or V(q) or V(c) alone, for which f is 0."""
        # With V = low + unit · v, the difference V(q) − f V(c) is unit · (v(q) − f v(c)) + low (1 − f).
        times, slack = 0.0 if kind.against is None else kind.times, self.slack if kind.of_policy else 0.0
        rising, falling = self.weighing.wealth(kind), self.weighing.wealth(kind, sign=-1.0)
        ends = rising.bound(needed) - slack, self.weighing.estimate(kind), -falling.bound(needed) + slack
        shift, error = self.low * (1.0 - times), rising.standard_error(falling)
        low, estimate, high = (shift + self.unit * min(max(end, -times), 1.0) for end in ends)
        return Ends(low, estimate, high, None if error is None else self.unit * error)


def measure_metrics(rows: Weighable, c: Certificate) -> tuple[MeasuredMetric, ...]:
    """Return all metrics of a certificate's log under its policy; intervals hold together except with probability δ.

    rows: those of the certificate. Control is that of the proven gains.
    """
    metrics, log_size = rows.watched.metrics, 0.0 if c.leaders is not None else c.log_size
    if not metrics or not math.isfinite(log_size):
        return ()
    lead, control = Lead(c.policy, c.leaders), None if c.improvement is None else c.improvement.control
    delta = part_of_policy(c, rows.counts) * c.delta / (2.0 * len(metrics) * (1 if control is None else 2))
    nats, found = certificate_threshold(log_size=log_size, delta=delta), list[MeasuredMetric]()
    for metric in metrics:
        kinds = [Kind(against=0, times=0.0), *([] if control is None else [Kind(against=control)])]
        bounds = [bound_metric(rows, metric, lead, kind, nats=nats, spared=c.bets.spared) for kind in kinds]
        intervals = [Interval(*one) for one in bounds if one is not None]
        if len(intervals) < len(kinds):
            return ()
        over = None if control is None else intervals[1]
        if control is not None and constant_action(c.policy) == control:
            over = Interval(0.0, 0.0, 0.0)
        found.append(MeasuredMetric(metric.name, intervals[0], over))
    return tuple(found)


def bound_metric(
    rows: Weighable, metric: AnyMetric, lead: Lead, over: Kind, *, nats: float, spared: int
) -> Ends | None:
    """Bound a policy's mean of a metric less f times control's, as `over` states; None if no leader has any weight.

    nats: the log-wealth that each end takes; for a ratio, before its parts are split.
    """
    if isinstance(metric, Ratio):
        return _bound_ratio(rows, metric, lead, over, nats=nats, spared=spared)
    bets = MetricBets.of(rows.for_metric(metric.name), lead, nats=nats, spared=spared)
    return None if bets is None else bets.bound(over, nats)


def _bound_ratio(rows: Weighable, metric: Ratio, lead: Lead, over: Kind, *, nats: float, spared: int) -> Ends | None:
    """Bound R(q) − f R(c) for a ratio of means R by bounds on G, θ_c, μ_q and μ_c (`pacbandits.confidence.ratio_part`).

    An end is infinite, and the estimate is not a number, if the rows do not show that a denominator is above 0.
    """
    main, minor = (nats - math.log(ratio_part(main=main)) for main in (True, False))
    # One round at least must not bet, as it teaches the number that the ratio is compared with.
    first = min(max(spared, 1), len(rows.counts) - 1)
    below = MetricBets.of(rows.for_metric(metric.denominator.name), lead, nats=minor, spared=first)
    if below is None:
        return None
    # Without an order, rows that teach a class may come after rows that bet.
    number = ratio_before(rows.early, metric, first=below.spared) if rows.has_rounds or rows.in_order else 0.0
    above = MetricBets.of(rows.for_metric(metric.name, ratio=number), lead, nats=main, spared=first)
    assert above is not None
    assert over.against is not None
    times, control = over.times, Kind(of_policy=False, alone=over.against)
    gain, theta = above.bound(over, main), above.bound(control, minor)
    mine = below.bound(Kind(), minor)
    theirs = below.bound(control, minor) if times else mine

    def differ(gain: float, theta: float, mine: float, theirs: float) -> float:
        return (1.0 - times) * number + gain / mine + times * theta * (1.0 / mine - 1.0 / theirs)

    zero = MIN_DENOMINATOR * metric.denominator.high
    known = min(mine.estimate, theirs.estimate) > zero
    estimate = differ(gain.estimate, theta.estimate, mine.estimate, theirs.estimate) if known else math.nan
    least = 0.0 if not times and metric.numerator.low >= 0 else -math.inf  # R(q) alone has the sign of its numerator
    if min(mine.low, mine.high, theirs.low, theirs.high) <= zero:  # an upper end, if an interval is empty
        return Ends(least, estimate, math.inf)
    box = product(*((one.low, one.high) for one in (gain, theta, mine, theirs)))
    ends = [differ(*corner) for corner in box]
    return Ends(max(min(ends), least), estimate, max(ends))


def ratio_before(early: Log, metric: Ratio, *, first: int) -> float:
    """Return a number near a ratio, by the rewards known before round `first`; 0 if they tell none.

    Bounds are valid for any number that is fixed before the rows that bet.
    """
    labels = np.unique(early.rounds)
    if not 0 < first < len(labels):
        return 0.0
    weights = np.where(early.known_by(int(labels[first])), early.weights, 0.0)
    sums = list[float]()
    for column in metric.columns:
        values = np.where(weights > 0, early.for_metric(column.name).rewards, 0.0)
        sums.append(column.low * float(weights.sum()) + (column.high - column.low) * float(weights @ values))
    return sums[0] / sums[1] if sums[1] > MIN_DENOMINATOR * metric.denominator.high * float(weights.sum()) else 0.0

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
guardrails holds together. A candidate that is proven to violate one is not recommended.

The recommended policy is the certified one. Its distance from the best of the class is proven in addition, and as it is
one of three policies by the data, each has its part of δ there, too (`pacbandits.confidence.recommended_part`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pacbandits.certificate.certificate import Candidate, GuardedMetric, Improvement
from pacbandits.certificate.leaders import Leaders
from pacbandits.certificate.ledger import choose, plan_moves
from pacbandits.certificate.worth import Kind, Weighable, decide_led, stakes_for
from pacbandits.confidence import candidate_part, certificate_threshold, guardrail_part
from pacbandits.errors import InputError, plain
from pacbandits.records import Guardrail, Ratio
from pacbandits.records.metrics import find_metric
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
    metric = find_metric(rows.watched.metrics, guardrail.metric)
    if isinstance(metric, Ratio):
        raise InputError(
            f"guardrail '{plain(guardrail.spelt)}' is on a ratio, which cannot be guarded yet; guard one of its columns"
        )
    own = rows.for_metric(guardrail.metric)
    model, needed = first_model(own.early), certificate_threshold(delta=delta)
    stakes = stakes_for(own, model, spared=spared, nats=needed)
    decided = decide_led(candidate.policy, candidate.leaders, stakes, own.counts)
    assert decided is not None
    up = guardrail.margin if guardrail.side == "<=" else -guardrail.margin
    kind = Kind(against=control, times=1.0 + up if guardrail.relative else 1.0)
    weighing, unit = own.weigh(decided[0], stakes, model), metric.high - metric.low
    # With V = low + unit · v, the difference V(q) − f V(c) is unit · (v(q) − f v(c)) + low (1 − f).
    shift = metric.low * (1.0 - kind.times)
    ends = (
        weighing.wealth(kind).bound(needed) - decided[1],
        weighing.estimate(kind),
        -weighing.wealth(kind, sign=-1.0).bound(needed) + decided[1],
    )
    low, estimate, high = (shift + unit * min(max(end, -kind.times), 1.0) for end in ends)
    return GuardedMetric(guardrail, 0.0 if guardrail.relative else up, low, estimate, high)

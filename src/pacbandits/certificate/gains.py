"""The gain of a policy over today's practice: candidates, the proof that one is better, and the recommendation.

A log is often asked "is this better than what we do now, by how much at least?" before "is it the best?". For a leader
q_t and a control c, both fixed before round t, the score of q_t less that of c is unbiased for V(q_t) − V(c), and bets
on it bound the gain from below (`pacbandits.certificate.intervals`). Only two policies are compared, so that no union
over the class is paid, and stakes suit the number of rows if that is known (`pacbandits.certificate.stakes`).

There are at most two candidates: the rule that the class leads with, and one action for everybody, each by leaders of
its own. Each has a part of δ that is fixed before the first row, so that both bounds hold together, and the
recommendation may be chosen by them: the candidate with the largest proven gain, or control if none is above 0. (Parts
that depend on whether the two have settled at the same policy would not be valid, as both bet before they settle.)

The recommended policy is the certified one. Its distance from the best of the class is proven in addition, and as it is
one of three policies by the data, each has its part of δ there, too (`pacbandits.confidence.recommended_part`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pacbandits.certificate.certificate import Candidate, Improvement
from pacbandits.certificate.leaders import Leaders
from pacbandits.certificate.ledger import choose, plan_moves
from pacbandits.certificate.worth import Kind, Weighable, decide_led, stakes_for
from pacbandits.confidence import candidate_part, certificate_threshold
from pacbandits.rewards import RewardModel


def improve_on(
    rows: Weighable, control: int, leaders: Mapping[str, Leaders], *, delta: float, spared: int, model: RewardModel
) -> Improvement | None:
    """Bound the gain of each candidate over control; None if no candidate has led in a round that bets.

    leaders: of each candidate, by its name. spared: the number of first rounds that taught the class.
    """
    needed = certificate_threshold(delta=candidate_part(len(leaders)) * delta)
    stakes = stakes_for(rows, model, spared=spared, nats=needed)
    unit, found = rows.facts.reward_range[1] - rows.facts.reward_range[0], list[Candidate]()
    for name, own in leaders.items():
        weights = plan_moves(own, units=stakes.bets.units, counts=rows.counts)[1]
        if not weights.any():
            return None
        policy, _ = choose(own, weights)
        decided = decide_led(policy, own, stakes, rows.counts)
        assert decided is not None
        weighing, kind = rows.weigh(decided[0], stakes, model, needed=needed), Kind(against=control)
        low = max(weighing.wealth(kind).bound(needed) - decided[1], -1.0)
        estimate = min(max(weighing.estimate(kind), -1.0), 1.0)
        found.append(Candidate(name, policy, own, low=unit * low, estimate=unit * estimate))
    return Improvement(control, tuple(found), scale=stakes.bets.scales[0], spared=stakes.bets.spared)

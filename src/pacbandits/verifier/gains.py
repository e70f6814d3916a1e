"""The proven gains over control, derived again: leaders of candidates, stakes, and the wealth of bets on their gains.

`pacbandits.certificate.gains`, `stakes` and `intervals` state the mathematics; the arithmetic here is written from
these formulas, in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.certificate.certificate import (
    MIN_DENOMINATOR,
    ONE_ACTION,
    RULE,
    Candidate,
    Certificate,
    GuardedMetric,
)
from pacbandits.certificate.conventions import (
    CAP_SHARE,
    EXPERT_STAKES,
    MAX_STAKE,
    TUNED_MULTIPLIERS,
    TUNED_SHARES,
    TUNING_SHARE,
)
from pacbandits.certificate.leaders import NOBODY
from pacbandits.confidence import candidate_part, guardrail_part, ratio_part
from pacbandits.errors import InputError, plain
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Log, Ratio, parts_of
from pacbandits.records.metrics import find_metric
from pacbandits.verifier.figures import LeaderBook, keep_weights, mixture_of, near, same_policy
from pacbandits.verifier.order import weights_of

MAX_GAIN_ROUNDING = 1e-7  # of a gain, for rewards in [0, 1]


class GainBets(NamedTuple):
    """The stakes of experts on a gain.

    stakes (K, rounds): λ. shares (K,): of the first wealth. scale: the stake of a multiplier of 1. spared: the number
    of first rounds that do not bet.
    """

    stakes: FloatArray
    shares: FloatArray
    scale: float
    spared: int


def names_due(c: Certificate, policies: PolicyClass) -> list[str]:
    """Return the names of the candidates that a certificate must have: one action only where nothing forbids it."""
    forbidden = bool(policies.withdrawn) or policies.excludes
    restricted = forbidden or (c.learning is not None and bool(c.learning.restricted))
    return [RULE] if restricted or policies.budget < math.inf else [RULE, ONE_ACTION]


def gain_bets(
    c: Certificate, early: Log, predictions: FloatArray, counts: FloatArray, *, nats: float, fewest: int = 0
) -> GainBets:
    """Return the stakes that `certify` fixes for bets on gains.

    early: the first rows, with their rounds. predictions (n, A): of their rewards. counts (rounds,): in each round.
    nats: the log-wealth that a bound takes. fewest: the smallest number of first rounds that do not bet.
    """
    spared = max(c.bets.spared, min(fewest, len(counts) - 1))
    if not c.shuffled or len(counts) < 2:
        units = np.full(len(counts), min(1.0, MAX_STAKE / max(EXPERT_STAKES)))
        units[:spared] = 0.0
        even = np.full(len(EXPERT_STAKES), 1.0 / len(EXPERT_STAKES))
        return GainBets(np.outer(EXPERT_STAKES, units), even, 1.0, spared)
    first, seen = 0, 0.0
    while first == 0 or first < spared or seen < TUNING_SHARE * counts.sum():
        seen += counts[first]
        first += 1
    first = min(first, len(counts) - 1)
    rows = np.flatnonzero(early.rounds < first)
    taught, weights = early.take(rows), weights_of(early.take(rows))
    played = np.arange(taught.n_actions) == taught.actions[:, None]
    off = (taught.rewards[:, None] - predictions[rows]) / taught.played_propensities[:, None]
    scores = predictions[rows] + np.where(played, off, 0.0)
    whole = weights.sum()
    means, propensity = weights @ scores / whole, weights @ taught.propensities / whole
    squares = weights @ (scores - means) ** 2 + np.maximum(propensity, 1e-6) ** -2
    variance = 2.0 * float(squares.mean()) / (whole + 1.0)
    scale = math.sqrt(2.0 * nats / (counts[first:].sum() * variance))
    units = np.full(len(counts), min(scale, MAX_STAKE / max(TUNED_MULTIPLIERS)))
    units[:first] = 0.0
    return GainBets(np.outer(TUNED_MULTIPLIERS, units), np.array(TUNED_SHARES), scale, first)


@dataclass(frozen=True, eq=False)
class GainRows:
    """The scores of a candidate's leaders against control, and the wealth of bets on them.

    book: its leaders and the weight that moves between them.
    control: the action that it is compared with.
    stakes (K, rounds): λ.
    times: the factor of control's value.
    sign: −1 for bets on the negative of the difference.
    led: whether the leaders' value counts; else only control's.
    """

    book: LeaderBook
    control: int
    stakes: FloatArray
    times: float = 1.0
    sign: float = 1.0
    led: bool = True

    @property
    def counted(self) -> BoolArray:
        """Which rounds (rounds,) count: those with a leader and a stake."""
        return (np.array(self.book.leaders.turns) != NOBODY) & (self.stakes[0] > 0)

    def weights(self, rows: Log, rounds: IntArray) -> FloatArray:
        """Return u (n, A): 1 at the leader's action, moved weight at others', −1 at control."""
        out, leaders = np.zeros((len(rows), rows.n_actions)), self.book.leaders
        here: list[int] = np.unique(rounds).tolist()
        for number in here:
            turn, moves = leaders.turns[number], self.book.moves[number]
            if not self.counted[number]:
                continue
            mine = np.flatnonzero(rounds == number)
            contexts = rows.contexts.take(mine)
            if self.led:
                out[mine, leaders.policies[turn](contexts)] += 1.0 + sum(moves.values())
            for j, share in moves.items() if self.led else ():
                out[mine, leaders.policies[j](contexts)] -= share
            out[mine, self.control] -= self.times
        return self.sign * out

    def plain_scores(
        self, rows: Log, rounds: IntArray, predictions: FloatArray, *, most: float = math.inf
    ) -> FloatArray:
        """Return S (n,) with predictions as they are; a pending reward counts as predicted.

        most: the largest importance-weighted residual; larger ones are cut.
        """
        u, numbers = self.weights(rows, rounds), np.arange(len(rows))
        off = np.clip((rows.rewards - predictions[numbers, rows.actions]) / rows.played_propensities, -most, most)
        return (u * predictions).sum(axis=1) + u[numbers, rows.actions] * np.where(np.isnan(off), 0.0, off)

    def wealth(self, rows: Log, rounds: IntArray, predictions: FloatArray, centres: FloatArray) -> FloatArray:
        """Return Σ w log(1 + λ(S − m)) of each expert (K,); −∞ if a row leaves an expert no room.

        centres (rounds,): m. Predictions are cut so that no reward can ruin an expert.
        """
        u, p, numbers = self.weights(rows, rounds), rows.bounds, np.arange(len(rows))
        counted, weights, centre = self.counted[rounds], weights_of(rows), centres[rounds]
        negative, out = np.maximum(-u, 0.0).sum(axis=1), np.zeros(len(self.stakes))
        worst = np.where(u[numbers, rows.actions] > 0, 0.0, 1.0)
        reward = np.where(np.isnan(rows.rewards), worst, rows.rewards)
        for k, own in enumerate(self.stakes):
            stake = own[rounds]
            with np.errstate(divide="ignore"):
                room = CAP_SHARE / stake - np.maximum(centre, 0.0) - negative
            if (room[counted] <= 0).any():
                out[k] = -np.inf
                continue
            with np.errstate(divide="ignore", invalid="ignore"):
                most = room[:, None] * p / np.abs(u)
            f = np.where(u > 0, np.minimum(predictions, most), np.maximum(predictions, 1.0 - most))
            f = np.where(u == 0, 0.0, f)
            here = u[numbers, rows.actions]
            score = (u * f).sum(axis=1) + here * (reward - f[numbers, rows.actions]) / rows.played_propensities
            grown = np.log1p(np.where(counted, stake * (score - centre), 0.0))
            out[k] = float((weights * grown)[counted].sum())
        return out


def centres_of(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """Return m (rounds,): the mean score of the rounds before, 0 if none counts; between −1 and 1."""
    before, seen = np.cumsum(sums) - sums, np.cumsum(counts) - counts
    return np.clip(np.divide(before, seen, out=np.zeros_like(sums), where=seen > 0), -1.0, 1.0)


def lower_bound(wealth: FloatArray, totals: FloatArray, shares: FloatArray, *, needed: float) -> float:
    """Return the largest g at which Σ_k share_k e^{wealth_k − g total_k} is e^needed; −∞ if no expert can bet."""
    able = np.isfinite(wealth) & (totals > 0)
    if not able.any():
        return -math.inf
    start, slope = wealth[able] + np.log(shares[able]) - needed, totals[able]
    low, high = float((start / slope).max()), float(((start + math.log(len(start))) / slope).max())
    while high - low > 1e-12 * max(1.0, abs(low)):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        if np.logaddexp.reduce(start - middle * slope) >= 0:
            low = middle
        else:
            high = middle
    return low


class RowsOfGains(Protocol):
    """The rows that gains are computed from; `rule.VerifiedRows` describes the members."""

    @property
    def counts(self) -> FloatArray: ...
    @property
    def early(self) -> Log: ...
    @property
    def predictions(self) -> FloatArray: ...
    @property
    def row_rounding(self) -> float:
        """The most by which the log-wealth of a row may be lower in a certificate."""
        ...

    def gain_scores(self, gains: GainRows) -> tuple[FloatArray, FloatArray]: ...
    def gain_wealth(self, gains: GainRows, centres: FloatArray) -> FloatArray: ...
    def for_metric(self, name: str, *, ratio: float | None = None) -> RowsOfGains: ...


def bound_again(rows: RowsOfGains, gains: GainRows, bets: GainBets, *, needed: float) -> tuple[float, float]:
    """Return the lower bound on a difference, or its negative, and the estimate, for rewards in [0, 1]."""
    sums, centres = rows.gain_scores(gains)
    counted = rows.counts * gains.counted
    totals = bets.stakes @ counted
    wealth = rows.gain_wealth(gains, centres) + bets.stakes @ (counted * centres)
    estimate = float(bets.stakes[0] @ (sums * gains.counted) / totals[0])
    return lower_bound(wealth, totals, bets.shares, needed=needed), estimate


def wrong_gains(c: Certificate, rows: RowsOfGains, policies: PolicyClass) -> Iterator[str]:
    """Yield the faults of the proven gains: candidates, stakes, guardrails, and the bound and estimate of each."""
    found, counts = c.improvement, rows.counts
    if found is None:
        return
    if [one.name for one in found.candidates] != names_due(c, policies):
        yield "the candidates are not those that certify compares with control"
        return
    number, guardrails = len(found.candidates), found.guardrails
    needed = -math.log(candidate_part(number, guardrails=len(guardrails)) * c.delta)
    bets = gain_bets(c, rows.early, rows.predictions, counts, nats=needed)
    if found.spared != bets.spared or not near(found.scale, bets.scale):
        yield "the stakes on gains are not those that certify fixes in advance"
        return
    rounding = rows.row_rounding / bets.stakes[bets.stakes > 0].min(initial=1.0)  # of a sum of wealth, over all stakes
    for one in found.candidates:
        book = keep_weights(one.leaders, bets.stakes[0], counts)
        faults, slack = wrong_end(one, book)
        yield from faults
        if faults:
            continue
        low, estimate = bound_again(rows, GainRows(book, found.control, bets.stakes), bets, needed=needed)
        low, estimate = low - slack, min(max(estimate, -1.0), 1.0)
        if not one.low / c.unit <= max(low, -1.0) + MAX_GAIN_ROUNDING:
            yield f"the gain of the {one.name} over control is proven above {c.unit * low:.6g}, not {one.low:.6g}"
        elif not one.low / c.unit >= max(low, -1.0) - MAX_GAIN_ROUNDING - rounding:
            yield f"a gain of the {one.name} of {c.unit * low:.6g} is proven, and the certificate has {one.low:.6g}"
        if not abs(one.estimate / c.unit - estimate) <= 1e-6:
            yield f"the estimated gain of the {one.name} is {c.unit * estimate:.6g}, not {one.estimate:.6g}"
        for rail in one.guarded:
            nats = -math.log(guardrail_part(number, guardrails=len(guardrails)) * c.delta)
            yield from wrong_guardrail(c, rows, found.control, one, rail, needed=nats)


def wrong_guardrail(
    c: Certificate, rows: RowsOfGains, control: int, one: Candidate, rail: GuardedMetric, *, needed: float
) -> Iterator[str]:
    """Yield the faults of a guardrail's figures."""
    guardrail = rail.guardrail
    up = guardrail.margin if guardrail.side == "<=" else -guardrail.margin
    times, limit = 1.0 + up if guardrail.relative else 1.0, 0.0 if guardrail.relative else up
    try:
        metric = find_metric(rows.early.metrics, guardrail.metric)
        if isinstance(metric, Ratio):
            low, estimate, high = ratio_again(c, rows, metric, one, control, times=times, needed=needed)
            off = 1e-6 * (high - low if high < math.inf else abs(estimate))
        else:
            low, estimate, high = mean_again(c, rows.for_metric(metric.name), one, control, times=times, needed=needed)
            off = MAX_GAIN_ROUNDING * (metric.high - metric.low)
    except InputError as error:
        yield f"a guardrail cannot be checked: {error}"
        return
    # Wider bounds would be valid, too, but could hide that a guardrail is violated: the recommendation goes by that.
    same = alike(rail.low, low, off=off) and alike(rail.high, high, off=off)
    if not (same and alike(rail.estimate, estimate, off=10.0 * off)):
        yield f"guardrail '{plain(guardrail.spelt)}' of the {one.name} is proven between {low:.6g} and {high:.6g}"
    if not near(rail.limit, limit):
        yield f"guardrail '{plain(guardrail.spelt)}' allows {limit:.6g}, not {rail.limit:.6g}"


def alike(a: float, b: float, *, off: float) -> bool:
    """Return whether two figures differ by at most `off`; or are both infinite, or both unknown."""
    return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= off


def mean_again(
    c: Certificate,
    own: RowsOfGains,
    one: Candidate,
    control: int,
    *,
    times: float,
    needed: float,
    fewest: int = 0,
    led: bool = True,
    wealth: float | None = None,
) -> tuple[float, float, float]:
    """Return bounds on V(q) − times · V(control), and the estimate, in the units of the reward: low, estimate, high.

    needed: the log-wealth that stakes are for, and that a bound takes unless `wealth` is given. fewest: as for
    `gain_bets`. led: False for −times · V(control) alone.
    """
    bets = gain_bets(c, own.early, own.predictions, own.counts, nats=needed, fewest=fewest)
    book, takes = keep_weights(one.leaders, bets.stakes[0], own.counts), needed if wealth is None else wealth
    slack = wrong_end(one, book)[1] if led else 0.0
    rising, falling = (GainRows(book, control, bets.stakes, times=times, sign=sign, led=led) for sign in (1.0, -1.0))
    low, estimate = bound_again(own, rising, bets, needed=takes)
    high = -bound_again(own, falling, bets, needed=takes)[0]
    least, unit = own.early.reward_range[0], own.early.reward_range[1] - own.early.reward_range[0]
    first, last = -max(times, 0.0), (1.0 if led else 0.0) + max(-times, 0.0)
    shift = least * ((1.0 if led else 0.0) - times)
    low, estimate, high = (min(max(end, first), last) for end in (low - slack, estimate, high + slack))
    return shift + unit * low, shift + unit * estimate, shift + unit * high


def ratio_again(
    c: Certificate, rows: RowsOfGains, metric: Ratio, one: Candidate, control: int, *, times: float, needed: float
) -> tuple[float, float, float]:
    """Return bounds on R(q) − times · R(control) of a ratio of means, and the estimate, by `confidence.ratio_part`."""
    main, minor = needed - math.log(ratio_part(main=True)), needed - math.log(ratio_part(main=False))
    below = rows.for_metric(metric.denominator.name)
    spared = gain_bets(c, below.early, below.predictions, below.counts, nats=minor, fewest=1).spared
    number = number_before(rows.early, metric, spared=spared)
    above = rows.for_metric(metric.name, ratio=number)
    difference = mean_again(c, above, one, control, times=times, needed=main, fewest=1)
    theta = mean_again(c, above, one, control, times=-1.0, needed=main, fewest=1, led=False, wealth=minor)
    policy = mean_again(c, below, one, control, times=0.0, needed=minor, fewest=1)
    practice = mean_again(c, below, one, control, times=-1.0, needed=minor, fewest=1, led=False)
    zero, start = MIN_DENOMINATOR * metric.denominator.high, number - times * number
    estimate = math.nan
    if min(policy[1], practice[1]) > zero:
        mine = (difference[1] + times * theta[1]) / policy[1]
        estimate = start + mine - times * theta[1] / practice[1]
    if min(policy[0], policy[2], practice[0], practice[2]) <= zero:
        return -math.inf, estimate, math.inf
    ends = [list[float](), list[float]()]
    for end, out in zip((difference[0], difference[2]), ends, strict=True):
        for off in (theta[0], theta[2]):
            for mine in (policy[0], policy[2]):
                out += [
                    start + (end + times * off) / mine - times * off / other for other in (practice[0], practice[2])
                ]
    return min(ends[0]), estimate, max(ends[1])


def number_before(early: Log, metric: Ratio, *, spared: int) -> float:
    """Return the number that a ratio is compared with: the ratio by the rewards known before the first bets."""
    known = early.known_by(sorted(set(early.rounds.tolist()))[spared])
    if not known.any():
        return 0.0
    weights, then = weights_of(early)[known], early.only(known)
    totals = [
        float(np.sum(weights * (column.low + (column.high - column.low) * then.for_metric(column.name).rewards)))
        for column in metric.columns
    ]
    if totals[1] <= MIN_DENOMINATOR * metric.denominator.high * weights.sum():
        return 0.0
    return totals[0] / totals[1]


def wrong_end(one: Candidate, book: LeaderBook) -> tuple[list[str], float]:
    """Return faults if a candidate's policy is not what its leaders came to; and the slack of its value."""
    if not book.shares.any():
        return [f"no leader of the {one.name} has any weight"], 0.0
    kept, weights, _ = mixture_of(book)
    drawn = parts_of(one.policy)
    own = getattr(one.policy, "weights", (1.0,))
    alike = len(drawn) == len(kept) and all(
        same_policy(policy, book.leaders.policies[j]) for policy, j in zip(drawn, kept, strict=True)
    )
    slack = float(np.abs(np.delete(book.shares, kept)).sum() + abs(1.0 - book.shares[kept].sum()))
    if not alike or not np.allclose(own, weights, rtol=0, atol=1e-9):
        return [f"the {one.name} is not the policy that its leaders came to"], slack
    return [], slack if slack > 1e-9 else 0.0

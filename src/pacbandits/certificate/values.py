"""How good a policy is: its value, and its lead over single actions, with intervals that hold at all times together.

Let θ = Σ_t λ_t μ_t / Λ, Λ = Σ_t λ_t, where before every row a stake λ_t > 0 and coefficients u_t(c, a) are fixed and
μ_t = E Σ_a u_t(c, a) r(c, a). For a policy π that was fixed before the log u is 1 at a = π(c), and θ = V(π); for the
leaders of rounds it is what `pacbandits.certificate.leaders` moves, and θ the value of the lottery between them; with 1
taken off at an action, or at what another policy does, θ is the lead over that. With any predictions f fixed before,

    S_t = Σ_a u_t(c, a) f(c, a) + u_t(c, a_t) (r − f(c, a_t))/p(a_t)

has mean μ_t. As E[1 + λ_t(S_t − m_t)] ≤ exp(λ_t(μ_t − m_t)) for a centre m_t fixed before the round,

    Π_t (1 + λ_t(S_t − m_t)) exp(−λ_t(μ_t − m_t))

is a nonnegative supermartingale where no factor is negative, and by Ville's inequality, except with probability α, at
all times together

    θ > (Σ_t log(1 + λ_t(S_t − m_t)) + Σ_t λ_t m_t − log(1/α))/Λ.

Each of K experts, whose stakes are in proportion and so speak of the same θ, has α/K. The same of −S bounds θ above. No
factor is negative, as predictions are cut: where a reward of 0 (or 1, for u < 0) could ruin an expert, f is made so
small (or large) that it does not, which changes no mean.

Rewards that are not in make S as small as they could, so that the bound is no larger than it will be; and the centre of
a round is made from rewards that were known before it, so that it is the same at every look (see `trials.late`).

The best single action a* is one fixed action, if an unknown one. So for a bound from below on the lead over it every
action's bound may use all of α: the least of them holds whenever that of a* does. From above it takes a union over
actions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.certificate.bets import CAP_SHARE, Bets
from pacbandits.certificate.bounding import add_log_wealth, slack_of
from pacbandits.certificate.certificate import ORDERED, ROUNDS, SHUFFLED, UNITS_SHUFFLED, Certificate, basic_assumptions
from pacbandits.certificate.conventions import EXPERT_STAKES, arrange, has_rounds, planned_ends, rearrange
from pacbandits.certificate.leaders import NOBODY
from pacbandits.certificate.moving import move_weight
from pacbandits.certificate.summed.front import as_engine_reads, is_large
from pacbandits.certificate.summed.laying import survey, survey_again
from pacbandits.certificate.summed.worth import evaluate_surveyed, measure_surveyed
from pacbandits.certificate.watching import look
from pacbandits.certificate.worth import Confidence, Kind, Worth, compose_worth, rows_words
from pacbandits.checks import flag, instance
from pacbandits.compiled import over_cores
from pacbandits.confidence import check_delta
from pacbandits.engines import Engine, Local, LogSource, Source
from pacbandits.engines.registry import STREAM, THREADS, using_engine
from pacbandits.errors import InputError
from pacbandits.records import Chosen, Log, Lottery, check_log
from pacbandits.records.lottery import check_chosen
from pacbandits.rewards import RewardModel, check_model, first_model, model_from_json, predict_by_round
from pacbandits.rewards.halves import scrambled

ROWS_AT_A_TIME = 2**14  # by one core
MAX_RANKED_ROWS = 2**24  # whose places in a shuffle are found in memory


def evaluate(
    log: Log | Source,
    policy: Chosen,
    *,
    delta: float = 0.05,
    ordered: bool = False,
    shuffle: bool = False,
    model: RewardModel | None = None,
    engine: Engine | str | None = None,
) -> Worth:
    """Bound the value and the gains of a policy that was not chosen by this log.

    log: what was seen and done; or files of it that are open, which may be larger than memory.
    policy: any, or a mixture of some. ordered, shuffle, model, engine: as for `certify`.
    """
    check_chosen(policy)
    in_order, any_order = flag(ordered, name="ordered"), flag(shuffle, name="shuffle")
    if engine is not None or not isinstance(log, Log) or is_large(log):
        source = log if isinstance(log, Source) else LogSource(check_log(log))
        usual = THREADS if isinstance(log, Log) else STREAM
        with using_engine(usual if engine is None else engine) as who:
            read = as_engine_reads(source, who.name)
            surveyed = survey(read, engine=who, spec=None, ordered=in_order, shuffle=any_order, digested=False)
            return evaluate_surveyed(surveyed, policy, engine=who, delta=delta, model=model)
    blocks, mixed = arrange(check_log(log), ordered=in_order, shuffle=any_order)
    if policy.n_actions != log.n_actions:
        raise InputError(f"the policy is for {policy.n_actions} actions, and the log has {log.n_actions}")
    used = first_model(blocks) if model is None else check_model(model)
    rounds = int(np.unique(blocks.rounds).size)
    weights = _probabilities(policy, blocks)
    bets = Bets(EXPERT_STAKES, (1.0,) * rounds)
    weighing = _Rows(blocks, predict_by_round(blocks, used), weights, bets, _bet_on(blocks, bets))
    basis = basic_assumptions(units=log.units is not None, shuffled=mixed, in_order=has_rounds(log) or in_order)
    mixing = SHUFFLED if log.units is None else UNITS_SHUFFLED
    order = (mixing,) if mixed else (ROUNDS,) if has_rounds(log) else (ORDERED,) if in_order else ()
    low, high = log.reward_range
    assumed = (*basis, f"rewards lie in [{low:g}, {high:g}]", *order, *blocks.assumed)
    rows = int(blocks.repeats.sum())
    claim = Confidence(
        check_delta(delta), shuffled=mixed, assumptions=assumed, checks=look(log), measured_by=f"all {rows:,} rows"
    )
    return compose_worth(weighing, blocks, claim, n_actions=log.n_actions, experts=len(bets))


def measure_worth(
    certificate: Certificate, log: Log, *, delta: float | None = None, model: RewardModel | None = None
) -> Worth | None:
    """How good the policy of a certificate is, from the log it was made from; None where that cannot be told.

    log: as it was read. delta: with what probability each interval may be wrong, by default that of the certificate.
    """
    c = instance(certificate, Certificate, name="certificate")
    if c.summed:
        who = Local(THREADS)
        surveyed = survey_again(c, LogSource(c.of(check_log(log))), engine=who)
        return measure_surveyed(c, surveyed, engine=who, delta=delta, model=model)
    blocks = rearrange(c.of(check_log(log)), ordered=c.ordered, shuffle=c.shuffled)
    cut = blocks if c.learning is None else c.learning.set_apart(blocks)
    used = model_from_json(c.model) if model is None else check_model(model)
    part, log_size, slack, counted = 1.0, 0.0, 0.0, _bet_on(cut, c.bets)
    if c.leaders is None:
        if not math.isfinite(c.log_size):
            return None
        weights, log_size = _probabilities(c.policy, cut), c.log_size
    else:
        counts = cut.round_sizes
        against, ends = move_weight(c.leaders, cut.contexts, units=c.bets.units, counts=counts)
        if not ends.any():
            return None
        weights = np.zeros((len(cut), cut.n_actions))
        _, rounds = np.unique(cut.rounds, return_inverse=True)
        turns, rows = against.turns[rounds], np.arange(len(cut))
        led = turns != NOBODY
        counted &= led
        moved = against.moves[rounds]
        own = against.actions[turns, rows]
        np.add.at(weights, (rows[led], own[led]), 1.0 + moved[led].sum(axis=1))
        for j in range(len(c.leaders.policies)):
            np.subtract.at(weights, (rows[led], against.actions[j, rows[led]]), moved[led, j])
        part, slack = c.leaders.part(counts), slack_of(c.policy, c.leaders.policies, ends / ends.sum())
    found = _Rows(cut, predict_by_round(blocks, used), weights, c.bets, counted)
    wrong = c.delta if delta is None else check_delta(delta)
    claim = Confidence(
        wrong,
        log_size,
        slack,
        part,
        shuffled=c.shuffled,
        assumptions=c.assumptions,
        checks=c.checks,
        measured_by=rows_words(cut.repeats[counted].sum(), cut.repeats.sum(), led=c.leaders is not None),
    )
    return compose_worth(found, cut, claim, n_actions=cut.n_actions, experts=len(c.bets))


def rows_held_out(certificate: Certificate, log: Log) -> Log | None:
    """The rows that had no part in choosing the policy of a certificate: those after its leader has settled.

    log: as it was read; or of files one row of so many, from the first on. None where there are no such rows, or the
    files have too many to tell which they are.
    """
    c, leaders = certificate, certificate.leaders
    if leaders is None or leaders.settled is None or c.policy is not leaders.last:
        return None
    if c.summed:
        numbers = np.arange(0, c.rows, -(-c.rows // len(log)), dtype=np.uint64)
        if len(numbers) != len(log) or c.rows > MAX_RANKED_ROWS:
            return None
        place = int(planned_ends(c.rows)[leaders.settled - 1])
        if place >= c.rows:
            return None
        first = np.partition(scrambled(np.arange(c.rows, dtype=np.uint64)), place)[place]
        return log.only(scrambled(numbers) >= first)
    blocks = rearrange(c.of(log), ordered=c.ordered, shuffle=c.shuffled)
    cut = blocks if c.learning is None else c.learning.set_apart(blocks)
    _, rounds = np.unique(cut.rounds, return_inverse=True)
    kept = rounds >= leaders.settled
    return cut.only(kept) if kept.any() else None


class _Rows(NamedTuple):
    """What intervals are made from.

    log: n rows.
    predictions (n, A): made before the round of each.
    weights (n, A): u.
    bets: what each expert stakes in each round.
    counted (n,): which rows speak of θ: those that are bet on.
    """

    log: Log
    predictions: FloatArray
    weights: FloatArray
    bets: Bets
    counted: BoolArray

    def below(self, kind: Kind, *, needed: float, sign: float = 1.0) -> float:
        """As `Weighing` has it."""
        return bound_below(self._of(kind), needed=needed, sign=sign)

    def estimate(self, kind: Kind) -> float:
        """As `Weighing` has it."""
        return _estimate(self._of(kind))

    def _of(self, kind: Kind) -> _Rows:
        return self._replace(weights=kind.weights(self.weights, self.counted))


def bound_below(rows: _Rows, *, needed: float, sign: float = 1.0) -> float:
    """The largest number that θ (or −θ, with a sign of −1) exceeds by the experts' wealth; −∞ if none."""
    log, weights = rows.log, sign * rows.weights
    _, rounds = np.unique(log.rounds, return_inverse=True)
    counted, centres = rows.counted, _centres(rows, weights, rounds)
    stakes = np.array([rows.bets.stakes(expert) for expert in range(len(rows.bets))])
    per_round = np.bincount(rounds, weights=counted * log.weights, minlength=stakes.shape[1])
    totals, middles = stakes @ per_round, stakes @ (per_round * centres)
    repeats, played = log.weights, log.played_propensities
    # Kernels are compiled once, for arrays that are contiguous and writeable; others are copied.
    known, predictions = (np.require(one, requirements=("C", "W")) for one in (log.bounds, rows.predictions))
    wealth = np.zeros((len(log) // ROWS_AT_A_TIME + 1, len(stakes)))

    def add(first: int, last: int) -> None:
        for part in range(first, last):
            here = slice(part * ROWS_AT_A_TIME, (part + 1) * ROWS_AT_A_TIME)
            add_log_wealth(
                log.actions[here],
                log.rewards[here],
                repeats[here],
                played[here],
                known[here],
                predictions[here],
                weights[here],
                counted[here],
                rounds[here],
                stakes,
                centres,
                CAP_SHARE,
                wealth[part],
            )

    over_cores(add, count=len(wealth))
    bounds = (wealth.sum(axis=0) + middles - needed) / totals
    return float(bounds.max())


def _centres(rows: _Rows, weights: FloatArray, rounds: IntArray) -> FloatArray:
    """m (rounds,): the mean of S over the rounds before, and 0 in the first that counts; between −1 and 1.

    Of rewards that come late, over the rows whose rewards were known before the round.
    """
    log, counted = rows.log, rows.counted
    scores, n_rounds = _plain_scores(rows, weights), int(rounds.max()) + 1
    mine = counted * log.weights
    if log.known is not None:
        known = [mine * log.known_by(int(number)) for number in np.unique(log.rounds)]
        return np.clip([float(own @ scores / own.sum()) if own.any() else 0.0 for own in known], -1.0, 1.0)
    sums = np.bincount(rounds, weights=mine * scores, minlength=n_rounds)
    counts = np.bincount(rounds, weights=mine, minlength=n_rounds)
    before, seen = np.cumsum(sums) - sums, np.cumsum(counts) - counts
    return np.clip(np.divide(before, seen, out=np.zeros(n_rounds), where=seen > 0), -1.0, 1.0)


def _plain_scores(rows: _Rows, weights: FloatArray) -> FloatArray:
    """S (n,), with predictions as they are; of a reward that is not in the prediction takes the place."""
    log, f, at = rows.log, rows.predictions, np.arange(len(rows.log))
    off = np.where(log.awaited, 0.0, (log.rewards - f[at, log.actions]) / log.played_propensities)
    return (weights * f).sum(axis=1) + weights[at, log.actions] * off


def _estimate(rows: _Rows) -> float:
    """θ, estimated: the mean of S by stakes."""
    _, rounds = np.unique(rows.log.rounds, return_inverse=True)
    stakes = np.where(rows.counted, rows.bets.units[rounds], 0.0) * rows.log.weights
    return float((stakes * _plain_scores(rows, rows.weights)).sum() / stakes.sum())


def _bet_on(log: Log, bets: Bets) -> BoolArray:
    """The rows (n,) of a log that are not spared."""
    _, rounds = np.unique(log.rounds, return_inverse=True)
    return bets.units[rounds] > 0


def _probabilities(policy: Chosen, log: Log) -> FloatArray:
    """With what probability (n, A) each action is taken."""
    if isinstance(policy, Lottery):
        return policy.propensities(log.contexts)
    out = np.zeros((len(log), log.n_actions))
    out[np.arange(len(log)), policy(log.contexts)] = 1.0
    return out

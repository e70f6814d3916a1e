"""Check a certificate against its log, without the code that made it.

Scores and wealth are computed again, slowly and plainly, from the definition in `pacbandits.certificate.ledger`; the
minimum over the class by the class's own oracle. What cannot be checked from a log is what the certificate lists as its
assumptions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.conventions import delta_part, rearrange, worth_leading
from pacbandits.certificate.leaders import MAX_SLACK, MIN_LOTTERY_WEIGHT, NOBODY, START_GROWTH_FACTOR, Leaders
from pacbandits.certificate.membership import belongs, same_policy
from pacbandits.certificate.rescoring import ScoredRows, score
from pacbandits.certificate.rivals_again import faults_of_best, least_refuted_rival, unseen_again
from pacbandits.checks import instance
from pacbandits.confidence import UNSEEN_PART, start_part
from pacbandits.errors import count_of
from pacbandits.policies.base import (
    ClosedClass,
    EnumeratedClass,
    FrontierClass,
    PolicyClass,
    check_class,
)
from pacbandits.policies.registry import digest_class
from pacbandits.records import Log, Lottery, check_log, parts_of
from pacbandits.records.digest import digest_log
from pacbandits.rewards import RewardModel, check_model, model_from_json, predict_by_round

WEALTH_ROUNDING = 1e-6  # how far a log-wealth computed anew may be off, in nats, or as a share of a larger one
ROWS_AT_A_TIME = 2**14  # to be light on memory


@dataclass(frozen=True)
class Verdict:
    """What came of a recheck.

    faults: what does not hold, in words; none when the certificate is good.
    value: the least log-wealth, computed anew; None where it did not come to that.
    checked: what was derived again beside the claim, in words.
    trusted: what could have been derived again had there been more to go by, in words.
    alarms: where the log speaks against what the claim rests on, in words; the proof may be right all the same.
    """

    faults: tuple[str, ...]
    value: float | None
    checked: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not self.faults


def verify(certificate: Certificate, log: Log, policies: PolicyClass, *, model: RewardModel | None = None) -> Verdict:
    """Recheck every claim of a certificate; `model` is for those whose own cannot be made from its description."""
    instance(certificate, Certificate, name="certificate")
    check_log(log)
    check_class(policies)
    if certificate.ordered and len(np.unique(log.rounds)) > 1:
        return Verdict(("the certificate speaks of rows in their order, but the log has rounds",), None)
    if certificate.ordered and log.known is not None:
        return Verdict(("rewards came late, and the log has no rounds that tell which were known when",), None)
    if certificate.shuffled and log.repeats.max() > 1:
        return Verdict(("the log counts repeated interactions, which cannot be shuffled",), None)
    rows, log = len(log), rearrange(log, ordered=certificate.ordered, shuffle=certificate.shuffled)
    cut = log if certificate.learning is None else certificate.learning.set_apart(log)
    faults = _faults_on_sight(certificate, cut, policies, rows=rows)
    if faults:
        return Verdict(tuple(faults), None)
    made = model_from_json(certificate.model) if model is None else check_model(model)
    if made.to_json() != certificate.model:
        return Verdict(("the reward model given is not the one that the certificate describes",), None)
    predictions = predict_by_round(log, made)
    if not ((predictions >= 0) & (predictions <= 1)).all():
        return Verdict(("the reward model predicts what is not in [0, 1]",), None)
    if not policies.exact and not isinstance(policies, ClosedClass):
        return Verdict(("the class cannot say whether the certified policy is one of its own",), None)
    if not all(belongs(policy, log.contexts, policies) for policy in parts_of(certificate.policy)):
        return Verdict(("the certified policy is not one of the class",), None)
    needed = _needed(certificate, policies, cut)
    book = _keep_book(certificate, cut)
    moved = max(sum(taken.values()) for taken in book.moves)
    boldest = max(certificate.bets.multipliers) * certificate.bets.units.max() * (1.0 + moved)
    if max(boldest, certificate.bets.share) >= 1.0:
        faults.append("an expert stakes so much that a single row could ruin it")
    faults.extend(_wrong_lottery(certificate, book))
    if faults:
        return Verdict(tuple(faults), None)
    audit = Audit(certificate, cut, policies, predictions, book)
    if certificate.epsilon == 0:
        value = audit.least_of_rivals()
        value = value if value < np.inf else needed  # nobody acts otherwise
    else:
        value = audit.least(certificate.unit_epsilon - (certificate.slack if certificate.slack <= MAX_SLACK else 0.0))
    # An oracle that is not exact may find a little more or less, asked about rows in another form.
    off = value - certificate.value if certificate.exact else min(value - certificate.value, 0.0)
    if not abs(off) <= WEALTH_ROUNDING * max(1.0, abs(value)):
        faults.append(f"the least log-wealth is {value:.6g}, not {certificate.value:.6g}")
    if certificate.certified and not value >= needed:
        faults.append(f"a log-wealth of {value:.6g} does not reach {needed:.6g}: nothing is certified")
    if certificate.epsilon == 0 and certificate.certified:
        _, rounds = np.unique(cut.rounds, return_inverse=True)
        counted = float(_counted(cut, rounds)[certificate.bets.spared :].sum())
        part = delta_part(policies, led=False) if certificate.by_rule else 1.0
        unseen = unseen_again(cut.contexts, policies, counted=counted, delta=part * certificate.delta)
        if not _near(certificate.unit_certified_epsilon, unseen):
            told = certificate.unit_certified_epsilon
            faults.append(f"what the log has not seen may cost {unseen:.6g}, not {told:.6g}")
    elif certificate.unit_certified_epsilon != 1.0:
        if certificate.slack > MAX_SLACK:
            faults.append(f"nothing is claimed with a slack of {certificate.slack:.6g}")
            return Verdict(tuple(faults), value)
        smallest = audit.least(certificate.unit_certified_epsilon - certificate.slack)
        if not smallest >= needed - WEALTH_ROUNDING:
            faults.append(f"the data do not certify {certificate.certified_epsilon:.6g}")
    return Verdict(tuple(faults), value)


def _faults_on_sight(certificate: Certificate, log: Log, policies: PolicyClass, *, rows: int) -> list[str]:
    """What is wrong without a computation; rows: that the log had before it was arranged."""
    c, faults = certificate, list[str]()
    if digest_log(log) != c.digest:
        faults.append("the log is not the one that was certified: its digest differs")
    if digest_class(policies) != c.class_digest:
        faults.append("the policy class is not the one that was certified: its digest differs")
    if c.bets.spared != (0 if c.learning is None else c.learning.spared):
        faults.append("the rows that taught the policy class must not bet, and all others must")
    if log.samples != c.samples or rows != c.rows:
        faults.append(f"the log has {count_of(log.samples, 'interaction')}, the certificate speaks of {c.samples}")
    if (people := None if log.units is None else len(set(log.units.tolist()))) != c.units:
        told = ("no people" if count is None else f"{count:,} people" for count in (people, c.units))
        faults.append("by the log its rows are of {}, and by the certificate of {}".format(*told))
    if log.reward_range != c.reward_range:
        faults.append("the certificate and the log differ in the range of rewards, in whose units distances are")
    if log.action_names != c.action_names:
        faults.append("the certificate and the log differ in the names of actions")
    if log.dates != c.dates:
        faults.append("the certificate and the log differ in which columns are dates")
    if log.n_actions != policies.n_actions:
        faults.append(f"the log has {log.n_actions} actions, the policy class {policies.n_actions}")
    if not _near(c.log_size, policies.log_size):
        faults.append(f"the policy class has log size {policies.log_size:.6g}, the certificate {c.log_size:.6g}")
    if policies.exact is not c.exact:
        faults.append("the certificate and the policy class disagree on whether the oracle is exact")
    if (log.rewards < 0).any() or (log.rewards > 1).any():
        faults.append("rewards must lie in [0, 1]")
    reach, best = c.unit_certified_epsilon, c.epsilon == 0 and c.certified
    if not 0 < c.delta < 1 or not 0 <= c.epsilon < np.inf or not (0 < reach <= 1 or (best and reach == 0)):
        faults.append(f"epsilon {c.epsilon} (or {c.certified_epsilon}) and delta {c.delta} are no confidence statement")
    elif c.leaders is not None and not _part_of_start(c.leaders, log) > 0:
        faults.append(f"the proof may not start in round {c.leaders.start + 1}: its leader is not a new one")
    elif not _near(c.threshold, _needed(c, policies, log)):
        needed = _needed(c, policies, log)
        faults.append(f"the threshold {c.threshold:.6g} is not {needed:.6g}, as δ, the class and its leaders have it")
    if c.leaders is not None and not worth_leading(policies):
        faults.append("leaders are for large classes, and this one is proven by a union over all its policies")
    if c.epsilon == 0:
        faults.extend(faults_of_best(policies, led=c.leaders is not None))
    if c.epsilon > 0 and c.leaders is None and worth_leading(policies) and not c.by_rule:
        faults.append("a trial of a class as large as this one has leaders, and the certificate tells of none")
    faults.extend(f"the certificate does not say that it assumes: {w}" for w in log.assumed if w not in c.remarks)
    rounds = len(np.unique(log.rounds))
    if len(c.bets.scales) != rounds:
        faults.append(f"bets were made for {len(c.bets.scales)} rounds, but the log has {rounds}")
    if c.leaders is not None and any(policy.n_actions != log.n_actions for policy in c.leaders.policies):
        faults.append(f"a leader is for another number of actions than the {log.n_actions} of the log")
    if c.leaders is not None and len(c.leaders.turns) != rounds:
        faults.append(f"there were leaders of {len(c.leaders.turns)} rounds, but the log has {rounds}")
    if not c.experts or min(c.experts) < 0 or max(c.experts) >= len(c.bets):
        faults.append("the certificate names experts that do not exist")
    if len(set(c.experts)) < len(c.experts):
        faults.append("the certificate names an expert twice")
    if c.share is not None and not (0 <= c.share <= 1 and len(c.experts) == 2):
        faults.append(f"the weight of one of two experts must lie in [0, 1], got {c.share} of {len(c.experts)}")
    if c.ordered and not c.by_rule:
        faults.append("blocks of rows are made by certify, and all that is bet on them follows by its rule")
    if c.leaders is not None and c.leaders.settled is not None and not (c.shuffled and c.by_rule):
        faults.append("a leader may settle where it is known how many rows there are: those of a log that was shuffled")
    return faults


def _needed(certificate: Certificate, policies: PolicyClass, log: Log) -> float:
    """log(|Π|/δ), or log(1/δ) where leaders were fixed before each round; of δ the part that there is for it.

    Where ε is 0, a tenth of that is for what the log has not seen.
    """
    led = certificate.leaders is not None
    part = delta_part(policies, led=led) if certificate.by_rule else 1.0
    part *= 1.0 - UNSEEN_PART if certificate.epsilon == 0 else 1.0
    if certificate.leaders is not None:
        part *= _part_of_start(certificate.leaders, log)
    return (0.0 if led else policies.log_size) - float(np.log(part * certificate.delta))


def _part_of_start(leaders: Leaders, log: Log) -> float:
    """Of δ, what there is for the start that the leaders have; none if they may not start there.

    The first is before all rounds; another is where the leader of a single policy changes, and the data have doubled
    since the last one, or since somebody led.
    """
    if not leaders.single or leaders.settled is not None:
        return 1.0 if leaders.start == 0 else 0.0
    _, rounds = np.unique(log.rounds, return_inverse=True)
    before = np.concatenate([[0.0], np.cumsum(_counted(log, rounds))])
    if len(before) != len(leaders.turns) + 1:
        return 1.0  # of other rounds, which is said elsewhere
    led = [number for number, turn in enumerate(leaders.turns) if turn != NOBODY]
    starts, last = [0], before[led[0]] if led else np.inf
    for number in led[1:]:
        if leaders.turns[number] != leaders.turns[number - 1] and before[number] >= START_GROWTH_FACTOR * last:
            starts.append(number)
            last = before[number]
    return start_part(starts.index(leaders.start)) if leaders.start in starts else 0.0


def _weights(log: Log) -> FloatArray:
    """How much each row counts (n,): as often as it occurred; of m rows of one person each 1/m."""
    if log.units is None:
        return log.repeats.astype(np.float64)
    own: list[int] = log.units.tolist()
    visits = Counter(own)
    return np.array([1.0 / visits[unit] for unit in own])


def _counted(log: Log, rounds: IntArray) -> FloatArray:
    """How many interactions each round had, or people; rounds (n,): from 0 without gaps."""
    return np.rint(np.bincount(rounds, weights=_weights(log)))


class _Book(NamedTuple):
    """What every round is scored against, and what that comes to.

    leaders: of the rounds; a certificate without has one, its policy, in all of them.
    moves: in each round the weight taken from earlier leaders, by their numbers, as a share of the stake.
    shares (L,): of each leader in what is certified.
    """

    leaders: Leaders
    moves: list[dict[int, float]]
    shares: FloatArray


def _keep_book(c: Certificate, log: Log) -> _Book:
    """Weights of leaders, round by round: what a row stakes is its leader's, and some of the others' moves to it."""
    _, rounds = np.unique(log.rounds, return_inverse=True)
    counts = _counted(log, rounds)
    if c.leaders is None:
        alone = Leaders(parts_of(c.policy)[:1], (0,) * len(counts), (1,) * len(counts))
        return _Book(alone, [{}] * len(counts), np.ones(1))
    turns = [NOBODY if number < c.leaders.start else turn for number, turn in enumerate(c.leaders.turns)]
    held: dict[int, float] = {}  # by leader, who led longest ago first
    moves: list[dict[int, float]] = []
    coming = np.cumsum((c.bets.units * np.array(c.leaders.sizes))[::-1])[::-1]  # planned stakes from each round on
    rounds_told = zip(c.bets.units, turns, c.leaders.sizes, counts, strict=True)
    for number, (unit, turn, size, count) in enumerate(rounds_told):
        taken: dict[int, float] = {}
        if turn != NOBODY and unit > 0:
            mine = held.pop(turn, 0.0)
            if c.leaders.settled is None:
                left = c.leaders.moving * size
                for other, weight in held.items():
                    if weight > 0 and left > 0:
                        taken[other] = min(weight / unit, left) / size
                        left -= taken[other] * size
            elif number >= c.leaders.settled:
                taken = {other: weight / coming[number] for other, weight in held.items()}
            for other, share in taken.items():
                held[other] -= share * unit * count
            held[turn] = mine + (1.0 + sum(taken.values())) * unit * count
        moves.append(taken)
    whole = sum(held.values())
    shares = np.array([held.get(j, 0.0) / whole if whole > 0 else 0.0 for j in range(len(c.leaders.policies))])
    return _Book(replace(c.leaders, turns=tuple(turns)), moves, shares)


def _wrong_lottery(c: Certificate, book: _Book) -> list[str]:
    """Whether what is certified is what the leaders came to, and the slack is what is missing."""
    if c.leaders is None:
        single = not isinstance(c.policy, Lottery) and c.slack == 0
        return [] if single else ["a certificate without leaders is of a single policy, without slack"]
    if not book.shares.any():
        nothing = c.slack == 0 and not isinstance(c.policy, Lottery)
        return [] if nothing else ["nobody has led, and a lottery is claimed"]
    single = c.leaders.single
    kept = [int(book.shares.argmax())] if single else np.flatnonzero(book.shares >= MIN_LOTTERY_WEIGHT).tolist()
    slack = max(book.shares[kept].sum() - 1.0, 0.0) + np.delete(book.shares, kept).clip(min=0.0).sum()
    faults: list[str] = []
    if not abs(slack - c.slack) <= 1e-9:
        faults.append(f"the slack is {slack:.6g}, not {c.slack:.6g}")
    weights = c.policy.weights if isinstance(c.policy, Lottery) else (1.0,)
    drawn, owed = parts_of(c.policy), book.shares[kept] / book.shares[kept].sum()
    right = len(drawn) == len(kept) and all(
        same_policy(one, c.leaders.policies[j]) for one, j in zip(drawn, kept, strict=True)
    )
    if not right or not np.allclose(weights, owed, rtol=0, atol=1e-9):
        faults.append("what is certified is not the lottery that the leaders of the rounds came to")
    return faults


def _near(one: float, two: float) -> bool:
    return one == two or abs(one - two) <= 1e-9 * max(1.0, abs(two))


@dataclass(frozen=True, eq=False)
class Audit:
    """A certificate, and what it is rechecked against.

    certificate: what is claimed.
    log: what it is claimed of, cut into blocks if the certificate is, the rows that only taught as the first of them.
    policies: the class.
    predictions (n, A): of the reward model, made before each row's round.
    book: what every round is scored against.
    """

    certificate: Certificate
    log: Log
    policies: PolicyClass
    predictions: FloatArray
    book: _Book

    def least(self, epsilon: float) -> float:
        """The least log-wealth over the class, of the experts that the certificate used."""
        policies, share = self.policies, self.certificate.share
        scores = [self.wealth(expert, epsilon) for expert in self.certificate.experts]
        contexts, rows = self.log.contexts, np.arange(len(self.log))
        begun = float(np.log(len(self.certificate.bets)))
        if isinstance(policies, EnumeratedClass):
            table = np.asarray(policies.actions(contexts))
            each = np.array([[float(s[rows, actions].sum()) for s in scores] for actions in table])
            return float(np.logaddexp.reduce(each, axis=1).min()) - begun
        if len(scores) == 2 and share is None and isinstance(policies, FrontierClass):
            frontier = policies.frontier(contexts, -scores[0], -scores[1])
            return float(np.logaddexp(-frontier.first, -frontier.second).min()) - begun
        weight = 1.0 if share is None else share
        mixed = weight * scores[0] + (1.0 - weight) * scores[-1]
        spread = -sum(part * np.log(part) for part in (weight, 1.0 - weight) if part > 0)
        return float(mixed[rows, policies.argmax(contexts, -mixed)(contexts)].sum()) + float(spread) - begun

    def least_of_rivals(self) -> float:
        """The least log-wealth at ε = 0 of those who act unlike the policy on some row; infinite if nobody does."""
        c, contexts = self.certificate, self.log.contexts
        scores = [self.wealth(expert, 0.0) for expert in c.experts]
        own = np.asarray(parts_of(c.policy)[0](contexts))
        least = least_refuted_rival(self.policies, contexts, scores, own=own, share=c.share)
        return least - float(np.log(len(c.bets)))

    def wealth(self, expert: int, epsilon: float) -> FloatArray:
        """w log(1 + λ(ε − X)), with leaders w (log(1 − λZ) + λε), for every row of weight w and action (n, A)."""
        log, out, weights = self.log, np.zeros_like(self.log.bounds), _weights(self.log)
        _, rounds = np.unique(log.rounds, return_inverse=True)
        stakes = self.certificate.bets.stakes(expert)
        for number, (turn, moves) in enumerate(zip(self.book.leaders.turns, self.book.moves, strict=True)):
            if turn == NOBODY or stakes[number] == 0:
                continue
            mine = np.flatnonzero(rounds == number)
            for start in range(0, len(mine), ROWS_AT_A_TIME):
                part = mine[start : start + ROWS_AT_A_TIME]
                out[part] = weights[part, None] * self._growth(part, turn, moves, float(stakes[number]), epsilon)
        return out

    def _growth(self, part: IntArray, turn: int, moves: dict[int, float], stake: float, epsilon: float) -> FloatArray:
        """log(1 + λ(ε − X)) of rows of one round for every action; log(1 − λZ) + λε where they have leaders."""
        log, contexts = self.log, self.log.contexts.take(part)
        reference = np.asarray(self.book.leaders.policies[turn](contexts))
        others = {j: np.asarray(self.book.leaders.policies[j](contexts)) for j in moves}
        moved = np.ones(len(part))
        for j, share in moves.items():
            moved += share * (others[j] != reference)
        rows = ScoredRows(
            predictions=self.predictions[part],
            bounds=log.bounds[part],
            actions=log.actions[part],
            rewards=log.rewards[part],
            played=log.played_propensities[part],
            reference=reference,
            bet=np.full(len(part), stake),
            cap=np.maximum(self.certificate.bets.share / (stake * moved) - 1.0, 0.0),
        )
        scores = score(rows)
        for j, share in moves.items():
            scores = scores + share * score(rows)[np.arange(len(part)), others[j]][:, None]
        if self.certificate.leaders is None:
            return np.log1p(stake * (epsilon - scores))
        return np.log1p(-stake * scores) + stake * epsilon

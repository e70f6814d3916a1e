"""What a certificate must be by its own figures, and what its leaders came to: for whoever verifies.

Plainly, from the definitions in `pacbandits.certificate.leaders` and `moving`, and without the code that certifies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.conventions import delta_part, worth_leading
from pacbandits.certificate.leaders import MAX_SLACK, MIN_LOTTERY_WEIGHT, NOBODY, START_GROWTH_FACTOR, Leaders
from pacbandits.certificate.membership import same_policy
from pacbandits.certificate.rivals_again import faults_of_best
from pacbandits.certificate.told import ToldOfLog
from pacbandits.confidence import UNSEEN_PART, start_part
from pacbandits.errors import count_of
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import digest_class
from pacbandits.records import Lottery, parts_of

WEALTH_ROUNDING = 1e-6  # how far a log-wealth computed anew may be off, in nats, or as a share of a larger one


def faults_on_sight(
    c: Certificate, log: ToldOfLog, policies: PolicyClass, *, digest: str, rows: int, n_actions: int, counts: FloatArray
) -> list[str]:
    """What is wrong without a computation.

    digest: of the log. rows: that it had before it was arranged. n_actions: that it has. counts (rounds,): how many
    interactions, or people, each round had.
    """
    faults, people = list[str](), None if log.units is None else log.n_units
    if digest != c.digest:
        faults.append("the log is not the one that was certified: its digest differs")
    if digest_class(policies) != c.class_digest:
        faults.append("the policy class is not the one that was certified: its digest differs")
    if c.bets.spared != (0 if c.learning is None else c.learning.spared):
        faults.append("the rows that taught the policy class must not bet, and all others must")
    if log.samples != c.samples or rows != c.rows:
        faults.append(f"the log has {count_of(log.samples, 'interaction')}, the certificate speaks of {c.samples}")
    if people != c.units:
        told = ("no people" if count is None else f"{count:,} people" for count in (people, c.units))
        faults.append("by the log its rows are of {}, and by the certificate of {}".format(*told))
    if log.reward_range != c.reward_range:
        faults.append("the certificate and the log differ in the range of rewards, in whose units distances are")
    if log.action_names != c.action_names:
        faults.append("the certificate and the log differ in the names of actions")
    if log.dates != c.dates:
        faults.append("the certificate and the log differ in which columns are dates")
    if n_actions != policies.n_actions:
        faults.append(f"the log has {n_actions} actions, the policy class {policies.n_actions}")
    if not near(c.log_size, policies.log_size):
        faults.append(f"the policy class has log size {policies.log_size:.6g}, the certificate {c.log_size:.6g}")
    if policies.exact is not c.exact:
        faults.append("the certificate and the policy class disagree on whether the oracle is exact")
    reach, best = c.unit_certified_epsilon, c.epsilon == 0 and c.certified
    if not 0 < c.delta < 1 or not 0 <= c.epsilon < np.inf or not (0 < reach <= 1 or (best and reach == 0)):
        faults.append(f"epsilon {c.epsilon} (or {c.certified_epsilon}) and delta {c.delta} are no confidence statement")
    elif c.leaders is not None and not part_of_start(c.leaders, counts) > 0:
        faults.append(f"the proof may not start in round {c.leaders.start + 1}: its leader is not a new one")
    elif not near(c.threshold, needed_wealth(c, policies, counts)):
        needed = needed_wealth(c, policies, counts)
        faults.append(f"the threshold {c.threshold:.6g} is not {needed:.6g}, as δ, the class and its leaders have it")
    if c.leaders is not None and not worth_leading(policies):
        faults.append("leaders are for large classes, and this one is proven by a union over all its policies")
    if c.epsilon == 0:
        faults.extend(faults_of_best(policies, led=c.leaders is not None))
    if c.epsilon > 0 and c.leaders is None and worth_leading(policies) and not c.by_rule:
        faults.append("a trial of a class as large as this one has leaders, and the certificate tells of none")
    faults.extend(f"the certificate does not say that it assumes: {w}" for w in log.assumed if w not in c.remarks)
    rounds = len(counts)
    if len(c.bets.scales) != rounds:
        faults.append(f"bets were made for {len(c.bets.scales)} rounds, but the log has {rounds}")
    if c.leaders is not None and any(policy.n_actions != n_actions for policy in c.leaders.policies):
        faults.append(f"a leader is for another number of actions than the {n_actions} of the log")
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


def needed_wealth(certificate: Certificate, policies: PolicyClass, counts: FloatArray) -> float:
    """log(|Π|/δ), or log(1/δ) where leaders were fixed before each round; of δ the part that there is for it.

    Where ε is 0, a tenth of that is for what the log has not seen. counts (rounds,): how many interactions each had.
    """
    led = certificate.leaders is not None
    part = delta_part(policies, led=led) if certificate.by_rule else 1.0
    part *= 1.0 - UNSEEN_PART if certificate.epsilon == 0 else 1.0
    if certificate.leaders is not None:
        part *= part_of_start(certificate.leaders, counts)
    return (0.0 if led else policies.log_size) - float(np.log(part * certificate.delta))


def part_of_start(leaders: Leaders, counts: FloatArray) -> float:
    """Of δ, what there is for the start that the leaders have; none if they may not start there.

    The first is before all rounds; another is where the leader of a single policy changes, and the data have doubled
    since the last one, or since somebody led.
    """
    if not leaders.single or leaders.settled is not None:
        return 1.0 if leaders.start == 0 else 0.0
    before = np.concatenate([[0.0], np.cumsum(counts)])
    if len(before) != len(leaders.turns) + 1:
        return 1.0  # of other rounds, which is said elsewhere
    led = [number for number, turn in enumerate(leaders.turns) if turn != NOBODY]
    starts, last = [0], before[led[0]] if led else np.inf
    for number in led[1:]:
        if leaders.turns[number] != leaders.turns[number - 1] and before[number] >= START_GROWTH_FACTOR * last:
            starts.append(number)
            last = before[number]
    return start_part(starts.index(leaders.start)) if leaders.start in starts else 0.0


class Book(NamedTuple):
    """What every round is scored against, and what that comes to.

    leaders: of the rounds; a certificate without has one, its policy, in all of them.
    moves: in each round the weight taken from earlier leaders, by their numbers, as a share of the stake.
    shares (L,): of each leader in what is certified.
    """

    leaders: Leaders
    moves: list[dict[int, float]]
    shares: FloatArray


def keep_book(c: Certificate, counts: FloatArray) -> Book:
    """Weights of leaders, round by round: what a row stakes is its leader's, and some of the others' moves to it.

    counts (rounds,): how many interactions, or people, each round had.
    """
    if c.leaders is None:
        alone = Leaders(parts_of(c.policy)[:1], (0,) * len(counts), (1,) * len(counts))
        return Book(alone, [{}] * len(counts), np.ones(1))
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
    return Book(replace(c.leaders, turns=tuple(turns)), moves, shares)


def stakes_too_much(c: Certificate, book: Book) -> list[str]:
    """Whether a single row could ruin an expert."""
    moved = max(sum(taken.values()) for taken in book.moves)
    boldest = max(c.bets.multipliers) * c.bets.units.max() * (1.0 + moved)
    ruined = max(boldest, c.bets.share) >= 1.0
    return ["an expert stakes so much that a single row could ruin it"] if ruined else []


def judge(c: Certificate, least: Callable[[float], float], *, needed: float) -> tuple[list[str], float]:
    """What is wrong with the figures of a claim at an ε above 0, and its log-wealth computed anew.

    least: by ε of rewards in [0, 1], the least log-wealth over the class. needed: what refutes a policy.
    """
    value = least(c.unit_epsilon - (c.slack if c.slack <= MAX_SLACK else 0.0))
    faults = wrong_value(c, value, needed=needed)
    if c.unit_certified_epsilon != 1.0:
        if c.slack > MAX_SLACK:
            return [*faults, f"nothing is claimed with a slack of {c.slack:.6g}"], value
        if not least(c.unit_certified_epsilon - c.slack) >= needed - WEALTH_ROUNDING:
            faults.append(f"the data do not certify {c.certified_epsilon:.6g}")
    return faults, value


def wrong_value(c: Certificate, value: float, *, needed: float) -> list[str]:
    """Whether the log-wealth of a certificate is this, and enough for what it claims."""
    faults: list[str] = []
    # An oracle that is not exact may find a little more or less, asked about rows in another form.
    off = value - c.value if c.exact else min(value - c.value, 0.0)
    if not abs(off) <= WEALTH_ROUNDING * max(1.0, abs(value)):
        faults.append(f"the least log-wealth is {value:.6g}, not {c.value:.6g}")
    if c.certified and not value >= needed:
        faults.append(f"a log-wealth of {value:.6g} does not reach {needed:.6g}: nothing is certified")
    return faults


def wrong_lottery(c: Certificate, book: Book) -> list[str]:
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


def near(one: float, two: float) -> bool:
    """Whether two numbers are the same but for rounding."""
    return one == two or abs(one - two) <= 1e-9 * max(1.0, abs(two))

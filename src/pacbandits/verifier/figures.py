"""The figures of a certificate, checked against each other and against the facts about its log and policy class.

Everything here is computed from the definitions in `pacbandits.certificate.leaders`: the threshold, the weights of the
leaders, and the mixture policy that these weights give. Wealth, the one figure that needs the rows, comes from
`pacbandits.verifier.wealth`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, as_read
from pacbandits.certificate.certificate import Certificate, leaders_to_json
from pacbandits.certificate.claim import ToldOfLog
from pacbandits.certificate.conventions import MIN_NATS_WORTH_LEADING
from pacbandits.certificate.leaders import MIN_MIXTURE_WEIGHT, NOBODY, START_GROWTH_FACTOR, Leaders
from pacbandits.confidence import LEADERS_PART, UNION_PART, UNSEEN_PART, recommended_part, start_part
from pacbandits.errors import count_of
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import digest_class
from pacbandits.records import Contexts, Mixture, Policy, parts_of
from pacbandits.records.row_order import COUNTED, says

WEALTH_ROUNDING = 1e-6  # tolerance of a recomputed log-wealth, in nats, or relative to a larger one


def faults_on_sight(
    c: Certificate, log: ToldOfLog, policies: PolicyClass, *, digest: str, rows: int, n_actions: int, counts: FloatArray
) -> list[str]:
    """Return the faults that show without the rows: contradictions to the log, the class or another figure.

    digest: of the log. rows: number of rows before they were arranged. n_actions: of the log. counts (rounds,):
    interactions, or people, in each round.
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
    if c.leaders is not None and not worth_leading(policies) and c.improvement is None:
        faults.append("leaders are for large classes, and this one is proven by a union over all its policies")
    if c.improvement is not None:
        same = c.leaders is not None and leaders_to_json(c.leaders) == leaders_to_json(c.improvement.leaders)
        faults.extend([] if same else ["the certificate's leaders are not those of the policy that it recommends"])
        if not c.by_rule or any(len(one.leaders.turns) != len(counts) for one in c.improvement.candidates):
            faults.append("gains over control are proven by the rule of certify, with leaders in all rounds")
    if c.epsilon == 0:
        faults.extend(faults_of_best(policies, led=c.leaders is not None))
    if c.epsilon > 0 and c.leaders is None and worth_leading(policies) and not c.by_rule:
        faults.append("a trial of a class as large as this one has leaders, and the certificate tells of none")
    faults.extend(f"the certificate does not say that it assumes: {w}" for w in log.assumed if w not in c.remarks)
    counted = says(log.assumed, COUNTED)
    if says(c.remarks, COUNTED) and not counted:  # that would hide whose word the order of rows is
        faults.append("the certificate says that rows were counted in blocks, and the log does not")
    if c.any_file_order and counted:
        faults.append("rows of counted blocks stand in the order in which they were counted, not in one by contents")
    if c.improvement is not None and c.shuffled and not (c.by_content or counted):
        faults.append("gains over control are proven by rows in the order of their contents")
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
    if c.pilot is not None and (c.ordered or c.summed):
        faults.append("the rows of a pilot are the first rounds of a trial, and the certificate is of none")
    if c.ordered and not c.by_rule:
        faults.append("blocks of rows are made by certify, and all that is bet on them follows by its rule")
    if c.leaders is not None and c.leaders.settled is not None and not (c.shuffled and c.by_rule):
        faults.append("a leader may settle where it is known how many rows there are: those of a log that was shuffled")
    return faults


# Own copy, on purpose: the verifier shares no code with the maker.
def worth_leading(policies: PolicyClass) -> bool:
    """Return whether leaders replace the union over all policies: for classes that are large or have no size."""
    return policies.log_size >= MIN_NATS_WORTH_LEADING


def delta_share(c: Certificate, policies: PolicyClass, *, led: bool) -> float:
    """Return the share of δ for a proof by leaders or by a union: `certify` splits δ if both are possible."""
    if not c.by_rule or not worth_leading(policies):
        return 1.0
    return LEADERS_PART if led else UNION_PART


def needed_wealth(c: Certificate, policies: PolicyClass, counts: FloatArray) -> float:
    """Return the threshold: log(|Π|/δ), or log(1/δ) with leaders, each with the share of δ that the proof may use.

    At ε = 0 a tenth of it is kept for contexts that the log never contains. counts (rounds,): interactions in each.
    """
    part = delta_share(c, policies, led=c.leaders is not None)
    if c.improvement is not None:  # one of several policies, by the data, each with its part
        part = LEADERS_PART * recommended_part(
            control=c.improvement.recommended is None, candidates=len(c.improvement.candidates)
        )
    part *= 1.0 - UNSEEN_PART if c.epsilon == 0 else 1.0
    if c.leaders is not None:
        part *= part_of_start(c.leaders, counts)
    return (policies.log_size if c.leaders is None else 0.0) - float(np.log(part * c.delta))


def part_of_start(leaders: Leaders, counts: FloatArray) -> float:
    """Return the share of δ for the round in which the proof starts; 0 if it may not start there.

    The first start is before all rounds. If a single policy is certified, there is another one in each round with a new
    leader before which the data have doubled since the last start, or since the first leader.
    """
    if not leaders.single or leaders.settled is not None:
        return 1.0 if leaders.start == 0 else 0.0
    before = np.concatenate([[0.0], np.cumsum(counts)])
    if len(before) != len(leaders.turns) + 1:
        return 1.0  # the numbers of rounds differ, which is another fault
    led = [number for number, turn in enumerate(leaders.turns) if turn != NOBODY]
    starts, last = [0], before[led[0]] if led else np.inf
    for number in led[1:]:
        if leaders.turns[number] != leaders.turns[number - 1] and before[number] >= START_GROWTH_FACTOR * last:
            starts.append(number)
            last = before[number]
    return start_part(starts.index(leaders.start)) if leaders.start in starts else 0.0


class LeaderBook(NamedTuple):
    """The reference policies of all rounds, and their weights at the end.

    leaders: of the rounds; a certificate without leaders has its policy as the leader of every round.
    moves: for each round the weight taken from earlier leaders, by their numbers, as a share of the stake.
    shares (L,): the weight of each leader in the certified policy.
    """

    leaders: Leaders
    moves: list[dict[int, float]]
    shares: FloatArray


def keep_book(c: Certificate, counts: FloatArray) -> LeaderBook:
    """Compute the leaders' weights round by round: a leader gets the stakes of its rows, and weight of the others.

    counts (rounds,): interactions, or people, in each round.
    """
    if c.leaders is None:
        alone = Leaders(parts_of(c.policy)[:1], (0,) * len(counts), (1,) * len(counts))
        return LeaderBook(alone, [{}] * len(counts), np.ones(1))
    return keep_weights(c.leaders, c.bets.units, counts)


def keep_weights(leaders: Leaders, units: FloatArray, counts: FloatArray) -> LeaderBook:
    """Compute the weights of leaders; units (rounds,): stakes up to a factor. counts (rounds,): as for `keep_book`."""
    turns = [NOBODY if number < leaders.start else turn for number, turn in enumerate(leaders.turns)]
    held: dict[int, float] = {}  # weight by leader, in the order in which they last led
    moves: list[dict[int, float]] = []
    coming = np.cumsum((units * np.array(leaders.sizes))[::-1])[::-1]  # planned stakes from each round on
    rounds_told = zip(units, turns, leaders.sizes, counts, strict=True)
    for number, (unit, turn, size, count) in enumerate(rounds_told):
        taken: dict[int, float] = {}
        if turn != NOBODY and unit > 0:
            mine = held.pop(turn, 0.0)
            if leaders.settled is None:
                left = leaders.moving * size
                for other, weight in held.items():
                    if weight > 0 and left > 0:
                        taken[other] = min(weight / unit, left) / size
                        left -= taken[other] * size
            elif number >= leaders.settled:
                taken = {other: weight / coming[number] for other, weight in held.items()}
            for other, share in taken.items():
                held[other] -= share * unit * count
            held[turn] = mine + (1.0 + sum(taken.values())) * unit * count
        moves.append(taken)
    whole = sum(held.values())
    shares = np.array([held.get(j, 0.0) / whole if whole > 0 else 0.0 for j in range(len(leaders.policies))])
    return LeaderBook(replace(leaders, turns=tuple(turns)), moves, shares)


def stakes_too_much(c: Certificate, book: LeaderBook) -> list[str]:
    """Return a fault if a single row could ruin an expert."""
    moved = max(sum(taken.values()) for taken in book.moves)
    boldest = max(c.bets.multipliers) * c.bets.units.max() * (1.0 + moved)
    ruined = max(boldest, c.bets.share) >= 1.0
    return ["an expert stakes so much that a single row could ruin it"] if ruined else []


def wrong_value(c: Certificate, value: float, *, needed: float, rounding: float = 0.0) -> list[str]:
    """Return a fault if the certificate's log-wealth is not this value, or the value does not suffice for its claim.

    rounding: how much lower the certificate's may be: its logarithms are lower bounds, and are then rounded down, so
    that a row without a gain or loss counts a unit less.
    """
    faults: list[str] = []
    # An inexact oracle may find a slightly different value for rows in another form.
    off = value - c.value if c.exact else min(value - c.value, 0.0)
    near_enough = WEALTH_ROUNDING * max(1.0, abs(value))
    if not -near_enough <= off <= near_enough + rounding:
        faults.append(f"the least log-wealth is {value:.6g}, not {c.value:.6g}")
    if c.certified and not value >= needed:
        faults.append(f"a log-wealth of {value:.6g} does not reach {needed:.6g}: nothing is certified")
    return faults


def mixture_of(book: LeaderBook) -> tuple[list[int], FloatArray, float]:
    """Return the numbers of the leaders that the final weights keep, their weights, and the slack that it costs."""
    single, shares = book.leaders.single, book.shares
    kept = [int(shares.argmax())] if single else np.flatnonzero(shares >= MIN_MIXTURE_WEIGHT).tolist()
    slack = max(shares[kept].sum() - 1.0, 0.0) + np.delete(shares, kept).clip(min=0.0).sum()
    return kept, shares[kept] / shares[kept].sum(), float(slack)


def wrong_mixture(c: Certificate, book: LeaderBook) -> list[str]:
    """Return faults if the certified policy or the slack does not follow from the leaders' weights."""
    if c.leaders is None:
        single = not isinstance(c.policy, Mixture) and c.slack == 0
        return [] if single else ["a certificate without leaders is of a single policy, without slack"]
    if not book.shares.any():
        nothing = c.slack == 0 and not isinstance(c.policy, Mixture)
        return [] if nothing else ["no policy has led, and a mixture policy is claimed"]
    kept, owed, slack = mixture_of(book)
    faults: list[str] = []
    if not abs(slack - c.slack) <= 1e-9:
        faults.append(f"the slack is {slack:.6g}, not {c.slack:.6g}")
    weights = c.policy.weights if isinstance(c.policy, Mixture) else (1.0,)
    drawn = parts_of(c.policy)
    right = len(drawn) == len(kept) and all(
        same_policy(one, c.leaders.policies[j]) for one, j in zip(drawn, kept, strict=True)
    )
    if not right or not np.allclose(weights, owed, rtol=0, atol=1e-9):
        faults.append("the certified policy is not the mixture of the leaders of the rounds")
    return faults


def faults_of_best(policies: PolicyClass, *, led: bool) -> list[str]:
    """Return the reasons against a proof that a policy is the best of this class; led: whether it is by leaders."""
    union = "that a policy is the best is proven by a union over its class"
    sized = policies.exact and np.isfinite(policies.log_size)
    return [
        *([f"{union}, and the certificate has leaders"] if led else []),
        *([] if sized else [f"{union}, which must have a size, and a search that is exact"]),
    ]


def same_policy(one: Policy, other: Policy) -> bool:
    """Return whether two policies are the same object, or have the same JSON."""
    return one is other or as_read(one.to_json()) == as_read(other.to_json())


def belongs(policy: Policy, contexts: Contexts, policies: PolicyClass) -> bool:
    """Return whether the class has the policy; if it cannot decide, whether one of its policies acts alike here."""
    if policies.checks_membership:
        return policies.has(policy)
    actions = policy(contexts)
    agree = np.zeros((len(contexts), policies.n_actions))
    agree[np.arange(len(contexts)), actions] = 1.0
    return bool(np.array_equal(policies.argmax(contexts, agree)(contexts), actions))


def near(one: float, two: float) -> bool:
    """Return whether two numbers are equal up to rounding."""
    return one == two or abs(one - two) <= 1e-9 * max(1.0, abs(two))

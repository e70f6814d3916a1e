"""Make a certificate: the log-wealth against the least refuted policy, and the smallest ε at which all are refuted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.certificate import Certificate, Improvement
from pacbandits.certificate.claim import ToldOfLog
from pacbandits.certificate.conventions import Bets
from pacbandits.certificate.leaders import MAX_SLACK, NOBODY, Leaders
from pacbandits.certificate.learning_record import Learning
from pacbandits.certificate.ledger import AnyAgainst, AnyLedger, alone, choose, plan_moves
from pacbandits.certificate.summed.limits import RELEASED_LIMITS, RowLimits
from pacbandits.confidence import (
    UNSEEN_PART,
    best_threshold,
    certificate_threshold,
    check_delta,
    check_epsilon,
    unseen_share,
)
from pacbandits.errors import InputError
from pacbandits.policies.base import ArgmaxOnly, PolicyClass
from pacbandits.policies.finite import sum_scores
from pacbandits.policies.registry import digest_class
from pacbandits.policies.rivals import check_rivals, rivals_of
from pacbandits.records import Chosen, Contexts, Log, Policy
from pacbandits.records.log import digest_log
from pacbandits.records.row_order import COUNTED, says
from pacbandits.schema import Json

# The least refuted policy: `min_π log Σ_k e^{S_k(π)}/K`, through the oracles of the class.
#
# S_k(π) is the log-wealth of expert k against "π beats q by ε"; each of the K experts starts with 1/K. Leaving experts
# out only lowers the sum. A class that lists its policies is searched exhaustively. With a frontier oracle the minimum
# is exact for any two experts, as the sum is monotone in both. With argmax alone, every convex combination of experts
# gives a lower bound in one call, `log Σ_k e^{S_k} ≥ Σ_k w_k S_k + H(w)` with the entropy H of the weights; the best
# weight of two is found by bisection, as the bound is concave in it.


MAX_PAIRED_EXPERTS = 3  # the best single experts, whose pairs are tried
SHARE_HALVINGS = 8  # bisection steps on [0, 1] for the best share of the first of two experts


@dataclass(frozen=True, eq=False)
class Least:
    """A lower bound on `min_π log Σ_k e^{S_k(π)}/K`, the sum over the experts named, and how it was found.

    value: the bound.
    experts: the experts in the sum.
    share: the weight of the first of two experts in their combination; None if the minimum is exact.
    oracle_calls: the number of calls that the search took.
    count: K, the number of all experts.
    sums (experts, N): the sums of the named experts' scores for every policy that may be the least refuted, for any
        additional log-wealth of the experts.
    alone (1, 1) each: the same for every single expert and the policy that it refutes least; empty for a list.
    """

    value: float
    experts: tuple[int, ...]
    share: float | None
    oracle_calls: int
    count: int = field(kw_only=True)
    sums: FloatArray = field(kw_only=True)
    alone: tuple[FloatArray, ...] = field(default=(), kw_only=True)

    def with_beside(self, beside: Sequence[float]) -> float:
        """Return the bound if each of the K experts has this additional log-wealth."""
        return mean_wealth(self.sums, [beside[k] for k in self.experts], count=self.count, share=self.share)


def mean_wealth(sums: FloatArray, beside: Sequence[float], *, count: int, share: float | None) -> float:
    """Return the minimum of `log Σ_k e^{S_k + b_k}/K` over N policies, or its bound by two experts.

    sums (experts, N): S. beside (experts,): b, the same for every policy. share: the weight of the first expert of two.
    """
    wealths = sums + np.asarray(beside)[:, None]
    if share is None:
        return float(np.logaddexp.reduce(wealths, axis=0).min()) - math.log(count)
    return float((share * wealths[0] + (1.0 - share) * wealths[1]).min()) + entropy(share) - math.log(count)


def least_wealth(
    policies: PolicyClass,
    contexts: Contexts,
    scores: Sequence[FloatArray],
    *,
    beside: Sequence[float] | None = None,
    needed: float = -np.inf,
    known: Least | None = None,
) -> Least:
    """Return the best lower bound by the experts' scores (each m × A): by all of them, or by the best one or two.

    With argmax alone a pair takes many calls, and is tried if the best single expert has half of what is needed.

    beside (K,): additional log-wealth of each expert, the same for every policy; none by default.
    known: the result for the same scores with other additional log-wealth.
    """
    count, more = len(scores), [0.0] * len(scores) if beside is None else beside
    if policies.lists_policies:
        return _made(sum_all(policies, contexts, scores), more, tuple(range(count)), None, 0)
    asked, calls = (known.alone, 0) if known is not None and policies.exact else ((), count)
    sums = asked or tuple(sum_one(policies, contexts, score) for score in scores)
    alone = [_made(each, more, (k,), None, 1) for k, each in enumerate(sums)]
    order = sorted(range(count), key=lambda k: -alone[k].value)
    best = alone[order[0]]
    most = MAX_PAIRED_EXPERTS if policies.has_frontier else 2 if best.value >= needed / 2.0 else 0
    paired = order[:most]
    for one, two in combinations(paired, 2):
        if policies.has_frontier:
            pair = _made(sum_two(policies, contexts, scores[one], scores[two]), more, (one, two), None, 1)
        else:
            pair = _combine(policies, contexts, scores, more, one, two)
        best, calls = max(best, pair, key=lambda least: least.value), calls + pair.oracle_calls
    return replace(best, oracle_calls=calls, alone=sums)


def least_again(policies: PolicyClass, contexts: Contexts, scores: Sequence[FloatArray], least: Least) -> float:
    """Return the same bound for other scores of the named experts, found in the same way."""
    beside = [0.0] * len(scores)
    if policies.lists_policies:
        sums = sum_all(policies, contexts, scores)
    elif len(scores) == 1:
        sums = sum_one(policies, contexts, scores[0])
    elif least.share is None and policies.has_frontier:
        sums = sum_two(policies, contexts, scores[0], scores[1])
    else:
        share = 0.5 if least.share is None else least.share
        sums = sum_mixed(policies, contexts, scores[0], scores[1], share=share)
        return mean_wealth(sums, beside, count=least.count, share=share)
    return mean_wealth(sums, beside, count=least.count, share=None)


def sum_all(policies: PolicyClass, contexts: Contexts, scores: Sequence[FloatArray]) -> FloatArray:
    """Return the sums of the scores (experts, N) for every policy of a list."""
    table = np.ascontiguousarray(policies.actions(contexts))
    return np.array([sum_scores(table, score) for score in scores])


def sum_one(policies: PolicyClass, contexts: Contexts, score: FloatArray) -> FloatArray:
    """Return the sum (1, 1) for the policy that one expert refutes least: one argmax call."""
    return np.array([[policies.attained(contexts, score, policies.argmax(contexts, -score))]])


def sum_two(policies: PolicyClass, contexts: Contexts, one: FloatArray, two: FloatArray) -> FloatArray:
    """Return the sums (2, N) for the frontier of two experts: lower bounds, as rounding of a frontier is outward."""
    frontier = policies.frontier(contexts, -one, -two)
    return np.array([-frontier.first, -frontier.second])


def sum_mixed(
    policies: PolicyClass, contexts: Contexts, one: FloatArray, two: FloatArray, *, share: float
) -> FloatArray:
    """Return the sums (2, 1) for the policy that a combination of two experts refutes least: one argmax call."""
    mixed = share * one + (1.0 - share) * two
    found = policies.argmax(contexts, -mixed)
    return np.array([[policies.attained(contexts, score, found)] for score in (one, two)])


def entropy(weight: float) -> float:
    """Return the entropy of two weights that sum to 1."""
    return -sum(part * math.log(part) for part in (weight, 1.0 - weight) if part > 0)


def _made(
    sums: FloatArray, beside: Sequence[float], experts: tuple[int, ...], share: float | None, calls: int
) -> Least:
    value = mean_wealth(sums, [beside[k] for k in experts], count=len(beside), share=share)
    return Least(value, experts, share, calls, count=len(beside), sums=sums)


def _combine(
    policies: PolicyClass,
    contexts: Contexts,
    scores: Sequence[FloatArray],
    beside: Sequence[float],
    one: int,
    two: int,
) -> Least:
    """Return the best bound by a combination of two experts."""
    low, high = 0.0, 1.0
    best: Least | None = None
    for _ in range(SHARE_HALVINGS):
        middle = (low + high) / 2
        sums = sum_mixed(policies, contexts, scores[one], scores[two], share=middle)
        made = _made(sums, beside, (one, two), middle, SHARE_HALVINGS)
        best = made if best is None or made.value > best.value else best
        # The slope in the weight is S_1 − S_2 at the minimiser, and that of the entropy.
        first, second = float(sums[0, 0]) + beside[one], float(sums[1, 0]) + beside[two]
        slope = first - second + math.log((1.0 - middle) / middle)
        low, high = (middle, high) if slope > 0 else (low, middle)
    assert best is not None
    return best


# Bounds on the value lost on contexts that the log never contains.


def sees_all(log: Log, policies: PolicyClass) -> bool:
    """Return whether the log has every context of the class, so that policies that agree on the log are identical."""
    if not policies.n_contexts or log.contexts.ids is None:
        return False
    return bool(np.array_equal(np.unique(log.contexts.ids), np.arange(policies.n_contexts)))


def unseen_distance(log: Log, policies: PolicyClass, *, spared: int, delta: float) -> float:
    """Bound the value lost on contexts that the log never contains, for rewards in [0, 1]: 0 if it has all contexts.

    spared: the number of first rounds that taught the class and do not bet. delta: the δ available to the proof.
    """
    if sees_all(log, policies):
        return 0.0
    counted = float(log.round_sizes[spared:].sum())
    return unseen_share(counted, delta=delta, log_size=policies.log_size)


MIN_CERTIFIED_EPSILON = 1e-6  # unless a smaller one is requested
EPSILON_GRID_STEPS = 2**10  # of equal ratio, from MIN_CERTIFIED_EPSILON to 1
MAX_EPSILON_GUESSES = 5  # before bisection
NEAR_SHARE = 0.8  # of the requested ε; if a smaller one is proven, experts are chosen by the ε they prove
MAX_TRIED_EPSILON = 0.5  # at which experts are chosen if the requested ε is out of reach
# Requests for the best policy itself also prove some ε > 0: the first one tried, and the number of tries.
FIRST_BESIDE, MAX_TIMES_BESIDE = 0.05, 2


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence for certificates about the policies of a class.

    log: the log, or the recorded facts about one whose rows are in files.
    ledger: the rows with their predictions; or a ledger of sums over rows.
    policies: the class.
    bets: the stakes of each expert in each round.
    epsilon: the distance from the best to certify, for rewards in [0, 1]; 0 for the best policy itself.
    delta: the probability of being wrong.
    model: the reward model that predicted, in JSON.
    leaders: the leaders of rounds; None if the proof is a union over all policies.
    part: the share of δ that this proof may use.
    ordered: whether the log's rounds are blocks of a log that had none.
    shuffled: whether these are blocks of shuffled rows.
    by_rule: whether model, bets and leaders follow from the log by the rule of `certify`.
    learning: how the class was learnt, if it was given by its name.
    digest: of the log; computed if None.
    limits: the row limits of a certificate by sums; None for floats.
    improvement: the proven gains over control, by which the leaders were recommended.
    """

    log: ToldOfLog
    ledger: AnyLedger
    policies: PolicyClass
    bets: Bets
    epsilon: float
    delta: float
    model: Json
    leaders: Leaders | None = None
    part: float = 1.0
    ordered: bool = False
    shuffled: bool = False
    by_rule: bool = False
    learning: Learning | None = None
    digest: str | None = None
    limits: RowLimits | None = None
    improvement: Improvement | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if self.epsilon == 0 and self.leaders is not None:
            raise InputError("that a policy is the best of its class is proven by a union over all, without leaders")

    @property
    def needed(self) -> float:
        """The log-wealth that refutes a policy."""
        if self.epsilon == 0:
            return best_threshold(log_size=self.policies.log_size, delta=self.part * self.delta)
        log_size = self.policies.log_size if self.leaders is None else 0.0
        part = self.part if self.leaders is None else self.part * self.leaders.part(self.ledger.round_sizes)
        return certificate_threshold(log_size=log_size, delta=part * self.delta)

    def chosen(self, favourite: Policy) -> tuple[Chosen, AnyAgainst, float]:
        """Choose the policy to certify; return it with the comparator of scores and the slack.

        favourite: the best policy by all data.
        """
        rounds = self.ledger.n_rounds
        if self.leaders is None:
            return favourite, self.ledger.against((favourite,), *alone(rounds)), 0.0
        moves, weights = plan_moves(self.leaders, units=self.bets.units, counts=self.ledger.round_sizes)
        turns = np.array(self.leaders.counted, dtype=np.int64)
        against = self.ledger.against(self.leaders.policies, turns, moves)
        if not weights.any():
            return favourite, against, 0.0
        chosen, slack = choose(self.leaders, weights)
        return chosen, against, slack

    def wealths(self, experts: Sequence[int], *, against: AnyAgainst, epsilon: float) -> list[FloatArray]:
        """Return the log-wealth scores (m, A) of each of these experts; with leaders, `beside` adds ε."""
        inside = epsilon if self.leaders is None else 0.0
        stakes = [self.bets.stakes(expert) for expert in experts]
        return self.ledger.log_wealths(against, stakes=stakes, share=self.bets.share, epsilon=inside)

    def beside(self, *, against: AnyAgainst, epsilon: float) -> list[float]:
        """Return each expert's log-wealth from ε alone: with leaders ε Σ_t λ_t over the rows that had one, else 0."""
        if self.leaders is None:
            return [0.0] * len(self.bets)
        led = self.ledger.round_sizes * (against.turns != NOBODY)
        return [epsilon * float((led * self.bets.stakes(k)).sum()) for k in range(len(self.bets))]


def make_certificate(evidence: Evidence, favourite: Policy) -> tuple[Certificate, int]:
    """Return the certificate for the favourite, the best policy by all data, or for the leaders; and oracle calls.

    If leaders may start in several rounds, take the start that proves most. (A start with too much slack for a claim is
    skipped, except the last; its wealth then shows how far the proof has come.)
    """
    leaders = evidence.leaders
    if evidence.epsilon == 0:
        return _make_best(evidence, favourite)
    if leaders is None or not leaders.single:
        return _make(evidence, favourite)
    best, calls = None, 0
    for start in reversed(leaders.starts(evidence.ledger.round_sizes)):
        tried = replace(evidence, leaders=replace(leaders, start=start))
        if best is None or tried.chosen(favourite)[2] <= MAX_SLACK:
            made, more = _make(tried, favourite)
            best, calls = made if best is None else min(best, made, key=claim_rank), calls + more
    assert best is not None
    return best, calls


def claim_rank(certificate: Certificate) -> tuple[float, float]:
    """Return a sort key, smaller for stronger certificates: the certified ε, then the missing wealth."""
    return certificate.certified_epsilon, certificate.threshold - certificate.value


def _make_best(evidence: Evidence, favourite: Policy) -> tuple[Certificate, int]:
    """Return a certificate that the favourite is the best of its class, else of its distance from it; and oracle calls.

    At ε = 0 a policy that acts like the favourite neither gains nor loses wealth, so the minimum is over its rivals:
    the policies that act otherwise on some context of the log (`pacbandits.confidence.best_threshold`).
    """
    contexts, policies = evidence.ledger.contexts, evidence.policies
    check_rivals(policies, contexts)
    made, calls = _make_beside(evidence, favourite)
    actions = np.asarray(favourite(contexts), dtype=np.int64)
    rivals = rivals_of(policies, contexts, actions)
    against = evidence.ledger.against((favourite,), *alone(evidence.ledger.n_rounds))
    if rivals is None:
        found, calls = [replace(made, value=made.threshold)], calls + 1
    else:
        scores = evidence.wealths(range(len(evidence.bets)), against=against, epsilon=0.0)
        least = least_wealth(rivals, contexts, scores, needed=evidence.needed)
        found = [replace(made, value=least.value, experts=least.experts, share=least.share)]
        if (made.experts, made.share) != (least.experts, least.share):  # the experts that prove the smallest ε > 0
            named = replace(least, experts=made.experts, share=made.share)
            again = least_again(rivals, contexts, [scores[k] for k in made.experts], named)
            found.append(replace(made, value=again))
        calls += rivals.calls
    best = next((one for one in found if one.value >= evidence.needed), None)
    if best is None:
        return replace(found[-1], epsilon=0.0), calls
    assert isinstance(evidence.log, Log)
    distance = unseen_distance(
        evidence.log, policies, spared=evidence.bets.spared, delta=evidence.part * evidence.delta
    )
    return replace(best, epsilon=0.0, certified_epsilon=distance * made.unit), calls


def _make_beside(evidence: Evidence, favourite: Policy) -> tuple[Certificate, int]:
    """Certify the favourite's distance from the best, by the share of δ that the best itself has; and oracle calls.

    The search uses no frontier, as one would hide rivals behind the favourite itself.
    """
    part, policies = (1.0 - UNSEEN_PART) * evidence.part, evidence.policies
    listed = policies.lists_policies
    plain, near, best, calls = policies if listed else ArgmaxOnly(policies), FIRST_BESIDE, None, 0
    for _ in range(1 if listed else MAX_TIMES_BESIDE):
        made, more = _make(replace(evidence, epsilon=near, part=part), favourite, searched=plain)
        best = made if best is None else min(best, made, key=claim_rank)
        near, calls = min(best.unit_certified_epsilon, MAX_TRIED_EPSILON), calls + more
    assert best is not None
    return best, calls


def _make(evidence: Evidence, favourite: Policy, *, searched: PolicyClass | None = None) -> tuple[Certificate, int]:
    """Return the certificate by the leaders from their start on, or for the favourite; and oracle calls.

    searched: the class to search for the least refuted policy, if not `evidence.policies`.
    """
    asked = replace(evidence, policies=evidence.ledger.searched(evidence.policies) if searched is None else searched)
    chosen, against, slack = evidence.chosen(favourite)
    # With too much slack nothing is claimed; the wealth then shows how far the proof has come.
    claimable = slack <= MAX_SLACK
    distance = asked.epsilon - slack * claimable
    least = _least_at(asked, against, epsilon=distance)
    reach, more = _certified_epsilon(asked, least, against, slack=slack) if claimable else (1.0, 0)
    far = least.value < asked.needed or reach < NEAR_SHARE * asked.epsilon
    if claimable and asked.by_rule and far:
        least, reach, calls = _reach_further(asked, least, reach, against, slack=slack)
        more += calls
    log, policies, threshold, digest = evidence.log, evidence.policies, evidence.needed, evidence.digest
    if digest is None:
        assert isinstance(log, Log)
        digest = digest_log(log)
    unit, nearest = log.reward_range[1] - log.reward_range[0], reach
    if claimable and least.value >= threshold:
        nearest = min(reach, evidence.epsilon)
    certificate = Certificate(
        policy=chosen,
        epsilon=evidence.epsilon * unit,
        delta=evidence.delta,
        certified_epsilon=nearest * unit,
        action_names=log.action_names,
        reward_range=log.reward_range,
        dates=log.dates,
        value=least.value,
        threshold=threshold,
        log_size=policies.log_size,
        samples=log.samples,
        rows=len(log),
        units=None if log.units is None else log.n_units,
        bets=evidence.bets,
        leaders=evidence.leaders,
        slack=slack,
        experts=least.experts,
        share=least.share,
        model=evidence.model,
        digest=digest,
        class_digest=digest_class(policies),
        exact=policies.exact,
        ordered=evidence.ordered,
        shuffled=evidence.shuffled,
        by_content=evidence.shuffled and not says(evidence.log.assumed, COUNTED),
        by_rule=evidence.by_rule,
        summed=evidence.limits is not None,
        limits=evidence.limits or RELEASED_LIMITS[0],
        learning=evidence.learning,
        improvement=evidence.improvement,
        remarks=log.assumed,
    )
    return certificate, least.oracle_calls + more


def _least_at(evidence: Evidence, against: AnyAgainst, *, epsilon: float, known: Least | None = None) -> Least:
    """Return the log-wealth against the least refuted policy at this ε, by the experts that are best there.

    known: the result at another ε; used only with leaders, whose scores do not contain ε.
    """
    scores = evidence.wealths(range(len(evidence.bets)), against=against, epsilon=epsilon)
    return least_wealth(
        evidence.policies,
        evidence.ledger.contexts,
        scores,
        beside=evidence.beside(against=against, epsilon=epsilon),
        needed=evidence.needed,
        known=None if evidence.leaders is None else known,
    )


def _reach_further(
    evidence: Evidence, least: Least, reach: float, against: AnyAgainst, *, slack: float
) -> tuple[Least, float, int]:
    """Return experts that prove a smaller ε than the best ones at the requested ε; that ε, and oracle calls.

    If data prove far less than requested, the smallest stakes do best at the requested ε, and prove least. If they
    prove far more, the largest stakes do best there, so that the proven ε would depend on the request.
    """
    calls, asked = 0, evidence.epsilon
    while evidence.needed < np.inf:
        nearer = replace(evidence, epsilon=min(reach, MAX_TRIED_EPSILON))
        other = _least_at(nearer, against, epsilon=nearer.epsilon - slack, known=least)
        found, more = _certified_epsilon(nearer, other, against, slack=slack)
        calls += other.oracle_calls + more
        if found >= reach:
            break
        value, more = _found_again(evidence, other, against, epsilon=asked - slack)
        least, reach, calls = replace(other, value=value), found, calls + more
    return least, reach, calls


def _certified_epsilon(evidence: Evidence, least: Least, against: AnyAgainst, *, slack: float) -> tuple[float, int]:
    """Return the smallest ε on a grid at which the same experts refute every policy, within 1 %; and oracle calls.

    Wealth rises with ε, almost along a line: the first steps guess where that line crosses the threshold.
    """
    epsilon, threshold = evidence.epsilon, evidence.needed
    refuted = least.value >= threshold
    # The approximate slope of log-wealth in ε: the sum of all stakes, averaged over these experts.
    sizes = evidence.ledger.round_sizes
    slope = float(np.mean([(sizes * evidence.bets.stakes(k)).sum() for k in least.experts]))
    if not refuted and (epsilon >= 1 or slope <= 0):
        return 1.0, 0
    grid = np.exp(np.log(MIN_CERTIFIED_EPSILON) * (1.0 - np.arange(EPSILON_GRID_STEPS + 1) / EPSILON_GRID_STEPS))
    low, high = 0, len(grid) - 1
    if refuted:
        high = min(max(int(np.searchsorted(grid, epsilon, side="left")), 1), high)
    else:
        low = max(int(np.searchsorted(grid, epsilon, side="right")) - 1, 0)
    known, wealth, asked, more = epsilon, least.value, 0, 0
    while high - low > 1:
        middle = (low + high) // 2
        if asked < MAX_EPSILON_GUESSES and slope > 0:
            crossing = known + (threshold - wealth) / slope
            middle = min(max(int(np.searchsorted(grid, crossing)), low + 1), high - 1)
        tried = float(grid[middle])
        found, calls = _found_again(evidence, least, against, epsilon=tried - slack)
        low, high = (low, middle) if found >= threshold else (middle, high)
        slope = (found - wealth) / (tried - known) if tried != known else 0.0
        known, wealth, asked, more = tried, found, asked + 1, more + calls
    return float(grid[high]), more


def _found_again(evidence: Evidence, least: Least, against: AnyAgainst, *, epsilon: float) -> tuple[float, int]:
    """Return the wealth at another ε, and oracle calls: none with leaders, where ε adds the same to every policy."""
    if evidence.leaders is not None:
        return least.with_beside(evidence.beside(against=against, epsilon=epsilon)), 0
    scores = evidence.wealths(least.experts, against=against, epsilon=epsilon)
    found = least_again(evidence.policies, evidence.ledger.contexts, scores, least)
    return found, 0 if evidence.policies.lists_policies else 1

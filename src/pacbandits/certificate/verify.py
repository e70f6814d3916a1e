"""Check a certificate against its log, without the code that made it.

Scores and wealth are computed again, slowly and plainly, from the definition in `pacbandits.certificate.ledger`; the
minimum over the class by the class's own oracle. What cannot be checked from a log is what the certificate lists as its
assumptions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.bookkeeping import (
    WEALTH_ROUNDING,
    Book,
    faults_on_sight,
    judge,
    keep_book,
    near,
    needed_wealth,
    stakes_too_much,
    wrong_lottery,
    wrong_value,
)
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.conventions import delta_part, rearrange
from pacbandits.certificate.leaders import MAX_SLACK, NOBODY
from pacbandits.certificate.membership import belongs
from pacbandits.certificate.rescoring import growth
from pacbandits.certificate.rivals_again import least_refuted_rival, unseen_again
from pacbandits.checks import instance
from pacbandits.policies.base import (
    PolicyClass,
    check_class,
)
from pacbandits.records import Log, check_log, parts_of
from pacbandits.records.digest import digest_log
from pacbandits.rewards import RewardModel, check_model, model_from_json, predict_by_round

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
    policies = check_class(policies)
    if certificate.ordered and len(np.unique(log.rounds)) > 1:
        return Verdict(("the certificate speaks of rows in their order, but the log has rounds",), None)
    if certificate.ordered and log.known is not None:
        return Verdict(("rewards came late, and the log has no rounds that tell which were known when",), None)
    if certificate.shuffled and log.repeats.max() > 1:
        return Verdict(("the log counts repeated interactions, which cannot be shuffled",), None)
    rows, log = len(log), rearrange(log, ordered=certificate.ordered, shuffle=certificate.shuffled)
    cut = log if certificate.learning is None else certificate.learning.set_apart(log)
    _, rounds = np.unique(cut.rounds, return_inverse=True)
    counts = _counted(cut, rounds)
    faults = faults_on_sight(
        certificate, cut, policies, digest=digest_log(cut), rows=rows, n_actions=cut.n_actions, counts=counts
    )
    if (cut.rewards < 0).any() or (cut.rewards > 1).any():
        faults.append("rewards must lie in [0, 1]")
    if faults:
        return Verdict(tuple(faults), None)
    made = model_from_json(certificate.model) if model is None else check_model(model)
    if made.to_json() != certificate.model:
        return Verdict(("the reward model given is not the one that the certificate describes",), None)
    predictions = predict_by_round(log, made)
    if not ((predictions >= 0) & (predictions <= 1)).all():
        return Verdict(("the reward model predicts what is not in [0, 1]",), None)
    if not policies.exact and not policies.checks_membership:
        return Verdict(("the class cannot say whether the certified policy is one of its own",), None)
    if not all(belongs(policy, log.contexts, policies) for policy in parts_of(certificate.policy)):
        return Verdict(("the certified policy is not one of the class",), None)
    needed = needed_wealth(certificate, policies, counts)
    book = keep_book(certificate, counts)
    faults = [*stakes_too_much(certificate, book), *wrong_lottery(certificate, book)]
    if faults:
        return Verdict(tuple(faults), None)
    audit = Audit(certificate, cut, policies, predictions, book)
    if certificate.epsilon > 0:
        faults, value = judge(certificate, audit.least, needed=needed)
        return Verdict(tuple(faults), value)
    value = audit.least_of_rivals()
    value = value if value < np.inf else needed  # nobody acts otherwise
    faults = wrong_value(certificate, value, needed=needed)
    if certificate.certified:
        counted = float(counts[certificate.bets.spared :].sum())
        part = delta_part(policies, led=False) if certificate.by_rule else 1.0
        unseen = unseen_again(cut.contexts, policies, counted=counted, delta=part * certificate.delta)
        if not near(certificate.unit_certified_epsilon, unseen):
            told = certificate.unit_certified_epsilon
            faults.append(f"what the log has not seen may cost {unseen:.6g}, not {told:.6g}")
    elif certificate.unit_certified_epsilon != 1.0:
        if certificate.slack > MAX_SLACK:
            faults.append(f"nothing is claimed with a slack of {certificate.slack:.6g}")
        elif not audit.least(certificate.unit_certified_epsilon - certificate.slack) >= needed - WEALTH_ROUNDING:
            faults.append(f"the data do not certify {certificate.certified_epsilon:.6g}")
    return Verdict(tuple(faults), value)


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
    book: Book

    def least(self, epsilon: float) -> float:
        """The least log-wealth over the class, of the experts that the certificate used."""
        policies, share = self.policies, self.certificate.share
        scores = [self.wealth(expert, epsilon) for expert in self.certificate.experts]
        contexts, rows = self.log.contexts, np.arange(len(self.log))
        begun = float(np.log(len(self.certificate.bets)))
        if policies.lists_policies:
            table = np.asarray(policies.actions(contexts))
            each = np.array([[float(s[rows, actions].sum()) for s in scores] for actions in table])
            return float(np.logaddexp.reduce(each, axis=1).min()) - begun
        if len(scores) == 2 and share is None and policies.has_frontier:
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
        return growth(
            self.certificate,
            self.book,
            self.log.take(part),
            self.predictions[part],
            turn=turn,
            moves=moves,
            stake=stake,
            epsilon=epsilon,
        )

"""Check a certificate against its log, without the code that made it.

Scores and wealth are computed again, slowly and plainly, from the definition in `pacbandits.certificate.ledger`; the
minimum over the class by the class's own oracle. What cannot be checked from a log is what the certificate lists as its
assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.conventions import in_blocks, worth_naming
from pacbandits.certificate.learning import set_apart
from pacbandits.checks import instance
from pacbandits.policies.base import ClosedClass, EnumeratedClass, FrontierClass, PolicyClass, check_class
from pacbandits.policies.registry import digest_class
from pacbandits.records import Contexts, Log, Policy, check_log
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
    if certificate.ordered:
        if len(np.unique(log.rounds)) > 1:
            return Verdict(("the certificate speaks of rows in their order, but the log has rounds",), None)
        log = in_blocks(log)
    cut = set_apart(log) if certificate.bets.spared else log
    faults = _faults_on_sight(certificate, cut, policies)
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
    if not _belongs(certificate.policy, log.contexts, policies):
        return Verdict(("the certified policy is not one of the class",), None)
    needed = _needed(certificate, policies)
    audit = Audit(certificate, cut, policies, predictions)
    value = audit.least(certificate.epsilon)
    # An oracle that is not exact may find a little more or less, asked about rows in another form.
    off = value - certificate.value if certificate.exact else min(value - certificate.value, 0.0)
    if not abs(off) <= WEALTH_ROUNDING * max(1.0, abs(value)):
        faults.append(f"the least log-wealth is {value:.6g}, not {certificate.value:.6g}")
    if certificate.certified and not value >= needed:
        faults.append(f"a log-wealth of {value:.6g} does not reach {needed:.6g}: nothing is certified")
    if certificate.certified_epsilon != 1.0:
        smallest = audit.least(certificate.certified_epsilon)
        if not smallest >= needed - WEALTH_ROUNDING:
            faults.append(f"the data do not certify {certificate.certified_epsilon:.6g}")
    return Verdict(tuple(faults), value)


def _faults_on_sight(certificate: Certificate, log: Log, policies: PolicyClass) -> list[str]:
    """What is wrong without a computation."""
    c, faults = certificate, list[str]()
    if digest_log(log) != c.digest:
        faults.append("the log is not the one that was certified: its digest differs")
    if digest_class(policies) != c.class_digest:
        faults.append("the policy class is not the one that was certified: its digest differs")
    if c.bets.spared != (0 if c.learning is None else c.learning.spared):
        faults.append("the rows that taught the policy class must not bet, and all others must")
    if log.samples != c.samples or len(log) != c.rows:
        faults.append(f"the log has {log.samples} interactions, the certificate speaks of {c.samples}")
    if log.n_actions != policies.n_actions:
        faults.append(f"the log has {log.n_actions} actions, the policy class {policies.n_actions}")
    if not abs(policies.log_size - c.log_size) <= 1e-9 * max(1.0, policies.log_size):
        faults.append(f"the policy class has log size {policies.log_size:.6g}, the certificate {c.log_size:.6g}")
    if policies.exact is not c.exact:
        faults.append("the certificate and the policy class disagree on whether the oracle is exact")
    if log.rewards.min() < 0 or log.rewards.max() > 1:
        faults.append("rewards must lie in [0, 1]")
    if not 0 < c.delta < 1 or not 0 <= c.epsilon < np.inf or not 0 < c.certified_epsilon <= 1:
        faults.append(f"epsilon {c.epsilon} (or {c.certified_epsilon}) and delta {c.delta} are no confidence statement")
    elif not _near(c.threshold, _needed(c, policies)):
        faults.append(f"the threshold {c.threshold:.6g} is not log({'2 ' * c.reserved}|Π| · experts / δ)")
    if not c.reserved and (c.bets.naming is not None or worth_naming(policies)):
        faults.append("half of delta must be kept for policies named in advance, and was not")
    if c.bets.naming is not None and c.bets.naming.round >= len(c.bets.scales):
        faults.append("the policy was named after the last round, and nothing tested it")
    faults.extend(f"the certificate does not say that it assumes: {w}" for w in log.assumed if w not in c.remarks)
    rounds = len(np.unique(log.rounds))
    if len(c.bets.scales) != rounds:
        faults.append(f"bets were made for {len(c.bets.scales)} rounds, but the log has {rounds}")
    if not c.experts or min(c.experts) < 0 or max(c.experts) >= c.bets.experts:
        faults.append("the certificate names experts that do not exist")
    if c.share is not None and not 0 <= c.share <= 1:
        faults.append(f"the weight of an expert must lie in [0, 1], got {c.share}")
    for k in range(c.bets.experts):
        if (c.bets.stakes(k) * (1.0 + c.bets.caps(k)) >= 1.0).any():
            faults.append(f"expert {k} stakes so much that a single row could ruin it")
    return faults


def _needed(certificate: Certificate, policies: PolicyClass) -> float:
    """log(|Π| K/δ), or with half of δ if the rest is for policies named in advance."""
    halves = 2.0 if certificate.reserved else 1.0
    return policies.log_size + float(np.log(halves * len(certificate.bets) / certificate.delta))


def _near(one: float, two: float) -> bool:
    return abs(one - two) <= 1e-9 * max(1.0, abs(two))


def _belongs(policy: Policy, contexts: Contexts, policies: PolicyClass) -> bool:
    """Whether the policy is one of the class, or acts like one on every context of the log if the class cannot say."""
    if isinstance(policies, ClosedClass):
        return policies.has(policy)
    actions = policy(contexts)
    agree = np.zeros((len(contexts), policies.n_actions))
    agree[np.arange(len(contexts)), actions] = 1.0
    return bool(np.array_equal(policies.argmax(contexts, agree)(contexts), actions))


@dataclass(frozen=True, eq=False)
class Audit:
    """A certificate, and what it is rechecked against.

    certificate: what is claimed.
    log: what it is claimed of, cut into blocks if the certificate is, the rows that only taught as the first of them.
    policies: the class.
    predictions (n, A): of the reward model, made before each row's round.
    """

    certificate: Certificate
    log: Log
    policies: PolicyClass
    predictions: FloatArray

    def least(self, epsilon: float) -> float:
        """The least log-wealth over the class, of the experts that the certificate used."""
        policies, share = self.policies, self.certificate.share
        scores = [self.wealth(expert, epsilon) for expert in self.certificate.experts]
        contexts, rows = self.log.contexts, np.arange(len(self.log))
        if isinstance(policies, EnumeratedClass):
            table = np.asarray(policies.actions(contexts))
            each = [[float(s[rows, actions].sum()) for s in scores] for actions in table]
            return float(np.array(each).max(axis=1).min())
        if len(scores) == 2 and share is None and isinstance(policies, FrontierClass):
            frontier = policies.frontier(contexts, -scores[0], -scores[1])
            return float(-np.minimum(frontier.first, frontier.second).max())
        weight = 1.0 if share is None else share
        mixed = weight * scores[0] + (1.0 - weight) * scores[-1]
        return float(mixed[rows, policies.argmax(contexts, -mixed)(contexts)].sum())

    def wealth(self, expert: int, epsilon: float) -> FloatArray:
        """repeats · log(1 + λ(ε − X)) for every row and action (n, A), and each row's share of a head start."""
        log, made = self.log, self.certificate.bets
        _, rounds = np.unique(log.rounds, return_inverse=True)
        reference, played = self.certificate.policy(log.contexts), log.played_propensities
        bets, caps = made.stakes(expert)[rounds], made.caps(expert)[rounds]
        out = np.empty_like(log.bounds)
        for start in range(0, len(log), ROWS_AT_A_TIME):
            part = slice(start, start + ROWS_AT_A_TIME)
            rows = _Rows(
                predictions=self.predictions[part],
                bounds=log.bounds[part],
                actions=log.actions[part],
                rewards=log.rewards[part],
                played=played[part],
                reference=reference[part],
                bet=bets[part],
                cap=caps[part],
            )
            out[part] = log.repeats[part, None] * np.log1p(bets[part, None] * (epsilon - _scores(rows)))
        if made.naming is not None and expert >= len(made):
            # Named i-th, the policy has 2δ/((i + 3)(i + 4)) to itself, where one of |Π| has δ/(2|Π|).
            number = made.naming.number
            out += (self.policies.log_size - np.log((number + 3) * (number + 4) / 4)) / len(log)
        return out


class _Rows(NamedTuple):
    """What the scores of rows are made from.

    predictions (n, A): of the reward model.
    bounds (n, A): propensities, or what they were at least.
    actions (n,): what was played.
    rewards (n,): what it earned.
    played (n,): the propensity of what was played.
    reference (n,): q's actions.
    bet (n,): λ.
    cap (n,): M.
    """

    predictions: FloatArray
    bounds: FloatArray
    actions: IntArray
    rewards: FloatArray
    played: FloatArray
    reference: IntArray
    bet: FloatArray
    cap: FloatArray


def _scores(rows: _Rows) -> FloatArray:
    """X of these rows for every action (n, A)."""
    numbers, p = np.arange(len(rows.actions)), rows.bounds
    reward, played, cap = rows.rewards[:, None], rows.played[:, None], rows.cap[:, None]
    stake = rows.bet[:, None] / np.maximum(p, 1e-12)
    high = np.maximum(_centre(rows.predictions, stake), 1.0 - p * cap)
    low = np.minimum(1.0 - _centre(1.0 - rows.predictions, stake), p * cap)[numbers, rows.reference][:, None]
    mine = np.zeros_like(p, dtype=bool)
    mine[numbers, rows.actions] = True
    theirs = (rows.actions == rows.reference)[:, None]
    score = high + mine * (reward - high) / played - low - theirs * (reward - low) / played
    score[numbers, rows.reference] = 0.0
    return score


def _centre(mean: FloatArray, stake: FloatArray) -> FloatArray:
    """g(f, k) of `pacbandits.certificate.ledger`."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        left = ((1.0 - stake) + np.sqrt((1.0 - stake) ** 2 + 4.0 * mean * stake)) / 2.0
        best = np.clip(1.0 - (1.0 - left) / stake, mean, 1.0)
    return np.where(stake > 1e6, 1.0, np.where(stake < 1e-6, mean, best))

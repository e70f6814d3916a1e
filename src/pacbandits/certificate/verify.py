"""Check a certificate against its log, without the code that made it.

Scores and wealth are computed again, slowly and plainly, from the definition in `pacbandits.certificate.ledger`; the
minimum over the class by the class's own oracle. What cannot be checked from a log is what the certificate lists as its
assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.certify import in_blocks
from pacbandits.certificate.named import worth_naming
from pacbandits.policies.base import ClosedClass, EnumeratedClass, FrontierClass, PolicyClass
from pacbandits.records import Contexts, Log, Policy
from pacbandits.records.digest import digest_log
from pacbandits.rewards import RewardModel, model_from_json, predict_by_round

_ROUNDING = 1e-6  # relative: how far a value computed anew may lie from the one in the certificate
_BLOCK = 2**14  # rows at a time, to be light on memory


@dataclass(frozen=True)
class Verdict:
    """faults: what does not hold, in words; none when the certificate is good. value: the least log-wealth, anew."""

    faults: tuple[str, ...]
    value: float | None

    @property
    def good(self) -> bool:
        return not self.faults


def verify(certificate: Certificate, log: Log, policies: PolicyClass, *, model: RewardModel | None = None) -> Verdict:
    """Recheck every claim of a certificate; `model` is for those whose own cannot be made from its description."""
    if certificate.ordered:
        if len(np.unique(log.rounds)) > 1:
            return Verdict(("the certificate speaks of rows in their order, but the log has rounds",), None)
        log = in_blocks(log)
    faults = _faults_on_sight(certificate, log, policies)
    if faults:
        return Verdict(tuple(faults), None)
    made = model_from_json(certificate.model) if model is None else model
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
    value = _least(certificate, log, policies, predictions, certificate.epsilon)
    # An oracle that is not exact may find a little more or less, asked about rows in another form.
    off = value - certificate.value if certificate.exact else min(value - certificate.value, 0.0)
    if not abs(off) <= _ROUNDING * max(1.0, abs(value)):
        faults.append(f"the least log-wealth is {value:.6g}, not {certificate.value:.6g}")
    if certificate.certified and not value >= needed:
        faults.append(f"a log-wealth of {value:.6g} does not reach {needed:.6g}: nothing is certified")
    if certificate.certified_epsilon != 1.0:
        smallest = _least(certificate, log, policies, predictions, certificate.certified_epsilon)
        if not smallest >= needed - _ROUNDING:
            faults.append(f"the data do not certify {certificate.certified_epsilon:.6g}")
    return Verdict(tuple(faults), value)


def _faults_on_sight(certificate: Certificate, log: Log, policies: PolicyClass) -> list[str]:
    """What is wrong without a computation."""
    c, faults = certificate, list[str]()
    if digest_log(log) != c.digest:
        faults.append("the log is not the one that was certified: its digest differs")
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


def _least(certificate: Certificate, log: Log, policies: PolicyClass, predictions: FloatArray, epsilon: float) -> float:
    """The least log-wealth over the class, of the experts that the certificate used."""
    scores = [
        _wealth(certificate, log, predictions, expert, epsilon, policies.log_size) for expert in certificate.experts
    ]
    contexts, rows = log.contexts, np.arange(len(log))
    if isinstance(policies, EnumeratedClass):
        each = [[float(s[rows, actions].sum()) for s in scores] for actions in np.asarray(policies.actions(contexts))]
        return float(np.array(each).max(axis=1).min())
    if len(scores) == 2 and certificate.share is None and isinstance(policies, FrontierClass):
        frontier = policies.frontier(contexts, -scores[0], -scores[1])
        return float(-np.minimum(frontier.first, frontier.second).max())
    share = 1.0 if certificate.share is None else certificate.share
    mixed = share * scores[0] + (1.0 - share) * scores[-1]
    return float(mixed[rows, policies.argmax(contexts, -mixed)(contexts)].sum())


def _wealth(
    certificate: Certificate, log: Log, predictions: FloatArray, expert: int, epsilon: float, log_size: float
) -> FloatArray:
    """repeats · log(1 + λ(ε − X)) for every row and action (n, A), and each row's share of a head start."""
    _, rounds = np.unique(log.rounds, return_inverse=True)
    bets, caps = certificate.bets.stakes(expert)[rounds], certificate.bets.caps(expert)[rounds]
    reference = certificate.policy(log.contexts)
    played = log.played_propensities
    out = np.empty_like(log.bounds)
    for start in range(0, len(log), _BLOCK):
        part = slice(start, start + _BLOCK)
        bet, cap = bets[part, None], caps[part, None]
        score = _scores(
            predictions[part],
            log.bounds[part],
            log.actions[part],
            log.rewards[part, None],
            played[part, None],
            reference[part],
            bet,
            cap,
        )
        out[part] = log.repeats[part, None] * np.log1p(bet * (epsilon - score))
    naming = certificate.bets.naming
    if naming is not None and expert >= len(certificate.bets):
        # Named i-th, the policy has 2δ/((i + 3)(i + 4)) to itself, where one of |Π| has δ/(2|Π|).
        out += (log_size - np.log((naming.number + 3) * (naming.number + 4) / 4)) / len(log)
    return out


def _scores(
    predictions: FloatArray,
    p: FloatArray,
    actions: IntArray,
    reward: FloatArray,
    played: FloatArray,
    reference: IntArray,
    bet: FloatArray,
    cap: FloatArray,
) -> FloatArray:
    """X of some rows for every action; reward, played, bet and cap are columns."""
    rows = np.arange(len(actions))
    stake = bet / np.maximum(p, 1e-12)
    high = np.maximum(_centre(predictions, stake), 1.0 - p * cap)
    low = np.minimum(1.0 - _centre(1.0 - predictions, stake), p * cap)[rows, reference][:, None]
    mine = np.zeros_like(p, dtype=bool)
    mine[rows, actions] = True
    theirs = (actions == reference)[:, None]
    score = high + mine * (reward - high) / played - low - theirs * (reward - low) / played
    score[rows, reference] = 0.0
    return score


def _centre(mean: FloatArray, stake: FloatArray) -> FloatArray:
    """g(f, k) of `pacbandits.certificate.ledger`."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        left = ((1.0 - stake) + np.sqrt((1.0 - stake) ** 2 + 4.0 * mean * stake)) / 2.0
        best = np.clip(1.0 - (1.0 - left) / stake, mean, 1.0)
    return np.where(stake > 1e6, 1.0, np.where(stake < 1e-6, mean, best))

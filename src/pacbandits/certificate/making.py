"""Making a certificate: the wealth of the least refuted policy, and the smallest ε at which all are refuted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.bets import Bets
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.claim import Json
from pacbandits.certificate.learning import Learning
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.search import Least, least_again, least_wealth
from pacbandits.confidence import certificate_threshold, check_delta, check_epsilon, head_start
from pacbandits.errors import InputError
from pacbandits.policies.base import EnumeratedClass, PolicyClass
from pacbandits.policies.registry import digest_class
from pacbandits.policies.remembering import remembering
from pacbandits.records import Log, Policy
from pacbandits.records.digest import digest_log

MIN_CERTIFIED_EPSILON = 1e-3  # unless a smaller one is asked for
EPSILON_GRID_STEPS = 2**9  # of equal ratio, from there to 1
MAX_EPSILON_GUESSES = 5  # before bisection


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a certificate of any policy of a class is made from.

    log: what was seen.
    ledger: the same with its predictions, laid out.
    policies: the class.
    epsilon: how near to the best a policy is to be certified.
    delta: with what probability of being wrong.
    model: the reward model that predicted, in JSON.
    ordered: whether the log's rounds are blocks of a log that had none.
    reserved: whether half of δ is for policies named in advance.
    by_rule: whether model, bets and names follow from the log by the rule of `certify`.
    learning: how the class was learnt, if it was asked for by its name.
    """

    log: Log
    ledger: Ledger
    policies: PolicyClass
    epsilon: float
    delta: float
    model: Json
    ordered: bool = False
    reserved: bool = False
    by_rule: bool = False
    learning: Learning | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    def needed(self, bets: Bets) -> float:
        """The log-wealth that refutes a policy."""
        return certificate_threshold(
            log_size=self.policies.log_size, experts=len(bets), delta=self.delta, reserved=self.reserved
        )

    def wealth(self, bets: Bets, expert: int, *, reference: IntArray, epsilon: float | None = None) -> FloatArray:
        """The log-wealth scores (m, A) of one expert, a head start shared out among the contexts.

        reference (m,): q's actions. epsilon: if not the one that is to be certified.
        """
        scores = self.ledger.log_wealth(
            reference=reference,
            bets=bets.stakes(expert),
            caps=bets.caps(expert),
            epsilon=self.epsilon if epsilon is None else epsilon,
        )
        if bets.naming is not None and bets.late(expert):
            head = head_start(log_size=self.policies.log_size, number=bets.naming.number)
            scores += head / len(self.ledger.contexts)
        return scores

    def slope(self, bets: Bets, experts: Iterable[int]) -> float:
        """About how fast log-wealth rises with ε: by all stakes together, the mean of these experts."""
        ledger = self.ledger
        return float(np.mean([(ledger.rows.repeats * bets.stakes(k)[ledger.rows.rounds]).sum() for k in experts]))

    def find_least(self, bets: Bets, *, reference: IntArray, experts: Sequence[int] | None = None) -> Least:
        """What is left of the least refuted policy, by the best of all experts or of these."""
        asked = range(bets.experts) if experts is None else experts
        scores = [self.wealth(bets, expert, reference=reference) for expert in asked]
        least = least_wealth(self.policies, self.ledger.contexts, scores, needed=self.needed(bets))
        return replace(least, experts=tuple(asked[k] for k in least.experts))


def make_certificate(
    evidence: Evidence, reference: Policy, bets: Bets, *, least: Least | None = None
) -> tuple[Certificate, int]:
    """What the data say of `reference`, and how many oracle calls it took to know.

    bets: with a naming if the reference was named in advance. least: what `find_least` found, if it was asked.
    """
    if bets.naming is not None and not evidence.reserved:
        raise InputError("a policy that was named in advance needs a half of delta kept for it: reserved=True")
    log, ledger, policies = evidence.log, evidence.ledger, evidence.policies
    asked = replace(evidence, policies=remembering(policies, ledger.contexts))
    own, threshold = reference(ledger.contexts), evidence.needed(bets)
    calls = 0
    if least is None:
        least = asked.find_least(bets, reference=own)
        calls = least.oracle_calls
    smallest, more = _certified_epsilon(asked, bets, least, reference=own, threshold=threshold)
    certificate = Certificate(
        policy=reference,
        epsilon=evidence.epsilon,
        delta=evidence.delta,
        certified_epsilon=min(smallest, evidence.epsilon) if least.value >= threshold else smallest,
        value=least.value,
        threshold=threshold,
        log_size=policies.log_size,
        samples=ledger.samples,
        rows=len(log),
        bets=bets,
        experts=least.experts,
        share=least.share,
        model=evidence.model,
        digest=digest_log(log),
        class_digest=digest_class(policies),
        exact=policies.exact,
        ordered=evidence.ordered,
        reserved=evidence.reserved,
        by_rule=evidence.by_rule,
        learning=evidence.learning,
        remarks=log.assumed,
    )
    return certificate, calls + more


def _certified_epsilon(
    evidence: Evidence, bets: Bets, least: Least, *, reference: IntArray, threshold: float
) -> tuple[float, int]:
    """The smallest ε on a grid at which the same experts refute every policy, to about 1 % above; and oracle calls.

    Wealth rises with ε, almost along a line: at first it is guessed where that crosses the threshold.
    """
    epsilon, listed = evidence.epsilon, isinstance(evidence.policies, EnumeratedClass)
    refuted = least.value >= threshold
    if not refuted and epsilon >= 1:
        return 1.0, 0
    grid = np.exp(np.log(MIN_CERTIFIED_EPSILON) * (1.0 - np.arange(EPSILON_GRID_STEPS + 1) / EPSILON_GRID_STEPS))
    low, high = 0, len(grid) - 1
    if refuted:
        high = min(max(int(np.searchsorted(grid, epsilon, side="left")), 1), high)
    else:
        low = max(int(np.searchsorted(grid, epsilon, side="right")) - 1, 0)
    slope = evidence.slope(bets, least.experts)
    known, wealth, asked = epsilon, least.value, 0
    while high - low > 1:
        middle = (low + high) // 2
        if asked < MAX_EPSILON_GUESSES and slope > 0:
            crossing = known + (threshold - wealth) / slope
            middle = min(max(int(np.searchsorted(grid, crossing)), low + 1), high - 1)
        tried = float(grid[middle])
        scores = [evidence.wealth(bets, expert, reference=reference, epsilon=tried) for expert in least.experts]
        found = least_again(evidence.policies, evidence.ledger.contexts, scores, share=least.share)
        low, high = (low, middle) if found >= threshold else (middle, high)
        slope = (found - wealth) / (tried - known) if tried != known else 0.0
        known, wealth, asked = tried, found, asked + 1
    return float(grid[high]), 0 if listed else asked

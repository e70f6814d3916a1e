"""Certify anyone's log: nothing is needed of the algorithm that collected it but its propensities."""

from __future__ import annotations

import numpy as np

from pacbandits.certificate.bets import Bets
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.claim import LEARNT, check_asked
from pacbandits.certificate.conventions import in_blocks, worth_naming
from pacbandits.certificate.leaders import find_leader, name_leaders
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.making import Evidence
from pacbandits.certificate.named import best_certificate
from pacbandits.checks import flag
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.costs import Searches, check_memory
from pacbandits.records import Log
from pacbandits.rewards import RewardModel, check_model, default_model, predict_by_round

# Fixed in advance, as nothing is known of the design: from a stake that suits a trial of two actions to one that suits
# rare actions and small gaps.
EXPERT_STAKES = tuple(0.4 * 0.5**j for j in range(10))

CERTIFICATE_SEARCHES = Searches(argmaxes=20, frontiers=6)  # as counted on logs of trees; up to twice as many


def certify(
    log: Log,
    policies: PolicyClass,
    *,
    epsilon: float,
    delta: float,
    model: RewardModel | None = None,
    ordered: bool = False,
    learnt: bool = False,
) -> Certificate:
    """What the log proves of the policy it favours.

    log: what was seen and done, with propensities.
    policies: the class to search.
    epsilon, delta: how near to the best, and with what probability of being wrong.
    model: the reward model, if not one that suits the contexts.
    ordered: whether the rows stand in the order in which they occurred.
    learnt: whether the class was learnt from the contexts of this very log, which the certificate then says.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("two-of-many:actions=6,policies=40")
    >>> log = pb.run(problem, algorithm="uniform", epsilon=0.2, delta=0.05, rng=1).log  # or anyone's, by read_log
    >>> certificate = pb.certify(log, problem.policies, epsilon=0.3, delta=0.05)
    >>> certificate.describe()
    'except with probability 0.05 the policy is within 0.3 of the best of its class'

    The reward model of a round is fitted on the earlier ones, so a log of a single round goes without. When its rows
    are known to stand in the order in which they occurred, say so (`ordered`): it is then cut into blocks, the first
    256 rows, then as many again as before, and so on. The order matters: in a log sorted by its rewards the model of a
    block would see what it should predict. (Rows independent of each other may be shuffled, and are then in order.)
    """
    epsilon, delta = check_asked(log, policies, epsilon=epsilon, delta=delta)
    flag(learnt, name="learnt")
    blocks = in_blocks(log) if flag(ordered, name="ordered") else log
    first = np.flatnonzero(blocks.rounds == blocks.rounds.min())
    used = default_model(blocks.contexts.take(first)) if model is None else check_model(model)
    predictions = predict_by_round(blocks, used)
    ledger = Ledger.of(blocks, predictions)
    check_memory(policies, len(ledger.contexts))
    # Half of δ is kept also with a single round: more may follow, and all looks together must err no more often than δ.
    evidence = Evidence(
        blocks,
        ledger,
        policies,
        epsilon,
        delta,
        model=used.to_json(),
        ordered=blocks is not log,
        reserved=worth_naming(policies),
    )
    certificate, _ = best_certificate(
        evidence,
        leader=find_leader(ledger, policies, epsilon=epsilon, all_propensities=blocks.least is None),
        named=name_leaders(blocks, predictions, policies) if evidence.reserved else (),
        bets=Bets(EXPERT_STAKES, (1.0,) * ledger.n_rounds),
    )
    return certificate.with_remarks(LEARNT) if learnt else certificate

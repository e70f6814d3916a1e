"""The rule by which `certify` chooses model, stakes and leaders, followed again by whoever verifies.

All three follow from the log, so a certificate that claims to have followed the rule can be held to it: a leader that
was antedated, a stake chosen with hindsight or a model fitted to what it predicts would each make a claim look stronger
than it is. The rule is followed with the same code that made the certificate, which is safe: what matters of a leader
is that it was chosen by earlier rows alone, and no other rows are handed over here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pacbandits.certificate.bets import CAP_SHARE
from pacbandits.certificate.certificate import MODEL_GIVEN, Certificate
from pacbandits.certificate.choosing import favourite_scores, lead_log, part_before
from pacbandits.certificate.conventions import EXPERT_STAKES, rearrange, settling_round, sizes_beforehand, worth_leading
from pacbandits.certificate.leaders import LOTTERY_MOVING, NOBODY, SINGLE_MOVING, Leaders
from pacbandits.certificate.learning import has_order, learn_from_blocks
from pacbandits.errors import InputError, count_of
from pacbandits.policies.base import PolicyClass, total
from pacbandits.policies.registry import same_class
from pacbandits.records import Contexts, Log, Policy
from pacbandits.rewards import RewardModel, first_model, model_from_json, predict_by_round

TIED = "a tie between policies was broken before it was seen who does better, for the leader of round"
MAX_TIE_ROUNDING = 1e-9  # between the scores of two leaders that another machine's arithmetic may tell apart otherwise


def follow_rule(
    certificate: Certificate, log: Log, policies: PolicyClass, *, model: RewardModel | None = None
) -> tuple[list[str], list[str], list[str]]:
    """What does not follow from the log, what does, and what was taken on trust, in words.

    model: the reward model, if the certificate's own cannot be made from its description.
    """
    if not certificate.by_rule:
        return [], [], ["bets, predictions and leaders were fixed before their rounds, as whoever ran the trial says"]
    blocks = rearrange(log, ordered=certificate.ordered, shuffle=certificate.shuffled)
    used = model_from_json(certificate.model) if model is None else model
    faults = [*_wrong_stakes(certificate), *_wrong_model(certificate, blocks)]
    wrong, tied = _wrong_leaders(certificate, blocks, policies, used)
    given = MODEL_GIVEN in certificate.remarks
    trusted = [*(["the reward model was chosen before the log was seen"] if given else []), *tied]
    model_too = "" if given else "the reward model, "
    return [*faults, *wrong], [f"{model_too}stakes and leaders follow from the log by the rule of certify"], trusted


def learn_again(
    certificate: Certificate, log: Log, policies: PolicyClass, contexts: Contexts | None
) -> tuple[list[str], list[str], list[str]]:
    """What is wrong with the class that a certificate says was learnt, what was checked, and what was not.

    contexts: those from before the experiment, if the class was learnt from such and the reader has them.
    """
    learning, kind = certificate.learning, "the policy class"
    if learning is None:
        return [], [], [f"{kind} is the one that was fixed before the log was seen"]
    if learning.spared == 0 and contexts is None:
        return [], [], [f"{kind} is what {learning.spec} learns from the contexts that it says it was learnt from"]
    blocks = rearrange(log, ordered=certificate.ordered, shuffle=certificate.shuffled)
    try:
        again = learn_from_blocks(learning.spec, blocks, None if learning.spared else contexts)
    except InputError as error:
        return [f"{kind} cannot be learnt again: {error}"], [], []
    if again.learning != learning:
        return [f"{kind} was learnt from other contexts than the certificate says"], [], []
    if not same_class(again.policies, policies):
        where = f"the first {learning.contexts:,} rows of the log" if learning.spared else "the contexts"
        return [f"{kind} is not what {learning.spec} learns from {where}"], [], []
    where = (
        f"the first {learning.contexts:,} rows of the log"
        if learning.spared
        else count_of(learning.contexts, "context")
    )
    return [], [f"{kind} is what {learning.spec} learns from {where}"], []


def _wrong_stakes(c: Certificate) -> Iterator[str]:
    if c.bets.multipliers != EXPERT_STAKES or set(c.bets.scales) != {1.0} or c.bets.share != CAP_SHARE:
        yield "the stakes are not those that certify fixes in advance"


def _wrong_model(c: Certificate, blocks: Log) -> Iterator[str]:
    if MODEL_GIVEN not in c.remarks and c.model != first_model(blocks).to_json():
        yield "the reward model is not the one that follows from the first round of the log"


def _wrong_leaders(
    c: Certificate, blocks: Log, policies: PolicyClass, model: RewardModel
) -> tuple[list[str], list[str]]:
    """Whether who led in each round is who leads by the rule, and what of that is taken on trust.

    Where the rows before a round cannot tell two policies apart, another machine may break the tie otherwise.
    """
    told = c.leaders
    if (told is not None) != (c.epsilon > 0 and worth_leading(policies) and has_order(blocks)):
        return ["leaders are for large classes on logs with rounds, and for these always"], []
    if told is None:
        return [], []
    settled = settling_round(blocks, c.bets.spared) if c.shuffled else None
    if told.moving not in ((LOTTERY_MOVING,) if c.shuffled else (LOTTERY_MOVING, SINGLE_MOVING)):
        return ["the weight that moves between leaders is not what certify fixes in advance"], []
    if told.settled != settled:
        return ["the round from which on the leader stays is not the one that certify fixes in advance"], []
    sizes = sizes_beforehand(blocks, in_order=c.ordered, shuffled=c.shuffled)
    if told.sizes != sizes:
        return ["the sizes of rounds are not those that certify plans with"], []
    predictions, tied = predict_by_round(blocks, model), list[str]()

    def settle(number: int, chosen: Policy) -> Policy:
        """Who is told to lead, if it is the one chosen, stands for it, or is not told apart from it."""
        if told.turns[number] == NOBODY:
            return chosen
        theirs = told.policies[told.turns[number]]
        before, ledger = part_before(blocks, predictions, number)
        earlier = np.flatnonzero(blocks.rounds < np.unique(blocks.rounds)[number])
        seen = blocks.contexts.take(earlier)
        if theirs.to_json() == chosen.to_json() or _stands_for(told, number, chosen, seen):
            return theirs
        scores, _ = favourite_scores(ledger, policies, all_propensities=before.least is None)
        best, found = (total(scores, policy(ledger.contexts)) for policy in (chosen, theirs))
        if abs(found - best) > MAX_TIE_ROUNDING * max(1.0, abs(best)):
            return chosen
        tied.append(f"{TIED} {number + 1}")
        return theirs

    mine = lead_log(
        blocks,
        predictions,
        policies,
        sizes=sizes,
        spared=c.bets.spared,
        single=told.restarts,
        settled=settled,
        settle=settle,
    )
    for number, (own, given) in enumerate(zip(mine.turns, told.turns, strict=True)):
        same = own == given if NOBODY in (own, given) else mine.policies[own] is told.policies[given]
        if not same:
            return [f"the leader of round {number + 1} is not the policy that the rows before it favour"], []
    return [], tied


def _stands_for(told: Leaders, number: int, chosen: Policy, known: Contexts) -> bool:
    """Whether the leader that is told of a round led before, the first of those who act on known contexts as chosen."""
    own = chosen(known)
    earlier = sorted({turn for turn in told.turns[:number] if turn != NOBODY})
    first = next((turn for turn in earlier if np.array_equal(told.policies[turn](known), own)), None)
    return first == told.turns[number]

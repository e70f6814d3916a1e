"""Recheck a certificate of a large log, without the code that made it.

Scores and wealth of every row are computed again plainly (`pacbandits.certificate.rescoring`), and added up by the
class. Which rows are early, and the model that these teach, are found by the same code as before, which is safe: what
matters of them is that they came first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from pacbandits.certificate.bets import CAP_SHARE
from pacbandits.certificate.bookkeeping import (
    Book,
    faults_on_sight,
    judge,
    keep_book,
    needed_wealth,
    stakes_too_much,
    wrong_lottery,
)
from pacbandits.certificate.certificate import MODEL_GIVEN, Certificate, leaders_to_json
from pacbandits.certificate.conventions import EXPERT_STAKES, worth_leading
from pacbandits.certificate.leaders import LOTTERY_MOVING, NOBODY, SINGLE_MOVING, Leaders
from pacbandits.certificate.learning import LearntClass
from pacbandits.certificate.membership import belongs
from pacbandits.certificate.rescoring import growth
from pacbandits.certificate.rule import MAX_TIE_ROUNDING, TIED
from pacbandits.certificate.summed.laying import Surveyed, lay_out, learn_policies, survey
from pacbandits.certificate.summed.leading import Settle
from pacbandits.certificate.summed.limits import LIMITS, Limits
from pacbandits.certificate.summed.questions import check_room, round_down, wealth_bits
from pacbandits.certificate.summed.setting import Setting, check_rows
from pacbandits.certificate.verify import Verdict
from pacbandits.engines import ROWS_PER_BLOCK, Engine, Source, Sums
from pacbandits.errors import InputError, count_of
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import same_class
from pacbandits.policies.summing import Summation, summing
from pacbandits.records import Contexts, Log, Policy, parts_of
from pacbandits.rewards import RewardModel, check_model, first_model, model_from_json

Findings = tuple[list[str], list[str], list[str]]  # faults, what was checked, what is trusted


def survey_again(c: Certificate, source: Source, *, engine: Engine, limits: Limits = LIMITS) -> Surveyed:
    """The rows as the certificate says they count."""
    spec = c.learning.spec if c.learning is not None and c.learning.spared else None
    by_rows = c.ordered and not c.shuffled
    return survey(source, engine=engine, spec=spec, ordered=by_rows, shuffle=c.shuffled, limits=limits)


def verify_source(
    c: Certificate,
    source: Source,
    policies: PolicyClass,
    *,
    engine: Engine,
    contexts: Contexts | None = None,
    model: RewardModel | None = None,
    limits: Limits = LIMITS,
) -> tuple[Verdict, Surveyed]:
    """Recheck every claim of a certificate by sums over its rows; and what was found on the first reading."""
    try:
        surveyed = survey_again(c, source, engine=engine, limits=limits)
    except InputError as error:
        raise InputError(f"the rows cannot be read as the certificate says: {error}") from None
    verdict = _recheck(c, surveyed, policies, engine=engine, model=model)
    if not verdict.good:
        return verdict, surveyed
    found = (
        _learn_again(c, surveyed, policies, contexts),
        _follow_rule(c, surveyed, policies, engine=engine, model=model),
    )
    faults, checked, trusted = (tuple(chain.from_iterable(part)) for part in zip(*found, strict=True))
    return replace(verdict, faults=faults, checked=checked, trusted=trusted), surveyed


def _recheck(
    c: Certificate, surveyed: Surveyed, policies: PolicyClass, *, engine: Engine, model: RewardModel | None
) -> Verdict:
    """Whether the figures of a certificate are what its rows come to."""
    facts, counts = surveyed.facts, surveyed.arrangement.counts
    if c.ordered != surveyed.in_order or c.shuffled != surveyed.shuffled:
        return Verdict(("the certificate speaks of another order of rows than this log can have",), None)
    if c.epsilon == 0:
        return Verdict(("that a policy is the best itself is not proven by sums over rows",), None)
    faults = faults_on_sight(
        c, facts, policies, digest=surveyed.digest, rows=facts.rows, n_actions=facts.n_actions, counts=counts
    )
    if faults:
        return Verdict(tuple(faults), None)
    made = model_from_json(c.model) if model is None else check_model(model)
    if made.to_json() != c.model:
        return Verdict(("the reward model given is not the one that the certificate describes",), None)
    if not policies.exact and not policies.checks_membership:
        return Verdict(("the class cannot say whether the certified policy is one of its own",), None)
    if not all(belongs(policy, surveyed.early.contexts, policies) for policy in parts_of(c.policy)):
        return Verdict(("the certified policy is not one of the class",), None)
    book, needed = keep_book(c, counts), needed_wealth(c, policies, counts)
    faults = [*stakes_too_much(c, book), *wrong_lottery(c, book)]
    if faults:
        return Verdict(tuple(faults), None)
    audit = SummedAudit(c, surveyed, summing(policies), surveyed.setting(made), book, engine)
    faults, value = judge(c, audit.least, needed=needed)
    return Verdict(tuple(faults), value)


@dataclass(frozen=True, eq=False)
class SummedAudit:
    """A certificate, and the rows that it is rechecked against.

    certificate: what is claimed.
    surveyed: its rows.
    summing: how the class adds them up.
    setting: the round of each, and what was predicted of it.
    book: what every round is scored against.
    engine: who adds up.
    """

    certificate: Certificate
    surveyed: Surveyed
    summing: Summation
    setting: Setting
    book: Book
    engine: Engine

    def least(self, epsilon: float) -> float:
        """The least log-wealth over the class, of the experts that the certificate used."""
        c, share, policies = self.certificate, self.certificate.share, self.summing.policies
        contexts, width = self.summing.contexts, self.summing.policies.n_actions
        bits = wealth_bits(self.surveyed.facts.samples)
        inside = 0.0 if c.leaders is not None else epsilon
        asked = PlainWealth(c, self.summing, self.setting, self.book, inside, bits)
        sums = self.engine.ask(self.surveyed.source, asked, what="adding up wealth again")
        check_room(sums)
        whole = np.ldexp(self.summing.finish(sums[0]), -bits)
        scores = [np.ascontiguousarray(whole[..., k * width : (k + 1) * width]) for k in range(len(c.experts))]
        led = self.surveyed.arrangement.counts * (np.array(self.book.leaders.turns) != NOBODY)
        beside = [(epsilon - inside) * float((led * c.bets.stakes(expert)).sum()) for expert in c.experts]
        begun = float(np.log(len(c.bets)))
        if policies.lists_policies:
            table = np.asarray(policies.actions(contexts))
            rows = np.arange(len(contexts))
            each = np.array([[float(s[rows, one].sum()) for s in scores] for one in table]) + np.array(beside)
            return float(np.logaddexp.reduce(each, axis=1).min()) - begun
        if len(scores) == 2 and share is None and policies.has_frontier:
            frontier = policies.frontier(contexts, -scores[0], -scores[1])
            wealths = beside[0] - frontier.first, beside[1] - frontier.second
            return float(np.logaddexp(*wealths).min()) - begun
        weight = 1.0 if share is None else share
        mixed = weight * scores[0] + (1.0 - weight) * scores[-1]
        spread = -sum(part * np.log(part) for part in (weight, 1.0 - weight) if part > 0)
        found = policies.attained(contexts, mixed, policies.argmax(contexts, -mixed))
        return found + weight * beside[0] + (1.0 - weight) * beside[-1] + float(spread) - begun


@dataclass(frozen=True, eq=False)
class PlainWealth:
    """The log-wealth of the experts that a certificate used, rounded down row by row.

    epsilon: what stands inside scores.
    """

    certificate: Certificate
    summing: Summation
    setting: Setting
    book: Book
    epsilon: float
    bits: int

    def begin(self) -> Sums:
        width = len(self.certificate.experts) * self.summing.policies.n_actions
        return self.summing.zeros(width), np.zeros(1, dtype=np.int64)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        c = self.certificate
        rounds = self.setting.arrangement.rounds_of(number * ROWS_PER_BLOCK, block)
        predictions = self.setting.predict(block.contexts, rounds, n_actions=block.n_actions)
        check_rows(block, predictions)
        wealth = np.zeros((len(block), len(c.experts) * block.n_actions))
        for place, expert in enumerate(c.experts):
            columns = slice(place * block.n_actions, (place + 1) * block.n_actions)
            for t in np.unique(rounds):
                turn, stake = self.book.leaders.turns[int(t)], float(c.bets.stakes(expert)[int(t)])
                if turn == NOBODY or stake == 0:
                    continue
                mine = np.flatnonzero(rounds == t)
                grown = growth(
                    c,
                    self.book,
                    block.take(mine),
                    predictions[mine],
                    turn=turn,
                    moves=self.book.moves[int(t)],
                    stake=stake,
                    epsilon=self.epsilon,
                )
                wealth[mine, columns] = block.repeats[mine, None] * grown
        scores, size = round_down(wealth, self.bits)
        self.summing.add(block.contexts, scores, sums[0])
        sums[1][0] += size


def _learn_again(c: Certificate, surveyed: Surveyed, policies: PolicyClass, contexts: Contexts | None) -> Findings:
    """What is wrong with the class that a certificate says was learnt, what was checked, and what was not."""
    learning, kind = c.learning, "the policy class"
    if learning is None:
        return [], [], [f"{kind} is the one that was fixed before the log was seen"]
    if learning.spared == 0 and contexts is None:
        return [], [], [f"{kind} is what {learning.spec} learns from the contexts that it says it was learnt from"]
    try:
        again = learn_policies(surveyed, learning.spec, None if learning.spared else contexts)
    except InputError as error:
        return [f"{kind} cannot be learnt again: {error}"], [], []
    if again.learning != learning:
        return [f"{kind} was learnt from other contexts than the certificate says"], [], []
    rows = f"the first {learning.contexts:,} rows of the log"
    where = rows if learning.spared else count_of(learning.contexts, "context")
    if not same_class(again.policies, policies):
        return [f"{kind} is not what {learning.spec} learns from {where}"], [], []
    return [], [f"{kind} is what {learning.spec} learns from {where}"], []


def _follow_rule(
    c: Certificate, surveyed: Surveyed, policies: PolicyClass, *, engine: Engine, model: RewardModel | None
) -> Findings:
    """Whether stakes, model and leaders follow from the rows by the rule of `certify`."""
    if not c.by_rule:
        return [], [], ["bets, predictions and leaders were fixed before their rounds, as whoever made it says"]
    given = MODEL_GIVEN in c.remarks
    trusted = ["the reward model was chosen before the log was seen"] if given else []
    faults = list(_wrong_by_rule(c, surveyed, policies, given=given))
    if not faults and c.leaders is not None:
        used = model_from_json(c.model) if model is None else model
        learnt, ties = LearntClass(policies, c.learning), list[str]()
        single, settle = c.leaders.moving == SINGLE_MOVING, _settling(c.leaders, ties)
        mine = lay_out(surveyed, learnt, engine=engine, model=used, single=single, settle=settle).leaders
        if mine is None or leaders_to_json(mine) != leaders_to_json(replace(c.leaders, start=0)):
            faults.append("the leaders of rounds are not the policies that the rows before them favour")
        trusted.extend(ties)
    model_too = "" if given else "the reward model, "
    return faults, [f"{model_too}stakes and leaders follow from the log by the rule of certify"], trusted


def _settling(told: Leaders, ties: list[str]) -> Settle:
    """Who is told to lead, where that is the one chosen, or is not told apart from it by the rows before a round.

    ties: where to say so. Another machine's arithmetic, or a card's, may tell two such apart otherwise.
    """

    def settle(number: int, chosen: Policy, worth: Callable[[Policy], float]) -> Policy:
        if told.turns[number] == NOBODY:
            return chosen
        theirs = told.policies[told.turns[number]]
        if theirs.to_json() == chosen.to_json():
            return theirs
        best, found = worth(chosen), worth(theirs)
        if not abs(found - best) <= MAX_TIE_ROUNDING * max(1.0, abs(best)):
            return chosen  # or one that stands for it, as it acts alike on what is known
        ties.append(f"{TIED} {number + 1}")
        return theirs

    return settle


def _wrong_by_rule(c: Certificate, surveyed: Surveyed, policies: PolicyClass, *, given: bool) -> Iterator[str]:
    if c.bets.multipliers != EXPERT_STAKES or set(c.bets.scales) != {1.0} or c.bets.share != CAP_SHARE:
        yield "the stakes are not those that certify fixes in advance"
    if not given and c.model != first_model(surveyed.early).to_json():
        yield "the reward model is not the one that follows from the first round of the log"
    told = c.leaders
    if (told is not None) != (worth_leading(policies) and surveyed.has_order):
        yield "leaders are for large classes on logs with rounds, and for these always"
        return
    if told is None:
        return
    if told.moving not in ((LOTTERY_MOVING,) if c.shuffled else (LOTTERY_MOVING, SINGLE_MOVING)):
        yield "the weight that moves between leaders is not what certify fixes in advance"
    spared = 0 if c.learning is None else c.learning.spared
    if told.settled != surveyed.settling_round(spared):
        yield "the round from which on the leader stays is not the one that certify fixes in advance"
    if told.sizes != surveyed.sizes:
        yield "the sizes of rounds are not those that certify plans with"

"""A log of any size after the first pass over its rows, and how `certify` lays it out: order, class, model, leaders.

Bounded parts of the log teach how features are cut, what rewards to expect and who leads at first; every row bets. No
proof differs from that of a log in memory, only what a large log is learnt from; and sums are of whole numbers, so that
they are the same to the last bit wherever they are made.

All of it follows from the rows, the class that was asked for and how rows may be arranged, so that who verifies can
follow it again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.bets import Bets
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.choosing import favourite_scores, marked_down
from pacbandits.certificate.claim import Claim
from pacbandits.certificate.conventions import settling_row, worth_leading
from pacbandits.certificate.learning import LearntClass, learn_from_blocks
from pacbandits.certificate.learning_record import fewest_to_teach
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.summed.arrangement import Arrangement, Shuffled
from pacbandits.certificate.summed.facts import Facts, arrange_rows, facts_of
from pacbandits.certificate.summed.gathering import EarlyPlaces, EverySo, Gathered, first_block
from pacbandits.certificate.summed.leading import Leading, Settle
from pacbandits.certificate.summed.ledger import SummedLedger
from pacbandits.certificate.summed.limits import LIMITS, Limits
from pacbandits.certificate.summed.setting import Setting, make_setting
from pacbandits.certificate.summed.worth import SummedWeighing
from pacbandits.certificate.survey import LaidOut
from pacbandits.certificate.worth import Decided
from pacbandits.engines import Engine, Source
from pacbandits.engines.base import count_blocks
from pacbandits.engines.digesting import BlockDigests, whole_digest
from pacbandits.engines.together import ask_together
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import learns
from pacbandits.policies.summing import summing
from pacbandits.records import Contexts, Log, Policy
from pacbandits.rewards import RewardModel, first_model


@dataclass(frozen=True, eq=False)
class Surveyed:
    """A log of any size after the first pass over its rows: the `LogSurvey` by sums of whole numbers.

    source: where rows are.
    engine: who adds up.
    facts: of all of them.
    arrangement: the order in which they count.
    shuffled: whether they are.
    in_order: whether rows are cut into blocks by their order, or after a shuffle.
    early: the early rows, numbered by round.
    watched: rows in which signs against the assumptions are looked for: all, or one of so many.
    digest: of all rows.
    spared: rows that only teach, where rows have no order.
    limits: by which all this was found.
    """

    source: Source
    engine: Engine
    facts: Facts
    arrangement: Arrangement
    shuffled: bool
    in_order: bool
    early: Log
    watched: Log
    digest: str
    spared: int
    limits: Limits = LIMITS

    @property
    def rows(self) -> int:
        return self.facts.rows

    @property
    def has_rounds(self) -> bool:
        return self.facts.has_rounds

    @property
    def counts(self) -> FloatArray:
        return self.arrangement.counts

    rows_by_round = counts

    @property
    def has_order(self) -> bool:
        """Whether something is known to have come before something else."""
        return self.facts.has_rounds or (self.in_order and len(self.arrangement.counts) > 1)

    @property
    def sizes(self) -> tuple[int, ...]:
        """What each round was planned to have, as `conventions.sizes_beforehand` has it."""
        if self.in_order:
            ends = getattr(self.arrangement, "ends")  # noqa: B009
            return tuple(int(size) for size in np.diff(ends, prepend=0))
        counts = self.arrangement.counts
        return tuple(max(1, int(before)) for before in np.cumsum([0, *counts[:-1]]))

    def setting(self, model: RewardModel) -> Setting:
        """What scores are made from, with this reward model."""
        return make_setting(
            self.early, model, self.arrangement, learns=self.has_order, neighbours=self.limits.neighbours
        )

    def settling_round(self, spared: int) -> int | None:
        """The round from which on the leader of shuffled rows stays."""
        if not isinstance(self.arrangement, Shuffled):
            return None
        place = int(np.searchsorted(self.arrangement.ends, settling_row(self.facts.rows))) + 1
        return max(place, spared)

    def lay_out(self, learnt: LearntClass, *, model: RewardModel, single: bool, led: bool) -> LaidOut:
        if not led:
            raise InputError("that a policy is the best itself (epsilon 0) is proven in memory; leave the engine out")
        return lay_out(self, learnt, engine=self.engine, model=model, single=single)

    def first_rounds(self, learnt: LearntClass, *, epsilon: float) -> None:  # no reward is missing
        return None

    def weigh(self, decided: Decided, bets: Bets, model: RewardModel, *, needed: float) -> SummedWeighing:
        samples, setting = self.facts.samples, self.setting(model)
        return SummedWeighing(self.source, setting, decided, bets, engine=self.engine, samples=samples, needed=needed)


def survey(
    source: Source,
    *,
    engine: Engine,
    spec: str | None,
    ordered: bool,
    shuffle: bool,
    digested: bool = True,
    limits: Limits = LIMITS,
) -> Surveyed:
    """The first pass over all rows: which of them are early, which are watched, and what names them all.

    spec: of the class, if it is to be learnt from the first rows. digested: whether they are named.
    """
    facts = facts_of(source)
    fewest = 0 if spec is None or not learns(spec) else fewest_to_teach(spec)
    head = first_block(source)
    arrangement, shuffled = arrange_rows(
        source, facts, engine=engine, ordered=ordered, shuffle=shuffle, spared=fewest, early=limits.early
    )
    step = -(-facts.rows // limits.watched)
    wanted = Gathered((EarlyPlaces(arrangement), EverySo(step, facts.rows)), head)
    names = BlockDigests(count_blocks(facts.rows) if digested else 1)
    questions = (wanted, names) if digested else (wanted,)
    found = ask_together(engine, source, questions, what="reading")
    early, watched = wanted.logs(found[0])
    digest = whole_digest(found[1][0], n_rows=facts.rows) if digested else ""  # pyright: ignore
    in_order = (ordered or shuffled) and not facts.has_rounds
    return Surveyed(source, engine, facts, arrangement, shuffled, in_order, early, watched, digest, fewest, limits)


def survey_certified(certificate: Certificate, source: Source, *, engine: Engine) -> Surveyed:
    """The first pass over the rows of a certificate that was made by sums, arranged as it says."""
    c = certificate
    spec = c.learning.spec if c.learning is not None and c.learning.spared else None
    by_rows = c.ordered and not c.shuffled
    return survey(source, engine=engine, spec=spec, ordered=by_rows, shuffle=c.shuffled, limits=c.limits)


def watched_rows(certificate: Claim, log: Log) -> Log:
    """The rows of a log in which signs against a certificate's assumptions are looked for: all, or one of so many."""
    if not isinstance(certificate, Certificate) or not certificate.summed:
        return log
    step = -(-len(log) // certificate.limits.watched)
    return log.take(np.arange(0, len(log), step)) if step > 1 else log


def survey_for(
    source: Source,
    policies: PolicyClass | LearntClass | str,
    *,
    engine: Engine,
    contexts: Contexts | None,
    ordered: bool,
    shuffle: bool,
    limits: Limits = LIMITS,
) -> Surveyed:
    """The same for a class, or its name; contexts: what it is learnt from, if not the first rows."""
    spec = policies if isinstance(policies, str) and contexts is None else None
    if isinstance(policies, LearntClass) and policies.learning is not None and policies.learning.spared:
        spec = policies.learning.spec
    return survey(source, engine=engine, spec=spec, ordered=ordered, shuffle=shuffle, limits=limits)


def learn_policies(
    surveyed: Surveyed, policies: PolicyClass | LearntClass | str, contexts: Contexts | None
) -> LearntClass:
    """The class, learnt from the first rows or from contexts if it was asked for by its name."""
    if isinstance(policies, LearntClass):
        return policies
    if not isinstance(policies, str):
        return LearntClass(policies, None)
    early = surveyed.early
    if surveyed.has_order:
        return learn_from_blocks(policies, early, contexts, sizes=surveyed.arrangement.counts)
    # Of rows without an order the first ones teach, and nothing is known to have come before anything else.
    return learn_from_blocks(policies, replace(early, rounds=np.zeros(len(early), dtype=np.int64)), contexts)


def lay_out(
    surveyed: Surveyed,
    learnt: LearntClass,
    *,
    engine: Engine,
    model: RewardModel | None,
    single: bool,
    settle: Settle | None = None,
) -> LaidOut:
    """The model of every round, what is asked for sums, and the leaders.

    model: if not the one that suits the first round. single: whether a lottery will not do. settle: as for
    `Leading.lead`.
    """
    early, spared, policies = surveyed.early, learnt.spared, learnt.policies
    setting = surveyed.setting(first_model(early) if model is None else model)
    ledger = SummedLedger(surveyed.source, engine, setting, summing(policies), surveyed.facts.samples)
    predictions = setting.predict(early.contexts, early.rounds, n_actions=early.n_actions)
    leaders = None
    if worth_leading(policies) and surveyed.has_order:
        settled = surveyed.settling_round(spared)
        one = single and not surveyed.shuffled
        chooser = Leading(early, predictions, ledger, policies, single=one, settled=settled)
        leaders = chooser.lead(sizes=surveyed.sizes, spared=spared, settle=settle)
    found: list[Policy] = []  # by the first ε that is asked for, as every other takes more passes

    def favourite(epsilon: float) -> Policy:
        if leaders is not None and leaders.policies:
            return leaders.policies[-1]  # as it plays no part
        if not found:
            rows = Ledger.of(early, predictions)
            scores = favourite_scores(rows, policies, all_propensities=early.least is None)[0]
            first = policies.argmax(rows.contexts, scores)
            gaps, squares = ledger.gaps(first, before=ledger.n_rounds)
            found.append(ledger.summing.policies.argmax(ledger.contexts, marked_down(gaps, squares, epsilon=epsilon)))
        return found[0]

    return LaidOut(ledger, leaders, favourite)

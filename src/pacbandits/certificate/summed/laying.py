"""How the rule of `certify` lays out a large log: order, class, model, and who leads.

All of it follows from the rows, the class that was asked for and how rows may be arranged, so that who verifies can
follow it again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.conventions import settling_row, worth_leading
from pacbandits.certificate.leaders import Leaders
from pacbandits.certificate.learning import LearntClass, fewest_to_teach, learn_from_blocks
from pacbandits.certificate.summed.arrangement import Arrangement, Shuffled
from pacbandits.certificate.summed.facts import Facts, arrange_rows, facts_of
from pacbandits.certificate.summed.gathering import EarlyPlaces, EverySo, Gathered
from pacbandits.certificate.summed.leading import Leading, Settle
from pacbandits.certificate.summed.ledger import SummedLedger
from pacbandits.certificate.summed.limits import LIMITS, Limits
from pacbandits.certificate.summed.setting import Setting, make_setting
from pacbandits.engines import ROWS_PER_BLOCK, Engine, Source
from pacbandits.engines.base import count_blocks
from pacbandits.engines.digesting import BlockDigests, whole_digest
from pacbandits.engines.together import ask_together
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import learns
from pacbandits.policies.summing import summing
from pacbandits.records import Contexts, Log
from pacbandits.rewards import RewardModel, first_model


@dataclass(frozen=True, eq=False)
class Surveyed:
    """What is known of a large log once its rows were read for the first time.

    source: where they are.
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
    head = next(iter(source.blocks(0, 1)))
    if len(head) != min(facts.rows, ROWS_PER_BLOCK):
        raise InputError(f"rows are certified in blocks of {ROWS_PER_BLOCK:,}, and those of this source are others")
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
    return Surveyed(source, facts, arrangement, shuffled, in_order, early, watched, digest, fewest, limits)


def survey_again(c: Certificate, source: Source, *, engine: Engine, limits: Limits = LIMITS) -> Surveyed:
    """The rows as the certificate says they count."""
    spec = c.learning.spec if c.learning is not None and c.learning.spared else None
    by_rows = c.ordered and not c.shuffled
    return survey(source, engine=engine, spec=spec, ordered=by_rows, shuffle=c.shuffled, limits=limits)


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


@dataclass(frozen=True, eq=False)
class LaidOut:
    """A large log laid out.

    ledger: what is asked for sums.
    model: the reward model.
    predictions (n, A): of the early rows.
    leaders: of the rounds, if there are any.
    """

    ledger: SummedLedger
    model: RewardModel
    predictions: FloatArray
    leaders: Leaders | None


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
    early, spared = surveyed.early, 0 if learnt.learning is None else learnt.learning.spared
    used = first_model(early) if model is None else model
    setting = surveyed.setting(used)
    ledger = SummedLedger(surveyed.source, engine, setting, summing(learnt.policies), surveyed.facts.samples)
    predictions = predict_early(setting, early)
    leaders = None
    if worth_leading(learnt.policies) and surveyed.has_order:
        settled = surveyed.settling_round(spared)
        one = single and not surveyed.shuffled
        chooser = Leading(early, predictions, ledger, learnt.policies, single=one, settled=settled)
        leaders = chooser.lead(sizes=surveyed.sizes, spared=spared, settle=settle)
    return LaidOut(ledger, used, predictions, leaders)


def predict_early(setting: Setting, early: Log) -> FloatArray:
    """What was predicted (n, A) of the early rows before their rounds."""
    return setting.predict(early.contexts, early.rounds, n_actions=early.n_actions)

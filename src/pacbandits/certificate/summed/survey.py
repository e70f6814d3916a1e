"""A log of any size after the first pass over its rows: facts, order, class, model, leaders."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.choosing import favourite_scores, marked_down
from pacbandits.certificate.content_order import normalised
from pacbandits.certificate.conventions import has_fixed_split, has_rounds, settling_row, worth_leading
from pacbandits.certificate.leaders import Leaders
from pacbandits.certificate.learning import LearntClass, check_taught, learn_from_blocks
from pacbandits.certificate.learning_record import NO_SAMPLE, fewest_to_teach
from pacbandits.certificate.ledger import Ledger
from pacbandits.certificate.stakes import Stakes
from pacbandits.certificate.summed.arrangement import (
    NOT_EARLY,
    Arrangement,
    ByContent,
    ByRound,
    Shuffled,
    by_mixed_rounds,
    in_content_order,
    in_rows,
    in_shuffled_rows,
    in_two,
)
from pacbandits.certificate.summed.cost import check_rows_fit
from pacbandits.certificate.summed.leading import Leading
from pacbandits.certificate.summed.ledger import ScoreSetting, SummedLedger, make_setting
from pacbandits.certificate.summed.limits import LIMITS, RowLimits
from pacbandits.certificate.summed.worth import SummedWeighing
from pacbandits.certificate.survey import LaidOut
from pacbandits.certificate.worth import Decided
from pacbandits.engines import ROWS_PER_BLOCK, Engine, LogSource, Source, Sums
from pacbandits.engines.base import ask_together, count_blocks, source_of_metric
from pacbandits.engines.local import CONTENT_DIGEST, BlockDigests, Local, whole_digest
from pacbandits.engines.registry import STREAM, THREADS
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import learns
from pacbandits.policies.summation import summing
from pacbandits.policies.trees.classes import single_actions
from pacbandits.records import Contexts, Log, Policy
from pacbandits.records.row_order import COUNTED, says, stands_in_order
from pacbandits.rewards import RewardModel, first_model


@runtime_checkable
class SurveyedSource(Source, Protocol):
    """Files whose rows were all scanned once.

    samples: the number of interactions, repeats included.
    n_actions, action_names, reward_range, dates, assumed: as in a `Log`.
    fixed_split: whether every row has the same propensities, which are all known.
    round_counts: the number of interactions of each round, by its number.
    rounds_rise: whether rows stand in the order of their rounds.
    max_repeats: the largest number of repeats of a row.
    """

    @property
    def samples(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def action_names(self) -> tuple[str, ...] | None: ...
    @property
    def reward_range(self) -> tuple[float, float]: ...
    @property
    def dates(self) -> tuple[str, ...]: ...
    @property
    def assumed(self) -> tuple[str, ...]: ...
    @property
    def fixed_split(self) -> bool: ...
    @property
    def round_counts(self) -> dict[int, int]: ...
    @property
    def rounds_rise(self) -> bool: ...
    @property
    def max_repeats(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Facts:
    """The facts about a log that replace its rows.

    rows: the number of rows.
    samples: interactions, repeats included.
    n_actions, action_names, reward_range, dates, assumed: as in a `Log`.
    fixed_split: whether every row has the same propensities, which are all known.
    rounds (rounds,): their numbers, rising.
    round_counts (rounds,): interactions in each.
    rounds_rise: whether rows stand in their order.
    max_repeats: the largest number of repeats of a row.
    """

    rows: int
    samples: int
    n_actions: int
    action_names: tuple[str, ...] | None
    reward_range: tuple[float, float]
    dates: tuple[str, ...]
    assumed: tuple[str, ...]
    fixed_split: bool
    rounds: IntArray
    round_counts: FloatArray
    rounds_rise: bool
    max_repeats: int
    units: None = None

    def __len__(self) -> int:
        return self.rows

    @property
    def n_units(self) -> int:
        return self.samples

    @property
    def has_rounds(self) -> bool:
        return len(self.rounds) > 1

    @property
    def round_sizes(self) -> FloatArray:
        return self.round_counts


def facts_of(source: Source) -> Facts:
    """Return the facts about the rows of a source.

    Raises:
        InputError: If it has units, late rewards or features for each action, which need all rows at once; or if the
        rows of the source were not scanned.
    """
    if isinstance(source, LogSource):
        return _of_log(source.log)
    if not isinstance(source, SurveyedSource):
        raise InputError(f"rows of a {type(source).__name__} cannot be certified; open files by open_set")
    counts = source.round_counts
    numbers = sorted(counts)
    return Facts(
        rows=source.n_rows,
        samples=source.samples,
        n_actions=source.n_actions,
        action_names=source.action_names,
        reward_range=source.reward_range,
        dates=source.dates,
        assumed=source.assumed,
        fixed_split=source.fixed_split,
        rounds=np.array(numbers, dtype=np.int64),
        round_counts=np.array([counts[number] for number in numbers], dtype=np.float64),
        rounds_rise=source.rounds_rise,
        max_repeats=source.max_repeats,
    )


def can_be_streamed(log: Log) -> bool:
    """Return whether a certificate of a log needs only sums over its rows, in any order."""
    counted = says(log.remarks, COUNTED)
    return log.units is None and log.known is None and log.contexts.phi is None and not counted


def _of_log(log: Log) -> Facts:
    if not can_be_streamed(log):
        what = "rewards came late" if log.known is not None else "the log has returning users"
        what = "the rows of blocks were counted" if says(log.remarks, COUNTED) else what
        what = "contexts have features for each action" if log.contexts.phi is not None else what
        raise InputError(f"{what}, which needs all rows at once; certify in memory, without --engine")
    numbers, which = np.unique(log.rounds, return_inverse=True)
    return Facts(
        rows=len(log),
        samples=log.samples,
        n_actions=log.n_actions,
        action_names=log.action_names,
        reward_range=log.reward_range,
        dates=log.dates,
        assumed=log.assumed,
        fixed_split=has_fixed_split(log) and not has_rounds(log),
        rounds=numbers,
        round_counts=np.rint(np.bincount(which, weights=log.weights)),
        rounds_rise=bool((np.diff(log.rounds) >= 0).all()),
        max_repeats=int(log.repeats.max()),
    )


def arrange_rows(
    source: Source,
    facts: Facts,
    *,
    engine: Engine,
    ordered: bool,
    shuffle: bool,
    spared: int,
    early: int,
    by_content: bool = True,
) -> tuple[Arrangement, bool]:
    """Return the order in which rows count, and whether they are shuffled, as `conventions.arrange`.

    spared: the number of rows that only teach, if rows have no order. early: the largest number of early rows.
    by_content: whether a shuffle is by the contents of rows, as in `conventions.rearrange`, and the rows that only
    teach are chosen by these.
    """
    if facts.has_rounds:
        numbers, counts = facts.rounds, facts.round_counts
        if facts.rows > early and not facts.rounds_rise:
            return by_mixed_rounds(source, numbers, counts, early=early, engine=engine), False
        return ByRound(numbers, counts, min(early, facts.rows)), False
    if (ordered or shuffle) and facts.max_repeats > 1:
        raise InputError(
            "the log counts repeated interactions, so its rows cannot stand in the order in which they occurred; "
            "certify it without that assumption"
        )
    if ordered:
        return in_rows(facts.rows, early=early), False
    if shuffle or (facts.fixed_split and facts.max_repeats == 1):
        if by_content:
            return in_content_order(source, early=early, engine=engine), True
        return in_shuffled_rows(facts.rows, early=early), True
    if spared and facts.max_repeats > 1:
        raise InputError(NO_SAMPLE)
    if spared and by_content:
        return in_content_order(source, early=early, engine=engine, spared=spared), False
    return in_two(facts.rows, samples=facts.samples, spared=spared, early=early), False


# Rows of a large log gathered into memory, through sums: each has its own place, where the worker that has the row adds
# its bits to zeros.


class Places(Protocol):
    """The rows to gather."""

    @property
    def count(self) -> int: ...

    def places_of(self, start: int, block: Log) -> IntArray:
        """Return the place (n,) of each row of a block; -1 for those that are not gathered."""
        ...

    def rounds_of(self, start: int, block: Log) -> IntArray:
        """Return the round (n,) that each row of a block is to have."""
        ...


@dataclass(frozen=True, eq=False)
class EarlyPlaces:
    """The early rows, in the order in which rows count."""

    arrangement: Arrangement

    @property
    def count(self) -> int:
        return self.arrangement.early

    def places_of(self, start: int, block: Log) -> IntArray:
        return self.arrangement.places_of(start, block)

    def rounds_of(self, start: int, block: Log) -> IntArray:
        return self.arrangement.rounds_of(start, block)


@dataclass(frozen=True)
class EverySo:
    """Every step-th row, in the order of the rows.

    step: the distance between them.
    n_rows: the number of all rows.
    """

    step: int
    n_rows: int

    @property
    def count(self) -> int:
        return -(-self.n_rows // self.step)

    def places_of(self, start: int, block: Log) -> IntArray:
        numbers = np.arange(start, start + len(block))
        return np.where(numbers % self.step == 0, numbers // self.step, NOT_EARLY)

    def rounds_of(self, start: int, block: Log) -> IntArray:
        return block.rounds


@dataclass(frozen=True, eq=False)
class Gathered:
    """The question to an engine for several sets of rows.

    wanted: the sets.
    head: the first block, which has the columns of all others.
    """

    wanted: tuple[Places, ...]
    head: Log

    def begin(self) -> Sums:
        width = _bits(self.head, self.head.rounds).shape[1]
        return tuple(np.zeros((places.count, width), dtype=np.int64) for places in self.wanted)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        start = number * ROWS_PER_BLOCK
        for places, out in zip(self.wanted, sums, strict=True):
            where = places.places_of(start, block)
            mine = np.flatnonzero(where != NOT_EARLY)
            if mine.size:
                out[where[mine]] += _bits(block, places.rounds_of(start, block))[mine]

    def logs(self, sums: Sums) -> tuple[Log, ...]:
        """Return each set of rows as a log."""
        return tuple(_log(bits, self.head) for bits in sums)


def first_block(source: Source) -> Log:
    """Return the first block of a source; raise InputError unless its blocks have the size that certificates use."""
    head = next(iter(source.blocks(0, 1)))
    if len(head) != min(source.n_rows, ROWS_PER_BLOCK):
        raise InputError(f"rows are certified in blocks of {ROWS_PER_BLOCK:,}, and those of this source are others")
    return head


def gather(source: Source, wanted: tuple[Places, ...], *, engine: Engine, head: Log, what: str) -> tuple[Log, ...]:
    """Return each of these sets of rows as a log."""
    asked = Gathered(wanted, head)
    return asked.logs(engine.ask(source, asked, what=what))


def _bits(block: Log, rounds: IntArray) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the bits (n, all) of rows: all columns as int64, with these rounds."""
    ids = () if block.contexts.ids is None else (block.contexts.ids[:, None],)
    least = () if block.least is None else (block.least.view(np.int64),)
    metrics = () if block.metric_values is None else (np.ascontiguousarray(block.metric_values).view(np.int64),)
    return np.concatenate(
        [
            np.ascontiguousarray(block.contexts.features).view(np.int64),
            block.actions[:, None],
            block.rewards[:, None].view(np.int64),
            np.ascontiguousarray(block.propensities).view(np.int64),
            np.asarray(rounds, dtype=np.int64)[:, None],
            block.repeats[:, None],
            *ids,
            *least,
            *metrics,
        ],
        axis=1,
    )


def _log(bits: np.ndarray[tuple[int, int], np.dtype[np.int64]], head: Log) -> Log:
    n, d, actions, known = len(bits), head.contexts.n_features, head.n_actions, head.contexts
    widths = [d, 1, 1, actions, 1, 1, 0 if known.ids is None else 1, 0 if head.least is None else actions]
    parts = (np.ascontiguousarray(one) for one in np.split(bits, np.cumsum(widths), axis=1))
    features, action, reward, propensities, rounds, repeats, ids, least, metrics = parts
    contexts = Contexts(
        features=features.view(np.float64),
        names=known.names,
        categories=known.categories,
        ids=None if known.ids is None else ids[:, 0],
        weights=np.full(n, 1.0 / n),
    )
    return replace(
        head,
        contexts=contexts,
        actions=action[:, 0],
        rewards=reward.view(np.float64)[:, 0],
        propensities=propensities.view(np.float64),
        rounds=rounds[:, 0],
        repeats=repeats[:, 0],
        least=None if head.least is None else least.view(np.float64),
        metric_values=None if head.metric_values is None else metrics.view(np.float64),
    )


# The survey by sums, and its layout by `certify`: order, class, model, leaders.
#
# Limited parts of the log teach the cuts of features, reward models and the first leaders; every row bets. Proofs are
# those of a log in memory; only the rows that a large log is learnt from differ. Sums are of whole numbers, so they are
# the same to the last bit on every engine.
#
# All of it follows from the rows, the class and the arrangement of rows, so that a verifier can derive it again.


@dataclass(frozen=True, eq=False)
class Surveyed:
    """A log of any size after the first pass over its rows: the `LogSurvey` by sums of whole numbers.

    source: the rows.
    engine: computes the sums.
    facts: about all rows.
    arrangement: the order in which they count.
    shuffled: whether they are shuffled.
    in_order: whether rows are cut into blocks by their order, or after a shuffle.
    early: the early rows, numbered by round.
    watched: the rows on which the assumptions are tested: all, or every k-th.
    digest: of all rows.
    spared: the number of rows that only teach, if rows have no order.
    limits: the row limits of this survey.
    settings: rounds and predictions of rows, by the reward model.
    by_metric: the survey with a metric as the reward, by its name and the number that a ratio is tested at.
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
    limits: RowLimits = LIMITS
    settings: dict[str, ScoreSetting] = field(default_factory=dict[str, ScoreSetting], repr=False)
    by_metric: dict[tuple[str, float | None], Surveyed] = field(
        default_factory=dict[tuple[str, float | None], "Surveyed"], repr=False
    )

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
        """Whether some rows are known to have come before others."""
        return self.facts.has_rounds or (self.in_order and len(self.arrangement.counts) > 1)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The planned size of each round, as `conventions.sizes_beforehand`."""
        if self.in_order:
            ends = getattr(self.arrangement, "ends")  # noqa: B009
            return tuple(int(size) for size in np.diff(ends, prepend=0))
        counts = self.arrangement.counts
        return tuple(max(1, int(before)) for before in np.cumsum([0, *counts[:-1]]))

    def setting(self, model: RewardModel) -> ScoreSetting:
        """Return rounds and predictions of rows with this reward model."""
        if (key := str(model.to_json())) not in self.settings:
            self.settings[key] = make_setting(
                self.early, model, self.arrangement, learns=self.has_order, neighbours=self.limits.neighbours
            )
        return self.settings[key]

    def settling_round(self, spared: int) -> int | None:
        """Return the round from which on the leader of shuffled rows stays; None if rows are not shuffled."""
        if not (self.shuffled and isinstance(self.arrangement, Shuffled | ByContent)):
            return None
        place = int(np.searchsorted(self.arrangement.ends, settling_row(self.facts.rows))) + 1
        return max(place, spared)

    def lay_out(
        self, learnt: LearntClass, *, model: RewardModel, single: bool, led: bool, always: bool = False
    ) -> LaidOut:
        if not led:
            raise InputError("that a policy is the best itself (epsilon 0) is proven in memory; leave the engine out")
        return lay_out(self, learnt, engine=self.engine, model=model, single=single, always=always)

    def lead_single_actions(self, learnt: LearntClass, *, model: RewardModel, single: bool) -> Leaders:
        chooser = Leading(
            self.early,
            self.predict_early(model),
            None,
            single_actions(self.early.n_actions),
            counts=self.counts,
            single=single and not self.shuffled,
            settled=self.settling_round(learnt.spared),
        )
        return chooser.lead(sizes=self.sizes, spared=learnt.spared)

    def first_rounds(self, learnt: LearntClass, *, epsilon: float) -> None:  # no reward is missing
        return None

    def predict_early(self, model: RewardModel) -> FloatArray:
        early = self.early
        return self.setting(model).predict(early.contexts, early.rounds, n_actions=early.n_actions)

    def for_metric(self, name: str, *, ratio: float | None = None) -> Surveyed:
        if (name, ratio) not in self.by_metric:
            early, watched = (rows.for_metric(name, ratio=ratio) for rows in (self.early, self.watched))
            self.by_metric[name, ratio] = replace(
                self,
                source=source_of_metric(self.source, name, ratio=ratio),
                facts=replace(self.facts, reward_range=early.reward_range),
                early=early,
                watched=watched,
                settings={},
                by_metric={},
            )
        return self.by_metric[name, ratio]

    def weigh(self, decided: Decided, stakes: Stakes, model: RewardModel) -> SummedWeighing:
        samples, setting = self.facts.samples, self.setting(model)
        return SummedWeighing(self.source, setting, decided, stakes, engine=self.engine, samples=samples)


def survey(
    source: Source,
    *,
    engine: Engine,
    spec: str | None,
    ordered: bool,
    shuffle: bool,
    digested: bool = True,
    limits: RowLimits = LIMITS,
    by_content: bool = True,
    by_block: bool = False,
) -> Surveyed:
    """Arrange all rows, gather early and watched ones, and compute their digest.

    spec: of the class, if it is to be learnt from the first rows. digested: whether to compute the digest. by_content:
    as for `arrange_rows`. by_block: whether the digest of rows in the order of their contents is by block, as it was
    in earlier versions.
    """
    facts = facts_of(source)
    ordered = stands_in_order(facts.assumed, ordered=ordered, shuffle=shuffle)
    fewest = 0 if spec is None or not learns(spec) else fewest_to_teach(spec)
    head = first_block(source)
    arrangement, shuffled = arrange_rows(
        source,
        facts,
        engine=engine,
        ordered=ordered,
        shuffle=shuffle,
        spared=fewest,
        early=limits.early,
        by_content=by_content,
    )
    step = -(-facts.rows // limits.watched)
    wanted = Gathered((EarlyPlaces(arrangement), EverySo(step, facts.rows)), head)
    digest = arrangement.digest if isinstance(arrangement, ByContent) and not by_block else ""
    digested = digested and not digest
    names = BlockDigests(count_blocks(facts.rows) if digested else 1)
    questions = (wanted, names) if digested else (wanted,)
    found = ask_together(engine, source, questions, what="reading")
    early, watched = wanted.logs(found[0])
    early = normalised(early) if isinstance(arrangement, ByContent) else early
    digest = whole_digest(found[1][0], n_rows=facts.rows) if digested else digest  # pyright: ignore
    in_order = (ordered or shuffled) and not facts.has_rounds
    return Surveyed(source, engine, facts, arrangement, shuffled, in_order, early, watched, digest, fewest, limits)


def survey_certified(certificate: Certificate, source: Source, *, engine: Engine) -> Surveyed:
    """Read the rows of a certificate by sums once, arranged as it states."""
    c = certificate
    spec = c.learning.spec if c.learning is not None and c.learning.spared else None
    by_rows = c.ordered and not c.shuffled
    return survey(
        source,
        engine=engine,
        spec=spec,
        ordered=by_rows,
        shuffle=c.shuffled,
        limits=c.limits,
        by_content=c.any_file_order,
        by_block=not c.digest.startswith(CONTENT_DIGEST),
    )


def survey_for(
    source: Source,
    policies: PolicyClass | LearntClass | str,
    *,
    engine: Engine,
    contexts: Contexts | None,
    ordered: bool,
    shuffle: bool,
    limits: RowLimits = LIMITS,
) -> Surveyed:
    """Survey rows for a class, or its name; contexts: those that it is learnt from, if not the first rows."""
    spec = policies if isinstance(policies, str) and contexts is None else None
    if isinstance(policies, LearntClass) and policies.learning is not None and policies.learning.spared:
        spec = policies.learning.spec
    return survey(source, engine=engine, spec=spec, ordered=ordered, shuffle=shuffle, limits=limits)


def learn_policies(
    surveyed: Surveyed, policies: PolicyClass | LearntClass | str, contexts: Contexts | None
) -> LearntClass:
    """Return the class; learn it from the first rows or from contexts if it was given by its name."""
    if isinstance(policies, LearntClass):
        return check_taught(policies, lambda spec: learn_policies(surveyed, spec, None))
    if not isinstance(policies, str):
        return LearntClass(policies, None)
    early = surveyed.early
    if surveyed.has_order:
        return learn_from_blocks(policies, early, contexts, sizes=surveyed.arrangement.counts)
    # Without an order the first rows by content teach, as one round: none is known to have come before another.
    rows = replace(early, rounds=np.zeros(len(early), dtype=np.int64))
    return learn_from_blocks(policies, rows, contexts, by_content=isinstance(surveyed.arrangement, ByContent))


def lay_out(
    surveyed: Surveyed,
    learnt: LearntClass,
    *,
    engine: Engine,
    model: RewardModel | None,
    single: bool,
    always: bool = False,
) -> LaidOut:
    """Return the ledger with the model of every round, and the leaders.

    model: the reward model, if not the default for the early rows. single: certify a single policy, not a mixture.
    always: whether a small class has leaders, too.
    """
    early, spared, policies = surveyed.early, learnt.spared, learnt.policies
    setting = surveyed.setting(first_model(early) if model is None else model)
    ledger = SummedLedger(surveyed.source, engine, setting, summing(policies), surveyed.facts.samples)
    predictions = setting.predict(early.contexts, early.rounds, n_actions=early.n_actions)
    leaders = None
    if (always or worth_leading(policies)) and surveyed.has_order:
        settled = surveyed.settling_round(spared)
        one = single and not surveyed.shuffled
        chooser = Leading(early, predictions, ledger, policies, counts=ledger.round_sizes, single=one, settled=settled)
        leaders = chooser.lead(sizes=surveyed.sizes, spared=spared)
    found: list[Policy] = []  # for the first ε that is requested, as every other takes more passes

    def favourite(epsilon: float) -> Policy:
        if leaders is not None and leaders.policies:
            return leaders.policies[-1]  # any: the leaders determine the certified policy
        if not found:
            rows = Ledger.of(early, predictions)
            scores = favourite_scores(rows, policies, all_propensities=early.least is None)[0]
            first = policies.argmax(rows.contexts, scores)
            gaps, squares = ledger.gaps(first, before=ledger.n_rounds)
            found.append(ledger.summing.policies.argmax(ledger.contexts, marked_down(gaps, squares, epsilon=epsilon)))
        return found[0]

    return LaidOut(ledger, leaders, favourite)


# Whether a log is certified by sums over its rows, and the source of its rows.


def in_memory(source: Source) -> Log:
    """Return all rows of a source as a log."""
    if isinstance(source, LogSource):
        return source.log
    everything, head = EverySo(1, source.n_rows), first_block(source)
    return gather(source, (everything,), engine=Local(STREAM), head=head, what="reading")[0]


def as_engine_reads(source: Source, engine: str) -> Source:
    """Return the source, with its rows in memory if the engine is `threads`; raise InputError if they do not fit."""
    if engine == THREADS and not isinstance(source, LogSource):
        check_rows_fit(source)
    return LogSource(in_memory(source)) if engine == THREADS else source


def is_large(log: Log) -> bool:
    """Return whether a log in memory is certified by sums by default: it is large, and sums over rows suffice for it.

    A class that needs all rows at once, or ε = 0, is certified as for small logs.
    """
    return len(log) > LIMITS.early and can_be_streamed(log)

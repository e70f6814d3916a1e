"""The rows of a large log, which an engine reads block by block and adds up in whole numbers.

The wealth of every row is rounded down to a multiple of 2^−36 (fewer bits for more than 2^25 rows) and added as a
64-bit integer: rounding only lowers wealth, and the sum is the same in any order of blocks. Gaps between policies, by
which leaders are chosen and nothing is proven, are rounded to the nearest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.certificate.certificate import Certificate
from pacbandits.certificate.summed.limits import RowLimits
from pacbandits.engines import ROWS_PER_BLOCK, Engine, LogSource, Source, Sums
from pacbandits.engines.base import count_blocks, source_of_metric
from pacbandits.engines.local import CONTENT_DIGEST, BlockDigests, whole_digest
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.registry import learns
from pacbandits.policies.summation import Summation, summing
from pacbandits.records import Contexts, Log, Policy
from pacbandits.records.row_order import BY_BLOCK, says
from pacbandits.rewards import FittedModel, RewardModel, first_model, lighter, no_idea
from pacbandits.verifier.content_order import with_equal_bits
from pacbandits.verifier.figures import LeaderBook
from pacbandits.verifier.gains import GainRows, centres_of
from pacbandits.verifier.order import (
    NOT_EARLY,
    REPEATED,
    RowOrder,
    block_ends,
    has_rounds,
    order_by_hash,
    order_by_label,
    order_by_number,
    order_rows_by_content,
    planned_sizes,
    settling_round,
)
from pacbandits.verifier.rule import NO_SAMPLE, LateRows, PolicyComparison, fewest_to_teach, gaps_to
from pacbandits.verifier.wealth import Wealth, log_wealth

# Own copies of constants and functions of `certificate.summed`, on purpose: the verifier shares no code with the maker.
MAX_WEALTH_BITS = 36
ROWS_OF_MAX_BITS = 2**25  # the logarithms of more rows might not fit into 64 bits
MAX_WHOLE = 2.0**62  # of one row
SIZE_SHIFT = 20  # bits dropped from the numbers whose sizes are added up to detect overflow
MAX_SIZE_SUM = 2**62 >> SIZE_SHIFT
GAP_BITS, SQUARE_BITS = 24, 16
GAIN_BITS = 30  # of the sums of a block
MAX_GAP, MAX_SQUARE = 2.0**20, 2.0**40  # of one row; larger ones are cut, as they only serve to choose


@runtime_checkable
class CountedSource(Source, Protocol):
    """Files whose rows were counted when they were opened; the members are those of `LargeLog`."""

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
class LargeLog:
    """The facts about a large log that are known without its rows.

    rows, samples: the numbers of rows, and of interactions with repeats.
    n_actions, action_names, reward_range, dates, assumed: as in a `Log`.
    fixed_split: whether all rows have the same propensities, and these are all known.
    round_counts: interactions by the label of their round.
    rounds_rise: whether rows stand in the order of their rounds.
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
    round_counts: dict[int, int]
    rounds_rise: bool
    max_repeats: int
    units: None = None

    def __len__(self) -> int:
        return self.rows

    @property
    def n_units(self) -> int:
        return self.samples

    @classmethod
    def of(cls, source: Source) -> LargeLog:
        """Return the facts about the rows of a source.

        Raises:
            InputError: If it has units, late rewards or features of actions, which need all rows at once; or if the
            rows of the source were not counted.
        """
        log = source.log if isinstance(source, LogSource) else None
        told = source if log is None else log
        if log is not None:
            if log.units is not None or log.known is not None or log.contexts.phi is not None:
                raise InputError("returning users, late rewards and features of actions need all rows in memory")
            labels, which = np.unique(log.rounds, return_inverse=True)
            in_round = np.bincount(which, weights=log.repeats)
            same = says(log.remarks, BY_BLOCK) or (log.propensities == log.propensities[0]).all()
            split = same and log.least is None and log.repeats.max() == 1
            beside: dict[str, Any] = {
                "fixed_split": bool(split) and not has_rounds(log),
                "round_counts": {int(label): int(count) for label, count in zip(labels, in_round, strict=True)},
                "rounds_rise": bool((np.diff(log.rounds) >= 0).all()),
                "max_repeats": int(log.repeats.max()),
            }
        elif isinstance(source, CountedSource):
            names = ("fixed_split", "round_counts", "rounds_rise", "max_repeats")
            beside = {name: getattr(source, name) for name in names}
        else:
            raise InputError(f"rows of a {type(source).__name__} cannot be verified; open files by open_set")
        names = ("samples", "n_actions", "action_names", "reward_range", "dates", "assumed")
        return cls(rows=source.n_rows, **{name: getattr(told, name) for name in names}, **beside)


@dataclass(frozen=True, eq=False)
class SummedRows:
    """The rows of a large log as a certificate by sums arranges them.

    told: the facts about the log.
    order: the round of each row.
    ordered, shuffled: whether rows are cut into blocks, and whether they were shuffled before.
    early: the early rows, with the number of their round.
    watched: every k-th row, to test for drift.
    digest: of all rows.
    limits: the numbers of early and watched rows.
    predictions (n, A): for the early rows, once a reward model was given.
    models: of the rounds, once one was given.
    by_metric: the rows with a metric as their reward, by its name and the number that a ratio is tested at.
    """

    source: Source
    engine: Engine
    told: LargeLog
    order: RowOrder
    ordered: bool
    shuffled: bool
    early: Log
    watched: Log
    digest: str
    limits: RowLimits
    predictions: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    models: RoundModels | None = None
    by_metric: dict[tuple[str, float | None], SummedRows] = field(
        default_factory=dict[tuple[str, float | None], "SummedRows"]
    )

    @property
    def late(self) -> LateRows:
        return self

    @property
    def n_rows(self) -> int:
        return self.told.rows

    @property
    def n_actions(self) -> int:
        return self.told.n_actions

    @property
    def counts(self) -> FloatArray:
        return self.order.counts

    @property
    def labels(self) -> IntArray:
        return np.arange(len(self.counts))

    @property
    def has_order(self) -> bool:
        return len(self.told.round_counts) > 1 or (self.ordered and len(self.counts) > 1)

    @property
    def sizes(self) -> tuple[int, ...]:
        return planned_sizes(self.counts, self.told.rows, ordered=self.ordered, shuffled=self.shuffled)

    @property
    def rounding(self) -> float:
        """The most by which the certificate's sum may be lower: one unit of the whole numbers per row."""
        return float(np.ldexp(self.told.rows, -wealth_bits(self.told.samples)))

    @property
    def row_rounding(self) -> float:
        """The most by which the log-wealth of a bet on a gain may be lower in the certificate's sum, per row."""
        return (self.n_actions + 8) * 2.0**-46 + 2.0 ** -(wealth_bits(self.told.samples) + 10)

    def settling_round(self, spared: int) -> int | None:
        return settling_round(self.told.rows, spared=spared) if self.shuffled else None

    def with_model(self, model: RewardModel) -> SummedRows:
        """Return the rows with the predictions of a reward model, fitted before each round on its early rows so far."""
        rounds = len(self.counts)
        fits: list[FittedModel] = [no_idea(self.n_actions)]
        fit_of, last = np.zeros(rounds, dtype=np.int64), 0
        for number in range(1, rounds if self.has_order else 0):
            before = self.early.rounds < number
            if (seen := int(before.sum())) != last:
                used = model if seen <= self.limits.neighbours else lighter(model)
                fits.append(used.fit(self.early.only(before)))
                last = seen
            fit_of[number] = len(fits) - 1
        models = RoundModels(tuple(fits), fit_of)
        return replace(self, models=models, predictions=models.predict(self.early.contexts, self.early.rounds))

    def wealth(self, c: Certificate, book: LeaderBook, policies: PolicyClass, *, epsilon: float) -> Wealth:
        """Return the log-wealth of all rows against every policy, added up in whole numbers."""
        assert self.models is not None
        how, bits = summing(policies), wealth_bits(self.told.samples)
        asked = WealthQuestion(c, how, self.order, self.models, book, epsilon, bits)
        sums, size = self.engine.ask(self.source, asked, what="adding up wealth again")
        check_room(int(size[0]))
        whole, width = np.ldexp(how.finish(sums), -bits), policies.n_actions
        scores = [np.ascontiguousarray(whole[..., k * width : (k + 1) * width]) for k in range(len(c.experts))]
        return Wealth(how.policies, how.contexts, scores)

    def for_metric(self, name: str, *, ratio: float | None = None) -> SummedRows:
        """Return the rows with a metric as their reward, and the predictions of the default model for it."""
        if (name, ratio) not in self.by_metric:
            early = self.early.for_metric(name, ratio=ratio)
            source = source_of_metric(self.source, name, ratio=ratio)
            own = replace(self, source=source, early=early, by_metric={}).with_model(first_model(early))
            self.by_metric[name, ratio] = own
        return self.by_metric[name, ratio]

    def gain_scores(self, gains: GainRows) -> tuple[FloatArray, FloatArray]:
        """Return the sums of plain scores (rounds,) against control, and the centre of each round."""
        assert self.models is not None
        asked = GainQuestion(gains, self.order, self.models, None)
        sums = np.ldexp(self.engine.ask(self.source, asked, what="adding up gains")[0].astype(np.float64), -GAIN_BITS)
        return sums, centres_of(sums, self.counts * gains.counted)

    def gain_wealth(self, gains: GainRows, centres: FloatArray) -> FloatArray:
        """Return the log-wealth of each expert (K,) from bets on a gain, rounded down block by block."""
        assert self.models is not None
        asked = GainQuestion(gains, self.order, self.models, centres)
        sums, ruined = self.engine.ask(self.source, asked, what="adding up bets on gains")
        return np.where(ruined > 0, -np.inf, np.ldexp(sums.astype(np.float64), -GAIN_BITS))

    def compare(self, policies: PolicyClass, leader: Policy, *, before: int) -> PolicyComparison:
        """Compare every policy with a leader, by the rows of all rounds before one."""
        assert self.models is not None
        how, width = summing(policies), policies.n_actions
        asked = GapQuestion(self.order, self.models, leader, before, how, None)
        whole = how.finish(self.engine.ask(self.source, asked, what="comparing policies")[0])
        gaps, squares = self._scaled(whole[..., :width], whole[..., width:], before)
        return PolicyComparison(how.policies, how.contexts, gaps, squares, how.totals(squares))

    def compare_parts(
        self, policies: PolicyClass, leader: Policy, *, before: int, n_parts: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the same gaps and squares (parts, A) by the parts of all contexts on which the leader acts alike."""
        assert self.models is not None
        asked = GapQuestion(self.order, self.models, leader, before, None, (policies, n_parts))
        whole = self.engine.ask(self.source, asked, what="looking for a simpler policy")[0].astype(np.float64)
        return self._scaled(whole[:, : policies.n_actions], whole[:, policies.n_actions :], before)

    def _scaled(self, gaps: FloatArray, squares: FloatArray, before: int) -> tuple[FloatArray, FloatArray]:
        """Return sums of whole numbers as means over the interactions of the rounds before one."""
        seen = float(self.counts[:before].sum())
        means = np.ldexp(gaps, -GAP_BITS) / seen, np.ldexp(squares, -SQUARE_BITS) / seen**2
        return np.ascontiguousarray(means[0]), np.ascontiguousarray(means[1])


def read_rows(c: Certificate, source: Source, *, engine: Engine, limits: RowLimits | None = None) -> SummedRows:
    """Read all rows once: arrange them as the certificate states, digest them, and keep the early ones.

    limits: replaces those that the certificate records.

    Raises:
        InputError: If the rows cannot be arranged so.
    """
    limits = c.limits if limits is None else limits
    told, head = LargeLog.of(source), next(iter(source.blocks(0, 1)))
    if len(head) != min(told.rows, ROWS_PER_BLOCK):
        raise InputError(f"rows are verified in blocks of {ROWS_PER_BLOCK:,}, and those of this source are others")
    by_rows, early = c.ordered and not c.shuffled, limits.early
    in_rounds, shuffled = len(told.round_counts) > 1, False
    if not in_rounds and c.ordered and told.max_repeats > 1:
        raise InputError(REPEATED)
    if in_rounds:
        labels = np.array(sorted(told.round_counts), dtype=np.int64)
        counts = np.array([told.round_counts[int(label)] for label in labels], dtype=np.float64)
        order = order_by_label(labels, counts, early=early, source=source, engine=engine, rising=told.rounds_rise)
    elif by_rows:
        order = order_by_number(block_ends(told.rows, shuffled=False), rows=told.rows, early=early)
    elif c.shuffled or (told.fixed_split and told.max_repeats == 1):
        shuffled = True
        if c.by_content:
            order = order_rows_by_content(source, early=early, engine=engine)
        else:
            order = order_by_hash(told.rows, early=early)
    elif c.learning is not None and c.learning.spared and learns(c.learning.spec):
        if told.max_repeats > 1:
            raise InputError(NO_SAMPLE)
        fewest = fewest_to_teach(c.learning.spec)
        ends = np.array([fewest, max(told.rows, fewest)])
        if c.learning.by_content:
            order = order_rows_by_content(source, early=early, engine=engine, ends=ends)
        else:
            order = order_by_number(ends, rows=told.rows, early=early)
    else:
        order = order_by_number(np.array([told.rows]), rows=told.rows, early=early, samples=told.samples)
    step = -(-told.rows // limits.watched)
    asked = FirstReading(order, step, told.rows, _bits(head, head.rounds).shape[1])
    kept, watched, digests = engine.ask(source, asked, what="reading")
    first = _log_of_bits(kept, head)
    return SummedRows(
        source,
        engine,
        told,
        replace(order, first=None, starts=None, rows=None),  # later questions go by rounds alone, and travel to workers
        ordered=(by_rows or shuffled) and not in_rounds,
        shuffled=shuffled,
        early=with_equal_bits(first) if order.by_row is not None else first,
        watched=_log_of_bits(watched, head),
        # Earlier versions shuffled by content, but their digest was by block.
        digest=order.digest
        if order.digest and (c.digest.startswith(CONTENT_DIGEST) or not shuffled)
        else whole_digest(digests, n_rows=told.rows),
        limits=limits,
    )


@dataclass(frozen=True, eq=False)
class FirstReading:
    """The early rows, every step-th row, and the digest of every block.

    Each gathered row has its own place, where the block that has it adds its bits to zeros.
    """

    order: RowOrder
    step: int
    n_rows: int
    width: int

    def begin(self) -> Sums:
        kept = (self.order.early, -(-self.n_rows // self.step))
        digests = BlockDigests(count_blocks(self.n_rows)).begin()
        return (*(np.zeros((count, self.width), dtype=np.int64) for count in kept), *digests)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        BlockDigests(len(sums[2])).add(number, block, sums[2:])
        places = self.order.places_of(number, block)
        early = np.flatnonzero(places != NOT_EARLY)
        if early.size:
            sums[0][places[early]] += _bits(block.take(early), self.order.rounds_of(number, block)[early])
        start = number * ROWS_PER_BLOCK
        watched = np.arange(-start % self.step, len(block), self.step)
        if watched.size:
            rows = block.take(watched)
            sums[1][(start + watched) // self.step] += _bits(rows, rows.rounds)


def _bits(rows: Log, rounds: IntArray) -> NDArray[np.int64]:
    """Return the bits (n, width) of rows, with these rounds instead of their own."""
    numbers = [rows.contexts.features, rows.rewards[:, None], rows.propensities]
    numbers += [one for one in (rows.least, rows.metric_values) if one is not None]
    whole = [rows.actions, rounds, rows.repeats, *([] if rows.contexts.ids is None else [rows.contexts.ids])]
    columns = [np.ascontiguousarray(one).view(np.int64) for one in numbers]
    return np.concatenate([*columns, *(np.asarray(one, dtype=np.int64)[:, None] for one in whole)], axis=1)


def _log_of_bits(bits: NDArray[np.int64], head: Log) -> Log:
    """Return the rows with these bits; head: a block of the same log, for everything that rows share."""
    d, n_actions, n = head.contexts.n_features, head.n_actions, len(bits)
    beside = [one for one in (head.least, head.metric_values) if one is not None]
    *numbers, whole = np.split(bits, np.cumsum([d, 1, n_actions, *(one.shape[1] for one in beside)]), axis=1)
    columns = [np.ascontiguousarray(one).view(np.float64) for one in numbers]
    actions, rounds, repeats, *ids = (np.ascontiguousarray(one) for one in whole.T)
    contexts = Contexts(
        features=columns[0],
        names=head.contexts.names,
        categories=head.contexts.categories,
        ids=ids[0] if ids else None,
        weights=np.full(n, 1.0 / n),
    )
    return replace(
        head,
        contexts=contexts,
        actions=actions,
        rewards=columns[1][:, 0],
        propensities=columns[2],
        rounds=rounds,
        repeats=repeats,
        least=None if head.least is None else columns[3],
        metric_values=None if head.metric_values is None else columns[-1],
    )


@dataclass(frozen=True, eq=False)
class RoundModels:
    """The reward models of all rounds.

    fits: fitted models. fit_of (rounds,): which of them predicts the rewards of each round.
    """

    fits: tuple[FittedModel, ...]
    fit_of: IntArray

    def predict(self, contexts: Contexts, rounds: IntArray) -> FloatArray:
        """Return the predictions (n, A) for contexts, by the model of the round (n,) of each."""
        used = self.fit_of[rounds]
        which: list[int] = np.unique(used).tolist()
        parts = [np.flatnonzero(used == number) for number in which]
        if len(which) == 1:
            return self.fits[which[0]].predict(contexts)
        found = [self.fits[number].predict(contexts.take(mine)) for number, mine in zip(which, parts, strict=True)]
        out = np.empty((len(contexts), found[0].shape[1]))
        for mine, own in zip(parts, found, strict=True):
            out[mine] = own
        return out

    def of_block(self, block: Log, rounds: IntArray) -> FloatArray:
        """Return the predictions (n, A) for rows, whose rewards and predictions must lie in [0, 1]."""
        predictions = self.predict(block.contexts, rounds)
        if not ((block.rewards >= 0) & (block.rewards <= 1)).all():
            low, high = block.rewards.min(), block.rewards.max()
            raise InputError(f"rewards must lie in [0, 1], but they range from {low:.6g} to {high:.6g}; rescale them")
        if predictions.shape != block.propensities.shape or not ((predictions >= 0) & (predictions <= 1)).all():
            raise InputError("predictions must have one number in [0, 1] for each row and action")
        return predictions


@dataclass(frozen=True, eq=False)
class WealthQuestion:
    """The log-wealth of the experts that a certificate names, rounded down row by row; and the size of the sums."""

    certificate: Certificate
    summing: Summation
    order: RowOrder
    models: RoundModels
    book: LeaderBook
    epsilon: float
    bits: int

    def begin(self) -> Sums:
        width = len(self.certificate.experts) * self.summing.policies.n_actions
        return self.summing.zeros(width), np.zeros(1, dtype=np.int64)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        rounds = self.order.rounds_of(number, block)
        predictions = self.models.of_block(block, rounds)
        wealth = log_wealth(self.certificate, self.book, block, rounds, predictions, epsilon=self.epsilon)
        scores, size = round_down(wealth.reshape(len(block), -1), self.bits)
        self.summing.add(block.contexts, scores, sums[0])
        sums[1][0] += size


@dataclass(frozen=True, eq=False)
class GainQuestion:
    """The scores of a candidate against control by round; or, with centres, the log-wealth of each expert."""

    gains: GainRows
    order: RowOrder
    models: RoundModels
    centres: FloatArray | None

    def begin(self) -> Sums:
        length = len(self.order.counts) if self.centres is None else len(self.gains.stakes)
        return np.zeros(length, dtype=np.int64), np.zeros(length, dtype=np.int64)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        rounds = self.order.rounds_of(number, block)
        predictions = self.models.of_block(block, rounds)
        if self.centres is None:
            scores = block.repeats * self.gains.plain_scores(block, rounds, predictions, most=MAX_GAP)
            whole = np.ldexp(np.bincount(rounds, weights=scores, minlength=len(sums[0])), GAIN_BITS)
            sums[0][:] += np.rint(whole).astype(np.int64)
            return
        wealth = self.gains.wealth(block, rounds, predictions, self.centres)
        sums[0][:] += np.floor(np.ldexp(np.where(np.isfinite(wealth), wealth, 0.0), GAIN_BITS)).astype(np.int64)
        sums[1][:] += ~np.isfinite(wealth)


def wealth_bits(samples: int) -> int:
    """Return the fractional bits to which the log-wealth of each of so many rows is rounded."""
    return MAX_WEALTH_BITS - max(0, math.ceil(math.log2(samples / ROWS_OF_MAX_BITS)))


def round_down(wealth: FloatArray, bits: int) -> tuple[NDArray[np.int64], int]:
    """Return log-wealth (n, W) as whole numbers of 2^−bits, and the approximate sum of their absolute values.

    That is the sum of the largest of each row, less its last bits; `MAX_SIZE_SUM` if one does not fit into 64 bits.
    """
    whole = np.floor(np.ldexp(wealth, bits))
    if not (np.abs(whole) < MAX_WHOLE).all():
        return np.zeros(whole.shape, dtype=np.int64), MAX_SIZE_SUM
    scores = whole.astype(np.int64)
    return scores, int((np.abs(scores) >> SIZE_SHIFT).max(axis=1, initial=0).sum())


def check_room(size: int) -> None:
    """Raise InputError if sums of this size may not have fitted into 64 bits."""
    if size >= MAX_SIZE_SUM:
        raise InputError("the logarithms of this log add up to more than can be counted; cut it into several")


@dataclass(frozen=True, eq=False)
class GapQuestion:
    """Doubly robust gaps of all actions to a leader's, and their squares, over the rows of the rounds before one.

    The sum is by the class (`summing`), or by the parts of the contexts on which the leader acts alike (`parts`: the
    class that knows them, and their number).
    """

    order: RowOrder
    models: RoundModels
    leader: Policy
    before: int
    summing: Summation | None
    parts: tuple[PolicyClass, int] | None

    def begin(self) -> Sums:
        if self.parts is not None:
            return (np.zeros((self.parts[1], 2 * self.parts[0].n_actions), dtype=np.int64),)
        assert self.summing is not None
        return (self.summing.zeros(2 * self.summing.policies.n_actions),)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        rounds = self.order.rounds_of(number, block)
        mine = np.flatnonzero(rounds < self.before)
        if not mine.size:
            return
        rows = block.take(mine)
        predictions = self.models.of_block(rows, rounds[mine])
        gaps = gaps_to(rows, predictions, np.asarray(self.leader(rows.contexts)), rows.played_propensities)
        weights = rows.repeats[:, None]
        scaled = [
            np.rint(np.ldexp(np.clip(weights * found, -most, most), bits)).astype(np.int64)
            for found, most, bits in ((gaps, MAX_GAP, GAP_BITS), (gaps**2, MAX_SQUARE, SQUARE_BITS))
        ]
        scores = np.concatenate(scaled, axis=1)
        if self.parts is not None:
            np.add.at(sums[0], self.parts[0].parts(self.leader, rows.contexts), scores)
            return
        assert self.summing is not None
        self.summing.add(rows.contexts, scores, sums[0])

"""A ledger by sums over the rows of a large log, as `pacbandits.certificate.ledger` for rows in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.certificate.ledger import MAX_WHOLE, Against, AnyAgainst, LedgerRows, add_gaps, add_log_wealth
from pacbandits.certificate.summed.arrangement import Arrangement
from pacbandits.certificate.summed.limits import LIMITS
from pacbandits.engines import ROWS_PER_BLOCK, Engine, Source, Sums
from pacbandits.engines.cuda.aggregations import (
    MOST_ACTIONS,
    CardRows,
    StepModels,
    add_by_id,
    add_by_part,
    log_wealth,
    predict_on_card,
)
from pacbandits.engines.cuda.aggregations import gaps as gaps_on_card
from pacbandits.engines.cuda.card import cupy
from pacbandits.engines.cuda.engine import Parts, Stretch, Wanted, first_row, wanted_ids, wanted_log
from pacbandits.errors import InputError, count_of
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.summation import IntSums, Summation, SummingIds, actions_on
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.classes import SummingTrees
from pacbandits.policies.trees.on_card import actions_on_card, add_tree_sums, numbered, wanted_codes
from pacbandits.policies.trees.tree_policy import Node, TreePolicy, leaves
from pacbandits.records import Contexts, Log, Policy
from pacbandits.rewards import FittedModel, RewardModel, lighter, no_idea
from pacbandits.rewards.on_card import cuts_of, step_models, wanted_steps

# Rounds and predictions of the rows of a large log.
#
# A reward model is fitted on early rows alone, those that came before a round. If there are many, models that are slow
# to predict are left out. Both are free: scores are unbiased for any model that was fixed before the round.


@dataclass(frozen=True, eq=False)
class ScoreSetting:
    """The rounds and reward models from which the scores of rows are computed.

    arrangement: the round of each row.
    fits: fitted models.
    fit_of (rounds,): the number of the model of each round.
    early: the early rows, numbered by round; None in other processes than the one that read them.
    """

    arrangement: Arrangement
    fits: tuple[FittedModel, ...]
    fit_of: IntArray
    early: Log | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without early rows, which are many, and needed only for a card of this machine."""
        return self.__dict__ | {"early": None}

    @property
    def n_rounds(self) -> int:
        return len(self.fit_of)

    def predict(self, contexts: Contexts, rounds: IntArray, *, n_actions: int) -> FloatArray:
        """Return the predicted rewards (n, A) of all actions, by the model of the round (n,) of each context."""
        used = self.fit_of[rounds]
        which = np.unique(used)
        if len(which) == 1:
            return self.fits[int(which[0])].predict(contexts)
        out = np.empty((len(contexts), n_actions))
        for number in which:
            mine = np.flatnonzero(used == number)
            out[mine] = self.fits[int(number)].predict(contexts.take(mine))
        return out

    def rows_of(self, number: int, block: Log) -> LedgerRows:
        """Return the rows of the block of this number in the form that kernels take, each with its own context."""
        return self.rows_at(block, self.arrangement.rounds_of(number * ROWS_PER_BLOCK, block))

    def rows_at(self, block: Log, rounds: IntArray) -> LedgerRows:
        """Return the same for rows whose rounds (n,) are known."""
        predictions = self.predict(block.contexts, rounds, n_actions=block.n_actions)
        check_rows(block, predictions)
        return LedgerRows(
            starts=np.arange(len(block) + 1, dtype=np.int64),
            actions=np.require(block.actions, requirements=("C", "W")),
            rewards=np.require(block.rewards, requirements=("C", "W")),
            repeats=block.weights,
            rounds=rounds,
            played=block.played_propensities,
            propensities=np.require(block.bounds, requirements=("C", "W")),
            predictions=np.require(predictions, requirements=("C", "W")),
        )


def check_rows(block: Log, predictions: FloatArray) -> None:
    """Raise InputError unless rewards and predictions lie in [0, 1]."""
    if not ((block.rewards >= 0) & (block.rewards <= 1)).all():
        low, high = block.rewards.min(), block.rewards.max()
        raise InputError(f"rewards must lie in [0, 1], but they range from {low:.6g} to {high:.6g}; rescale them")
    if predictions.shape != block.propensities.shape or not ((predictions >= 0) & (predictions <= 1)).all():
        raise InputError("predictions must have one number in [0, 1] for each row and action")


def make_setting(
    early: Log, model: RewardModel, arrangement: Arrangement, *, learns: bool, neighbours: int = LIMITS.neighbours
) -> ScoreSetting:
    """Fit the model of every round on the early rows (numbered by round) that came before it.

    learns: whether rows have an order to learn in; else all predictions are one half. neighbours: as in `RowLimits`.
    """
    rounds = len(arrangement.counts)
    fits: list[FittedModel] = [no_idea(early.n_actions)]
    fit_of, last = np.zeros(rounds, dtype=np.int64), 0
    for number in range(1, rounds if learns else 0):
        before = early.rounds < number
        seen = int(before.sum())
        if seen != last:
            used = model if seen <= neighbours else lighter(model)
            fits.append(used.fit(early.only(before)))
            last = seen
        fit_of[number] = len(fits) - 1
    return ScoreSetting(arrangement, tuple(fits), fit_of, early)


# Sums on a CUDA card: the columns of rows that they need, and how they are computed there.
#
# A card caches columns of rows by their origin: the log itself, the rounds of an arrangement, bins of a class, steps of
# reward models. Predictions are computed there in every pass, from steps and a few tables; only those of models that
# are not made of steps come from the processor, which has them for early rows already.


MOST_PARTS = 256
MOST_POLICIES = 255  # whose actions are on the card at once


def fits_on_card(n_actions: int, policies: Sequence[Policy]) -> bool:
    """Return whether so many actions, and the actions of these policies, can be scored on a card."""
    return n_actions < MOST_ACTIONS and len(policies) <= MOST_POLICIES


def sums_on_card(summing: Summation) -> bool:
    """Return whether a class can add up rows on a card."""
    return isinstance(summing, SummingTrees | SummingIds)


# Columns of rows.


def wanted_of_class(summing: Summation) -> list[Wanted]:
    """Return the columns that a class needs to add up rows and to compute the actions of its policies."""
    if isinstance(summing, SummingTrees):
        return [wanted_codes(summing.trees.bins)]
    return [wanted_ids(below=len(summing.contexts))]


def rows_on_card(stretch: Stretch, setting: ScoreSetting, *more: Wanted) -> CardRows:
    """Return the rows of a stretch with predictions; more: further columns to read with them if they are read now."""
    models, arrangement = _models_of(stretch, setting), setting.arrangement
    predicted = _wanted_predictions(setting) if models is None else wanted_steps(_common_cuts(setting) or ())
    log, rounds, given, *_ = stretch.get(wanted_log(), _wanted_rounds(arrangement), predicted, *more)
    if models is None:
        predictions = given["predictions"]
    else:
        predictions = predict_on_card(stretch.card, models, given["steps"], rounds["rounds"])
        _put_early(stretch, setting, rounds["places"], predictions)
    return CardRows(**log, rounds=rounds["rounds"], predictions=predictions)


def _wanted_rounds(arrangement: Arrangement) -> Wanted:
    """Return the columns of each row's round, and of its place among the early rows."""

    def make(number: int, block: Log) -> Parts:
        start = first_row(number)
        rounds, places = arrangement.rounds_of(start, block), arrangement.places_of(start, block)
        return {"rounds": rounds.astype(np.int32), "places": places.astype(np.int32)}

    return Wanted("rounds", arrangement, make)


def _wanted_predictions(setting: ScoreSetting) -> Wanted:
    """Return the column of predictions by the processor."""
    return Wanted("predictions", setting, lambda number, block: {"predictions": setting.rows_of(number, block)[-1]})


# Predictions.


def _models_of(stretch: Stretch, setting: ScoreSetting) -> StepModels | None:
    """Return the models of a setting in the form that the card takes; None if the processor has to predict."""
    if not predicts_on_card(setting):
        return None
    assert setting.early is not None
    cuts, actions = _common_cuts(setting) or (), setting.early.n_actions
    return stretch.card.made(
        "setting", setting, lambda: step_models(setting.fits, setting.fit_of, cuts, n_actions=actions)
    )


def _common_cuts(setting: ScoreSetting) -> Any:
    """Return the common steps of all models that are made of steps; None if they differ."""
    known = [found for fitted in setting.fits if (found := cuts_of(fitted)) is not None]
    all_cuts = set[Any]().union(*known)
    return None if len(all_cuts) > 1 else next(iter(all_cuts), ())


def predicts_on_card(setting: ScoreSetting) -> bool:
    """Return whether models with common steps predict all rows except early ones."""
    early = setting.early
    if early is None or _common_cuts(setting) is None:
        return False
    counts = setting.arrangement.counts
    seen = np.bincount(early.rounds, weights=early.weights, minlength=len(counts))
    return bool((_by_steps(setting) | (seen == counts)).all())


def _by_steps(setting: ScoreSetting) -> BoolArray:
    """Return which rounds (rounds,) have a model of steps."""
    return np.array([cuts_of(fitted) is not None for fitted in setting.fits])[setting.fit_of]


def _put_early(stretch: Stretch, setting: ScoreSetting, places: Any, predictions: Any) -> None:
    """Write the processor's predictions for early rows into their places."""
    cp, early = cupy(), setting.early
    assert early is not None

    def find() -> tuple[Any, Any]:
        rows = cp.flatnonzero(places >= 0)
        return rows, places[rows]

    def predict() -> tuple[Any, Any]:
        """Return the place of each early row (early,) among the predictions (k, A), −1 for none; and these."""
        mine = np.flatnonzero(~_by_steps(setting)[early.rounds])
        spot = np.full(len(early), -1)
        spot[mine] = np.arange(len(mine))
        made = np.zeros((0, early.n_actions))
        if mine.size:
            made = setting.predict(early.contexts.take(mine), early.rounds[mine], n_actions=early.n_actions)
        return cp.asarray(spot), cp.asarray(made)

    rows, where = stretch.made("early rows", setting.arrangement, find)
    spot, made = stretch.card.made("early", setting, predict)
    which = spot[where]
    mine = cp.flatnonzero(which >= 0)
    predictions[rows[mine]] = made[which[mine]]


# Actions of policies, and sums by a class.


def actions_of(stretch: Stretch, policies: Sequence[Policy], summing: Summation | None) -> Any:
    """Return the actions of policies (L, n), uint8 on the card: by bins or ids that are there, or read again."""
    if isinstance(summing, SummingIds):
        ids = stretch.get(*wanted_of_class(summing))[0]["ids"]
        table = np.array([actions_on(policy, summing.contexts) for policy in policies], dtype=np.uint8)
        return cupy().ascontiguousarray(cupy().asarray(table)[:, ids])
    found = by_bins(stretch, [policy.root if isinstance(policy, TreePolicy) else None for policy in policies], summing)
    return _read_actions(stretch, policies) if found is None else found


def by_bins(stretch: Stretch, roots: Sequence[Node | None], summing: Summation | None) -> Any | None:
    """Return the actions of trees (L, n) by bins of the class, or those on the card; None if these do not suffice."""
    bins = summing.trees.bins if isinstance(summing, SummingTrees) else stretch.kept_owner("codes")
    known = [root for root in roots if root is not None]
    if not isinstance(bins, Bins) or len(known) < len(roots):
        return None
    return actions_on_card(stretch.get(wanted_codes(bins))[0]["codes"], bins, known)


class _These:
    """Policies that are equal if they are the same objects, as not all can be compared."""

    def __init__(self, policies: tuple[Policy, ...]) -> None:
        self.policies = policies

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _These) or len(self.policies) != len(other.policies):
            return False
        return all(mine is theirs for mine, theirs in zip(self.policies, other.policies, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(id(policy) for policy in self.policies))


def _read_actions(stretch: Stretch, policies: Sequence[Policy]) -> Any:
    def make(_: int, block: Log) -> Parts:
        done = [actions_on(policy, block.contexts).astype(np.uint8) for policy in policies]
        return {"done": np.stack(done, axis=1)}

    def turned(made: dict[str, Any]) -> dict[str, Any]:
        return {"done": cupy().ascontiguousarray(made["done"].T)}

    return stretch.get(Wanted("done", _These(tuple(policies)), make, turned))[0]["done"]


def add_sums(stretch: Stretch, summing: Summation, scores: Any, sums: Any, *, at: int = 0) -> None:
    """Add the scores (n, W), int64 on the card, to the sums of a class, from column `at` on."""
    if isinstance(summing, SummingTrees):
        add_tree_sums(stretch, summing.bins, scores, sums, depth=summing.depth, at=at)
    else:
        ids = stretch.get(*wanted_of_class(summing))[0]["ids"]
        add_by_id(ids, scores, sums, at=at)


def tree_and_parts(stretch: Stretch, tree: TreePolicy) -> tuple[Any, Any]:
    """Return the actions of a tree (n,), and the number of the leaf (n,) of each row, uint8 on the card."""
    found = by_bins(stretch, [tree.root, numbered(tree.root)], None)
    if found is not None:
        return found[0], found[1]
    both = (tree, TreePolicy(root=numbered(tree.root), n_actions=len(leaves(tree.root))))
    done = _read_actions(stretch, both)
    return done[0], done[1]


def sum_by_round(rows: CardRows, scores: Any, n_rounds: int) -> Any:
    """Return the sums (rounds, W) of scores (n, W) on the card."""
    cp = cupy()
    out = cp.zeros((n_rounds, int(scores.shape[1])), dtype=cp.int64)
    if n_rounds <= MOST_PARTS:
        add_by_part(rows.rounds.astype(cp.uint8), scores, out)
    else:
        add_by_id(rows.rounds.astype(cp.int64), scores, out)
    return out


def zeros_on_card(*shape: int) -> Any:
    """Return zeros of int64 on the card."""
    return cupy().zeros(shape, dtype=np.int64)


# Sums over the rows of a large log: wealth, gaps, and losses of simpler policies.
#
# Each row's log-wealth is rounded *down* to a multiple of 2^−bits and added as a whole number: rounding only lowers
# wealth, so proofs stay valid, and the sum is the same in any order. Estimates, which only serve to choose, are rounded
# to the nearest.


MAX_WEALTH_BITS = 36
ROWS_OF_MAX_BITS = 2**25  # with more rows, the sum of logarithms might not fit into 64 bits
GAP_BITS, SQUARE_BITS = 24, 16
MAX_GAP, MAX_SQUARE = 2.0**20, 2.0**40  # of a row; larger ones are cut, as they only serve to choose
SIZE_SHIFT = 20  # bits dropped from the numbers whose sizes are added up to detect overflow
MAX_SIZE_SUM = 2**62 >> SIZE_SHIFT


def wealth_bits(n_rows: int) -> int:
    """Return the fractional bits to which the log-wealth of each of so many rows is rounded."""
    return MAX_WEALTH_BITS - max(0, math.ceil(math.log2(n_rows / ROWS_OF_MAX_BITS)))


@dataclass(frozen=True, eq=False)
class WealthSums:
    """The log-wealth of several experts: `Σ_i ⌊2^bits w_i log(1 + λ(ε − Z_i(π)))⌋`.

    setting: rounds and predictions of rows.
    summing: how a class adds up scores.
    policies, turns, moves: the comparator, as in `ledger.Against`.
    stakes (K, rounds): λ of each expert.
    share: the largest λ(1 + M), below 1.
    epsilon: ε.
    bits: the fractional bits to which wealth is rounded down.
    """

    setting: ScoreSetting
    summing: Summation
    policies: tuple[Policy, ...]
    turns: IntArray
    moves: FloatArray
    stakes: FloatArray
    share: float
    epsilon: float
    bits: int

    def begin(self) -> Sums:
        width = len(self.stakes) * self.summing.policies.n_actions
        return self.summing.zeros(width), np.zeros(1, dtype=np.int64)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        rows = self.setting.rows_of(number, block)
        actions = np.array([actions_on(policy, block.contexts) for policy in self.policies], dtype=np.int64)
        shaped = actions.reshape(len(self.policies), len(block))  # also without any leader
        against = Against(shaped, self.turns, self.moves)
        n, width = rows.propensities.shape
        every, wealth = np.empty((n, len(self.stakes) * width)), np.empty((n, width))
        for k, stakes in enumerate(self.stakes):
            wealth[:] = 0.0
            add_log_wealth(rows, against, stakes, self.share, self.epsilon, wealth, 0, n)
            every[:, k * width : (k + 1) * width] = wealth
        scores, size = round_down(every, self.bits)
        self.summing.add(block.contexts, scores, sums[0])
        sums[1][0] += size

    def can_use_card(self) -> bool:
        return sums_on_card(self.summing) and fits_on_card(self.summing.policies.n_actions, self.policies)

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        rows = rows_on_card(stretch, self.setting, *wanted_of_class(self.summing))
        leaders, sizes = actions_of(stretch, self.policies, self.summing), zeros_on_card(len(rows))
        for k, stakes in enumerate(self.stakes):
            scores = log_wealth(
                rows,
                leaders,
                turns=self.turns,
                moves=self.moves,
                stakes=stakes,
                share=self.share,
                epsilon=self.epsilon,
                bits=self.bits,
                sizes=sizes,
                size_shift=SIZE_SHIFT,
            )
            add_sums(stretch, self.summing, scores, sums[0], at=k * rows.n_actions)
        sums[1][0] += sizes.sum()


def round_down(wealth: FloatArray, bits: int) -> tuple[IntSums, int]:
    """Return log-wealth (n, W) as whole numbers of 2^−bits, and the approximate sum of their absolute values.

    That is the sum of the largest of each row, less its last bits; `MAX_SIZE_SUM` if one does not fit into 64 bits
    itself.
    """
    whole = np.floor(np.ldexp(wealth, bits))
    if not (np.abs(whole) < MAX_WHOLE).all():
        return np.zeros(whole.shape, dtype=np.int64), MAX_SIZE_SUM
    scores = whole.astype(np.int64)
    return scores, int((np.abs(scores) >> SIZE_SHIFT).max(axis=1, initial=0).sum())


def check_room(sums: Sums) -> None:
    """Raise InputError if a sum of whole numbers may not have fitted into 64 bits."""
    if sums[1][0] >= MAX_SIZE_SUM:
        raise InputError("the logarithms of this log add up to more than can be counted; cut it into several")


@dataclass(frozen=True, eq=False)
class GapSums:
    """Doubly robust gaps of policies to a reference, and their squares, over the rows of the rounds before one.

    setting, summing: as in `WealthSums`.
    reference: the policy that others are compared with.
    before: the round, counted from 0, from which on rows do not count.
    """

    setting: ScoreSetting
    summing: Summation
    reference: Policy
    before: int

    def begin(self) -> Sums:
        return (self.summing.zeros(2 * self.summing.policies.n_actions),)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        gaps, squares, mine = _row_gaps(self.setting, self.reference, self.before, number, block)
        if mine.size:
            scores = np.concatenate([_rounded(gaps, MAX_GAP, GAP_BITS), _rounded(squares, MAX_SQUARE, SQUARE_BITS)], 1)
            self.summing.add(block.contexts.take(mine), scores, sums[0])

    def can_use_card(self) -> bool:
        return sums_on_card(self.summing) and fits_on_card(self.summing.policies.n_actions, (self.reference,))

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        rows = rows_on_card(stretch, self.setting, *wanted_of_class(self.summing))
        reference = actions_of(stretch, (self.reference,), self.summing)[0]
        add_sums(stretch, self.summing, _gaps_on_card(rows, reference, self.before), sums[0])


@dataclass(frozen=True, eq=False)
class PartSums:
    """The sums of `GapSums` by the parts of all contexts on which a policy and its simplifications act alike.

    policies: the class, which knows the parts.
    n_parts: the number of parts.
    """

    setting: ScoreSetting
    policies: PolicyClass
    reference: Policy
    before: int
    n_parts: int

    def begin(self) -> Sums:
        shape = self.n_parts, self.policies.n_actions
        return np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)

    def add(self, number: int, block: Log, sums: Sums) -> None:
        gaps, squares, mine = _row_gaps(self.setting, self.reference, self.before, number, block)
        if mine.size:
            parts = self.policies.parts(self.reference, block.contexts.take(mine))
            np.add.at(sums[0], parts, _rounded(gaps, MAX_GAP, GAP_BITS))
            np.add.at(sums[1], parts, _rounded(squares, MAX_SQUARE, SQUARE_BITS))

    def can_use_card(self) -> bool:
        return isinstance(self.reference, TreePolicy) and fits_on_card(self.policies.n_actions, (self.reference,))

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        assert isinstance(self.reference, TreePolicy)
        rows = rows_on_card(stretch, self.setting)
        reference, parts = tree_and_parts(stretch, self.reference)
        gaps, width = zeros_on_card(self.n_parts, 2 * rows.n_actions), rows.n_actions
        add_by_part(parts, _gaps_on_card(rows, reference, self.before), gaps)
        for mine, column in zip(sums, (0, width), strict=True):
            mine += gaps[:, column : column + width]


def _row_gaps(
    setting: ScoreSetting, reference: Policy, before: int, number: int, block: Log
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return gaps and squares (k, A) of the rows of a block that count, and their numbers (k,)."""
    rows = setting.rows_of(number, block)
    gaps, squares = np.zeros_like(rows.propensities), np.zeros_like(rows.propensities)
    mixture = np.require(block.propensities, requirements=("C", "W")) if block.least is None else _played_alone(rows)
    add_gaps(rows, mixture, actions_on(reference, block.contexts), gaps, squares, 0, len(block))
    mine = np.flatnonzero(rows.rounds < before)
    return gaps[mine], squares[mine], mine


def _played_alone(rows: LedgerRows) -> FloatArray:
    """Return propensities (n, A) of played actions, and 1 for the others, which then do not matter."""
    out = np.ones_like(rows.propensities)
    out[np.arange(len(out)), rows.actions] = rows.played
    return out


def _gaps_on_card(rows: CardRows, reference: Any, before: int) -> Any:
    """Return gaps and squares (n, 2A) on the card."""
    return gaps_on_card(rows, reference, before=before, bits=(GAP_BITS, SQUARE_BITS), most=(MAX_GAP, MAX_SQUARE))


def _rounded(values: FloatArray, most: float, bits: int) -> IntSums:
    return np.rint(np.ldexp(np.clip(values, -most, most), bits)).astype(np.int64)


MAX_SUM_BYTES = 3 * 10**8  # of the sums of one pass; more experts take several passes


class PoliciesAgainst(NamedTuple):
    """The comparator of scores, by the leaders themselves instead of their actions (`ledger.Against`)."""

    policies: tuple[Policy, ...]
    turns: IntArray
    moves: FloatArray


@dataclass(eq=False)
class SummedLedger:
    """A ledger by sums over the rows of a source.

    source: the rows.
    engine: computes the sums.
    setting: rounds and predictions of rows.
    summing: how the class adds up scores.
    samples: the number of interactions.
    passes: the number of passes over the rows so far.
    """

    source: Source
    engine: Engine
    setting: ScoreSetting
    summing: Summation
    samples: int
    passes: int = 0
    _known: list[tuple[tuple[Any, ...], AnyAgainst, list[FloatArray]]] = field(default_factory=list[Any])

    @property
    def contexts(self) -> Contexts:
        return self.summing.contexts

    @property
    def n_rounds(self) -> int:
        return self.setting.n_rounds

    @property
    def round_sizes(self) -> FloatArray:
        return self.setting.arrangement.counts

    def searched(self, policies: PolicyClass) -> PolicyClass:
        """Return the class in the form that is searched by sums."""
        return self.summing.policies

    def against(self, policies: Sequence[Policy], turns: IntArray, moves: FloatArray) -> PoliciesAgainst:
        """Return the comparator of scores: policies that lead in turns (rounds,), and moves (rounds, L) of weight."""
        return PoliciesAgainst(tuple(policies), turns, moves)

    def log_wealths(
        self, against: AnyAgainst, *, stakes: Sequence[FloatArray], share: float, epsilon: float
    ) -> list[FloatArray]:
        """Return sums of the log-wealth of experts with these stakes (rounds,), in as few passes as memory allows."""
        assert isinstance(against, PoliciesAgainst)
        whom = tuple(map(id, against.policies)), against.turns.tobytes(), against.moves.tobytes()
        key = (tuple(tuple(one) for one in stakes), share, epsilon, *whom)
        for known, _, found in self._known:
            if known == key:
                return found
        found = self._ask_wealths(against, np.array(stakes), share, epsilon)
        self._known = [(key, against, found)]  # only the last, which is requested again
        return found

    def _ask_wealths(
        self, against: PoliciesAgainst, stakes: FloatArray, share: float, epsilon: float
    ) -> list[FloatArray]:
        width, bits = self.summing.policies.n_actions, wealth_bits(self.samples)
        at_once = max(1, MAX_SUM_BYTES // max(self.summing.zeros(width).nbytes, 1))
        out: list[FloatArray] = []
        for start in range(0, len(stakes), at_once):
            some = stakes[start : start + at_once]
            asked = WealthSums(self.setting, self.summing, *against, some, share, epsilon, bits)
            sums = self._ask(asked, f"betting by {count_of(len(some), 'expert')}")
            check_room(sums)
            whole = np.ldexp(self.summing.finish(sums[0]), -bits)
            out.extend(np.ascontiguousarray(whole[..., k * width : (k + 1) * width]) for k in range(len(some)))
        return out

    def gaps(self, reference: Policy, *, before: int) -> tuple[FloatArray, FloatArray]:
        """Return sums whose value at a policy is its estimated gap to a reference, and the square of its error.

        before: the round from which on rows do not count.
        """
        (sums,) = self._ask(GapSums(self.setting, self.summing, reference, before), "comparing policies")
        whole, width = self.summing.finish(sums), self.summing.policies.n_actions
        seen = float(self.round_sizes[:before].sum())
        gaps, squares = np.ldexp(whole[..., :width], -GAP_BITS), np.ldexp(whole[..., width:], -SQUARE_BITS)
        return np.ascontiguousarray(gaps) / seen, np.ascontiguousarray(squares) / seen**2

    def part_gaps(
        self, policies: PolicyClass, reference: Policy, *, before: int, n_parts: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return gaps and squares (parts, A) by the parts on which the reference and its simplifications act alike."""
        asked = PartSums(self.setting, policies, reference, before, n_parts)
        gaps, squares = self._ask(asked, "looking for a simpler policy")
        seen = float(self.round_sizes[:before].sum())
        return np.ldexp(gaps.astype(np.float64), -GAP_BITS) / seen, np.ldexp(
            squares.astype(np.float64), -SQUARE_BITS
        ) / seen**2

    def _ask(self, question: Any, what: str) -> Any:
        self.passes += 1
        return self.engine.ask(self.source, question, what=what)

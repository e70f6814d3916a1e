"""A log that is asked for sums: what `pacbandits.certificate.ledger` is for rows in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.certificate.ledger import Against, AnyAgainst, LedgerRows, add_gaps, add_log_wealth
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

# What the scores of every row of a large log are made from: its round, and the prediction made before it.
#
# A reward model is fitted on early rows alone, as many of them as came before a round. Where there are many, models
# that take long to predict are left out. Both are free: scores are unbiased whatever a model says, as long as it was
# fixed before the round.


@dataclass(frozen=True, eq=False)
class ScoreSetting:
    """What the scores of every row are made from.

    arrangement: the round of each row.
    fits: fitted models.
    fit_of (rounds,): which of them predicts the rewards of each round.
    early: the early rows, numbered by round; None in other processes than that which read them.
    """

    arrangement: Arrangement
    fits: tuple[FittedModel, ...]
    fit_of: IntArray
    early: Log | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without early rows, which are many, and of use to a card of this machine alone."""
        return self.__dict__ | {"early": None}

    @property
    def n_rounds(self) -> int:
        return len(self.fit_of)

    def predict(self, contexts: Contexts, rounds: IntArray, *, n_actions: int) -> FloatArray:
        """A guess (n, A) of every action's reward, by the model of the round (n,) of each context."""
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
        """The rows of the block of this number as kernels take them, each a context of its own."""
        return self.rows_at(block, self.arrangement.rounds_of(number * ROWS_PER_BLOCK, block))

    def rows_at(self, block: Log, rounds: IntArray) -> LedgerRows:
        """The same for rows whose rounds (n,) are known."""
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
    """Raise unless rewards and predictions lie in [0, 1]."""
    if not ((block.rewards >= 0) & (block.rewards <= 1)).all():
        low, high = block.rewards.min(), block.rewards.max()
        raise InputError(f"rewards must lie in [0, 1], but they range from {low:.6g} to {high:.6g}; rescale them")
    if predictions.shape != block.propensities.shape or not ((predictions >= 0) & (predictions <= 1)).all():
        raise InputError("predictions must have one number in [0, 1] for each row and action")


def make_setting(
    early: Log, model: RewardModel, arrangement: Arrangement, *, learns: bool, neighbours: int = LIMITS.neighbours
) -> ScoreSetting:
    """The model of every round, fitted on the early rows (numbered by round) that came before it.

    learns: whether rows have an order to learn in; else nothing is predicted but one half. neighbours: as of
    `Limits`.
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


# The questions of a certificate on a CUDA card: what they need of rows, and how their sums are made there.
#
# What a card keeps of rows goes by what it is made from: the log itself, the rounds that an arrangement gives rows,
# bins of a class, steps of reward models. Predictions are made there anew in every pass, from steps and a few tables;
# only those of models that are not made of steps come from the processor, which knows them of early rows already.


MOST_PARTS = 256
MOST_POLICIES = 255  # whose actions lie on the card at once


def fits_on_card(n_actions: int, policies: Sequence[Policy]) -> bool:
    """Whether so many actions, and what these policies do, can be scored on a card."""
    return n_actions < MOST_ACTIONS and len(policies) <= MOST_POLICIES


def sums_on_card(summing: Summation) -> bool:
    """Whether a class adds up rows on a card."""
    return isinstance(summing, SummingTrees | SummingIds)


# What is wanted of rows.


def wanted_of_class(summing: Summation) -> list[Wanted]:
    """What a class needs of rows to add them up, and to know what its policies do."""
    if isinstance(summing, SummingTrees):
        return [wanted_codes(summing.trees.bins)]
    return [wanted_ids(below=len(summing.contexts))]


def rows_on_card(stretch: Stretch, setting: ScoreSetting, *more: Wanted) -> CardRows:
    """The rows of a stretch, with predictions; more: what else is read of them if they are read now."""
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
    """The round of each row, and its place among the early ones."""

    def make(number: int, block: Log) -> Parts:
        start = first_row(number)
        rounds, places = arrangement.rounds_of(start, block), arrangement.places_of(start, block)
        return {"rounds": rounds.astype(np.int32), "places": places.astype(np.int32)}

    return Wanted("rounds", arrangement, make)


def _wanted_predictions(setting: ScoreSetting) -> Wanted:
    """Predictions that the processor makes."""
    return Wanted("predictions", setting, lambda number, block: {"predictions": setting.rows_of(number, block)[-1]})


# Predictions.


def _models_of(stretch: Stretch, setting: ScoreSetting) -> StepModels | None:
    """The models of a setting as the card takes them; None where the processor has to predict."""
    if not predicts_on_card(setting):
        return None
    assert setting.early is not None
    cuts, actions = _common_cuts(setting) or (), setting.early.n_actions
    return stretch.card.made(
        "setting", setting, lambda: step_models(setting.fits, setting.fit_of, cuts, n_actions=actions)
    )


def _common_cuts(setting: ScoreSetting) -> Any:
    """The steps of all models that are made of steps; None where these differ."""
    known = [found for fitted in setting.fits if (found := cuts_of(fitted)) is not None]
    all_cuts = set[Any]().union(*known)
    return None if len(all_cuts) > 1 else next(iter(all_cuts), ())


def predicts_on_card(setting: ScoreSetting) -> bool:
    """Whether models of steps, alike in these, predict all rows but early ones."""
    early = setting.early
    if early is None or _common_cuts(setting) is None:
        return False
    counts = setting.arrangement.counts
    seen = np.bincount(early.rounds, weights=early.weights, minlength=len(counts))
    return bool((_by_steps(setting) | (seen == counts)).all())


def _by_steps(setting: ScoreSetting) -> BoolArray:
    """Which rounds (rounds,) are predicted by a model of steps."""
    return np.array([cuts_of(fitted) is not None for fitted in setting.fits])[setting.fit_of]


def _put_early(stretch: Stretch, setting: ScoreSetting, places: Any, predictions: Any) -> None:
    """Put what the processor predicts of early rows into its place."""
    cp, early = cupy(), setting.early
    assert early is not None

    def find() -> tuple[Any, Any]:
        rows = cp.flatnonzero(places >= 0)
        return rows, places[rows]

    def predict() -> tuple[Any, Any]:
        """Which of the predictions (k, A) each early row (early,) has, −1 for none; and these."""
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


# What policies do, and sums by a class.


def actions_of(stretch: Stretch, policies: Sequence[Policy], summing: Summation | None) -> Any:
    """What policies do (L, n), uint8 on the card: by bins or ids that are there, or else read once more."""
    if isinstance(summing, SummingIds):
        ids = stretch.get(*wanted_of_class(summing))[0]["ids"]
        table = np.array([actions_on(policy, summing.contexts) for policy in policies], dtype=np.uint8)
        return cupy().ascontiguousarray(cupy().asarray(table)[:, ids])
    found = by_bins(stretch, [policy.root if isinstance(policy, TreePolicy) else None for policy in policies], summing)
    return _read_actions(stretch, policies) if found is None else found


def by_bins(stretch: Stretch, roots: Sequence[Node | None], summing: Summation | None) -> Any | None:
    """What trees do (L, n) by bins of the class, or by those that are on the card; None where that cannot be told."""
    bins = summing.trees.bins if isinstance(summing, SummingTrees) else stretch.kept_owner("codes")
    known = [root for root in roots if root is not None]
    if not isinstance(bins, Bins) or len(known) < len(roots):
        return None
    return actions_on_card(stretch.get(wanted_codes(bins))[0]["codes"], bins, known)


class _These:
    """Policies, which are the same if they are the same objects: not all can be compared."""

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
    """What a tree does (n,), and the number of the leaf (n,) that each row comes to, uint8 on the card."""
    found = by_bins(stretch, [tree.root, numbered(tree.root)], None)
    if found is not None:
        return found[0], found[1]
    both = (tree, TreePolicy(root=numbered(tree.root), n_actions=len(leaves(tree.root))))
    done = _read_actions(stretch, both)
    return done[0], done[1]


def sum_by_round(rows: CardRows, scores: Any, n_rounds: int) -> Any:
    """The sums (rounds, W) of scores (n, W) on the card."""
    cp = cupy()
    out = cp.zeros((n_rounds, int(scores.shape[1])), dtype=cp.int64)
    if n_rounds <= MOST_PARTS:
        add_by_part(rows.rounds.astype(cp.uint8), scores, out)
    else:
        add_by_id(rows.rounds.astype(cp.int64), scores, out)
    return out


def zeros_on_card(*shape: int) -> Any:
    """Whole numbers on the card to add to."""
    return cupy().zeros(shape, dtype=np.int64)


# What is asked of the rows of a large log: wealth, gaps, and what a simpler policy would lose.
#
# Each row's log-wealth is rounded *down* to a multiple of 2^−bits and added as a whole number: rounding only lowers
# wealth, so that what it proves stays proven, and the sum is the same in any order. Estimates, which only serve to
# choose, are rounded to the nearest.


MAX_WEALTH_BITS = 36
ROWS_OF_MAX_BITS = 2**25  # more, and a sum of so many logarithms might not fit into 64 bits
GAP_BITS, SQUARE_BITS = 24, 16
MAX_GAP, MAX_SQUARE = 2.0**20, 2.0**40  # of a row; what is larger counts for that much where policies are chosen
SIZE_SHIFT = 20  # by which numbers are cut whose sizes are added up, to see whether sums have room
MAX_WHOLE = 2.0**62
MAX_SIZE_SUM = 2**62 >> SIZE_SHIFT


def wealth_bits(n_rows: int) -> int:
    """To how many bits after the point the log-wealth of each of so many rows is rounded."""
    return MAX_WEALTH_BITS - max(0, math.ceil(math.log2(n_rows / ROWS_OF_MAX_BITS)))


@dataclass(frozen=True, eq=False)
class WealthSums:
    """The log-wealth of several experts: `Σ_i ⌊2^bits w_i log(1 + λ(ε − Z_i(π)))⌋`.

    setting: what scores are made from.
    summing: how a class adds them up.
    policies, turns, moves: what policies are scored against, as in `rows.Against`.
    stakes (K, rounds): λ of each expert.
    share: how near λ(1 + M) comes to 1.
    epsilon: ε.
    bits: to which is rounded.
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
        shaped = actions.reshape(len(self.policies), len(block))  # also where nobody has led yet
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
    """Log-wealth (n, W) as whole numbers of 2^−bits, and about what it all comes to, without signs.

    That is the largest of each row, cut by some bits; `MAX_SIZE_SUM` where one does not fit into 64 bits itself.
    """
    whole = np.floor(np.ldexp(wealth, bits))
    if not (np.abs(whole) < MAX_WHOLE).all():
        return np.zeros(whole.shape, dtype=np.int64), MAX_SIZE_SUM
    scores = whole.astype(np.int64)
    return scores, int((np.abs(scores) >> SIZE_SHIFT).max(axis=1, initial=0).sum())


def check_room(sums: Sums) -> None:
    """Raise where a sum of whole numbers may not have fitted into 64 bits."""
    if sums[1][0] >= MAX_SIZE_SUM:
        raise InputError("the logarithms of this log add up to more than can be counted; cut it into several")


@dataclass(frozen=True, eq=False)
class GapSums:
    """Doubly robust gaps of policies against one, and their squares, over the rows of the rounds before one.

    setting, summing: as above.
    reference: the policy that others are compared with.
    before: the round, counted from 0, whose rows and all later ones do not count.
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
    """The same by the parts of all contexts on which a policy and the simpler ones made from it act alike.

    policies: the class, which knows them.
    n_parts: how many there are.
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
    """Gaps and squares (k, A) of the rows (k,) of a block that count, and which these are."""
    rows = setting.rows_of(number, block)
    gaps, squares = np.zeros_like(rows.propensities), np.zeros_like(rows.propensities)
    mixture = np.require(block.propensities, requirements=("C", "W")) if block.least is None else _played_alone(rows)
    add_gaps(rows, mixture, actions_on(reference, block.contexts), gaps, squares, 0, len(block))
    mine = np.flatnonzero(rows.rounds < before)
    return gaps[mine], squares[mine], mine


def _played_alone(rows: LedgerRows) -> FloatArray:
    """Propensities (n, A) of played actions, and 1 for the others, which then count for nothing."""
    out = np.ones_like(rows.propensities)
    out[np.arange(len(out)), rows.actions] = rows.played
    return out


def _gaps_on_card(rows: CardRows, reference: Any, before: int) -> Any:
    """Gaps and squares (n, 2A) on the card."""
    return gaps_on_card(rows, reference, before=before, bits=(GAP_BITS, SQUARE_BITS), most=(MAX_GAP, MAX_SQUARE))


def _rounded(values: FloatArray, most: float, bits: int) -> IntSums:
    return np.rint(np.ldexp(np.clip(values, -most, most), bits)).astype(np.int64)


MAX_SUM_BYTES = 3 * 10**8  # that are added to in one pass; experts who need more are asked for in several


class PoliciesAgainst(NamedTuple):
    """What policies are scored against, by the leaders themselves: as `rows.Against` by their actions."""

    policies: tuple[Policy, ...]
    turns: IntArray
    moves: FloatArray


@dataclass(eq=False)
class SummedLedger:
    """A log that is asked for sums over its rows.

    source: where rows come from.
    engine: who adds up.
    setting: what scores are made from.
    summing: how the class adds them up.
    samples: how many interactions there are.
    passes: how often rows were read so far.
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
        """The class as it is searched by sums."""
        return self.summing.policies

    def against(self, policies: Sequence[Policy], turns: IntArray, moves: FloatArray) -> PoliciesAgainst:
        """What policies are scored against: these, who lead in turns (rounds,) and give up moves (rounds, L)."""
        return PoliciesAgainst(tuple(policies), turns, moves)

    def log_wealths(
        self, against: AnyAgainst, *, stakes: Sequence[FloatArray], share: float, epsilon: float
    ) -> list[FloatArray]:
        """Sums of the log-wealth of experts with these stakes (rounds,) each, in as few passes as memory allows."""
        assert isinstance(against, PoliciesAgainst)
        whom = tuple(map(id, against.policies)), against.turns.tobytes(), against.moves.tobytes()
        key = (tuple(tuple(one) for one in stakes), share, epsilon, *whom)
        for known, _, found in self._known:
            if known == key:
                return found
        found = self._ask_wealths(against, np.array(stakes), share, epsilon)
        self._known = [(key, against, found)]  # those of the last pass, which are asked for again
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
        """Sums whose value at a policy is its estimated gap to a reference, and the square of that one's error.

        By the rows of the rounds before one.
        """
        (sums,) = self._ask(GapSums(self.setting, self.summing, reference, before), "comparing policies")
        whole, width = self.summing.finish(sums), self.summing.policies.n_actions
        seen = float(self.round_sizes[:before].sum())
        gaps, squares = np.ldexp(whole[..., :width], -GAP_BITS), np.ldexp(whole[..., width:], -SQUARE_BITS)
        return np.ascontiguousarray(gaps) / seen, np.ascontiguousarray(squares) / seen**2

    def part_gaps(
        self, policies: PolicyClass, reference: Policy, *, before: int, n_parts: int
    ) -> tuple[FloatArray, FloatArray]:
        """The same (parts, A) by the parts on which the reference, and the simpler ones made from it, act alike."""
        asked = PartSums(self.setting, policies, reference, before, n_parts)
        gaps, squares = self._ask(asked, "looking for a simpler policy")
        seen = float(self.round_sizes[:before].sum())
        return np.ldexp(gaps.astype(np.float64), -GAP_BITS) / seen, np.ldexp(
            squares.astype(np.float64), -SQUARE_BITS
        ) / seen**2

    def _ask(self, question: Any, what: str) -> Any:
        self.passes += 1
        return self.engine.ask(self.source, question, what=what)

"""Aggregations over rows on a GPU: scores, predictions, trees, roots, design costs, values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.engines.cuda.card import USUAL_SHARED_BYTES, Card, cupy, function, multiprocessors
from pacbandits.errors import InputError

# Scores of every action by rows on the GPU, as integers.


MOST_THREADS = 128
MOST_ACTIONS = 190  # for which 32 rows of scores fit into the shared memory of a block


@dataclass(frozen=True, eq=False)
class CardRows:
    """Rows on the GPU, as in `pacbandits.certificate.ledger`, each a context of its own.

    actions (n,): uint8.
    rewards (n,): float64; NaN if pending.
    repeats (n,): float64.
    rounds (n,): int32.
    played (n,): float64.
    propensities (n, A): float64; or (1, A) if all rows have the same.
    predictions (n, A): float64 or float32.
    """

    actions: Any
    rewards: Any
    repeats: Any
    rounds: Any
    played: Any
    propensities: Any
    predictions: Any

    def __len__(self) -> int:
        return int(self.actions.shape[0])

    @property
    def n_actions(self) -> int:
        return int(self.predictions.shape[1])


def log_wealth(
    rows: CardRows,
    leaders: Any,
    *,
    turns: IntArray,
    moves: FloatArray,
    stakes: FloatArray,
    share: float,
    epsilon: float,
    bits: int,
    sizes: Any,
    size_shift: int,
) -> Any:
    """Return `⌊2^bits w log(1 + λ(ε − Z))⌋`, (n, A) int64 on the GPU; see `add_log_wealth` there.

    leaders (L, n): uint8 on the GPU, the actions of each leader; turns (rounds,), moves (rounds, L), stakes (rounds,):
    on the host. sizes (n,): int64 on the GPU, raised to the largest absolute value of a row, shifted right by
    `size_shift` bits.
    """
    cp, n = cupy(), len(rows)
    out = cp.empty((n, rows.n_actions), dtype=cp.int64)
    if n == 0:
        return out
    given = (cp.asarray(turns.astype(np.int32)), cp.asarray(moves.astype(np.float64)), cp.asarray(stakes))
    more = (np.float64(share), np.float64(epsilon), np.float64(2.0**bits), np.int32(size_shift))
    _launch("log_wealth", rows, leaders, np.int64(n), np.int32(len(leaders)), *given, *more, out, sizes)
    return out


def gaps(
    rows: CardRows,
    reference: Any,
    *,
    before: int,
    bits: tuple[int, int],
    most: tuple[float, float],
) -> Any:
    """Return doubly robust gaps to a reference, and their squares, (n, 2A) int64 on the GPU; see `add_gaps` there.

    Each is cut to at most `most`, and rounded to the nearest multiple of 2^−bits; 0 from the round `before` on.
    reference (n,): uint8 on the GPU, its actions.
    """
    cp, n = cupy(), len(rows)
    out = cp.empty((n, 2 * rows.n_actions), dtype=cp.int64)
    if n > 0:
        scales = [np.float64(x) for one, bit in zip(most, bits, strict=True) for x in (one, 2.0**bit)]
        _launch("gaps", rows, reference, np.int32(before), *scales, out)
    return out


def values(rows: CardRows, weights: Any, *, bits: int, most: float) -> Any:
    """Return doubly robust values of actions, rows weighted (n,), (n, A) int64 on the GPU; see `add_values` there."""
    cp, n = cupy(), len(rows)
    out = cp.empty((n, rows.n_actions), dtype=cp.int64)
    if n > 0:
        _launch("values", rows, weights, np.float64(most), np.float64(2.0**bits), out)
    return out


def block_threads(n_actions: int) -> int:
    """Return the threads of a block, one per row, whose scores fit into shared memory.

    Raises:
        InputError: If there are too many actions.
    """
    if n_actions > MOST_ACTIONS:
        raise InputError(f"a GPU supports at most {MOST_ACTIONS} actions, got {n_actions}; use the engine 'stream'")
    return min(USUAL_SHARED_BYTES // (8 * (n_actions | 1)) // 32 * 32, MOST_THREADS)


def _launch(kernel: str, rows: CardRows, *more: Any) -> None:
    n, width = len(rows), rows.n_actions
    pitch = width if rows.propensities.shape[0] == n else 0
    threads = block_threads(width)
    single = int(rows.predictions.dtype == np.float32)
    given = (rows.actions, rows.rewards, rows.repeats, rows.rounds, rows.played, rows.propensities, np.int64(pitch))
    function("scores", kernel, ACTIONS=width, SINGLE=single, THREADS=threads)(
        (-(-n // threads),), (threads,), (*given, rows.predictions, np.int64(0), np.int64(n), *more)
    )


# Predictions of fitted step models for rows on the GPU.


MODEL = np.dtype([("first", "i4"), ("last", "i4"), ("count", "i4"), ("pad", "i4"), ("low", "f8"), ("high", "f8")])
PART = np.dtype([("table", "i8"), ("kind", "i4"), ("root", "i4"), ("own", "f8"), ("shared", "f8")])
NODE = np.dtype([("feature", "i4"), ("value", "i4"), ("label", "i4"), ("yes", "i4"), ("no", "i4")])
REGIONS, SUM = 0, 1  # kinds of parts
LEAF = -1  # instead of a feature to test; `yes` is then the position of the leaf


@dataclass(frozen=True, eq=False)
class StepModels:
    """Fitted step models as the kernel in `predictions.cu` takes them.

    model_of (rounds,): the model that predicts the rewards of each round; −1 if none does.
    starts (d,): the first step of each feature among all steps.
    models (M,): `MODEL`.
    means, played (M, A): the means of actions, and which were played.
    parts: `PART`, those of a model one after the other.
    nodes: `NODE`, the tests of all regions.
    tables: the means of regions, or the means and slopes of sums, A numbers after A numbers.
    low, high: the bounds to which predictions of parts are clipped.
    """

    model_of: IntArray
    starts: IntArray
    models: np.ndarray
    means: FloatArray
    played: BoolArray
    parts: np.ndarray
    nodes: np.ndarray
    tables: FloatArray
    low: float
    high: float


def predict_on_card(card: Card, models: StepModels, codes: Any, rounds: Any) -> Any:
    """Return the predictions (n, A), float64, of rows on the GPU: steps (n, d), uint8, and rounds (n,), int32."""
    cp, n, width = cupy(), int(codes.shape[0]), models.means.shape[1]
    out = cp.empty((n, width), dtype=cp.float64)
    if n == 0:
        return out
    tables = card.made("models", models, lambda: _tables(models))
    threads = block_threads(width)
    starts, model_of, *rest = tables
    given = (codes, np.int32(codes.shape[1]), np.int32(len(models.starts)), starts, np.int64(n), rounds, model_of)
    function("predictions", "predict", ACTIONS=width, THREADS=threads)(
        (-(-n // threads),), (threads,), (*given, *rest, np.float64(models.low), np.float64(models.high), out)
    )
    return out


def _tables(models: StepModels) -> tuple[Any, ...]:
    """Return the tables of models on the GPU, records as bytes."""
    cp = cupy()
    numbers = (models.starts.astype(np.int32), models.model_of.astype(np.int32), models.models.view(np.uint8))
    more = (models.means, models.played.astype(np.uint8), models.parts.view(np.uint8), models.nodes.view(np.uint8))
    return tuple(cp.asarray(np.append(one.ravel(), one.dtype.type(0))) for one in (*numbers, *more, models.tables))


# Leaves of small trees for rows on the GPU, and sums of scores by parts of the rows.


PART_BYTES = 64 * 1024  # for a block's cells


@dataclass(frozen=True, eq=False)
class SmallTree:
    """A tree of depth 2 or less by the bins of features.

    features (3,): the features that the root, its left and its right child test.
    lefts (3, 256): the bins that go left.
    leaves (4,): the values of the leaves, left to right.
    """

    features: tuple[int, int, int]
    lefts: BoolArray
    leaves: tuple[int, int, int, int]


def leaves_of(codes: Any, trees: Sequence[SmallTree]) -> Any:
    """Return the leaf value (trees, n), uint8, of each row; codes (n, d or more) uint8, on the GPU."""
    cp, n = cupy(), int(codes.shape[0])
    out = cp.empty((len(trees), n), dtype=cp.uint8)
    if n > 0 and trees:
        features = cp.asarray(np.array([tree.features for tree in trees], dtype=np.int32))
        packed = np.packbits(np.array([tree.lefts for tree in trees]), axis=-1, bitorder="little")
        lefts = cp.asarray(np.ascontiguousarray(packed).view(np.uint32))
        leaves = cp.asarray(np.array([tree.leaves for tree in trees], dtype=np.uint8))
        given = (codes, np.int32(codes.shape[1]), np.int64(n), features, lefts, leaves, np.int32(len(trees)), out)
        function("trees", "tree_leaves")((-(-n // 256),), (256,), given)
    return out


def add_by_part(parts: Any, scores: Any, out: Any, *, at: int = 0) -> None:
    """Add to out (P, W'), from column `at` on, the scores (n, W), int64, of the rows in each part (n,), uint8.

    parts may be a column of a matrix.
    """
    n, width = scores.shape
    if n == 0:
        return
    most = max(PART_BYTES // (8 * len(out)), 1)
    columns = min(width, most, 128)
    threads = max(min(most, 256) // columns, 1) * columns
    rows_at_once = 32 * (threads // columns)
    grid = (min(4 * multiprocessors(), -(-n // rows_at_once)), -(-width // columns))
    given = (parts, np.int32(parts.strides[0]), np.int64(n), scores, np.int32(width), np.int32(len(out)))
    more = (np.int32(columns), out, np.int32(out.shape[1]), np.int32(at))
    function("trees", "sum_parts")(grid, (threads,), (*given, *more), shared_mem=8 * len(out) * threads)


def add_by_id(ids: Any, scores: Any, out: Any, *, at: int = 0) -> None:
    """Add scores in the same way by ids (n,), int64, of which there may be any number."""
    n, width = scores.shape
    if n > 0:
        given = (ids, np.int64(n), scores, np.int32(width), out, np.int32(out.shape[1]), np.int32(at))
        function("trees", "sum_ids")((8 * multiprocessors(),), (256,), given)


# The best tree of depth 2 below every root split, on the GPU.


def root_values(
    sums: Any,
    *,
    starts: IntArray,
    split_starts: IntArray,
    run_bins: IntArray,
    run_splits: IntArray,
    adding: BoolArray,
) -> Any:
    """Return the value (S,), int64, of the best tree of depth 2 below every split of a layout.

    sums (all bins, all bins, W): int64, complete; the rest as in a layout of trees.
    """
    cp = cupy()
    splits = np.arange(int(run_splits[-1]))
    runs = np.searchsorted(run_splits, splits, side="right") - 1
    last = run_bins[runs] + splits - run_splits[runs]
    first = np.where(adding[runs], run_bins[runs], last)
    features = np.searchsorted(split_starts, splits, side="right") - 1
    out = cp.empty(len(splits), dtype=cp.int64)
    given = [cp.asarray(x.astype(np.int32)) for x in (first, last, run_bins, np.diff(run_splits), adding)]
    more = [cp.asarray(x.astype(np.int32)) for x in (starts, features)]
    function("roots", "root_values", WIDTH=int(sums.shape[2]))(
        (len(splits),), (256,), (sums, np.int32(sums.shape[0]), *given, np.int32(len(adding)), *more, out)
    )
    return out


# The costs of a design for the actions of rows on the GPU.


SERVING_THREADS = 128
MOST_SERVED_ACTIONS = 64  # for which a row's numbers stay with its thread


@dataclass(frozen=True, eq=False)
class CardWeights:
    """The weights of trees by the bins of two features, on the GPU; fields are those of a `Forest`.

    starts (d + 1,), pairs (P, 2): int32.
    table (all bins, all bins, A), always (A,): int64.
    """

    starts: Any
    pairs: Any
    table: Any
    always: Any

    @classmethod
    def send(cls, starts: IntArray, pairs: IntArray, table: IntArray, always: IntArray) -> CardWeights:
        """Copy weights from memory to the GPU."""
        cp = cupy()
        first, second = (cp.asarray(one.astype(np.int32)) for one in (starts, pairs))
        return cls(first, second, cp.asarray(table), cp.asarray(always))


def serve_rows(
    codes: Any,
    weights: CardWeights,
    *,
    reference: Any,
    noise: Any,
    floors: tuple[float, float],
    scales: tuple[float, float],
    total: Any,
) -> Any:
    """Return costs (n, A) of rows, int64 on the GPU, rounded up; add their values, rounded down, to total (1,).

    See `score_rows` of `pacbandits.design.large.questions`. codes (n, d or more), reference (n,): uint8 on the GPU.
    noise (n, A) or (1, A): float64 on the GPU.
    """
    cp, n, n_actions = cupy(), int(codes.shape[0]), int(weights.table.shape[2])
    out = cp.empty((n, n_actions), dtype=cp.int64)
    if n == 0:
        return out
    pitch = n_actions if noise.shape[0] == n else 0
    function("serving", "serve_rows", ACTIONS=n_actions, THREADS=SERVING_THREADS)(
        (-(-n // SERVING_THREADS),),
        (SERVING_THREADS,),
        (
            *(codes, np.int32(codes.shape[1]), np.int64(n), weights.starts, weights.pairs),
            *(np.int32(len(weights.pairs)), weights.table, np.int32(weights.table.shape[0]), weights.always),
            *(reference, noise, np.int32(pitch), *(np.float64(one) for one in (*floors, *scales)), out, total),
        ),
    )
    return out


# The value of a policy by rows on the GPU: plain scores, and the log-wealth of bets on values.


THREADS = 128  # of a block that bets
MOST_EXPERTS = 5  # summed by a thread at once; with 10, its registers let few threads run
MOST_TILE_ROWS = 64
BLOCKS_PER_MULTIPROCESSOR = 12


@dataclass(frozen=True, eq=False)
class CardDecided:
    """The policies that decide in each round.

    leaders (L, n): uint8 on the GPU, the actions of each policy.
    shares (rounds, L): the weight of each policy in a row of each round.
    counted (rounds,): the rounds that count.
    """

    leaders: Any
    shares: FloatArray
    counted: BoolArray


def plain_scores(rows: CardRows, decided: CardDecided, *, bits: int, most: float, most_whole: float) -> Any:
    """Return doubly robust values of each action and of the policy, (n, A + 1) int64 on the GPU.

    Rounded to the nearest multiple of 2^−bits; 0 in rounds that do not count. most: the bound to which an
    importance-weighted residual is cut; most_whole: that of an integer.
    """
    cp, n, width = cupy(), len(rows), rows.n_actions
    out = cp.empty((n, width + 1), dtype=cp.int64)
    if n > 0:
        threads, scales = block_threads(width + 1), (np.float64(2.0**bits), np.float64(most_whole))
        function("worth", "plain_scores", ACTIONS=width, THREADS=threads)(
            (-(-n // threads),), (threads,), (*_given(rows, decided), np.float64(most), *scales, out)
        )
    return out


@dataclass(frozen=True, eq=False)
class Betting:
    """The bets of experts, and the encoding of their log-wealth.

    See `add_all_bounds` of `pacbandits.certificate.intervals`.

    stakes, caps (K, rounds): the stake λ of each expert, and its maximum loss divided by λ; on the host.
    centres (2A + 1, rounds): of each kind; on the host.
    slack: the deduction for the rounding of a row.
    factors: the bounds to which the factors of a row are clipped.
    group: the number of rows whose factors are multiplied.
    bits, rest_bits: the precision of the integers, and of their remainders.
    """

    stakes: FloatArray
    caps: FloatArray
    centres: FloatArray
    slack: float
    factors: tuple[float, float]
    group: int
    bits: int
    rest_bits: int


def add_bounds(rows: CardRows, decided: CardDecided, betting: Betting, sums: tuple[Any, ...]) -> None:
    """Add log-wealth (2A + 1, 2, K) for θ and −θ of every kind, its remainder, and rows without room to bet.

    The sums are those of `pacbandits.certificate.intervals`. Rows begin where a group does.
    """
    cp, n, width = cupy(), len(rows), rows.n_actions
    if n == 0:
        return
    experts, rounds = betting.stakes.shape
    all_sides = 2 * (2 * width + 1)
    sides, tile = min(all_sides, THREADS), tile_rows(width, group=betting.group)
    grid = (min(BLOCKS_PER_MULTIPROCESSOR * multiprocessors(), -(-n // tile)), -(-all_sides // sides))
    numbers = (betting.stakes, betting.caps, betting.centres)
    tables = (*(cp.asarray(np.ascontiguousarray(one)) for one in numbers), np.int32(rounds))
    scales = tuple(np.float64(one) for one in (betting.slack, *betting.factors, 2.0**betting.bits))
    given, fixed = _given(rows, decided), {"GROUP": betting.group, "REST_BITS": betting.rest_bits}
    for at in range(0, experts, MOST_EXPERTS):
        some = min(MOST_EXPERTS, experts - at)
        function("worth", "bounds", ACTIONS=width, THREADS=THREADS, EXPERTS=some, ROWS=tile, **fixed)(
            grid, (THREADS,), (*given, *tables, *scales, np.int32(at), np.int32(experts), np.int32(sides), *sums)
        )


def tile_rows(n_actions: int, *, group: int) -> int:
    """Return the rows of a tile, whose weights, predictions and propensities fit into the usual shared memory.

    They are whole groups, the same number for each of the threads that share a side.
    """
    most = USUAL_SHARED_BYTES // (24 * n_actions + 48)
    each = group * (THREADS // min(2 * (2 * n_actions + 1), THREADS))
    return min(max(MOST_TILE_ROWS, each), most) // each * each


def _given(rows: CardRows, decided: CardDecided) -> tuple[Any, ...]:
    cp, n, width = cupy(), len(rows), rows.n_actions
    pitch = width if rows.propensities.shape[0] == n else 0
    played = (rows.actions, rows.rewards, rows.repeats, rows.rounds, rows.played, rows.propensities, np.int64(pitch))
    shares, counted = cp.asarray(np.ascontiguousarray(decided.shares)), cp.asarray(decided.counted.astype(np.uint8))
    leaders = (decided.leaders, np.int32(len(decided.leaders)))
    return (*played, rows.predictions, np.int64(n), *leaders, shares, counted)

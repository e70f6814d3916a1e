"""The CUDA engine against the processor; what needs no card is checked everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pacbandits.certificate.ledger import Against, LedgerRows, add_gaps, add_log_wealth, add_values
from pacbandits.engines import Local, LogSource
from pacbandits.engines.cuda import CudaEngine, Stretch, available
from pacbandits.engines.cuda.aggregations import CardRows, SmallTree, block_threads, gaps, log_wealth, values
from pacbandits.engines.cuda.card import why_not
from pacbandits.engines.cuda.pair_sums import (
    PAIR,
    SELF,
    cell_bytes,
    plan_items,
    plan_jobs,
    plan_passes,
    tile_bytes,
    tile_rows,
)
from pacbandits.errors import InputError
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.histograms import Histograms
from pacbandits.policies.trees.on_card import (
    actions_on_card,
    add_tree_sums,
    best_tree_on_card,
    numbered,
    small_tree,
    wanted_codes,
)
from pacbandits.policies.trees.search import best_tree
from pacbandits.policies.trees.tree_policy import AtMost, Node, TreePolicy, TreeSplit
from pacbandits.progress import heard_by
from pacbandits.records import Contexts, Log

needs_card = pytest.mark.skipif(not available(), reason=f"no card: {why_not()}")

SHAPES = [  # rows, bins of features, scores of a row
    (1, (32,), 1),
    (1, (2, 3), 3),
    (0, (2, 3), 3),
    (7, (256, 1, 5), 2),
    (1000, (256, 256), 10),
    (5000, (32,) * 10, 10),
    (9001, (5, 1, 3, 17, 2), 7),
    (20_000, (8,) * 9, 64),
    (9000, (256,) * 3, 70),
    (70_001, (12, 3), 1),
    (70_000, (16,) * 5, 200),
    (50_001, (4,) * 33, 5),
]


def draw(n: int, bins: tuple[int, ...], width: int) -> tuple[Any, Any, Any]:
    """Codes, some bins of which are rare, scores of about 40 bits, and where features begin."""
    rng = np.random.default_rng(n + width)
    codes = np.column_stack([(rng.random(n) ** 2 * b).astype(np.uint8) for b in bins])
    scores = rng.integers(-(2**40), 2**40, size=(n, width))
    return codes, scores, np.cumsum([0, *bins])


def pair_sums(codes: Any, scores: Any, starts: Any) -> Any:
    """All sums by the bins of two features."""
    count, places = int(starts[-1]), codes + starts[:-1]
    out = np.zeros((count, count, scores.shape[1]), dtype=np.int64)
    for j in range(codes.shape[1]):
        for k in range(codes.shape[1]):
            np.add.at(out, (places[:, j], places[:, k]), scores)
    return out


# What needs no card.


@pytest.mark.parametrize(("n", "bins", "width"), SHAPES)
def test_every_pair_of_features_is_added_up_once(n: int, bins: tuple[int, ...], width: int) -> None:
    for rows in (n, 10**8, 1):
        passes = plan_passes(bins, rows=rows)
        slab, jobs = plan_jobs(bins, passes, width, threads=128, table_bytes=1 << 16)
        seen = np.zeros((len(bins), len(bins), width), dtype=int)
        for job in jobs:
            one, some = passes[job.pass_number], slice(job.action_at, job.action_at + job.actions)
            assert job.bins * 2 * job.lanes * 8 <= 1 << 16  # its cells in shared memory
            assert job.actions <= slab
            assert job.groups * job.pairs * slab <= min(job.lanes, 128)
            for k in range(2 * job.pairs_at, min(2 * (job.pairs_at + job.pairs), len(bins))):
                assert bins[k] <= job.bins
                for other in (one.x, one.y):
                    if k < one.x and other >= 0:
                        seen[k, other, some] += 1
            if job.own == PAIR:
                seen[one.x, one.y, some] += 1
            if job.own == SELF:
                seen[one.x, one.x, some] += 1
        alone = np.eye(1, dtype=int) if len(bins) == 1 else np.triu(np.ones((len(bins), len(bins)), dtype=int), 1)
        assert (seen == alone[:, :, None]).all()


def test_pieces_of_work_hold_every_row_once() -> None:
    bins = (32,) * 10
    passes = plan_passes(bins, rows=10**6)
    _, jobs = plan_jobs(bins, passes, 10, threads=128, table_bytes=1 << 16)
    items = plan_items(jobs, 3_000_001, chunk_rows=10**6, blocks=500)
    for job in range(len(jobs)):
        for chunk, rows in enumerate((10**6, 10**6, 10**6, 1)):
            mine = items[(items[:, 0] == job) & (items[:, 1] == chunk)]
            assert mine[0, 2] == 0
            assert mine[-1, 3] == rows
            assert (mine[1:, 2] == mine[:-1, 3]).all()
    assert 400 < len(items) < 600


def test_few_rows_get_a_pass_for_each_feature() -> None:
    assert len(plan_passes((32,) * 10, rows=10**7)) == 5
    assert len(plan_passes((32,) * 10, rows=10**4)) == 9
    assert len(plan_passes((256,) * 10, rows=10**8)) == 9


def test_cells_and_tiles_fill_shared_memory() -> None:
    shared = 76_800  # a third of an H200's, for a block
    assert cell_bytes(shared, most_bins=32) == 1 << 16
    rows = tile_rows(shared, cells=1 << 13, slab=10, words=2)
    assert rows == 60
    assert (1 << 16) + tile_bytes(rows, slab=10, words=2) <= shared < (1 << 16) + tile_bytes(64, slab=10, words=2)
    assert cell_bytes(33_000, most_bins=256) == 1 << 16  # 16 threads, however little there is
    assert tile_rows(33_000, cells=1 << 13, slab=10, words=2) == 8


def test_too_many_actions_are_refused() -> None:
    assert block_threads(10) == 128
    assert block_threads(64) == 64
    with pytest.raises(InputError, match="190 actions, got 191"):
        block_threads(191)


def contexts_of(n: int) -> Contexts:
    """Numbers, of which some are missing, and a category."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 4)).round(1)
    x[:, 1] = np.where(rng.random(n) < 0.2, np.nan, x[:, 1])
    x[:, 2] = rng.integers(0, 4, n)
    return Contexts(
        features=x,
        names=("a", "b", "c", "d"),
        categories=(None, None, ("p", "q", "r", "s"), None),
        ids=None,
        weights=np.full(n, 1 / n),
    )


def drawn_trees(bins: Bins, contexts: Contexts, count: int) -> list[Node]:
    """The best trees for scores drawn at random, of depths 0 to 2."""
    rng, codes = np.random.default_rng(0), bins.encode(contexts)
    return [best_tree(bins, codes, rng.normal(size=(len(contexts), 3)), depth=i % 3) for i in range(count)]


def follow(tree: SmallTree, codes: Any) -> Any:
    """What the leaf holds that each row comes to."""
    right = ~tree.lefts[0, codes[:, tree.features[0]]]
    below = np.where(right, *(~tree.lefts[s, codes[:, tree.features[s]]] for s in (2, 1)))
    return np.array(tree.leaves)[2 * right + below]


def test_small_trees_act_by_bins_as_by_their_tests() -> None:
    contexts = contexts_of(500)
    bins = Bins.learn(contexts, bins=6)
    codes = bins.encode(contexts)
    for root in drawn_trees(bins, contexts, 12):
        tree, parts = small_tree(root, bins), small_tree(numbered(root), bins)
        assert tree is not None
        assert parts is not None
        actions = TreePolicy(root=root, n_actions=3)(contexts)
        assert (follow(tree, codes) == actions).all()
        assert set(follow(parts, codes)) <= set(range(4))
    unknown = TreeSplit(AtMost("a", 0.123), 0, 1)
    assert small_tree(unknown, bins) is None
    known = bins.test(0)
    assert small_tree(TreeSplit(known, TreeSplit(known, TreeSplit(known, 0, 1), 1), 0), bins) is None
    assert small_tree(TreeSplit(known, unknown, 0), bins) is None


@dataclass(frozen=True, eq=False)
class TreeSums:
    """The sums that a search for trees needs, of a score for every action."""

    bins: Bins
    n_actions: int
    depth: int

    def begin(self) -> Any:
        count = int(self.bins.layout.starts[-1])
        shapes = {0: (1,), 1: (count,), 2: (count, count)}
        return (np.zeros((*shapes[self.depth], self.n_actions), dtype=np.int64),)

    def scores(self, number: int, block: Log) -> Any:
        return np.rint((block.rewards[:, None] - 0.1 * np.arange(self.n_actions)) * 2**30).astype(np.int64) + number

    def add(self, number: int, block: Log, sums: Any) -> None:
        codes, scores, starts = self.bins.encode(block.contexts), self.scores(number, block), self.bins.layout.starts
        whole = pair_sums(codes, scores, starts)
        if self.depth == 2:
            sums[0][:] += whole
        elif self.depth == 1:
            sums[0][:] += whole[np.arange(starts[-1]), np.arange(starts[-1])]
        else:
            sums[0][:] += scores.sum(axis=0)

    def can_use_card(self) -> bool:
        return True

    def add_on_card(self, stretch: Stretch, sums: tuple[Any, ...]) -> None:
        from pacbandits.engines.cuda import Wanted

        scores = Wanted("scores", self, lambda number, block: {"scores": self.scores(number, block)})
        made, _ = stretch.get(scores, wanted_codes(self.bins))
        add_tree_sums(stretch, self.bins, made["scores"], sums[0], depth=self.depth)


def small_log(n: int) -> Log:
    rng = np.random.default_rng(n)
    return Log(
        contexts=contexts_of(n),
        actions=rng.integers(0, 3, n),
        rewards=rng.random(n),
        propensities=np.full((n, 3), 1 / 3),
        rounds=np.zeros(n, dtype=np.int64),
        repeats=np.ones(n, dtype=np.int64),
    )


def test_without_a_card_the_cores_add_up_and_say_so_once() -> None:
    log, words = small_log(3000), list[str]()
    question = TreeSums(Bins.learn(log.contexts, bins=4), 3, depth=2)
    engine = CudaEngine(fallback="no card here; buy one")
    with heard_by(words.append, every_seconds=1e9):
        sums = engine.ask(LogSource(log), question, what="adding")
        engine.ask(LogSource(log), question, what="adding")
    assert words == ["no card here; buy one; the CPU cores of this machine are used instead"]
    assert (sums[0] == Local("threads").ask(LogSource(log), question, what="adding")[0]).all()
    assert engine.name == "cuda"


@pytest.mark.skipif(available(), reason="there is a card")
def test_what_is_missing_is_named() -> None:
    words = CudaEngine().fallback
    assert "pip install 'pacbandits[gpu]'" in words or "no CUDA GPU was found" in words


# What needs one.


@needs_card
@pytest.mark.parametrize(("n", "bins", "width"), SHAPES)
@pytest.mark.parametrize("chunk_rows", [1 << 30, 4096])
def test_pair_sums_are_exact(n: int, bins: tuple[int, ...], width: int, chunk_rows: int) -> None:
    import cupy as cp

    from pacbandits.engines.cuda.pair_sums import add_pair_sums, arrange, mirror

    codes, scores, starts = draw(n, bins, width)
    out = cp.zeros((starts[-1], starts[-1], width + 3), dtype=cp.int64)
    arranged = arrange(cp.asarray(codes), starts, chunk_rows=chunk_rows)
    add_pair_sums(arranged, cp.asarray(scores), out, at=2)
    add_pair_sums(arranged, cp.asarray(-3 * scores), out, at=2)
    mirror(out, starts)
    found = out.get()
    assert (found[:, :, 2:-1] == -2 * pair_sums(codes, scores, starts)).all()
    assert (found[:, :, :2] == 0).all()
    assert (found[:, :, -1] == 0).all()


@needs_card
@pytest.mark.parametrize("n", [40, 5000])
def test_the_best_tree_is_that_of_the_processor(n: int) -> None:
    import cupy as cp

    from pacbandits.engines.cuda.pair_sums import arrange

    contexts = contexts_of(n)
    bins, rng = Bins.learn(contexts, bins=9), np.random.default_rng(1)
    codes = bins.encode(contexts)
    arranged = arrange(cp.asarray(codes), bins.layout.starts)
    for width in (2, 3, 40):
        for scale in (3, 1000):  # many ties, and few
            scores = rng.integers(-scale, scale, size=(n, width))
            want = best_tree(bins, codes, scores.astype(np.float64), depth=2)
            assert best_tree_on_card(bins, arranged, cp.asarray(scores)) == want


@needs_card
def test_root_values_are_those_of_the_processor() -> None:
    import cupy as cp

    from pacbandits.engines.cuda.aggregations import root_values
    from pacbandits.engines.cuda.pair_sums import add_pair_sums, arrange, mirror
    from pacbandits.policies.trees.histograms import ALL_BELOW
    from pacbandits.policies.trees.search import root_values as of_processor

    contexts = contexts_of(3000)
    bins, rng = Bins.learn(contexts, bins=12), np.random.default_rng(2)
    codes, layout = bins.encode(contexts), bins.layout
    scores = rng.integers(-1000, 1000, size=(3000, 5))
    sums = cp.zeros((layout.starts[-1], layout.starts[-1], 5), dtype=cp.int64)
    add_pair_sums(arrange(cp.asarray(codes), layout.starts), cp.asarray(scores), sums)
    mirror(sums, layout.starts)
    given = {name: getattr(layout, name) for name in ("starts", "split_starts", "run_bins", "run_splits", "adding")}
    want, histograms = np.empty(bins.n_splits), Histograms(codes, scores.astype(np.float64), layout)
    for j in range(len(bins.features)):
        of_processor(histograms.of(j), j, layout, 0.0, ALL_BELOW, want)
    assert (root_values(sums, **given).get() == want).all()


def drawn_rows(n: int, actions: int, leaders: int) -> tuple[LedgerRows, Against, Any]:
    """Rows with rewards that are not in, of several rounds, some of which nobody leads."""
    rng = np.random.default_rng(n + actions)
    propensities = 0.9 * rng.dirichlet(np.full(actions, 0.3), size=n) + 0.1 / actions
    played = rng.integers(0, actions, n)
    rewards = np.where(rng.random(n) < 0.1, np.nan, rng.random(n).round(1))
    rows = LedgerRows(
        starts=np.arange(n + 1),
        actions=played,
        rewards=rewards,
        repeats=rng.integers(1, 4, n).astype(np.float64),
        rounds=rng.integers(0, 9, n),
        played=propensities[np.arange(n), played],
        propensities=propensities,
        predictions=rng.random((n, actions)).round(2),
    )
    moves = np.where(rng.random((9, leaders)) < 0.5, rng.random((9, leaders)) / leaders, 0.0)
    turns = rng.integers(-1, leaders, 9)
    stakes = rng.choice([0.0, 1e-9, 1e-3, 0.1, 0.4], size=9)
    stakes[:2] = 0.3, 0.01
    return rows, Against(rng.integers(0, actions, (leaders, n)), turns, moves), stakes


def on_card(rows: LedgerRows, *, single: int = 0) -> CardRows:
    import cupy as cp

    return CardRows(
        actions=cp.asarray(rows.actions.astype(np.uint8)),
        rewards=cp.asarray(rows.rewards),
        repeats=cp.asarray(rows.repeats),
        rounds=cp.asarray(rows.rounds.astype(np.int32)),
        played=cp.asarray(rows.played),
        propensities=cp.asarray(rows.propensities),
        predictions=cp.asarray(rows.predictions.astype(np.float32 if single else np.float64)),
    )


@needs_card
@pytest.mark.parametrize(("n", "actions", "leaders"), [(1, 2, 1), (5000, 10, 3), (777, 64, 5), (50, 190, 2), (0, 3, 1)])
@pytest.mark.parametrize("single", [0, 1])
def test_log_wealth_is_that_of_the_processor(n: int, actions: int, leaders: int, single: int) -> None:
    import cupy as cp

    rows, against, stakes = drawn_rows(n, actions, leaders)
    if single:
        rows = rows._replace(predictions=rows.predictions.astype(np.float32).astype(np.float64))
    wealth = np.zeros((n, actions))
    add_log_wealth(rows, against, stakes, 0.9, 0.05, wealth, 0, n)
    assert np.isfinite(wealth).all()
    want = np.floor(np.ldexp(wealth, 36)).astype(np.int64)
    sizes = cp.zeros(n, dtype=cp.int64)
    found = log_wealth(
        on_card(rows, single=single),
        cp.asarray(against.actions.astype(np.uint8)),
        turns=against.turns,
        moves=against.moves,
        stakes=stakes,
        share=0.9,
        epsilon=0.05,
        bits=36,
        sizes=sizes,
        size_shift=20,
    ).get()
    idle = (stakes[rows.rounds] == 0) | (against.turns[rows.rounds] < 0)
    assert (found[idle] == 0).all()
    assert (found == want).all()
    assert (sizes.get() == (np.abs(found) >> 20).max(axis=1, initial=0)).all()


@needs_card
@pytest.mark.parametrize(("n", "actions"), [(1, 2), (5000, 10), (333, 65)])
def test_gaps_and_values_are_those_of_the_processor(n: int, actions: int) -> None:
    import cupy as cp

    rows, against, _ = drawn_rows(n, actions, 1)
    rows = rows._replace(rewards=np.nan_to_num(rows.rewards))
    reference = against.actions[0]
    out, squares, plain = (np.zeros((n, actions)) for _ in range(3))
    add_gaps(rows, rows.propensities, reference, out, squares, 0, n)
    want = [np.rint(np.ldexp(np.clip(x, -50, 50), bits)) for x, bits in ((out, 24), (squares, 16))]
    counted = rows.rounds < 5
    given, column = on_card(rows), cp.asarray(reference.astype(np.uint8))
    found = gaps(given, column, before=5, bits=(24, 16), most=(50.0, 50.0)).get()
    assert (found == np.concatenate(want, axis=1) * counted[:, None]).all()
    weights = np.random.default_rng(0).random(n)
    add_values(rows, weights, plain, 0, n)
    assert (values(given, cp.asarray(weights), bits=30, most=2.0**20).get() == np.rint(np.ldexp(plain, 30))).all()


@needs_card
def test_trees_act_on_the_card_as_elsewhere() -> None:
    import cupy as cp

    contexts = contexts_of(1000)
    bins = Bins.learn(contexts, bins=6)
    roots = drawn_trees(bins, contexts, 9)
    found = actions_on_card(cp.asarray(bins.encode(contexts)), bins, roots)
    assert found is not None
    for mine, root in zip(found.get(), roots, strict=True):
        assert (mine == TreePolicy(root=root, n_actions=3)(contexts)).all()
    assert actions_on_card(cp.asarray(bins.encode(contexts)), bins, [TreeSplit(AtMost("a", 0.123), 0, 1)]) is None


@needs_card
@pytest.mark.parametrize(("n", "parts", "width"), [(1, 1, 1), (10_001, 4, 20), (5000, 256, 7), (3000, 64, 300)])
def test_sums_by_part_and_by_id_are_exact(n: int, parts: int, width: int) -> None:
    import cupy as cp

    from pacbandits.engines.cuda.aggregations import add_by_id, add_by_part

    rng = np.random.default_rng(n)
    scores, where = rng.integers(-(2**40), 2**40, size=(n, width)), rng.integers(0, parts, (n, 3))
    want = np.zeros((parts, width), dtype=np.int64)
    np.add.at(want, where[:, 1], scores)
    for add, given in (
        (add_by_part, cp.asarray(where.astype(np.uint8))[:, 1]),
        (add_by_id, cp.asarray(np.ascontiguousarray(where[:, 1]))),
    ):
        out = cp.zeros((parts, width + 2), dtype=cp.int64)
        add(given, cp.asarray(scores), out, at=1)
        assert (out.get()[:, 1:-1] == want).all()
        assert (out.get()[:, [0, -1]] == 0).all()


@needs_card
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_engine_gives_the_bits_of_others_and_reads_rows_once(depth: int) -> None:
    log = small_log(2**16 * 2 + 77)
    source, engine = CountedSource(LogSource(log)), CudaEngine()
    assert engine.fallback == ""
    question = TreeSums(Bins.learn(log.contexts.take(np.arange(500)), bins=5), 3, depth=depth)
    want = Local("threads").ask(LogSource(log), question, what="adding")
    for _ in range(2):
        assert (engine.ask(source, question, what="adding")[0] == want[0]).all()
    assert source.read == [(0, 1), (0, 3)]  # the first to see how many actions there are
    engine.close()


class CountedSource:
    """A source that notes what was read of it."""

    def __init__(self, source: LogSource) -> None:
        self.source, self.n_rows, self.read = source, source.n_rows, list[tuple[int, int]]()

    def blocks(self, first: int, last: int) -> Any:
        self.read.append((first, last))
        return self.source.blocks(first, last)

    def stripes(self, *, most_blocks: int) -> Any:
        return self.source.stripes(most_blocks=most_blocks)

"""What a CUDA card takes for the parts of a certificate; it prints Markdown.

python -m benchmarks.gpu                          10⁸ rows × 10 features × 32 bins × 10 actions, then 10⁷ × 30 × 30 × 20
python -m benchmarks.gpu 1e8,10,32,10             rows, features, bins and actions of your choice; any number of them
python -m benchmarks.gpu --check 1e6,10,32,10     compares with the processor as well: have memory, and time

Codes, scores and rows lie on the card. Each time is the median of seven, by the card's own clock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measuring import print_table
from pacbandits.engines.cuda import available
from pacbandits.engines.cuda.aggregations import CardRows, gaps, log_wealth, root_values
from pacbandits.engines.cuda.card import cupy, why_not
from pacbandits.engines.cuda.pair_sums import Arranged, add_pair_sums, arrange, mirror
from pacbandits.policies.trees.bins import Bins, NumberBins
from pacbandits.policies.trees.on_card import actions_on_card, best_tree_on_card
from pacbandits.policies.trees.search import best_tree
from pacbandits.policies.trees.tree_policy import TreeSplit

Size = tuple[int, int, int, int]

SIZES: tuple[Size, ...] = ((10**8, 10, 32, 10), (10**7, 30, 30, 20))
TIMES, ROUNDS, BITS = 7, 24, 34
DRAWN_AT_ONCE = 1 << 22


def milliseconds(call: Callable[[], object]) -> float:
    """The median time of a call on the card, after one that does not count."""
    cp, times = cupy(), list[float]()
    call()
    for _ in range(TIMES):
        start, stop = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, stop))
    return float(np.median(times))


def drawn(shape: tuple[int, ...], make: Callable[[Any], Any], dtype: str) -> Any:
    """An array on the card, made from uniform numbers, some rows at a time."""
    cp, out = cupy(), cupy().empty(shape, dtype=dtype)
    for start in range(0, shape[0], DRAWN_AT_ONCE):
        stop = min(start + DRAWN_AT_ONCE, shape[0])
        out[start:stop] = make(cp.random.random((stop - start, *shape[1:]), dtype=cp.float64))
    return out


def number_bins(features: int, bins: int) -> Bins:
    thresholds = tuple(float(t) for t in range(1, bins))
    return Bins(tuple(NumberBins(f"x{j}", thresholds) for j in range(features)))


def draw_rows(n: int, actions: int) -> CardRows:
    """Rows of a log in which all actions are played alike, of several rounds."""
    cp = cupy()
    return CardRows(
        actions=drawn((n,), lambda u: (u * actions).astype(cp.uint8), "uint8"),
        rewards=drawn((n,), lambda u: u, "float64"),
        repeats=cp.ones(n),
        rounds=drawn((n,), lambda u: (u * ROUNDS).astype(cp.int32), "int32"),
        played=cp.full(n, 1 / actions),
        propensities=cp.full((n, actions), 1 / actions),
        predictions=drawn((n, actions), lambda u: 0.2 + 0.6 * u, "float64"),
    )


def measure_search(size: Size, *, check: str) -> None:
    """Print the times of an exact search over trees of depth 2."""
    cp, (n, d, b, actions) = cupy(), size
    bins, rng = number_bins(d, b), np.random.default_rng(0)
    weights = cp.asarray(rng.normal(size=(d, actions)))
    codes = drawn((n, d), lambda u: (u * b).astype(cp.uint8), "uint8")
    scores = cp.empty((n, actions), dtype=cp.int64)
    for start in range(0, n, DRAWN_AT_ONCE):  # a few actions are good where a few features are large
        part = codes[start : start + DRAWN_AT_ONCE].astype(cp.float64) / b - 0.5
        noise = cp.random.standard_normal((len(part), actions))
        scores[start : start + len(part)] = cp.rint((part**3 @ weights + noise) * 2.0**30).astype(cp.int64)
    layout = bins.layout
    count = int(layout.starts[-1])
    sums = cp.zeros((count, count, actions), dtype=cp.int64)
    given = {name: getattr(layout, name) for name in ("starts", "split_starts", "run_bins", "run_splits", "adding")}
    arranged = arrange(codes, layout.starts)
    ordering = milliseconds(lambda: arrange(codes, layout.starts))
    adding = milliseconds(lambda: add_pair_sums(arranged, scores, sums))
    rest = milliseconds(lambda: (mirror(sums, layout.starts), root_values(sums, **given)))
    whole = milliseconds(lambda: best_tree_on_card(bins, arranged, scores))
    both = milliseconds(lambda: best_tree_on_card(bins, arrange(codes, layout.starts), scores))
    added = sum(2 * one.pairs for one in arranged.passes) * n * actions
    moved = sum(n * (8 * actions + 4 + 2 * one.pairs) for one in arranged.passes)
    print_table(
        f"{n:,} rows × {d} features × {b} bins × {actions} actions: the best tree of depth 2",
        ("part", "ms", "what it does"),
        [
            ("rows in order, once for all scores", f"{ordering:.1f}", f"{len(arranged.passes)} orders"),
            ("sums by the bins of two features", f"{adding:.1f}", f"{added:.2g} sums, {moved / 1e9:.0f} GB"),
            ("best tree below every root", f"{rest:.2f}", f"{bins.n_splits} roots"),
            ("the best tree, rows in order", f"{whole:.1f}", "sums, roots, and two stumps on the processor"),
            ("the best tree from codes and scores", f"{both:.1f}", "all of these"),
        ],
    )
    if check:
        _check(bins, codes, scores, arranged)
    measure_scores(size, codes, bins)


def _check(bins: Bins, codes: Any, scores: Any, arranged: Arranged) -> None:
    want = best_tree(bins, codes.get(), scores.get().astype(np.float64), depth=2)
    found = best_tree_on_card(bins, arranged, scores)
    print(f"\nthe processor finds {'the same tree' if want == found else f'another tree: {want}, not {found}'}")


def measure_scores(size: Size, codes: Any, bins: Bins) -> None:
    """Print the times of what is summed."""
    cp, (n, _, _, actions) = cupy(), size
    n = min(n, 1 << 24)  # of a stretch
    rows, codes = draw_rows(n, actions), codes[:n]
    split, other = bins.test(0), bins.test(bins.n_splits // 2)
    roots = [TreeSplit(split, TreeSplit(other, 0, 1), 1), TreeSplit(other, 1, TreeSplit(split, 0, 1)), 1]
    leaders = actions_on_card(codes, bins, roots)
    assert leaders is not None
    sizes, moves = cp.zeros(n, dtype=cp.int64), np.zeros((ROUNDS, len(roots)))
    moves[:, 0] = 0.01
    turns, stakes = np.arange(ROUNDS) % len(roots), np.full(ROUNDS, 0.02)
    fixed = {"turns": turns, "moves": moves, "stakes": stakes, "share": 0.9, "epsilon": 0.01}

    def wealth() -> Any:
        return log_wealth(rows, leaders, **fixed, bits=BITS, sizes=sizes, size_shift=20)

    acting = milliseconds(lambda: actions_on_card(codes, bins, roots))
    betting = milliseconds(wealth)
    comparing = milliseconds(lambda: gaps(rows, leaders[0], before=ROUNDS, bits=(24, 16), most=(2.0**20, 2.0**40)))
    print_table(
        f"scores of {n:,} rows × {actions} actions",
        ("part", "ms", "GB read and written"),
        [
            (f"what {len(roots)} trees do", f"{acting:.2f}", f"{n * (codes.shape[1] + len(roots)) / 1e9:.1f}"),
            ("log-wealth of one expert", f"{betting:.1f}", f"{n * (24 * actions + 48) / 1e9:.1f}"),
            ("gaps and their squares", f"{comparing:.1f}", f"{n * (24 * actions + 30) / 1e9:.1f}"),
        ],
    )


def main(given: list[str]) -> None:
    if not available():
        print(f"nothing is measured: {why_not()}")
        return
    check = "check" if "--check" in given else ""
    asked = [one.split(",") for one in given if not one.startswith("--")]
    sizes = [(int(float(n)), int(d), int(b), int(a)) for n, d, b, a in asked] or SIZES
    card = cupy().cuda.runtime.getDeviceProperties(0)
    print(f"{card['name'].decode()}, {card['totalGlobalMem'] / 2**30:.0f} GiB, CuPy {cupy().__version__}")
    for size in sizes:
        measure_search(size, check=check)
        cupy().get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    main(sys.argv[1:])

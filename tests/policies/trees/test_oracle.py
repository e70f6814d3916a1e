"""Trees against every tree of small classes, listed one by one."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.compiled import using_cores
from pacbandits.errors import InputError
from pacbandits.policies import Bins, Trees
from pacbandits.policies.trees.bins import LabelBins, NumberBins
from pacbandits.policies.trees.histograms import TreeLimits
from pacbandits.policies.trees.tree_policy import AtMost, Is, TreeSplit
from pacbandits.records import Contexts
from tests.examples import examples
from tests.policies.brute import all_actions, maximal, values
from tests.policies.trees.cases import larger, same_front


@st.composite
def small_problems(draw: st.DrawFn) -> tuple[Contexts, np.ndarray, np.ndarray, int]:
    """Contexts of a few mixed features, two signed scores with ties, and a depth."""
    n, d, n_actions = draw(st.integers(1, 9)), draw(st.integers(0, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns, categories = [], []
    for _ in range(d):
        kind = draw(st.sampled_from(["number", "ties", "skewed", "constant", "category"]))
        categories.append(("n", "e", "s", "w")[: draw(st.integers(1, 4))] if kind == "category" else None)
        columns.append(
            {
                "number": lambda: rng.normal(size=n),
                "ties": lambda: rng.integers(0, 3, n).astype(float),
                "skewed": lambda: np.exp(8 * rng.normal(size=n)) * (rng.random(n) < 0.4),
                "constant": lambda: np.full(n, 2.5),
                "category": lambda: rng.integers(0, len(categories[-1]), n).astype(float),
            }[kind]()
        )
    features = np.column_stack(columns) if columns else np.empty((n, 0))
    contexts = Contexts.of(features, categories=categories)
    whole = draw(st.booleans())
    scores = rng.integers(-2, 3, (2, n, n_actions)).astype(float) if whole else rng.normal(size=(2, n, n_actions))
    return contexts, scores[0], scores[1], draw(st.integers(0, 2))


@examples(150)
@given(small_problems())
def test_argmax_is_the_best_of_all_trees(problem: tuple[Contexts, np.ndarray, np.ndarray, int]) -> None:
    contexts, scores, _, depth = problem
    trees = Trees.learn(contexts, n_actions=scores.shape[1], depth=depth, bins=5)
    everything = all_actions(trees.bins, contexts, n_actions=scores.shape[1], depth=depth)
    policy = trees.argmax(contexts, scores)
    actions = policy(contexts)
    assert values(actions[None], scores)[0] == pytest.approx(values(everything, scores).max(), abs=1e-9)
    assert tuple(actions) in {tuple(row) for row in everything}
    assert trees.log_size >= np.log(len(everything)) - 1e-12


@examples(150)
@given(small_problems())
def test_frontier_is_that_of_all_trees(problem: tuple[Contexts, np.ndarray, np.ndarray, int]) -> None:
    contexts, first, second, depth = problem
    trees = Trees.learn(contexts, n_actions=first.shape[1], depth=depth, bins=5)
    everything = all_actions(trees.bins, contexts, n_actions=first.shape[1], depth=depth)
    # Rounded, so that trees of one behaviour are one point.
    wanted = maximal(values(everything, first).round(9), values(everything, second).round(9))
    front = trees.frontier(contexts, first, second)
    assert front.exact
    np.testing.assert_allclose(np.column_stack([front.first, front.second]), wanted, atol=1e-8)
    for i in range(len(front)):
        actions = front.policy(i)(contexts)[None]
        assert values(actions, first)[0] == pytest.approx(front.first[i], abs=1e-9)
        assert values(actions, second)[0] == pytest.approx(front.second[i], abs=1e-9)


@pytest.mark.first(1)
@pytest.mark.parametrize("survivors", [TreeLimits.survivors, 50])
@pytest.mark.parametrize("pairs", [10**9, 300])
def test_results_do_not_depend_on_cores(pairs: int, survivors: int) -> None:
    contexts, first, second = larger()
    trees = Trees(Bins.learn(contexts, bins=9), n_actions=4, limits=TreeLimits(pairs=pairs, survivors=survivors))
    with using_cores(1):
        alone = trees.argmax(contexts, first), trees.frontier(contexts, first, second)
    with using_cores(3):
        together = trees.argmax(contexts, first), trees.frontier(contexts, first, second)
    assert alone[0] == together[0]
    same_front(alone[1], together[1])


def test_kept_and_streamed_sums_agree_exactly() -> None:
    contexts, first, second = larger()
    trees = Trees.learn(contexts, n_actions=4, bins=9)
    kept = trees.argmax(contexts, first), trees.frontier(contexts, first, second)
    trees = Trees(trees.bins, n_actions=4, limits=TreeLimits(kept_bytes=0))
    streamed = trees.argmax(contexts, first), trees.frontier(contexts, first, second)
    assert kept[0] == streamed[0]
    same_front(kept[1], streamed[1])


def test_simpler_trees_win_ties() -> None:
    contexts = Contexts.of([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    trees = Trees.learn(contexts, n_actions=3)
    assert trees.argmax(contexts, np.zeros((4, 3))).root == 0
    # Action 1 everywhere, up to rounding that a deeper tree could gather.
    scores = np.tile([0.1, 0.3, 0.3 - 1e-17], (4, 1))
    assert trees.argmax(contexts, scores).root == 1
    # One test on either feature is enough; the first feature wins.
    scores = np.zeros((4, 3))
    scores[[0, 3], [0, 2]] = 1.0
    assert trees.argmax(contexts, scores).root == TreeSplit(AtMost("x0", 0.5), 0, 2)
    # A first test on x0 could do no harm here, but one on x1 is all it takes.
    three = Contexts.of([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    policy = Trees.learn(three, n_actions=2).argmax(three, np.eye(2)[[0, 0, 1]])
    assert policy.root == TreeSplit(AtMost("x1", 0.5), 0, 1)
    # An exclusive or needs both levels.
    scores = np.eye(3)[[0, 1, 1, 0]]
    inner = TreeSplit(AtMost("x1", 0.5), 0, 1), TreeSplit(AtMost("x1", 0.5), 1, 0)
    assert trees.argmax(contexts, scores).root == TreeSplit(AtMost("x0", 0.5), *inner)


def test_bad_classes_are_refused() -> None:
    contexts = Contexts.of([[0.0], [1.0]])
    for bins in (1, 257):
        with pytest.raises(InputError, match=f"got {bins}"):
            Trees.learn(contexts, n_actions=2, bins=bins)
    for depth in (-1, 3):
        with pytest.raises(InputError, match=r"depth must be from 0 to 2, got .*; DeepTrees go deeper"):
            Trees.learn(contexts, n_actions=2, depth=depth)
    with pytest.raises(InputError, match="n_actions"):
        Trees.learn(contexts, n_actions=0)
    with pytest.raises(InputError, match="at most 256"):
        NumberBins("x", tuple(range(256)))
    with pytest.raises(InputError, match="merge rare ones"):
        LabelBins("x", tuple(map(str, range(256))))
    with pytest.raises(InputError, match="rise"):
        NumberBins("x", (1.0, 1.0))
    with pytest.raises(InputError, match="one entry a feature"):
        Bins((NumberBins("x", (1.0,)), NumberBins("x", (2.0,))))


def test_the_largest_features_work() -> None:
    n = 512
    contexts = Contexts.of(
        np.column_stack([np.arange(n), np.arange(n) % 255]), categories=[None, [str(i) for i in range(255)]]
    )
    trees = Trees.learn(contexts, n_actions=2, depth=1, bins=256)
    assert trees.bins.n_splits == 255 + 255
    scores = np.zeros((n, 2))
    scores[contexts.features[:, 1] == 254, 1] = 1.0
    scores[:, 0] = 0.1
    assert trees.argmax(contexts, scores).root == TreeSplit(Is("x1", "254"), 1, 0)


def test_log_size_counts_splits() -> None:
    contexts = Contexts.of([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    sizes = [Trees.learn(contexts, n_actions=5, depth=depth).log_size for depth in range(3)]
    np.testing.assert_allclose(sizes, [np.log(5), np.log(2) + 2 * np.log(5), 3 * np.log(2) + 4 * np.log(5)])
    flat = Contexts.of([[1.0], [1.0]])
    assert Trees.learn(flat, n_actions=5).log_size == pytest.approx(np.log(5))
    assert Trees.learn(flat, n_actions=5).argmax(flat, np.eye(5)[[3, 3]]).root == 3


@pytest.mark.thorough
def test_argmax_matches_features_by_name_and_labels_by_text() -> None:
    contexts, scores, _ = larger()
    trees = Trees.learn(contexts, n_actions=4, bins=9)
    labels = ("w", "s", "unheard", "e", "n")
    recode = np.array([labels.index(x) for x in ("n", "e", "s", "w")])
    shuffled = np.column_stack([recode[contexts.features[:, 3].astype(int)], contexts.features[:, [2, 0, 1]]])
    other = Contexts.of(shuffled, names=["region", "load", "age", "dose"], categories=[labels, None, None, None])
    assert trees.argmax(other, scores) == trees.argmax(contexts, scores)
    same_front(trees.frontier(other, scores, -scores), trees.frontier(contexts, scores, -scores))
    unheard = Contexts.of(
        np.column_stack([np.full(400, 2.0), shuffled[:, 1:]]), names=other.names, categories=other.categories
    )
    best = trees.argmax(unheard, scores)
    everything_right = [Is("region", x)(unheard).any() for x in "nesw"]
    assert not any(everything_right)
    assert values(best(unheard)[None], scores)[0] >= scores.sum(axis=0).max() - 1e-9


def test_codes_are_kept_as_long_as_their_contexts() -> None:
    contexts, scores, _ = larger()
    encoded: list[int] = []

    class CountedBins(Bins):
        def encode(self, contexts: Contexts) -> np.ndarray:
            encoded.append(len(contexts))
            return super().encode(contexts)

    trees = Trees(CountedBins(Bins.learn(contexts).features), n_actions=4)
    fresh = contexts.take(np.arange(400))
    assert trees.argmax(fresh, scores) == trees.argmax(fresh, scores)
    assert encoded == [400]
    alive = weakref.ref(fresh)
    del fresh
    gc.collect()
    assert alive() is None


def test_scores_of_any_layout_are_welcome() -> None:
    contexts, scores, _ = larger()
    trees = Trees.learn(contexts, n_actions=4, bins=9)
    wanted = trees.argmax(contexts, scores)
    frozen = scores.copy()
    frozen.setflags(write=False)
    for same in (np.asfortranarray(scores), frozen, scores.tolist(), np.repeat(scores, 2, axis=1)[:, ::2]):
        assert trees.argmax(contexts, same) == wanted

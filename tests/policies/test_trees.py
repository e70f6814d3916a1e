"""Trees against every tree of small classes, listed one by one."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacbandits import compiled
from pacbandits.errors import InputError
from pacbandits.policies import Bins, TreePolicy, Trees, policy_from_json
from pacbandits.policies.trees.bins import LabelBins, NumberBins, cut
from pacbandits.policies.trees.fronts import thin
from pacbandits.policies.trees.limits import TreeLimits
from pacbandits.policies.trees.pairs import front_beyond_ties
from pacbandits.policies.trees.tree import AtMost, Branch, Is
from pacbandits.records import Contexts
from tests.policies.brute import all_actions, maximal, values


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


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=150, deadline=None)
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


def larger(seed: int = 0, *, n: int = 400, n_actions: int = 4) -> tuple[Contexts, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 4, n)])
    contexts = Contexts.of(
        features, names=["age", "dose", "load", "region"], categories=[None, None, None, ("n", "e", "s", "w")]
    )
    first = np.tanh(features[:, :3] @ rng.normal(size=(3, n_actions))) + (features[:, 3:] == np.arange(n_actions))
    return contexts, first, -first + 0.2 * rng.normal(size=(n, n_actions))


def same_front(one: object, other: object) -> None:
    np.testing.assert_array_equal(one.first, other.first)
    np.testing.assert_array_equal(one.second, other.second)
    assert one.exact == other.exact
    assert [one.policy(i) for i in range(len(one))] == [other.policy(i) for i in range(len(other))]


@pytest.mark.parametrize("survivors", [TreeLimits.survivors, 50])
@pytest.mark.parametrize("pairs", [10**9, 300])
def test_results_do_not_depend_on_cores(monkeypatch: pytest.MonkeyPatch, pairs: int, survivors: int) -> None:
    contexts, first, second = larger()
    trees = Trees(Bins.learn(contexts, bins=9), n_actions=4, limits=TreeLimits(pairs=pairs, survivors=survivors))
    monkeypatch.setattr(compiled, "cores", lambda: 1)
    alone = trees.argmax(contexts, first), trees.frontier(contexts, first, second)
    monkeypatch.setattr(compiled, "cores", lambda: 3)
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


def test_thinned_frontier_dominates_and_stays_close() -> None:
    contexts, first, _ = larger()
    second = -(first**3)
    trees = Trees.learn(contexts, n_actions=4, bins=9)
    exact = trees.frontier(contexts, first, second)
    assert exact.exact
    limits = TreeLimits(pairs=0, side_points=24)
    thinned = Trees(trees.bins, n_actions=4, limits=limits).frontier(contexts, first, second)
    assert not thinned.exact
    assert_outward(thinned, exact)
    # A side is overstated by at most 2/(cap − 1) of its range, which is at most the sum of its rows' ranges.
    for reported, scores in ((thinned.first, first), (thinned.second, second)):
        error = 2 / 23 * (scores.max(axis=1) - scores.min(axis=1)).sum()
        for i in range(len(thinned)):
            attained = values(thinned.policy(i)(contexts)[None], scores)[0]
            assert reported[i] - error - 1e-9 <= attained <= reported[i] + 1e-9


def test_too_many_survivors_are_rounded_to_intervals() -> None:
    contexts, first, _ = larger()
    second = -(first**3)
    trees = Trees.learn(contexts, n_actions=4, bins=9)
    exact = trees.frontier(contexts, first, second)
    limits = TreeLimits(survivors=50, intervals=64)
    rounded = Trees(trees.bins, n_actions=4, limits=limits).frontier(contexts, first, second)
    assert not rounded.exact
    assert len(rounded) <= 64
    assert_outward(rounded, exact)
    width = (exact.first[0] - exact.first[-1]) / 63
    for i in range(len(rounded)):
        actions = rounded.policy(i)(contexts)[None]
        assert values(actions, second)[0] == pytest.approx(rounded.second[i])
        assert -1e-9 <= rounded.first[i] - values(actions, first)[0] <= width * (1 + 1e-9)


@pytest.mark.parametrize("intervals", [2, 7, 100])
def test_the_number_of_intervals_changes_nothing(intervals: int) -> None:
    contexts, first, second = larger()
    trees = Trees.learn(contexts, n_actions=4, bins=9)
    wanted = trees.frontier(contexts, first, second)
    assert len(wanted) > 2 * intervals or intervals == 100
    got = Trees(trees.bins, n_actions=4, limits=TreeLimits(intervals=intervals)).frontier(contexts, first, second)
    # Of trees that differ by rounding alone another may stand for a point.
    np.testing.assert_allclose(got.first, wanted.first, rtol=0, atol=1e-10)
    np.testing.assert_allclose(got.second, wanted.second, rtol=0, atol=1e-10)


def test_points_apart_by_rounding_are_one() -> None:
    noise = 1e-15
    first, second = np.array([1 + noise, 1.0, 0.5, 0.5 - noise]), np.array([0.0, 2.0, 3.0, 3.0 + noise])
    np.testing.assert_array_equal(front_beyond_ties(first, second, 1e-13, 1e-13), [1, 2])
    np.testing.assert_array_equal(front_beyond_ties(first, second, 0.0, 0.0), [0, 1, 2, 3])


def assert_outward(rounded: object, exact: object) -> None:
    """Every exact point lies below some rounded one, which form a frontier themselves."""
    assert (np.diff(rounded.first) < 0).all()
    assert (np.diff(rounded.second) > 0).all()
    for f, s in zip(exact.first, exact.second, strict=True):
        assert ((rounded.first >= f - 1e-9) & (rounded.second >= s - 1e-9)).any()


@given(st.integers(3, 60), st.integers(3, 20), st.integers(0, 2**32))
def test_thin_keeps_its_promise(n: int, cap: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = np.sort(np.exp(4 * rng.normal(size=n)))[::-1].copy()
    second = np.cumsum(np.exp(4 * rng.normal(size=n)))
    ends = thin(first, second, cap)
    assert len(ends) <= cap
    assert ends[-1] == n
    begin = 0
    for end in ends:
        assert first[begin] - first[end - 1] <= 2 / (cap - 1) * (first[0] - first[-1]) * (1 + 1e-12)
        assert second[end - 1] - second[begin] <= 2 / (cap - 1) * (second[-1] - second[0]) * (1 + 1e-12)
        begin = end


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
    assert trees.argmax(contexts, scores).root == Branch(AtMost("x0", 0.5), 0, 2)
    # A first test on x0 could do no harm here, but one on x1 is all it takes.
    three = Contexts.of([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    policy = Trees.learn(three, n_actions=2).argmax(three, np.eye(2)[[0, 0, 1]])
    assert policy.root == Branch(AtMost("x1", 0.5), 0, 1)
    # An exclusive or needs both levels.
    scores = np.eye(3)[[0, 1, 1, 0]]
    inner = Branch(AtMost("x1", 0.5), 0, 1), Branch(AtMost("x1", 0.5), 1, 0)
    assert trees.argmax(contexts, scores).root == Branch(AtMost("x0", 0.5), *inner)


def test_cuts_fall_between_values_and_respect_weights() -> None:
    equal = np.full(4, 0.25)
    assert cut(np.array([3.0, 1.0, 1.0, 2.0]), equal, bins=3) == (1.5, 2.5)
    assert cut(np.array([7.0] * 4), equal, bins=3) == ()
    assert cut(np.arange(8.0), np.full(8, 1 / 8), bins=4) == (1.5, 3.5, 5.5)
    # The weight sits on the first four values, and so do the cuts.
    weights = np.array([0.24] * 4 + [0.01] * 4)
    assert cut(np.arange(8.0), weights, bins=4) == (0.5, 1.5, 2.5)
    # A value most rows share gets a bin of its own.
    values_ = np.concatenate([np.linspace(-1, -0.5, 20), np.zeros(900), np.linspace(1, 2, 80)])
    thresholds = cut(values_, np.full(1000, 1e-3), bins=8)
    assert thresholds == (-0.25, 0.5)
    # Between neighbouring floats the lower one is the threshold.
    low, high = 1.0, np.nextafter(1.0, 2.0)
    assert cut(np.array([low, high]), np.full(2, 0.5), bins=2) == (low,)
    huge = np.finfo(float).max
    assert cut(np.array([-huge, huge]), np.full(2, 0.5), bins=2) == (0.0,)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.integers(2, 9))
def test_codes_are_what_the_tests_say(column: list[float], bins: int) -> None:
    contexts = Contexts.of(np.array(column)[:, None])
    learned = Bins.learn(contexts, bins=bins)
    assert learned.n_splits <= bins - 1
    assert (learned.n_splits == 0) == (len(set(column)) == 1)
    if len(set(column)) <= bins:
        assert learned.n_splits == len(set(column)) - 1
    # The thresholds themselves go left.
    thresholds = [t for feature in learned.features for t in feature.thresholds]
    for asked in (contexts, Contexts.of(np.array([*thresholds, 0.0])[:, None])):
        codes = learned.encode(asked)
        for split in range(learned.n_splits):
            np.testing.assert_array_equal(codes[:, 0] <= split, learned.test(split)(asked))


def test_splits_of_categories() -> None:
    features = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 2.0]])
    contexts = Contexts.of(features, names=["one", "two", "three"], categories=[["a"], ["a", "b"], ["a", "b", "c"]])
    bins = Bins.learn(contexts)
    assert [f.n_splits for f in bins.features] == [1, 3]
    assert [bins.test(i) for i in range(4)] == [Is("two", "a"), *(Is("three", x) for x in "abc")]


def test_bad_classes_are_refused() -> None:
    contexts = Contexts.of([[0.0], [1.0]])
    for bins in (1, 257):
        with pytest.raises(InputError, match=f"got {bins}"):
            Trees.learn(contexts, n_actions=2, bins=bins)
    for depth in (-1, 3):
        with pytest.raises(InputError, match="depth must be 0, 1 or 2"):
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
    assert trees.argmax(contexts, scores).root == Branch(Is("x1", "254"), 1, 0)


def test_log_size_counts_splits() -> None:
    contexts = Contexts.of([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    sizes = [Trees.learn(contexts, n_actions=5, depth=depth).log_size for depth in range(3)]
    np.testing.assert_allclose(sizes, [np.log(5), np.log(2) + 2 * np.log(5), 3 * np.log(2) + 4 * np.log(5)])
    flat = Contexts.of([[1.0], [1.0]])
    assert Trees.learn(flat, n_actions=5).log_size == pytest.approx(np.log(5))
    assert Trees.learn(flat, n_actions=5).argmax(flat, np.eye(5)[[3, 3]]).root == 3


TREE = TreePolicy(
    root=Branch(AtMost("age", 34.5), Branch(Is("region", "north"), 2, 0), 1),
    n_actions=3,
)


def test_trees_print_in_the_units_of_the_data() -> None:
    assert TREE.describe() == ("if age ≤ 34.5:\n    if region is north: action 2\n    else: action 0\nelse: action 1")
    assert TreePolicy(root=3, n_actions=4).describe() == "always action 3"
    assert AtMost("year", 1234567.5).describe() == "year ≤ 1234567.5"
    assert AtMost("x", 0.1 + 0.2).describe() == "x ≤ 0.3"


def test_features_are_found_by_name_on_contexts_never_seen() -> None:
    contexts = Contexts.of(
        [[0, 30.0, 5.0], [1, 30.0, 5.0], [1, 34.5, 5.0], [1, 34.6, 5.0]],
        names=["region", "age", "noise"],
        categories=[["south", "north"], None, None],
    )
    np.testing.assert_array_equal(TREE(contexts), [0, 2, 2, 1])
    unknown = Contexts.of([[30.0, 0]], names=["age", "region"], categories=[None, ["west"]])
    np.testing.assert_array_equal(TREE(unknown), [0])
    with pytest.raises(InputError, match="lack the feature 'region'"):
        TREE(Contexts.of([[30.0]], names=["age"]))
    with pytest.raises(InputError, match="'region' must hold labels"):
        TREE(Contexts.of([[30.0, 0.0]], names=["age", "region"]))


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


@given(st.floats(allow_nan=False, allow_infinity=False), st.text(), st.text(), st.integers(0, 4))
def test_json_round_trips_exactly(threshold: float, name: str, label: str, action: int) -> None:
    policy = TreePolicy(Branch(AtMost(name, threshold), Branch(Is(name, label), action, 1), 0), n_actions=5)
    assert policy_from_json(json.loads(json.dumps(policy.to_json()))) == policy


def deep(levels: int) -> dict[str, object]:
    node: dict[str, object] = {"action": 0}
    for _ in range(levels):
        node = {"feature": "x", "at_most": 1, "then": node, "else": {"action": 1}}
    return node


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"root": None}, "must be an object"),
        ({"root": {}}, "needs an 'action'"),
        ({"root": {"action": 3}}, "action 3, but actions go from 0 to 2"),
        ({"root": {"action": -1}}, "action -1"),
        ({"root": {"action": 1.5}}, "whole number"),
        ({"root": {"action": True}}, "whole number"),
        ({"n_actions": "3"}, "whole number"),
        (
            {"root": {"feature": "x", "at_most": 1, "is": "y", "then": {"action": 0}, "else": {"action": 0}}},
            "one of",
        ),
        (
            {"root": {"feature": "x", "at_most": "1", "then": {"action": 0}, "else": {"action": 0}}},
            "a number",
        ),
        (
            {"root": {"feature": "x", "at_most": float("nan"), "then": {"action": 0}, "else": {"action": 0}}},
            "finite",
        ),
        (
            {"root": {"feature": "x", "at_most": 10**400, "then": {"action": 0}, "else": {"action": 0}}},
            "finite",
        ),
        ({"root": {"feature": 1, "is": "a", "then": {"action": 0}, "else": {"action": 0}}}, "a name"),
        ({"root": {"feature": "x", "is": 1, "then": {"action": 0}, "else": {"action": 0}}}, "text"),
        ({"root": deep(2000)}, "deep"),
    ],
)
def test_malformed_json_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        policy_from_json({**TREE.to_json(), **change})


def test_a_missing_key_is_named() -> None:
    with pytest.raises(InputError, match="lacks 'root'"):
        policy_from_json({"kind": "tree", "n_actions": 3})


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

"""The smallest leaf: trees whose leaves hold a share of the known contexts, against all such trees one by one."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import pacbandits as pb
from pacbandits.policies import Bins, Trees, class_from_json
from pacbandits.policies.registry import digest_class
from pacbandits.policies.trees.constraints import make_trees
from pacbandits.policies.trees.tree_policy import AtMost, TreePolicy, TreeSplit
from pacbandits.records import Contexts
from tests.policies.brute import maximal, sides, values

LABELS = ("north", "east", "south")
SHARES = (0.05, 0.2, 0.34, 0.5, 0.7)


def draw(n: int, seed: int, *, holes: bool = False) -> Contexts:
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 15, n)
    if holes:
        age[::5] = np.nan
    return Contexts.of(np.column_stack([age, rng.integers(0, 3, n)]), names=["age", "place"], categories=[None, LABELS])


def behaviours(policies: Trees, known: Contexts, asked: Contexts, share: float) -> np.ndarray:
    """The actions on the asked contexts of every tree with leaves of at least that share of the known ones."""
    found, actions = set[tuple[int, ...]](), range(policies.n_actions)
    tests = [policies.bins.test(split) for split in range(policies.bins.n_splits)]
    on_known, on_asked = [t(known) for t in tests], [t(asked) for t in tests]

    def parts(inside: np.ndarray, among: np.ndarray) -> list[tuple[np.ndarray, ...]]:
        """What a side of a root may be cut into."""
        out: list[tuple[np.ndarray, ...]] = [(among,)]
        for k, a in zip(on_known, on_asked, strict=True):
            if min((inside & k).mean(), (inside & ~k).mean()) >= share - 1e-12:
                out.append((among & a, among & ~a))
        return out

    every = np.ones(len(known), dtype=bool), np.ones(len(asked), dtype=bool)
    cuts = parts(*every) if policies.depth else [(every[1],)]
    if policies.depth == 2:
        for k, a in zip(on_known, on_asked, strict=True):
            if min(k.mean(), (~k).mean()) >= share - 1e-12:
                cuts += [left + right for left, right in itertools.product(parts(k, a), parts(~k, ~a))]
    for leaves in cuts:
        for taken in itertools.product(actions, repeat=len(leaves)):
            whole = np.zeros(len(asked), dtype=np.int64)
            for leaf, action in zip(leaves, taken, strict=True):
                whole[leaf] = action
            found.add(tuple(whole))
    return np.array(sorted(found))


@pytest.mark.first(17)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("holes", [False, True])
def test_argmax_and_frontier_are_those_of_all_trees_with_such_leaves(depth: int, share: float, holes: bool) -> None:
    known, asked = draw(20, 1, holes=holes), draw(9, 2, holes=holes)
    policies = Trees.learn(known, n_actions=2, depth=depth, bins=4, smallest_leaf=share)
    rows = behaviours(policies, known, asked, share)
    for seed in range(4):
        first, second = np.random.default_rng(seed).normal(size=(2, 9, 2))
        best = policies.argmax(asked, first)
        assert values(best(asked)[None], first)[0] == pytest.approx(values(rows, first).max(), rel=1e-9)
        assert policies.has(best)
        front = policies.frontier(asked, first, second)
        wanted = maximal(values(rows, first).round(9), values(rows, second).round(9))
        assert front.exact
        assert np.allclose(np.column_stack([front.first, front.second]), np.array(wanted), rtol=0, atol=1e-8)
        near = [*(front.policy(i) for i in range(len(front))), *front.large(np.add, most=5)]
        assert all(policies.has(one) for one in near)


def test_a_leaf_that_is_too_small_is_not_of_the_class() -> None:
    people = Contexts.of(np.arange(10.0)[:, None], names=["age"])
    trees = Trees.learn(people, n_actions=2, depth=2, smallest_leaf=0.3)
    small, large = (TreePolicy(TreeSplit(AtMost("age", cut), 0, 1), 2) for cut in (1.5, 2.5))
    assert not trees.has(small)
    assert trees.has(large)
    assert Trees.learn(people, n_actions=2, depth=2).has(small)


def test_weights_count() -> None:
    people = Contexts.of([[1.0], [2.0]], names=["age"], weights=[0.1, 0.9])
    scores = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert isinstance(Trees.learn(people, n_actions=2, smallest_leaf=0.2).argmax(people, scores).root, int)
    assert isinstance(Trees.learn(people, n_actions=2, smallest_leaf=0.1).argmax(people, scores).root, TreeSplit)


@pytest.mark.parametrize("holes", [False, True])
def test_it_is_read_as_it_was_written(holes: bool) -> None:
    known, scores = draw(30, 3, holes=holes), np.random.default_rng(0).normal(size=(30, 3))
    trees = pb.load_policies("trees:depth=2,bins=8,leaf=0.2", known, n_actions=3)
    again = class_from_json(json.loads(json.dumps(trees.to_json())))
    assert digest_class(again) == digest_class(trees) != digest_class(Trees(trees.bins, n_actions=3))
    assert again.argmax(known, scores) == trees.argmax(known, scores)
    assert trees.describe() == "trees of depth 2, each leaf with 20 % or more of 30 known contexts"
    assert trees.has(again.argmax(known, scores))


def test_the_known_contexts_are_told_apart_as_trees_do() -> None:
    known = draw(25, 4, holes=True)
    kept = Trees.learn(known, n_actions=2, bins=4, smallest_leaf=0.1).leaf
    assert kept is not None
    for own, mine in zip(sides_of(kept.known.bins, known), sides_of(kept.known.bins, kept.known.contexts), strict=True):
        assert kept.known.weights[mine].sum() == pytest.approx(own.mean())


def sides_of(bins: Bins, contexts: Contexts) -> list[np.ndarray]:
    return [bins.test(split)(contexts) for split in range(bins.n_splits)]


def test_trees_without_a_smallest_leaf_write_what_they_wrote() -> None:
    known = draw(20, 1)
    assert Trees.learn(known, n_actions=2).to_json().keys() == {"kind", "n_actions", "depth", "features"}
    assert len(sides(Trees.learn(known, n_actions=2).bins, known)) > 0


BAD = (
    ({"codes": "!"}, "base64"),
    ({"codes": "AAAA"}, "bytes, not one a feature"),
    ({"counts": [0, 1]}, "must be above 0"),
    ({"codes": "CQk="}, "a bin that does not exist"),
)


@pytest.mark.parametrize(("change", "words"), BAD)
def test_known_contexts_that_cannot_be(change: dict[str, object], words: str) -> None:
    trees = Trees.learn(Contexts.of([[1.0], [2.0]], names=["age"]), n_actions=2, smallest_leaf=0.1)
    written = json.loads(json.dumps(trees.to_json()))
    written["leaf"]["known"] |= change
    with pytest.raises(pb.InputError, match=words):
        class_from_json(written)


def test_of_deep_trees_it_is_refused() -> None:
    known = draw(20, 1)
    with pytest.raises(pb.InputError, match="a smallest leaf is for trees of depth 2 at the most"):
        pb.load_policies("trees:depth=3,leaf=0.1", known, n_actions=2)
    leaf = Trees.learn(known, n_actions=2, bins=4, smallest_leaf=0.1).leaf
    with pytest.raises(pb.InputError, match="told apart by the bins"):
        make_trees(Bins.learn(known, bins=3), n_actions=2, depth=2, leaf=leaf)
    with pytest.raises(pb.InputError, match="leaf must be a number from 0 to 1, got 2"):
        pb.load_policies("trees:leaf=2", known, n_actions=2)

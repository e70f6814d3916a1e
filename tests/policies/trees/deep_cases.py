"""Problems for deep trees, and the best value there is, found root by root."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from pacbandits.policies.trees import Bins, DeepTrees, TreePolicy, Trees
from pacbandits.policies.trees.search import DeepSearch, Effort
from pacbandits.policies.trees.tree_policy import Node, TreeSplit
from pacbandits.records import Contexts
from tests.policies.brute import sides, values


def value(policy: TreePolicy, contexts: Contexts, scores: np.ndarray) -> float:
    return float(values(policy(contexts)[None], scores)[0])


def best_value(bins: Bins, contexts: Contexts, scores: np.ndarray, *, depth: int) -> float:
    """The value of the best tree: every test at the root, and below it the best trees of a level less."""
    shallow = Trees(bins, n_actions=scores.shape[1], depth=min(depth, 2))
    best = value(shallow.argmax(contexts, scores), contexts, scores)
    for left in sides(bins, contexts) if depth > 2 else []:
        parts = [np.flatnonzero(side) for side in (left, ~left) if side.any()]
        below = (best_value(bins, contexts.take(rows), scores[rows], depth=depth - 1) for rows in parts)
        best = max(best, sum(below))
    return best


def few_roots(count: int) -> Effort:
    """The effort of a search that tries few roots, as it does when there are very many."""
    return Effort(root_sums=0, node_sums=0, least_roots=count)


@st.composite
def small_problems(draw: st.DrawFn) -> tuple[Contexts, np.ndarray]:
    """Contexts of a few mixed features, and signed scores with ties."""
    n, d, n_actions = draw(st.integers(1, 25)), draw(st.integers(0, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = [draw(st.sampled_from(["number", "ties", "category"])) for _ in range(d)]
    columns = [rng.normal(size=n) if kind == "number" else rng.integers(0, 3, n) for kind in kinds]
    features = np.column_stack(columns) if columns else np.empty((n, 0))
    contexts = Contexts.of(features, categories=[("n", "e", "s") if kind == "category" else None for kind in kinds])
    whole = draw(st.booleans())
    return contexts, rng.integers(-2, 3, (n, n_actions)).astype(float) if whole else rng.normal(size=(n, n_actions))


def larger(seed: int = 0, *, n: int = 150, n_actions: int = 3, signal: float = 0.0) -> tuple[Contexts, np.ndarray]:
    """Mixed contexts, and scores that are noise but for a signal."""
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 4, n)])
    contexts = Contexts.of(features, names=["age", "dose", "region"], categories=[None, None, ("n", "e", "s", "w")])
    waves = np.sin(3 * features[:, :1] * features[:, 1:2] + features[:, 2:] + np.arange(n_actions))
    return contexts, rng.normal(size=(n, n_actions)) + signal * waves


def planted(bins: Bins, rng: np.random.Generator, *, depth: int, n_actions: int) -> Node:
    """A full tree of random tests, with leaves whose actions differ side by side."""
    if depth == 0:
        return int(rng.integers(n_actions))
    test = bins.test(int(rng.integers(bins.n_splits)))
    then, otherwise = (planted(bins, rng, depth=depth - 1, n_actions=n_actions) for _ in range(2))
    return TreeSplit(test, then, (then + 1) % n_actions if depth == 1 and isinstance(then, int) else otherwise)


def search_of(trees: DeepTrees, contexts: Contexts, scores: np.ndarray) -> DeepSearch:
    return DeepSearch(trees.bins, trees.bins.encode(contexts), scores, trees.depth, trees.effort)

"""How a design serves policies, summed on a card and by the processor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pacbandits.design.large.questions import DesignCostSums
from pacbandits.engines import ContextsSource, Local
from pacbandits.engines.cuda import CudaEngine, available
from pacbandits.engines.cuda.card import why_not
from pacbandits.policies import Finite, Trees
from pacbandits.policies.summation import summing
from pacbandits.policies.trees.tree_policy import Node, TreePolicy, TreeSplit
from pacbandits.records import Contexts, Design, Policy

needs_card = pytest.mark.skipif(not available(), reason=f"no card: {why_not()}")


@dataclass(frozen=True)
class Noise:
    """Variances that depend on the contexts, some of them 0."""

    n_actions: int

    def __call__(self, contexts: Contexts) -> Any:
        x = np.nan_to_num(contexts.features[:, :1])
        return np.clip(np.sin(x * np.arange(1, self.n_actions + 1)), 0.0, 1.0)


def drawn(n: int, *, n_actions: int, depth: int) -> tuple[Trees, ContextsSource, Design]:
    """Contexts with gaps and labels, and a design of trees drawn at random."""
    rng = np.random.default_rng(n + n_actions)
    features = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 4, size=n)])
    features[rng.random(n) < 0.1, 0] = np.nan
    contexts = Contexts.of(features, categories=[None, None, None, ("p", "q", "r", "s")])
    policies = Trees.learn(contexts, n_actions=n_actions, depth=depth, bins=9)
    tests = list(policies.bins.places)

    def node(left: int) -> Node:
        if left == 0 or rng.random() < 0.1:
            return int(rng.integers(n_actions))
        return TreeSplit(tests[rng.integers(len(tests))], node(left - 1), node(left - 1))

    support: list[Policy] = [TreePolicy(node(depth), n_actions=n_actions) for _ in range(80)]
    weights = rng.integers(1, 2**40, size=80).astype(np.float64)
    reference = TreePolicy(node(depth), n_actions=n_actions)
    return policies, ContextsSource(contexts), Design(tuple(support), weights, reference, floor=0.001)


@needs_card
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize(("n", "n_actions", "depth"), [(70_001, 10, 2), (3_000, 3, 1), (500, 2, 0), (4_000, 64, 2)])
def test_a_card_gives_the_same_bits(n: int, n_actions: int, depth: int, noisy: bool) -> None:
    policies, source, design = drawn(n, n_actions=n_actions, depth=depth)
    noise = Noise(n_actions) if noisy else None
    question = DesignCostSums.of(design, summing=summing(policies), noise=noise, floor=0.0005, n_rows=n)
    engine = CudaEngine()
    for _ in range(2):  # again, with what is on the card by then
        there = engine.ask(source, question, what="")
        here = Local("threads").ask(source, question, what="")
        by = question.summing
        assert np.array_equal(by.finish(there[0]), by.finish(here[0]))
        assert np.array_equal(there[1], here[1])


def test_what_a_card_cannot_answer_is_left_to_the_processor() -> None:
    policies, source, design = drawn(300, n_actions=3, depth=2)
    listed = Finite(np.zeros((2, 4), dtype=np.int64), n_actions=3)
    assert DesignCostSums.of(design, summing=summing(policies), noise=None, floor=0.0, n_rows=300).can_use_card()
    assert not DesignCostSums.of(design, summing=summing(listed), noise=None, floor=0.0, n_rows=300).can_use_card()
    many = drawn(300, n_actions=65, depth=2)
    assert not DesignCostSums.of(many[2], summing=summing(many[0]), noise=None, floor=0.0, n_rows=300).can_use_card()
    question = DesignCostSums.of(design, summing=summing(policies), noise=None, floor=0.0, n_rows=300)
    sums = CudaEngine(fallback="no card").ask(source, question, what="")
    assert np.array_equal(sums[0], Local("threads").ask(source, question, what="")[0])

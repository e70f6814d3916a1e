"""Trees with actions barred where they must not be taken: there, whatever a tree says, a fallback is taken.

The class is the image of another, `π′(c) = fallback where π(c) is barred for c, else π(c)`: it has no more policies,
the rule holds for every context whatever, and the best π′ is that of the best π for scores in which a barred action
counts what the fallback does. Policies are trees again, with the conditions grafted on their leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pacbandits.arrays import FloatArray
from pacbandits.checks import instance, whole_number
from pacbandits.errors import InputError
from pacbandits.policies.base import Frontier, PolicyClass, SearchCost, check_scores
from pacbandits.policies.trees.bars import MAX_BARS, Bar, Path, graft
from pacbandits.policies.trees.binned import BinnedTrees
from pacbandits.policies.trees.bins import Bins, LabelBins, NumberBins
from pacbandits.policies.trees.deep import DeepTrees
from pacbandits.policies.trees.known import KnownContexts
from pacbandits.policies.trees.oracle import Trees
from pacbandits.policies.trees.tree import AtMost, Branch, Is, Node, TreePolicy, branch
from pacbandits.records import Contexts, Policy


class Barred(PolicyClass):
    """Trees that take a fallback wherever what they would take is barred.

    Trees to depth 2 keep their frontier and can be searched within a budget.

    policies: the class of trees that are not barred from anything.
    bars: what is barred where.
    fallback: what is taken there; it is barred nowhere.
    """

    kind = "barred"

    def __init__(self, policies: Trees | DeepTrees, *, bars: Sequence[Bar], fallback: int) -> None:
        instance(policies, BinnedTrees, name="policies")
        self.policies = policies
        self.bars = tuple(instance(bar, Bar, name="bars") for bar in bars)
        self.n_actions, self.log_size, self.exact = policies.n_actions, policies.log_size, policies.exact
        self.depth = policies.depth
        self.has_frontier, self.searches_budgets = policies.has_frontier, policies.searches_budgets
        self.feature_names = tuple(dict.fromkeys((*policies.feature_names, *(bar.test.feature for bar in self.bars))))
        self.fallback = whole_number(fallback, name="fallback", most=self.n_actions - 1)
        if not 0 < len(self.bars) <= MAX_BARS:
            raise InputError(f"from 1 to {MAX_BARS} bars are possible, got {len(self.bars)}")
        for bar in self.bars:
            if bar.action >= self.n_actions:
                raise InputError(f"a bar is of action {bar.action}, but actions go from 0 to {self.n_actions - 1}")
            if bar.action == self.fallback:
                raise InputError(
                    f"action {bar.action} is taken where others are barred, so it cannot be barred itself "
                    f"({bar.describe()}); name another, --control NAME"
                )

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TreePolicy:
        """The best tree that takes the fallback where what it would take is barred."""
        return self._grafted(self.policies.argmax(contexts, self._scored(contexts, scores, name="scores")))

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """The Pareto frontier of two scores over all trees, to rounding of about 1e-12 of their sums."""
        scores = (self._scored(contexts, s, name=f"{n} scores") for n, s in (("first", first), ("second", second)))
        return self.policies.frontier(contexts, *scores).mapped(self._grafted)

    def argmax_within(
        self, contexts: Contexts, scores: FloatArray, *, known: Contexts, costs: FloatArray, most: float
    ) -> TreePolicy | None:
        """The best tree among those that cost at most so much on known contexts, for scores (n, A) and costs (m, A)."""
        own, theirs = self._scored(contexts, scores, name="scores"), self._scored(known, costs, name="costs")
        found = self.policies.argmax_within(contexts, own, known=known, costs=theirs, most=most)
        return None if found is None else self._grafted(found)

    def know(self, contexts: Contexts) -> KnownContexts:
        """Contexts as far as trees and bars tell them apart."""
        return KnownContexts.of(contexts, finer_bins(self.policies.bins, self.bars))

    def narrowed(self, kept: tuple[int, ...]) -> Barred | Trees | DeepTrees:
        """The trees that take these actions alone, which are numbered from 0; where no bar is left, all of those.

        A leaf whose action is withdrawn but barred wherever it is reached might as well say the fallback.
        """
        if self.fallback not in kept:
            raise InputError(
                f"action {self.fallback} is taken where others are barred, so that it cannot be withdrawn; stop the "
                "experiment"
            )
        bars = [replace(bar, action=kept.index(bar.action)) for bar in self.bars if bar.action in kept]
        fewer = self.policies.narrowed(kept)
        return Barred(fewer, bars=bars, fallback=kept.index(self.fallback)) if bars else fewer

    def has(self, policy: Policy) -> bool:
        """Whether it is a tree of the class, with all that is barred grafted on its leaves."""
        if not isinstance(policy, TreePolicy) or policy.n_actions != self.n_actions:
            return False
        bare = self._stripped(policy.root, ())
        return bare is not None and self.policies.has(TreePolicy(bare, self.n_actions))

    def describe(self) -> str:
        """The kind of trees, and what is barred where."""
        said = "; ".join(bar.describe() for bar in self.bars)
        return f"{self.policies.describe()}, {said} (action {self.fallback} instead)"

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """What trees can ask, and what is barred where."""
        return (*self.policies.details(contexts), *(bar.describe() for bar in self.bars))

    @property
    def size_words(self) -> str:
        return self.policies.size_words

    @property
    def lighter(self) -> str:
        return self.policies.lighter

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """What an argmax takes on so many contexts."""
        return self.policies.argmax_cost(n_rows)

    def frontier_cost(self, n_rows: int) -> SearchCost | None:
        """What a frontier takes on so many contexts."""
        return self.policies.frontier_cost(n_rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "class": self.policies.to_json(),
            "bars": [bar.to_json() for bar in self.bars],
            "fallback": self.fallback,
        }

    def _scored(self, contexts: Contexts, scores: FloatArray, *, name: str) -> FloatArray:
        """Scores (n, A) in which a barred action counts what the fallback does."""
        out = check_scores(scores, contexts=contexts, n_actions=self.n_actions, name=name).copy()
        for bar in self.bars:
            there = bar(contexts)
            out[there, bar.action] = out[there, self.fallback]
        return out

    def _grafted(self, policy: Policy) -> TreePolicy:
        """The tree with what is barred grafted on its leaves."""
        assert isinstance(policy, TreePolicy)

        def walk(node: Node, path: Path) -> Node:
            if isinstance(node, int):
                return graft(node, self.bars, self.fallback, path)
            then = walk(node.then, (*path, (node.test, True)))
            return branch(node.test, then, walk(node.otherwise, (*path, (node.test, False))))

        return TreePolicy(walk(policy.root, ()), self.n_actions)

    def _stripped(self, node: Node, path: Path) -> Node | None:
        """A tree of which this one is made by grafting; None where there is none."""
        for action in (self.fallback, *range(self.n_actions)):
            if node == graft(action, self.bars, self.fallback, path):
                return action
        if not isinstance(node, Branch):
            return None
        then = self._stripped(node.then, (*path, (node.test, True)))
        otherwise = self._stripped(node.otherwise, (*path, (node.test, False)))
        return None if then is None or otherwise is None else branch(node.test, then, otherwise)


def finer_bins(bins: Bins, bars: Sequence[Bar]) -> Bins:
    """Bins that tell apart what these do, and what is barred."""
    found = {feature.name: feature for feature in bins.features}
    for bar in bars:
        name, old = bar.test.feature, found.get(bar.test.feature)
        match bar.test:
            case AtMost():
                cuts, missing = (old.thresholds, old.missing) if isinstance(old, NumberBins) else ((), False)
                found[name] = NumberBins(name, tuple(sorted({*cuts, bar.test.threshold})), missing)
            case Is():
                labels = old.labels if isinstance(old, LabelBins) else ()
                found[name] = LabelBins(name, tuple(dict.fromkeys((*labels, bar.test.label))))
    return Bins(tuple(found.values()))

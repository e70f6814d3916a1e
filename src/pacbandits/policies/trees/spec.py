"""Decision trees by name and from JSON: exact to depth 2, by search beyond."""

from __future__ import annotations

from typing import Annotated, Any

from pacbandits.errors import InputError
from pacbandits.fields import Fields
from pacbandits.options import About
from pacbandits.policies.spec import policy_class
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.deep import DeepTrees
from pacbandits.policies.trees.known import KnownContexts
from pacbandits.policies.trees.leaves import SmallestLeaf
from pacbandits.policies.trees.oracle import Trees
from pacbandits.records import Contexts

MOST_EXACT_DEPTH = 2


@policy_class("trees", description="decision trees on binned features: exact to depth 2, by search to depth 8")
def trees(
    contexts: Contexts,
    *,
    n_actions: int,
    depth: Annotated[int, About("how many questions a tree asks at the most", least=0, most=8)] = 2,
    bins: Annotated[int, About("how many bins a number is cut into at the most", least=2, most=256)] = 32,
    leaf: Annotated[float, About("the share of contexts that a leaf holds at the least", least=0, most=1)] = 0.0,
) -> Trees | DeepTrees:
    """Trees that cut numbers at the quantiles of these contexts."""
    if contexts.n_features == 0:
        raise InputError("trees ask about features, but the contexts have none")
    cut = Bins.learn(contexts, bins=bins)
    smallest = SmallestLeaf(leaf, KnownContexts.of(contexts, cut)) if leaf > 0 else None
    return make_trees(cut, n_actions=n_actions, depth=depth, leaf=smallest)


def make_trees(bins: Bins, *, n_actions: int, depth: int, leaf: SmallestLeaf | None = None) -> Trees | DeepTrees:
    """The class for this depth."""
    if depth <= MOST_EXACT_DEPTH:
        return Trees(bins, n_actions=n_actions, depth=depth, leaf=leaf)
    if leaf is not None:
        raise InputError(
            f"a smallest leaf is for trees of depth {MOST_EXACT_DEPTH} at the most, whose search is exact, and these "
            f"have depth {depth}; take depth={MOST_EXACT_DEPTH}, or leave leaf out"
        )
    return DeepTrees(bins, n_actions=n_actions, depth=depth)


def trees_from_json(value: dict[str, Any]) -> Trees | DeepTrees:
    """The class whose `to_json` this is."""
    given = Fields.read(value, of="policy class")
    given.check_known(("kind", "n_actions", "depth", "features", "leaf"))
    n_actions, depth = given.whole_number("n_actions", least=1), given.whole_number("depth")
    leaf = SmallestLeaf.from_json(given.fields("leaf", of="smallest leaf")) if "leaf" in given else None
    return make_trees(Bins.from_json(given.items("features")), n_actions=n_actions, depth=depth, leaf=leaf)

"""Decision trees by name and from JSON: exact to depth 2, by search beyond."""

from __future__ import annotations

from typing import Annotated, Any

from pacbandits.checks import whole_number
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.spec import policy_class
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.deep import DeepTrees
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
) -> Trees | DeepTrees:
    """Trees that cut numbers at the quantiles of these contexts."""
    if contexts.n_features == 0:
        raise InputError("trees ask about features, but the contexts have none")
    return make_trees(Bins.learn(contexts, bins=bins), n_actions=n_actions, depth=depth)


def make_trees(bins: Bins, *, n_actions: int, depth: int) -> Trees | DeepTrees:
    """The class for this depth."""
    return (Trees if depth <= MOST_EXACT_DEPTH else DeepTrees)(bins, n_actions=n_actions, depth=depth)


def trees_from_json(value: dict[str, Any]) -> Trees | DeepTrees:
    """The class whose `to_json` this is."""
    n_actions, depth = (whole_number(value[name], name=name) for name in ("n_actions", "depth"))
    return make_trees(Bins.from_json(value["features"]), n_actions=n_actions, depth=depth)

"""Decision trees by name and from JSON: exact to depth 2, by search beyond, and restricted to what may be deployed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pacbandits.errors import InputError, plain
from pacbandits.fields import Fields
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.spec import policy_class
from pacbandits.policies.trees.affordable import WithinBudget, read_costs, share_words
from pacbandits.policies.trees.barred import Barred
from pacbandits.policies.trees.bars import MAX_BARS, Bar, read_bars
from pacbandits.policies.trees.bins import Bins
from pacbandits.policies.trees.deep import DeepTrees
from pacbandits.policies.trees.known import KnownContexts
from pacbandits.policies.trees.leaves import SmallestLeaf
from pacbandits.policies.trees.oracle import Trees
from pacbandits.records import Contexts

MOST_EXACT_DEPTH = 2
NO_BUDGET = math.inf
NO_ACTION = -1


@policy_class("trees", description="decision trees on binned features: exact to depth 2, by search to depth 8")
def shallow_or_deep(
    contexts: Contexts,
    *,
    n_actions: int,
    depth: Annotated[int, About("how many questions a tree asks at the most", least=0, most=8)] = 2,
    bins: Annotated[int, About("how many bins a number is cut into at the most", least=2, most=256)] = 32,
    leaf: Annotated[float, About("the share of contexts that a leaf holds at the least", least=0, most=1)] = 0.0,
    costs: Annotated[str, About("what each action costs, as in 0/1/2.5")] = "",
    budget: Annotated[float, About("what a policy costs on average over the contexts, at the most")] = NO_BUDGET,
    never: Annotated[str, About("actions that are barred, and where, as in 2:age<=25;1:country=DE")] = "",
    fallback: Annotated[int, About("the action that is taken where another is barred", least=-1)] = NO_ACTION,
) -> PolicyClass:
    """Trees that cut numbers at the quantiles of these contexts."""
    if contexts.n_features == 0:
        raise InputError("trees ask about features, but the contexts have none")
    cut = Bins.learn(contexts, bins=bins)
    smallest = SmallestLeaf(leaf, KnownContexts.of(contexts, cut)) if leaf > 0 else None
    bare = make_trees(cut, n_actions=n_actions, depth=depth, leaf=smallest)
    if (never == "") != (fallback == NO_ACTION):
        lacking, given = ("never", "a fallback") if never == "" else ("a fallback", "never")
        raise InputError(f"{given} without {lacking} says nothing; write trees:never=1:age<=25,fallback=0")
    made: Trees | DeepTrees | Barred = bare
    if never != "":
        made = Barred(bare, bars=read_bars(never, contexts, n_actions=n_actions), fallback=fallback)
    if (costs == "") != (budget == NO_BUDGET):
        lacking, given = ("costs", "a budget") if costs == "" else ("budget", "costs")
        raise InputError(f"{given} without {lacking} restrict nothing; write trees:costs=0/1/2.5,budget=0.3")
    if costs == "":
        return made
    able = _check_exact(made, depth=depth, what="a budget")
    return WithinBudget(able, known=able.know(contexts), costs=read_costs(costs, n_actions=n_actions), budget=budget)


def describe_restricted(given: Mapping[str, str], contexts: int) -> str:
    """Trees that are restricted, in words; nothing where none of the options does that."""
    shares = _share_words(given)
    said = {
        "budget": f"{shares} of the {contexts:,} contexts that were known"
        if shares
        else f"cost at most {{}} on average over the {contexts:,} contexts that were known",
        "never": "take no action where it is barred",
        "leaf": f"hold a share of {{}} or more of the {contexts:,} known contexts in every leaf",
    }
    words = [sentence.format(plain(given[name])) for name, sentence in said.items() if name in given]
    return f"trees that {', '.join(words[:-1])}{' and ' if words[1:] else ''}{words[-1]}" if words else ""


def _share_words(given: Mapping[str, str]) -> str:
    """A limit of shares, in words; nothing where options hold none."""
    try:
        return share_words([float(cost) for cost in given["costs"].split("/")], float(given["budget"]))
    except (KeyError, ValueError):  # of a file that was altered
        return ""


trees = replace(shallow_or_deep, sharing=frozenset({"leaf", "budget"}), restricted=describe_restricted)


def make_trees(bins: Bins, *, n_actions: int, depth: int, leaf: SmallestLeaf | None = None) -> Trees | DeepTrees:
    """The class for this depth."""
    if depth <= MOST_EXACT_DEPTH:
        return Trees(bins, n_actions=n_actions, depth=depth, leaf=leaf)
    deep = DeepTrees(bins, n_actions=n_actions, depth=depth)
    if leaf is not None:
        _check_exact(deep, depth=depth, what="a smallest leaf")
    return deep


def _check_exact(policies: PolicyClass, *, depth: int, what: str) -> PolicyClass:
    """The class, if it can be searched within a budget; raise InputError otherwise."""
    if policies.searches_budgets:
        return policies
    raise InputError(
        f"{what} is for trees of depth {MOST_EXACT_DEPTH} at the most, whose search is exact, and these have depth "
        f"{depth}; take depth={MOST_EXACT_DEPTH}, or do without"
    )


def trees_from_json(value: dict[str, Any]) -> Trees | DeepTrees:
    """The class whose `to_json` this is."""
    given = Fields.read(value, of="policy class")
    given.check_known(("kind", "n_actions", "depth", "features", "leaf"))
    n_actions, depth = given.whole_number("n_actions", least=1), given.whole_number("depth")
    leaf = SmallestLeaf.from_json(given.fields("leaf", of="smallest leaf")) if "leaf" in given else None
    return make_trees(Bins.from_json(given.items("features")), n_actions=n_actions, depth=depth, leaf=leaf)


def barred_from_json(value: dict[str, Any]) -> Barred:
    """The class whose `to_json` this is."""
    given = Fields.read(value, of="policy class")
    given.check_known(("kind", "class", "bars", "fallback"))
    bars = tuple(Bar.from_json(one) for one in given.items("bars", least=1, most=MAX_BARS))
    return Barred(trees_from_json(given.json_object("class")), bars=bars, fallback=given.whole_number("fallback"))


def affordable_from_json(value: dict[str, Any]) -> WithinBudget:
    """The class whose `to_json` this is."""
    given = Fields.read(value, of="policy class")
    given.check_known(("kind", "class", "known", "costs", "budget"))
    within = given.json_object("class")
    whole = barred_from_json(within) if within.get("kind") == Barred.kind else trees_from_json(within)
    known = KnownContexts.from_json(given.fields("known", of="known contexts"))
    able = _check_exact(whole, depth=whole.depth, what="a budget")
    return WithinBudget(able, known=known, costs=given.numbers("costs"), budget=given.number("budget"))

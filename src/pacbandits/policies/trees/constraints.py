"""Constrained trees: excluded actions by region, budgets (also of lists), and trees by name and from JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, floats
from pacbandits.checks import instance, number, whole_number
from pacbandits.errors import InputError, plain
from pacbandits.options import About
from pacbandits.policies.base import Frontier, PolicyClass, SearchCost, check_class, check_scores, policy_class
from pacbandits.policies.constraints import BAR_FORM, CONDITION
from pacbandits.policies.finite import Finite, sum_scores
from pacbandits.policies.trees.bins import Bins, KnownContexts, LabelBins, NumberBins
from pacbandits.policies.trees.classes import BinnedTrees, DeepTrees, Trees
from pacbandits.policies.trees.histograms import SmallestLeaf
from pacbandits.policies.trees.tree_policy import (
    AtMost,
    Is,
    IsMissing,
    Node,
    Test,
    TreePolicy,
    TreeSplit,
    branch,
    read_test,
)
from pacbandits.records.contexts import Contexts, check_contexts
from pacbandits.records.policy import Chosen, Mixture, Policy, call, parts_of
from pacbandits.schema import Fields

# Excluded regions: where an action must not be taken, by one feature; in words, in JSON and in a spec.


MAX_BARS = 20  # so that a tree with all of them grafted on nests no deeper than files may

Path = tuple[tuple[Test, bool], ...]


@dataclass(frozen=True)
class ExcludedRegion:
    """A region of contexts where an action must not be taken.

    action: the excluded action.
    test: a test of a context.
    holds: whether the action is excluded where the test holds, or where it fails.
    """

    action: int
    test: AtMost | Is
    holds: bool = True

    def __call__(self, contexts: Contexts) -> BoolArray:
        """Return where the action is excluded (n,)."""
        return self.test(contexts) == self.holds

    def describe(self, actions: Sequence[str] | None = None) -> str:
        """Describe the exclusion; actions (A,): the names of actions, if any."""
        asked = self.test.describe() if self.holds else f"not ({self.test.describe()})"
        return f"never {call(self.action, actions)} where {asked}"

    def to_json(self) -> dict[str, Any]:
        return {"action": self.action, "test": self.test.to_json(), "holds": self.holds}

    @classmethod
    def from_json(cls, value: object) -> ExcludedRegion:
        """Read an exclusion from the output of `to_json`."""
        given = Fields.read(value, of="bar")
        given.check_known(("action", "test", "holds"))
        test = read_test(given.fields("test", of="test"))
        if isinstance(test, IsMissing) or (isinstance(test, AtMost) and test.missing is not None):
            raise InputError(
                "a constraint asks whether a number is at most another, or which label there is, and no more"
            )
        return cls(given.whole_number("action"), test, given.flag("holds"))


def read_bars(words: str, contexts: Contexts, *, n_actions: int) -> tuple[ExcludedRegion, ...]:
    """Read exclusions from a spec, separated by semicolons: `2:age<=25;1:country=DE`."""
    return tuple(_read_bar(one, contexts, n_actions=n_actions) for one in words.split(";"))


def _read_bar(words: str, contexts: Contexts, *, n_actions: int) -> ExcludedRegion:
    action, _, condition = words.partition(":")
    found = CONDITION.fullmatch(condition.strip())
    if not action.strip().isdecimal() or int(action) >= n_actions or found is None or found[2] in ("<", ">="):
        raise InputError(
            f"'{plain(words)}' excludes none of the actions 0 to {n_actions - 1}; write 1:age<=25 or "
            "1:country=DE, separated by semicolons"
        )
    sign = "=" if found[2] == "==" else found[2]
    feature, value = unquote(found[1]), unquote(found[3])
    contexts.column_of(feature, categorical=sign in ("=", "!="))
    if sign in ("=", "!="):
        return ExcludedRegion(int(action), Is(feature, value), sign == "=")
    try:
        return ExcludedRegion(int(action), AtMost(feature, float(value)), sign == "<=")
    except ValueError:
        raise InputError(f"'{plain(value)}' is not a number to compare '{plain(feature)}' with; {BAR_FORM}") from None


def graft(action: int, bars: Sequence[ExcludedRegion], fallback: int, path: Path) -> Node:
    """Return a leaf's action, or a subtree that takes the fallback where it is excluded; path: the tests above it."""
    for i, bar in enumerate(bars):
        if bar.action != action:
            continue
        known = implied(bar.test, path)
        if known is None:
            rest = graft(action, bars[i + 1 :], fallback, (*path, (bar.test, not bar.holds)))
            return branch(bar.test, fallback, rest) if bar.holds else branch(bar.test, rest, fallback)
        if known == bar.holds:
            return fallback
    return action


def implied(test: AtMost | Is, path: Path) -> bool | None:
    """Return whether a test holds given the outcomes of others; None if none of them decides it."""
    for asked, passed in path:
        if asked.feature != test.feature:
            continue
        if isinstance(test, Is) and isinstance(asked, Is):
            if asked.label == test.label:
                return passed
            if passed:
                return False
        if isinstance(test, AtMost) and isinstance(asked, AtMost):
            if passed and not asked.missing and asked.threshold <= test.threshold:
                return True
            if not passed and test.threshold <= asked.threshold:
                return False
        if isinstance(asked, IsMissing) and passed:
            return False
    return None


# Trees with excluded actions: where a tree's action is excluded, a fallback is taken instead.
#
# The class is the image of another, `π′(c) = fallback where π(c) is excluded at c, else π(c)`: it has no more policies,
# the constraint holds on every context, and the best π′ is the image of the best π for scores in which an excluded
# action scores as the fallback. Policies are again trees, with the conditions grafted onto their leaves.


class Barred(PolicyClass):
    """Trees that take a fallback wherever their action is excluded.

    Trees to depth 2 keep their frontier and can be searched within a budget.

    policies: the class of unconstrained trees.
    bars: the excluded regions.
    fallback: the action taken there; it is excluded nowhere.
    """

    kind = "barred"
    excludes = True

    def __init__(self, policies: Trees | DeepTrees, *, bars: Sequence[ExcludedRegion], fallback: int) -> None:
        instance(policies, BinnedTrees, name="policies")
        self.policies = policies
        self.bars = tuple(instance(bar, ExcludedRegion, name="bars") for bar in bars)
        self.n_actions, self.log_size, self.exact = policies.n_actions, policies.log_size, policies.exact
        self.depth = policies.depth
        self.has_frontier, self.searches_budgets = policies.has_frontier, policies.searches_budgets
        self.feature_names = tuple(dict.fromkeys((*policies.feature_names, *(bar.test.feature for bar in self.bars))))
        self.fallback = whole_number(fallback, name="fallback", most=self.n_actions - 1)
        if not 0 < len(self.bars) <= MAX_BARS:
            raise InputError(f"from 1 to {MAX_BARS} excluded actions are possible, got {len(self.bars)}")
        for bar in self.bars:
            if bar.action >= self.n_actions:
                raise InputError(f"action {bar.action} is excluded, but actions go from 0 to {self.n_actions - 1}")
            if bar.action == self.fallback:
                raise InputError(
                    f"action {bar.action} is used where others are excluded, so it cannot be excluded itself "
                    f"({bar.describe()}); pass another --control NAME"
                )

    def argmax(self, contexts: Contexts, scores: FloatArray) -> TreePolicy:
        """Return the best tree that takes the fallback where its action is excluded."""
        return self._grafted(self.policies.argmax(contexts, self._scored(contexts, scores, name="scores")))

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """Return the Pareto frontier of two scores over all trees, to rounding of about 1e-12 of their sums."""
        scores = (self._scored(contexts, s, name=f"{n} scores") for n, s in (("first", first), ("second", second)))
        return self.policies.frontier(contexts, *scores).mapped(self._grafted)

    def argmax_within(
        self, contexts: Contexts, scores: FloatArray, *, known: Contexts, costs: FloatArray, most: float
    ) -> TreePolicy | None:
        """Return the best tree of cost at most `most` on known contexts, or None; scores (n, A), costs (m, A)."""
        own, theirs = self._scored(contexts, scores, name="scores"), self._scored(known, costs, name="costs")
        found = self.policies.argmax_within(contexts, own, known=known, costs=theirs, most=most)
        return None if found is None else self._grafted(found)

    def know(self, contexts: Contexts) -> KnownContexts:
        """Return the contexts as trees and exclusions distinguish them."""
        return KnownContexts.of(contexts, finer_bins(self.policies.bins, self.bars))

    def narrowed(self, kept: tuple[int, ...]) -> Barred | Trees | DeepTrees:
        """Return the trees that take only these actions, renumbered from 0; unconstrained if no exclusion is left.

        A leaf whose action is withdrawn, and excluded wherever it is reached, is equivalent to a fallback leaf.
        """
        if self.fallback not in kept:
            raise InputError(
                f"action {self.fallback} is used where others are excluded, so it cannot be withdrawn; stop the "
                "experiment"
            )
        bars = [replace(bar, action=kept.index(bar.action)) for bar in self.bars if bar.action in kept]
        fewer = self.policies.narrowed(kept)
        return Barred(fewer, bars=bars, fallback=kept.index(self.fallback)) if bars else fewer

    def has(self, policy: Policy) -> bool:
        """Return whether a policy is a tree of the class, with all exclusions grafted onto its leaves."""
        if not isinstance(policy, TreePolicy) or policy.n_actions != self.n_actions:
            return False
        bare = self._stripped(policy.root, ())
        return bare is not None and self.policies.has(TreePolicy(bare, self.n_actions))

    def describe(self) -> str:
        """Return the kind of trees and the exclusions."""
        said = "; ".join(bar.describe() for bar in self.bars)
        return f"{self.policies.describe()}, {said} (action {self.fallback} instead)"

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """Return the details of the trees and the exclusions, one a line."""
        return (*self.policies.details(contexts), *(bar.describe() for bar in self.bars))

    @property
    def size_words(self) -> str:
        return self.policies.size_words

    @property
    def lighter(self) -> str:
        return self.policies.lighter

    def argmax_cost(self, n_rows: int) -> SearchCost:
        """Return the cost of an argmax on n_rows contexts."""
        return self.policies.argmax_cost(n_rows)

    def frontier_cost(self, n_rows: int) -> SearchCost | None:
        """Return the cost of a frontier on n_rows contexts."""
        return self.policies.frontier_cost(n_rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "class": self.policies.to_json(),
            "bars": [bar.to_json() for bar in self.bars],
            "fallback": self.fallback,
        }

    def _scored(self, contexts: Contexts, scores: FloatArray, *, name: str) -> FloatArray:
        """Return scores (n, A) in which an excluded action scores as the fallback."""
        out = check_scores(scores, contexts=contexts, n_actions=self.n_actions, name=name).copy()
        for bar in self.bars:
            there = bar(contexts)
            out[there, bar.action] = out[there, self.fallback]
        return out

    def _grafted(self, policy: Policy) -> TreePolicy:
        """Return the tree with the exclusions grafted onto its leaves."""
        assert isinstance(policy, TreePolicy)

        def walk(node: Node, path: Path) -> Node:
            if isinstance(node, int):
                return graft(node, self.bars, self.fallback, path)
            then = walk(node.then, (*path, (node.test, True)))
            return branch(node.test, then, walk(node.otherwise, (*path, (node.test, False))))

        return TreePolicy(walk(policy.root, ()), self.n_actions)

    def _stripped(self, node: Node, path: Path) -> Node | None:
        """Return a tree that gives this one by grafting; None if there is none."""
        for action in (self.fallback, *range(self.n_actions)):
            if node == graft(action, self.bars, self.fallback, path):
                return action
        if not isinstance(node, TreeSplit):
            return None
        then = self._stripped(node.then, (*path, (node.test, True)))
        otherwise = self._stripped(node.otherwise, (*path, (node.test, False)))
        return None if then is None or otherwise is None else branch(node.test, then, otherwise)


def finer_bins(bins: Bins, bars: Sequence[ExcludedRegion]) -> Bins:
    """Return bins that distinguish what these bins do, and the excluded regions."""
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


# Budgets: the policies of a class whose mean cost over the known contexts is within a budget.
#
#     Π_B = {π ∈ Π : Σ_i w_i cost(π(c_i)) ≤ B}
#
# The class is fixed beforehand like any other, so certificates, designs and ρ hold for the best policy within budget.


FRONTIERS_FOR_AN_ARGMAX = 3  # their cost, about, as its frontiers of sides are not thinned
BUDGET_ROUNDING = 1e-9  # of the largest cost: tolerance for rounding


class WithinBudget(PolicyClass):
    """The policies of a class whose mean cost over known contexts is at most a budget.

    policies: the class. known: the contexts. costs (A,): the cost of each action. budget: the largest mean cost.

    The argmax is exact if that of the class is; log|Π| is that of the whole class, an upper bound.
    """

    kind = "affordable"

    def __init__(self, policies: PolicyClass, *, known: KnownContexts, costs: ArrayLike, budget: float) -> None:
        self.policies = check_class(policies)
        if not policies.searches_budgets:
            raise InputError(
                f"{policies.type_name} cannot be searched within a budget; a budget needs trees of depth 0 to 2"
            )
        self.n_actions, self.exact, self.log_size = policies.n_actions, policies.exact, policies.log_size
        self.feature_names = policies.feature_names
        self.known = instance(known, KnownContexts, name="known")
        self.costs = floats(costs, name="costs", shape=(self.n_actions,))
        self.budget = number(budget, name="budget")
        self._known_costs = np.ascontiguousarray(known.weights[:, None] * self.costs)
        self._rounding = BUDGET_ROUNDING * max(1.0, float(np.abs(self.costs).max()))
        cheapest = self.mean_cost(policies.argmax(known.contexts, -self._known_costs), known.contexts)
        if cheapest > self._most:
            raise too_dear(self.budget, cheapest)

    @property
    def _most(self) -> float:
        return self.budget + self._rounding

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        """Return the best policy within the budget."""
        scores = check_scores(scores, contexts=contexts, n_actions=self.n_actions)
        best = self.policies.argmax(contexts, scores)
        if self._keeps(best):
            return best
        found = self.policies.argmax_within(
            contexts, scores, known=self.known.contexts, costs=self._known_costs, most=self._most
        )
        assert found is not None
        return found

    def narrowed(self, kept: tuple[int, ...]) -> WithinBudget:
        """Return the policies within the budget that take only these actions, renumbered from 0."""
        fewer = self.policies.narrowed(kept)
        assert fewer is not None
        return WithinBudget(fewer, known=self.known, costs=self.costs[list(kept)], budget=self.budget)

    def has(self, policy: Policy) -> bool:
        """Return whether a policy belongs to the class and is within the budget."""
        return self.policies.has(policy) and self._keeps(policy)

    def _keeps(self, policy: Policy) -> bool:
        # The search sums in another order, so membership allows for twice the rounding.
        return self.mean_cost(policy, self.known.contexts) <= self._most + self._rounding

    def mean_cost(self, chosen: Chosen, contexts: Contexts) -> float:
        """Return the weighted mean cost of a policy over contexts; for a mixture policy, the expected cost."""
        shares = chosen.weights if isinstance(chosen, Mixture) else (1.0,)
        each = (float(contexts.weights @ self.costs[policy(contexts)]) for policy in parts_of(chosen))
        return sum(share * cost for share, cost in zip(shares, each, strict=True))

    def describe(self) -> str:
        """Return the kind of policies and the budget."""
        known = f"{self.known.n:,} known contexts"
        shares = share_words(self.costs, self.budget)
        if shares:
            return f"{self.policies.describe()}, that {shares} of {known}"
        return f"{self.policies.describe()}, of a mean cost of at most {self.budget:g} over {known}"

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """Return the details of the class, the cost of each action, and the budget."""
        if share_words(self.costs, self.budget):
            limited = " or ".join(map(str, np.flatnonzero(self.costs)))
            return (*self.policies.details(contexts), f"action {limited} for at most {100 * self.budget:.4g} %")
        each = ", ".join(f"action {action} {cost:g}" for action, cost in enumerate(self.costs))
        return (*self.policies.details(contexts), f"at most {self.budget:g} on average, where costs are: {each}")

    @property
    def size_words(self) -> str:
        return self.policies.size_words

    @property
    def lighter(self) -> str:
        return self.policies.lighter

    def argmax_cost(self, n_rows: int) -> SearchCost | None:
        """Return the cost of an argmax on n_rows contexts."""
        front = self.policies.frontier_cost(n_rows + len(self.known.codes))
        return None if front is None else front * FRONTIERS_FOR_AN_ARGMAX

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "class": self.policies.to_json(),
            "known": self.known.to_json(),
            "costs": self.costs.tolist(),
            "budget": self.budget,
        }


def share_words(costs: Sequence[float] | FloatArray, budget: float) -> str:
    """Describe a budget on the share of contexts that get certain actions; empty unless all costs are 0 or 1."""
    counted = [action for action, cost in enumerate(costs) if cost]
    if not counted or any(costs[action] != 1.0 for action in counted) or len(counted) == len(costs):
        return ""
    most = f"at most {100 * budget:.4g} %"
    if len(counted) == len(costs) - 1:
        return f"treat {most}"
    return f"give action {' or '.join(map(str, counted))} to {most}"


def too_dear(budget: float, cheapest: float) -> InputError:
    """Return the error for a budget below the cost of the cheapest policy."""
    return InputError(
        f"no policy of the class costs {budget:g} or less on average over the known contexts; the cheapest costs "
        f"{cheapest:.6g}: raise the budget, or lower the costs"
    )


def read_costs(words: str, *, n_actions: int) -> Sequence[float]:
    """Read the costs of all actions from `0/1/2.5`."""
    try:
        found = [float(word) for word in words.split("/")]
    except ValueError:
        found = [math.nan]
    if len(found) != n_actions or not all(map(math.isfinite, found)):
        raise InputError(
            f"costs must be {n_actions} numbers separated by /, one per action, such as 0/1/2.5; got '{plain(words)}'"
        )
    return found


# Decision trees by name and from JSON: exact to depth 2, by search beyond, optionally constrained.


MOST_EXACT_DEPTH = 2
NO_BUDGET = math.inf
NO_ACTION = -1


@policy_class("trees", description="decision trees on binned features: exact to depth 2, by search to depth 8")
def shallow_or_deep(
    contexts: Contexts,
    *,
    n_actions: int,
    depth: Annotated[int, About("maximum number of questions on a path", least=0, most=8)] = 2,
    bins: Annotated[int, About("maximum number of bins of a numeric feature", least=2, most=256)] = 32,
    leaf: Annotated[float, About("minimum share of contexts in a leaf", least=0, most=1)] = 0.0,
    costs: Annotated[str, About("cost of each action, such as 0/1/2.5")] = "",
    budget: Annotated[float, About("maximum mean cost of a policy over the contexts")] = NO_BUDGET,
    never: Annotated[str, About("excluded actions with conditions, such as 2:age<=25;1:country=DE")] = "",
    fallback: Annotated[int, About("the action used where another is excluded", least=-1)] = NO_ACTION,
    without: Annotated[str, About("a feature that no tree asks about")] = "",
) -> PolicyClass:
    """Return trees that split numbers at the quantiles of these contexts, with the given constraints."""
    if without != "":
        contexts = contexts.without_feature(unquote(without))
    if contexts.n_features == 0:
        if without:
            name = plain(unquote(without))
            raise InputError(
                f"trees ask about features, and the only one is the block '{name}'; add others, or let policies go by "
                f"it (--features '+{name}')"
            )
        raise InputError("trees ask about features, but the contexts have none")
    cut = Bins.learn(contexts, bins=bins)
    smallest = SmallestLeaf(leaf, KnownContexts.of(contexts, cut)) if leaf > 0 else None
    bare = make_trees(cut, n_actions=n_actions, depth=depth, leaf=smallest)
    if (never == "") != (fallback == NO_ACTION):
        lacking, given = ("never", "a fallback") if never == "" else ("a fallback", "never")
        raise InputError(f"{given} needs {lacking}; write trees:never=1:age<=25,fallback=0")
    made: Trees | DeepTrees | Barred = bare
    if never != "":
        made = Barred(bare, bars=read_bars(never, contexts, n_actions=n_actions), fallback=fallback)
    if (costs == "") != (budget == NO_BUDGET):
        lacking, given = ("costs", "a budget") if costs == "" else ("budget", "costs")
        raise InputError(f"{given} needs {lacking}; write trees:costs=0/1/2.5,budget=0.3")
    if costs == "":
        return made
    able = _check_exact(made, depth=depth, what="a budget")
    return WithinBudget(able, known=able.know(contexts), costs=read_costs(costs, n_actions=n_actions), budget=budget)


def describe_restricted(given: Mapping[str, str], contexts: int) -> str:
    """Describe the restrictions of trees; empty if no option restricts them."""
    shares = _share_words(given)
    said = {
        "budget": f"{shares} of the {contexts:,} contexts that were known"
        if shares
        else f"cost at most {{}} on average over the {contexts:,} contexts that were known",
        "never": "take no action where it is excluded",
        "leaf": f"hold a share of {{}} or more of the {contexts:,} known contexts in every leaf",
    }
    words = [sentence.format(plain(given[name])) for name, sentence in said.items() if name in given]
    return f"trees that {', '.join(words[:-1])}{' and ' if words[1:] else ''}{words[-1]}" if words else ""


def _share_words(given: Mapping[str, str]) -> str:
    """Describe a limit on shares; empty if the options have none."""
    try:
        return share_words([float(cost) for cost in given["costs"].split("/")], float(given["budget"]))
    except (KeyError, ValueError):  # an altered file
        return ""


trees = replace(shallow_or_deep, sharing=frozenset({"leaf", "budget"}), restricted=describe_restricted)


def make_trees(bins: Bins, *, n_actions: int, depth: int, leaf: SmallestLeaf | None = None) -> Trees | DeepTrees:
    """Return the class for this depth; raise InputError for a minimum leaf share at depth 3 or more."""
    if depth <= MOST_EXACT_DEPTH:
        return Trees(bins, n_actions=n_actions, depth=depth, leaf=leaf)
    deep = DeepTrees(bins, n_actions=n_actions, depth=depth)
    if leaf is not None:
        _check_exact(deep, depth=depth, what="a smallest leaf")
    return deep


def _check_exact(policies: PolicyClass, *, depth: int, what: str) -> PolicyClass:
    """Return the class if it can be searched within a budget; raise InputError otherwise."""
    if policies.searches_budgets:
        return policies
    raise InputError(
        f"{what} is for trees of depth {MOST_EXACT_DEPTH} at the most, whose search is exact, and these have "
        f"depth {depth}; take depth={MOST_EXACT_DEPTH}, or leave it out"
    )


def trees_from_json(value: dict[str, Any]) -> Trees | DeepTrees:
    """Read the class from the output of its `to_json`."""
    given = Fields.read(value, of="policy class")
    given.check_known(("kind", "n_actions", "depth", "features", "leaf"))
    n_actions, depth = given.whole_number("n_actions", least=1), given.whole_number("depth")
    leaf = SmallestLeaf.from_json(given.fields("leaf", of="smallest leaf")) if "leaf" in given else None
    return make_trees(Bins.from_json(given.items("features")), n_actions=n_actions, depth=depth, leaf=leaf)


def barred_from_json(value: dict[str, Any]) -> Barred:
    """Read the class from the output of its `to_json`."""
    given = Fields.read(value, of="policy class")
    given.check_known(("kind", "class", "bars", "fallback"))
    bars = tuple(ExcludedRegion.from_json(one) for one in given.items("bars", least=1, most=MAX_BARS))
    return Barred(trees_from_json(given.json_object("class")), bars=bars, fallback=given.whole_number("fallback"))


def affordable_from_json(value: dict[str, Any]) -> WithinBudget:
    """Read the class from the output of its `to_json`."""
    given = Fields.read(value, of="policy class")
    given.check_known(("kind", "class", "known", "costs", "budget"))
    within = given.json_object("class")
    whole = barred_from_json(within) if within.get("kind") == Barred.kind else trees_from_json(within)
    known = KnownContexts.from_json(given.fields("known", of="known contexts"))
    able = _check_exact(whole, depth=whole.depth, what="a budget")
    return WithinBudget(able, known=known, costs=given.numbers("costs"), budget=given.number("budget"))


# Budgets on any class that supports them.


def within_budget(policies: PolicyClass, contexts: Contexts, *, costs: ArrayLike, budget: float) -> PolicyClass:
    """Return the policies of a class whose mean cost is within a budget.

    policies: trees of depth 0, 1 or 2, or a list (`Finite`).
    contexts: the contexts, with weights, over which the mean is taken; fixed before the log was seen.
    costs (A,): the cost of each action.
    budget: the largest mean cost.

    >>> import pacbandits as pb
    >>> people = pb.Contexts.of([[20], [30], [40], [50]], names=["age"])
    >>> trees = pb.Trees.learn(people, n_actions=2, depth=1)
    >>> affordable = pb.within_budget(trees, people, costs=[0, 1], budget=0.25)  # treat a quarter of them
    >>> print(affordable.argmax(people, [[0, 1], [0, 1], [0, 1], [0, 3]]).describe())
    if age ≤ 45: action 0
    else: action 1

    Raises:
        InputError: When even the cheapest policy costs more, or the class cannot be searched within a budget.
    """
    policies = check_class(policies)
    check_contexts(contexts)
    if policies.searches_budgets:
        return WithinBudget(policies, known=policies.know(contexts), costs=costs, budget=budget)
    if not isinstance(policies, Finite):
        raise InputError(
            f"{policies.type_name} cannot be searched within a budget; take trees of depth 0, 1 or 2, or a list "
            "of policies (Finite)"
        )
    prices = floats(costs, name="costs", shape=(policies.n_actions,))
    most = number(budget, name="budget")
    table = np.ascontiguousarray(policies.actions(contexts))
    each = sum_scores(table, np.ascontiguousarray(contexts.weights[:, None] * prices))
    kept = np.flatnonzero(each <= most + BUDGET_ROUNDING * max(1.0, float(np.abs(prices).max())))
    if len(kept) == 0:
        raise too_dear(most, float(each.min()))
    names = None if policies.names is None else [policies.names[i] for i in kept]
    return Finite(policies.table[kept], n_actions=policies.n_actions, names=names)

"""Constrained trees: excluded actions by region, budgets, and trees by name and from JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import BoolArray, FloatArray, floats
from pacbandits.checks import instance, number, whole_number
from pacbandits.errors import InputError, nearest, plain
from pacbandits.options import About
from pacbandits.policies.base import Frontier, PolicyClass, SearchCost, check_class, check_scores, policy_class
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
from pacbandits.records import Chosen, Contexts, Lottery, Policy, parts_of
from pacbandits.records.policy import call
from pacbandits.schema import Fields

# Where actions must not be taken: one feature compared with a number or a label, in words, in JSON and in a spec.


MAX_BARS = 20  # so that a tree with all of them grafted on nests no deeper than files may
BAR_FORM = "write 'action: feature <= number', with <= or >, or 'action: feature = label', with = or !="
_CONDITION = re.compile(r"(.+?)\s*(<=|>=|!=|==|<|>|=)\s*(.+)", re.DOTALL)

Path = tuple[tuple[Test, bool], ...]


@dataclass(frozen=True)
class ExcludedRegion:
    """Where an action must not be taken.

    action: which.
    test: what is asked of a context.
    holds: whether it is barred where the test holds, or where it does not.
    """

    action: int
    test: AtMost | Is
    holds: bool = True

    def __call__(self, contexts: Contexts) -> BoolArray:
        """Where it is barred (n,)."""
        return self.test(contexts) == self.holds

    def describe(self, actions: Sequence[str] | None = None) -> str:
        """The same in words; actions (A,): what each is called, if they have names."""
        asked = self.test.describe() if self.holds else f"not ({self.test.describe()})"
        return f"never {call(self.action, actions)} where {asked}"

    def to_json(self) -> dict[str, Any]:
        return {"action": self.action, "test": self.test.to_json(), "holds": self.holds}

    @classmethod
    def from_json(cls, value: object) -> ExcludedRegion:
        """What `to_json` wrote."""
        given = Fields.read(value, of="bar")
        given.check_known(("action", "test", "holds"))
        test = read_test(given.fields("test", of="test"))
        if isinstance(test, IsMissing) or (isinstance(test, AtMost) and test.missing is not None):
            raise InputError("a bar asks whether a number is at most another, or which label there is, and no more")
        return cls(given.whole_number("action"), test, given.flag("holds"))


def spell_bar(action: int, condition: str) -> str:
    """An action and a condition in words, `age <= 25`, as a spec spells them."""
    found = _CONDITION.fullmatch(condition.strip())
    if found is None or found[2] in ("<", ">="):
        raise InputError(f"--never '{plain(condition)}' says no place where an action is barred; {BAR_FORM}")
    sign = "=" if found[2] == "==" else found[2]
    return f"{action}:{quote(found[1], safe='')}{sign}{quote(found[3], safe='')}"


def check_label(words: str, contexts: Contexts) -> None:
    """Raise where words bar an action for a label that a category of these contexts has not."""
    found = _CONDITION.fullmatch(words.rpartition(":")[2].strip())
    if found is None or found[2] not in ("=", "==", "!=") or found[1] not in contexts.names:
        return
    labels = contexts.categories[contexts.names.index(found[1])]
    if labels is not None and found[3] not in labels:
        raise InputError(
            f"--never '{plain(words)}' speaks of '{plain(found[3])}', which '{plain(found[1])}' never is"
            f"{nearest(found[3], labels)}"
        )


def read_bars(words: str, contexts: Contexts, *, n_actions: int) -> tuple[ExcludedRegion, ...]:
    """Bars as a spec spells them, apart by semicolons: `2:age<=25;1:country=DE`."""
    return tuple(_read_bar(one, contexts, n_actions=n_actions) for one in words.split(";"))


def _read_bar(words: str, contexts: Contexts, *, n_actions: int) -> ExcludedRegion:
    action, _, condition = words.partition(":")
    found = _CONDITION.fullmatch(condition.strip())
    if not action.strip().isdecimal() or int(action) >= n_actions or found is None or found[2] in ("<", ">="):
        raise InputError(
            f"'{plain(words)}' bars no action from 0 to {n_actions - 1} anywhere; write it as in 1:age<=25 or "
            "1:country=DE, several apart by semicolons"
        )
    sign = "=" if found[2] == "==" else found[2]
    feature, value = unquote(found[1]), unquote(found[3])
    contexts.column_of(feature, categorical=sign in ("=", "!="))
    if sign in ("=", "!="):
        return ExcludedRegion(int(action), Is(feature, value), sign == "=")
    try:
        return ExcludedRegion(int(action), AtMost(feature, float(value)), sign == "<=")
    except ValueError:
        raise InputError(
            f"'{plain(value)}' is no number that '{plain(feature)}' could be compared with; {BAR_FORM}"
        ) from None


def graft(action: int, bars: Sequence[ExcludedRegion], fallback: int, path: Path) -> Node:
    """What a leaf becomes: the action, but the fallback where it is barred and the path to it does not say already."""
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
    """Whether a test holds where others did or did not; None where that does not follow from one of them."""
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


# Trees with actions barred where they must not be taken: there, whatever a tree says, a fallback is taken.
#
# The class is the image of another, `π′(c) = fallback where π(c) is barred for c, else π(c)`: it has no more policies,
# the rule holds for every context whatever, and the best π′ is that of the best π for scores in which a barred action
# counts what the fallback does. Policies are trees again, with the conditions grafted on their leaves.


class Barred(PolicyClass):
    """Trees that take a fallback wherever what they would take is barred.

    Trees to depth 2 keep their frontier and can be searched within a budget.

    policies: the class of trees that are not barred from anything.
    bars: what is barred where.
    fallback: what is taken there; it is barred nowhere.
    """

    kind = "barred"

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
        if not isinstance(node, TreeSplit):
            return None
        then = self._stripped(node.then, (*path, (node.test, True)))
        otherwise = self._stripped(node.otherwise, (*path, (node.test, False)))
        return None if then is None or otherwise is None else branch(node.test, then, otherwise)


def finer_bins(bins: Bins, bars: Sequence[ExcludedRegion]) -> Bins:
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


# Policies that one can afford: those of a class whose mean cost over the contexts that were known keeps a budget.
#
#     Π_B = {π ∈ Π : Σ_i w_i cost(π(c_i)) ≤ B}
#
# A class fixed beforehand as any other, so that certificates, designs and ρ hold for the best policy that one can
# afford.


FRONTIERS_FOR_AN_ARGMAX = 3  # about so many take as long, as its frontiers of sides are not thinned
BUDGET_ROUNDING = 1e-9  # of the largest cost, by which a policy may seem dearer than it is


class WithinBudget(PolicyClass):
    """The policies of a class whose mean cost over known contexts is at most a budget.

    policies: the class. known: the contexts. costs (A,): of each action. budget: the largest mean cost.

    The argmax is exact where that of the class is; log|Π| is that of the whole class, which is a bound.
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
        """The best policy that keeps the budget; the best of all where that does."""
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
        """The policies that take these actions alone, which are numbered from 0, and keep the budget."""
        fewer = self.policies.narrowed(kept)
        assert fewer is not None
        return WithinBudget(fewer, known=self.known, costs=self.costs[list(kept)], budget=self.budget)

    def has(self, policy: Policy) -> bool:
        """Whether it is a policy of the class that keeps the budget."""
        return self.policies.has(policy) and self._keeps(policy)

    def _keeps(self, policy: Policy) -> bool:
        # The search adds up in another order, so that who asks is a little more generous.
        return self.mean_cost(policy, self.known.contexts) <= self._most + self._rounding

    def mean_cost(self, chosen: Chosen, contexts: Contexts) -> float:
        """What a policy, or a lottery in the mean, costs on average over contexts with their weights."""
        shares = chosen.weights if isinstance(chosen, Lottery) else (1.0,)
        each = (float(contexts.weights @ self.costs[policy(contexts)]) for policy in parts_of(chosen))
        return sum(share * cost for share, cost in zip(shares, each, strict=True))

    def describe(self) -> str:
        """The kind of policies, and the budget."""
        known = f"{self.known.n:,} known contexts"
        shares = share_words(self.costs, self.budget)
        if shares:
            return f"{self.policies.describe()}, that {shares} of {known}"
        return f"{self.policies.describe()}, of a mean cost of at most {self.budget:g} over {known}"

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """What the class can ask, what each action costs, and the budget."""
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
        """What an argmax takes on so many contexts."""
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
    """A budget that limits whom actions are given to, in words; nothing where costs are more than 0 and 1."""
    counted = [action for action, cost in enumerate(costs) if cost]
    if not counted or any(costs[action] != 1.0 for action in counted) or len(counted) == len(costs):
        return ""
    most = f"at most {100 * budget:.4g} %"
    if len(counted) == len(costs) - 1:
        return f"treat {most}"
    return f"give action {' or '.join(map(str, counted))} to {most}"


def too_dear(budget: float, cheapest: float) -> InputError:
    """What to say where even the cheapest policy is beyond the budget."""
    return InputError(
        f"no policy of the class costs {budget:g} or less on average over the known contexts; the cheapest costs "
        f"{cheapest:.6g}: allow for that much, or for cheaper actions"
    )


def read_costs(words: str, *, n_actions: int) -> Sequence[float]:
    """Costs of all actions from `0/1/2.5`."""
    try:
        found = [float(word) for word in words.split("/")]
    except ValueError:
        found = [math.nan]
    if len(found) != n_actions or not all(map(math.isfinite, found)):
        raise InputError(
            f"costs must be {n_actions} numbers apart by /, one an action as in 0/1/2.5, got '{plain(words)}'"
        )
    return found


# Decision trees by name and from JSON: exact to depth 2, by search beyond, and restricted to what may be deployed.


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
    bars = tuple(ExcludedRegion.from_json(one) for one in given.items("bars", least=1, most=MAX_BARS))
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

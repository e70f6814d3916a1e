"""Decision trees as policies: tests in the units of the data, pruning, and joint evaluation of many trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.errors import InputError, plain
from pacbandits.policies.decisions import (
    Condition,
    DecisionRule,
    Inputs,
    LabelIs,
    NumberAtMost,
    NumberMissing,
    RuleList,
    inputs_of_conditions,
)
from pacbandits.records.column_types import say_number
from pacbandits.records.columns import MISSING
from pacbandits.records.contexts import Contexts
from pacbandits.records.policy import Policy, call
from pacbandits.schema import Fields

# Tests, nodes and tree policies.


# More than in any tree this package grows; a file that nests deeper was not written by it.
MOST_NESTED_TESTS = 32
_QUESTIONS = ("at_most", "is", "is_missing")


@dataclass(frozen=True)
class AtMost:
    """The test that a number is at most a threshold.

    A missing number passes only if `missing` is true.

    feature: the name of the number.
    threshold: the largest number that passes.
    missing: whether a missing number passes; None if no value was missing when the test was learnt.
    """

    feature: str
    threshold: float
    missing: bool | None = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.threshold):
            raise InputError(f"the threshold on '{plain(self.feature)}' must be finite, got {self.threshold}")

    def __call__(self, contexts: Contexts) -> BoolArray:
        values = contexts.features[:, contexts.column_of(self.feature, categorical=False)]
        small = values <= self.threshold
        return small | np.isnan(values) if self.missing else small

    def describe(self) -> str:
        # Six digits read well; large numbers (years, amounts, times) need all their digits.
        said = say_number(self.feature, self.threshold, digits=6 if abs(self.threshold) < 1e5 else 15)
        if self.missing:
            return f"{said.name} is missing or {said.at_most}"
        return f"{said.name} {said.at_most}{'' if self.missing is None else ' (missing: no)'}"

    def to_json(self) -> dict[str, Any]:
        given = {"feature": self.feature, "at_most": self.threshold}
        return given if self.missing is None else {**given, "missing": self.missing}

    def condition(self) -> Condition:
        """Return the test as a condition for export."""
        return NumberAtMost(self.feature, self.threshold, or_missing=bool(self.missing))


@dataclass(frozen=True)
class IsMissing:
    """The test that a number is missing.

    feature: the name of the number.
    """

    feature: str

    def __call__(self, contexts: Contexts) -> BoolArray:
        return np.isnan(contexts.features[:, contexts.column_of(self.feature, categorical=False)])

    def describe(self) -> str:
        return f"{plain(self.feature)} is missing"

    def to_json(self) -> dict[str, Any]:
        return {"feature": self.feature, "is_missing": True}

    def condition(self) -> Condition:
        """Return the test as a condition for export."""
        return NumberMissing(self.feature)


@dataclass(frozen=True)
class Is:
    """The test that a category has a given label; it fails if the contexts do not have the label.

    feature: the name of the category.
    label: the label that passes.
    """

    feature: str
    label: str

    def __call__(self, contexts: Contexts) -> BoolArray:
        column = contexts.column_of(self.feature, categorical=True)
        labels = contexts.categories[column] or ()
        if self.label not in labels:
            return np.zeros(len(contexts), dtype=np.bool_)
        return contexts.features[:, column] == labels.index(self.label)

    def describe(self) -> str:
        return f"{plain(self.feature)} is {plain(self.label)}"

    def to_json(self) -> dict[str, Any]:
        return {"feature": self.feature, "is": self.label}

    def condition(self) -> Condition:
        """Return the test as a condition for export."""
        return LabelIs(self.feature, self.label, or_missing=self.label == MISSING)


Test = AtMost | Is | IsMissing


@dataclass(frozen=True)
class TreeSplit:
    """A test with two outcomes, each another split or an action.

    test: the test of a context.
    then: the outcome if it holds.
    otherwise: the outcome if it does not.
    """

    test: Test
    then: Node
    otherwise: Node


Node = TreeSplit | int


def branch(test: Test, then: Node, otherwise: Node) -> Node:
    """Return a split, or its common outcome if both are equal."""
    return then if then == otherwise else TreeSplit(test, then, otherwise)


@dataclass(frozen=True)
class TreePolicy:
    """A decision tree with an action at each leaf; features are found by name on any contexts.

    root: the first split, or the action of a constant tree.
    n_actions: the number of actions.
    """

    root: Node
    n_actions: int

    kind = "tree"

    def __post_init__(self) -> None:
        for action in leaves(self.root):
            if not 0 <= action < self.n_actions:
                raise InputError(f"a leaf has action {action}, but actions go from 0 to {self.n_actions - 1}")

    def __call__(self, contexts: Contexts) -> IntArray:
        return actions_of(self.root, contexts)

    def describe(self) -> str:
        return self._words(None)

    def describe_with(self, actions: Sequence[str]) -> str:
        """Describe the tree with the names of actions (A,) instead of their numbers."""
        return self._words(actions)

    def _words(self, actions: Sequence[str] | None) -> str:
        if isinstance(self.root, int):
            return f"always {call(self.root, actions)}"
        return "\n".join(lines(self.root, actions))

    def renumbered(self, numbers: tuple[int, ...], n_actions: int) -> TreePolicy:
        """Return the same policy with action a renumbered to numbers[a], out of n_actions actions."""

        def walk(node: Node) -> Node:
            if isinstance(node, int):
                return numbers[node]
            return TreeSplit(node.test, walk(node.then), walk(node.otherwise))

        return TreePolicy(walk(self.root), n_actions)

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "n_actions": self.n_actions, "root": to_json(self.root)}

    def decision(self) -> RuleList:
        """Return a rule for each leaf but the last, left to right, and the last as the default."""
        return rule_list(self.root)

    def inputs(self) -> Inputs:
        """Return the features that it tests."""
        return inputs_of_conditions(test.condition() for test in tests_of(self.root))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TreePolicy:
        given = Fields.read(value, of="policy")
        given.check_known(("kind", "n_actions", "root"))
        return cls(root=from_json(given["root"]), n_actions=given.whole_number("n_actions", least=1))


def leaves(node: Node) -> list[int]:
    """Return the actions at the leaves, left to right."""
    return [node] if isinstance(node, int) else leaves(node.then) + leaves(node.otherwise)


def tests_of(node: Node) -> list[Test]:
    """Return the tests of all splits, in preorder."""
    return [] if isinstance(node, int) else [node.test, *tests_of(node.then), *tests_of(node.otherwise)]


def rule_list(node: Node) -> RuleList:
    """Return the tree as a rule list, of which the first matching rule decides.

    No rule needs a negated condition: contexts that pass a test are matched by earlier rules.
    """
    if isinstance(node, int):
        return RuleList((), node)
    asked = node.test.condition()
    then, otherwise = rule_list(node.then), rule_list(node.otherwise)
    assert then.otherwise is not None
    within = [*then.rules, DecisionRule((), then.otherwise)]
    passed = (DecisionRule((asked, *rule.conditions), rule.action) for rule in within)
    return RuleList((*passed, *otherwise.rules), otherwise.otherwise)


def actions_of(node: Node, contexts: Contexts) -> IntArray:
    """Return the action (n,) of a node on each context."""
    if isinstance(node, int):
        return np.full(len(contexts), node, dtype=np.int64)
    # Leaves stay scalars, for speed: designs evaluate hundreds of trees on every context.
    then, otherwise = (
        np.int64(child) if isinstance(child, int) else actions_of(child, contexts)
        for child in (node.then, node.otherwise)
    )
    return np.where(node.test(contexts), then, otherwise)


def lines(node: TreeSplit, actions: Sequence[str] | None = None) -> list[str]:
    """Describe a split, one line for each test or outcome; actions (A,): the names of actions, if any."""
    out: list[str] = []
    for head, child in ((f"if {node.test.describe()}:", node.then), ("else:", node.otherwise)):
        if isinstance(child, int):
            out.append(f"{head} {call(child, actions)}")
        else:
            out.append(head)
            out.extend("    " + line for line in lines(child, actions))
    return out


def to_json(node: Node) -> dict[str, Any]:
    """Serialise a node to JSON-compatible values."""
    if isinstance(node, int):
        return {"action": node}
    return {**node.test.to_json(), "then": to_json(node.then), "else": to_json(node.otherwise)}


def from_json(value: object, depth: int = 0) -> Node:
    """Read a node from the output of `to_json`; raise InputError if it is invalid."""
    node = Fields.read(value, of="node of a tree")
    if depth > MOST_NESTED_TESTS:
        raise InputError(f"a tree in JSON may be at most {MOST_NESTED_TESTS} tests deep")
    if "action" in node:
        node.check_known(("action",))
        return node.whole_number("action")
    missing = [key for key in ("feature", "then", "else") if key not in node]
    asked = [key for key in _QUESTIONS if key in node]
    if missing or len(asked) != 1:
        needs = "an 'action', or 'feature', 'then', 'else' and one of 'at_most', 'is' and 'is_missing'"
        raise InputError(f"a node of a tree in JSON needs {needs}; got {plain(sorted(node.given))}")
    node.check_known(("feature", "then", "else", *asked, *(("missing",) if asked == ["at_most"] else ())))
    return TreeSplit(read_test(node), from_json(node["then"], depth + 1), from_json(node["else"], depth + 1))


def read_test(node: Fields) -> Test:
    """Read the test of a node in JSON."""
    feature = node.text("feature")
    if "is" in node:
        return Is(feature, node.text("is"))
    if "is_missing" in node:
        if not node.flag("is_missing"):
            raise InputError(f"{node.name('is_missing')} can only be true; for what is not missing, swap the branches")
        return IsMissing(feature)
    return AtMost(feature, node.number("at_most"), node.flag("missing") if "missing" in node else None)


# Pruning: the simplest tree that data cannot distinguish from a given one.


class _Pruned(NamedTuple):
    """A pruned form of a node.

    leaves: its number of leaves.
    loss: its estimated loss.
    square: the squared standard error of the loss.
    node: the pruned node.
    """

    leaves: int
    loss: float
    square: float
    node: Node


def simplest_tree(
    root: Node, contexts: Contexts, losses: FloatArray, squares: FloatArray, *, standard_errors: float
) -> Node:
    """Return the tree with fewest leaves whose loss is within `standard_errors` standard errors; ties by least loss.

    A split is replaced by the action with the least loss there. losses (m, A): the estimated loss of each action
    relative to the tree's own; squares (m, A): the terms that sum to its squared standard error.
    """
    found = _prunings(root, contexts, losses, squares, np.ones(len(contexts), dtype=np.bool_))
    alike = [one for one in found if one.loss <= standard_errors * math.sqrt(one.square)]
    return min(alike, key=lambda one: (one.leaves, one.loss)).node


def _prunings(
    node: Node, contexts: Contexts, losses: FloatArray, squares: FloatArray, here: BoolArray
) -> list[_Pruned]:
    """Return the best pruning of a node for each number of leaves; here (m,): the contexts that reach it."""
    if isinstance(node, int):
        return [_Pruned(1, 0.0, 0.0, node)]
    passes = node.test(contexts)
    then = _prunings(node.then, contexts, losses, squares, here & passes)
    otherwise = _prunings(node.otherwise, contexts, losses, squares, here & ~passes)
    action = int(np.argmin(lost := losses[here].sum(axis=0)))
    best = {1: _Pruned(1, float(lost[action]), float(squares[here, action].sum()), action)}
    for one in then:
        for two in otherwise:
            both = branch(node.test, one.node, two.node)
            count = 1 if isinstance(both, int) else one.leaves + two.leaves
            made = _Pruned(count, one.loss + two.loss, one.square + two.square, both)
            if count not in best or made.loss < best[count].loss:
                best[count] = made
    return list(best.values())


def leaf_numbers(root: Node, contexts: Contexts) -> IntArray:
    """Return the leaf (n,) that each context reaches, numbered left to right from 0."""
    if isinstance(root, int):
        return np.zeros(len(contexts), dtype=np.int64)
    then, otherwise = (leaf_numbers(node, contexts) for node in (root.then, root.otherwise))
    return np.where(root.test(contexts), then, otherwise + len(leaves(root.then)))


# Joint evaluation of many trees on few contexts, as in a live experiment: each distinct test is evaluated once.


class StackedTrees:
    """Trees as tables of nodes; each context descends all of them at once."""

    def __init__(self, trees: Sequence[TreePolicy]) -> None:
        self._tests: list[Test] = []
        places: dict[Test, int] = {}
        laid: list[list[tuple[int, int, int, int]]] = []  # test, then, otherwise, action; a leaf points to itself
        self._depth = 0

        def lay(node: Node, out: list[tuple[int, int, int, int]], depth: int) -> int:
            own = len(out)
            out.append((0, own, own, 0))
            if isinstance(node, TreeSplit):
                if node.test not in places:
                    places[node.test] = len(self._tests)
                    self._tests.append(node.test)
                self._depth = max(self._depth, depth + 1)
                then, otherwise = (lay(child, out, depth + 1) for child in (node.then, node.otherwise))
                out[own] = (places[node.test], then, otherwise, 0)
            else:
                out[own] = (0, own, own, node)
            return own

        for tree in trees:
            table: list[tuple[int, int, int, int]] = []
            lay(tree.root, table, 0)
            laid.append(table)
        starts = np.cumsum([0, *(len(table) for table in laid)])
        flat = np.array([node for table in laid for node in table], dtype=np.int64).reshape(-1, 4)
        offsets = np.repeat(starts[:-1], np.diff(starts))
        self._roots = starts[:-1, None]
        self._test, self._action = flat[:, 0], flat[:, 3]
        self._next = np.stack([flat[:, 2] + offsets, flat[:, 1] + offsets])  # the next node: test fails, holds

    def __call__(self, contexts: Contexts) -> IntArray:
        """Return the action (trees, n) of every tree on each context."""
        n = len(contexts)
        at = np.broadcast_to(self._roots, (len(self._roots), n))
        if self._tests:
            passed = np.array([test(contexts) for test in self._tests], dtype=np.int64)
            rows = np.arange(n)
            for _ in range(self._depth):
                at = self._next[passed[self._test[at], rows], at]
        return self._action[at]


def stack(policies: Sequence[Policy]) -> StackedTrees | None:
    """Return the policies as stacked trees; None unless all of them are trees."""
    trees = [policy for policy in policies if isinstance(policy, TreePolicy)]
    return StackedTrees(trees) if len(trees) == len(policies) else None

"""The leaves of a policy: who they are in words, how many, and what they were given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import BoolArray, IntArray
from pacbandits.errors import plain
from pacbandits.fields import Json
from pacbandits.policies.trees.tree import AtMost, Is, Node, Test, TreePolicy
from pacbandits.records import Contexts, Log, Policy
from pacbandits.records.dates import say_number

EVERYBODY = "everybody"
MAX_LEAVES = 256  # that are told of


@dataclass(frozen=True)
class Leaf:
    """People whom a policy gives the same action for the same reason.

    where: who they are, in words.
    share: of all people who came.
    action: what the policy gives them.
    shares: by actions, of those among them who got each; empty where nobody came.
    """

    where: str
    share: float
    action: str
    shares: dict[str, float]

    def to_json(self) -> Json:
        """As what JSON knows."""
        return {"where": self.where, "share": self.share, "action": self.action, "shares": self.shares}


def leaves_of(policy: Policy, log: Log, actions: tuple[str, ...]) -> tuple[Leaf, ...]:
    """The leaves of a policy, from the left; of one that is no tree, all whom it gives the same.

    log: who came, and what they got. actions (A,): the names.
    """
    contexts, played = log.contexts, log.actions
    if isinstance(policy, TreePolicy):
        parts = _tree_parts(policy.root, contexts, np.ones(len(contexts), dtype=np.bool_), ())
    else:
        given = policy(contexts)
        taken: list[int] = np.unique(given).tolist()
        parts = [(f"where it says {plain(actions[a])}", given == a, a) for a in taken]
    return tuple(_leaf(where, inside, action, played, actions) for where, inside, action in parts[:MAX_LEAVES])


def _leaf(where: str, inside: BoolArray, action: int, played: IntArray, actions: tuple[str, ...]) -> Leaf:
    counts = np.bincount(played[inside], minlength=len(actions))
    total = int(counts.sum())
    shares = {name: float(count / total) for name, count in zip(actions, counts, strict=True)} if total else {}
    return Leaf(where, float(inside.mean()), actions[action], shares)


def _tree_parts(
    node: Node, contexts: Contexts, here: BoolArray, answers: tuple[tuple[Test, bool], ...]
) -> list[tuple[str, BoolArray, int]]:
    """Words, people (n,) and the action of each leaf; answers: to the tests on the way there."""
    if isinstance(node, int):
        words = [test.describe() if held else _denied(test) for test, held in answers if _tells(test, held, answers)]
        return [(" and ".join(dict.fromkeys(words)) or EVERYBODY, here, node)]
    passed = node.test(contexts)
    then = _tree_parts(node.then, contexts, here & passed, (*answers, (node.test, True)))
    return then + _tree_parts(node.otherwise, contexts, here & ~passed, (*answers, (node.test, False)))


def _tells(test: Test, held: bool, answers: tuple[tuple[Test, bool], ...]) -> bool:
    """Whether an answer says more than all others together: of two bounds on one side, the tighter does."""
    if not isinstance(test, AtMost):
        return not (isinstance(test, Is) and not held and _is_known(test.feature, answers))
    others = [
        one.threshold
        for one, same in answers
        if isinstance(one, AtMost) and (one.feature, one.missing, same) == (test.feature, test.missing, held)
    ]
    return test.threshold == (min(others) if held else max(others))


def _is_known(feature: str, answers: tuple[tuple[Test, bool], ...]) -> bool:
    """Whether the label of a feature is known."""
    return any(isinstance(test, Is) and test.feature == feature and held for test, held in answers)


def _denied(test: Test) -> str:
    """What holds of those who fail a test."""
    if isinstance(test, AtMost):
        name, cut = say_number(test.feature, test.threshold, digits=6 if abs(test.threshold) < 1e5 else 15)
        return f"{name} is missing or > {cut}" if test.missing is False else f"{name} > {cut}"
    if isinstance(test, Is):
        return f"{plain(test.feature)} is not {plain(test.label)}"
    return f"{plain(test.feature)} is not missing"

"""Classes whose policies never take certain actions, as these were withdrawn.

    Π_W = {π ∈ Π : π(c) ∉ W for every context c whatever}

A class that can be narrowed to some of its actions is that class on fewer actions, whose policies are then said with
the numbers that actions have among all. So its argmax is exact where that of the whole is, W costs nothing, and there
are fewer policies to pay for. `pacbandits.confidence.withdrawal_part` says what it costs to choose W by what was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import whole_number
from pacbandits.errors import InputError, count_of
from pacbandits.fields import Fields
from pacbandits.policies.base import Frontier, PolicyClass, SearchCost, check_class, check_n_actions, check_scores
from pacbandits.records import Contexts, Policy
from pacbandits.records.naming import call


@runtime_checkable
class RenumberedPolicy(Policy, Protocol):
    """A policy that can call its actions by other numbers."""

    def renumbered(self, numbers: tuple[int, ...], n_actions: int) -> Policy:
        """The same policy where action a is called numbers[a], of so many actions."""
        ...


class Without(PolicyClass):
    """The policies of a class that never take certain actions; it lists them and has a frontier where the class does.

    policies: the class on the actions that are kept, numbered from 0.
    kept: the numbers that these have among all.
    n_actions: the number of all actions.
    """

    kind = "without"

    def __init__(self, policies: PolicyClass, *, kept: Iterable[int], n_actions: int) -> None:
        self.policies, self.n_actions = check_class(policies), check_n_actions(n_actions)
        self.kept = tuple(whole_number(action, name="kept actions", most=self.n_actions - 1) for action in kept)
        if len(self.kept) != policies.n_actions or list(self.kept) != sorted(set(self.kept)):
            raise InputError(
                f"{policies.n_actions} kept actions need as many numbers, each once and the smallest first, got "
                f"{list(self.kept)}"
            )
        self.withdrawn = tuple(action for action in range(self.n_actions) if action not in self.kept)
        self.exact, self.log_size = policies.exact, policies.log_size
        self.lists_policies, self.has_frontier = policies.lists_policies, policies.has_frontier
        self.n_contexts, self.feature_names = policies.n_contexts, policies.feature_names

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        """The best of the policies that are left."""
        return self._named(self.policies.argmax(contexts, self._cut(contexts, scores)))

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """The Pareto frontier of two scores over the policies that are left."""
        scores = (self._cut(contexts, one, f"{name} scores") for name, one in (("first", first), ("second", second)))
        return self.policies.frontier(contexts, *scores).mapped(self._named)

    def has(self, policy: Policy) -> bool:
        """Whether this is a policy of the class that takes no withdrawn action."""
        if not isinstance(policy, RenumberedPolicy) or policy.n_actions != self.n_actions:
            return False
        numbers = {action: place for place, action in enumerate(self.kept)}
        try:
            own = policy.renumbered(tuple(numbers.get(a, -1) for a in range(self.n_actions)), len(self.kept))
        except InputError:  # of an action that was withdrawn
            return False
        return self.policies.checks_membership and self.policies.has(own)

    def __len__(self) -> int:
        return len(self.policies)

    def policy(self, index: int) -> Policy:
        """The policy of the given number, from 0."""
        return self._named(self.policies.policy(index))

    def actions(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        """The action (|Π|, n) of every policy on every context."""
        own = self.policies.actions(contexts)
        return np.array(self.kept, dtype=own.dtype)[own.astype(np.int64)]

    def describe(self) -> str:
        """The kind of policies, and the excluded actions."""
        return f"{self.policies.describe()}, never {' or '.join(call(action, None) for action in self.withdrawn)}"

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """What policies can ask, and the excluded actions."""
        never = f"never {', '.join(call(action, None) for action in self.withdrawn)}"
        return (*self.policies.details(contexts), never)

    def to_json(self) -> dict[str, Any]:
        inner = self.policies.to_json()
        return {"kind": self.kind, "class": inner, "kept": list(self.kept), "n_actions": self.n_actions}

    @property
    def size_words(self) -> str:
        return self.policies.size_words

    @property
    def lighter(self) -> str:
        return self.policies.lighter

    def argmax_cost(self, n_rows: int) -> SearchCost | None:
        return self.policies.argmax_cost(n_rows)

    def frontier_cost(self, n_rows: int) -> SearchCost | None:
        return self.policies.frontier_cost(n_rows)

    def _cut(self, contexts: Contexts, scores: FloatArray, name: str = "scores") -> FloatArray:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions, name=name)
        return np.ascontiguousarray(checked[:, self.kept])

    def _named(self, policy: Policy) -> Policy:
        """A policy on the kept actions, with the numbers that they have among all."""
        return cast(RenumberedPolicy, policy).renumbered(self.kept, self.n_actions)


def without(policies: PolicyClass, withdrawn: Iterable[int]) -> PolicyClass:
    """The policies of a class that never take the withdrawn actions; the class itself where none is.

    Actions may be withdrawn one after the other: of a class from which some were, others are withdrawn as well.

    Raises:
        InputError: Where no action, or no policy, would be left, or the class cannot do with fewer actions.
    """
    policies = check_class(policies)
    n_actions = policies.n_actions
    gone = {whole_number(action, name="a withdrawn action", most=n_actions - 1) for action in withdrawn}
    whole = policies
    if isinstance(policies, Without):
        gone |= set(policies.withdrawn)
        if gone == set(policies.withdrawn):
            return policies
        left = tuple(place for place, action in enumerate(policies.kept) if action not in gone)
        whole = policies.policies
    else:
        left = tuple(action for action in range(n_actions) if action not in gone)
    if not gone:
        return policies
    if not left:
        raise InputError("no action would be left; stop the experiment instead of withdrawing the last one")
    narrowed = whole.narrowed(left)
    if narrowed is None:
        raise InputError(
            f"the policy class {whole.type_name} cannot do without {count_of(len(gone), 'action')}: which action "
            "one of its policies takes follows from all of them; stop the experiment, or start one with trees, a list "
            "or every map, which can"
        )
    return Without(narrowed, kept=[a for a in range(n_actions) if a not in gone], n_actions=n_actions)


def without_from_json(value: dict[str, Any], read: Callable[[object], PolicyClass]) -> Without:
    """The class whose `to_json` this is; read: makes the class that it was narrowed to."""
    given = Fields.read(value, of="policy class")
    given.check_known(("kind", "class", "kept", "n_actions"))
    inner = given.json_object("class")
    if inner.get("kind") == Without.kind:
        raise InputError("a class without some actions is not made of another one")
    n_actions = given.whole_number("n_actions", least=1)
    return Without(read(inner), kept=given.whole_numbers("kept", shortest=1), n_actions=n_actions)

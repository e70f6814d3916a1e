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
from pacbandits.policies.base import (
    AskingClass,
    ClosedClass,
    Cost,
    CostedClass,
    CostedFrontierClass,
    DescribedClass,
    DetailedClass,
    EnumeratedClass,
    FiniteSetClass,
    Frontier,
    FrontierClass,
    PolicyClass,
    RisingValue,
    StoredClass,
    check_class,
    check_n_actions,
    check_scores,
)
from pacbandits.records import Contexts, Policy
from pacbandits.records.naming import call


@runtime_checkable
class NarrowingClass(PolicyClass, Protocol):
    """A policy class that can do with some of its actions."""

    def narrowed(self, kept: tuple[int, ...]) -> PolicyClass:
        """Its policies that take these actions alone, wherever they are asked, the actions numbered from 0."""
        ...


@runtime_checkable
class RenumberedPolicy(Policy, Protocol):
    """A policy that can call its actions by other numbers."""

    def renumbered(self, numbers: tuple[int, ...], n_actions: int) -> Policy:
        """The same policy where action a is called numbers[a], of so many actions."""
        ...


class Without:
    """The policies of a class that never take certain actions.

    policies: the same on the actions that are kept, numbered from 0.
    kept: the numbers that these have among all.
    n_actions: how many there are in all.
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
        self.exact = policies.exact

    @property
    def withdrawn(self) -> tuple[int, ...]:
        """The actions that no policy takes."""
        return tuple(action for action in range(self.n_actions) if action not in self.kept)

    @property
    def log_size(self) -> float:
        return self.policies.log_size

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        """The best of the policies that are left."""
        return self._named(self.policies.argmax(contexts, self._cut(contexts, scores)))

    def has(self, policy: Policy) -> bool:
        """Whether this is a policy of the class that takes no withdrawn action."""
        if not isinstance(policy, RenumberedPolicy) or policy.n_actions != self.n_actions:
            return False
        numbers = {action: place for place, action in enumerate(self.kept)}
        try:
            own = policy.renumbered(tuple(numbers.get(a, -1) for a in range(self.n_actions)), len(self.kept))
        except InputError:  # of an action that was withdrawn
            return False
        return isinstance(self.policies, ClosedClass) and self.policies.has(own)

    def describe(self) -> str:
        """The kind of policies, and what they never do."""
        inner = self.policies
        words = inner.describe() if isinstance(inner, DescribedClass) else type(inner).__name__
        return f"{words}, never {' or '.join(call(action, None) for action in self.withdrawn)}"

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """What policies can ask, and what was withdrawn."""
        own = self.policies.details(contexts) if isinstance(self.policies, DetailedClass) else ()
        return (*own, f"never {', '.join(call(action, None) for action in self.withdrawn)}")

    def to_json(self) -> dict[str, Any]:
        inner = cast(StoredClass, self.policies).to_json()
        return {"kind": self.kind, "class": inner, "kept": list(self.kept), "n_actions": self.n_actions}

    @property
    def size_words(self) -> str:
        return cast(CostedClass, self.policies).size_words

    @property
    def lighter(self) -> str:
        return cast(CostedClass, self.policies).lighter

    def argmax_cost(self, n_rows: int) -> Cost:
        """What an argmax takes on so many contexts."""
        return cast(CostedClass, self.policies).argmax_cost(n_rows)

    def _cut(self, contexts: Contexts, scores: FloatArray, name: str = "scores") -> FloatArray:
        checked = check_scores(scores, contexts=contexts, n_actions=self.n_actions, name=name)
        return np.ascontiguousarray(checked[:, self.kept])

    def _named(self, policy: Policy) -> Policy:
        """A policy on the kept actions, with the numbers that they have among all."""
        return cast(RenumberedPolicy, policy).renumbered(self.kept, self.n_actions)


class WithoutAsking(Without):
    """The same of a class that asks about features."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        return cast(AskingClass, self.policies).feature_names


class WithoutFrontier(Without):
    """The same of a class with a frontier."""

    def frontier_cost(self, n_rows: int) -> Cost:
        """What a frontier takes on so many contexts."""
        return cast(CostedFrontierClass, self.policies).frontier_cost(n_rows)

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """The Pareto frontier of two scores over the policies that are left."""
        scores = (self._cut(contexts, one, f"{name} scores") for name, one in (("first", first), ("second", second)))
        whole = cast(FrontierClass, self.policies).frontier(contexts, *scores)

        def search(value: RisingValue, most: int) -> list[Policy]:
            return [] if whole.search is None else [self._named(one) for one in whole.search(value, most)]

        return Frontier(
            whole.first,
            whole.second,
            exact=whole.exact,
            build=lambda index: self._named(whole.policy(index)),
            search=None if whole.search is None else search,
        )


class WithoutAskingFrontier(WithoutAsking, WithoutFrontier):
    """The same of a class that has both."""


class WithoutMaps(WithoutFrontier):
    """The same of a class over a finite set of contexts."""

    @property
    def n_contexts(self) -> int:
        return cast(FiniteSetClass, self.policies).n_contexts


class WithoutListed(WithoutMaps):
    """The same of a class that can be listed."""

    def __len__(self) -> int:
        return len(cast(EnumeratedClass, self.policies))

    def policy(self, index: int) -> Policy:
        """The policy of the given number, from 0."""
        return self._named(cast(EnumeratedClass, self.policies).policy(index))

    def actions(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        """The action (|Π|, n) of every policy on every context."""
        own = cast(EnumeratedClass, self.policies).actions(contexts)
        return np.array(self.kept, dtype=own.dtype)[own.astype(np.int64)]


def without(policies: PolicyClass, withdrawn: Iterable[int]) -> PolicyClass:
    """The policies of a class that never take the withdrawn actions; the class itself where none is.

    Actions may be withdrawn one after the other: of a class from which some were, others are withdrawn as well.

    Raises:
        InputError: Where no action, or no policy, would be left, or the class cannot do with fewer actions.
    """
    n_actions = check_class(policies).n_actions
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
    if not isinstance(whole, NarrowingClass):
        raise InputError(
            f"the policy class {type(whole).__name__} cannot do without {count_of(len(gone), 'action')}: which action "
            "one of its policies takes follows from all of them; stop the experiment, or start one with trees, a list "
            "or every map, which can"
        )
    return _wrapped(whole.narrowed(left), kept=[a for a in range(n_actions) if a not in gone], n_actions=n_actions)


def _wrapped(narrowed: PolicyClass, *, kept: Iterable[int], n_actions: int) -> Without:
    """The class of all actions that a narrowed one stands for, with what that can do."""
    fronted, asks = isinstance(narrowed, FrontierClass), isinstance(narrowed, AskingClass)
    kind: type[Without] = Without
    if isinstance(narrowed, EnumeratedClass):
        kind = WithoutListed
    elif isinstance(narrowed, FiniteSetClass):
        kind = WithoutMaps
    elif fronted:
        kind = WithoutAskingFrontier if asks else WithoutFrontier
    elif asks:
        kind = WithoutAsking
    return kind(narrowed, kept=kept, n_actions=n_actions)


def without_from_json(value: dict[str, Any], read: Callable[[object], PolicyClass]) -> Without:
    """The class whose `to_json` this is; read: makes the class that it was narrowed to."""
    given = Fields.read(value, of="policy class")
    given.check_known(("kind", "class", "kept", "n_actions"))
    inner = given.json_object("class")
    if inner.get("kind") == Without.kind:
        raise InputError("a class without some actions is not made of another one")
    n_actions = given.whole_number("n_actions", least=1)
    return _wrapped(read(inner), kept=given.whole_numbers("kept", shortest=1), n_actions=n_actions)

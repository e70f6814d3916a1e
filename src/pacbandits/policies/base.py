"""The interface of a policy class, and what some classes can do beside the argmax.

A class from outside the package is any object with the four members of `PolicyClass`. Each protocol after it is a
capability: a class has it by having its members, and who needs one asks for it, never for a class by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.checks import instance, whole_number
from pacbandits.errors import InputError
from pacbandits.records import Chosen, Contexts, Policy, check_contexts


@runtime_checkable
class PolicyClass(Protocol):
    """A set Π of policies, known through its size and its argmax oracle.

    n_actions: how many actions there are.
    log_size: log|Π|, or an upper bound on it.
    exact: whether `argmax` finds a true maximiser, on which a guarantee may rest.
    """

    @property
    def n_actions(self) -> int: ...
    @property
    def log_size(self) -> float: ...
    @property
    def exact(self) -> bool: ...

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        """A policy that maximises `Σ_i scores[i, π(c_i)]`, for scores (n, A) of any sign.

        Ties break the same way always. The weights of the contexts play no part: whoever makes the scores has
        multiplied them in.
        """
        ...


@runtime_checkable
class FrontierClass(PolicyClass, Protocol):
    """A policy class that can also say what two scores can be had together."""

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """The Pareto frontier of `(Σ first[i, π(c_i)], Σ second[i, π(c_i)])` over Π, both to be large."""
        ...


@runtime_checkable
class EnumeratedClass(PolicyClass, Protocol):
    """A policy class small enough to list."""

    def __len__(self) -> int:
        """How many policies there are."""
        ...

    def policy(self, index: int) -> Policy:
        """The policy of the given number, from 0."""
        ...

    def actions(self, contexts: Contexts) -> FloatArray | np.ndarray[tuple[int, int], np.dtype[np.unsignedinteger]]:
        """The action (|Π|, n) of every policy on every context."""
        ...


@runtime_checkable
class ClosedClass(PolicyClass, Protocol):
    """A policy class that knows its own, whatever contexts it is asked on."""

    def has(self, policy: Policy) -> bool:
        """Whether this is one of its policies."""
        ...


@runtime_checkable
class SimplifyingClass(PolicyClass, Protocol):
    """A policy class some of whose policies are simpler than others."""

    def simplest(
        self, policy: Policy, contexts: Contexts, losses: FloatArray, squares: FloatArray, *, standard_errors: float
    ) -> Policy:
        """The simplest of its policies, made from the given one, that loses at most so many standard errors against it.

        losses (m, A): what an action costs in the place of the policy's own, as estimated. squares (m, A): what sums to
        the square of the standard error of that.
        """
        ...


@runtime_checkable
class PartingClass(SimplifyingClass, Protocol):
    """A class that says on which parts of all contexts a policy, and any simpler one made from it, acts alike."""

    def parts(self, policy: Policy, contexts: Contexts) -> IntArray:
        """The part (n,) that each context is in, from 0."""
        ...


@runtime_checkable
class FiniteSetClass(PolicyClass, Protocol):
    """A policy class over a finite set of contexts, which it knows by their ids.

    n_contexts: how many contexts there are.
    """

    @property
    def n_contexts(self) -> int: ...


@runtime_checkable
class EveryMap(FiniteSetClass, FrontierClass, Protocol):
    """The class of all maps from a finite set of contexts to actions: each context can be decided by itself."""

    def policy_of(self, actions: IntArray) -> Policy:
        """The policy that takes these actions (n_contexts,)."""
        ...


@runtime_checkable
class AskingClass(PolicyClass, Protocol):
    """A policy class whose policies ask about features by their names.

    feature_names: those that its policies may ask about.
    """

    @property
    def feature_names(self) -> tuple[str, ...]: ...


@runtime_checkable
class DescribedClass(PolicyClass, Protocol):
    """A policy class that says in words what it is."""

    def describe(self) -> str:
        """The kind of policies, in a few words."""
        ...


@runtime_checkable
class DetailedClass(PolicyClass, Protocol):
    """A policy class that says what its policies can ask, so that a reader can tell it from a hollow one."""

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """What policies can ask and where they can cut, a line each, and whether that parts these contexts."""
        ...


@runtime_checkable
class StoredClass(PolicyClass, Protocol):
    """A policy class that can be written to a file."""

    def to_json(self) -> dict[str, Any]:
        """What makes the same class again, and a `kind` of its own; two classes that write the same are the same."""
        ...


@runtime_checkable
class GreedyClass(PolicyClass, Protocol):
    """A policy class beside which the greedy policy for any real parameter, `argmax_a ⟨φ(c, a), θ⟩`, may stand.

    accepts_greedy: whether such a policy may be the answer when this class is asked for.
    """

    @property
    def accepts_greedy(self) -> bool: ...


@runtime_checkable
class WithdrawnClass(PolicyClass, Protocol):
    """A policy class whose policies never take certain actions.

    withdrawn: these.
    """

    @property
    def withdrawn(self) -> tuple[int, ...]: ...


@runtime_checkable
class ReadingClass(PolicyClass, Protocol):
    """A policy class that can read its own policies again."""

    def policy_from_json(self, value: dict[str, Any]) -> Policy:
        """The policy whose `to_json` this is."""
        ...


@dataclass(frozen=True)
class Cost:
    """What a search takes on this machine: an estimate, right to a factor of about 3.

    seconds: of the clock on the wall, with all cores at work.
    memory_bytes: at the most at once, beside what is held anyway.
    """

    seconds: float
    memory_bytes: float

    def __add__(self, other: Cost) -> Cost:
        """One search after the other."""
        return Cost(self.seconds + other.seconds, max(self.memory_bytes, other.memory_bytes))

    def __mul__(self, times: int) -> Cost:
        """So many searches one after the other."""
        return Cost(self.seconds * times, self.memory_bytes if times else 0.0)


@runtime_checkable
class CostedClass(PolicyClass, Protocol):
    """A policy class that can say beforehand what its searches will take.

    size_words: the sizes on which that depends, in words.
    lighter: what a caller may change for less of it.
    """

    @property
    def size_words(self) -> str: ...
    @property
    def lighter(self) -> str: ...

    def argmax_cost(self, n_rows: int) -> Cost:
        """What an argmax takes on so many contexts."""
        ...


@runtime_checkable
class PricedClass(PolicyClass, Protocol):
    """A policy class whose policies keep a budget.

    budget: what a policy costs at the most, on average over the contexts that the class was made for.
    costs (A,): what each action costs.
    """

    @property
    def budget(self) -> float: ...

    @property
    def costs(self) -> FloatArray: ...

    def mean_cost(self, chosen: Chosen, contexts: Contexts) -> float:
        """What a policy, or a lottery in the mean, costs on average over contexts with their weights."""
        ...


@runtime_checkable
class CostedFrontierClass(CostedClass, Protocol):
    """A policy class that can also say it of its frontier."""

    def frontier_cost(self, n_rows: int) -> Cost:
        """What a frontier takes on so many contexts."""
        ...


# A function of the first and the second score that rises with both.
RisingValue = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Frontier:
    """Points that together dominate every policy of a class, and policies that reach them.

    When `exact`, `policy(i)` attains point i and no policy attains more. Otherwise points were rounded outward: every
    policy is still dominated by some point, so the maximum of a function monotone in both is a valid upper bound, and
    `policy(i)` comes close to point i from below.

    first (m,): of the points; strictly falls.
    second (m,): of the points; strictly rises.
    exact: whether every point is attained.
    build: makes the policy of a point.
    search: up to so many policies at which a value is large, from all over the class; None where there is no search.
    """

    first: FloatArray
    second: FloatArray
    exact: bool
    build: Callable[[int], Policy]
    search: Callable[[RisingValue, int], Sequence[Policy]] | None = None

    def __len__(self) -> int:
        return self.first.shape[0]

    def policy(self, index: int) -> Policy:
        """A policy at (or, when rounded, near) the given point."""
        return self.build(int(index))

    def large(self, value: RisingValue, *, most: int) -> tuple[Policy, ...]:
        """Up to `most` policies at which `value(first, second)`, a function that rises with both, is large.

        The maximiser comes first. The others come from all over the class where it has a `search` of its own, and then
        need not lie on the frontier; else from along the frontier.
        """
        values = value(self.first, self.second)
        pieces = np.array_split(np.arange(len(values)), min(most, len(values)))
        tops = sorted((int(piece[values[piece].argmax()]) for piece in pieces), key=lambda i: -values[i])
        if self.search is None:
            return tuple(self.policy(i) for i in tops)
        few = max(1, most // 5)
        return (*(self.policy(i) for i in tops[:few]), *self.search(value, most - few))


def check_class(policies: object) -> PolicyClass:
    """Raise unless this is a policy class."""
    remedy = "make one by Trees.learn, Linear.learn, Finite or load_policies"
    return instance(policies, PolicyClass, name="policies", remedy=remedy)


def check_n_actions(n_actions: object) -> int:
    """How many actions there are, 1 or more."""
    return whole_number(n_actions, name="n_actions", least=1)


def check_scores(scores: FloatArray, *, contexts: Contexts, n_actions: int, name: str = "scores") -> FloatArray:
    """Scores as a finite (n, A) array, or a sentence."""
    check_contexts(contexts)
    ready = isinstance(cast(object, scores), np.ndarray) and scores.dtype == np.float64
    if ready and scores.shape == (len(contexts), n_actions):
        if not np.isfinite(scores).all():
            raise InputError(f"{name} must be finite")
        return scores
    return floats(scores, name=name, shape=(len(contexts), n_actions))


def compact(n_actions: int) -> type[np.unsignedinteger]:
    """The smallest unsigned integer type that holds an action."""
    return np.uint8 if n_actions <= 256 else np.uint16 if n_actions <= 65536 else np.uint32


def at_stake(scores: FloatArray) -> float:
    """All that could be lost by the choice of actions, for scores (n, A)."""
    return float((scores.max(axis=1) - scores.min(axis=1)).sum())


def total(scores: FloatArray, actions: IntArray) -> float:
    """`Σ_i scores[i, actions[i]]`, for scores (n, A) and actions (n,)."""
    return float(scores[np.arange(len(actions)), actions].sum())

"""The interface of a policy class: four required members, and capabilities that a class may add.

A policy class derives from `PolicyClass`, or has its four required members; `check_class` accepts both. Callers test
for a capability by its flag (`policies.has_frontier`, `policies.lists_policies`), never by type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np

from pacbandits.arrays import FloatArray, IntArray, floats
from pacbandits.checks import instance, text, whole_number
from pacbandits.errors import InputError
from pacbandits.machine import free_memory_bytes
from pacbandits.options import Option, check_options, declared_options, read_options
from pacbandits.records.contexts import Contexts, check_contexts
from pacbandits.records.policy import Chosen, Policy

if TYPE_CHECKING:
    from pacbandits.policies.summation import Summation


@dataclass(frozen=True)
class SearchCost:
    """The estimated cost of a search on this machine, correct to a factor of about 3.

    seconds: wall time, with all cores in use.
    memory_bytes: peak memory, in addition to what is already allocated.
    """

    seconds: float
    memory_bytes: float

    def __add__(self, other: SearchCost) -> SearchCost:
        """Return the cost of two searches run one after the other."""
        return SearchCost(self.seconds + other.seconds, max(self.memory_bytes, other.memory_bytes))

    def __mul__(self, times: int) -> SearchCost:
        """Return the cost of `times` searches run one after the other."""
        return SearchCost(self.seconds * times, self.memory_bytes if times else 0.0)


# A function of the first and the second score that is increasing in both.
RisingValue = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Frontier:
    """Points that together dominate every policy of a class, and policies that reach them.

    When `exact`, `policy(i)` attains point i and no policy attains more. Otherwise points were rounded outward: every
    policy is still dominated by some point, so the maximum of a function monotone in both is a valid upper bound, and
    `policy(i)` comes close to point i from below.

    first (m,): first scores of the points, strictly decreasing.
    second (m,): second scores of the points, strictly increasing.
    exact: whether every point is attained.
    build: makes the policy of a point.
    search: returns up to a given number of policies with a large value, from the whole class; None if unavailable.
    """

    first: FloatArray
    second: FloatArray
    exact: bool
    build: Callable[[int], Policy]
    search: Callable[[RisingValue, int], Sequence[Policy]] | None = None

    def __len__(self) -> int:
        return self.first.shape[0]

    def policy(self, index: int) -> Policy:
        """Return a policy at (or, when rounded, near) the given point."""
        return self.build(int(index))

    def large(self, value: RisingValue, *, most: int) -> tuple[Policy, ...]:
        """Return up to `most` policies with a large `value(first, second)`, a function increasing in both.

        The maximiser comes first. The others come from the whole class if the frontier has a `search`, and then need
        not lie on the frontier; otherwise they are spread along the frontier.
        """
        values = value(self.first, self.second)
        pieces = np.array_split(np.arange(len(values)), min(most, len(values)))
        tops = sorted((int(piece[values[piece].argmax()]) for piece in pieces), key=lambda i: -values[i])
        if self.search is None:
            return tuple(self.policy(i) for i in tops)
        few = max(1, most // 5)
        return (*(self.policy(i) for i in tops[:few]), *self.search(value, most - few))

    def mapped(self, change: Callable[[Policy], Policy]) -> Frontier:
        """Return the frontier with the same points and `change` applied to each policy."""

        def search(value: RisingValue, most: int) -> list[Policy]:
            return [] if self.search is None else [change(one) for one in self.search(value, most)]

        return Frontier(
            self.first,
            self.second,
            exact=self.exact,
            build=lambda index: change(self.policy(index)),
            search=None if self.search is None else search,
        )


class PolicyClass(ABC):
    """A set Π of policies, represented by its size and its argmax oracle.

    Three attributes and `argmax` are required; everything else is a capability with a default. A flag says whether a
    class has a capability. It is set automatically where a class defines the methods; a class whose capability depends
    on the object sets the flag on each object.

    n_actions: the number of actions.
    log_size: log|Π|, or an upper bound on it.
    exact: whether `argmax` finds a true maximiser, as a guarantee requires.
    lists_policies: whether `len`, `policy` and `actions` list all policies.
    has_frontier: whether `frontier` is available.
    checks_membership: whether `has` decides if a policy belongs to the class.
    simplifies_policies: whether `simplest` finds simpler policies.
    divides_contexts: whether `parts` is available.
    holds_every_map: whether the class contains all maps from a finite set of contexts to actions (see `policy_of`).
    reads_policies: whether `policy_from_json` is available.
    searches_budgets: whether `argmax_within` and `know` are available.
    n_contexts: the size of the finite set of contexts, with ids, on which its policies are defined; 0 for a class
        that accepts any contexts.
    feature_names: the features that its policies may use, if it refers to features by name.
    accepts_greedy: whether the greedy policy for any real parameter, `argmax_a ⟨φ(c, a), θ⟩`, is an admissible answer
        for this class.
    withdrawn: the excluded actions, which no policy takes.
    excludes: whether an action is excluded in some contexts, so that giving it to everybody is no policy of the class.
    budget: the largest mean cost of a policy, over the contexts that the class was made for; infinite without one.
    costs (A,): the cost of each action, if there is a budget.
    """

    n_actions: int
    log_size: float
    exact: bool

    lists_policies: bool = False
    has_frontier: bool = False
    checks_membership: bool = False
    simplifies_policies: bool = False
    divides_contexts: bool = False
    holds_every_map: bool = False
    reads_policies: bool = False
    searches_budgets: bool = False
    n_contexts: int = 0
    feature_names: tuple[str, ...] = ()
    accepts_greedy: bool = False
    withdrawn: tuple[int, ...] = ()
    excludes: bool = False
    budget: float = inf
    costs: FloatArray

    # The methods that each flag requires.
    flags: ClassVar[dict[str, tuple[str, ...]]] = {
        "lists_policies": ("__len__", "policy", "actions"),
        "has_frontier": ("frontier",),
        "checks_membership": ("has",),
        "simplifies_policies": ("simplest",),
        "divides_contexts": ("simplest", "parts"),
        "holds_every_map": ("policy_of", "frontier"),
        "reads_policies": ("policy_from_json",),
        "searches_budgets": ("argmax_within", "know"),
    }

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for flag, methods in PolicyClass.flags.items():
            if flag not in vars(cls) and any(name in vars(cls) for name in methods):
                setattr(cls, flag, all(getattr(cls, name) is not getattr(PolicyClass, name) for name in methods))

    @abstractmethod
    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        """Return a policy that maximises `Σ_i scores[i, π(c_i)]`, for scores (n, A) of any sign.

        Tie-breaking is deterministic. The weights of the contexts are not used: the scores include them.
        """

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """Return the number of policies."""
        raise self._unsupported("list its policies")

    def policy(self, index: int) -> Policy:
        """Return the policy with the given index, from 0."""
        raise self._unsupported("list its policies")

    def actions(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        """Return the action (|Π|, n) of every policy on every context."""
        raise self._unsupported("list its policies")

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """Return the Pareto frontier of `(Σ first[i, π(c_i)], Σ second[i, π(c_i)])` over Π, both maximised."""
        raise self._unsupported("find the frontier of two scores")

    def has(self, policy: Policy) -> bool:
        """Return whether a policy belongs to the class, as a function on all contexts."""
        raise self._unsupported("tell its own policies from others")

    def simplest(
        self, policy: Policy, contexts: Contexts, losses: FloatArray, squares: FloatArray, *, standard_errors: float
    ) -> Policy:
        """Return the simplest policy derived from the given one that loses at most `standard_errors` standard errors.

        losses (m, A): the estimated loss of each action relative to the policy's own action. squares (m, A): the terms
        that sum to the squared standard error of the total loss.
        """
        return policy

    def simpler(self) -> tuple[PolicyClass, ...]:
        """Return the nested classes of simpler policies, the simplest first; each contains those before it."""
        return ()

    def parts(self, policy: Policy, contexts: Contexts) -> IntArray:
        """Return the part (n,) of each context, from 0; a policy and its simplifications are constant on each part."""
        raise self._unsupported("divide contexts")

    def policy_of(self, actions: IntArray) -> Policy:
        """Return the policy that takes these actions (n_contexts,)."""
        raise self._unsupported("make any map")

    def describe(self) -> str:
        """Return the kind of policies in a few words."""
        return self.type_name

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """Return one line for each feature that policies use, with its splits and their effect on these contexts."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values with a `kind`; equal classes give equal values."""
        raise InputError(
            f"the policy class {self.type_name} has no description in JSON (no to_json), so it cannot be written to a "
            "file"
        )

    def policy_from_json(self, value: dict[str, Any]) -> Policy:
        """Read a policy from the output of its `to_json`."""
        raise self._unsupported("read policies")

    def argmax_cost(self, n_rows: int) -> SearchCost | None:
        """Return the cost of an argmax on `n_rows` contexts; None if unknown."""
        return None

    def frontier_cost(self, n_rows: int) -> SearchCost | None:
        """Return the cost of a frontier on `n_rows` contexts; None if unknown."""
        return None

    @property
    def size_words(self) -> str:
        """The sizes on which costs depend, in words."""
        return self.describe()

    @property
    def lighter(self) -> str:
        """Advice on how to reduce search costs."""
        return "take a smaller class"

    @property
    def type_name(self) -> str:
        """The name of the Python class, for messages."""
        return type(self).__name__

    def mean_cost(self, chosen: Chosen, contexts: Contexts) -> float:
        """Return the weighted mean cost of a policy or mixture policy over contexts; only for classes with a budget."""
        raise self._unsupported("cost policies")

    def argmax_within(
        self, contexts: Contexts, scores: FloatArray, *, known: Contexts, costs: FloatArray, most: float
    ) -> Policy | None:
        """Return a maximiser of `Σ_i scores[i, π(c_i)]` subject to `Σ_j costs[j, π(known_j)] ≤ most`, or None.

        scores (n, A), costs (m, A).
        """
        raise self._unsupported("search within a budget")

    def know(self, contexts: Contexts) -> Any:
        """Return the contexts reduced to what its policies distinguish (`KnownContexts`)."""
        raise self._unsupported("search within a budget")

    def narrowed(self, kept: tuple[int, ...]) -> PolicyClass | None:
        """Return the subclass that takes only these actions, renumbered from 0; None if unsupported."""
        return None

    def summing(self) -> Summation | None:
        """Return the row summation for a search by sums; None for a class that needs all rows at once."""
        return None

    def attained(self, contexts: Contexts, scores: FloatArray, policy: Policy) -> float:
        """Return `Σ_i scores[i, π(c_i)]`, for scores (n, A), or for the sums that the class accepts instead."""
        return total(scores, policy(contexts))

    def _unsupported(self, what: str) -> InputError:
        return InputError(f"the policy class {self.type_name} cannot {what}")


# The optional members that a wrapper forwards, besides flags and descriptions.
_FORWARDED = (
    *("policy", "actions", "frontier", "has", "simplest", "parts", "policy_of", "policy_from_json"),
    *("n_contexts", "feature_names", "accepts_greedy", "withdrawn", "excludes", "budget", "costs", "mean_cost"),
    *("describe", "details", "to_json", "argmax_cost", "frontier_cost", "argmax_within", "know"),
    *("narrowed", "summing", "attained", "simpler"),
)


class WrappedClass(PolicyClass):
    """A policy class that delegates to another object, except for the methods that a subclass defines.

    policies: the wrapped object: a policy class, or any object with the required members and some of the others.
    """

    def __init__(self, policies: Any) -> None:
        self.policies = policies
        self.n_actions, self.log_size, self.exact = policies.n_actions, policies.log_size, policies.exact
        for name in _FORWARDED:
            found = getattr(policies, name, None)
            if found is not None and getattr(type(self), name, None) is getattr(PolicyClass, name, None):
                setattr(self, name, found)
        for flag, methods in PolicyClass.flags.items():
            offered = all(getattr(policies, name, None) is not None for name in methods)
            setattr(self, flag, bool(getattr(policies, flag, offered)))

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        return self.policies.argmax(contexts, scores)

    def __len__(self) -> int:
        return len(self.policies)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "policies":
            raise AttributeError(name)
        return getattr(self.policies, name)

    def __repr__(self) -> str:
        return repr(self.policies)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.policies == cast(WrappedClass, other).policies

    def __hash__(self) -> int:
        return hash(self.policies)

    def __reduce__(self) -> tuple[type[WrappedClass], tuple[Any]]:
        return type(self), (self.policies,)

    @property
    def size_words(self) -> str:
        return getattr(self.policies, "size_words", super().size_words)

    @property
    def lighter(self) -> str:
        return getattr(self.policies, "lighter", super().lighter)

    @property
    def type_name(self) -> str:
        return getattr(self.policies, "type_name", type(self.policies).__name__)


class CountedClass(WrappedClass):
    """A policy class that counts the calls of its oracles; listing its policies does not count.

    calls: the number of calls so far.
    """

    def __init__(self, policies: PolicyClass) -> None:
        super().__init__(policies)
        self.calls = 0

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        self.calls += 1
        return self.policies.argmax(contexts, scores)

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        self.calls += 1
        return self.policies.frontier(contexts, first, second)


class ArgmaxOnly(PolicyClass):
    """A policy class reduced to its required members."""

    def __init__(self, policies: PolicyClass) -> None:
        self.policies = policies
        self.n_actions, self.log_size, self.exact = policies.n_actions, policies.log_size, policies.exact

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        return self.policies.argmax(contexts, scores)


class RememberingClass(ArgmaxOnly):
    """A class whose argmax returns the best policy, for the scores at hand, of all it has found on these contexts."""

    def __init__(self, policies: PolicyClass, contexts: Contexts) -> None:
        super().__init__(policies)
        self._contexts = contexts
        self._found: list[tuple[Policy, IntArray]] = []

    def argmax(self, contexts: Contexts, scores: FloatArray) -> Policy:
        policy = self.policies.argmax(contexts, scores)
        if contexts is not self._contexts:
            return policy
        self._found.append((policy, np.asarray(policy(contexts), dtype=np.int64)))
        return max(self._found, key=lambda one: total(scores, one[1]))[0]


def check_class(policies: object) -> PolicyClass:
    """Return a policy class as it is, and any other object with the required members wrapped into one.

    Raises:
        InputError: For anything else.
    """
    required = ("n_actions", "log_size", "exact", "argmax")
    if not isinstance(policies, type) and all(getattr(policies, name, None) is not None for name in required):
        return policies if isinstance(policies, PolicyClass) else WrappedClass(policies)
    remedy = "make one by Trees.learn, Linear.learn, Finite or load_policies"
    if isinstance(policies, PolicyClass):
        lacking = ", ".join(name for name in required if getattr(policies, name, None) is None)
        raise InputError(f"policies: {policies.type_name} lacks {lacking}, which every policy class has")
    return instance(policies, PolicyClass, name="policies", remedy=remedy)


def check_n_actions(n_actions: object) -> int:
    """Return the number of actions; raise InputError unless it is a whole number ≥ 1."""
    return whole_number(n_actions, name="n_actions", least=1)


def check_scores(scores: FloatArray, *, contexts: Contexts, n_actions: int, name: str = "scores") -> FloatArray:
    """Return the scores as a finite (n, A) array; raise InputError if they are not."""
    check_contexts(contexts)
    ready = isinstance(cast(object, scores), np.ndarray) and scores.dtype == np.float64
    if ready and scores.shape == (len(contexts), n_actions):
        if not np.isfinite(scores).all():
            raise InputError(f"{name} must be finite")
        return scores
    return floats(scores, name=name, shape=(len(contexts), n_actions))


def compact(n_actions: int) -> type[np.unsignedinteger]:
    """Return the smallest unsigned integer type that holds an action."""
    return np.uint8 if n_actions <= 256 else np.uint16 if n_actions <= 65536 else np.uint32


def at_stake(scores: FloatArray) -> float:
    """Return `Σ_i (max_a scores[i, a] − min_a scores[i, a])`: no two policies differ by more on scores (n, A)."""
    return float((scores.max(axis=1) - scores.min(axis=1)).sum())


def total(scores: FloatArray, actions: IntArray) -> float:
    """Return `Σ_i scores[i, actions[i]]`, for scores (n, A) and actions (n,)."""
    return float(scores[np.arange(len(actions)), actions].sum())


# A cache of values that a policy class computes for contexts; an entry lives as long as its contexts.


Made = TypeVar("Made")


class PerContexts(Generic[Made]):
    """A cache of one value for each `Contexts` object, as designs query the same contexts repeatedly.

    It holds contexts by weak reference. A cached value must not refer to its contexts, or neither is ever freed.
    """

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Contexts, Made] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._made)

    def __reduce__(self) -> tuple[type[PerContexts[Made]], tuple[()]]:
        """Pickle as an empty cache."""
        return PerContexts, ()

    def get(self, contexts: Contexts, make: Callable[[Contexts], Made]) -> Made:
        """Return the cached value for these contexts, or make and cache it."""
        made = self._made.get(contexts)
        if made is None:
            made = self._made[contexts] = make(contexts)
        return made


# Cost estimates before a computation starts, and an error if memory does not suffice.


ARGMAXES_FOR_A_FRONTIER = 2  # argmax calls that replace a frontier, for a class without one
PATIENCE_SECONDS = 30.0  # longer computations are announced


class Searches(NamedTuple):
    """The approximate number of oracle calls of a computation.

    argmaxes: argmax calls.
    frontiers: frontier calls, if the class has a frontier.
    """

    argmaxes: int
    frontiers: int


def count_rows(contexts: Contexts) -> int:
    """Return the number of distinct contexts in a search: one for each id if there are ids, else one for each row."""
    return len(contexts) if contexts.ids is None else len(np.unique(contexts.ids))


def expect_cost(policies: PolicyClass, n_rows: int, searches: Searches) -> tuple[SearchCost, int] | None:
    """Return the total cost and the number of these searches; None if the class gives no estimate.

    None also for a class that lists its policies: it is not searched by oracle calls.
    """
    one, front = policies.argmax_cost(n_rows), policies.frontier_cost(n_rows)
    if one is None or policies.lists_policies:
        return None
    if front is not None:
        return one * searches.argmaxes + front * searches.frontiers, searches.argmaxes + searches.frontiers
    calls = searches.argmaxes + ARGMAXES_FOR_A_FRONTIER * searches.frontiers
    return one * calls, calls


def check_memory(policies: PolicyClass, n_rows: int, *, free_bytes: int | None = None) -> None:
    """Raise InputError if a search on `n_rows` contexts would need more memory than is free.

    free_bytes: free memory; measured on this machine by default.
    """
    costs = (policies.argmax_cost(n_rows), policies.frontier_cost(n_rows))
    needed = max((cost.memory_bytes for cost in costs if cost is not None), default=0.0)
    free = free_memory_bytes() if free_bytes is None else free_bytes
    if free is not None and needed > free:
        raise InputError(
            f"{policies.size_words} on {n_rows:,} rows would take about {spell_bytes(needed)} of memory, and "
            f"{spell_bytes(free)} are free; {policies.lighter}"
        )


def foretell(
    policies: PolicyClass, n_rows: int, searches: Searches, *, patience_seconds: float = PATIENCE_SECONDS
) -> str:
    """Return one line that predicts the cost of these searches; empty if they are short or the cost is unknown."""
    expected = expect_cost(policies, n_rows, searches)
    if expected is None or expected[0].seconds <= patience_seconds:
        return ""
    cost, calls = expected
    each = f"{spell_seconds(cost.seconds / calls)} and {spell_bytes(cost.memory_bytes)} for each"
    return (
        f"{policies.size_words} on {n_rows:,} rows: about {each} of some {calls:,} searches, "
        f"{spell_seconds(cost.seconds)} in all"
    )


def spell_seconds(seconds: float) -> str:
    """Return a duration in words, to one or two digits."""
    for unit, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1g} s"


def spell_bytes(amount: float) -> str:
    """Return an amount of memory in words."""
    if amount >= 0.95e9:
        return f"{amount / 1e9:,.0f} GB" if amount >= 10e9 else f"{amount / 1e9:.1f} GB"
    return f"{max(amount / 1e6, 1):.0f} MB"


# The decorator `policy_class` turns a function into a named policy class: its keyword arguments are declared, checked
# options.


@dataclass(frozen=True, eq=False)
class ClassSpec:
    """A policy class that can be requested by name.

    name: the name in a spec.
    description: one line.
    options: the options it accepts.
    build: makes the class for contexts, `n_actions` and options.
    learns: whether the class depends on more of the contexts than which ones there are.
    sharing: options that refer to shares of the contexts, and so need many of them.
    restricted: describes the restriction that options (spelt as in a spec) impose, given the number of contexts.
    """

    name: str
    description: str
    options: tuple[Option, ...]
    build: Callable[..., PolicyClass]
    learns: bool = True
    sharing: frozenset[str] = frozenset()
    restricted: Callable[[Mapping[str, str], int], str] | None = None

    def __call__(self, contexts: Contexts, *, n_actions: int, **options: Any) -> PolicyClass:
        """Return the class for these contexts."""
        check_contexts(contexts)
        check_n_actions(n_actions)
        checked: dict[str, Any] = check_options(options, self.options, of=f"policy class '{self.name}'")
        return self.build(contexts, n_actions=n_actions, **checked)

    def from_text(self, given: Mapping[str, str], contexts: Contexts, *, n_actions: int) -> PolicyClass:
        """Return the class for these contexts, with options as spelt in a spec."""
        options: dict[str, Any] = read_options(given, self.options, of=f"policy class '{self.name}'")
        return self.build(contexts, n_actions=n_actions, **options)


def policy_class(
    name: str, *, description: str, learns: bool = True
) -> Callable[[Callable[..., PolicyClass]], ClassSpec]:
    """Turn a function of contexts, `n_actions` and declared options into a named policy class.

    learns: whether the class depends on more of the contexts than which ones there are.
    """
    text(name, name="name")
    text(description, name="description")

    def declare(function: Callable[..., PolicyClass]) -> ClassSpec:
        return ClassSpec(name, description, declared_options(function), function, learns)

    return declare

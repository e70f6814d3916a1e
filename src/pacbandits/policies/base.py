"""The interface of a policy class: four required members, and capabilities that a class may add.

A policy class derives from `PolicyClass`, or has its four required members; `check_class` accepts both. Whoever needs a
capability asks the class for it (`policies.has_frontier`, `policies.lists_policies`), never for a type.
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
from pacbandits.records import Chosen, Contexts, Policy, check_contexts

if TYPE_CHECKING:
    from pacbandits.policies.summation import Summation


@dataclass(frozen=True)
class SearchCost:
    """What a search takes on this machine: an estimate, right to a factor of about 3.

    seconds: of wall time, with all cores at work.
    memory_bytes: the peak, beside what is held anyway.
    """

    seconds: float
    memory_bytes: float

    def __add__(self, other: SearchCost) -> SearchCost:
        """One search after the other."""
        return SearchCost(self.seconds + other.seconds, max(self.memory_bytes, other.memory_bytes))

    def __mul__(self, times: int) -> SearchCost:
        """So many searches one after the other."""
        return SearchCost(self.seconds * times, self.memory_bytes if times else 0.0)


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

    def mapped(self, change: Callable[[Policy], Policy]) -> Frontier:
        """The same points, each policy changed by a function."""

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
    """A set Π of policies, known through its size and its argmax oracle.

    Required are three attributes and `argmax`; everything else is a capability with a default. A flag says whether a
    class has a capability. It is set where the methods are defined; a class that has them for some of its objects
    only sets the flag on each object.

    n_actions: the number of actions.
    log_size: log|Π|, or an upper bound on it.
    exact: whether `argmax` finds a true maximiser, on which a guarantee may rest.
    lists_policies: whether `len`, `policy` and `actions` list all policies.
    has_frontier: whether `frontier` is available.
    checks_membership: whether `has` decides if a policy belongs to the class.
    simplifies_policies: whether `simplest` finds simpler policies.
    divides_contexts: whether `parts` is available.
    holds_every_map: whether the class is all maps from a finite set of contexts to actions, made by `policy_of`.
    reads_policies: whether `policy_from_json` is available.
    searches_budgets: whether `argmax_within` and `know` are available.
    n_contexts: the size of the finite set of contexts that its policies are defined on, which have ids; 0 for a class
        on any contexts.
    feature_names: the features that its policies may ask about, if it asks by name.
    accepts_greedy: whether the greedy policy for any real parameter, `argmax_a ⟨φ(c, a), θ⟩`, may be the answer when
        this class is asked for.
    withdrawn: the excluded actions, which no policy takes.
    budget: the largest mean cost of a policy, over the contexts that the class was made for; infinite without one.
    costs (A,): of each action, where there is a budget.
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
    budget: float = inf
    costs: FloatArray

    # The methods that each flag stands for.
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
        """A policy that maximises `Σ_i scores[i, π(c_i)]`, for scores (n, A) of any sign.

        Ties break the same way always. The weights of the contexts play no part: the scores include them.
        """

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """The number of policies."""
        raise self._unsupported("list its policies")

    def policy(self, index: int) -> Policy:
        """The policy of the given number, from 0."""
        raise self._unsupported("list its policies")

    def actions(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        """The action (|Π|, n) of every policy on every context."""
        raise self._unsupported("list its policies")

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """The Pareto frontier of `(Σ first[i, π(c_i)], Σ second[i, π(c_i)])` over Π, both to be large."""
        raise self._unsupported("find the frontier of two scores")

    def has(self, policy: Policy) -> bool:
        """Whether this is one of its policies, whatever contexts it is asked on."""
        raise self._unsupported("tell its own policies from others")

    def simplest(
        self, policy: Policy, contexts: Contexts, losses: FloatArray, squares: FloatArray, *, standard_errors: float
    ) -> Policy:
        """The simplest policy made from the given one that loses at most so many standard errors against it.

        losses (m, A): the estimated loss of an action against the policy's own. squares (m, A): the terms whose sum is
        the square of the standard error of that.
        """
        return policy

    def parts(self, policy: Policy, contexts: Contexts) -> IntArray:
        """The part (n,) of each context, from 0; a policy, and any simpler one made from it, acts alike on a part."""
        raise self._unsupported("divide contexts")

    def policy_of(self, actions: IntArray) -> Policy:
        """The policy that takes these actions (n_contexts,)."""
        raise self._unsupported("make any map")

    def describe(self) -> str:
        """The kind of policies, in a few words."""
        return self.type_name

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """What policies can ask and where they can cut, a line each, and whether that divides these contexts."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """A description that makes the same class again, with a `kind` of its own; equal for equal classes."""
        raise InputError(
            f"the policy class {self.type_name} has no description in JSON (no to_json), so it cannot be written to a "
            "file"
        )

    def policy_from_json(self, value: dict[str, Any]) -> Policy:
        """The policy whose `to_json` this is."""
        raise self._unsupported("read policies")

    def argmax_cost(self, n_rows: int) -> SearchCost | None:
        """The cost of an argmax on so many contexts; None where it is not known."""
        return None

    def frontier_cost(self, n_rows: int) -> SearchCost | None:
        """The cost of a frontier on so many contexts; None where it is not known."""
        return None

    @property
    def size_words(self) -> str:
        """The sizes on which costs depend, in words."""
        return self.describe()

    @property
    def lighter(self) -> str:
        """What a caller may change for lower costs."""
        return "take a smaller class"

    @property
    def type_name(self) -> str:
        """The name of the Python class, for messages."""
        return type(self).__name__

    def mean_cost(self, chosen: Chosen, contexts: Contexts) -> float:
        """The mean cost of a policy or a mixture over contexts with their weights, where there is a budget."""
        raise self._unsupported("cost policies")

    def argmax_within(
        self, contexts: Contexts, scores: FloatArray, *, known: Contexts, costs: FloatArray, most: float
    ) -> Policy | None:
        """A policy that maximises `Σ_i scores[i, π(c_i)]` among those with `Σ_j costs[j, π(known_j)] ≤ most`, if any.

        scores (n, A), costs (m, A).
        """
        raise self._unsupported("search within a budget")

    def know(self, contexts: Contexts) -> Any:
        """Contexts as far as its policies tell them apart (`trees.known.KnownContexts`)."""
        raise self._unsupported("search within a budget")

    def narrowed(self, kept: tuple[int, ...]) -> PolicyClass | None:
        """Its policies that take these actions alone, numbered from 0, on any context; None if unsupported."""
        return None

    def summing(self) -> Summation | None:
        """How scores are summed over rows for a search by sums; None for a class that needs all rows at once."""
        return None

    def attained(self, contexts: Contexts, scores: FloatArray, policy: Policy) -> float:
        """`Σ_i scores[i, π(c_i)]`, for scores (n, A), or for the sums that a class takes instead."""
        return total(scores, policy(contexts))

    def _unsupported(self, what: str) -> InputError:
        return InputError(f"the policy class {self.type_name} cannot {what}")


# The optional members that a wrapper forwards, besides flags and words.
_FORWARDED = (
    *("policy", "actions", "frontier", "has", "simplest", "parts", "policy_of", "policy_from_json"),
    *("n_contexts", "feature_names", "accepts_greedy", "withdrawn", "budget", "costs", "mean_cost"),
    *("describe", "details", "to_json", "argmax_cost", "frontier_cost", "argmax_within", "know"),
    *("narrowed", "summing", "attained"),
)


class WrappedClass(PolicyClass):
    """A policy class that does what another object does, except for the methods that a subclass defines.

    policies: the other: a policy class, or any object with the required members and some of the others.
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
    """A policy class that counts the calls of its oracles; listing its policies is no call.

    calls: so far.
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
    """A class whose argmax returns the best of all policies it has found on these contexts, for whatever scores."""

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


# What a policy class makes of contexts, kept for as long as these are.


Made = TypeVar("Made")


class PerContexts(Generic[Made]):
    """A memory of what was made of contexts: designs ask about the same ones again and again.

    It holds no contexts itself. What is made must not hold them either, or it would keep them, and itself, for ever.
    """

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Contexts, Made] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._made)

    def __reduce__(self) -> tuple[type[PerContexts[Made]], tuple[()]]:
        """Another process begins with no memories."""
        return PerContexts, ()

    def get(self, contexts: Contexts, make: Callable[[Contexts], Made]) -> Made:
        """What was made of these contexts before, or else is made now."""
        made = self._made.get(contexts)
        if made is None:
            made = self._made[contexts] = make(contexts)
        return made


# What a computation will take of a policy class, said before it begins; and a refusal where memory will not do.


ARGMAXES_FOR_A_FRONTIER = 2  # about so many are asked for in its place, of a class that has none
PATIENCE_SECONDS = 30.0  # what takes longer is said beforehand


class Searches(NamedTuple):
    """About how often a computation asks a class.

    argmaxes: for a best policy.
    frontiers: for a frontier, where the class has one.
    """

    argmaxes: int
    frontiers: int


def count_rows(contexts: Contexts) -> int:
    """How many different contexts searches look at: one for each id where there are ids."""
    return len(contexts) if contexts.ids is None else len(np.unique(contexts.ids))


def expect_cost(policies: PolicyClass, n_rows: int, searches: Searches) -> tuple[SearchCost, int] | None:
    """What so many searches take together, and how many they are; None where the class cannot tell.

    Of a class that can be listed no oracle is asked: what it takes is not a matter of searches.
    """
    one, front = policies.argmax_cost(n_rows), policies.frontier_cost(n_rows)
    if one is None or policies.lists_policies:
        return None
    if front is not None:
        return one * searches.argmaxes + front * searches.frontiers, searches.argmaxes + searches.frontiers
    calls = searches.argmaxes + ARGMAXES_FOR_A_FRONTIER * searches.frontiers
    return one * calls, calls


def check_memory(policies: PolicyClass, n_rows: int, *, free_bytes: int | None = None) -> None:
    """Raise when a search on so many contexts would take more memory than there is.

    free_bytes: how much that is, if not what the machine says.
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
    """What so many searches will take, in a line; nothing when that is not worth a line, or cannot be told."""
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
    """A time in words, to one digit or two."""
    for unit, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1g} s"


def spell_bytes(amount: float) -> str:
    """An amount of memory in words."""
    if amount >= 0.95e9:
        return f"{amount / 1e9:,.0f} GB" if amount >= 10e9 else f"{amount / 1e9:.1f} GB"
    return f"{max(amount / 1e6, 1):.0f} MB"


# A function becomes a policy class with a name by the decorator `policy_class`: its keyword arguments are declared,
# checked options, and the class knows its name, description and options.


@dataclass(frozen=True, eq=False)
class ClassSpec:
    """A policy class by its name.

    name: what a spec calls it.
    description: one line.
    options: what it takes.
    build: makes the class for contexts, `n_actions` and options.
    learns: whether the class depends on more of the contexts than which ones there are.
    sharing: options by which it depends on shares of the contexts, so that it takes many of them.
    restricted: says in words what options, as a spec spells them, restrict it to, given how many contexts there were.
    """

    name: str
    description: str
    options: tuple[Option, ...]
    build: Callable[..., PolicyClass]
    learns: bool = True
    sharing: frozenset[str] = frozenset()
    restricted: Callable[[Mapping[str, str], int], str] | None = None

    def __call__(self, contexts: Contexts, *, n_actions: int, **options: Any) -> PolicyClass:
        """The class for these contexts."""
        check_contexts(contexts)
        check_n_actions(n_actions)
        checked: dict[str, Any] = check_options(options, self.options, of=f"policy class '{self.name}'")
        return self.build(contexts, n_actions=n_actions, **checked)

    def from_text(self, given: Mapping[str, str], contexts: Contexts, *, n_actions: int) -> PolicyClass:
        """The class for these contexts, and options as a spec spells them."""
        options: dict[str, Any] = read_options(given, self.options, of=f"policy class '{self.name}'")
        return self.build(contexts, n_actions=n_actions, **options)


def policy_class(
    name: str, *, description: str, learns: bool = True
) -> Callable[[Callable[..., PolicyClass]], ClassSpec]:
    """Turn a function of contexts, `n_actions` and declared options into a policy class with a name.

    learns: whether the class depends on more of the contexts than which ones there are.
    """
    text(name, name="name")
    text(description, name="description")

    def declare(function: Callable[..., PolicyClass]) -> ClassSpec:
        return ClassSpec(name, description, declared_options(function), function, learns)

    return declare

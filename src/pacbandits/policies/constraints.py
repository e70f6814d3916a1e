"""Constraints on policies: budgets, excluded actions, and their options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, floats
from pacbandits.checks import number, settle, text, texts, whole_number
from pacbandits.errors import InputError, count_of, nearest, plain
from pacbandits.policies.base import Frontier, PolicyClass, SearchCost, check_class, check_n_actions, check_scores
from pacbandits.policies.finite import Finite, sum_scores
from pacbandits.policies.trees.constraints import (
    BAR_FORM,
    BUDGET_ROUNDING,
    WithinBudget,
    check_label,
    spell_bar,
    too_dear,
)
from pacbandits.records import Contexts, Log, Policy, check_contexts
from pacbandits.records.policy import call
from pacbandits.schema import Fields

# What policies that one may deploy have to keep to, in the words of those who deploy them, as options of a spec.


_TREES = "trees"  # the class that can be restricted


@dataclass(frozen=True)
class Restrictions:
    """What policies have to keep to. Actions are called by their names, or by their numbers where they have none.

    smallest_leaf: the share of known contexts that every leaf of a tree holds at the least.
    cost: what actions cost, by name; those not named cost nothing.
    max_cost: what a policy costs at the most, on average over the known contexts.
    max_treated: the share of known contexts that get another action than the control, at the most.
    never: where actions must not be taken, as in `"email: age <= 25"` or `"email: country = DE"`.
    control: the action that is taken there, and that counts as no treatment.

    >>> import pacbandits as pb
    >>> pb.Restrictions(max_treated=0.3, control="0").added_to("trees:depth=2", ["0", "1"])
    'trees:depth=2,costs=0/1,budget=0.3'
    """

    smallest_leaf: float = 0.0
    cost: Mapping[str, float] = field(default_factory=dict[str, float])
    max_cost: float | None = None
    max_treated: float | None = None
    never: Sequence[str] = ()
    control: str | None = None

    def __post_init__(self) -> None:
        number(self.smallest_leaf, name="--smallest-leaf", least=0.0, most=1.0)
        if not isinstance(cast(object, self.cost), Mapping):
            raise InputError(f"--cost must say what actions cost, as in {{'email': 2.5}}, got {plain(self.cost)}")
        for name, price in self.cost.items():
            number(price, name=f"--cost, of '{plain(name)}',")
        settle(self, never=texts(self.never, name="--never"))
        for name, given in (("--max-cost", self.max_cost), ("--max-treated", self.max_treated)):
            if given is not None:
                number(given, name=name, most=1.0 if name == "--max-treated" else None)
        if self.control is not None:
            text(self.control, name="--control")
        for words in self.never:
            if ":" not in words:
                raise InputError(f"--never '{plain(words)}' does not say where; {BAR_FORM}")
        self._check_together()

    def _check_together(self) -> None:
        """Raise where one restriction lacks another, or there are two budgets."""
        if self.max_treated is not None and (self.cost or self.max_cost is not None):
            raise InputError("one budget at a time: --max-treated is one, and so is --max-cost; leave one of them out")
        if bool(self.cost) != (self.max_cost is not None):
            lacking = "--max-cost" if self.cost else "--cost"
            raise InputError(f"a budget is made of --cost, of actions by name, and --max-cost; add {lacking}")
        for name, given in (("--max-treated", self.max_treated is not None), ("--never", bool(self.never))):
            if given and self.control is None:
                raise InputError(f"{name} needs the action that is taken instead; name it, --control NAME")

    def added_to(self, spec: str, actions: Sequence[str]) -> str:
        """The spec of a class with these restrictions; actions (A,): what they are called."""
        options: list[str] = []
        if self.smallest_leaf > 0:
            options.append(f"leaf={_digits(self.smallest_leaf)}")
        costs = self._costs(actions)
        if costs is not None:
            most = (self.max_cost or 0.0) if self.max_treated is None else self.max_treated
            options += [f"costs={'/'.join(map(_digits, costs))}", f"budget={_digits(most)}"]
        if self.never and self.control is not None:
            barred = [_spell(one, actions) for one in self.never]
            own = _place(self.control, actions, what="--control")
            for words, place in zip(self.never, barred, strict=True):
                if place.startswith(f"{own}:"):
                    raise InputError(
                        f"'{plain(self.control)}' is what is done where others are barred, so --never '{plain(words)}' "
                        "leaves nothing to do there; name another control, --control NAME"
                    )
            spelt = ";".join(barred)
            options += [f"never={spelt}", f"fallback={own}"]
        if not options:
            return spec
        name, colon, given = spec.partition(":")
        if name.strip() != _TREES:
            raise InputError(f"restrictions are for trees, and '{plain(spec)}' is another class; take trees:depth=2")
        return f"{name}:{','.join([given, *options] if colon else options)}"

    def for_log(self, spec: str, log: Log) -> str:
        """The same for the actions of a log, whose contexts must know the labels that bars speak of."""
        for words in self.never:
            check_label(words, log.contexts)
        return self.added_to(spec, log.action_names or tuple(str(action) for action in range(log.n_actions)))

    def _costs(self, actions: Sequence[str]) -> list[float] | None:
        """What each action costs (A,); None without a budget."""
        if self.max_treated is not None and self.control is not None:
            own = _place(self.control, actions, what="--control")
            return [float(action != own) for action in range(len(actions))]
        if not self.cost:
            return None
        named = {_place(str(name), actions, what="--cost"): float(price) for name, price in self.cost.items()}
        return [named.get(action, 0.0) for action in range(len(actions))]


def _digits(value: float) -> str:
    """A number with as many digits as it takes to read it again."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _place(name: str, actions: Sequence[str], *, what: str) -> int:
    """The number of an action."""
    if name not in actions:
        raise InputError(f"{what} names '{plain(name)}', which is no action{nearest(str(name), actions)}")
    return list(actions).index(name)


def _spell(words: str, actions: Sequence[str]) -> str:
    """Where an action is barred, as a spec spells it."""
    given = words.strip()
    for name in sorted(actions, key=len, reverse=True):
        rest = given.removeprefix(name).lstrip()
        if rest != given and rest.startswith(":"):
            return spell_bar(list(actions).index(name), rest[1:])
    raise InputError(f"--never '{plain(words)}' names no action{nearest(given.partition(':')[0], actions)}; {BAR_FORM}")


# Any class that can be held to a budget, held to it.


def within_budget(policies: PolicyClass, contexts: Contexts, *, costs: ArrayLike, budget: float) -> PolicyClass:
    """The policies of a class that cost at most so much on average.

    policies: the class: trees of depth 0, 1 or 2, or a list (`Finite`).
    contexts: over which the average is, with their weights; fixed before the log was seen.
    costs (A,): of each action.
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


# Classes whose policies never take certain actions, as these were withdrawn.
#
#     Π_W = {π ∈ Π : π(c) ∉ W for every context c whatever}
#
# A class that can be narrowed to some of its actions is that class on fewer actions, whose policies are then said with
# the numbers that actions have among all. So its argmax is exact where that of the whole is, W costs nothing, and there
# are fewer policies to pay for. `pacbandits.confidence.withdrawal_part` says what it costs to choose W by what was
# seen.


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

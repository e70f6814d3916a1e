"""Constraints on policies, by the names of actions and features; classes without withdrawn actions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable
from urllib.parse import quote

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import number, settle, text, texts, whole_number
from pacbandits.errors import InputError, count_of, nearest, plain
from pacbandits.policies.base import Frontier, PolicyClass, SearchCost, check_class, check_n_actions, check_scores
from pacbandits.records.contexts import Contexts
from pacbandits.records.log import Log
from pacbandits.records.policy import Policy, call
from pacbandits.schema import Fields

# Restrictions on deployable policies, by action and feature names; they become options of a spec.


_TREES = "trees"  # the only class that can be restricted
BAR_FORM = "write 'action: feature <= number', with <= or >, or 'action: feature = label', with = or !="
CONDITION = re.compile(r"(.+?)\s*(<=|>=|!=|==|<|>|=)\s*(.+)", re.DOTALL)


@dataclass(frozen=True)
class Restrictions:
    """Restrictions on policies. Actions are given by name, or by number if they have no names.

    smallest_leaf: the minimum share of known contexts in every leaf of a tree.
    cost: the cost of each action, by name; actions not named cost 0.
    max_cost: the maximum mean cost of a policy over the known contexts.
    max_treated: the maximum share of known contexts that get an action other than the control.
    never: where an action is excluded, as in `"email: age <= 25"` or `"email: country = DE"`.
    control: the action taken where others are excluded; it counts as no treatment.

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
            raise InputError(f"--cost must give the cost of actions, such as {{'email': 2.5}}; got {plain(self.cost)}")
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
                raise InputError(f"--never '{plain(words)}' has no condition; {BAR_FORM}")
        self._check_together()

    def _check_together(self) -> None:
        """Raise InputError if a restriction lacks one that it needs, or if there are two budgets."""
        if self.max_treated is not None and (self.cost or self.max_cost is not None):
            raise InputError("--max-treated and --max-cost cannot be combined; leave one of them out")
        if bool(self.cost) != (self.max_cost is not None):
            lacking = "--max-cost" if self.cost else "--cost"
            raise InputError(f"a budget needs --cost and --max-cost; add {lacking}")
        for name, given in (("--max-treated", self.max_treated is not None), ("--never", bool(self.never))):
            if given and self.control is None:
                raise InputError(f"{name} needs the action that is used instead; pass --control NAME")

    def added_to(self, spec: str, actions: Sequence[str]) -> str:
        """Return the spec of a class with these restrictions added; actions (A,): their names."""
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
                        f"'{plain(self.control)}' is used where other actions are excluded, so --never "
                        f"'{plain(words)}' would leave no action there; pass another --control NAME"
                    )
            spelt = ";".join(barred)
            options += [f"never={spelt}", f"fallback={own}"]
        if options and _name_of(spec) != _TREES:
            raise InputError(f"restrictions are for trees, and '{plain(spec)}' is another class; take trees:depth=2")
        return _with_options(spec, options)

    def for_log(self, spec: str, log: Log) -> str:
        """Return the spec for the actions of a log; raise InputError if `never` uses a label that its contexts lack."""
        for words in self.never:
            check_label(words, log.contexts)
        return self.added_to(spec, log.action_names or tuple(str(action) for action in range(log.n_actions)))

    def _costs(self, actions: Sequence[str]) -> list[float] | None:
        """Return the cost of each action (A,); None without a budget."""
        if self.max_treated is not None and self.control is not None:
            own = _place(self.control, actions, what="--control")
            return [float(action != own) for action in range(len(actions))]
        if not self.cost:
            return None
        named = {_place(str(name), actions, what="--cost"): float(price) for name, price in self.cost.items()}
        return [named.get(action, 0.0) for action in range(len(actions))]


def without_feature(spec: str, feature: str) -> str:
    """Return the spec of a class of trees that do not ask about a feature."""
    if _name_of(spec) != _TREES:
        raise InputError(
            f"policies of the class '{plain(spec)}' go by all features; leave the block out of them (--without "
            f"'{plain(feature)}'), or let policies go by it (--features '+{plain(feature)}')"
        )
    return _with_options(spec, [f"without={quote(feature, safe='')}"])


def _name_of(spec: str) -> str:
    return spec.partition(":")[0].strip()


def _with_options(spec: str, options: Sequence[str]) -> str:
    """Return the spec of a class with further options."""
    name, colon, given = spec.partition(":")
    return f"{name}:{','.join([given, *options] if colon else options)}" if options else spec


def _digits(value: float) -> str:
    """Format a number so that it reads back to the same value, with six digits if they suffice."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _place(name: str, actions: Sequence[str], *, what: str) -> int:
    """Return the number of an action, by its name."""
    if name not in actions:
        raise InputError(f"{what} names '{plain(name)}', which is not an action{nearest(str(name), actions)}")
    return list(actions).index(name)


def _spell(words: str, actions: Sequence[str]) -> str:
    """Return an exclusion (`never`) in the form used in a spec."""
    given = words.strip()
    for name in sorted(actions, key=len, reverse=True):
        rest = given.removeprefix(name).lstrip()
        if rest != given and rest.startswith(":"):
            return spell_bar(list(actions).index(name), rest[1:])
    raise InputError(f"--never '{plain(words)}' names no action{nearest(given.partition(':')[0], actions)}; {BAR_FORM}")


def spell_bar(action: int, condition: str) -> str:
    """Return an action and a condition such as `age <= 25` in the form used in a spec."""
    found = CONDITION.fullmatch(condition.strip())
    if found is None or found[2] in ("<", ">="):
        raise InputError(f"--never '{plain(condition)}' has no condition; {BAR_FORM}")
    sign = "=" if found[2] == "==" else found[2]
    return f"{action}:{quote(found[1], safe='')}{sign}{quote(found[3], safe='')}"


def check_label(words: str, contexts: Contexts) -> None:
    """Raise InputError if an exclusion names a label that a category of these contexts does not have."""
    found = CONDITION.fullmatch(words.rpartition(":")[2].strip())
    if found is None or found[2] not in ("=", "==", "!=") or found[1] not in contexts.names:
        return
    labels = contexts.categories[contexts.names.index(found[1])]
    if labels is not None and found[3] not in labels:
        raise InputError(
            f"--never '{plain(words)}' names '{plain(found[3])}', which is not a label of "
            f"'{plain(found[1])}'{nearest(found[3], labels)}"
        )


# Classes without the withdrawn actions W.
#
#     Π_W = {π ∈ Π : π(c) ∉ W for every context c}
#
# A class that can be narrowed to some of its actions becomes that class on fewer actions, and its policies are then
# renumbered. Its argmax is exact if that of the class is, a fixed W costs nothing, and log|Π_W| ≤ log|Π|. The cost of
# choosing W from the data is `pacbandits.confidence.withdrawal_part`.


@runtime_checkable
class RenumberedPolicy(Policy, Protocol):
    """A policy whose actions can be renumbered."""

    def renumbered(self, numbers: tuple[int, ...], n_actions: int) -> Policy:
        """Return the same policy with action a renumbered to numbers[a], out of n_actions actions."""
        ...


class Without(PolicyClass):
    """The policies of a class that never take the withdrawn actions; listed, and with a frontier, if the class is.

    policies: the class on the kept actions, numbered from 0.
    kept: the numbers of the kept actions among all actions.
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
        """Return the best policy that takes no withdrawn action."""
        return self._named(self.policies.argmax(contexts, self._cut(contexts, scores)))

    def frontier(self, contexts: Contexts, first: FloatArray, second: FloatArray) -> Frontier:
        """Return the Pareto frontier of two scores over the policies that take no withdrawn action."""
        scores = (self._cut(contexts, one, f"{name} scores") for name, one in (("first", first), ("second", second)))
        return self.policies.frontier(contexts, *scores).mapped(self._named)

    def has(self, policy: Policy) -> bool:
        """Return whether a policy belongs to the class and takes no withdrawn action."""
        if not isinstance(policy, RenumberedPolicy) or policy.n_actions != self.n_actions:
            return False
        numbers = {action: place for place, action in enumerate(self.kept)}
        try:
            own = policy.renumbered(tuple(numbers.get(a, -1) for a in range(self.n_actions)), len(self.kept))
        except InputError:  # it takes a withdrawn action
            return False
        return self.policies.checks_membership and self.policies.has(own)

    def __len__(self) -> int:
        return len(self.policies)

    def policy(self, index: int) -> Policy:
        """Return the policy with the given index, from 0."""
        return self._named(self.policies.policy(index))

    def actions(self, contexts: Contexts) -> np.ndarray[Any, Any]:
        """Return the action (|Π|, n) of every policy on every context."""
        own = self.policies.actions(contexts)
        return np.array(self.kept, dtype=own.dtype)[own.astype(np.int64)]

    def describe(self) -> str:
        """Return the kind of policies and the excluded actions."""
        return f"{self.policies.describe()}, never {' or '.join(call(action, None) for action in self.withdrawn)}"

    def details(self, contexts: Contexts) -> tuple[str, ...]:
        """Return the details of the class and the excluded actions, one a line."""
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
        """Renumber a policy on the kept actions to the numbers among all actions."""
        return cast(RenumberedPolicy, policy).renumbered(self.kept, self.n_actions)


def without(policies: PolicyClass, withdrawn: Iterable[int]) -> PolicyClass:
    """Return the policies of a class that never take the withdrawn actions; the class itself if none is withdrawn.

    Withdrawals accumulate: the actions that a `Without` already excludes stay excluded.

    Raises:
        InputError: If no action or no policy would be left, or if the class cannot be narrowed to fewer actions.
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
    """Read a `Without` from the output of its `to_json`; read: reads the inner class."""
    given = Fields.read(value, of="policy class")
    given.check_known(("kind", "class", "kept", "n_actions"))
    inner = given.json_object("class")
    if inner.get("kind") == Without.kind:
        raise InputError("a class without some actions is not made of another one")
    n_actions = given.whole_number("n_actions", least=1)
    return Without(read(inner), kept=given.whole_numbers("kept", shortest=1), n_actions=n_actions)

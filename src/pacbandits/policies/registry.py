"""Policy classes and policies by name and by kind: a line for each. No code is ever loaded from a file.

A class from outside the package needs no line here: it is handed in wherever a file that tells of it is read, and is
recognised by what its `to_json` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from math import exp, isinf
from math import log as logarithm
from typing import Any
from weakref import ref

from pacbandits.arrays import as_read, plain_number
from pacbandits.errors import InputError, count_of, nearest, plain
from pacbandits.options import parse_spec
from pacbandits.policies.base import ClassSpec, PolicyClass, check_class, check_n_actions
from pacbandits.policies.constraints import Without, without_from_json
from pacbandits.policies.finite import Finite, TablePolicy, Trivial, trivial
from pacbandits.policies.linear import Linear, LinearPolicy
from pacbandits.policies.linear.classes import linear
from pacbandits.policies.linear.policy import GreedyPolicy
from pacbandits.policies.trees import TreePolicy
from pacbandits.policies.trees.classes import BinnedTrees
from pacbandits.policies.trees.constraints import (
    Barred,
    WithinBudget,
    affordable_from_json,
    barred_from_json,
    trees,
    trees_from_json,
)
from pacbandits.records import Chosen, Contexts, Lottery, Policy, check_contexts
from pacbandits.schema import Fields, json_object, same_json

Json = dict[str, Any]

MAX_LOTTERY_POLICIES = 10_000  # in a file
SAME_CLASS_TOLERANCE = 1e-9  # relative
MAX_CLASS_CHARACTERS = 400  # of what a class says that it is

# What a command may call for.
SPECS: dict[str, ClassSpec] = {spec.name: spec for spec in (trees, linear, trivial)}

# What a file may describe.
CLASSES: dict[str, Callable[[Json], PolicyClass]] = {
    Finite.kind: Finite.from_json,
    Trivial.kind: Trivial.from_json,
    BinnedTrees.kind: trees_from_json,
    WithinBudget.kind: affordable_from_json,
    Barred.kind: barred_from_json,
    Linear.kind: Linear.from_json,
    Without.kind: lambda value: without_from_json(value, class_from_json),
}
POLICIES: dict[str, Callable[[Json], Policy]] = {
    TablePolicy.kind: TablePolicy.from_json,
    TreePolicy.kind: TreePolicy.from_json,
    GreedyPolicy.kind: GreedyPolicy.from_json,
    LinearPolicy.kind: LinearPolicy.from_json,
}

# Of classes that are in use, each with a weak reference to it: a trial asks after every round.
_DIGESTS: dict[int, tuple[ref[PolicyClass], str]] = {}


def load_policies(spec: str, contexts: Contexts, *, n_actions: int) -> PolicyClass:
    """The policy class of a spec `name:key=value,…`, for contexts like these."""
    check_contexts(contexts)
    check_n_actions(n_actions)
    called, given = _called(spec)
    return called.from_text(given, contexts, n_actions=n_actions)


def learns(spec: str) -> bool:
    """Whether the class of a spec depends on more of the contexts than which ones there are."""
    return _called(spec)[0].learns


def goes_by_shares(spec: str) -> bool:
    """Whether a spec restricts its class by shares or means over the contexts, so that it needs many of them."""
    called, given = _called(spec)
    return not called.sharing.isdisjoint(given)


def describe_restrictions(spec: str, *, contexts: int) -> str:
    """The policies of a spec that is restricted by this many contexts, in words; nothing where it is not."""
    try:
        called, given = _called(spec)
    except InputError:  # of a file that was altered
        return ""
    return "" if called.restricted is None else called.restricted(given, contexts)


def _called(spec: str) -> tuple[ClassSpec, dict[str, str]]:
    """The class that a spec calls for, and the options that it gives."""
    name, given = parse_spec(spec, of="policy class")
    if name not in SPECS:
        raise InputError(f"unknown policy class '{plain(name)}'{nearest(name, SPECS)}")
    return SPECS[name], given


def digest_class(policies: PolicyClass) -> str | None:
    """What names the contents of a class: of its JSON, keys sorted; None for a class that has none, or says so."""
    known = _DIGESTS.get(id(policies))
    if known is not None and known[0]() is policies:
        return known[1]
    try:
        described = json.dumps(class_to_json(policies), sort_keys=True, separators=(",", ":"), default=plain_number)
    except InputError:
        return None
    made = sha256(described.encode("utf-8", "surrogatepass")).hexdigest()
    with suppress(TypeError):  # an object that cannot be referred to weakly is asked again each time
        _DIGESTS[id(policies)] = (ref(policies, partial(_forget, id(policies))), made)
    return made


def same_class(one: PolicyClass, other: PolicyClass) -> bool:
    """Whether two classes describe themselves alike, numbers to nine digits: another machine may round otherwise."""
    digests = {digest_class(one), digest_class(other)}
    if None in digests:
        return one is other
    written = (as_read(class_to_json(policies)) for policies in (one, other))
    return len(digests) == 1 or same_json(*written, tolerance=SAME_CLASS_TOLERANCE)


def _forget(number: int, _: object) -> None:
    _DIGESTS.pop(number, None)


def describe_class(policies: PolicyClass) -> str:
    """The kind and size of a class, which a certificate names and its reader must accept."""
    words = plain(check_class(policies).describe(), most=MAX_CLASS_CHARACTERS)
    digits, actions = policies.log_size / logarithm(10.0), count_of(policies.n_actions, "action")
    if isinf(digits):
        return f"{words}, policies without number on {actions}"
    size = f"{exp(policies.log_size):,.0f}" if digits < 7 else f"about 10^{digits:.1f}"
    return f"{words}, {size} {'policy' if size == '1' else 'policies'} on {actions}"


def detail_class(policies: PolicyClass, contexts: Contexts) -> tuple[str, ...]:
    """What a class can ask and where it can cut, a line each; contexts: on which that may make no difference."""
    return check_class(policies).details(contexts)


def class_to_json(policies: PolicyClass) -> Json:
    """Serialise a policy class to JSON-compatible values; raise InputError for one that has no such form."""
    return check_class(policies).to_json()


def class_from_json(value: object, policies: PolicyClass | None = None) -> PolicyClass:
    """The policy class that `class_to_json` described; policies: one of the user's own, if it may be that."""
    given = _object(value, of="policy class", known=CLASSES if policies is None else None)
    kind = given["kind"]
    mine = None if policies is None else as_read(class_to_json(policies))
    if policies is not None and mine == given:
        return policies
    made = _made(kind, given) if kind in CLASSES else None
    if policies is None and made is not None:
        return made
    if policies is not None and made is not None and mine == as_read(class_to_json(made)):
        return policies
    raise InputError(
        f"the policy class of kind '{plain(kind)}' is another than the one given; pass the one that was used"
    )


def _made(kind: str, given: Json) -> PolicyClass:
    """A class of a kind that is known."""
    try:
        return CLASSES[kind](given)
    except InputError as error:
        raise InputError(f"the policy class in JSON cannot be read: {error}") from None


def policy_from_json(value: object, policies: PolicyClass | None = None) -> Policy:
    """The policy that `to_json` described; policies: its class, where that reads policies of its own kind."""
    own = None if policies is None else check_class(policies)
    reads = own is not None and own.reads_policies
    given = _object(value, of="policy", known=None if reads else POLICIES)
    kind = given["kind"]
    if kind in POLICIES or own is None:
        return POLICIES[kind](given)
    try:
        return own.policy_from_json(given)
    except KeyError as missing:
        raise InputError(f"a policy of kind '{plain(kind)}' in JSON lacks {plain(missing)}") from None
    except (TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        raise InputError(f"a policy of kind '{plain(kind)}' in JSON cannot be read: {plain(error)}") from None


def chosen_from_json(value: object, policies: PolicyClass | None = None) -> Chosen:
    """The policy or the lottery that `to_json` described, likewise."""
    given = json_object(value, name="a policy in JSON")
    if given.get("kind") != "lottery":
        return policy_from_json(given, policies)
    fields = Fields(given, "lottery")
    fields.check_known(("kind", "policies", "weights"))
    some = tuple(policy_from_json(one, policies) for one in fields.items("policies", most=MAX_LOTTERY_POLICIES))
    return Lottery(some, fields.numbers("weights", shortest=len(some), longest=len(some)))


def _object(value: object, *, of: str, known: Mapping[str, object] | None) -> Json:
    """A JSON object with a kind, which must be one of the known ones if these are given."""
    given = json_object(value, name=f"a {of} in JSON")
    kind = given.get("kind")
    if not isinstance(kind, str):
        raise InputError(f"a {of} in JSON must be an object with a 'kind'")
    if known is not None and kind not in known:
        raise InputError(
            f"unknown kind of {of} '{plain(kind)}'{nearest(kind, known)}; a class of your own must be handed in, as no "
            "code is ever loaded from a file"
        )
    return given

"""Registry of policy classes and policies by name and kind. No code is ever loaded from a file.

A class from outside the package needs no entry here: the caller passes it wherever a file that refers to it is read,
and it is recognised by its `to_json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from math import exp, isinf
from math import log as logarithm
from weakref import ref

from pacbandits.arrays import as_read, plain_number
from pacbandits.errors import InputError, count_of, nearest, plain
from pacbandits.options import parse_spec
from pacbandits.policies.base import ClassSpec, PolicyClass, check_class, check_n_actions
from pacbandits.policies.constraints import Without, without_from_json
from pacbandits.policies.finite import Finite, TablePolicy, Trivial, trivial
from pacbandits.policies.linear.classes import Linear, linear
from pacbandits.policies.linear.policy import GreedyPolicy, LinearPolicy
from pacbandits.policies.trees.classes import BinnedTrees
from pacbandits.policies.trees.constraints import (
    Barred,
    WithinBudget,
    affordable_from_json,
    barred_from_json,
    trees,
    trees_from_json,
)
from pacbandits.policies.trees.tree_policy import TreePolicy
from pacbandits.records.contexts import Contexts, check_contexts
from pacbandits.records.policy import FORMER_MIXTURE, MIXTURE, Chosen, Mixture, Policy
from pacbandits.schema import Fields, Json, json_object, same_json

MAX_MIXTURE_POLICIES = 10_000  # in one mixture policy in a file
SAME_CLASS_TOLERANCE = 1e-9  # relative
MAX_CLASS_CHARACTERS = 400  # of a class description

# Policy classes that a command may name in a spec.
SPECS: dict[str, ClassSpec] = {spec.name: spec for spec in (trees, linear, trivial)}

# Policy classes and policies that a file may contain, by kind.
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

# A cache of class digests, keyed by id with a weak reference: a trial asks for the digest after every round.
_DIGESTS: dict[int, tuple[ref[PolicyClass], str]] = {}


def load_policies(spec: str, contexts: Contexts, *, n_actions: int) -> PolicyClass:
    """Return the policy class of a spec `name:key=value,…`, learnt from these contexts."""
    check_contexts(contexts)
    check_n_actions(n_actions)
    called, given = _called(spec)
    return called.from_text(given, contexts, n_actions=n_actions)


def learns(spec: str) -> bool:
    """Return whether the class of a spec depends on more of the contexts than which ones there are."""
    return _called(spec)[0].learns


def goes_by_shares(spec: str) -> bool:
    """Return whether a spec restricts its class by shares or means over the contexts, and so needs many of them."""
    called, given = _called(spec)
    return not called.sharing.isdisjoint(given)


def describe_restrictions(spec: str, *, contexts: int) -> str:
    """Describe the restrictions of a spec, counted over this many contexts; empty if it has none or is invalid."""
    try:
        called, given = _called(spec)
    except InputError:  # an altered file
        return ""
    return "" if called.restricted is None else called.restricted(given, contexts)


def _called(spec: str) -> tuple[ClassSpec, dict[str, str]]:
    """Return the class that a spec names, and its options as text."""
    name, given = parse_spec(spec, of="policy class")
    if name not in SPECS:
        raise InputError(f"unknown policy class '{plain(name)}'{nearest(name, SPECS)}")
    return SPECS[name], given


def digest_class(policies: PolicyClass) -> str | None:
    """Return the SHA-256 digest of a class's JSON with sorted keys; None for a class without a JSON form."""
    known = _DIGESTS.get(id(policies))
    if known is not None and known[0]() is policies:
        return known[1]
    try:
        described = json.dumps(class_to_json(policies), sort_keys=True, separators=(",", ":"), default=plain_number)
    except InputError:
        return None
    made = sha256(described.encode("utf-8", "surrogatepass")).hexdigest()
    with suppress(TypeError):  # an object without weak references is digested anew each time
        _DIGESTS[id(policies)] = (ref(policies, partial(_forget, id(policies))), made)
    return made


def same_class(one: PolicyClass, other: PolicyClass) -> bool:
    """Return whether two classes have the same JSON, numbers to nine digits, as rounding differs between machines."""
    digests = {digest_class(one), digest_class(other)}
    if None in digests:
        return one is other
    written = (as_read(class_to_json(policies)) for policies in (one, other))
    return len(digests) == 1 or same_json(*written, tolerance=SAME_CLASS_TOLERANCE)


def _forget(number: int, _: object) -> None:
    _DIGESTS.pop(number, None)


def describe_class(policies: PolicyClass) -> str:
    """Describe the kind and size of a class, which a certificate states and its reader must accept."""
    words = plain(check_class(policies).describe(), most=MAX_CLASS_CHARACTERS)
    digits, actions = policies.log_size / logarithm(10.0), count_of(policies.n_actions, "action")
    if isinf(digits):
        return f"{words}, policies without number on {actions}"
    size = f"{exp(policies.log_size):,.0f}" if digits < 7 else f"about 10^{digits:.1f}"
    return f"{words}, {size} {'policy' if size == '1' else 'policies'} on {actions}"


def detail_class(policies: PolicyClass, contexts: Contexts) -> tuple[str, ...]:
    """Return one line for each feature that policies use; contexts: where splits may have no effect."""
    return check_class(policies).details(contexts)


def class_to_json(policies: PolicyClass) -> Json:
    """Serialise a policy class to JSON-compatible values; raise InputError for a class without a JSON form."""
    return check_class(policies).to_json()


def class_from_json(value: object, policies: PolicyClass | None = None) -> PolicyClass:
    """Read a policy class from the output of `class_to_json`; policies: the user's own class, returned on a match."""
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
    """Make a class of a registered kind; raise InputError if its JSON is invalid."""
    try:
        return CLASSES[kind](given)
    except InputError as error:
        raise InputError(f"the policy class in JSON cannot be read: {error}") from None


def policy_from_json(value: object, policies: PolicyClass | None = None) -> Policy:
    """Read a policy from the output of its `to_json`; policies: its class, if that reads its own kind of policy."""
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
    """Read a policy or a mixture policy from the output of its `to_json`; policies as in `policy_from_json`."""
    given = json_object(value, name="a policy in JSON")
    if given.get("kind") not in (MIXTURE, FORMER_MIXTURE):
        return policy_from_json(given, policies)
    fields = Fields(given, "mixture policy")
    fields.check_known(("kind", "policies", "weights"))
    some = tuple(policy_from_json(one, policies) for one in fields.items("policies", most=MAX_MIXTURE_POLICIES))
    return Mixture(some, fields.numbers("weights", shortest=len(some), longest=len(some)))


def _object(value: object, *, of: str, known: Mapping[str, object] | None) -> Json:
    """Return a JSON object that has a `kind`, which must be in `known` unless that is None."""
    given = json_object(value, name=f"a {of} in JSON")
    kind = given.get("kind")
    if not isinstance(kind, str):
        raise InputError(f"a {of} in JSON must be an object with a 'kind'")
    if known is not None and kind not in known:
        raise InputError(
            f"unknown kind of {of} '{plain(kind)}'{nearest(kind, known)}; pass a class of your own as an "
            "argument, as no code is ever loaded from a file"
        )
    return given

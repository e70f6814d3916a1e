"""Policies to JSON and back, by kind; no code is ever loaded from a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pacbandits.errors import InputError, nearest
from pacbandits.policies.finite import TablePolicy
from pacbandits.policies.trees import TreePolicy
from pacbandits.records import Policy

KINDS: dict[str, Callable[[dict[str, Any]], Policy]] = {
    TablePolicy.kind: TablePolicy.from_json,
    TreePolicy.kind: TreePolicy.from_json,
}


def policy_from_json(value: object) -> Policy:
    """The policy that `to_json` described."""
    if not isinstance(value, dict):
        raise InputError(f"a policy in JSON must be an object, got {type(value).__name__}")
    policy = cast(dict[str, Any], value)
    kind = policy.get("kind")
    if not isinstance(kind, str):
        raise InputError("a policy in JSON must be an object with a 'kind'")
    if kind not in KINDS:
        raise InputError(f"unknown kind of policy '{kind}'{nearest(kind, KINDS)}")
    try:
        return KINDS[kind](policy)
    except KeyError as missing:
        raise InputError(f"a policy of kind '{kind}' in JSON lacks {missing}") from None

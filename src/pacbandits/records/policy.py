"""What a policy is: a map from contexts to actions that can say in words what it does."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from pacbandits.arrays import IntArray
from pacbandits.checks import instance
from pacbandits.records.contexts import Contexts


@runtime_checkable
class Policy(Protocol):
    """A deterministic policy."""

    @property
    def n_actions(self) -> int: ...

    def __call__(self, contexts: Contexts) -> IntArray:
        """Its action (n,) on each context, also on contexts never seen."""
        ...

    def describe(self) -> str:
        """What it does, in words."""
        ...

    def to_json(self) -> dict[str, Any]:
        """A JSON object from which `pacbandits.policies.policy_from_json` makes the same policy."""
        ...


def check_policy(policy: object, *, name: str = "policy") -> Policy:
    """Raise unless this is a policy."""
    remedy = "a class finds one by argmax(contexts, scores)"
    return instance(policy, Policy, name=name, remedy=remedy)

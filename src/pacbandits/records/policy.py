"""What a policy is: a map from contexts to actions that can say in words what it does."""

from __future__ import annotations

from typing import Any, Protocol

from pacbandits.arrays import IntArray
from pacbandits.records.contexts import Contexts


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

"""Actions by their names, where they have any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pacbandits.checks import texts
from pacbandits.errors import InputError, count_of, plain
from pacbandits.records.policy import Policy

MAX_LEGEND_ACTIONS = 30  # named after the words of a policy that knows numbers alone


@runtime_checkable
class NamingPolicy(Policy, Protocol):
    """A policy that can say what it does with the names of actions in the place of their numbers."""

    def describe_with(self, actions: Sequence[str]) -> str:
        """What it does, in words; actions (A,): what each is called."""
        ...


def describe_policy(policy: Policy, actions: Sequence[str] | None) -> str:
    """What a policy does, in words; actions (A,): what each is called, if they have names."""
    if actions is None:
        return policy.describe()
    if isinstance(policy, NamingPolicy):
        return policy.describe_with(actions)
    return f"{policy.describe()}\n({legend(actions)})"


def legend(actions: Sequence[str]) -> str:
    """Which number stands for which action; of the first actions, if there are many."""
    shown = ", ".join(f"action {i} is '{plain(name)}'" for i, name in enumerate(actions[:MAX_LEGEND_ACTIONS]))
    return shown + (", …" if len(actions) > MAX_LEGEND_ACTIONS else "")


def call(action: int, actions: Sequence[str] | None) -> str:
    """What to call an action in words."""
    return f"action {action}" if actions is None else plain(actions[action])


def check_names(names: object, *, n_actions: int) -> tuple[str, ...] | None:
    """The names of so many actions, or None; raise unless each has one of its own."""
    if names is None:
        return None
    given = texts(names, name="action_names")
    if len(given) != n_actions:
        raise InputError(f"there are {count_of(n_actions, 'action')} and {count_of(len(given), 'name')} for them")
    if len(set(given)) < len(given):
        twice = next(name for i, name in enumerate(given) if name in given[:i])
        raise InputError(f"two actions are called '{plain(twice)}'")
    return given

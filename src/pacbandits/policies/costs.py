"""What a computation will take of a policy class, said before it begins; and a refusal where memory will not do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pacbandits.errors import InputError
from pacbandits.machine import free_memory_bytes
from pacbandits.policies.base import PolicyClass, SearchCost
from pacbandits.records import Contexts

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

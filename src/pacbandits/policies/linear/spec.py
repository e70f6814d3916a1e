"""Linear policies by name."""

from __future__ import annotations

from typing import Annotated, Literal

from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.linear.oracle import Linear
from pacbandits.policies.spec import policy_class
from pacbandits.records import Contexts


@policy_class("linear", description="the action of the largest linear score, with small whole coefficients")
def linear(
    contexts: Contexts,
    *,
    n_actions: int,
    levels: Annotated[int, About("the largest coefficient; 0: what suits how many there are", least=0, most=1000)] = 0,
    oracle: Annotated[Literal["auto", "list", "milp", "search"], About("how the best linear policy is found")] = "auto",
) -> Linear:
    """Policies that are linear in the φ of these contexts, or else in their features."""
    if contexts.n_features == 0 and contexts.phi is None:
        raise InputError("linear policies need features or phi, but the contexts have neither")
    return Linear.learn(contexts, n_actions=n_actions, levels=levels or None, oracle=oracle)

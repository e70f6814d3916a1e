"""The design problem: a class, contexts, a reference, gaps, and to what accuracy each gap must be resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pacbandits.allocation import check_floor
from pacbandits.arrays import BoolArray, FloatArray, floats
from pacbandits.checks import instance, settle
from pacbandits.design.objective import Objective
from pacbandits.design.scale import GapScale
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.records import Contexts, Design, Policy, check_contexts, check_policy


@dataclass(frozen=True, eq=False)
class DesignTask:
    """`min_p max_π V_π(p; q)/d(Δ_π)²` over a class.

    policies: Π.
    contexts: n rows with their weights.
    reference: q.
    gaps (n, A): scores whose sum over π's actions is Δ_π, context weights multiplied in.
    scale: d.
    noise (n, A): variances σ², ones by default.
    floor: the least probability of every action.
    spread (n, A): scores whose sum over the actions of π that are not q's is what π varies by whatever is played,
        context weights multiplied in; it is added to V. None by default.
    """

    policies: PolicyClass
    contexts: Contexts
    reference: Policy = field(kw_only=True)
    gaps: FloatArray = field(kw_only=True)
    scale: GapScale = field(kw_only=True)
    noise: FloatArray | None = field(kw_only=True, default=None)
    floor: float = field(kw_only=True, default=0.0)
    spread: FloatArray | None = field(kw_only=True, default=None)

    def __post_init__(self) -> None:
        check_policy(self.reference, name="reference")
        instance(self.scale, GapScale, name="scale", remedy="Clipped(epsilon) is one")
        settle(self, policies=check_class(self.policies))
        shape = (len(check_contexts(self.contexts)), self.policies.n_actions)
        settle(self, gaps=floats(self.gaps, name="gap scores", shape=shape))
        if self.noise is not None:
            settle(self, noise=_variances(self.noise, name="noise variances", shape=shape))
        if self.spread is not None:
            settle(self, spread=_variances(self.spread, name="the spread of policies", shape=shape))
        settle(self, floor=check_floor(self.floor, n_actions=self.policies.n_actions))

    @cached_property
    def possible(self) -> Possible:
        """The same on the contexts that matter: those that can occur, and those that have a say in the gaps."""
        rows: BoolArray = (self.contexts.weights > 0) | (self.gaps != 0).any(axis=1)
        contexts = self.contexts.only(rows)
        noise = np.ones_like(self.gaps) if self.noise is None else self.noise
        objective = Objective(
            reference=self.reference(contexts),
            weights=contexts.weights,
            noise=np.ascontiguousarray(noise[rows]),
            floor=self.floor,
            spread=None if self.spread is None else np.ascontiguousarray(self.spread[rows]),
        )
        return Possible(contexts, objective, np.ascontiguousarray(self.gaps[rows]), rows)

    def uniform_design(self) -> Design:
        """The design of nothing to learn: uniform exploration."""
        return Design((), np.empty(0), self.reference, floor=self.floor)


@dataclass(frozen=True, eq=False)
class Possible:
    """What the solvers see of a task.

    contexts: the N of them that matter.
    objective: the variance functional on those.
    gaps (N, A): the gap scores there.
    rows: which of the task's contexts they are.
    """

    contexts: Contexts
    objective: Objective
    gaps: FloatArray
    rows: BoolArray


def _variances(given: FloatArray, *, name: str, shape: tuple[int, int]) -> FloatArray:
    """Variances of this shape, or a sentence."""
    checked = floats(given, name=name, shape=shape)
    if checked.size and checked.min() < 0:
        raise InputError(f"{name} must not be negative, got {checked.min()}")
    return checked

"""The design problem: a class, contexts, a reference, gaps, and the accuracy to which each gap must be resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from pacbandits.allocation import check_floor
from pacbandits.arrays import BoolArray, FloatArray, floats
from pacbandits.checks import instance, positive, settle
from pacbandits.confidence import check_epsilon
from pacbandits.design.weights import Objective
from pacbandits.errors import InputError
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.records import Contexts, Design, Policy, check_contexts, check_policy

# The accuracy `d(Δ)` to which a policy of gap Δ must be resolved. The ratio form minimises `max_π V_π(p; q) / d(Δ_π)²`.
# Three forms of d are in use; all rise with Δ.


@runtime_checkable
class GapScale(Protocol):
    """An accuracy that grows with the gap."""

    def __call__(self, gaps: FloatArray) -> FloatArray:
        """Return d(Δ) for gaps of any shape."""
        ...

    def peaks(self, intercepts: FloatArray, slopes: FloatArray) -> FloatArray:
        """Return where `(c + sΔ)/d(Δ)²` may be largest over Δ ≥ 0, for each line c + sΔ with c, s ≥ 0."""
        ...


@dataclass(frozen=True)
class Clipped:
    """d(Δ) = max(Δ, ε): the form of ρ_{Π,ε} (paper, eq. `rho_star_combinatorial`).

    epsilon: ε.
    """

    epsilon: float

    def __post_init__(self) -> None:
        settle(self, epsilon=check_epsilon(self.epsilon))

    def __call__(self, gaps: FloatArray) -> FloatArray:
        return np.maximum(gaps, self.epsilon)

    def peaks(self, intercepts: FloatArray, slopes: FloatArray) -> FloatArray:
        # Rising up to ε, falling beyond: (c + sΔ)/Δ² has derivative −(2c + sΔ)/Δ³.
        return np.full_like(intercepts, self.epsilon)


@dataclass(frozen=True)
class Shifted:
    """d(Δ) = ε + aΔ: the form of the algorithms' sample sizes, where gaps are estimates.

    epsilon: ε.
    slope: a.
    """

    epsilon: float
    slope: float

    def __post_init__(self) -> None:
        settle(self, epsilon=check_epsilon(self.epsilon), slope=positive(self.slope, name="slope"))

    def __call__(self, gaps: FloatArray) -> FloatArray:
        return self.epsilon + self.slope * np.maximum(gaps, 0.0)

    def peaks(self, intercepts: FloatArray, slopes: FloatArray) -> FloatArray:
        # The derivative of (c + sΔ)/(ε + aΔ)² has the sign of sε − 2ac − asΔ.
        with np.errstate(divide="ignore", invalid="ignore"):
            peak = self.epsilon / self.slope - 2.0 * intercepts / slopes
        return np.where(slopes > 0, np.maximum(peak, 0.0), 0.0)


@dataclass(frozen=True)
class Product:
    """d(Δ)² = ε(ε + aΔ): the resolution when all policies share one γ.

    The ratio V/(ε(ε + aΔ)) is linear in V over linear in Δ, so its maximum is a vertex of the hull of the points
    (Δ_π, V_π): pricing by argmax alone is exact.

    epsilon: ε.
    slope: a.
    """

    epsilon: float
    slope: float

    def __post_init__(self) -> None:
        Shifted(self.epsilon, self.slope)

    def __call__(self, gaps: FloatArray) -> FloatArray:
        return np.sqrt(self.epsilon * (self.epsilon + self.slope * np.maximum(gaps, 0.0)))

    def peaks(self, intercepts: FloatArray, slopes: FloatArray) -> FloatArray:
        # Monotone along every line, and falling along a level one: largest at 0 or where lines cross.
        return np.zeros_like(intercepts)


@dataclass(frozen=True, eq=False)
class DesignTask:
    """`min_p max_π V_π(p; q)/d(Δ_π)²` over a class.

    policies: Π.
    contexts: n rows with their weights.
    reference: q.
    gaps (n, A): scores whose sum over π's actions is Δ_π, context weights multiplied in.
    scale: d.
    noise (n, A): variances σ², ones by default.
    floor: the minimum probability of every action.
    spread (n, A): scores whose sum over the actions of π that are not q's is the variance of π that no exploration
        changes, context weights multiplied in; it is added to V. None by default.
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
        """The same on the relevant contexts: those that can occur, and those with nonzero gap scores."""
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
        """Return uniform exploration, the design when there is nothing to learn."""
        return Design((), np.empty(0), self.reference, floor=self.floor)


@dataclass(frozen=True, eq=False)
class Possible:
    """The part of a task that the solvers use.

    contexts: the N relevant ones.
    objective: the variance functional on those.
    gaps (N, A): the gap scores there.
    rows: their mask among the task's contexts.
    """

    contexts: Contexts
    objective: Objective
    gaps: FloatArray
    rows: BoolArray


def _variances(given: FloatArray, *, name: str, shape: tuple[int, int]) -> FloatArray:
    """Return checked variances of this shape; raise InputError if one is negative."""
    checked = floats(given, name=name, shape=shape)
    if checked.size and checked.min() < 0:
        raise InputError(f"{name} must not be negative, got {checked.min()}")
    return checked

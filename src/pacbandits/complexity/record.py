"""The complexity of a problem: a record in groups, with each number also under its name in the JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, overload

from pacbandits.complexity.gaps import Gaps
from pacbandits.complexity.groups import DisagreementBounds, InstanceSummary, Rho, SampleBounds, TrivialBounds
from pacbandits.complexity.laws import Law
from pacbandits.complexity.notes import (
    explain_disagreement,
    explain_gap,
    explain_low_regret_bound,
    explain_lower_bounds,
    explain_rhos,
    explain_trivial_bounds,
)
from pacbandits.design import Solution

Number = TypeVar("Number", bound=float | None)


class _Flat(Generic[Number]):
    """A number of a group under its name in the JSON: a property that is written in one line."""

    def __init__(self, read: Callable[[Complexity], Number]) -> None:
        self.read = read

    @overload
    def __get__(self, measured: None, kind: type[Complexity]) -> _Flat[Number]: ...
    @overload
    def __get__(self, measured: Complexity, kind: type[Complexity]) -> Number: ...
    def __get__(self, measured: Complexity | None, kind: type[Complexity]) -> _Flat[Number] | Number:
        return self if measured is None else self.read(measured)


@dataclass(frozen=True, eq=False)
class Complexity:
    """What a problem costs. What cannot be had is None, and `notes` says why under its name in the JSON.

    instance: the problem, the class and the question, in numbers.
    gaps: the best policy and the gaps of the others.
    law: what rewards look like about their means.
    rho: ρ_{Π,ε}.
    rho_sigma: ρ_{σ,ε}; the same object as `rho` where all noise has variance 1.
    samples: bounds and yardsticks, in samples.
    trivial: bounds of the trivial class; None for any other class.
    disagreement: disagreement coefficients; None where each context would need a search of the class.
    seconds: how long measuring took.

    Every number is also an attribute under its name in the JSON: `measured.rho_lower` is `measured.rho.lower`.
    """

    instance: InstanceSummary
    gaps: Gaps
    law: Law
    rho: Rho
    rho_sigma: Rho
    samples: SampleBounds
    trivial: TrivialBounds | None
    disagreement: DisagreementBounds | None
    seconds: float

    n_policies = _Flat(lambda m: m.instance.n_policies)
    log_size = _Flat(lambda m: m.instance.log_size)
    n_contexts = _Flat(lambda m: m.instance.n_contexts)
    n_actions = _Flat(lambda m: m.instance.n_actions)
    epsilon = _Flat(lambda m: m.instance.epsilon)
    delta = _Flat(lambda m: m.instance.delta)
    best_value = _Flat(lambda m: m.instance.best_value)
    min_gap = _Flat(lambda m: m.instance.min_gap)
    gap_epsilon = _Flat(lambda m: m.instance.gap_epsilon)
    gap_uniform = _Flat(lambda m: m.instance.gap_uniform)
    rho_lower = _Flat(lambda m: m.rho.lower)
    rho_upper = _Flat(lambda m: m.rho.upper)
    rho_uniform = _Flat(lambda m: m.rho.uniform)
    rho_sigma_lower = _Flat(lambda m: m.rho_sigma.lower)
    rho_sigma_upper = _Flat(lambda m: m.rho_sigma.upper)
    rho_sigma_uniform = _Flat(lambda m: m.rho_sigma.uniform)
    lower_bound = _Flat(lambda m: m.samples.lower_bound)
    lower_bound_paper = _Flat(lambda m: m.samples.lower_bound_paper)
    upper_bound = _Flat(lambda m: m.samples.upper_bound)
    minimax_bound = _Flat(lambda m: m.samples.minimax_bound)
    confidence_price = _Flat(lambda m: m.samples.confidence_price)
    union_price = _Flat(lambda m: m.samples.union_price)
    union_price_uniform = _Flat(lambda m: m.samples.union_price_uniform)
    trivial_lower_bound = _Flat(lambda m: None if m.trivial is None else m.trivial.lower)
    trivial_upper_bound = _Flat(lambda m: None if m.trivial is None else m.trivial.upper)
    trivial_minimax_bound = _Flat(lambda m: None if m.trivial is None else m.trivial.minimax)
    low_regret_bound = _Flat(lambda m: m.samples.low_regret_bound)
    disagreement_policy = _Flat(lambda m: None if m.disagreement is None else m.disagreement.policy)
    disagreement_cost_sensitive = _Flat(lambda m: None if m.disagreement is None else m.disagreement.cost_sensitive)
    disagreement_policy_bound = _Flat(lambda m: None if m.disagreement is None else m.disagreement.policy_bound)
    disagreement_cost_sensitive_bound = _Flat(
        lambda m: None if m.disagreement is None else m.disagreement.cost_sensitive_bound
    )
    converged = _Flat(lambda m: m.solution.converged and m.sigma_solution.converged)
    tolerance = _Flat(lambda m: m.solution.tolerance)
    oracle_calls = _Flat(lambda m: sum(rho.solution.oracle_calls for rho in {m.rho, m.rho_sigma}))
    support = _Flat(lambda m: len(m.solution.design.support))

    @property
    def solution(self) -> Solution:
        """The bracket on ρ and its best design."""
        return self.rho.solution

    @property
    def sigma_solution(self) -> Solution:
        """The bracket on ρ_σ and its best design."""
        return self.rho_sigma.solution

    @cached_property
    def notes(self) -> dict[str, str]:
        """Why a number is None, and a word on some of the others, by their names in the JSON."""
        return {
            **explain_rhos(self.rho, self.rho_sigma),
            **explain_gap(self.gaps),
            **explain_lower_bounds(self.samples, self.instance, self.law),
            **explain_trivial_bounds(self.trivial, self.instance),
            **explain_disagreement(self.disagreement, self.instance),
            **explain_low_regret_bound(self.samples),
        }

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite number is the string "Infinity"."""
        names = [name for name, value in vars(Complexity).items() if isinstance(value, _Flat)]
        numbers: dict[str, Any] = {name: _plain(getattr(self, name)) for name in names}
        return {**numbers, "seconds": self.seconds, "notes": self.notes, "best_policy": self.gaps.best.describe()}


def _plain(number: float | None) -> float | str | None:
    if number is not None and math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number

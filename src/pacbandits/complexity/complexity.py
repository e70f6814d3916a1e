"""The complexity of a problem: a record in groups, with notes on missing numbers, and its JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, overload

from pacbandits.complexity.gaps import Gaps, Law
from pacbandits.design import Solution
from pacbandits.progress import Displayed

# The groups of numbers in the complexity of a problem.


@dataclass(frozen=True)
class InstanceSummary:
    """The sizes and gaps of a problem and a class, with ε and δ.

    n_policies: |Π|; None unless the class can be listed.
    log_size: log|Π|, or the class's upper bound on it.
    n_contexts: the number of contexts in the population.
    n_actions: A.
    epsilon: ε.
    delta: δ.
    best_value: V(π*).
    min_gap: Δ_pol, the smallest gap of a policy that differs from π*; None if the class cannot compute it.
    gap_epsilon: Δ_ε = max(ε, Δ_pol).
    gap_uniform: Δ_uniform, the smallest loss of one wrong action.
    """

    n_policies: int | None
    log_size: float
    n_contexts: int
    n_actions: int
    epsilon: float
    delta: float
    best_value: float
    min_gap: float | None
    gap_epsilon: float
    gap_uniform: float


@dataclass(frozen=True, eq=False)
class Rho:
    """One complexity at ε, unweighted (ρ) or with actions weighted by their noise (ρ_σ).

    solution: the bracket on it, and the design that attains the upper end.
    uniform: the same quantity for uniform exploration, or an upper end of it.
    uniform_lower: a lower end of that; equal to `uniform` if the class prices exactly.
    """

    solution: Solution
    uniform: float
    uniform_lower: float

    @property
    def lower(self) -> float:
        """The lower end of the bracket."""
        return self.solution.lower

    @property
    def upper(self) -> float:
        """The upper end of the bracket."""
        return self.solution.upper


@dataclass(frozen=True)
class SampleBounds:
    """Bounds in samples; each is explained at the function of its name in `pacbandits.complexity.lower_bounds`.

    lower_bound: on the samples of any algorithm; None where it is not a theorem.
    lower_bound_paper: the same as printed in the paper; None unless ε = 0 and noise is Gaussian of variance 1.
    upper_bound: the main theorem with constant 1.
    minimax_bound: the minimax theorem with constant 1.
    confidence_price: a yardstick, the cost of confidence alone.
    union_price: a yardstick, the cost of a union bound over the class with the best design.
    union_price_uniform: the same with uniform exploration.
    low_regret_bound: on the samples of any low-regret algorithm; None unless this is the paper's hard instance.
    """

    lower_bound: float | None
    lower_bound_paper: float | None
    upper_bound: float
    minimax_bound: float
    confidence_price: float
    union_price: float
    union_price_uniform: float
    low_regret_bound: float | None


@dataclass(frozen=True)
class TrivialBounds:
    """Bounds in samples for the trivial class.

    lower: on the samples of any algorithm; None unless ε = 0 and noise is Gaussian of variance 1.
    upper: the paper's corollary with constant 1.
    minimax: the samples that some instance needs, constant 1.
    """

    lower: float | None
    upper: float
    minimax: float


@dataclass(frozen=True)
class DisagreementBounds:
    """Disagreement coefficients at ε, and the bounds on ρ that follow from them.

    policy: C_pol(ε).
    cost_sensitive: C_csc(ε).
    policy_bound: an upper bound on ρ, by C_pol; None unless ε > 0 and 0 < Δ_uniform < ∞.
    cost_sensitive_bound: an upper bound on ρ, by C_csc; None unless ε > 0.
    """

    policy: float
    cost_sensitive: float
    policy_bound: float | None
    cost_sensitive_bound: float | None


# Notes on the complexity of a problem: why a number is missing, and caveats. Every function returns notes by the names
# of the numbers in the JSON.


Notes = dict[str, str]


def explain_rhos(rho: Rho, rho_sigma: Rho) -> Notes:
    """Return notes on the brackets on ρ and ρ_σ, and on uniform exploration."""
    notes: Notes = {}
    if rho.uniform_lower < rho.uniform:
        notes["rho_uniform"] = f"an upper end; at least {rho.uniform_lower:.6g}"
    if rho.solution.note:
        notes["rho"] = rho.solution.note
    if rho_sigma.solution.note:
        notes["rho_sigma"] = rho_sigma.solution.note
    if rho_sigma.upper == 0 < rho.upper:
        notes["rho_sigma"] = "zero: rewards carry no noise where policies differ"
    return notes


def explain_gap(gaps: Gaps) -> Notes:
    """Return a note on the smallest gap, if it is unknown, infinite or zero."""
    if gaps.minimum is None:
        return {"min_gap": "the class cannot list its second-best policy"}
    if gaps.minimum == math.inf:
        return {"min_gap": "infinite: every policy acts alike wherever a context can occur"}
    if gaps.tied:
        return {"min_gap": "zero, or too small for a double: two policies tie for the best"}
    return {}


def explain_lower_bounds(samples: SampleBounds, instance: InstanceSummary, law: Law) -> Notes:
    """Return notes on lower bounds that are not theorems here."""
    notes: Notes = {}
    if samples.lower_bound_paper is None:
        notes["lower_bound_paper"] = _where_printed_bounds_hold(instance)
    if samples.lower_bound is not None:
        return notes
    if law is Law.OTHER:
        notes["lower_bound"] = "no theorem: known for Gaussian and Bernoulli rewards alone"
    elif instance.epsilon == 0:
        notes["lower_bound"] = "unknown: the best design is too large to write out"
    else:
        known = "" if instance.min_gap is not None else " for all we know"
        notes["lower_bound"] = f"no theorem: more than one policy is ε-optimal{known}"
    return notes


def _where_printed_bounds_hold(instance: InstanceSummary) -> str:
    """Return why a lower bound of the paper is not shown."""
    return "a theorem for ε = 0 only" if instance.epsilon > 0 else "a theorem for Gaussian noise of variance 1 only"


def explain_trivial_bounds(trivial: TrivialBounds | None, instance: InstanceSummary) -> Notes:
    """Return notes on the bounds of the trivial class, for other classes, for ε > 0 and for other noise."""
    if trivial is None:
        names = ("trivial_lower_bound", "trivial_upper_bound", "trivial_minimax_bound")
        return dict.fromkeys(names, "for the trivial class only")
    return {"trivial_lower_bound": _where_printed_bounds_hold(instance)} if trivial.lower is None else {}


def explain_disagreement(disagreement: DisagreementBounds | None, instance: InstanceSummary) -> Notes:
    """Return notes on disagreement coefficients and their bounds on ρ."""
    if disagreement is None:
        coefficients = ("disagreement_policy", "disagreement_cost_sensitive")
        names = (*coefficients, *(f"{name}_bound" for name in coefficients))
        return dict.fromkeys(names, "needs a search of the class for every context")
    notes: Notes = {}
    if disagreement.policy_bound is None:
        needs = "ε > 0" if instance.epsilon == 0 else "0 < Δ_uniform: π* must be best in every context"
        notes["disagreement_policy_bound"] = f"needs {needs}"
    if disagreement.cost_sensitive_bound is None:
        notes["disagreement_cost_sensitive_bound"] = "needs ε > 0"
    return notes


def explain_low_regret_bound(samples: SampleBounds) -> Notes:
    """Return a note on the bound for low-regret algorithms, which is for one instance only."""
    if samples.low_regret_bound is not None:
        return {}
    return {"low_regret_bound": "for the paper's hard instance with unit Gaussian noise only"}


# The complexity of a problem: a record in groups, with each number also under its name in the JSON.


Number = TypeVar("Number", bound=float | None)


class _Flat(Generic[Number]):
    """A descriptor that reads a number of a group under its name in the JSON."""

    def __init__(self, read: Callable[[Complexity], Number]) -> None:
        self.read = read

    @overload
    def __get__(self, measured: None, kind: type[Complexity]) -> _Flat[Number]: ...
    @overload
    def __get__(self, measured: Complexity, kind: type[Complexity]) -> Number: ...
    def __get__(self, measured: Complexity | None, kind: type[Complexity]) -> _Flat[Number] | Number:
        return self if measured is None else self.read(measured)


@dataclass(frozen=True, eq=False)
class Complexity(Displayed):
    """The complexity of a problem. Missing numbers are None, and `notes` says why under their names in the JSON.

    instance: the sizes and gaps of the problem and the class, with ε and δ.
    gaps: the best policy and the gaps of the others.
    law: the distribution of rewards around their means.
    rho: ρ_{Π,ε}.
    rho_sigma: ρ_{σ,ε}; the same object as `rho` where all noise has variance 1.
    samples: bounds and yardsticks, in samples.
    trivial: bounds of the trivial class; None for any other class.
    disagreement: disagreement coefficients; None if each context would need a search of the class.
    seconds: the time of the measurement.

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
        """Notes by the names in the JSON: why a number is None, and caveats on others."""
        return {
            **explain_rhos(self.rho, self.rho_sigma),
            **explain_gap(self.gaps),
            **explain_lower_bounds(self.samples, self.instance, self.law),
            **explain_trivial_bounds(self.trivial, self.instance),
            **explain_disagreement(self.disagreement, self.instance),
            **explain_low_regret_bound(self.samples),
        }

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values; an infinite number is the string "Infinity"."""
        names = [name for name, value in vars(Complexity).items() if isinstance(value, _Flat)]
        numbers: dict[str, Any] = {name: _plain(getattr(self, name)) for name in names}
        return {**numbers, "seconds": self.seconds, "notes": self.notes, "best_policy": self.gaps.best.describe()}


def _plain(number: float | None) -> float | str | None:
    if number is not None and math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number

"""The groups of numbers in the complexity of a problem."""

from __future__ import annotations

from dataclasses import dataclass

from pacbandits.design import Solution


@dataclass(frozen=True)
class InstanceSummary:
    """The problem, the class and the question, in numbers.

    n_policies: |Π|; None unless the class can be listed.
    log_size: log|Π|, or the class's upper bound on it.
    n_contexts: how many contexts the population has.
    n_actions: A.
    epsilon: ε.
    delta: δ.
    best_value: V(π*).
    min_gap: Δ_pol, the least gap of a policy that differs from π*; None when the class cannot tell.
    gap_epsilon: Δ_ε = max(ε, Δ_pol).
    gap_uniform: Δ_uniform, the least loss of one wrong action.
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
    """One complexity at ε, plain (ρ) or with actions weighted by their noise (ρ_σ).

    solution: the bracket on it, and the design that attains the upper end.
    uniform: what uniform exploration pays instead, or an upper end of that.
    uniform_lower: a lower end of what uniform exploration pays; equal to `uniform` where the class prices exactly.
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
    """Numbers of samples; each is explained at the function of its name in `pacbandits.complexity.bounds`.

    lower_bound: no algorithm takes fewer; None where that is no theorem.
    lower_bound_paper: the same as the paper has it; None unless ε = 0 and noise is Gaussian of variance 1.
    upper_bound: the main theorem with constant 1.
    minimax_bound: the minimax theorem with constant 1.
    confidence_price: a yardstick, confidence alone.
    union_price: a yardstick, a union bound over the class and the best design.
    union_price_uniform: the same with uniform exploration.
    low_regret_bound: what any low-regret algorithm takes; None unless this is the paper's hard instance.
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
    """Numbers of samples for the trivial class.

    lower: no algorithm takes fewer; None unless ε = 0 and noise is Gaussian of variance 1.
    upper: the paper's corollary with constant 1.
    minimax: what some instance needs, constant 1.
    """

    lower: float | None
    upper: float
    minimax: float


@dataclass(frozen=True)
class DisagreementBounds:
    """Disagreement coefficients at ε, and what they say of ρ.

    policy: C_pol(ε).
    cost_sensitive: C_csc(ε).
    policy_bound: ρ is at most this, by C_pol; None unless ε > 0 and 0 < Δ_uniform.
    cost_sensitive_bound: ρ is at most this, by C_csc; None unless ε > 0.
    """

    policy: float
    cost_sensitive: float
    policy_bound: float | None
    cost_sensitive_bound: float | None

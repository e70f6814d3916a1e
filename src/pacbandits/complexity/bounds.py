"""Sample-complexity bounds: formulas only. Every δ, union bound and constant of the theory page stands here.

The lower bounds are theorems with their constants. The upper bounds of the paper hold up to an absolute constant that
it does not state; they are evaluated with constant 1 and say so.
"""

from __future__ import annotations

import math

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray


def least_divergence(delta: float) -> float:
    """log(1/(2.4δ)), no more than kl(1 − δ, δ) (Kaufmann, Cappé and Garivier 2016); 0 where it would be negative."""
    return max(-math.log(2.4) - math.log(delta), 0.0)


def lower_bound(rho_sigma: float, *, delta: float) -> float:
    """`E τ ≥ 2 ρ_σ log(1/2.4δ)` for Gaussian noise of variance σ²(c, a) (Theorem `lower_bound`; corrections, row 13).

    Between an instance and the nearest one on which π beats π*, the divergence of n samples under the design p is
    n Δ(π)²/(2 V_π(p)); so n ≥ 2 log(1/2.4δ) max_π V_π/Δ(π)². For ε > 0 it holds when π* is the only ε-optimal policy,
    with (Δ(π) + ε)² in the place of Δ(π)².

    With a tie at ε = 0 it says ∞ for δ < 1/2.4, which is right for δ < 1/2: were E τ finite, instances near enough,
    on which one or the other is the only best policy, could not be told apart, and both would have to be the answer
    with probability 1 − δ.

    It is about algorithms that are right whatever the means are: one that relies on means within [0, 1] need not be so
    on the nearest instance, where that leaves [0, 1].
    """
    return _times(2.0 * rho_sigma, least_divergence(delta))


def coin_lower_bound(divergence: float, *, delta: float) -> float:
    """`E τ ≥ log(1/2.4δ)/D` for Bernoulli rewards, D no less than the divergence a sample can give (`coin_flips`)."""
    least = least_divergence(delta)
    if least == 0:
        return 0.0
    return least / divergence if divergence > 0 else np.inf


def paper_lower_bound(rho: float, *, delta: float) -> float:
    """`E τ ≥ ρ_{Π,0} log(1/2.4δ)`, Theorem `lower_bound` as printed: Gaussian noise of variance 1, and ε = 0.

    For other noise it is no theorem: rewards in [0, 1] have a variance of at most 1/4, and fewer samples can do.
    """
    return _times(rho, least_divergence(delta))


def upper_bound(rho: float, *, log_size: float, delta: float, gap_floor: float) -> float:
    """`ρ_{Π,ε} log(|Π| log₂(1/Δ_ε)/δ) log₂(1/Δ_ε)`, Theorem `sample_complexity`, with constant 1.

    The number of rounds log₂(1/Δ_ε) is taken to be at least one.
    """
    if rho == 0:
        return 0.0  # nothing to learn, and so no gap either
    if gap_floor <= 0:
        return np.inf
    rounds = max(-math.log2(gap_floor), 1.0)
    return _times(rho, (log_size + math.log(rounds) - math.log(delta)) * rounds)


def minimax_bound(*, n_actions: int, log_size: float, delta: float, epsilon: float) -> float:
    """`|A| (log|Π| + log(1/δ)) log(1/ε)/ε²`, second part of Theorem `upper_informal`, with constant 1.

    log(1/ε) is taken to be at least log 2: one round.
    """
    if epsilon == 0:
        return np.inf
    rounds = max(-math.log(epsilon), math.log(2.0))
    return n_actions * (log_size - math.log(delta)) * rounds / epsilon**2


def confidence_price(rho_sigma: float, *, delta: float) -> float:
    """`2 ρ_{σ,ε} log(1/2.4δ)`: the price of confidence alone. The lower bound when ε = 0; for ε > 0 a yardstick."""
    return _times(2.0 * rho_sigma, least_divergence(delta))


def union_price(rho_sigma: float, *, log_size: float, delta: float) -> float:
    """`2 ρ_{σ,ε} log(|Π|/δ)`: the price of a union bound paid in full. A yardstick, not a bound."""
    return _times(2.0 * rho_sigma, log_size - math.log(delta))


def least_regret(m: int, *, gap: float, divergence: float, delta: float) -> float:
    """`m Δ log(1/2.4δ)/D`: the reward that whoever gets sure of the best policy loses on the hard instance.

    In each of the m contexts the wrong action, which loses Δ, is played log(1/2.4δ)/D times or more on average, D the
    divergence of its rewards from ones that are worth 2Δ more (proof of Theorem `inefficient-low-regret`).
    """
    return m * gap * least_divergence(delta) / divergence


def low_regret_bound(m: int, *, gap: float, delta: float, divergence: float | None = None) -> float:
    """What any algorithm of minimax regret needs on the hard instance: √(α|A| E τ) when it stops, α = log m.

        E τ ≥ (m Δ log(1/2.4δ)/D)²/(2α) = m² Δ⁻² log²(1/2.4δ)/(8α)

    D is `divergence`, as in `least_regret`; by default 2Δ², that of Gaussian rewards of variance 1.

    Theorem `inefficient-low-regret` has 4α: its last line loses the |A| = 2 under the root (corrections, row 19).
    """
    shown = 2.0 * gap**2 if divergence is None else divergence
    return least_regret(m, gap=gap, divergence=shown, delta=delta) ** 2 / (2.0 * math.log(m))


def trivial_sum(gaps: FloatArray, weights: FloatArray) -> float:
    """`max_c (1/ν_c) Σ_a Δ_{c,a}⁻²` over contexts that can occur, for gaps (N, A) whose best action has gap 0.

    The sum of the trivial-class bounds. The best action enters with the least gap of the others (corrections, row 16),
    as otherwise the sum is infinite; infinite all the same when another action ties.
    """
    matter: BoolArray = weights > 0
    ordered = np.sort(gaps[matter], axis=1)
    if ordered.shape[1] == 1:
        return 0.0
    ordered[:, 0] = ordered[:, 1]
    with np.errstate(divide="ignore"):
        return float(((ordered**-2.0).sum(axis=1) / weights[matter]).max())


def trivial_upper_bound(
    trivial: float, *, n_contexts: int, n_actions: int, epsilon: float, delta: float, gap_floor: float
) -> float:
    """`min{|A|ε⁻², max_c Σ_a Δ⁻²/ν_c} (|C| log|A| + log(1/δ)) log(1/Δ_ε)`: Corollary `trivial_upper`, constant 1."""
    if trivial == 0:
        return 0.0
    if gap_floor <= 0:
        return np.inf
    worst = n_actions / epsilon**2 if epsilon > 0 else np.inf
    rounds = max(-math.log(gap_floor), math.log(2.0))
    return _times(min(worst, trivial), (n_contexts * math.log(n_actions) - math.log(delta)) * rounds)


def trivial_lower_bound(trivial: float, *, delta: float) -> float:
    """`E τ ≥ max_c (1/ν_c) Σ_a Δ_{c,a}⁻² log(1/2.4δ)`, ε = 0, unit Gaussian noise (Theorem `trivial-class-lower`)."""
    return _times(trivial, least_divergence(delta))


def trivial_minimax_bound(*, n_contexts: int, n_actions: int, epsilon: float, delta: float) -> float:
    """`|A| (|C| + log(1/δ))/ε²`: some instance of the trivial class needs this many (Theorem `trivial-class-lower`).

    Order only: the proof's constants are far below the 1 of the statement (corrections, row 23).
    """
    return np.inf if epsilon == 0 else n_actions * (n_contexts - math.log(delta)) / epsilon**2


def _times(a: float, b: float) -> float:
    """a·b with 0·∞ = 0."""
    return 0.0 if a == 0 or b == 0 else a * b

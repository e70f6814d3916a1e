"""The numbers of offline contexts in the paper's proofs: its bounds on |D|, as functions.

CODA replaces the distribution ν of contexts by a sample D of m. Two expectations over ν are then estimated, each within
(a constant)/√m uniformly over weightings λ ⊙ γ with k policies in their support. Legend: A actions, η smoothing, γ in
[γ_min, γ_max]; confidence is log(1/δ).

The constants are those of the paper's proof, and far too large in practice: with η_l = C_1 ε_l²/A⁴ they require more
contexts than there are people. docs/algorithms.md measures the error at small D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pacbandits.confidence import round_confidence, round_epsilon, rounds_needed
from pacbandits.errors import InputError


@dataclass(frozen=True)
class Smoothness:
    """The quantities that the bounds depend on besides m and δ.

    n_actions: A.
    smoothing: η.
    gamma_min: the least γ.
    gamma_max: the largest γ.
    support: k.
    log_size: log|Π|.
    """

    n_actions: int
    smoothing: float
    gamma_min: float
    gamma_max: float
    support: int
    log_size: float

    @classmethod
    def of_round(
        cls,
        round_number: int,
        *,
        n_actions: int,
        samples: int,
        support: int,
        log_size: float,
        delta: float,
        smoothing_constant: float,
    ) -> Smoothness:
        """Return those of round l of CODA with n samples: η_l = C_1 ε_l²/A⁴ and the box of the paper's Full CODA."""
        confidence = round_confidence(delta, round_number=round_number, log_size=log_size)
        smoothing = smoothing_constant * round_epsilon(round_number) ** 2 / n_actions**4
        return cls(
            n_actions=n_actions,
            smoothing=smoothing,
            gamma_min=math.sqrt(smoothing * confidence / samples) / 3.0,
            gamma_max=math.sqrt(confidence / (n_actions**2 * smoothing * samples)),
            support=support,
            log_size=log_size,
        )


def objective_error(contexts: int, *, given: Smoothness, confidence: float) -> float:
    """Return the bound of Lemma `history_1` on the error of `E(Σ_a √(κᵀ(t_a + η)))²` over D against ν."""
    g = given
    spread = g.n_actions**2 * g.gamma_max * (1 + g.smoothing) * math.sqrt((math.log(2) + confidence) / 2)
    steep = math.sqrt(2 * g.support * (1 + g.smoothing) * g.gamma_max / (g.smoothing * g.gamma_min) * _entropy(g))
    return (spread + 16 * g.n_actions**2 * g.gamma_max * steep) / math.sqrt(contexts)


def gradient_error(contexts: int, *, given: Smoothness, confidence: float) -> float:
    """Return the bound of Lemma `history_2` on the error of γ_π V^η_π over D against ν, for one π."""
    g = given
    ratio = (1 + g.smoothing) * g.gamma_max / (g.smoothing * g.gamma_min)
    spread = g.n_actions**2 * math.sqrt(ratio * (math.log(2) + confidence) / 2)
    steep = math.sqrt(2 * g.support * _entropy(g)) / (g.smoothing * g.gamma_min) ** 1.5
    return g.gamma_max * (spread + 8 * g.n_actions**2 * g.gamma_max * steep) / math.sqrt(contexts)


def contexts_needed(
    epsilon: float,
    *,
    delta: float,
    n_actions: int,
    samples: int,
    support: int,
    log_size: float,
    smoothing_constant: float = 1.0,
) -> float:
    """Return the least |D| for which both errors of the last round are within the proofs' ε_l/4 and ε_l/2.

    The failure probability δ_l of the round covers every policy; n = `samples` of that round, and C_1 of its η_l is
    `smoothing_constant`.
    """
    last = rounds_needed(epsilon)
    if last == 0 or samples < 1 or support < 1:
        raise InputError(f"epsilon must be below 1, samples and support 1 or more; got {epsilon}, {samples}, {support}")
    given = Smoothness.of_round(
        last,
        n_actions=n_actions,
        samples=samples,
        support=support,
        log_size=log_size,
        delta=delta,
        smoothing_constant=smoothing_constant,
    )
    confidence = round_confidence(delta, round_number=last, log_size=log_size)
    goal = round_epsilon(last)
    return max(
        (objective_error(1, given=given, confidence=confidence) / (goal / 4)) ** 2,
        (gradient_error(1, given=given, confidence=confidence) / (goal / 2)) ** 2,
    )


def _entropy(g: Smoothness) -> float:
    """Return log(3e|Π|/k)."""
    return math.log(3 * math.e / g.support) + g.log_size

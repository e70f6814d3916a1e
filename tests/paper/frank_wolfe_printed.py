"""FW-GD as printed, for one n: kept to show why it was corrected (docs/corrections.md, rows 8 to 11).

Take `frank_wolfe` for everything else. Printed are: a Frank–Wolfe gap that adds up the gradient over the support
without λ; γ_π = γ_max for every policy outside the support; a step from a Lipschitz constant; a fixed number of steps.
The doubling of n is left out, as the number of steps it needs at each n (`printed_iterations`) cannot be made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import InputError
from pacbandits.paper.frank_wolfe import SaddleProblem, descend


@dataclass(frozen=True, eq=False)
class PrintedRun:
    """What the printed iteration leaves behind.

    samples: n.
    weights (K,): λ after the last step.
    gamma (K,): γ after the last step.
    value: h(λ, γ, n); the printed test is value ≤ ε.
    gaps (T,): g_t as printed.
    steps (T,): β_t as printed.
    chosen (T,): π_t.
    note: a word when it could not go on.
    """

    samples: float
    weights: FloatArray
    gamma: FloatArray
    value: float
    gaps: FloatArray
    steps: FloatArray
    chosen: IntArray
    note: str = ""


def lipschitz_constant(problem: SaddleProblem, *, samples: float) -> float:
    """|A|² ((1 + η) γ_max)^{5/2} / (η^{3/2} γ_min²), as printed (Lemma `f_Lipschitz`; it knows no b)."""
    least, most = _box(problem, samples=samples)
    eta = problem.smoothing
    return float(problem.n_actions**2 * ((1.0 + eta) * most) ** 2.5 / (eta**1.5 * least**2))


def printed_iterations(problem: SaddleProblem, *, samples: float, epsilon: float) -> float:
    """K_l = L²/ε² with the constant above (Theorem `FW_gap`)."""
    return (lipschitz_constant(problem, samples=samples) / epsilon) ** 2


def printed_gamma(
    problem: SaddleProblem, weights: FloatArray, *, samples: float, precision: float, clip: float = 0.0
) -> FloatArray:
    """γ (K,) by GD on the support of λ clipped at `clip`, and γ_max for every other policy ("never materialized")."""
    found = descend(problem, weights, samples=samples, precision=precision, clip=clip)
    gamma = np.full(len(problem), _box(problem, samples=samples)[1])
    gamma[found.support] = found.gamma[found.support]
    return gamma


def solve_frank_wolfe_as_printed(
    problem: SaddleProblem, *, samples: float, epsilon: float, iterations: int, start: int = 0
) -> PrintedRun:
    """`iterations` steps of the inner loop of the paper's Algorithm `FW-GD` at one n, from λ = e_start.

    A gap below zero would take λ out of the simplex; the run stops there and says so. ι_t = ε³ t⁻³ |A|⁻⁶, infinite at
    t = 0 as printed, is taken at t = 1 there.
    """
    constant = lipschitz_constant(problem, samples=samples)
    weights = np.zeros(len(problem))
    weights[start] = 1.0
    gamma = np.full(len(problem), _box(problem, samples=samples)[1])
    gaps: list[float] = []
    steps: list[float] = []
    chosen: list[int] = []
    note = ""
    for t in range(iterations):
        gradient = problem.gradient(weights, gamma, samples=samples)
        best = int(gradient.argmax())
        gap = float(gradient[best] - gradient[weights > 0].sum())
        toward = -weights
        toward[best] += 1.0
        length = float(np.abs(toward).sum())
        gaps.append(gap)
        chosen.append(best)
        if gap < 0.0:
            note = f"the gap of step {t} is negative, and its step would leave the simplex"
            break
        step = min(gap / (constant * length**2), 1.0) if length > 0 else 0.0
        steps.append(step)
        clip = epsilon**3 * max(t, 1) ** -3.0 * problem.n_actions**-6.0
        gamma = printed_gamma(problem, weights, samples=samples, precision=epsilon / (t + 1) ** 2, clip=clip)
        weights = weights + step * toward
    return PrintedRun(
        samples=samples,
        weights=weights,
        gamma=gamma,
        value=problem.value(weights, gamma, samples=samples),
        gaps=np.array(gaps),
        steps=np.array(steps),
        chosen=np.array(chosen, dtype=np.int64),
        note=note,
    )


def _box(problem: SaddleProblem, *, samples: float) -> tuple[float, float]:
    if problem.smoothing == 0.0:
        raise InputError("the printed algorithm needs a smoothing above 0: without it γ_max is infinite")
    return problem.gamma_range(samples=samples)

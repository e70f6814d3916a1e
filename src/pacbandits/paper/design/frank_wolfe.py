"""FW-GD, corrected: Frank–Wolfe on the weights λ, gradient descent on γ, n doubled until the saddle value is small.

The paper's algorithm (`FW-GD`) with four departures (docs/corrections.md, rows 7 to 10; `frank_wolfe_printed` keeps the
printed steps):
- the Frank–Wolfe gap weighs the gradient by λ, and so is a duality gap: g = max_π ∇_π − Σ_π λ_π ∇_π = P(p(λ)) − H(λ);
- γ is minimised for every policy, also outside the support: ∇_π = −aΔ̂_π + 2b √(V^η_π(p) L/n);
- steps are exact (concave in the step, bisection on its slope), so no Lipschitz constant is needed;
- n is left as soon as the dual exceeds ε, and kept as soon as the gap is at most ε/3 and the dual at most ε.

Plain Frank–Wolfe steps are enough: made exact, 5 to 50 reach the gap of ε/3 on 60 to 200 policies, and in a prototype
pairwise steps took about as many. Every step adds at most one policy to the support.

A kept n has P(p) ≤ 4ε/3: with a = 1/8, b = 8 that is the width γV + L/(γn) ≤ ε/6 + Δ̂/64 for every policy, which is what
Lemma `control_of_UCB` needs. At η = 0, with n*(ε) = 4b²L min_p max_π V_π/(ε + aΔ̂_π)² the least n of the ratio form,
n*(4ε/3) ≤ n and, for n > 1, n < 2n*(ε).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import positive
from pacbandits.confidence import check_positive_epsilon
from pacbandits.design.enumerated import SUM_ROUNDING
from pacbandits.errors import InputError
from pacbandits.paper.design.descent import Descent, Stopping, descend, settle
from pacbandits.paper.design.saddle import SaddleProblem

# GD is asked for the first share of the paper's precision κ_t = ε/(t + 1)², and for no less than the second share of ε.
# log γ is found to twice the residual, also for policies whose weight is too small to be seen in the value.
_DESCENT_PRECISION_SHARE = 1e-2
_MIN_DESCENT_PRECISION_SHARE = 1e-9
_LOG_GAMMA_RESIDUAL = 1e-3
_MAX_DESCENT_STEPS_IN_SEARCH = 100
# Without smoothing, a context's actions that no policy of the support plays would have no probability and the primal
# no bound: it is also evaluated with at least this share of uniform exploration.
_PRIMAL_FLOOR_SHARE = 1e-3
# The step is searched in powers of the factor, then refined by geometric bisections, always on the rising side.
_STEP_SEARCH_FACTOR = 8.0
_STEP_BISECTIONS = 5
_MIN_STEP = 1e-13
# Where H rises along no step, it can still have a corner: without smoothing, p is free on contexts where the support
# agrees with q. A step of this size settles p there at no cost in H, and later steps balance what it settled.
_TOKEN_STEP = 1e-8
# An n is left as undecided after so many steps on it.
_MAX_STEPS_AN_N = 500
_MAX_SAMPLES = 2**200


@dataclass(frozen=True, eq=False)
class Saddle:
    """A number of samples, and a bracket on the saddle value there: dual ≤ max_λ min_γ h(λ, γ, n) ≤ primal.

    samples: n.
    weights (K,): the λ whose design attains `primal`.
    gamma (K,): γ_π = √(L/(n V^η_π(p))) for every π, to estimate with.
    propensities (N, A): p ∝ √(Σ_π κ_π (t_a + η)), and at least `floor`.
    masses (K,): κ, which is λ ⊙ γ before the floor; it makes p on other contexts.
    floor: the least probability of every action; 0 with smoothing.
    dual: the lower end.
    primal: the upper end.
    tolerance: the gap asked for.
    iterations: Frank–Wolfe steps over all n tried.
    history: (step, dual, gap) on this n.
    note: a word when the gap asked for was not reached, or when a smaller n was left undecided.
    """

    samples: int
    weights: FloatArray
    gamma: FloatArray
    propensities: FloatArray
    masses: FloatArray
    floor: float
    dual: float
    primal: float
    tolerance: float
    iterations: int
    history: tuple[tuple[int, float, float], ...]
    note: str = ""

    @property
    def gap(self) -> float:
        """primal − dual."""
        return self.primal - self.dual

    @property
    def support(self) -> IntArray:
        """The policies of positive weight."""
        return np.flatnonzero(self.weights)

    @property
    def converged(self) -> bool:
        """Whether the gap asked for was reached."""
        return self.gap <= self.tolerance


def solve_frank_wolfe(
    problem: SaddleProblem, *, epsilon: float, tolerance: float = 1 / 3, max_iterations: int = 20_000
) -> Saddle:
    """The least n = 1, 2, 4, … whose saddle value is found to be at most ε, to a gap of `tolerance` times ε.

    `max_iterations` bounds the Frank–Wolfe steps over all n; whatever is returned, its bracket holds.
    """
    epsilon, tolerance = check_positive_epsilon(epsilon, asker="FW-GD"), positive(tolerance, name="tolerance")
    worst = int(problem.gaps.argmin())
    if -problem.gap_weight * problem.gaps[worst] >= epsilon:
        raise InputError(
            f"no number of samples will do: policy {worst} has gap {problem.gaps[worst]:.6g} and "
            f"{problem.gap_weight:.6g} times its size is not below epsilon {epsilon:.6g}; choose a better reference"
        )
    samples, left, undecided = 1, max_iterations, 0
    while True:
        ascent = Ascent(problem, samples=samples, epsilon=epsilon, target=tolerance * epsilon)
        decided = ascent.run(min(left, _MAX_STEPS_AN_N))
        left -= ascent.steps
        if (decided and ascent.dual <= epsilon) or left <= 0 or samples >= _MAX_SAMPLES:
            break
        undecided += not decided
        samples *= 2
    gap = ascent.primal - ascent.dual
    note = f"{undecided} smaller n left undecided, so that n may be larger than need be" if undecided else ""
    if gap > tolerance * epsilon or ascent.dual > epsilon:
        note = f"stopped after {max_iterations - left} steps at a dual of {ascent.dual:.3g} and a gap of {gap:.3g}"
    return Saddle(
        samples=samples,
        weights=ascent.weights,
        gamma=problem.best_gamma(ascent.propensities, samples=samples),
        propensities=ascent.propensities,
        masses=ascent.masses,
        floor=ascent.floor,
        dual=ascent.dual,
        primal=ascent.primal,
        tolerance=tolerance * epsilon,
        iterations=max_iterations - left,
        history=tuple(ascent.history),
        note=note,
    )


class Ascent:
    """Frank–Wolfe for one n; remembers the best dual and the best primal seen, which need not be of the same λ.

    start (K,): the λ to begin with, by default the one policy of the largest slope at the uniform design.
    """

    def __init__(
        self, problem: SaddleProblem, *, samples: int, epsilon: float, target: float, start: FloatArray | None = None
    ) -> None:
        self.problem = problem
        self.samples = samples
        self.epsilon = epsilon
        self.target = target
        self.steps = 0
        self.floor = 0.0
        self.masses = np.zeros(len(problem))
        self.primal = np.inf
        self.history: list[tuple[int, float, float]] = []
        # A copy of the reference has V = 0 at η = 0: no weight on it changes p, and its slope is a bound as it stands.
        quiet = ~problem.speaking
        self.dual = float(-problem.gap_weight * problem.gaps[quiet].min()) if quiet.any() else -np.inf
        self.gaps_part = -problem.gap_weight * problem.gaps
        self.rounding = SUM_ROUNDING * float(np.abs(self.gaps_part).max())
        self.propensities = problem.uniform()
        self.weights = np.zeros(len(problem))
        if start is None:
            slopes = problem.slopes(self.propensities, samples=samples)
            self.weights[int(np.where(quiet, -np.inf, slopes).argmax() if not quiet.all() else 0)] = 1.0
        else:
            self.weights[:] = start / start.sum()
        self.gamma = problem.best_gamma(self.propensities, samples=samples)

    def run(self, max_steps: int) -> bool:
        """Climb until n is decided: too small (dual > ε), or good (gap within the target). False: neither."""
        weights = self.weights
        while True:
            toward, descent = self._look(weights)
            if self.dual > self.epsilon or self.primal - self.dual <= self.target:
                return True
            if self.steps >= max_steps:
                return False
            self.steps += 1
            step, log_gamma, support = self._search(weights, toward, descent)
            self.gamma[support] = np.exp(log_gamma)
            weights = (1.0 - step) * weights
            weights[toward] += step
            weights = weights / weights.sum()

    def _precision(self) -> float:
        return self.epsilon * max(_DESCENT_PRECISION_SHARE / (self.steps + 1) ** 2, _MIN_DESCENT_PRECISION_SHARE)

    def _look(self, weights: FloatArray) -> tuple[int, Descent]:
        """Minimise over γ at λ, update the bracket, and ask the linear oracle: the policy of the largest slope."""
        problem, samples = self.problem, self.samples
        descent = descend(
            problem,
            weights,
            samples=samples,
            precision=self._precision(),
            residual=_LOG_GAMMA_RESIDUAL,
            start=self.gamma,
        )
        widths = descent.value - float(weights @ self.gaps_part)
        self.dual = max(self.dual, descent.value - descent.excess - SUM_ROUNDING * widths - self.rounding)
        slopes = self._bound(weights, descent, descent.propensities, floor=0.0)
        if problem.smoothing == 0.0:
            floor = _PRIMAL_FLOOR_SHARE / problem.n_actions
            raised = problem.propensities(weights, descent.gamma, floor=floor)
            slopes = self._bound(weights, descent, raised, floor=floor)
        self.gamma = np.where(descent.gamma > 0, descent.gamma, self.gamma)
        self.history.append((self.steps, self.dual, self.primal - self.dual))
        return int(np.where(problem.speaking, slopes, -np.inf).argmax()), descent

    def _bound(self, weights: FloatArray, descent: Descent, propensities: FloatArray, *, floor: float) -> FloatArray:
        slopes = self.problem.slopes(propensities, samples=self.samples)
        primal = float((slopes + SUM_ROUNDING * (slopes - self.gaps_part)).max()) + self.rounding
        if primal < self.primal:
            self.primal, self.weights, self.propensities, self.floor = primal, weights, propensities, floor
            self.masses = weights * np.where(np.isfinite(descent.gamma), descent.gamma, 0.0)
        return slopes

    def _search(self, weights: FloatArray, toward: int, descent: Descent) -> tuple[float, FloatArray, IntArray]:
        """The exact step from λ to e_toward: where the slope of H changes sign. With log γ and support after it."""
        problem = self.problem
        support = np.union1d(descent.support, [toward])
        table = problem.table(support)
        before = weights[support]
        change = (support == toward) - before
        log_gamma = np.log(np.where(np.isfinite(self.gamma), self.gamma, 1.0))[support]
        best = log_gamma.copy()
        p, variances = np.empty_like(self.propensities), np.empty(len(support))
        budget = problem.confidence / self.samples
        stopping = Stopping(self._precision() / problem.width_weight, _LOG_GAMMA_RESIDUAL, _MAX_DESCENT_STEPS_IN_SEARCH)

        def rises(step: float) -> bool:
            settle(table, before + step * change, log_gamma, budget, stopping, p, variances)
            slopes = self.gaps_part[support] + 2.0 * problem.width_weight * np.sqrt(variances * budget)
            return float(change @ slopes) > 0.0

        low, high = 1.0 / _STEP_SEARCH_FACTOR, 1.0
        while not rises(low):
            low, high = low / _STEP_SEARCH_FACTOR, low
            if low < _MIN_STEP:
                return _TOKEN_STEP, best, support
        best[:] = log_gamma
        for _ in range(_STEP_BISECTIONS):
            middle = float(np.sqrt(low * high))
            if rises(middle):
                low = middle
                best[:] = log_gamma
            else:
                high = middle
        return low, best, support

"""FW-GD, corrected: Frank–Wolfe on the weights λ, gradient descent on γ, n doubled until the saddle value is small."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pacbandits.allocation import fill_row
from pacbandits.arrays import BoolArray, FloatArray, IntArray, floats, integers, probabilities, read_only
from pacbandits.checks import positive
from pacbandits.compiled import kernel
from pacbandits.confidence import check_positive_epsilon
from pacbandits.design.weights import SUM_ROUNDING
from pacbandits.errors import InputError

# The saddle form of the design problem on a table of policies.
#
# Legend: K policies π, N contexts c of weight ν_c, A actions; q reference; λ weights; γ one number a policy; n samples;
# L = log(1/δ_l); Δ̂ estimated gaps; η smoothing; a and b the weights of gap and width (1/8 and 8; the paper prints 1
# and 1, but its proofs use ours: docs/corrections.md, row 7).
#
#     h(λ, γ, n) = Σ_π λ_π (−aΔ̂_π + b L/(γ_π n)) + b E_c[(Σ_a √((λ ⊙ γ)ᵀ(t_a + η)))²]     (paper, Full CODA, eq. `C_1`)
#     E_c[…]     = min_p Σ_π λ_π γ_π V^η_π(p),   V^η_π(p) = V_π(p; q) + η E_c Σ_a 1/p(a|c)
#     H(λ)       = min_γ h(λ, γ, n) = min_p Σ_π λ_π (−aΔ̂_π + 2b √(V^η_π(p) L/n))
#
# H is concave, a minimum of functions linear in λ, and by weak duality every λ and every p bracket the saddle value:
#
#     H(λ) ≤ max_λ H = min_p P(p) ≤ P(p),   P(p) = max_π −aΔ̂_π + 2b √(V^η_π(p) L/n)


class SaddleTable(NamedTuple):
    """The fields of a `SaddleProblem` that kernels read, for some or all of its policies.

    actions (K, N): every policy's action on every context.
    reference (N,): q's actions.
    weights (N,): ν.
    smoothing: η.
    """

    actions: IntArray
    reference: IntArray
    weights: FloatArray
    smoothing: float


@kernel
def fill_propensities(table: SaddleTable, kappa: FloatArray, floor: float, p: FloatArray) -> None:
    """Write p (N, A) for the masses x_{c,a} = Σ_π κ_π (t_a^c(π) + η)."""
    n_contexts, n_actions = p.shape
    mass = np.empty(n_actions)
    base = table.smoothing * kappa.sum()
    rows = table.actions
    for c in range(n_contexts):
        q = table.reference[c]
        mass[:] = base
        for k in range(rows.shape[0]):
            if rows[k, c] != q:
                mass[rows[k, c]] += kappa[k]
                mass[q] += kappa[k]
        fill_row(mass, floor, p[c])


@kernel
def fill_variances(table: SaddleTable, p: FloatArray, out: FloatArray) -> None:
    """Write V^η_π(p) for every row; infinite if a needed action has probability 0."""
    rows, weights, smoothing = table.actions, table.weights, table.smoothing
    base = 0.0
    if smoothing > 0.0:
        for c in range(p.shape[0]):
            if weights[c] > 0.0:
                for a in range(p.shape[1]):
                    base += weights[c] / p[c, a] if p[c, a] > 0.0 else np.inf
    for k in range(rows.shape[0]):
        total = 0.0
        for c in range(p.shape[0]):
            q = table.reference[c]
            a = rows[k, c]
            if a != q and weights[c] > 0.0:
                if p[c, a] > 0.0 and p[c, q] > 0.0:
                    total += weights[c] * (1.0 / p[c, a] + 1.0 / p[c, q])
                else:
                    total = np.inf
        out[k] = total + smoothing * base


@dataclass(frozen=True, eq=False)
class SaddleProblem:
    """`max_λ min_γ h(λ, γ, n)` for a table of policies; n is an argument of the methods.

    actions (K, N): every policy's action on every context.
    n_actions: A.
    reference (N,): q's actions.
    weights (N,): ν.
    gaps (K,): Δ̂ against q.
    confidence: L = log(1/δ_l).
    smoothing: η.
    gap_weight: a.
    width_weight: b.
    """

    actions: IntArray
    n_actions: int = field(kw_only=True)
    reference: IntArray = field(kw_only=True)
    weights: FloatArray = field(kw_only=True)
    gaps: FloatArray = field(kw_only=True)
    confidence: float = field(kw_only=True)
    smoothing: float = field(kw_only=True, default=0.0)
    gap_weight: float = field(kw_only=True, default=1 / 8)
    width_weight: float = field(kw_only=True, default=8.0)

    def __post_init__(self) -> None:
        actions = integers(self.actions, name="actions", shape=(None, None), below=self.n_actions)
        if 0 in actions.shape:
            raise InputError(f"actions has shape {actions.shape}; at least one policy and one context are needed")
        size, width = actions.shape
        reference = integers(self.reference, name="reference actions", shape=(width,), below=self.n_actions)
        object.__setattr__(self, "actions", actions)
        object.__setattr__(self, "reference", reference)
        object.__setattr__(self, "weights", probabilities(self.weights, name="context weights", size=width))
        object.__setattr__(self, "gaps", floats(self.gaps, name="gaps", shape=(size,)))
        positive = {"confidence": self.confidence, "gap_weight": self.gap_weight, "width_weight": self.width_weight}
        for name, number in positive.items():
            if not 0 < number < np.inf:
                raise InputError(f"{name} must be positive and finite, got {number}")
        if not 0 <= self.smoothing < np.inf:
            raise InputError(f"smoothing must be 0 or more and finite, got {self.smoothing}")

    def __len__(self) -> int:
        return self.actions.shape[0]

    def table(self, rows: IntArray | None = None) -> SaddleTable:
        """Return the table of all policies, or of the given rows, for the kernels."""
        actions = self.actions if rows is None else self.actions[rows]
        return SaddleTable(read_only(actions), read_only(self.reference), read_only(self.weights), self.smoothing)

    def uniform(self) -> FloatArray:
        """Return uniform propensities, (N, A)."""
        return np.full((self.actions.shape[1], self.n_actions), 1.0 / self.n_actions)

    def propensities(self, weights: FloatArray, gamma: FloatArray, *, floor: float = 0.0) -> FloatArray:
        """Return p(a|c) ∝ √(Σ_π λ_π γ_π (t_a^c(π) + η)), (N, A), for λ, γ (K,); with `floor`, the best p ≥ floor."""
        kappa = np.where(self.speaking & (weights > 0), weights, 0.0)
        kappa = np.multiply(kappa, gamma, where=kappa > 0, out=np.zeros(len(self)))
        out = self.uniform()
        fill_propensities(self.table(), kappa, floor, out)
        return out

    def variances(self, propensities: FloatArray) -> FloatArray:
        """Return V^η_π(p) for every policy, (K,)."""
        out = np.empty(len(self))
        fill_variances(self.table(), propensities, out)
        return out

    def value(self, weights: FloatArray, gamma: FloatArray, *, samples: float) -> float:
        """Return h(λ, γ, n) = ⟨∇_λ h, λ⟩ (paper, Lemma `gg`)."""
        at = weights > 0
        return float(weights[at] @ self.gradient(weights, gamma, samples=samples)[at])

    def gradient(self, weights: FloatArray, gamma: FloatArray, *, samples: float) -> FloatArray:
        """Return ∇_λ h(λ, γ, n) = −aΔ̂_π + b (L/(γ_π n) + γ_π V^η_π(p(λ ⊙ γ))), (K,)."""
        variances = self.variances(self.propensities(weights, gamma))
        with np.errstate(divide="ignore", invalid="ignore"):
            width = self.confidence / (gamma * samples) + np.where(variances > 0, gamma * variances, 0.0)
        width = np.where(gamma > 0, width, np.inf)
        return -self.gap_weight * self.gaps + self.width_weight * width

    def best_gamma(self, propensities: FloatArray, *, samples: float) -> FloatArray:
        """Return γ_π = √(L/(n V^η_π(p))), which minimises γV + L/(γn); infinite for a copy of q at η = 0."""
        with np.errstate(divide="ignore"):
            return np.sqrt(self.confidence / (float(samples) * self.variances(propensities)))

    def slopes(self, propensities: FloatArray, *, samples: float) -> FloatArray:
        """Return −aΔ̂_π + 2b √(V^η_π(p) L/n), (K,): at the p that minimises for λ, the gradient of H(λ)."""
        widths = np.sqrt(self.variances(propensities) * (self.confidence / samples))
        return -self.gap_weight * self.gaps + 2.0 * self.width_weight * widths

    def primal(self, propensities: FloatArray, *, samples: float) -> float:
        """Return P(p), the largest slope: an upper bound of the saddle value for every p."""
        return float(self.slopes(propensities, samples=samples).max())

    def gamma_range(self, *, samples: float) -> tuple[float, float]:
        """Return [γ_min, γ_max] = [⅓√(ηL/n), √(L/(A²ηn))], the box of Full CODA.

        The box never binds when Aη ≤ 3/2, and no minimisation here imposes it. γ_π ≤ γ_max means V^η_π ≥ A²η, true as
        Σ_a 1/p ≥ A². γ_π ≥ γ_min means V^η_π ≤ 9/η: for masses x_a ≥ ηκ that sum to at most (2 + Aη)κ, 1/p ≤
        √(A(2 + Aη)/η), so V^η_π ≤ (2 + Aη)^{3/2} √(A/η). (The paper's proof has 1 + η and 2 + η for our 2 + Aη.)
        """
        if self.smoothing == 0.0:
            return 0.0, math.inf
        unit = math.sqrt(self.confidence / samples)
        return math.sqrt(self.smoothing) * unit / 3.0, unit / (self.n_actions * math.sqrt(self.smoothing))

    @cached_property
    def speaking(self) -> BoolArray:
        """Whether V^η > 0, for every policy (K,): at η = 0, whether it differs from q on a context that can occur."""
        present = self.weights > 0
        differs: BoolArray = (self.actions[:, present] != self.reference[present]).any(axis=1)
        return differs | (self.smoothing > 0)


# GD: the minimum of h(λ, γ, n) over γ for a fixed weighting λ (paper, Algorithm `GD`; notation above).


class Stopping(NamedTuple):
    """Stopping rule of gradient descent on γ: both bounds hold, or the steps are used up.

    precision: an upper bound on the distance of the value Σ λ (A + B) to its minimum.
    residual: the longest step in log γ.
    max_steps: the largest number of steps.
    """

    precision: float
    residual: float
    max_steps: int


@kernel
def settle(
    table: SaddleTable,
    lam: FloatArray,
    log_gamma: FloatArray,
    budget: float,
    stopping: Stopping,
    p: FloatArray,
    variances: FloatArray,
) -> tuple[float, float, int]:
    """Run gradient descent on log γ, in place, for the policies of a table, weights λ and budget L/n; see `descend`.

    Returns the value Σ λ (A + B), a bound on its distance to the minimum, and the number of steps, all without b.
    """
    n_rows = table.actions.shape[0]
    kappa = np.empty(n_rows)
    toward = np.zeros(n_rows)
    steps = 0
    while True:
        for k in range(n_rows):
            kappa[k] = lam[k] * np.exp(log_gamma[k])
        fill_propensities(table, kappa, 0.0, p)
        fill_variances(table, p, variances)
        value, excess, longest = 0.0, 0.0, 0.0
        for k in range(n_rows):
            # Not moved: a copy of q (V = 0), and a policy without weight on an action without probability.
            toward[k] = 0.0
            if 0.0 < variances[k] < np.inf:
                toward[k] = 0.5 * np.log(budget / variances[k]) - log_gamma[k]
            if lam[k] > 0.0 and variances[k] > 0.0:
                up, down = kappa[k] * variances[k], lam[k] * budget / np.exp(log_gamma[k])
                value += up + down
                excess += max(-2.0 * up * toward[k] - up + down, 0.0)
                longest = max(longest, abs(toward[k]))
        if (excess <= stopping.precision and longest <= stopping.residual) or steps >= stopping.max_steps:
            return value, excess, steps
        for k in range(n_rows):
            log_gamma[k] += toward[k]
        steps += 1


@dataclass(frozen=True, eq=False)
class Descent:
    """The result of gradient descent on γ for a weighting λ.

    gamma (K,): on the descended support the iterate, elsewhere its minimiser √(L/(nV)).
    propensities (N, A): p(λ ⊙ γ).
    value: h there.
    excess: value − excess ≤ min_γ h ≤ value.
    support: the policies whose γ was descended.
    steps: the number of gradient steps.
    """

    gamma: FloatArray
    propensities: FloatArray
    value: float
    excess: float
    support: IntArray
    steps: int


def descend(
    problem: SaddleProblem,
    weights: FloatArray,
    *,
    samples: float,
    precision: float,
    residual: float = 1e-3,
    clip: float = 0.0,
    start: FloatArray | None = None,
    max_steps: int = 200,
) -> Descent:
    """Minimise h(λ̃, γ, n) over γ to `precision`, λ̃ being λ (K,) with weights below `clip` set to zero (paper, GD).

    The paper suspects that h is not convex in γ. In log γ it is: x_{c,a} is a sum of exponentials, so √(x x') is
    log-convex. With A = γV^η(p(λ ⊙ γ)) and B = L/(γn), its gradient is bλ(A − B), its Hessian at most diag(bλ(A + B)),
    and the step, scaled by that curvature, is ½ log(B/A) for each policy: it minimises the upper bound of h that has p
    fixed, so h never rises. The descent stops when two computable bounds hold:

    - of the value, from the convexity of the part without B:
      h(λ, γ, n) − min_γ h ≤ b Σ_π λ_π (A_π log(A_π/B_π) − A_π + B_π) ≤ `precision`;
    - of the iterate: the step halves distances in max_π |log γ_π − log γ'_π| (factors within e^±d on γ become e^±d/2
      on √x, e^±d on p and V, e^±d/2 on √V), so the minimum is unique, the error halves with every step whatever λ, n
      and η, and max_π |log γ_π − log γ*_π| ≤ 2 max_π |step_π| ≤ 2 `residual`.

    `start` (K,): γ to begin from, by default the minimisers at the uniform design.
    """
    support = np.flatnonzero((weights > 0) & (weights >= clip))
    if start is None:
        start = problem.best_gamma(problem.uniform(), samples=samples)
    log_gamma = np.log(np.where(np.isfinite(start), start, 1.0))[support]
    p, variances = problem.uniform(), np.empty(len(support))
    value, excess, steps = settle(
        problem.table(support),
        weights[support],
        log_gamma,
        problem.confidence / samples,
        Stopping(precision / problem.width_weight, residual, max_steps),
        p,
        variances,
    )
    gamma = problem.best_gamma(p, samples=samples)
    gamma[support] = np.where(variances > 0, np.exp(log_gamma), np.inf)
    return Descent(
        gamma=gamma,
        propensities=p,
        value=float(problem.width_weight * value - problem.gap_weight * (weights[support] @ problem.gaps[support])),
        excess=float(problem.width_weight * excess),
        support=support,
        steps=steps,
    )


# FW-GD, corrected: Frank–Wolfe on the weights λ, gradient descent on γ, n doubled until the saddle value is small.
#
# The paper's algorithm (`FW-GD`) with four departures (docs/corrections.md, rows 7 to 10;
# `tests/paper/frank_wolfe_printed.py` keeps the printed steps):
# - the Frank–Wolfe gap weighs the gradient by λ, and so is a duality gap: g = max_π ∇_π − Σ_π λ_π ∇_π = P(p(λ)) − H(λ);
# - γ is minimised for every policy, also outside the support: ∇_π = −aΔ̂_π + 2b √(V^η_π(p) L/n);
# - steps are exact (concave in the step, bisection on its slope), so no Lipschitz constant is needed;
# - n is left as soon as the dual exceeds ε, and kept as soon as the gap is at most ε/3 and the dual at most ε.
#
# Plain Frank–Wolfe steps are enough: made exact, 5 to 50 reach the gap of ε/3 on 60 to 200 policies, and in a prototype
# pairwise steps took about as many. Every step adds at most one policy to the support.
#
# A kept n has P(p) ≤ 4ε/3: with a = 1/8, b = 8 that is the width γV + L/(γn) ≤ ε/6 + Δ̂/64 for every policy, which is
# what Lemma `control_of_UCB` needs. At η = 0, with n*(ε) = 4b²L min_p max_π V_π/(ε + aΔ̂_π)² the least n of the ratio
# form, n*(4ε/3) ≤ n and, for n > 1, n < 2n*(ε).


# GD is run to the first share of the paper's precision κ_t = ε/(t + 1)², but no finer than the second share of ε.
# log γ is found to twice the residual, also for policies whose weight is too small to affect the value.
_DESCENT_PRECISION_SHARE = 1e-2
_MIN_DESCENT_PRECISION_SHARE = 1e-9
_LOG_GAMMA_RESIDUAL = 1e-3
_MAX_DESCENT_STEPS_IN_SEARCH = 100
# Without smoothing, actions that no policy of the support plays would have probability 0 and the primal would be
# infinite: it is also evaluated with at least this share of uniform exploration.
_PRIMAL_FLOOR_SHARE = 1e-3
# The step is searched in powers of the factor, then refined by geometric bisections, always on the rising side.
_STEP_SEARCH_FACTOR = 8.0
_STEP_BISECTIONS = 5
_MIN_STEP = 1e-13
# If H rises along no step, it can still have a corner: without smoothing, p is free on contexts where the support
# agrees with q. A step of this size fixes p there at no cost in H, and later steps rebalance it.
_TOKEN_STEP = 1e-8
# An n is left undecided after this many steps.
_MAX_STEPS_AN_N = 500
_MAX_SAMPLES = 2**200


@dataclass(frozen=True, eq=False)
class Saddle:
    """A number of samples, with a bracket on its saddle value: dual ≤ max_λ min_γ h(λ, γ, n) ≤ primal.

    samples: n.
    weights (K,): the λ whose design attains `primal`.
    gamma (K,): γ_π = √(L/(n V^η_π(p))) for every π, to estimate with.
    propensities (N, A): p ∝ √(Σ_π κ_π (t_a + η)), and at least `floor`.
    masses (K,): κ, which is λ ⊙ γ before the floor; it makes p on other contexts.
    floor: the minimum propensity; 0 with smoothing.
    dual: the lower end.
    primal: the upper end.
    tolerance: the requested gap.
    iterations: Frank–Wolfe steps over all n tried.
    history: (step, dual, gap) on this n.
    note: set if the requested gap was not reached, or a smaller n was left undecided.
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
        """Return primal − dual."""
        return self.primal - self.dual

    @property
    def support(self) -> IntArray:
        """Return the policies of positive weight."""
        return np.flatnonzero(self.weights)

    @property
    def converged(self) -> bool:
        """Return whether the requested gap was reached."""
        return self.gap <= self.tolerance


def solve_frank_wolfe(
    problem: SaddleProblem, *, epsilon: float, tolerance: float = 1 / 3, max_iterations: int = 20_000
) -> Saddle:
    """Return the least n = 1, 2, 4, … whose saddle value is found to be at most ε, to a gap of `tolerance` times ε.

    `max_iterations` bounds the Frank–Wolfe steps over all n; the bracket of the result always holds.
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
    """Frank–Wolfe for one n; keeps the best dual and the best primal, which may belong to different λ.

    start (K,): the initial λ, by default the one policy of the largest slope at the uniform design.
    """

    def __init__(
        self, problem: SaddleProblem, *, samples: int, epsilon: float, target: float, start: FloatArray | None = None
    ) -> None:
        self.problem = problem
        self.samples = samples
        self.epsilon = epsilon
        self.target = target
        self.steps = self.best_step = 0
        self.floor = 0.0
        self.masses = np.zeros(len(problem))
        self.primal = np.inf
        self.history: list[tuple[int, float, float]] = []
        # A copy of the reference has V = 0 at η = 0: no weight on it changes p, and its slope is itself a bound.
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
        """Step until n is decided: too small (dual > ε), or good (gap within the target). Return whether it was."""
        weights = self.weights
        while True:
            toward, descent = self._look(weights)
            self._last = weights, descent
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

    def take_last(self) -> None:
        """Take the last λ, whose dual is the largest, in place of the one of the smallest primal."""
        weights, descent = self._last
        self.primal = np.inf
        self._bound(weights, descent, descent.propensities, floor=0.0)

    def _precision(self) -> float:
        return self.epsilon * max(_DESCENT_PRECISION_SHARE / (self.steps + 1) ** 2, _MIN_DESCENT_PRECISION_SHARE)

    def _look(self, weights: FloatArray) -> tuple[int, Descent]:
        """Minimise over γ at λ, and update the bracket; return the policy of the largest slope, and the descent."""
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
            self.best_step = self.steps
            self.masses = weights * np.where(np.isfinite(descent.gamma), descent.gamma, 0.0)
        return slopes

    def _search(self, weights: FloatArray, toward: int, descent: Descent) -> tuple[float, FloatArray, IntArray]:
        """Return the exact step from λ to e_toward, where the slope of H changes sign, with log γ and the support."""
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
            if low < _MIN_STEP * min(problem.smoothing or 1.0, 1.0):
                return low if problem.smoothing else _TOKEN_STEP, best, support
        best[:] = log_gamma
        for _ in range(_STEP_BISECTIONS):
            middle = float(np.sqrt(low * high))
            if rises(middle):
                low = middle
                best[:] = log_gamma
            else:
                high = middle
        return low, best, support

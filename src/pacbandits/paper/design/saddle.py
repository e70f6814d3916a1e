"""The saddle form of the design problem on a table of policies.

Legend: K policies π, N contexts c of weight ν_c, A actions; q reference; λ weights; γ one number a policy; n samples;
L = log(1/δ_l); Δ̂ estimated gaps; η smoothing; a and b the weights of gap and width (1/8 and 8; the paper prints 1 and
1, but its proofs use ours: docs/corrections.md, row 7).

    h(λ, γ, n) = Σ_π λ_π (−aΔ̂_π + b L/(γ_π n)) + b E_c[(Σ_a √((λ ⊙ γ)ᵀ(t_a + η)))²]     (paper, Full CODA, eq. `C_1`)
    E_c[…]     = min_p Σ_π λ_π γ_π V^η_π(p),   V^η_π(p) = V_π(p; q) + η E_c Σ_a 1/p(a|c)
    H(λ)       = min_γ h(λ, γ, n) = min_p Σ_π λ_π (−aΔ̂_π + 2b √(V^η_π(p) L/n))

H is concave, a minimum of functions linear in λ, and by weak duality every λ and every p bracket the saddle value:

    H(λ) ≤ max_λ H = min_p P(p) ≤ P(p),   P(p) = max_π −aΔ̂_π + 2b √(V^η_π(p) L/n)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pacbandits.allocation import fill_row
from pacbandits.arrays import BoolArray, FloatArray, IntArray, floats, integers, probabilities, read_only
from pacbandits.compiled import kernel
from pacbandits.errors import InputError


class SaddleTable(NamedTuple):
    """What kernels read of a `SaddleProblem`: some or all of its policies, and where they act.

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
    """p (N, A) for the masses x_{c,a} = Σ_π κ_π (t_a^c(π) + η)."""
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
    """V^η_π(p) for every row; infinite where an action that counts has no probability."""
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
        """All policies, or those of the given rows, for the kernels."""
        actions = self.actions if rows is None else self.actions[rows]
        return SaddleTable(read_only(actions), read_only(self.reference), read_only(self.weights), self.smoothing)

    def uniform(self) -> FloatArray:
        """Uniform propensities, (N, A)."""
        return np.full((self.actions.shape[1], self.n_actions), 1.0 / self.n_actions)

    def propensities(self, weights: FloatArray, gamma: FloatArray, *, floor: float = 0.0) -> FloatArray:
        """p(a|c) ∝ √(Σ_π λ_π γ_π (t_a^c(π) + η)), (N, A), for λ, γ (K,); with `floor`, the best p ≥ floor for them."""
        kappa = np.where(self.speaking & (weights > 0), weights, 0.0)
        kappa = np.multiply(kappa, gamma, where=kappa > 0, out=np.zeros(len(self)))
        out = self.uniform()
        fill_propensities(self.table(), kappa, floor, out)
        return out

    def variances(self, propensities: FloatArray) -> FloatArray:
        """V^η_π(p) for every policy, (K,)."""
        out = np.empty(len(self))
        fill_variances(self.table(), propensities, out)
        return out

    def value(self, weights: FloatArray, gamma: FloatArray, *, samples: float) -> float:
        """h(λ, γ, n) = ⟨∇_λ h, λ⟩ (paper, Lemma `gg`)."""
        at = weights > 0
        return float(weights[at] @ self.gradient(weights, gamma, samples=samples)[at])

    def gradient(self, weights: FloatArray, gamma: FloatArray, *, samples: float) -> FloatArray:
        """∇_λ h(λ, γ, n) = −aΔ̂_π + b (L/(γ_π n) + γ_π V^η_π(p(λ ⊙ γ))), (K,)."""
        variances = self.variances(self.propensities(weights, gamma))
        with np.errstate(divide="ignore", invalid="ignore"):
            width = self.confidence / (gamma * samples) + np.where(variances > 0, gamma * variances, 0.0)
        width = np.where(gamma > 0, width, np.inf)
        return -self.gap_weight * self.gaps + self.width_weight * width

    def best_gamma(self, propensities: FloatArray, *, samples: float) -> FloatArray:
        """γ_π = √(L/(n V^η_π(p))), the minimiser of γV + L/(γn) for every policy; infinite for a copy of q at η = 0."""
        with np.errstate(divide="ignore"):
            return np.sqrt(self.confidence / (float(samples) * self.variances(propensities)))

    def slopes(self, propensities: FloatArray, *, samples: float) -> FloatArray:
        """−aΔ̂_π + 2b √(V^η_π(p) L/n), (K,): at the p that minimises for λ, the gradient of H(λ)."""
        widths = np.sqrt(self.variances(propensities) * (self.confidence / samples))
        return -self.gap_weight * self.gaps + 2.0 * self.width_weight * widths

    def primal(self, propensities: FloatArray, *, samples: float) -> float:
        """P(p), the largest slope: an upper bound of the saddle value for every p."""
        return float(self.slopes(propensities, samples=samples).max())

    def gamma_range(self, *, samples: float) -> tuple[float, float]:
        """[γ_min, γ_max] = [⅓√(ηL/n), √(L/(A²ηn))], the box of Full CODA.

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
        """Policies with V^η > 0, (K,): at η = 0, those that differ from q on some context that can occur."""
        present = self.weights > 0
        differs: BoolArray = (self.actions[:, present] != self.reference[present]).any(axis=1)
        return differs | (self.smoothing > 0)

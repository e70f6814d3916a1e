"""FW-GD through oracles: Frank–Wolfe over a class that is never listed; each step adds one policy to the support.

The saddle problem is that of `frank_wolfe`, with the class known through two oracles. A step of Frank–Wolfe needs

    argmax_π min_γ −aΔ̂_π + b γ V^η_π(p) + b L/(γ n)  =  argmax_π −aΔ̂_π + 2b √(V^η_π(p) L/n)

which lies on the frontier of (V, −Δ̂). A step maximises V under limits on Δ̂ (the two-score constrained argmax, for all
limits at once): under all limits of the frontier or, if these are more, under limits on a geometric grid. Classes that
have an argmax only take a walk on the hull with a bound on its loss (`oracles`). Between two steps the weights of the
support are optimised by FW-GD on their table (`frank_wolfe`): a fully corrective Frank–Wolfe, which needs fewer calls.
The support's dual value bounds that of the class from below, the step's value from above: n is doubled, without a
call, as soon as the support alone shows it too small, and kept when the two ends are within the tolerance, or the
upper one is at most ε.

The number of steps is bounded by a polynomial in A, 1/ε and L (`max_steps_an_n`, `max_steps`; the proof is in
docs/algorithms.md, "Oracle calls, bounded"), given exact oracles and real arithmetic: no cap ends a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import instance
from pacbandits.confidence import CODA_WIDTH_WEIGHT
from pacbandits.design import DesignTask, Shifted
from pacbandits.paper.frank_wolfe import Ascent, SaddleProblem
from pacbandits.paper.oracles import Choice, Estimates, frank_wolfe_step_free, frank_wolfe_step_free_by_argmax
from pacbandits.policies.base import total
from pacbandits.progress import Progress
from pacbandits.records import Design, Policy

# The support is optimised to this share of the tolerance, and finer, down to the other share, when a step finds no new
# policy; the gap that remains then is the oracle's.
_SETTLED_SHARE = 0.25
_MIN_SETTLED_SHARE = 1e-3
_MAX_ITERATIONS_A_STEP = 200
_MAX_SAMPLES = 2**200
# Steps to policies that are not worth the tolerance: an exact oracle makes none.
_MAX_IDLE_STEPS = 1_000
# ε + aΔ̂ grows by this factor from one limit to the next.
LIMIT_FACTOR = 1.001
# A search for the step that ends within a factor of 8^(1/32) of the best one has at least this share of its gain.
_SEARCH_SHARE = 0.9


def max_steps_an_n(
    *, epsilon: float, target: float, confidence: float, smoothing: float, n_actions: int, samples: float, start: float
) -> float:
    """Return the largest number of steps at one n, begun at a dual value of `start`, to a gap of `target`.

    Each step but the last raises the dual by 0.9 min(τ²/2C, τ/8), C = (1/η + 2) b √(L (2A + ηA²)/n), and at ε it ends.
    """
    half_width = CODA_WIDTH_WEIGHT * math.sqrt(confidence * _uniform_variance(n_actions, smoothing) / samples)
    curvature = (1.0 / smoothing + 2.0) * half_width
    gain = _SEARCH_SHARE * min(target**2 / (2.0 * curvature), target / 8.0)
    return 1.0 + max(epsilon - start, 0.0) / gain


def max_steps(
    *, epsilon: float, confidence: float, smoothing: float, n_actions: int, tolerance: float = 1 / 3
) -> float:
    """Return the largest number of steps of `solve_by_steps`, over all n, whatever the class, contexts and gaps."""
    half_width = CODA_WIDTH_WEIGHT * math.sqrt(confidence * _uniform_variance(n_actions, smoothing))
    doublings = max(math.ceil(2.0 * math.log2(2.0 * half_width / epsilon)), 0)
    start = -2.0 * half_width * (1.0 + 1.0 / (1.0 - math.sqrt(0.5)))
    return 1.0 + sum(
        max_steps_an_n(
            epsilon=epsilon,
            target=tolerance * epsilon,
            confidence=confidence,
            smoothing=smoothing,
            n_actions=n_actions,
            samples=2.0**k,
            start=start,
        )
        for k in range(doublings + 1)
    )


def limits_on_grid(scale: Shifted, *, largest_gap: float) -> FloatArray:
    """Return the limits Δ̂ ≥ 0 at which ε + aΔ̂ is ε times a power of `LIMIT_FACTOR`, up to the largest gap."""
    ratio = max(scale.slope * largest_gap / scale.epsilon, 0.0)
    count = 1 + math.ceil(math.log1p(ratio) / math.log(LIMIT_FACTOR))
    return scale.epsilon * (LIMIT_FACTOR ** np.arange(count, dtype=np.float64) - 1.0) / scale.slope


def _uniform_variance(n_actions: int, smoothing: float) -> float:
    """Return the largest V^η_π of a policy under uniform exploration, 2A + ηA²."""
    return n_actions * (2.0 + smoothing * n_actions)


@dataclass(frozen=True, eq=False)
class SteppedDesign:
    """The result of Frank–Wolfe through oracles.

    design: p ∝ √(Σ_π κ_π (t_a + η)), for any context.
    samples: n = 2^k.
    dual, primal: dual ≤ max_λ min_γ h(λ, γ, n) ≤ primal, over the whole class.
        With limits on a grid the upper end is up to 0.1 % of ε + aΔ̂ short of a policy's slope.
    steps: of Frank–Wolfe, over all n tried.
    calls: constrained argmaxes (or argmaxes, for a class without a frontier) that the steps asked for.
    most_steps: the bound on `steps`, from the dual values with which each n began.
    note: set if the tolerance was not reached.
    """

    design: Design
    samples: int
    dual: float
    primal: float
    steps: int
    calls: int
    most_steps: float
    note: str = ""

    @property
    def gap(self) -> float:
        """Return primal − dual."""
        return self.primal - self.dual


def solve_by_steps(
    task: DesignTask,
    *,
    confidence: float,
    smoothing: float,
    tolerance: float = 1 / 3,
    progress: Progress | None = None,
) -> SteppedDesign:
    """Return the least n = 1, 2, 4, … whose saddle value over the class is found at most ε, to `tolerance` times ε.

    task: with scale ε + aΔ̂. confidence: L = log(1/δ_l). smoothing: η > 0, without which an action that the support
    never takes would have probability 0.
    """
    return _Steps(task, confidence=confidence, smoothing=smoothing, tolerance=tolerance).run(progress)


class _Steps:
    """The support found so far, on the contexts that can occur, with its weights and propensities for the current n."""

    def __init__(self, task: DesignTask, *, confidence: float, smoothing: float, tolerance: float) -> None:
        self.task = task
        self.here = task.possible
        self.scale = instance(task.scale, Shifted, name="scale")
        self.confidence = confidence
        self.smoothing = smoothing
        self.target = tolerance * self.scale.epsilon
        self.samples = 1
        self.policies: list[Policy] = []
        self.rows: list[IntArray] = []
        self.gaps: list[float] = []
        self.weights = np.empty(0)
        self.steps, self.calls, self.most_steps = 0, 0, 1.0
        self.limits = limits_on_grid(self.scale, largest_gap=float(self.here.gaps.max(axis=1).sum()))
        n_actions = task.policies.n_actions
        self.propensities = np.full((len(self.here.contexts), n_actions), 1.0 / n_actions)

    def run(self, progress: Progress | None) -> SteppedDesign:
        self._join(self._step().policy)
        share, primal, best = _SETTLED_SHARE, np.inf, self.task.uniform_design()
        begun, idle, before = False, 0, -np.inf  # of the current n
        while True:
            ascent = self._settle(share)
            if ascent.dual > self.scale.epsilon and self.samples < _MAX_SAMPLES:
                self.samples, share, primal = 2 * self.samples, _SETTLED_SHARE, np.inf
                begun, idle, before = False, 0, -np.inf
                continue
            if not begun:
                self.most_steps += self._most_from(ascent.history[0][1])  # the dual of the weights with which n begins
                begun = True
            step = self._step()
            if step.bound < primal:
                primal, best = step.bound, self._design(ascent)
            if progress is not None:
                progress(f"Frank–Wolfe step {self.steps}, n = {self.samples:,}: {ascent.dual:.3g} to {primal:.3g}")
            note = ""
            if primal - ascent.dual > self.target and primal > self.scale.epsilon:
                # Exact oracles and real arithmetic would end here by the bound at the latest; others may not.
                new, idle = self._join(step.policy), idle + (step.value - ascent.dual <= self.target)
                share = share if new else share / 4
                stuck = share < _MIN_SETTLED_SHARE and (step.bound > step.value or ascent.dual <= before)
                if not stuck and idle < _MAX_IDLE_STEPS and self.steps < self.most_steps:
                    share, before = max(share, _MIN_SETTLED_SHARE), ascent.dual
                    continue
                note = f"stopped after {self.steps} steps at a gap of {primal - ascent.dual:.3g}"
            return SteppedDesign(
                best, self.samples, ascent.dual, primal, self.steps, self.calls, self.most_steps, note=note
            )

    def _most_from(self, dual: float) -> float:
        return max_steps_an_n(
            epsilon=self.scale.epsilon,
            target=self.target,
            confidence=self.confidence,
            smoothing=self.smoothing,
            n_actions=self.task.policies.n_actions,
            samples=self.samples,
            start=dual,
        )

    def _step(self) -> Choice:
        """Return the policy towards which Frank–Wolfe steps from the current propensities."""
        self.steps += 1
        here, policies = self.here, self.task.policies
        # η E Σ_a 1/p is the same for all policies: it is added to every action of a context.
        share = self.smoothing * here.contexts.weights * (1.0 / self.propensities).sum(axis=1)
        costs = here.objective.costs(self.propensities) + share[:, None]
        known = Estimates(here.gaps, costs, confidence=self.confidence, samples=self.samples)
        weights = {"gap_weight": self.scale.slope, "width_weight": CODA_WIDTH_WEIGHT}
        if policies.has_frontier:
            step = frank_wolfe_step_free(policies, here.contexts, known, **weights, limits=self.limits)
        else:
            step = frank_wolfe_step_free_by_argmax(policies, here.contexts, known, **weights)
        self.calls += step.calls
        return step

    def _join(self, policy: Policy) -> bool:
        """Add a policy to the support; return False if it contains one that acts alike."""
        actions = policy(self.here.contexts)
        if any(np.array_equal(actions, row) for row in self.rows):
            return False
        self.policies.append(policy)
        self.rows.append(actions)
        self.gaps.append(total(self.here.gaps, actions))
        self.weights = np.append(self.weights, 0.0 if len(self.weights) else 1.0)
        return True

    def _settle(self, share: float) -> Ascent:
        """Optimise the weights of the support for the current n, and return the ascent."""
        problem = SaddleProblem(
            np.stack(self.rows).astype(np.int64),
            n_actions=self.task.policies.n_actions,
            reference=self.here.objective.reference,
            weights=self.here.contexts.weights,
            gaps=np.array(self.gaps),
            confidence=self.confidence,
            smoothing=self.smoothing,
            gap_weight=self.scale.slope,
            width_weight=CODA_WIDTH_WEIGHT,
        )
        ascent = Ascent(
            problem,
            samples=self.samples,
            epsilon=self.scale.epsilon,
            target=share * self.target,
            start=self.weights,
        )
        if not ascent.run(_MAX_ITERATIONS_A_STEP) and ascent.best_step == 0:
            ascent.take_last()  # each of its steps raised the dual, and the proof of the bound needs that
        self.weights, self.propensities = ascent.weights, ascent.propensities
        return ascent

    def _design(self, ascent: Ascent) -> Design:
        used = np.flatnonzero(ascent.masses > 0)
        support = tuple(self.policies[i] for i in used)
        reference, masses = self.task.reference, ascent.masses[used]
        return Design(support, masses, reference, floor=self.task.floor, smoothing=self.smoothing)

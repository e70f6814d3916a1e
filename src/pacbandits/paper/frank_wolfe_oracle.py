"""FW-GD through oracles: Frank–Wolfe over a class that is never listed; each step adds one policy to the support.

The saddle problem is that of `frank_wolfe`, with the class known through two oracles. A step of Frank–Wolfe needs

    argmax_π min_γ −aΔ̂_π + b γ V^η_π(p) + b L/(γ n)  =  argmax_π −aΔ̂_π + 2b √(V^η_π(p) L/n)

which lies on the frontier of (V, −Δ̂): one call, the constrained argmax (C-AMO) for all limits at once; or, for classes
that have an argmax only, a walk on the hull with a bound on its loss (`oracles`). Between two steps the weights of the
support are optimised by FW-GD on their table (`frank_wolfe`): a fully corrective Frank–Wolfe, which needs fewer calls.
The support's dual value bounds that of the class from below, the step's value from above: n is doubled, without a
call, as soon as the support alone shows it too small, and kept when the two ends are within the tolerance, or the
upper one is at most ε.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacbandits.arrays import IntArray
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


@dataclass(frozen=True, eq=False)
class SteppedDesign:
    """The result of Frank–Wolfe through oracles.

    design: p ∝ √(Σ_π κ_π (t_a + η)), for any context.
    samples: n = 2^k.
    dual, primal: dual ≤ max_λ min_γ h(λ, γ, n) ≤ primal, over the whole class.
    steps: of Frank–Wolfe, over all n tried: calls to the oracle, if it has a frontier.
    note: set if the tolerance was not reached.
    """

    design: Design
    samples: int
    dual: float
    primal: float
    steps: int
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
    max_steps: int = 1_000,
    progress: Progress | None = None,
) -> SteppedDesign:
    """Return the least n = 1, 2, 4, … whose saddle value over the class is found at most ε, to `tolerance` times ε.

    task: with scale ε + aΔ̂. confidence: L = log(1/δ_l). smoothing: η > 0, without which an action that the support
    never takes would have probability 0.
    """
    return _Steps(task, confidence=confidence, smoothing=smoothing, tolerance=tolerance).run(max_steps, progress)


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
        self.steps = 0
        n_actions = task.policies.n_actions
        self.propensities = np.full((len(self.here.contexts), n_actions), 1.0 / n_actions)

    def run(self, max_steps: int, progress: Progress | None) -> SteppedDesign:
        self._join(self._step().policy)
        share, primal, best = _SETTLED_SHARE, np.inf, self.task.uniform_design()
        while True:
            ascent = self._settle(share)
            if ascent.dual > self.scale.epsilon and self.samples < _MAX_SAMPLES:
                self.samples, share, primal = 2 * self.samples, _SETTLED_SHARE, np.inf
                continue
            step = self._step()
            if step.bound < primal:
                primal, best = step.bound, self._design(ascent)
            if progress is not None:
                progress(f"Frank–Wolfe step {self.steps}, n = {self.samples:,}: {ascent.dual:.3g} to {primal:.3g}")
            if primal - ascent.dual <= self.target or primal <= self.scale.epsilon:
                return SteppedDesign(best, self.samples, ascent.dual, primal, self.steps)
            if self.steps >= max_steps:
                break
            if not self._join(step.policy):
                share /= 4
                if share < _MIN_SETTLED_SHARE:
                    break
        note = f"stopped after {self.steps} steps at a gap of {primal - ascent.dual:.3g}"
        return SteppedDesign(best, self.samples, ascent.dual, primal, self.steps, note=note)

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
            return frank_wolfe_step_free(policies, here.contexts, known, **weights)
        return frank_wolfe_step_free_by_argmax(policies, here.contexts, known, **weights)

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
        ascent.run(_MAX_ITERATIONS_A_STEP)
        self.weights, self.propensities = ascent.weights, ascent.propensities
        return ascent

    def _design(self, ascent: Ascent) -> Design:
        used = np.flatnonzero(ascent.masses > 0)
        support = tuple(self.policies[i] for i in used)
        reference, masses = self.task.reference, ascent.masses[used]
        return Design(support, masses, reference, floor=self.task.floor, smoothing=self.smoothing)

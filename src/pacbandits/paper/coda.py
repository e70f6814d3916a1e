"""CODA (the paper's Algorithm `full_algorithm`) over a class that can be listed, with one γ per policy.

    π̂_0 arbitrary, Δ̂_0 ≡ 0                                                       (corrections, row 17)
    for l = 1, 2, …, ⌈log₂(1/ε)⌉, with q = π̂_{l−1}:
        n_l = least n with max_λ min_γ h_l(λ, γ, n) ≤ ε_l,
        h_l = Σ_π λ_π(−Δ̂_{l−1}(π)/8 + 8 log(1/δ_l)/(γ_π n)) + 8 E(Σ_a √((λ⊙γ)ᵀ(t_a + η_l)))²  (corrections, rows 7, 18)
        Δ̂_l(π, q) = (1/n_l) Σ_i r_i/(p_i + γ_π) (1{q(c_i) = a_i} − 1{π(c_i) = a_i})  (corrections, row 1)
        π̂_l = argmin_π Δ̂_l(π, q) + γ_π V_π + log(1/δ_l)/(γ_π n_l)
        Δ̂_l(π) = max(0, Δ̂_l(π, q) − Δ̂_l(π̂_l, q))                                  (corrections, row 14)
        stop with π̂_l also when Δ̂_l(π) > (11/12) ε_l for every π that acts unlike it: no best policy has that much

The design comes from FW-GD, with η_l and dyadic n as in the paper, or from the ratio form, which is the same problem
with the least n as its value and needs neither: n_l = 256 log(1/δ_l) min_p max_π V_π/(ε_l + Δ̂_{l−1}(π)/8)². In both,
γ_π is the best one for every policy (corrections, row 9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pacbandits.checks import positive, settle
from pacbandits.confidence import (
    CODA_BEST_GAP,
    CODA_FACTOR,
    CODA_SLOPE,
    CODA_WIDTH_WEIGHT,
    best_gamma,
    ratio_samples,
    regularised_radius,
    round_epsilon,
    whole_samples,
)
from pacbandits.design import Shifted, solve_listed
from pacbandits.paper.coda_oracle import CodaOracle, Solver, SolverName, check_solver
from pacbandits.paper.estimators import Cells, regularised_gaps
from pacbandits.paper.frank_wolfe import SaddleProblem, solve_frank_wolfe
from pacbandits.paper.rage_free import GapState, start_without_gaps
from pacbandits.paper.rounds import (
    PaperAlgorithm,
    SampleScale,
    can_be_listed,
    check_bounded,
    listed,
    options_for,
    stands_alone,
    variances,
)
from pacbandits.policies.base import PolicyClass
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Design, Log
from pacbandits.trials.protocol import Algorithm, Details, Plan, Profile, Setting, check_played


@dataclass(frozen=True)
class CodaPaper(PaperAlgorithm):
    """CODA over a listed class, with one γ per policy.

    solver: the solver of designs.
    smoothing: C_1 of η_l = C_1 ε_l²/|A|⁴, for FW-GD.
    """

    name: ClassVar[str] = "coda-paper"
    profile: ClassVar[Profile] = Profile(
        name="coda-paper",
        source="CODA in full: the design by its dual (ratio form or FW-GD), regularised importance weighting",
        classes="any: estimates of every policy where the class can be listed, else coda-oracle",
        assumes="rewards in [0, 1], the distribution of contexts (or many contexts drawn from it)",
        guarantees="(ε, δ)-PAC",
        samples="n_l = 256 log(1/δ_l) min_p max_π V/(ε_l + Δ̂/8)²; for classes that cannot be listed see coda-oracle",
    )

    solver: Solver = "ratio"
    smoothing: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounded(self)
        settle(self, smoothing=positive(self.smoothing, name="smoothing"), solver=check_solver(self.solver))

    @classmethod
    def made_for(cls, setting: Setting, *, scale: SampleScale = 1.0, solver: SolverName = "ratio") -> Algorithm[Any]:
        """Return `CodaPaper` if the class lists its policies, or FW-GD can list them; else `CodaOracle`."""
        policies = setting.policies
        options: dict[str, Any] = options_for(setting) | {"scale": scale}
        if policies.lists_policies or (solver != "ratio" and can_be_listed(policies)):
            return cls(setting.epsilon, setting.delta, solver=solver, **options)
        return CodaOracle(setting.epsilon, setting.delta, solver=solver, **options)

    def start(self, policies: PolicyClass, contexts: Contexts) -> GapState:
        listing = listed(policies, algorithm=self.name)
        return start_without_gaps(listing, contexts, any_will_do=self.any_will_do)

    def design(self, state: GapState, *, progress: Progress | None = None) -> Plan | None:
        if state.finished:
            return None
        return self._by_ratio(state) if self.solver == "ratio" else self._by_frank_wolfe(state)

    def absorb(self, state: GapState, plan: Plan, log: Log) -> GapState:
        check_played(state, plan, log, rewards=self.rewards)
        confidence = self.confidence(state.listing, plan.round_number)
        spread = variances(
            np.ascontiguousarray(state.listing.actions(state.contexts)),
            reference=state.policy(state.contexts),
            contexts=state.contexts,
            sampler=plan.sampler,
        )
        gamma = best_gamma(spread, samples=log.samples, confidence=confidence)
        cells = Cells.of(log)
        gaps = regularised_gaps(
            cells,
            np.ascontiguousarray(state.listing.actions(cells.contexts)),
            reference=state.policy(cells.contexts),
            gamma=gamma,
        )
        widths = regularised_radius(gamma, spread, samples=log.samples, confidence=confidence) / 2.0
        best = int((gaps + widths).argmin())
        gaps = np.maximum(gaps - gaps[best], 0.0)
        alone = stands_alone(
            best, gaps, listing=state.listing, contexts=state.contexts, most=CODA_BEST_GAP * plan.epsilon
        )
        return state.after(
            plan,
            log,
            policy=state.listing.policy(best),
            finished=alone or self.fine_enough(plan.round_number),
            gaps=gaps,
        )

    def _by_ratio(self, state: GapState) -> Plan:
        number = state.round_number + 1
        solution = solve_listed(
            state.listing,
            state.contexts,
            reference=state.policy,
            accuracy=Shifted(round_epsilon(number), CODA_SLOPE)(state.gaps),
            floor=self.floor / state.listing.n_actions,
            tolerance=self.precision,
        )
        details = {"ratio": solution.upper, "support": len(solution.design.support)}
        return self._plan(state, solution.design, ratio=solution.upper, least=1, details=details)

    def _by_frank_wolfe(self, state: GapState) -> Plan:
        number = state.round_number + 1
        epsilon = round_epsilon(number)
        table = np.ascontiguousarray(state.listing.actions(state.contexts))
        eta = self.smoothing * epsilon**2 / state.listing.n_actions**4
        saddle = solve_frank_wolfe(
            SaddleProblem(
                table.astype(np.int64),
                n_actions=state.listing.n_actions,
                reference=state.policy(state.contexts),
                weights=state.contexts.weights,
                gaps=state.gaps,
                confidence=self.confidence(state.listing, number),
                smoothing=eta,
                gap_weight=CODA_SLOPE,
                width_weight=CODA_WIDTH_WEIGHT,
            ),
            epsilon=epsilon,
        )
        support = np.flatnonzero(saddle.masses > 0)
        design = Design(
            tuple(state.listing.policy(int(i)) for i in support),
            saddle.masses[support],
            state.policy,
            floor=saddle.floor,
            smoothing=eta,
        )
        # The proof needs a width of at most ε_l/6 + Δ̂/64 for every policy: a saddle value of 4ε_l/3. The solver's n is
        # not trusted: n is raised to what the design needs.
        spread = variances(table, reference=state.policy(state.contexts), contexts=state.contexts, sampler=design)
        ratio = float((spread / Shifted(4.0 / 3.0 * epsilon, CODA_SLOPE)(state.gaps) ** 2).max())
        details = {"support": len(support), "iterations": saddle.iterations, "solver_gap": saddle.gap}
        return self._plan(state, design, ratio=ratio, least=whole_samples(self.scale * saddle.samples), details=details)

    def _plan(self, state: GapState, design: Design, *, ratio: float, least: int, details: Details) -> Plan:
        samples = ratio_samples(
            ratio,
            factor=CODA_FACTOR,
            confidence=self.confidence(state.listing, state.round_number + 1),
            second_moment=1.0,
            scale=self.scale,
        )
        return self.plan(state, sampler=design, samples=max(samples, least), details=details)

"""CODA over a class that cannot be listed, through its oracles alone; instance-optimal.

    π̂_0 any, Δ̂_0 ≡ 0
    for l = 1, 2, …, with q = π̂_{l−1}:
        n_l = ⌈256 log(1/δ_l) min_p max_π V_π(p; q)/(ε_l + Δ̂_{l−1}(π)/2)²⌉
        γ = 8 log(1/δ_l)/(n_l ε_l),   2u_π = 2γV_π + 2 log(1/δ_l)/(γ n_l)
        U_l(π) = (1/n_l) Σ_i r_i/(p_i + γ) (1{q(c_i) = a_i} − 1{π(c_i) = a_i}) + 2u_π
        π̂_l = argmin_π U_l(π);   Δ̂_l(π) = U_l(π) − U_l(π̂_l) ≥ 0
        stop with π̂_l when ε_l ≤ ε, or when Δ̂_l(π) > ε_l for every π that acts unlike it

In the design every policy has its own best γ: min_γ 8γV_π + 8L/(γn) = 16 √(V_π L/n) is the objective of the ratio form
and of FW-GD, and the worst policy lies on the frontier of (V, −Δ̂), the two-score constrained argmax for all limits at
once. Estimates cannot use γ_π: no oracle can look it up for 10¹² policies. They need not. Gaps are estimated *from
above*, by the estimate plus its radius, with one γ per round: that is linear in a policy's choices, so π̂_l takes one
argmax. It is accurate enough for the best policies, whose V the design keeps small. The gaps of bad policies are
overestimated, sometimes by a lot, without harm: these are never chosen, as U_l also bounds their gap from above, and
cost no more than they should, as Δ̂_l(π) ≥ Δ(π) − ε_l. docs/algorithms.md has the proof.

Departures from the printed algorithm: the radius is part of Δ̂_l, not of the choice alone, so that one γ is enough; and
the last stopping rule, which the count of rounds in the paper's theorem implies (corrections, "Rounds that end").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import positive, settle, shown, text
from pacbandits.confidence import (
    CODA_FACTOR,
    CODA_ORACLE_BEST_GAP,
    CODA_ORACLE_SLOPE,
    oracle_confidence,
    ratio_samples,
    round_epsilon,
    round_gamma,
)
from pacbandits.design import (
    DesignTask,
    Objective,
    Shifted,
    best_pricing,
    price_propensities,
    solve_by_pricing,
)
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.paper.estimators import regularised_scores
from pacbandits.paper.frank_wolfe_oracle import solve_by_steps
from pacbandits.paper.oracles import some_outside
from pacbandits.paper.rounds import PaperAlgorithm, SampleScale, all_alike, check_bounded, options_for
from pacbandits.policies.base import CountedClass, PolicyClass, total
from pacbandits.policies.finite import sum_by_id
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Design, Log, Policy
from pacbandits.trials.protocol import Algorithm, Plan, Profile, Setting, State, check_played

# An argmax may treat sums that differ by less than this share of all their terms as equal.
_SUM_ROUNDING = 1e-12
# The minimum propensity, as a share of uniform exploration: it costs a hundredth of the samples, and keeps the radii
# of all policies finite.
_FLOOR_SHARE = 0.01

Solver = Literal["ratio", "fw-gd"]
SolverName = Annotated[Solver, About("where designs come from: the ratio form, or the paper's FW-GD")]


def check_solver(solver: object) -> Solver:
    """Return the solver; raise InputError unless it is one of the two."""
    if text(solver, name="solver") not in ("ratio", "fw-gd"):
        raise InputError(f"solver must be ratio or fw-gd, got {shown(solver)}")
    return cast(Solver, solver)


@dataclass(frozen=True, eq=False)
class OracleState(State):
    """The state of CODA through oracles: gaps of all policies, as scores on contexts.

    seen: the contexts, and those of the last log with weight 0.
    gaps (n, A): scores on them whose sum over π's actions is Δ̂_{l−1}(π) ≥ 0 against `policy`, which is π̂_{l−1}.
    """

    policy: Policy
    seen: Contexts = field(kw_only=True)
    gaps: FloatArray = field(kw_only=True)


@dataclass(frozen=True)
class CodaOracle(PaperAlgorithm):
    """CODA through the oracles of any class; instance-optimal if the class has a frontier.

    solver: the solver of designs.
    smoothing: C_1 of η_l = C_1 ε_l²/|A|⁴, for FW-GD.
    """

    name: ClassVar[str] = "coda-oracle"
    profile: ClassVar[Profile] = Profile(
        name="coda-oracle",
        source="CODA through oracles alone: designs by column generation or FW-GD, gaps estimated from above",
        classes="any; exact designs where the class has a frontier of two scores (lists, trees, all maps)",
        assumes="rewards in [0, 1], the distribution of contexts (or many contexts drawn from it)",
        guarantees="(ε, δ)-PAC",
        samples="n_l = 256 log(1/δ_l) min_p max_π V/(ε_l + Δ̂/2)², δ_l with |Π| once",
    )

    solver: Solver = "ratio"
    smoothing: float = 0.01
    precision: float = field(default=0.05, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounded(self)
        settle(self, smoothing=positive(self.smoothing, name="smoothing"), solver=check_solver(self.solver))

    @classmethod
    def made_for(cls, setting: Setting, *, scale: SampleScale = 1.0, solver: SolverName = "ratio") -> Algorithm[Any]:
        """Return the algorithm for this setting."""
        return cls(setting.epsilon, setting.delta, scale=scale, solver=solver, **options_for(setting))

    def confidence(self, policies: PolicyClass, round_number: int) -> float:
        """Return log(1/δ_l)."""
        return oracle_confidence(self.delta, round_number=round_number, log_size=policies.log_size)

    def start(self, policies: PolicyClass, contexts: Contexts) -> OracleState:
        check_can_end(self, policies)
        first, only = first_policy(policies, contexts)
        nothing = np.zeros((len(contexts), policies.n_actions))
        finished = only or self.any_will_do
        return OracleState(policies, contexts, first, oracle_calls=2, finished=finished, seen=contexts, gaps=nothing)

    def design(self, state: OracleState, *, progress: Progress | None = None) -> Plan | None:
        if state.finished:
            return None
        number = state.round_number + 1
        counted = CountedClass(state.policies)
        task = DesignTask(
            counted,
            state.seen,
            reference=state.policy,
            gaps=state.gaps,
            scale=Shifted(round_epsilon(number), CODA_ORACLE_SLOPE),
            floor=max(self.floor, _FLOOR_SHARE) / state.policies.n_actions,
        )
        confidence = self.confidence(state.policies, number)
        if self.solver == "ratio":
            pricing = best_pricing(counted)
            solution = solve_by_pricing(task, pricing=pricing, tolerance=self.precision, progress=progress)
            design, ratio = solution.design, max(solution.upper, solution.lower)
            details = {"bracket": solution.gap}
        else:
            smoothing = self.smoothing * round_epsilon(number) ** 2 / state.policies.n_actions**4
            found = solve_by_steps(task, confidence=confidence, smoothing=smoothing, progress=progress)
            # The solver's n is not trusted: n is what its design needs.
            design, ratio = found.design, price_propensities(task, found.design.propensities(task.contexts)).upper
            details = {"steps": found.steps, "limits": found.calls, "solver_gap": found.gap}
        if not state.policies.exact:
            ratio = max(ratio, _ratio_of_support(task, design))
        samples = ratio_samples(ratio, factor=CODA_FACTOR, confidence=confidence, second_moment=1.0, scale=self.scale)
        details |= {"ratio": ratio, "support": len(design.support)}
        return self.plan(state, sampler=design, samples=samples, oracle_calls=counted.calls, details=details)

    def absorb(self, state: OracleState, plan: Plan, log: Log) -> OracleState:
        check_played(state, plan, log, rewards=self.rewards)
        seen, bounds = self._bounds(state, plan, log)
        counted = CountedClass(state.policies)
        best = counted.argmax(seen, -bounds)
        if not state.policies.exact:
            # An inexact search may miss a policy that was met before.
            met = (best, state.policy, *getattr(plan.sampler, "support", ()))
            best = min(met, key=lambda policy: total(bounds, policy(seen)))
        # U_l(π) − U_l(π̂_l), context by context.
        gaps = bounds - bounds[np.arange(len(seen)), best(seen)][:, None]
        alone = is_alone(best, seen, gaps, policies=counted, most=CODA_ORACLE_BEST_GAP * plan.epsilon)
        return state.after(
            plan,
            log,
            policy=best,
            finished=alone or self.fine_enough(plan.round_number),
            details={"gamma": self._gamma(state, plan, log)},
            oracle_calls=counted.calls,
            seen=seen,
            gaps=gaps,
        )

    def _gamma(self, state: OracleState, plan: Plan, log: Log) -> float:
        # At a scale below 1 the round is that of a smaller log(1/δ_l). With the whole of it γ, and so the gaps of best
        # policies, would be too large in every run, not by bad luck in some.
        confidence = min(self.scale, 1.0) * self.confidence(state.policies, plan.round_number)
        return round_gamma(plan.epsilon, samples=log.samples, confidence=confidence)

    def _bounds(self, state: OracleState, plan: Plan, log: Log) -> tuple[Contexts, FloatArray]:
        """Return contexts, and scores (n, A) whose sum over π's actions is U_l(π) less a constant."""
        gamma = self._gamma(state, plan, log)
        seen, where = state.contexts.joined(log.contexts)
        own = state.policy(seen)
        values = sum_by_id(where, regularised_scores(log, gamma=gamma), n=len(seen))
        objective = Objective(own, seen.weights, np.ones_like(values))
        costs = objective.costs(np.ascontiguousarray(plan.sampler.propensities(seen)))
        return seen, values[np.arange(len(seen)), own][:, None] - values + 2.0 * gamma * costs


def check_can_end(algorithm: PaperAlgorithm, policies: PolicyClass) -> None:
    """Raise if ε = 0 and the class is not exact, so that it cannot be shown that no other policy is left."""
    if algorithm.epsilon == 0 and not policies.exact:
        raise InputError(
            f"{algorithm.name} with epsilon 0 ends when no other policy is left, and the search of "
            f"{policies.type_name}, which is not exact, cannot tell; take an epsilon above 0"
        )


def _ratio_of_support(task: DesignTask, design: Design) -> float:
    """Return the largest V/(ε_l + Δ̂/2)² among the policies of a design, which an inexact search may have missed."""
    here = task.possible
    costs = here.objective.costs(np.ascontiguousarray(design.propensities(here.contexts)))
    actions = [policy(here.contexts) for policy in design.support]
    gaps = np.array([total(here.gaps, one) for one in actions])
    return float((np.array([total(costs, one) for one in actions]) / task.scale(gaps) ** 2).max(initial=0.0))


def first_policy(policies: PolicyClass, contexts: Contexts) -> tuple[Policy, bool]:
    """Return a first policy, in two calls, and whether all policies act like it on the contexts that can occur."""
    first = policies.argmax(contexts, np.zeros((len(contexts), policies.n_actions)))
    # The policy that differs most from the first: if it does not differ at all, nothing is left to do.
    elsewhere = np.repeat(contexts.weights[:, None], policies.n_actions, axis=1)
    elsewhere[np.arange(len(contexts)), first(contexts)] = 0.0
    other = policies.argmax(contexts, elsewhere)
    return first, policies.exact and all_alike(np.stack([first(contexts), other(contexts)]), contexts)


def is_alone(policy: Policy, contexts: Contexts, gaps: FloatArray, *, policies: PolicyClass, most: float) -> bool:
    """Return whether every policy that acts unlike this one on the contexts has a gap above `most`; gaps (n, A).

    By exclusion (Lemma `restricted_csc`). Always False for a class whose argmax may miss the best policy.
    """
    if not policies.exact:
        return False
    matters = (contexts.weights > 0) | (gaps != 0).any(axis=1)
    # A gap of exactly `most` may be that of a best policy, so it counts as not larger, up to the rounding of sums that
    # include the penalties of the exclusion, up to twice the total of each context.
    above = -most - _SUM_ROUNDING * (1 + 2 * len(contexts)) * float(np.abs(gaps).sum())
    scores = np.ascontiguousarray(-gaps[matters])
    return some_outside(policies, contexts.only(matters), scores, excluded=(policy,), above=above) is None

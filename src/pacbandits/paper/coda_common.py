"""CODA with one γ common to all policies, in designs and estimates: the simplest form through an argmax oracle.

The paper's CODA gives every policy its own γ_π: so does `pacbandits.paper.coda` where the class can be listed, and
the designs of `pacbandits.paper.coda_oracle` where it cannot. With a common γ estimates and widths are linear in a
policy's choices, sums of scores that an argmax can maximise. Fixing γ by `8 log(1/δ_l)/(γn) = ε_l/2`,
the proof's condition on every policy, 8γV_π + 8 log(1/δ_l)/(γn) ≤ ε_l + Δ̂/8, holds as soon as

    n_l = 256 log(1/δ_l) · min_p max_π V_π(p; q)/(ε_l(ε_l + Δ̂_{l−1}(π)/4))

which is linear in V over linear in Δ̂: its worst policy is found exactly by argmax calls. The price is that a policy of
gap Δ costs V/(εΔ) instead of V/Δ²; the algorithm is kept to measure that. π̂_l maximises V̂^γ, which keeps every
Δ̂_l(π) = V̂^γ(π̂_l) − V̂^γ(π) nonnegative without clipping; the proof allows that too (docs/algorithms.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.confidence import (
    CODA_BEST_GAP,
    CODA_FACTOR,
    COMMON_GAMMA_SLOPE,
    common_gamma,
    ratio_samples,
    round_epsilon,
)
from pacbandits.design import DesignTask, Product, solve_design
from pacbandits.paper.coda_oracle import check_can_end, first_policy, is_alone
from pacbandits.paper.estimators import regularised_scores
from pacbandits.paper.rounds import PaperAlgorithm, check_bounded
from pacbandits.policies.base import CountedClass, PolicyClass
from pacbandits.policies.finite import sum_by_id
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Log, Policy
from pacbandits.trials.protocol import Plan, Profile, State, check_played


@dataclass(frozen=True, eq=False)
class ScoreState(State):
    """The state of CODA with a common γ: estimated values of all policies, as scores on contexts.

    seen: the contexts, and those of the last log with weight 0.
    values (n, A): scores on them whose sum over π's actions is V̂^γ(π).
    """

    policy: Policy
    seen: Contexts = field(kw_only=True)
    values: FloatArray = field(kw_only=True)


@dataclass(frozen=True)
class CodaCommon(PaperAlgorithm):
    """CODA with one γ common to all policies, through the argmax oracle of any class."""

    name: ClassVar[str] = "coda-common-gamma"
    profile: ClassVar[Profile] = Profile(
        name="coda-common-gamma",
        source="CODA with one γ for all policies: every step is a plain argmax, and bad policies cost too much",
        classes="any, through its argmax",
        assumes="rewards in [0, 1], the distribution of contexts (or many contexts drawn from it)",
        guarantees="(ε, δ)-PAC, but not instance-optimal",
        samples="n_l = 256 log(1/δ_l) min_p max_π V/(ε_l(ε_l + Δ̂/4))",
    )
    precision: float = field(default=0.05, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounded(self)

    def start(self, policies: PolicyClass, contexts: Contexts) -> ScoreState:
        check_can_end(self, policies)
        first, only = first_policy(policies, contexts)
        nothing = np.zeros((len(contexts), policies.n_actions))
        finished = only or self.any_will_do
        return ScoreState(policies, contexts, first, oracle_calls=2, finished=finished, seen=contexts, values=nothing)

    def design(self, state: ScoreState, *, progress: Progress | None = None) -> Plan | None:
        number = state.round_number + 1
        if state.finished:
            return None
        own = state.values[np.arange(len(state.seen)), state.policy(state.seen)]
        counted = CountedClass(state.policies)
        task = DesignTask(
            counted,
            state.seen,
            reference=state.policy,
            gaps=own[:, None] - state.values,
            scale=Product(round_epsilon(number), COMMON_GAMMA_SLOPE),
            floor=self.floor / state.policies.n_actions,
        )
        solution = solve_design(task, tolerance=self.precision, progress=progress)
        samples = ratio_samples(
            solution.upper,
            factor=CODA_FACTOR,
            confidence=self.confidence(state.policies, number),
            second_moment=1.0,
            scale=self.scale,
        )
        return self.plan(
            state,
            sampler=solution.design,
            samples=samples,
            oracle_calls=counted.calls,
            details={"ratio": solution.upper, "bracket": solution.gap, "support": len(solution.design.support)},
        )

    def absorb(self, state: ScoreState, plan: Plan, log: Log) -> ScoreState:
        check_played(state, plan, log, rewards=self.rewards)
        confidence = self.confidence(state.policies, plan.round_number)
        gamma = common_gamma(plan.epsilon, samples=log.samples, confidence=confidence)
        seen, where = state.contexts.joined(log.contexts)
        values = sum_by_id(where, regularised_scores(log, gamma=gamma), n=len(seen))
        counted = CountedClass(state.policies)
        best = counted.argmax(seen, values)
        own = values[np.arange(len(seen)), best(seen)]
        alone = is_alone(best, seen, own[:, None] - values, policies=counted, most=CODA_BEST_GAP * plan.epsilon)
        return state.after(
            plan,
            log,
            policy=best,
            finished=alone or self.fine_enough(plan.round_number),
            details={"gamma": gamma},
            oracle_calls=counted.calls,
            seen=seen,
            values=values,
        )

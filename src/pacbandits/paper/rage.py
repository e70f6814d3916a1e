"""Elimination Contextual RAGE (the paper's Algorithm `elimination`): drop policies that are clearly beaten.

    for l = 1, 2, …:
        p, ρ(Π_l) = min_p max_{π,π' ∈ Π_l} V(π, π'; p)
        n_l = ⌈4 s² ε_l⁻² ρ(Π_l) log(1/δ_l)⌉                                       (corrections, row 2)
        lead(π, π') = Cat{r_i/p_i (1{π(c_i) = a_i} − 1{π'(c_i) = a_i})}
        Π_{l+1} = Π_l without every π' that some π leads by more than ε_l
        stop with the policy least led, when led by no more than ε − ε_l

Departures: leads are clipped to ± P(π ≠ π'), which the truth never exceeds, so that n_l > 2 log(1/δ_l) is not required
when ρ is tiny; and as survivors of round l are only 2ε_l-good, the last round is the one that proves ε
(corrections, row 26): round ⌈log₂(1/ε)⌉, or at the latest the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.confidence import catoni_scale, elimination_samples, round_epsilon
from pacbandits.errors import InputError
from pacbandits.paper.estimators import Cells, catoni_leads
from pacbandits.paper.pairs import pair_design, pair_disagreements, pair_variances, solve_pairs
from pacbandits.paper.rounds import PaperAlgorithm, listed
from pacbandits.policies.base import PolicyClass
from pacbandits.progress import Progress
from pacbandits.records import Contexts, Log, Policy
from pacbandits.trials.protocol import Plan, Profile, State, check_played

# All pairs of policies are compared: their number grows with the square of this limit.
MAX_COMPARED_POLICIES = 3_000


@dataclass(frozen=True, eq=False)
class RageState(State):
    """The state of RAGE: the policies that are not eliminated.

    listing: Π as a list.
    alive: the indices of Π_l, one for each way to act.
    """

    policy: Policy
    listing: PolicyClass = field(kw_only=True)
    alive: IntArray = field(kw_only=True)


@dataclass(frozen=True)
class Rage(PaperAlgorithm):
    """Elimination Contextual RAGE."""

    name: ClassVar[str] = "rage"
    profile: ClassVar[Profile] = Profile(
        name="rage",
        source="Elimination Contextual RAGE: drop every policy that another clearly beats",
        classes="classes that can be listed, up to 3,000 policies (all pairs are compared)",
        assumes="mean rewards in [0, 1], a bound on E[r²], the distribution of contexts",
        guarantees="(ε, δ)-PAC",
        samples="n_l = 4 s² ε_l⁻² ρ(Π_l) log(1/δ_l), Catoni's mean for every pair",
    )

    def start(self, policies: PolicyClass, contexts: Contexts) -> RageState:
        listing = listed(policies, algorithm=self.name)
        _, first = np.unique(_table(listing, contexts)[:, contexts.weights > 0], axis=0, return_index=True)
        if len(first) > MAX_COMPARED_POLICIES:
            raise InputError(
                f"rage compares all pairs of policies, and {len(first)} are too many "
                f"(at most {MAX_COMPARED_POLICIES}); use rage-free or coda-paper"
            )
        alive = np.sort(first)
        finished = len(alive) == 1 or self.any_will_do
        return RageState(
            listing, contexts, listing.policy(int(alive[0])), finished=finished, listing=listing, alive=alive
        )

    def design(self, state: RageState, *, progress: Progress | None = None) -> Plan | None:
        if state.finished:
            return None
        listing, alive = state.listing, state.alive
        solution = solve_pairs(
            _table(listing, state.contexts)[alive],
            n_actions=listing.n_actions,
            weights=state.contexts.weights,
            tolerance=self.precision,
            floor=self.floor / listing.n_actions,
        )
        number = state.round_number + 1
        samples = elimination_samples(
            solution.upper,
            epsilon=round_epsilon(number),
            confidence=self.confidence(listing, number),
            second_moment=self.rewards.second_moment,
            scale=self.scale,
        )
        return self.plan(
            state,
            sampler=pair_design([listing.policy(int(i)) for i in alive], solution),
            samples=samples,
            details={"rho": solution.upper, "policies": len(alive)},
        )

    def absorb(self, state: RageState, plan: Plan, log: Log) -> RageState:
        check_played(state, plan, log, rewards=self.rewards)
        return self.eliminate(state, plan, log, leads=self.estimate_leads(state, plan, log))

    def estimate_leads(self, state: RageState, plan: Plan, log: Log) -> FloatArray:
        """Return lead(π, π') (K, K) of the K policies alive: Catoni's mean for V(π) − V(π')."""
        listing, alive = state.listing, state.alive
        variances = pair_variances(
            _table(listing, state.contexts)[alive],
            propensities=plan.sampler.propensities(state.contexts),
            weights=state.contexts.weights,
        )
        cells = Cells.of(log)
        return catoni_leads(
            cells,
            np.ascontiguousarray(_table(listing, cells.contexts)[alive]),
            alpha=catoni_scale(
                self.rewards.second_moment * variances,
                samples=log.samples,
                confidence=self.confidence(listing, plan.round_number),
            ),
        )

    def eliminate(self, state: RageState, plan: Plan, log: Log, *, leads: FloatArray) -> RageState:
        """Drop policies led by more than ε_l, given the leads (K, K) of those alive, clipped to ± P(π ≠ π')."""
        listing, alive = state.listing, state.alive
        apart = pair_disagreements(
            _table(listing, state.contexts)[alive], n_actions=listing.n_actions, weights=state.contexts.weights
        )
        beaten = np.clip(leads, -apart, apart).max(axis=0)  # the largest lead over each, at least 0
        best = int(beaten.argmin())
        stays = beaten <= max(plan.epsilon, beaten[best])
        late = self.fine_enough(plan.round_number - 1)
        return state.after(
            plan,
            log,
            policy=listing.policy(int(alive[best])),
            finished=bool(stays.sum() == 1 or late or beaten[best] + plan.epsilon <= self.epsilon),
            details={"dropped": int((~stays).sum())},
            alive=alive[stays],
        )


def _table(listing: PolicyClass, contexts: Contexts) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(listing.actions(contexts))

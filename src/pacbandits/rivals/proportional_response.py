"""Proportional response (Krishnamurthy, Zhan, Athey and Brunskill 2023): play actions by the evidence against them.

    after each round, with f̂ fitted to all rounds and π̂ the best policy by f̂:
        U = scale √(Aξ)                           ξ: the squared error of f̂ on policies
        C(c, β) = {a: f̂(c, π̂(c)) − f̂(c, a) ≤ ηU/β}                            conformal arm set, risk β
        η = the largest in [1, √ω] for which  E|C(c, β_max)| + A/√n ≤ (1 − β_max) A/η,   else 1
        p(a|c) = (1 − β_max) 1{a ∈ C(c, β_max)}/|C(c, β_max)| + ∫₀^β_max 1{a ∈ C(c, β)}/|C(c, β)| dβ

**Source.** Krishnamurthy, Zhan, Athey and Brunskill, "Proportional response: contextual bandits for simple and
cumulative regret minimization", NeurIPS 2023: ω-RAPR, risk-adjusted proportional response, with β_max = 1/2 as there.
The integral is taken exactly. A/√n as the error of a mean set size, and A in the place of their α, which bounds
E[1/p(π*(c)|c)], are as in what seems to be the authors' code; in the theory α is 3A/η after a round with risk η, and 20
stands before √(αξ), where we have 1: with 20 all actions would be played alike for as long as any experiment lasts.
None of it was checked against the text. Theirs takes ξ from a bound on the regression's error, or from a comparison of
f̂ with weighted rewards over all policies. Here it is the larger of that comparison (at the policies where f̂ and
weighted rewards differ most) and of σ̂²/n times the smaller of d + 2√(dL) + 2L, for least squares in d dimensions, and
2(log|Π| + L), for |Π| averages, with L = log(m²/δ) in round m. It stands in the place of their test for
misspecification. Rounds are those of the grid, where theirs double.

**Tuning.** `simple` says what is to be minimised: ω = A^simple, of which 1 is for the regret of the answer and 0 for
that on the way. `scale` is that of U.

**Guarantees.** For simple = 0 cumulative regret of the best order √(Aξt), for 1 simple regret of order √(αξ) with α
as small as a good design has it; neither is proven of a single run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import number, positive, settle
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass, total
from pacbandits.records import Chosen, Contexts, Log, Policy
from pacbandits.rivals.base import DEFAULT_BUDGET, DEFAULT_GROWTH, Budget, Budgeted, Growth, Play, RivalState
from pacbandits.rivals.regression import ContextCoordinates, Regression, best_by_model, fit_ridge
from pacbandits.rivals.samplers import even
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan, Profile, Setting

LARGEST_RISK = 0.5  # β_max

Simple = Annotated[float, About("0 for small cumulative regret, 1 for small regret of the answer", least=0, most=1)]
Scale = Annotated[float, About("width of conformal arm sets, as a multiple of √(Aξ)", above=0)]


def response(gaps: FloatArray, *, width: float) -> FloatArray:
    """p as (n, A), for gaps f̂(c, π̂(c)) − f̂(c, a) as (n, A), of which one a row is 0 or less; width: ηU > 0.

    An action is in C(c, β) for all β up to its risk, min(1, ηU/gap). Sorted by risk, the set loses an action at a time.
    """
    risks = width / np.maximum(gaps, width)
    surest = risks >= LARGEST_RISK
    cut = np.minimum(risks, LARGEST_RISK)
    order = np.argsort(cut, axis=1, kind="stable")
    rising = np.take_along_axis(cut, order, axis=1)
    sizes = np.arange(gaps.shape[1], 0.0, -1.0, dtype=np.float64)
    shares: FloatArray = np.cumsum(np.diff(rising, axis=1, prepend=0.0) / sizes, axis=1)
    out = np.empty_like(gaps)
    np.put_along_axis(out, order, shares, axis=1)
    out += (1.0 - LARGEST_RISK) * surest / surest.sum(axis=1, keepdims=True)
    return out / out.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class ResponseSampler:
    """Actions by how surely they are not the best.

    model: f̂.
    central: π̂.
    width: ηU.
    """

    model: Regression
    central: Policy
    width: float

    @property
    def n_actions(self) -> int:
        return self.central.n_actions

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return p(a|c) as (n, A)."""
        return response(gaps_of(self.model.predict(contexts), self.central, contexts), width=self.width)


def gaps_of(predictions: FloatArray, central: Policy, contexts: Contexts) -> FloatArray:
    """Return the predicted loss of each action (n, A) against the policy."""
    own = predictions[np.arange(len(contexts)), central(contexts)]
    return own[:, None] - predictions


def adjusted_risk(gaps: FloatArray, shares: FloatArray, *, width: float, most: float, samples: float) -> float:
    """Return η, for U = width and contexts (n,) with these shares."""
    n_actions = gaps.shape[1]

    def fits(risk: float) -> bool:
        size = float(shares @ (gaps <= risk * width / LARGEST_RISK).sum(axis=1)) + n_actions / np.sqrt(samples)
        return min(size, n_actions) <= (1.0 - LARGEST_RISK) * n_actions / risk

    if most <= 1.0 or not fits(1.0):
        return 1.0
    if fits(most):
        return most
    low, high = 1.0, most
    for _ in range(20):
        middle = (low + high) / 2.0
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@dataclass(frozen=True, eq=False)
class ResponseDesign:
    """The memory of proportional response between rounds.

    coordinates: of contexts, for the regression.
    risk: η.
    error: ξ.
    sampler: how the next round is played; None before the first, in which all actions are alike.
    """

    coordinates: ContextCoordinates
    risk: float = 1.0
    error: float = 1.0
    sampler: ResponseSampler | None = None


@dataclass(frozen=True)
class ProportionalResponse(Budgeted):
    """Play an action with a probability that falls as its predicted loss grows beyond what predictions err by.

    simple: log ω / log A, from 0 for regret on the way to 1 for regret of the answer.
    scale: of the width of conformal arm sets.
    """

    name: ClassVar[str] = "proportional-response"
    profile: ClassVar[Profile] = Profile(
        name="proportional-response",
        source="Krishnamurthy, Zhan, Athey and Brunskill 2023: conformal arm sets, risk-adjusted proportional response",
        classes="any",
        assumes="rewards that regression can learn; more exploration where it errs",
        guarantees="regret of the best order, of the answer or on the way; nothing of a single answer",
        samples="its budget",
        proves=False,
    )

    simple: float = field(default=1.0, kw_only=True)
    scale: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, simple=number(self.simple, name="simple", least=0.0, most=1.0))
        settle(self, scale=positive(self.scale, name="scale"))

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        simple: Simple = 1.0,
        scale: Scale = 1.0,
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> ProportionalResponse:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), simple=simple, scale=scale, budget=budget, growth=growth)

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> ResponseDesign:
        """Return the memory before anything is fitted."""
        return ResponseDesign(ContextCoordinates.of(contexts))

    def play(self, state: RivalState) -> Play:
        """Return the design made after the last round."""
        design: ResponseDesign = state.memory
        details = {"risk": design.risk, "error": design.error}
        return Play(design.sampler or even(state.policies.n_actions), details=details)

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> ResponseDesign:
        """Return the design of the next round."""
        before: ResponseDesign = state.memory
        n_actions = seen.n_actions
        model = fit_ridge(seen, coordinates=before.coordinates)
        predictions = model.predict(seen.contexts)
        central, _ = best_by_model(state.policies, seen, predictions)
        error = self.error_of(state.policies, seen, model, predictions, round_number=plan.round_number)
        width = self.scale * float(np.sqrt(n_actions * error))
        gaps = gaps_of(predictions, central, seen.contexts)
        most = float(np.sqrt(n_actions**self.simple))
        risk = adjusted_risk(gaps, seen.counts / seen.samples, width=width, most=most, samples=seen.samples)
        sampler = ResponseSampler(model, central, risk * width)
        return replace(before, risk=risk, error=error, sampler=sampler)

    def error_of(
        self, policies: PolicyClass, seen: Seen, model: Regression, predictions: FloatArray, *, round_number: int
    ) -> float:
        """Return ξ, an upper bound on the squared error of a policy's predicted value, over E[1/p(π(c)|c)]."""
        samples, played = seen.samples, np.maximum(seen.plays, 1.0)
        noise = (seen.squares - 2.0 * predictions * seen.sums + seen.plays * predictions**2).sum() / samples
        level = float(np.log(round_number**2 / self.delta))
        dimension = float((seen.plays * model.widths(seen.contexts) ** 2).sum())
        least_squares = dimension + 2.0 * np.sqrt(dimension * level) + 2.0 * level
        rate = max(float(noise), 1e-12) * min(least_squares, 2.0 * (policies.log_size + level)) / samples
        # Where f̂ and weighted rewards differ, (r − f̂)/p, over policies, relative to the root of the mean of 1/p.
        residuals = seen.scores - seen.inverses * predictions
        covers = seen.counts[:, None] * np.where(seen.plays > 0, seen.inverses / played, 0.0)
        for sign in (1.0, -1.0):
            actions = policies.argmax(seen.contexts, sign * residuals)(seen.contexts)
            cover = max(total(covers, actions) / samples, 1.0)
            rate = max(rate, (total(residuals, actions) / samples) ** 2 / cover)
        return min(rate, 1.0)

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """The policy of largest value by f̂ and what it left unexplained, weighted by 1/p."""
        design: ResponseDesign = memory
        assert design.sampler is not None
        scores = seen.doubly_robust(design.sampler.model.predict(seen.contexts))
        return state.policies.argmax(seen.contexts, scores), 4

    def promise(self, state: RivalState) -> str:
        """Return that there is no guarantee."""
        return "none: it promises little regret on average, and nothing of the policy that it has learnt"

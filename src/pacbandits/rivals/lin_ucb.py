"""LinUCB (Li, Chu, Langford and Schapire 2010): the action of largest upper confidence bound, for linear rewards.

    θ̂, Σ = ridge regression of the rewards so far, Σ = I + Σ φφᵀ
    in a context c play the action of largest   φ(c, a)ᵀθ̂ + α √(φ(c, a)ᵀ Σ⁻¹ φ(c, a)),   those that tie alike

**Source.** Li, Chu, Langford and Schapire, "A contextual-bandit approach to personalized news article recommendation",
WWW 2010, whose α = 1 + √(ln(2/δ)/2) is for rewards in [0, 1]; for noise that is R²-sub-Gaussian it is
1 + R√(2 ln(2/δ)), which is the same at R = 1/2. Abbasi-Yadkori, Pál and Szepesvári, "Improved algorithms for linear
stochastic bandits", NIPS 2011, have the radius that makes it a confidence bound at all times,
β_t = R√(2 log(√det Σ/δ)) + 1. The regression is of joint features φ(c, a) where contexts carry them, else one line an
action, as the first paper's disjoint model, else a mean for each context and action. Many regressions side by side have
each their part of δ. Papers play one by one; here a round plays one action a context, and the next round knows of it.

**Tuning.** `radius` says which α: `constant`, of the first paper, or `theory`, of the second. `alpha` multiplies it; 1
is as published, and less is what experiments often like.

**Guarantees.** If rewards are linear, regret of order d √t log t with `theory`; nothing of the policy that is learnt.
As it plays one action a context with certainty, but for ties, its log says nothing of what other policies would have
earned, and nothing can be certified from it. Where rewards are not linear its answer may stay wrong for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import positive, settle
from pacbandits.options import About
from pacbandits.records import Contexts
from pacbandits.rivals.base import DEFAULT_BUDGET, DEFAULT_GROWTH, Budget, Growth, Play, RivalState
from pacbandits.rivals.fitted import Fitted, RadiusRule, check_radius
from pacbandits.rivals.regression import Regression
from pacbandits.rivals.samplers import best_shares
from pacbandits.trials.protocol import Profile, Setting

Alpha = Annotated[float, About("multiplies the radius: 1 is as published", above=0)]
Radius = Annotated[
    RadiusRule, About("1 + R√(2 log(2/δ)) at all times, or one that holds at all times and grows with log det Σ")
]


@dataclass(frozen=True, eq=False)
class OptimisticSampler:
    """A sampler of the action with the largest upper confidence bound; ties are split evenly.

    n_actions: how many there are.
    model: of rewards.
    alpha: multiplies the radius.
    constant: the radius; None for the one that holds at all times.
    noise: R².
    delta: of that radius.
    """

    n_actions: int
    model: Regression
    alpha: float
    constant: float | None
    noise: float
    delta: float

    def upper(self, contexts: Contexts) -> FloatArray:
        """Return upper confidence bounds (n, A)."""
        if self.constant is None:
            radius = self.model.radii(contexts, noise=self.noise, delta=self.delta)
        else:
            radius = np.full((len(contexts), self.n_actions), self.constant)
        return self.model.predict(contexts) + self.alpha * radius * self.model.widths(contexts)

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return 0 and 1 as (n, A), except for ties."""
        return best_shares(self.upper(contexts))


@dataclass(frozen=True)
class LinUcb(Fitted):
    """LinUCB: in every context, the action with the largest upper confidence bound.

    alpha: multiplies the radius.
    radius: which one.
    """

    name: ClassVar[str] = "lin-ucb"
    profile: ClassVar[Profile] = Profile(
        name="lin-ucb",
        source="Li, Chu, Langford and Schapire 2010: ridge regression, the action of largest upper end in each context",
        classes="any; explores without one",
        assumes="rewards linear in features, where contexts have some",
        guarantees="regret of order d √t log t; nothing of the answer",
        samples="its budget",
        proves=False,
    )

    alpha: float = field(default=1.0, kw_only=True)
    radius: RadiusRule = field(default="constant", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, alpha=positive(self.alpha, name="alpha"), radius=check_radius(self.radius))

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        alpha: Alpha = 1.0,
        radius: Radius = "constant",
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> LinUcb:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), alpha=alpha, radius=radius, budget=budget, growth=growth)

    def play(self, state: RivalState) -> Play:
        """Return the sampler of the action with the largest upper confidence bound."""
        constant = None
        if self.radius == "constant":
            constant = 1.0 + math.sqrt(2.0 * self.noise * math.log(2.0 / self.delta))
        return Play(
            OptimisticSampler(
                state.policies.n_actions, state.memory, self.alpha, constant, noise=self.noise, delta=self.delta
            )
        )

"""Thompson sampling for linear rewards (Agrawal and Goyal 2013): act greedily on a draw from the posterior.

    θ̂, Σ = ridge regression of the rewards so far, Σ = I + Σ φφᵀ
    draw θ from N(θ̂, v² Σ⁻¹), and in a context c play the action of largest φ(c, a)ᵀθ

**Source.** Agrawal and Goyal, "Thompson sampling for contextual bandits with linear payoffs", ICML 2013, where noise is
R-sub-Gaussian and v = R√(9 d ln(t/δ)). That is for the proof's sake; v = R is what one believes under a prior N(0, R²)
and normal noise of variance R², and what is commonly played. The paper draws at each interaction; here a round draws K
parameters once and plays each of them alike often, so that p(a|c) is known: the share of the K that would play a. The
regression is of joint features φ(c, a) where contexts carry them, else one line an action, else a mean for each context
and action; d is the dimension of one of these. The constant 9 is that of later versions of the paper, not checked.

**Tuning.** `spread` multiplies v. `radius` says which v: `constant`, R, a choice of ours as the paper's explores far
more than experiments like, or `theory`, the paper's.
`draws` is K: propensities are multiples of 1/K.

**Guarantees.** If rewards are linear, regret of order d^{3/2} √t log t with `theory`; nothing of the policy that is
learnt. Actions that none of the K parameters would play are not played at all, so that nothing can be certified from
its log. Where rewards are not linear its answer may stay wrong for ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import positive, settle, whole_number
from pacbandits.options import About
from pacbandits.records import Contexts
from pacbandits.rivals.base import DEFAULT_BUDGET, DEFAULT_GROWTH, Budget, Growth, Play, RivalState
from pacbandits.rivals.fitted import Fitted, RadiusRule, check_radius
from pacbandits.rivals.regression import Regression
from pacbandits.rivals.samplers import best_shares
from pacbandits.trials.protocol import Profile, Setting

DEFAULT_DRAWS = 50
ENTRIES_AT_A_TIME = 2**21  # of drawn rewards

Spread = Annotated[float, About("multiplies the standard deviation v of drawn parameters", above=0)]
Draws = Annotated[int, About("number of parameters drawn in a round, played equally often", least=1)]
Seed = Annotated[int, About("random seed of the drawn parameters", least=0)]
Radius = Annotated[RadiusRule, About("the standard deviation of noise R, or R√(9d log(t/δ)) as in the proof")]


@dataclass(frozen=True, eq=False)
class DrawnSampler:
    """A sampler that draws one of several parameters and plays its best action.

    n_actions: how many there are.
    model: of rewards.
    scale: v.
    count: how many are drawn.
    seeds: of the draws.
    """

    n_actions: int
    model: Regression
    scale: float
    count: int
    seeds: tuple[int, ...]

    def propensities(self, contexts: Contexts) -> FloatArray:
        """Return the share (n, A) of the parameters under which an action is the best."""
        rng, out = np.random.default_rng(self.seeds), np.zeros((len(contexts), self.n_actions))
        at_a_time = max(1, ENTRIES_AT_A_TIME // out.size)
        for start in range(0, self.count, at_a_time):
            count = min(at_a_time, self.count - start)
            out += best_shares(self.model.draws(contexts, rng, scale=self.scale, count=count)).sum(axis=0)
        return out / out.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class LinTs(Fitted):
    """Thompson sampling: in every context, the best action under a parameter drawn from the posterior.

    spread: multiplies v.
    radius: which v.
    draws: K, how many parameters a round draws.
    seed: of these.
    """

    name: ClassVar[str] = "lin-ts"
    profile: ClassVar[Profile] = Profile(
        name="lin-ts",
        source="Agrawal and Goyal 2013: Thompson sampling with ridge regression, of some parameters a round",
        classes="any; explores without one",
        assumes="rewards linear in features, where contexts have some",
        guarantees="regret of order d^(3/2) √t log t; nothing of the answer",
        samples="its budget",
        proves=False,
    )

    spread: float = field(default=1.0, kw_only=True)
    radius: RadiusRule = field(default="constant", kw_only=True)
    draws: int = field(default=DEFAULT_DRAWS, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, spread=positive(self.spread, name="spread"), radius=check_radius(self.radius))
        settle(self, draws=whole_number(self.draws, name="draws", least=1))
        settle(self, seed=whole_number(self.seed, name="seed", least=0))

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        spread: Spread = 1.0,
        radius: Radius = "constant",
        draws: Draws = DEFAULT_DRAWS,
        seed: Seed = 0,
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> LinTs:
        """Return the algorithm for this setting."""
        common = cls.common(setting)
        return cls(**common, spread=spread, radius=radius, draws=draws, seed=seed, budget=budget, growth=growth)

    def deviation(self, model: Regression, *, samples: int) -> float:
        """Return v after this many interactions."""
        scale = self.spread * math.sqrt(self.noise)
        if self.radius == "constant":
            return scale
        return scale * math.sqrt(9.0 * model.dimension / model.pieces * math.log(max(samples, 1) / self.delta))

    def play(self, state: RivalState) -> Play:
        """Return the sampler of the drawn parameters."""
        scale = self.deviation(state.memory, samples=state.samples)
        seeds = (self.seed, state.round_number)
        return Play(DrawnSampler(state.policies.n_actions, state.memory, scale, self.draws, seeds))

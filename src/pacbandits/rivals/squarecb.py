"""SquareCB (Foster and Rakhlin 2020): inverse gap weighting over a regression's predictions.

    after t interactions:
        ŷ = the rewards that a regression of all interactions predicts, cut to [0, 1]
        γ = c √(A t / (R(t) + log(2/δ)))        R(t) = d log(1 + t/d), the regret of the regression
        play p(a) = 1/(A + γ(ŷ_b − ŷ_a)) for every action a but the best, b, which gets the rest

**Source.** Foster and Rakhlin, "Beyond UCB: optimal and efficient contextual bandits with regression oracles", ICML
2020, Algorithm 1 with the γ of its Theorem 1, t in the place of the horizon. Theirs regresses online; the regression
here is fitted again after every round, as in FALCON (Simchi-Levi and Xu, "Bypassing the monster", 2022), which has the
same rule with γ = √(A t / log(|F|t/δ))/30. Where the answer must be a policy of a class, it is the one that the
regression likes best.

**Tuning.** `gamma` is c: 1 is SquareCB's, and 1/30 is FALCON's constant. Larger ones explore less. `model` is `linear`,
ridge regression, with d its parameters; or `house`, the model with which this package centres its estimates, whose R(t)
is taken for that of ridge regression, as it has none that is proven.

**Guarantees.** Regret of order √(A t R(t)) if the regression can be right; nothing of the policy that is learnt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import positive, settle, shown, text
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.rewards import RewardModel, default_model, no_idea
from pacbandits.rivals.base import DEFAULT_BUDGET, DEFAULT_GROWTH, Budget, Budgeted, Growth, Play, RivalState
from pacbandits.rivals.inverse_gaps import InverseGaps, Predictor, linear_entropy
from pacbandits.rivals.regression import ContextCoordinates, best_by_model, best_by_regression, fit_ridge
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan, Profile, Setting

Kind = Literal["linear", "house"]

Gamma = Annotated[float, About("c of the learning rate γ = c √(At/(d log(1 + t/d) + log(2/δ)))", above=0)]
ModelName = Annotated[Kind, About("reward model: ridge regression, or this package's own")]


@dataclass(frozen=True, eq=False)
class Cut:
    """A model whose predictions are clipped to [0, 1], the range of mean rewards.

    model: that predicts.
    """

    model: Predictor

    def predict(self, contexts: Contexts) -> FloatArray:
        """Mean rewards (n, A) in [0, 1]."""
        return np.clip(self.model.predict(contexts), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class SquareCBMemory:
    """The memory of SquareCB between rounds.

    coordinates: of contexts.
    house: what is fitted in the place of ridge regression, if anything is.
    dimension: d, the parameters of ridge regression.
    model: what was fitted.
    """

    coordinates: ContextCoordinates
    house: RewardModel | None
    dimension: int
    model: Predictor


@dataclass(frozen=True)
class SquareCb(Budgeted):
    """SquareCB: play actions with probabilities that fall with their predicted gap.

    gamma: c, which multiplies the learning rate γ.
    model: what predicts rewards.
    """

    name: ClassVar[str] = "squarecb"
    profile: ClassVar[Profile] = Profile(
        name="squarecb",
        source="Foster and Rakhlin 2020: inverse gap weighting over what a regression predicts",
        classes="any; explores without one",
        assumes="the regression can be right",
        guarantees="regret of order √(A t d log t); nothing of the answer",
        samples="its budget",
        proves=False,
    )

    gamma: float = field(default=1.0, kw_only=True)
    model: Kind = field(default="linear", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, gamma=positive(self.gamma, name="gamma"))
        if text(self.model, name="model") not in ("linear", "house"):
            raise InputError(f"model must be linear or house, got {shown(self.model)}")

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        gamma: Gamma = 1.0,
        model: ModelName = "linear",
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> SquareCb:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), gamma=gamma, model=model, budget=budget, growth=growth)

    def rate(self, *, n_actions: int, dimension: int, samples: float) -> float:
        """Return γ after this many interactions."""
        regret = linear_entropy(dimension, samples) + math.log(2.0 / self.delta)
        return self.gamma * math.sqrt(n_actions * samples / regret)

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> SquareCBMemory:
        """Return the memory before anything is fitted."""
        coordinates = ContextCoordinates.of(contexts)
        blank = fit_ridge(Seen.nothing(contexts, n_actions=policies.n_actions), coordinates=coordinates)
        house = default_model(contexts) if self.model == "house" else None
        return SquareCBMemory(coordinates, house, blank.dimension, no_idea(policies.n_actions))

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> SquareCBMemory:
        """Return the regression of all observations."""
        before = state.memory
        if before.house is not None:
            return SquareCBMemory(before.coordinates, before.house, before.dimension, before.house.fit(seen.as_log()))
        fitted = fit_ridge(seen, coordinates=before.coordinates)
        return SquareCBMemory(before.coordinates, None, fitted.dimension, Cut(fitted))

    def play(self, state: RivalState) -> Play:
        """Return inverse gap weighting."""
        learnt, n_actions = state.memory, state.policies.n_actions
        rate = self.rate(n_actions=n_actions, dimension=learnt.dimension, samples=state.samples)
        return Play(InverseGaps(learnt.model, rate, n_actions), details={"gamma": rate})

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy with the largest predicted value."""
        if memory.house is None:
            return best_by_regression(state.policies, seen, coordinates=memory.coordinates)
        return best_by_model(state.policies, seen, memory.model.predict(seen.contexts))

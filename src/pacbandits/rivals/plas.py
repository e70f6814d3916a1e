"""PLAS (Kato, Okumura, Ishihara and Kitagawa 2024): play actions by the variance of their rewards, then learn a policy.

    in each round, with σ²(c, a) the variance of rewards as estimated so far, at least `floor`:
        A = 2:   play a with probability  σ(c, a) / Σ_b σ(c, b)
        A ≥ 3:   play a with probability  σ²(c, a) / Σ_b σ²(c, b)
    answer: the policy that maximises  Σ_t m_t(c_t, π(c_t)) + 1{π(c_t) = a_t}(r_t − m_t(c_t, a_t))/p_t(a_t|c_t)

**Source.** Kato, Okumura, Ishihara and Kitagawa, "Adaptive experimental design for policy learning", 2024: adaptive
sampling for policy learning; the shares are those of its versions of 2024, not checked against the text. As there, the
variance is an estimate of E[r²] less the square of one of E[r], cut from below and above. Both estimates are by the
regression of this package, in the place of any consistent one. While little is known of an action its variance is taken
to be near the largest there can be, which spares a first phase that plays each action.

**Tuning.** `floor` is the least that a variance is taken to be; theirs is any small number. `predictions` says of what
m_t knows: `past`, earlier rounds alone, as in the paper, or `all`, every round, which learns more of the first ones;
the default, `all`, is a choice of ours.

**Guarantees.** The worst expected shortfall of the answer is of the best order in its budget, √(log|Π|/budget) times
√(Σ_a E σ²(c, a)), and for each single run nothing is proven.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import positive, settle, shown
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Chosen, Contexts, Log
from pacbandits.rivals.base import DEFAULT_BUDGET, DEFAULT_GROWTH, Budget, Budgeted, Growth, Play, RivalState
from pacbandits.rivals.regression import DEFAULT_RIDGE, ContextCoordinates, Regression, fit_ridge
from pacbandits.rivals.samplers import RuleSampler
from pacbandits.rivals.seen import Seen
from pacbandits.trials.protocol import Plan, Profile, Setting

DEFAULT_FLOOR = 0.01

Predictions = Literal["all", "past"]
PredictionsOption = Annotated[Predictions, About("rounds that predictions are fitted to: all, or earlier ones")]
Floor = Annotated[float, About("lower limit on the variance of rewards", above=0)]


@dataclass(frozen=True, eq=False)
class PlasMemory:
    """The memory of PLAS between rounds.

    coordinates: of contexts, for the regression.
    mean: of rewards, as fitted to all rounds so far; None before the first.
    square: of their squares, likewise.
    scores (n, A): what sums to samples × V(π), each round by the predictions before it.
    """

    coordinates: ContextCoordinates
    mean: Regression | None
    square: Regression | None
    scores: FloatArray


def shares(variances: FloatArray) -> FloatArray:
    """Return propensities (n, A) proportional to standard deviations for two actions, else to variances (n, A)."""
    ratio = np.sqrt(variances) if variances.shape[1] == 2 else variances
    out: FloatArray = ratio / ratio.sum(axis=1, keepdims=True)
    return out


@dataclass(frozen=True)
class Plas(Budgeted):
    """PLAS: play actions the more often, the more their rewards vary, and learn the policy at the end.

    floor: the least that a variance is taken to be.
    predictions: the rounds that predictions in scores know.
    """

    name: ClassVar[str] = "plas"
    profile: ClassVar[Profile] = Profile(
        name="plas",
        source="Kato, Okumura, Ishihara and Kitagawa 2024: actions by the variance of their rewards, then a policy",
        classes="any",
        assumes="rewards whose means and variances regression can learn",
        guarantees="the least expected shortfall in the worst case, up to constants; nothing of a single answer",
        samples="its budget",
        proves=False,
    )

    floor: float = field(default=DEFAULT_FLOOR, kw_only=True)
    predictions: Predictions = field(default="all", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, floor=positive(self.floor, name="floor"))
        if self.predictions not in ("all", "past"):
            raise InputError(f"predictions must be all or past, got {shown(self.predictions)}")

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        floor: Floor = DEFAULT_FLOOR,
        predictions: PredictionsOption = "all",
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> Plas:
        """Return the algorithm for this setting."""
        return cls(**cls.common(setting), floor=floor, predictions=predictions, budget=budget, growth=growth)

    @property
    def largest(self) -> float:
        """The largest possible variance: 1/4 in [0, 1]."""
        return 0.25 if self.rewards.in_unit else self.rewards.second_moment

    def first_memory(self, policies: PolicyClass, contexts: Contexts) -> PlasMemory:
        """Return the memory before anything is fitted."""
        known = contexts.tallied()
        return PlasMemory(ContextCoordinates.of(contexts), None, None, np.zeros((len(known), policies.n_actions)))

    def variances(self, memory: PlasMemory, contexts: Contexts, *, n_actions: int) -> FloatArray:
        """σ² as (n, A): E[r²] − E[r]² as fitted, and the largest there is for the share that is not known yet."""
        if memory.mean is None or memory.square is None:
            return np.full((len(contexts), n_actions), self.largest)
        unknown = np.minimum(DEFAULT_RIDGE * memory.mean.widths(contexts) ** 2, 1.0)
        spread = memory.square.predict(contexts) - memory.mean.predict(contexts) ** 2
        return np.clip(spread + unknown * self.largest, min(self.floor, self.largest), self.largest)

    def play(self, state: RivalState) -> Play:
        """Return propensities by the variances of rewards."""
        memory: PlasMemory = state.memory
        n_actions = state.policies.n_actions
        return Play(
            RuleSampler(n_actions, lambda contexts: shares(self.variances(memory, contexts, n_actions=n_actions)))
        )

    def remember(self, state: RivalState, plan: Plan, log: Log, seen: Seen) -> PlasMemory:
        """The scores of the round by the predictions before it, and the fit after it."""
        memory: PlasMemory = state.memory
        predictions = self._predicted(memory, seen)
        before = len(state.seen.counts)
        scores = seen.doubly_robust(predictions)
        scores[:before] += memory.scores - state.seen.doubly_robust(predictions[:before])
        mean = fit_ridge(seen, coordinates=memory.coordinates)
        square = fit_ridge(replace(seen, sums=seen.squares), coordinates=memory.coordinates)
        return replace(memory, mean=mean, square=square, scores=scores)

    def _predicted(self, memory: PlasMemory, seen: Seen) -> FloatArray:
        """Mean rewards (n, A) of the seen contexts as fitted, 0 before anything is."""
        if memory.mean is None:
            return np.zeros(seen.plays.shape)
        predictions = memory.mean.predict(seen.contexts)
        return np.clip(predictions, 0.0, 1.0) if self.rewards.in_unit else predictions

    def recommend(self, state: RivalState, seen: Seen, memory: Any) -> tuple[Chosen, int]:
        """Return the policy of largest value by the scores."""
        past = self.predictions == "past"
        scores = memory.scores if past else seen.doubly_robust(self._predicted(memory, seen))
        return state.policies.argmax(seen.contexts, scores), 1

    def promise(self, state: RivalState) -> str:
        """Return that there is no guarantee."""
        return "none: its answer is good on average over experiments, and nothing is proven of a single one"

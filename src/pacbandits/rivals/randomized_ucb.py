"""RandomizedUCB (Dudík et al. 2011): the cheapest distribution over policies that still explores the good ones enough.

    after t interactions:
        Δ(π) = the largest estimated value of a policy, centred rewards weighted by 1/p, less that of π
        C = 2 log(|Π|t/δ),   μ = min(1/(2A), √(C/(2At)))
        P ≈ the distribution of least Σ_π P(π)Δ(π) with, for every distribution Q over policies,
            E_{π~Q} E_x[1/((1 − Aμ)P(π(x)|x) + μ)] ≤ max(4A, t (E_{π~Q} Δ(π))² / (180 C))
        play p(a|x) = (1 − Aμ)P(a|x) + μ

**Source.** Dudík, Hsu, Kale, Karampatziakis, Langford, Reyzin and Zhang, "Efficient optimal learning for contextual
bandits", UAI 2011, Algorithm 2, with constants not checked against the text. Theirs solves the program by the ellipsoid
method, which nobody could wait for; it asks for an objective within a multiple of √(AC/t) of the least. Here it is
coordinate descent (coordinate_descent) on

    Σ_π P(π) βΔ(π) ≤ 2A,   E_x[1/P^μ(π(x)|x)] ≤ 2A + βΔ(π) for every π,   with β = √(At/(180 C)),

which does as much. The second implies the constraint above: the line 2A + βΔ passes through (Δ₀, 4A), where the right
side above has its kink, Δ₀ = √(720 AC/t), with less slope there than the parabola's; so it lies below the right side,
and being a line it bounds mixtures too. The first says that the objective is at most √(720 AC/t), which is a multiple
of √(AC/t) above 0, the least that any could have. Rewards less their mean (`balance`) are ours, where theirs are as
they are: it explores as the paper says, by losses that are less noisy.

**Tuning.** `confidence` multiplies C, from which both μ and β come; 1 is as published. Less explores less.

**Guarantees.** Regret of order √(A t log(t|Π|/δ)) + A log(A|Π|/δ); nothing of the policy that is learnt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pacbandits.checks import positive, settle
from pacbandits.options import About
from pacbandits.policies.base import PolicyClass
from pacbandits.rivals.base import DEFAULT_BUDGET, DEFAULT_GROWTH, Budget, Growth
from pacbandits.rivals.coordinate_descent import Constraint
from pacbandits.rivals.weighted_policies import WeightedPolicies
from pacbandits.trials.protocol import Profile, Setting

_LOSSES_COUNT = 180.0  # the constant of the constraint

Confidence = Annotated[float, About("multiplies C = 2 log(|Π|t/δ): smaller explores less", above=0)]


@dataclass(frozen=True)
class RandomizedUcb(WeightedPolicies):
    """Play a distribution over policies of small estimated loss under which the good ones are explored enough.

    confidence: what multiplies C.
    """

    name: ClassVar[str] = "randomized-ucb"
    profile: ClassVar[Profile] = Profile(
        name="randomized-ucb",
        source="Dudík et al. 2011: the cheapest distribution over policies that explores the good ones enough",
        classes="any",
        assumes="nothing of rewards but independence",
        guarantees="regret of order √(A t log(t|Π|/δ)); nothing of the answer",
        samples="its budget",
        proves=False,
    )

    confidence: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, confidence=positive(self.confidence, name="confidence"))

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        confidence: Confidence = 1.0,
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> RandomizedUcb:
        """The algorithm for this setting."""
        return cls(**cls.common(setting), confidence=confidence, budget=budget, growth=growth)

    def constraint(self, policies: PolicyClass, samples: float) -> Constraint:
        """β and μ after so many interactions."""
        n_actions, times = policies.n_actions, max(samples, 1.0)
        size = self.confidence * 2.0 * (policies.log_size + math.log(times / self.delta))
        floor = min(1.0 / (2.0 * n_actions), math.sqrt(size / (2.0 * n_actions * times)))
        return Constraint(math.sqrt(n_actions * times / (_LOSSES_COUNT * size)), floor)

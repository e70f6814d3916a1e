"""ILOVETOCONBANDITS (Agarwal et al. 2014): explore each policy as much as its estimated loss still permits.

    after t interactions:
        π_t = the policy of largest estimated value, centred rewards weighted by 1/p;  Reg_t(π) = its value less π's
        μ_t = min(1/(2A), c √(log(16 t² |Π|/δ) / (A t)))
        Q_t = weights of policies with   Σ_π Q(π) b_π ≤ 2A   and   E_x[1/Q^μ(π(x)|x)] ≤ 2A + b_π  for every π,
              where b_π = Reg_t(π)/(ψ μ_t) and E_x is over the contexts that came     (coordinate_descent)
        play p(a|x) = (1 − Aμ_t)(Σ_π Q_t(π) 1{π(x) = a} + (1 − Σ Q_t) 1{π_t(x) = a}) + μ_t

**Source.** Agarwal, Hsu, Kale, Langford, Li and Schapire, "Taming the monster: a fast and simple algorithm for
contextual bandits", ICML 2014, Algorithms 1 and 2. Its epochs are the rounds here, and each starts from half of
the last one's weights (`coordinate_descent`), where theirs starts from all of them. A cap on the calls of the oracle in
a round is ours, and so are rewards less their mean (`balance`), where theirs are as they are: it explores as the paper
says, by losses that are less noisy.

**Tuning.** `psi` is ψ, 100 as published; `mu` is c, 1 as published. Both come from the proof and are large: as
published b_π reaches 2A, and a policy is explored less for its loss, only after about (200/Reg)² A log(16t²|Π|/δ)
interactions, which is millions. Smaller ones explore less, and then the proof no longer holds.

**Guarantees.** Regret of order √(A t log(t|Π|/δ)); nothing of the policy that is learnt.
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

DEFAULT_PSI = 100.0

Psi = Annotated[float, About("ψ, by which estimated losses count less: larger explores more", above=0)]
Mu = Annotated[float, About("c of the minimum probability c √(log(16t²|Π|/δ)/(At)) of an action", above=0)]


@dataclass(frozen=True)
class Iltcb(WeightedPolicies):
    """Play weights of policies under which each is explored as much as its estimated loss still permits.

    mu: c, which multiplies the least probability of an action.
    psi: ψ, by which estimated losses count less.
    """

    name: ClassVar[str] = "ilovetoconbandits"
    profile: ClassVar[Profile] = Profile(
        name="ilovetoconbandits",
        source="Agarwal et al. 2014, Taming the monster: weights of policies by coordinate descent through the oracle",
        classes="any",
        assumes="nothing of rewards but independence",
        guarantees="regret of order √(A t log(t|Π|/δ)); nothing of the answer",
        samples="its budget",
        proves=False,
    )

    mu: float = field(default=1.0, kw_only=True)
    psi: float = field(default=DEFAULT_PSI, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, mu=positive(self.mu, name="mu"), psi=positive(self.psi, name="psi"))

    @classmethod
    def made_for(
        cls,
        setting: Setting,
        *,
        mu: Mu = 1.0,
        psi: Psi = DEFAULT_PSI,
        budget: Budget = DEFAULT_BUDGET,
        growth: Growth = DEFAULT_GROWTH,
    ) -> Iltcb:
        """The algorithm for this setting."""
        return cls(**cls.common(setting), mu=mu, psi=psi, budget=budget, growth=growth)

    def constraint(self, policies: PolicyClass, samples: float) -> Constraint:
        """β = 1/(ψμ) and μ after so many interactions."""
        n_actions = policies.n_actions
        most = 1.0 / (2.0 * n_actions)
        if samples < 1:
            return Constraint(1.0 / (self.psi * most), most)
        size = math.log(16.0 / self.delta) + 2.0 * math.log(samples) + policies.log_size
        floor = min(most, self.mu * math.sqrt(size / (n_actions * samples)))
        return Constraint(1.0 / (self.psi * floor), floor)

"""The steps of CODA and FW-GD as printed, as oracle calls (the paper's section on computational efficiency).

γ_π is one of m numbers for the m policies of the support, and a common one for all others. Policies that act alike on
the contexts count as one.
"""

from __future__ import annotations

import math

import numpy as np

from pacbandits.paper.oracles import Choice, Estimates, SupportGammas, best_outside, check_positive
from pacbandits.policies.base import ArgmaxOnly, CountedClass, PolicyClass, total
from pacbandits.records import Contexts


def frank_wolfe_step(
    policies: PolicyClass,
    contexts: Contexts,
    estimates: Estimates,
    gammas: SupportGammas,
    *,
    gap_weight: float,
    width_weight: float,
) -> Choice:
    """The policy towards which Frank–Wolfe steps, as printed (Lemma `csc`).

    argmax_π  −aΔ̂_π + b γ_π V_π + b L/(γ_π n),     a = gap_weight, b = width_weight
    """
    check_positive(width_weight=width_weight)
    return _best(policies, contexts, estimates, gammas, gap_weight=gap_weight, width_weight=width_weight)


def choose_policy(policies: PolicyClass, contexts: Contexts, estimates: Estimates, gammas: SupportGammas) -> Choice:
    """The policy π̂_l with which a round of CODA ends (Lemma `csc_2`); its value is the minimum.

    argmin_π  Δ̂_π + γ_π V_π + L/(γ_π n)
    """
    best = _best(policies, contexts, estimates, gammas, gap_weight=1.0, width_weight=-1.0)
    return Choice(best.policy, value=-best.value, bound=-best.bound, calls=best.calls)


def _best(
    policies: PolicyClass,
    contexts: Contexts,
    estimates: Estimates,
    gammas: SupportGammas,
    *,
    gap_weight: float,
    width_weight: float,
) -> Choice:
    """The policy that maximises `−aΔ̂_π + b (γ_π V_π + L/(γ_π n))`, for b of either sign.

    The support one by one; of all others, the best by exclusion, if it is better.
    """
    known = estimates.checked(policies, contexts)
    own, common = gammas.checked_gammas(), gammas.common_gamma
    acts = [policy(contexts) for policy in gammas.support]
    sums = np.array([(total(known.gaps, actions), total(known.costs, actions)) for actions in acts]).reshape(-1, 2)
    gaps, variances = gammas.checked_gaps(sums[:, 0]), sums[:, 1]
    values = -gap_weight * gaps + width_weight * (own * variances + known.confidence / (own * known.samples))
    top = float(values.max()) if len(values) else -math.inf

    counted = CountedClass(ArgmaxOnly(policies))
    constant = width_weight * known.confidence / (common * known.samples)
    scores = -gap_weight * known.gaps + width_weight * common * known.costs
    other = best_outside(counted, contexts, scores, excluded=gammas.support, above=top - constant)
    if other is not None:
        value = other.value + constant
        return Choice(other.policy, value, bound=value, calls=counted.calls)
    return Choice(gammas.support[int(values.argmax())], top, bound=top, calls=counted.calls)

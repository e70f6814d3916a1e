"""The steps of CODA and FW-GD as printed, as oracle calls (the paper's section on computational efficiency).

gaps (n, A): scores on the contexts whose sum over π's actions is Δ̂_π. costs (n, A), not negative: scores whose sum is
V_π(p; q). L is `confidence`, n is `samples`. γ_π is one of `gammas` (m,) for the m policies of the support, and
`common_gamma` for all others. Policies that act alike on the contexts count as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, floats
from pacbandits.paper.oracles.choice import Choice, check_parts, check_positive
from pacbandits.paper.oracles.excluding import best_outside
from pacbandits.policies.base import PolicyClass, total
from pacbandits.policies.counting import Counting
from pacbandits.records import Contexts, Policy


def frank_wolfe_step(
    policies: PolicyClass,
    contexts: Contexts,
    *,
    gaps: FloatArray,
    costs: FloatArray,
    gap_weight: float,
    width_weight: float,
    confidence: float,
    samples: float,
    common_gamma: float,
    support: Sequence[Policy],
    gammas: ArrayLike,
    support_gaps: ArrayLike | None = None,
) -> Choice:
    """The policy towards which Frank–Wolfe steps, as printed (Lemma `csc`).

        argmax_π  −aΔ̂_π + b γ_π V_π + b L/(γ_π n),     a = gap_weight, b = width_weight

    support_gaps (m,): Δ̂_π of the support, where those were estimated with other γ than the gaps of all.
    """
    check_positive(width_weight=width_weight)
    return _best(
        policies,
        contexts,
        gaps=gaps,
        costs=costs,
        gap_weight=gap_weight,
        width_weight=width_weight,
        confidence=confidence,
        samples=samples,
        common_gamma=common_gamma,
        support=support,
        gammas=gammas,
        support_gaps=support_gaps,
    )


def choose_policy(
    policies: PolicyClass,
    contexts: Contexts,
    *,
    gaps: FloatArray,
    costs: FloatArray,
    confidence: float,
    samples: float,
    common_gamma: float,
    support: Sequence[Policy],
    gammas: ArrayLike,
    support_gaps: ArrayLike | None = None,
) -> Choice:
    """The policy π̂_l with which a round of CODA ends (Lemma `csc_2`); its value is the minimum.

        argmin_π  Δ̂_π + γ_π V_π + L/(γ_π n)

    support_gaps (m,): Δ̂_π of the support, where those were estimated with their own γ.
    """
    best = _best(
        policies,
        contexts,
        gaps=gaps,
        costs=costs,
        gap_weight=1.0,
        width_weight=-1.0,
        confidence=confidence,
        samples=samples,
        common_gamma=common_gamma,
        support=support,
        gammas=gammas,
        support_gaps=support_gaps,
    )
    return Choice(best.policy, value=-best.value, bound=-best.bound, calls=best.calls)


def _best(
    policies: PolicyClass,
    contexts: Contexts,
    *,
    gaps: FloatArray,
    costs: FloatArray,
    gap_weight: float,
    width_weight: float,
    confidence: float,
    samples: float,
    common_gamma: float,
    support: Sequence[Policy],
    gammas: ArrayLike,
    support_gaps: ArrayLike | None,
) -> Choice:
    """The policy that maximises `−aΔ̂_π + b (γ_π V_π + L/(γ_π n))`, for b of either sign.

    The support one by one; of all others, the best by exclusion, if it is better.
    """
    gaps, costs = check_parts(policies, contexts, gaps=gaps, costs=costs)
    m = len(support)
    gammas = floats(gammas, name="gammas", shape=(m,))
    check_positive(confidence=confidence, samples=samples, common_gamma=common_gamma, gammas=gammas)
    acts = [policy(contexts) for policy in support]
    sums = np.array([(total(gaps, actions), total(costs, actions)) for actions in acts]).reshape(m, 2)
    own_gaps = sums[:, 0] if support_gaps is None else floats(support_gaps, name="support_gaps", shape=(m,))
    values = -gap_weight * own_gaps + width_weight * (gammas * sums[:, 1] + confidence / (gammas * samples))
    known = float(values.max()) if m else -math.inf

    counted = Counting(policies)
    constant = width_weight * confidence / (common_gamma * samples)
    scores = -gap_weight * gaps + width_weight * common_gamma * costs
    other = best_outside(counted, contexts, scores, excluded=support, above=known - constant)
    if other is not None:
        value = other.value + constant
        return Choice(other.policy, value, bound=value, calls=counted.calls)
    return Choice(support[int(values.argmax())], known, bound=known, calls=counted.calls)

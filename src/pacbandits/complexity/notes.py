"""Notes on the complexity of a problem: why a number is missing, and what to know about others.

Every function returns notes by the names that the numbers have in the JSON.
"""

from __future__ import annotations

import math

from pacbandits.complexity.gaps import Gaps
from pacbandits.complexity.groups import DisagreementBounds, InstanceSummary, Rho, SampleBounds, TrivialBounds
from pacbandits.complexity.laws import Law

Notes = dict[str, str]


def explain_rhos(rho: Rho, rho_sigma: Rho) -> Notes:
    """On the brackets, and on what uniform exploration pays."""
    notes: Notes = {}
    if rho.uniform_lower < rho.uniform:
        notes["rho_uniform"] = f"an upper end; at least {rho.uniform_lower:.6g}"
    if rho.solution.note:
        notes["rho"] = rho.solution.note
    if rho_sigma.solution.note:
        notes["rho_sigma"] = rho_sigma.solution.note
    if rho_sigma.upper == 0 < rho.upper:
        notes["rho_sigma"] = "zero: rewards carry no noise where policies differ"
    return notes


def explain_gap(gaps: Gaps) -> Notes:
    """On the least gap, where it is unknown, infinite or zero."""
    if gaps.minimum is None:
        return {"min_gap": "the class cannot list its second-best policy"}
    if gaps.minimum == math.inf:
        return {"min_gap": "infinite: every policy acts alike wherever a context can occur"}
    if gaps.tied:
        return {"min_gap": "zero, or too small for a double: two policies tie for the best"}
    return {}


def explain_lower_bounds(samples: SampleBounds, instance: InstanceSummary, law: Law) -> Notes:
    """On lower bounds that are no theorem here."""
    notes: Notes = {}
    if samples.lower_bound_paper is None:
        notes["lower_bound_paper"] = _where_printed_bounds_hold(instance)
    if samples.lower_bound is not None:
        return notes
    if law is Law.OTHER:
        notes["lower_bound"] = "no theorem: known for Gaussian and Bernoulli rewards alone"
    elif instance.epsilon == 0:
        notes["lower_bound"] = "unknown: the best design is too large to write out"
    else:
        known = "" if instance.min_gap is not None else " for all we know"
        notes["lower_bound"] = f"no theorem: more than one policy is ε-optimal{known}"
    return notes


def _where_printed_bounds_hold(instance: InstanceSummary) -> str:
    """Why a lower bound of the paper is not shown."""
    return "a theorem for ε = 0 only" if instance.epsilon > 0 else "a theorem for Gaussian noise of variance 1 only"


def explain_trivial_bounds(trivial: TrivialBounds | None, instance: InstanceSummary) -> Notes:
    """On the bounds of the trivial class, for other classes, for ε > 0 and for other noise than the paper's."""
    if trivial is None:
        names = ("trivial_lower_bound", "trivial_upper_bound", "trivial_minimax_bound")
        return dict.fromkeys(names, "for the trivial class only")
    return {"trivial_lower_bound": _where_printed_bounds_hold(instance)} if trivial.lower is None else {}


def explain_disagreement(disagreement: DisagreementBounds | None, instance: InstanceSummary) -> Notes:
    """On disagreement coefficients and their bounds on ρ."""
    if disagreement is None:
        coefficients = ("disagreement_policy", "disagreement_cost_sensitive")
        names = (*coefficients, *(f"{name}_bound" for name in coefficients))
        return dict.fromkeys(names, "needs a search of the class for every context")
    notes: Notes = {}
    if disagreement.policy_bound is None:
        needs = "ε > 0" if instance.epsilon == 0 else "0 < Δ_uniform: π* must be best in every context"
        notes["disagreement_policy_bound"] = f"needs {needs}"
    if disagreement.cost_sensitive_bound is None:
        notes["disagreement_cost_sensitive_bound"] = "needs ε > 0"
    return notes


def explain_low_regret_bound(samples: SampleBounds) -> Notes:
    """On the bound for low-regret algorithms, which is for one instance only."""
    if samples.low_regret_bound is not None:
        return {}
    return {"low_regret_bound": "for the paper's hard instance with unit Gaussian noise only"}

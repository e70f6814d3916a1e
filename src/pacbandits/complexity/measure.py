"""Everything the theory says of a problem, in one record."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from pacbandits.complexity import bounds
from pacbandits.complexity.disagreement import measure_disagreement
from pacbandits.complexity.gaps import Gaps, Truth, measure_gaps
from pacbandits.complexity.rho import measure_lower_rho, measure_rho, measure_uniform_rho
from pacbandits.complexity.trivial import require_distinct
from pacbandits.confidence import check_delta, check_epsilon
from pacbandits.design import Solution
from pacbandits.policies.base import EnumeratedClass, EveryMap, PolicyClass
from pacbandits.progress import Progress, prefixed, silent
from pacbandits.records import Contexts


@dataclass(frozen=True, eq=False)
class Complexity:
    """What a problem costs. None: cannot be had, and `notes` says why under the same name.

    rho_*: complexities at `epsilon`, the ends of a bracket; `rho_sigma_*` weighs actions by their noise variance; the
    `_uniform` ones are what uniform exploration pays. Bounds are numbers of samples. `solution` and `sigma_solution`
    hold the optimal designs.
    """

    n_policies: int | None
    log_size: float
    n_contexts: int
    n_actions: int
    epsilon: float
    delta: float
    best_value: float
    min_gap: float | None
    gap_epsilon: float
    gap_uniform: float | None
    rho_lower: float
    rho_upper: float
    rho_uniform: float
    rho_sigma_lower: float
    rho_sigma_upper: float
    rho_sigma_uniform: float
    lower_bound: float | None
    lower_bound_paper: float | None
    upper_bound: float
    minimax_bound: float
    confidence_price: float
    union_price: float
    union_price_uniform: float
    trivial_lower_bound: float | None
    trivial_upper_bound: float | None
    trivial_minimax_bound: float | None
    low_regret_bound: float | None
    disagreement_policy: float | None
    disagreement_cost_sensitive: float | None
    disagreement_policy_bound: float | None
    disagreement_cost_sensitive_bound: float | None
    converged: bool
    tolerance: float
    oracle_calls: int
    support: int
    seconds: float
    gaps: Gaps
    solution: Solution
    sigma_solution: Solution
    notes: dict[str, str] = field(default_factory=dict[str, str])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite number is the string "Infinity"."""
        records = {"gaps", "solution", "sigma_solution"}
        out = {f.name: _plain(getattr(self, f.name)) for f in fields(self) if f.name not in records}
        out["best_policy"] = self.gaps.best.describe()
        return out


def measure(
    truth: Truth,
    policies: PolicyClass,
    *,
    epsilon: float,
    delta: float,
    tolerance: float | None = None,
    progress: Progress | None = None,
) -> Complexity:
    """Measure a problem for a policy class: gaps, ρ and ρ_σ with brackets, bounds, disagreement coefficients.

    tolerance: relative gap at which the brackets on ρ stop; by default 1e-5 for enumerated classes, 0.01 for the rest.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("hard:m=10,gap=1")
    >>> measured = pb.measure(problem, problem.policies, epsilon=0, delta=0.05)
    >>> round(measured.rho_lower, 3), round(measured.rho_upper, 3)  # a proven bracket: 2m/gap²
    (20.0, 20.0)
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    began = time.perf_counter()
    tell = progress or silent
    contexts, noise = truth.population, truth.noise_variance
    if isinstance(policies, EveryMap):
        require_distinct(policies, contexts)
    notes: dict[str, str] = {}

    tell("gaps")
    gaps = measure_gaps(truth, policies)
    tell("ρ")
    rho = measure_rho(policies, contexts, gaps, epsilon=epsilon, tolerance=tolerance, progress=prefixed(tell, "ρ"))
    if np.array_equal(noise, np.ones_like(noise)):
        sigma = rho
    else:
        tell("ρ_σ")
        sigma = measure_rho(
            policies,
            contexts,
            gaps,
            epsilon=epsilon,
            noise=noise,
            tolerance=tolerance,
            progress=prefixed(tell, "ρ_σ"),
        )
    tell("uniform exploration")
    uniform_lower, rho_uniform = measure_uniform_rho(policies, contexts, gaps, epsilon=epsilon)
    sigma_uniform = rho_uniform
    if sigma is not rho:
        sigma_uniform = measure_uniform_rho(policies, contexts, gaps, epsilon=epsilon, noise=noise)[1]
    if uniform_lower < rho_uniform:
        notes["rho_uniform"] = f"an upper end; at least {uniform_lower:.6g}"
    for name, solution in (("rho", rho), ("rho_sigma", sigma)):
        if solution.note:
            notes[name] = solution.note
    if sigma.upper == 0 < rho.upper:
        notes["rho_sigma"] = "zero: rewards carry no noise where policies differ"

    if gaps.minimum is None:
        notes["min_gap"] = "the class cannot list its second-best policy"
    elif gaps.minimum == np.inf:
        notes["min_gap"] = "infinite: every policy acts alike wherever a context can occur"
    elif gaps.tied:
        notes["min_gap"] = "zero, or too small for a double: two policies tie for the best"

    log_size = policies.log_size
    gap_floor = gaps.floor(epsilon)
    lower, lower_paper = _lower_bounds(
        policies, truth, gaps, rho, sigma, notes, epsilon=epsilon, delta=delta, tolerance=tolerance
    )
    trivial = _trivial_bounds(truth, policies, gaps, notes, epsilon=epsilon, delta=delta)
    disagreement = _disagreement(truth, policies, gaps, notes, epsilon=epsilon)
    return Complexity(
        n_policies=len(policies) if isinstance(policies, EnumeratedClass) else None,
        log_size=log_size,
        n_contexts=len(contexts),
        n_actions=policies.n_actions,
        epsilon=epsilon,
        delta=delta,
        best_value=gaps.best_value,
        min_gap=gaps.minimum,
        gap_epsilon=gap_floor,
        gap_uniform=gaps.uniform,
        rho_lower=rho.lower,
        rho_upper=rho.upper,
        rho_uniform=rho_uniform,
        rho_sigma_lower=sigma.lower,
        rho_sigma_upper=sigma.upper,
        rho_sigma_uniform=sigma_uniform,
        lower_bound=lower,
        lower_bound_paper=lower_paper,
        upper_bound=bounds.upper_bound(rho.upper, log_size=log_size, delta=delta, gap_floor=gap_floor),
        minimax_bound=bounds.minimax_bound(
            n_actions=policies.n_actions, log_size=log_size, delta=delta, epsilon=epsilon
        ),
        confidence_price=bounds.confidence_price(sigma.upper, delta=delta),
        union_price=bounds.union_price(sigma.upper, log_size=log_size, delta=delta),
        union_price_uniform=bounds.union_price(sigma_uniform, log_size=log_size, delta=delta),
        trivial_lower_bound=trivial[0],
        trivial_upper_bound=trivial[1],
        trivial_minimax_bound=trivial[2],
        low_regret_bound=_low_regret_bound(truth, policies, gaps, notes, delta=delta),
        disagreement_policy=disagreement[0],
        disagreement_cost_sensitive=disagreement[1],
        disagreement_policy_bound=disagreement[2],
        disagreement_cost_sensitive_bound=disagreement[3],
        converged=rho.converged and sigma.converged,
        tolerance=rho.tolerance,
        oracle_calls=rho.oracle_calls + (0 if sigma is rho else sigma.oracle_calls),
        support=len(rho.design.support),
        seconds=time.perf_counter() - began,
        gaps=gaps,
        solution=rho,
        sigma_solution=sigma,
        notes=notes,
    )


def _lower_bounds(
    policies: PolicyClass,
    truth: Truth,
    gaps: Gaps,
    rho: Solution,
    sigma: Solution,
    notes: dict[str, str],
    *,
    epsilon: float,
    delta: float,
    tolerance: float | None,
) -> tuple[float | None, float | None]:
    """The lower bound where it is a theorem, and the paper's own."""
    if epsilon == 0:
        return bounds.lower_bound(sigma.lower, delta=delta), bounds.paper_lower_bound(rho.lower, delta=delta)
    notes["lower_bound_paper"] = "a theorem for ε = 0 only"
    if gaps.minimum is None or gaps.minimum <= epsilon:
        notes["lower_bound"] = "no theorem: more than one policy is ε-optimal" + (
            " for all we know" if gaps.minimum is None else ""
        )
        return None, None
    solution = measure_lower_rho(
        policies, truth.population, gaps, epsilon=epsilon, noise=truth.noise_variance, tolerance=tolerance
    )
    return bounds.lower_bound(solution.lower, delta=delta), None


def _trivial_bounds(
    truth: Truth, policies: PolicyClass, gaps: Gaps, notes: dict[str, str], *, epsilon: float, delta: float
) -> tuple[float | None, float | None, float | None]:
    """Lower, upper and minimax bounds of the trivial class."""
    if not isinstance(policies, EveryMap):
        names = ("trivial_lower_bound", "trivial_upper_bound", "trivial_minimax_bound")
        notes.update(dict.fromkeys(names, "for the trivial class only"))
        return None, None, None
    weights = truth.population.weights
    with np.errstate(divide="ignore", invalid="ignore"):
        by_action = np.where(weights[:, None] > 0, gaps.scores / weights[:, None], 0.0)
    total = bounds.trivial_sum(by_action, weights)
    lower = bounds.trivial_lower_bound(total, delta=delta) if epsilon == 0 else None
    if lower is None:
        notes["trivial_lower_bound"] = "a theorem for ε = 0 only"
    sizes = {"n_contexts": policies.n_contexts, "n_actions": policies.n_actions}
    upper = bounds.trivial_upper_bound(total, **sizes, epsilon=epsilon, delta=delta, gap_floor=gaps.floor(epsilon))
    return lower, upper, bounds.trivial_minimax_bound(**sizes, epsilon=epsilon, delta=delta)


def _disagreement(
    truth: Truth, policies: PolicyClass, gaps: Gaps, notes: dict[str, str], *, epsilon: float
) -> tuple[float | None, float | None, float | None, float | None]:
    measured = measure_disagreement(policies, truth.population, gaps)
    names = ("disagreement_policy", "disagreement_cost_sensitive")
    names += tuple(f"{name}_bound" for name in names)
    if measured is None:
        notes.update(dict.fromkeys(names, "needs a search of the class for every context"))
        return None, None, None, None
    n_actions = policies.n_actions
    by_policy = measured.policy_bound(n_actions=n_actions, epsilon=epsilon, uniform_gap=gaps.uniform)
    by_cost = measured.cost_sensitive_bound(n_actions=n_actions, epsilon=epsilon)
    if by_policy is None:
        notes[names[2]] = "needs ε > 0" if epsilon == 0 else "needs 0 < Δ_uniform: π* must be best in every context"
    if by_cost is None:
        notes[names[3]] = "needs ε > 0"
    return measured.policy(epsilon), measured.cost_sensitive(epsilon), by_policy, by_cost


def _low_regret_bound(
    truth: Truth, policies: PolicyClass, gaps: Gaps, notes: dict[str, str], *, delta: float
) -> float | None:
    """The bound for low-regret algorithms when the problem is the paper's hard instance (contexts in any order)."""
    rewards, weights = truth.mean_rewards, truth.population.weights
    m = len(weights)
    table = _square_table(policies, truth.population) if m >= 2 and np.allclose(weights, 1 / m) else None
    hard = (
        table is not None
        and bool((np.sort(table.argmax(axis=1)) == np.arange(m)).all())
        and bool((table.sum(axis=1, dtype=np.int64) == 1).all())
    )
    if hard:
        gap = rewards.max()
        wanted = gap * (np.arange(2) == gaps.best_actions[:, None])
        if 0 < gap <= 1 and np.allclose(rewards, wanted) and np.allclose(truth.noise_variance, 1.0):
            return bounds.low_regret_bound(m, gap=float(gap), delta=delta)
    notes["low_regret_bound"] = "for the paper's hard instance with unit Gaussian noise only"
    return None


def _square_table(policies: PolicyClass, contexts: Contexts) -> np.ndarray[Any, Any] | None:
    """The actions of as many policies as there are contexts, of two actions; None for any other class."""
    if not isinstance(policies, EnumeratedClass) or policies.n_actions != 2 or len(policies) != len(contexts):
        return None
    return np.asarray(policies.actions(contexts))


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value

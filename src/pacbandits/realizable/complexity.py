"""What a problem costs whose mean rewards are linear in known features, in one record."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import positive
from pacbandits.complexity import bounds
from pacbandits.complexity.gaps import Truth, check_truth
from pacbandits.complexity.laws import Law, law_of
from pacbandits.confidence import check_delta, check_epsilon
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.progress import Progress, listener
from pacbandits.realizable.coordinates import MAX_NOISELESS_SHARE
from pacbandits.realizable.instance import Instance
from pacbandits.realizable.rho import FULL_EFFORT, RhoBracket, SearchEffort, measure_realizable_rho, minimax_rho


@dataclass(frozen=True, eq=False)
class RealizableComplexity:
    """What a problem with linear rewards costs. None: cannot be had, and `notes` says why under the same name.

    What was measured:

    policies: "listed", "linear" or "all".
    dimension: d, of the features.
    rank: r, of what the features span.
    n_policies: |Π|, of a listed class.
    log_size: log|Π|, or an upper bound on it.
    log_cover: of a cover of directions, see `log_cover`.
    n_contexts: N, with those that cannot occur.
    n_actions: A.
    epsilon: ε.
    delta: δ.
    best_value: V(π*).
    best_actions (N,): π*.

    Complexities at ε, and the same weighed by noise (`sigma`):

    rho_lower, rho_sigma_lower: not more than ρ, a theorem.
    rho_upper, rho_sigma_upper: the largest cost of a policy found at the best design found.
    rho_proven, rho_sigma_proven: an upper end that is a theorem; `upper` itself where `exact`.
    rho_uniform, rho_sigma_uniform: what uniform exploration pays, found as `upper` is.
    rho_minimax: 4r/ε², no ρ is larger.
    exact: whether both ends are theorems.
    propensities (N, A): the design of rho_upper.

    Numbers of samples:

    lower_bound: what any algorithm needs, for ε = 0 and Gaussian noise.
    minimax_bound: what suffices for every problem of this rank, up to a constant.
    confidence_price: 2ρ_σ log(1/2.4δ), what confidence alone costs.
    union_price: 2ρ_σ(min(log cover, log|Π|) + log(1/δ)), with the best design.
    union_price_uniform: the same with uniform exploration.

    How it went:

    converged: whether the brackets are as narrow as was asked.
    tolerance: the relative gap that was asked for.
    seconds: what it took.
    notes: words on special cases, by the name of the field.
    """

    policies: str
    dimension: int
    rank: int
    n_policies: int | None
    log_size: float
    log_cover: float
    n_contexts: int
    n_actions: int
    epsilon: float
    delta: float
    best_value: float
    # Complexities.
    rho_lower: float
    rho_upper: float
    rho_proven: float
    rho_uniform: float
    rho_minimax: float
    rho_sigma_lower: float
    rho_sigma_upper: float
    rho_sigma_proven: float
    rho_sigma_uniform: float
    exact: bool
    # Numbers of samples.
    lower_bound: float | None
    minimax_bound: float
    confidence_price: float
    union_price: float
    union_price_uniform: float
    # How it went.
    converged: bool
    tolerance: float
    seconds: float
    # Arrays, which are not part of the JSON.
    best_actions: IntArray
    propensities: FloatArray
    notes: dict[str, str] = field(default_factory=dict[str, str])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite number is the string "Infinity"."""
        arrays = {"best_actions", "propensities"}
        out = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in arrays}
        return {k: "Infinity" if isinstance(v, float) and math.isinf(v) else v for k, v in out.items()}


def measure_realizable(
    truth: Truth,
    features: ArrayLike,
    policies: PolicyClass | None,
    *,
    epsilon: float,
    delta: float,
    tolerance: float = 0.01,
    effort: SearchEffort = FULL_EFFORT,
    progress: Progress | None = None,
) -> RealizableComplexity:
    """Measure a problem whose mean rewards are linear in features (N, A, d).

    policies: a class that can be listed, the trivial one (every map from contexts to actions), or None for all linear
    policies. tolerance: relative gap at which the brackets stop. effort: how long to search, where that is needed.
    Raises `InputError` where mean rewards are not linear in the features, or the class is none of these.

    >>> import pacbandits as pb
    >>> problem = pb.load_problem("linear:dimension=2,actions=3,contexts=20")
    >>> found = pb.measure_realizable(problem, problem.realizable.features, problem.policies, epsilon=0.1, delta=0.05)
    >>> found.rho_lower <= found.rho_upper <= found.rho_minimax
    True
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    tolerance = positive(tolerance, name="tolerance")
    check_truth(truth)
    if policies is not None:
        policies = check_class(policies)
    began = time.perf_counter()
    tell = listener(progress)
    tell("features")
    instance = Instance.of(truth, features, policies)
    noise = truth.noise_variance[instance.rows]
    rho = partial(measure_realizable_rho, instance, epsilon=epsilon, tolerance=tolerance, tell=tell, effort=effort)
    tell("ρ")
    plain = sigma = rho(None)
    if not (noise == 1.0).all():
        tell("ρ_σ")
        sigma = rho(noise, known=plain.points)
    notes = _notes(instance, plain, sigma, noise)
    if doubt := _doubt_lower_bound(truth, epsilon):
        notes["lower_bound"] = doubt
    log_size = _log_size(instance, policies)
    cover = log_cover(instance.own.rank, epsilon=epsilon)
    union = min(cover, log_size)
    return RealizableComplexity(
        policies="linear" if policies is None else "all" if policies.holds_every_map else "listed",
        dimension=instance.own.dimension,
        rank=instance.own.rank,
        n_policies=len(policies) if policies is not None and policies.lists_policies else None,
        log_size=log_size,
        log_cover=cover,
        n_contexts=len(instance.rows),
        n_actions=instance.own.n_actions,
        epsilon=epsilon,
        delta=delta,
        best_value=instance.best_value,
        rho_lower=plain.lower,
        rho_upper=plain.upper,
        rho_proven=plain.proven,
        rho_uniform=plain.uniform,
        rho_minimax=minimax_rho(instance.own.rank, epsilon=epsilon),
        rho_sigma_lower=sigma.lower,
        rho_sigma_upper=sigma.upper,
        rho_sigma_proven=sigma.proven,
        rho_sigma_uniform=sigma.uniform,
        exact=plain.points is None,
        lower_bound=None if doubt else bounds.lower_bound(sigma.lower, delta=delta),
        minimax_bound=minimax_bound(instance.own.rank, epsilon=epsilon, delta=delta),
        confidence_price=bounds.confidence_price(sigma.upper, delta=delta),
        union_price=bounds.union_price(sigma.upper, log_size=union, delta=delta),
        union_price_uniform=bounds.union_price(sigma.uniform, log_size=union, delta=delta),
        converged=max(plain.gap, sigma.gap) <= tolerance,
        tolerance=tolerance,
        seconds=time.perf_counter() - began,
        best_actions=instance.best_actions,
        propensities=plain.propensities,
        notes=notes,
    )


def log_cover(rank: int, *, epsilon: float) -> float:
    """r log(1 + 2/ε): the unit ball of any norm on R^r has an ε-net of at most (1 + 2/ε)^r points.

    The paper's union over d log(1/ε) (Theorem `realizable_upper`), with a constant. The norm is that of the design:
    with directions v, ‖v‖_A ≤ 1, of which all ‖x_π‖_{A⁻¹} = max_v ⟨v, x_π⟩ are known up to a share ε from the net.
    """
    return rank * math.log1p(2.0 / epsilon) if epsilon > 0 else np.inf


def minimax_bound(rank: int, *, epsilon: float, delta: float) -> float:
    """`d (d log(1/ε) + log(1/δ)) log(1/ε)/ε²`, Theorem `realizable_upper`, second part, with constant 1 and d = r.

    log(1/ε) is taken to be at least log 2: one round.
    """
    if epsilon == 0:
        return np.inf
    rounds = max(-math.log(epsilon), math.log(2.0))
    return rank * (rank * rounds - math.log(delta)) * rounds / epsilon**2


def _doubt_lower_bound(truth: Truth, epsilon: float) -> str:
    """Why the lower bound is no theorem here; nothing where it is."""
    if epsilon > 0:
        return "a theorem for ε = 0 only"
    return "" if law_of(truth) is Law.GAUSSIAN else "a theorem for Gaussian noise only"


def _log_size(instance: Instance, policies: PolicyClass | None) -> float:
    """log|Π|. Linear policies are at most the cells of an arrangement: 2 Σ_{i<r} C(M − 1, i) for M hyperplanes."""
    if policies is not None:
        return policies.log_size
    n, n_actions = instance.losses.shape
    rank, planes = instance.own.rank, n * n_actions * (n_actions - 1) // 2
    if rank == 0 or planes == 0:
        return 0.0
    terms = [math.lgamma(planes) - math.lgamma(i + 1) - math.lgamma(planes - i) for i in range(min(rank, planes))]
    cells = math.log(2.0) + float(np.logaddexp.reduce(terms))
    return min(cells, n * math.log(n_actions))


def _notes(instance: Instance, plain: RhoBracket, sigma: RhoBracket, noise: FloatArray) -> dict[str, str]:
    notes: dict[str, str] = {}
    if instance.own.rank < instance.own.dimension:
        notes["rank"] = f"the features span {instance.own.rank} of {instance.own.dimension} dimensions"
    for name, ends in (("rho", plain), ("rho_sigma", sigma)):
        if ends.note:
            notes[name] = ends.note
    if sigma.upper == 0 < plain.upper:
        notes["rho_sigma"] = "zero: rewards carry no noise where policies differ"
    elif (noise <= MAX_NOISELESS_SHARE * noise.max(initial=0.0)).any():
        notes["rho_sigma"] = "; ".join(
            word for word in (sigma.note, "some rewards carry no noise, and what they teach costs nothing") if word
        )
    return notes

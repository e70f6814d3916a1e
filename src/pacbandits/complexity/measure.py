"""Measure a problem: its gaps, ρ and ρ_σ, and the bounds that follow from them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray
from pacbandits.checks import positive
from pacbandits.complexity import lower_bounds as bounds
from pacbandits.complexity.complexity import (
    Complexity,
    DisagreementBounds,
    InstanceSummary,
    Rho,
    SampleBounds,
    TrivialBounds,
)
from pacbandits.complexity.gaps import Gaps, Law, Truth, check_truth, has_unit_noise, law_of, measure_gaps
from pacbandits.complexity.lower_bounds import least_coin_divergence
from pacbandits.complexity.rho import (
    measure_disagreement,
    measure_lower_rho,
    measure_rho,
    measure_uniform_rho,
    require_distinct,
)
from pacbandits.confidence import check_delta, check_epsilon
from pacbandits.policies.base import PolicyClass, Searches, check_class, check_memory
from pacbandits.progress import Progress, listener, prefixed
from pacbandits.records import Contexts

# Searches of a class without a list of policies, as counted on problems of trees; sometimes several times as many.
MEASUREMENT_SEARCHES = Searches(argmaxes=15, frontiers=40)


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
    check_truth(truth)
    policies = check_class(policies)
    check_memory(policies, len(truth.population))
    tolerance = None if tolerance is None else positive(tolerance, name="tolerance")
    began = time.perf_counter()
    tell = listener(progress)
    if policies.holds_every_map:
        require_distinct(policies, truth.population)
    tell("gaps")
    question = _Question(truth, policies, measure_gaps(truth, policies), epsilon, delta, tolerance)
    noise = truth.noise_variance
    rho = rho_sigma = _measure_rho(question, None, prefixed(tell, "ρ"))
    if not np.array_equal(noise, np.ones_like(noise)):
        rho_sigma = _measure_rho(question, noise, prefixed(tell, "ρ_σ"))
    tell("bounds")
    return Complexity(
        instance=_describe_instance(question),
        gaps=question.gaps,
        law=law_of(truth),
        rho=rho,
        rho_sigma=rho_sigma,
        samples=_bound_samples(question, rho, rho_sigma),
        trivial=_bound_trivial(question),
        disagreement=_bound_disagreement(question),
        seconds=time.perf_counter() - began,
    )


class TooLongError(Exception):
    """Raised when a measurement takes longer than its caller allows."""


def measure_in_time(
    seconds: float,
    truth: Truth,
    policies: PolicyClass,
    *,
    epsilon: float,
    delta: float,
    progress: Progress | None = None,
) -> Complexity:
    """Measure a problem as `measure` does; raise TooLongError at the first step after this many seconds."""
    end, tell = time.perf_counter() + seconds, listener(progress)

    def go_on(text: str) -> None:
        if time.perf_counter() > end:
            raise TooLongError
        tell(text)

    return measure(truth, policies, epsilon=epsilon, delta=delta, progress=go_on)


@dataclass(frozen=True, eq=False)
class _Question:
    """The inputs of every step of a measurement.

    truth: the problem.
    policies: Π.
    gaps: the gaps of Π.
    epsilon: ε.
    delta: δ.
    tolerance: the relative gap at which brackets stop; None for the solver's default.
    """

    truth: Truth
    policies: PolicyClass
    gaps: Gaps
    epsilon: float
    delta: float
    tolerance: float | None

    @property
    def contexts(self) -> Contexts:
        return self.truth.population

    @property
    def as_in_the_paper(self) -> bool:
        """Whether the paper's lower bounds are theorems here as printed: ε = 0, Gaussian noise of variance 1."""
        return self.epsilon == 0 and has_unit_noise(self.truth)


def _describe_instance(asked: _Question) -> InstanceSummary:
    policies, gaps = asked.policies, asked.gaps
    return InstanceSummary(
        n_policies=len(policies) if policies.lists_policies else None,
        log_size=policies.log_size,
        n_contexts=len(asked.contexts),
        n_actions=policies.n_actions,
        epsilon=asked.epsilon,
        delta=asked.delta,
        best_value=gaps.best_value,
        min_gap=gaps.minimum,
        gap_epsilon=gaps.floor(asked.epsilon),
        gap_uniform=gaps.uniform,
    )


def _measure_rho(asked: _Question, noise: FloatArray | None, tell: Progress) -> Rho:
    """Measure ρ_{Π,ε}, or with the noise variances (N, A) ρ_{σ,ε}."""
    policies, contexts, gaps, epsilon = asked.policies, asked.contexts, asked.gaps, asked.epsilon
    tell("the best design")
    solution = measure_rho(
        policies, contexts, gaps, epsilon=epsilon, noise=noise, tolerance=asked.tolerance, progress=tell
    )
    tell("uniform exploration")
    lower, upper = measure_uniform_rho(policies, contexts, gaps, epsilon=epsilon, noise=noise)
    return Rho(solution, uniform=upper, uniform_lower=lower)


def _bound_samples(asked: _Question, rho: Rho, rho_sigma: Rho) -> SampleBounds:
    log_size, delta, epsilon = asked.policies.log_size, asked.delta, asked.epsilon
    return SampleBounds(
        lower_bound=_lower_bound(asked, rho, rho_sigma),
        lower_bound_paper=bounds.paper_lower_bound(rho.lower, delta=delta) if asked.as_in_the_paper else None,
        upper_bound=bounds.upper_bound(rho.upper, log_size=log_size, delta=delta, gap_floor=asked.gaps.floor(epsilon)),
        minimax_bound=bounds.minimax_bound(
            n_actions=asked.policies.n_actions, log_size=log_size, delta=delta, epsilon=epsilon
        ),
        confidence_price=bounds.confidence_price(rho_sigma.upper, delta=delta),
        union_price=bounds.union_price(rho_sigma.upper, log_size=log_size, delta=delta),
        union_price_uniform=bounds.union_price(rho_sigma.uniform, log_size=log_size, delta=delta),
        low_regret_bound=_low_regret_bound(asked),
    )


def _lower_bound(asked: _Question, rho: Rho, rho_sigma: Rho) -> float | None:
    """Return the lower bound if it is a theorem: Gaussian or Bernoulli rewards, and π* known to be alone within ε.

    At ε = 0 the latter is not needed: a tie makes the bound infinite.
    """
    law = law_of(asked.truth)
    if law is Law.OTHER:
        return None
    if asked.epsilon > 0 and (asked.gaps.minimum is None or asked.gaps.minimum <= asked.epsilon):
        return None
    if law is Law.BERNOULLI:
        designs = (rho.solution.design, rho_sigma.solution.design)
        found = least_coin_divergence(asked.truth, asked.policies, asked.gaps, epsilon=asked.epsilon, designs=designs)
        return None if found is None else bounds.coin_lower_bound(found, delta=asked.delta)
    if asked.epsilon == 0:
        return bounds.lower_bound(rho_sigma.lower, delta=asked.delta)
    solution = measure_lower_rho(
        asked.policies,
        asked.contexts,
        asked.gaps,
        epsilon=asked.epsilon,
        noise=asked.truth.noise_variance,
        tolerance=asked.tolerance,
    )
    return bounds.lower_bound(solution.lower, delta=asked.delta)


def _bound_trivial(asked: _Question) -> TrivialBounds | None:
    """Return the bounds of the trivial class; None for any other."""
    policies, epsilon, delta = asked.policies, asked.epsilon, asked.delta
    if not policies.holds_every_map:
        return None
    weights = asked.contexts.weights
    with np.errstate(divide="ignore", invalid="ignore"):
        by_action = np.where(weights[:, None] > 0, asked.gaps.scores / weights[:, None], 0.0)
    total = bounds.trivial_sum(by_action, weights)
    sizes = {"n_contexts": policies.n_contexts, "n_actions": policies.n_actions}
    return TrivialBounds(
        lower=bounds.trivial_lower_bound(total, delta=delta) if asked.as_in_the_paper else None,
        upper=bounds.trivial_upper_bound(
            total, **sizes, epsilon=epsilon, delta=delta, gap_floor=asked.gaps.floor(epsilon)
        ),
        minimax=bounds.trivial_minimax_bound(**sizes, epsilon=epsilon, delta=delta),
    )


def _bound_disagreement(asked: _Question) -> DisagreementBounds | None:
    """Return disagreement coefficients; None for classes that would need a search per context."""
    measured = measure_disagreement(asked.policies, asked.contexts, asked.gaps)
    if measured is None:
        return None
    n_actions, epsilon = asked.policies.n_actions, asked.epsilon
    return DisagreementBounds(
        policy=measured.policy(epsilon),
        cost_sensitive=measured.cost_sensitive(epsilon),
        policy_bound=measured.policy_bound(n_actions=n_actions, epsilon=epsilon, uniform_gap=asked.gaps.uniform),
        cost_sensitive_bound=measured.cost_sensitive_bound(n_actions=n_actions, epsilon=epsilon),
    )


def _low_regret_bound(asked: _Question) -> float | None:
    """Return the bound for low-regret algorithms; None unless this is the paper's hard instance with unit noise.

    Contexts may have any order: policy i alone takes action 1 on a context of its own, contexts are equally likely,
    and the best policy's actions have mean Δ each where every other has mean 0.
    """
    truth, weights = asked.truth, asked.contexts.weights
    m = len(weights)
    table = _square_table(asked.policies, asked.contexts)
    if table is None or m < 2 or not np.allclose(weights, 1 / m):
        return None
    own = np.sort(table.argmax(axis=1))
    gap = float(truth.mean_rewards.max())
    hard = (
        (own == np.arange(m)).all()
        and (table.sum(axis=1, dtype=np.int64) == 1).all()
        and 0 < gap <= 1
        and np.allclose(truth.mean_rewards, gap * (np.arange(2) == asked.gaps.best_actions[:, None]))
        and has_unit_noise(truth)
    )
    return bounds.low_regret_bound(m, gap=gap, delta=asked.delta) if hard else None


def _square_table(policies: PolicyClass, contexts: Contexts) -> np.ndarray[Any, Any] | None:
    """Return the actions of as many policies as there are contexts, with two actions; None for any other class."""
    if not policies.lists_policies or policies.n_actions != 2 or len(policies) != len(contexts):
        return None
    return np.asarray(policies.actions(contexts))

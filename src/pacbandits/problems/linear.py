"""Mean rewards that are linear in known features."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.options import About
from pacbandits.policies.finite import Finite
from pacbandits.problems.base import Problem, RealizableTruth
from pacbandits.problems.built_in import NoiseKind, Seed, Variance, built_in, check_entries, first_of_each, noise_model
from pacbandits.records import Contexts

MAX_DISTANCE_FROM_HALF = 0.45  # of a mean reward


@built_in("linear", description="mean rewards linear in features of context and action; linear policies")
def linear(
    *,
    dimension: Annotated[int, About("features of a context and action, of which the first is constant", least=2)] = 5,
    actions: Annotated[int, About("actions", least=1)] = 10,
    contexts: Annotated[int, About("contexts", least=1)] = 200,
    policies: Annotated[int, About("linear policies sampled; those that act alike count once", least=1)] = 200,
    spread: Annotated[float, About("how far policies stray from the best direction, as a share of it", above=0)] = 1.0,
    misfit: Annotated[float, About("share of the rewards that no linear function follows", least=0, most=1)] = 0.0,
    seed: Seed = 0,
    noise: NoiseKind = "bernoulli",
    variance: Variance = 0.25,
) -> Problem:
    """Rewards linear in features, and linear policies around and including the best one.

        r(c, a) = ⟨φ(c, a), θ*⟩,   π_θ(c) = argmax_a ⟨φ(c, a), θ⟩

    φ(c, a) = (1, z) with z standard normal; θ* = (1/2, w) with w scaled so that means lie within 0.45 of 1/2.
    A policy's θ is θ* plus a normal step of relative length uniform in (0, spread]. With a misfit m rewards are

        r(c, a) = 1/2 + s((1 − m)⟨z, u⟩ + m(|⟨z, v⟩| − mean)),   u ⊥ v unit vectors

    with s such that they lie within 0.45 of 1/2. The second part is uncorrelated with every linear function, as it is
    even in z, so methods that assume linear rewards are misled; the policies are sampled around u, and
    some may be better than u's.
    """
    check_entries(contexts=contexts, actions=actions, dimension=dimension)
    check_entries(policies=policies, contexts=contexts)
    rng = np.random.default_rng(seed)
    features = np.concatenate(
        [np.ones((contexts, actions, 1)), rng.standard_normal((contexts, actions, dimension - 1))], axis=2
    )
    direction = rng.standard_normal(dimension - 1)
    direction *= MAX_DISTANCE_FROM_HALF / np.abs(features[:, :, 1:] @ direction).max()
    truth = RealizableTruth(features=features, parameter=np.concatenate([[0.5], direction])) if misfit == 0 else None
    means = _bent(features[:, :, 1:], direction, misfit, rng) if truth is None else truth.mean_rewards
    steps = rng.standard_normal((policies, dimension - 1)) / np.sqrt(dimension - 1)
    lengths = spread * (1 - rng.random((policies, 1)))
    directions = direction + float(np.sqrt(direction @ direction)) * lengths * steps
    directions[0] = direction
    table = first_of_each(_greedy(features[:, :, 1:], directions))
    return Problem(
        name="linear",
        description=(
            f"Mean rewards linear in {dimension} features of {contexts} contexts and {actions} actions, and "
            f"{len(table)} distinct linear policies, the best possible one among them."
            if truth is not None
            else f"Mean rewards of {contexts} contexts and {actions} actions that are not linear in the {dimension} "
            f"features, and {len(table)} distinct linear policies."
        ),
        population=Contexts.finite(contexts, phi=features),
        mean_rewards=means,
        noise=noise_model(noise, variance=variance),
        policies=Finite(table, n_actions=actions),
        realizable=truth,
    )


def _bent(z: FloatArray, direction: FloatArray, misfit: float, rng: np.random.Generator) -> FloatArray:
    """Return mean rewards (N, A) with a nonlinear share; see `linear`."""
    across = rng.standard_normal(len(direction))
    straight = direction / np.linalg.norm(direction)
    across -= (across @ straight) * straight if len(direction) > 1 else 0.0
    bent = np.abs(z @ (across / np.linalg.norm(across)))
    mixed = (1.0 - misfit) * (z @ straight) + misfit * (bent - bent.mean())
    return 0.5 + MAX_DISTANCE_FROM_HALF * mixed / np.abs(mixed).max()


def _greedy(features: FloatArray, directions: FloatArray) -> IntArray:
    """Return argmax_a ⟨φ(c, a), θ⟩ for each direction θ (K, d) and context: (K, N)."""
    return np.stack([np.argmax(features @ direction, axis=1) for direction in directions])

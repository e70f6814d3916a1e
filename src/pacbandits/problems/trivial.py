"""The trivial class: every map from contexts to actions."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pacbandits.options import About
from pacbandits.policies.finite import Trivial
from pacbandits.problems.base import Problem
from pacbandits.problems.built_in import (
    NoiseKind,
    Seed,
    Skew,
    Variance,
    built_in,
    check_entries,
    context_weights,
    noise_model,
)
from pacbandits.records import Contexts


@built_in("trivial", description="every map from a few contexts to actions; each context is a bandit of its own")
def trivial(
    *,
    contexts: Annotated[int, About("contexts", least=1)] = 10,
    actions: Annotated[int, About("actions", least=1)] = 4,
    gap: Annotated[
        float, About("minimum gap between each context's best action and its second", least=0, most=0.9)
    ] = 0.1,
    skew: Skew = 0.0,
    seed: Seed = 0,
    noise: NoiseKind = "bernoulli",
    variance: Variance = 0.25,
) -> Problem:
    """Random mean rewards in which each context's best action leads by at least `gap`.

    The others are uniform on [0, 1 − gap], the best is uniform between the largest of them plus `gap` and 1.
    """
    check_entries(contexts=contexts, actions=actions)
    rng = np.random.default_rng(seed)
    weights = context_weights(contexts, skew=skew, rng=rng)
    means = rng.uniform(0, 1 - gap, size=(contexts, actions))
    best = rng.integers(actions, size=contexts)
    means[np.arange(contexts), best] = 0.0
    floor = means.max(axis=1) + gap
    # Slightly above `floor`, so that the difference is at least `gap` after rounding too.
    lead = floor + (1 - floor) * rng.uniform(1e-9, 1, size=contexts)
    means[np.arange(contexts), best] = np.minimum(lead, 1.0)
    return Problem(
        name="trivial",
        description=(
            f"Every map from {contexts} contexts to {actions} actions, with random mean rewards of which "
            f"each context's best leads by at least {gap:g}."
        ),
        population=Contexts.finite(contexts, weights=weights),
        mean_rewards=means,
        noise=noise_model(noise, variance=variance),
        policies=Trivial(contexts, actions),
    )

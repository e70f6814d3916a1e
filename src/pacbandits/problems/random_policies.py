"""Random policies on random rewards."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pacbandits.options import About
from pacbandits.policies.finite import Finite
from pacbandits.problems.base import Problem
from pacbandits.problems.built_in import (
    NoiseKind,
    Seed,
    Skew,
    Variance,
    built_in,
    check_entries,
    context_weights,
    distinct_rows,
    noise_model,
)
from pacbandits.records import Contexts


@built_in("random", description="random policies on random mean rewards, one of them better than chance")
def random_policies(
    *,
    policies: Annotated[int, About("policies, all distinct", least=1)] = 100,
    contexts: Annotated[int, About("contexts", least=1)] = 20,
    actions: Annotated[int, About("actions", least=1)] = 4,
    skill: Annotated[
        float, About("share of contexts on which one of the policies plays the best action", least=0, most=1)
    ] = 0.5,
    skew: Skew = 0.0,
    seed: Seed = 0,
    noise: NoiseKind = "bernoulli",
    variance: Variance = 0.25,
) -> Problem:
    """Uniform mean rewards, and uniform actions but for one policy that is right on some contexts.

    On a share `skill` of the contexts it plays `argmax_a r(c, a)`; elsewhere it is random like the others.
    """
    check_entries(policies=policies, contexts=contexts)
    check_entries(contexts=contexts, actions=actions)
    rng = np.random.default_rng(seed)
    weights = context_weights(contexts, skew=skew, rng=rng)
    means = rng.random((contexts, actions))
    skilled = rng.integers(actions, size=(1, contexts))
    where = rng.permutation(contexts)[: round(skill * contexts)]
    skilled[0, where] = means.argmax(axis=1)[where]
    table = distinct_rows(
        lambda count: rng.integers(actions, size=(count, contexts)),
        count=policies,
        choices=actions,
        besides=skilled,
    )
    return Problem(
        name="random",
        description=(
            f"{policies} random policies on {contexts} contexts and {actions} actions, uniform mean rewards; "
            f"one of the policies plays the best action on {len(where)} of the contexts."
        ),
        population=Contexts.finite(contexts, weights=weights),
        mean_rewards=means,
        noise=noise_model(noise, variance=variance),
        policies=Finite(rng.permutation(table), n_actions=actions),
    )

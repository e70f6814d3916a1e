"""The paper's hard instance."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pacbandits.options import About
from pacbandits.policies.finite import Finite
from pacbandits.problems.base import Problem
from pacbandits.problems.built_in import NoiseKind, Variance, built_in, noise_model
from pacbandits.records import Contexts


@built_in(
    "hard",
    description="the paper's hard instance: m contexts and m policies, each of which stands out on one",
)
def hard(
    *,
    m: Annotated[int, About("contexts, and policies", least=2, most=10_000)] = 10,
    gap: Annotated[float, About("reward of the best policy's action", above=0, most=1)] = 1.0,
    noise: NoiseKind = "gaussian",
    variance: Variance = 1.0,
) -> Problem:
    """m uniform contexts, two actions, and one policy that is right everywhere (Definition `hard_instance`).

        π_i(j) = 1{i = j},   r(i, j) = gap · 1{j = π_1(i)},   V(π_1) = gap,   V(π_i) = gap · (1 − 2/m)

    Contexts and policies count from 0 here, so that the best policy is row 0.
    """
    table = np.eye(m, dtype=np.int64)
    return Problem(
        name="hard",
        description=(
            f"The paper's hard instance: {m} equally likely contexts, two actions, and {m} policies of which "
            f"each plays action 1 on a context of its own; the first is right everywhere and earns {gap:g}."
        ),
        population=Contexts.finite(m),
        mean_rewards=gap * (np.arange(2) == table[0][:, None]),
        noise=noise_model(noise, variance=variance),
        policies=Finite(table, n_actions=2),
    )

"""The paper's hard instance, with rewards on its own scale and with Bernoulli rewards."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pacbandits.options import About
from pacbandits.policies.finite import Finite
from pacbandits.problems.base import Problem
from pacbandits.problems.built_in import NoiseKind, Variance, built_in, noise_model
from pacbandits.problems.noise import Bernoulli
from pacbandits.records import Contexts

# The paper's hard instance.


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


# The paper's hard instance with Bernoulli rewards: noise on every action.


@built_in(
    "hard-coins",
    description="the paper's hard instance with coins: right actions are fair coins, wrong ones fall short of that",
)
def hard_coins(
    *,
    m: Annotated[int, About("contexts, and policies", least=2, most=10_000)] = 10,
    gap: Annotated[float, About("gap of a wrong action to a fair coin", above=0, most=0.5)] = 0.25,
) -> Problem:
    """m uniform contexts, two actions, and one policy that is right everywhere, as in `hard`, for rewards in [0, 1].

        π_i(j) = 1{i = j},   r(i, j) = 1/2 − gap · 1{j ≠ π_m(i)},   V(π_m) = 1/2,   V(π_i) = 1/2 − 2 gap/m

    In `hard` a wrong action is worth 0. With Bernoulli rewards that removes the noise too: a wrong action never pays,
    so no other policy ever looks better than the best one, and nothing is left to learn. Here all rewards are shifted
    by 1/2 − gap. The alternative in the proof of the bound for low-regret algorithms, a wrong action that is worth
    2 gap more, is then Bernoulli too, with mean 1/2 + gap. The best policy is the last row, so that ties, which go to
    the first, are never broken in its favour.
    """
    table = np.eye(m, dtype=np.int64)
    return Problem(
        name="hard-coins",
        description=(
            f"The paper's hard instance with coins: {m} equally likely contexts, two actions, and {m} policies of "
            f"which each plays action 1 on a context of its own; the last is right everywhere and earns 0.5, and a "
            f"wrong action earns {0.5 - gap:g}."
        ),
        population=Contexts.finite(m),
        mean_rewards=0.5 - gap * (np.arange(2) != table[-1][:, None]),
        noise=Bernoulli(),
        policies=Finite(table, n_actions=2),
    )

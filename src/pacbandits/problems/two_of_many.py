"""Many actions, of which two matter in each context."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pacbandits.options import About
from pacbandits.policies.finite import Finite
from pacbandits.problems.base import Problem
from pacbandits.problems.built_in import NoiseKind, Seed, Variance, built_in, check_entries, distinct_rows, noise_model
from pacbandits.records import Contexts

# Ranges:
BETTER_MEANS = (0.66, 0.70)  # of the better action of a context's pair
PAIR_LEADS = (0.02, 0.08)  # of its advantage over the other of the pair
OUTSIDE_MEANS = (0.30, 0.36)  # of the actions outside the pair


@built_in(
    "two-of-many",
    description="many actions, but good policies differ only between two of them in each context",
)
def two_of_many(
    *,
    actions: Annotated[int, About("actions", least=3)] = 20,
    policies: Annotated[int, About("policies, all distinct", least=2)] = 500,
    contexts: Annotated[int, About("contexts", least=2)] = 50,
    good: Annotated[float, About("share of the policies that are good (at least two are)", least=0, most=1)] = 0.5,
    seed: Seed = 0,
    noise: NoiseKind = "bernoulli",
    variance: Variance = 0.25,
) -> Problem:
    """Each context has a pair of good actions; good policies play one of the pair, the rest anything.

    The best policy plays the better action of every pair. The other good policies choose by a fair coin and
    are worse by about 0.025; policies that play any action are worse by about 0.3. Good policies differ
    on two actions of each context alone, so a design that plays those needs almost A/2 times fewer samples than
    a randomised trial, which is the most any design can save.
    """
    check_entries(policies=policies, contexts=contexts)
    check_entries(contexts=contexts, actions=actions)
    rng = np.random.default_rng(seed)
    rows = np.arange(contexts)
    pairs = rng.random((contexts, actions)).argsort(axis=1)[:, :2]
    means = rng.uniform(*OUTSIDE_MEANS, size=(contexts, actions))
    means[rows, pairs[:, 0]] = rng.uniform(*BETTER_MEANS, size=contexts)
    means[rows, pairs[:, 1]] = means[rows, pairs[:, 0]] - rng.uniform(*PAIR_LEADS, size=contexts)
    n_good = min(policies, max(2, round(good * policies)))
    table = distinct_rows(
        lambda count: pairs[rows, rng.integers(2, size=(count, contexts))],
        count=n_good,
        choices=2,
        besides=pairs[None, :, 0],
    )
    table = distinct_rows(
        lambda count: rng.integers(actions, size=(count, contexts)),
        count=policies,
        choices=actions,
        besides=table,
    )
    return Problem(
        name="two-of-many",
        description=(
            f"{policies} policies on {contexts} contexts and {actions} actions; {n_good} good ones play one "
            "of two good actions in each context and differ only between those, the rest play any action."
        ),
        population=Contexts.finite(contexts),
        mean_rewards=means,
        noise=noise_model(noise, variance=variance),
        policies=Finite(rng.permutation(table), n_actions=actions),
    )

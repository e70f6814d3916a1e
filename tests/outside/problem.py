"""A problem from outside the package: coupons for the young, letters for the old."""

from __future__ import annotations

from typing import Annotated

import numpy as np

import pacbandits as pb


@pb.built_in("coupons", description="one of three messages, which the young and the old like differently")
def coupons(
    *,
    people: Annotated[int, pb.About("how many people there are", least=2)] = 60,
    lift: Annotated[float, pb.About("how much more the right message earns", above=0, most=0.5)] = 0.4,
) -> pb.Problem:
    """The right message earns 0.3 + lift, the wrong one 0.3, no message 0.2."""
    age = np.linspace(18, 90, people)
    means = np.stack([np.full(people, 0.2), 0.3 + lift * (age <= 50), 0.3 + lift * (age > 50)], axis=1)
    population = pb.Contexts.of(age[:, None], names=["age"], ids=np.arange(people))
    return pb.Problem(
        name="coupons",
        description=f"{people} people of 18 to 90, three messages.",
        population=population,
        mean_rewards=means,
        noise=pb.Bernoulli(),
        policies=pb.Trees.learn(population, n_actions=3, depth=1, bins=8),
    )

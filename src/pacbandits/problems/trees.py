"""Contexts with features, and the class of small decision trees on them."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.errors import InputError
from pacbandits.options import About
from pacbandits.policies.trees import Trees
from pacbandits.problems.base import Problem
from pacbandits.problems.built_in import NoiseKind, Seed, Variance, built_in, check_entries, noise_model
from pacbandits.problems.people import people, ranks
from pacbandits.records import Contexts

BEST_MEAN = 0.66  # reward of a region's best action, before the smooth part
COMPETITIVE_LOSSES = (0.01, 0.05)  # range of how much worse a region's other competitive actions are
POOR_MEANS = (0.24, 0.40)  # range of the rewards of the other actions
SMOOTH_AMPLITUDE = 0.03  # of the part that varies smoothly with the features, which no small tree can fit


@built_in(
    "trees",
    description="contexts with features, a few competitive actions in each region, small decision trees",
)
def trees(
    *,
    actions: Annotated[int, About("actions", least=2)] = 8,
    features: Annotated[int, About("features; the fourth is categorical", least=1)] = 6,
    contexts: Annotated[int, About("contexts in the population", least=2)] = 2000,
    bins: Annotated[int, About("bins a numeric feature is cut into", least=2, most=256)] = 16,
    depth: Annotated[int, About("depth of the trees", least=0, most=2)] = 2,
    competitive: Annotated[int, About("actions of each region that come close to its best", least=2)] = 3,
    seed: Seed = 0,
    noise: NoiseKind = "bernoulli",
    variance: Variance = 0.25,
) -> Problem:
    """Four regions cut out by a tree of depth 2, each with its own competitive actions, plus a smooth part.

        r(c, a) = base(region(c), a) + SMOOTH_AMPLITUDE · sin(2π(⟨u_a, x(c)⟩ + s_a))

    x(c) are the ranks of the features. Competitive actions of a region have a base within 0.05 of its best, the
    others lie far below. The smooth part keeps every small tree below the best action of each context.
    """
    if competitive > actions:
        raise InputError(f"competitive must be at most the number of actions, got {competitive} of {actions}")
    check_entries(contexts=contexts, actions=actions)
    check_entries(contexts=contexts, features=features)
    rng = np.random.default_rng(seed)
    population = people(contexts, n_features=features, rng=rng)
    x = ranks(population)
    base = np.stack([_base(actions, competitive, rng) for _ in range(4)])
    means = base[_regions(population, x, rng)] + SMOOTH_AMPLITUDE * _smooth(x, actions, rng)
    return Problem(
        name="trees",
        description=(
            f"{contexts} contexts with {features} feature{'s' * (features > 1)} and {actions} actions, "
            f"of which {competitive} compete in each of four regions; decision trees of depth {depth} do not "
            "reach the best action of every context."
        ),
        population=population,
        mean_rewards=means,
        noise=noise_model(noise, variance=variance),
        policies=Trees.learn(population, n_actions=actions, depth=depth, bins=bins),
    )


def _base(actions: int, competitive: int, rng: np.random.Generator) -> FloatArray:
    """Return the mean rewards (A,) of one region before the smooth part."""
    base = rng.uniform(*POOR_MEANS, size=actions)
    chosen = rng.permutation(actions)[:competitive]
    base[chosen] = BEST_MEAN - rng.uniform(*COMPETITIVE_LOSSES, size=competitive)
    base[chosen[0]] = BEST_MEAN
    return base


def _regions(population: Contexts, x: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return the region (n,) of each context: one cut, and one on either side of it, near the medians of features."""
    numeric = [j for j, labels in enumerate(population.categories) if labels is None]
    order = rng.permutation(numeric)
    root, low, high = (int(order[i % len(order)]) for i in range(3))
    cuts = rng.uniform(0.35, 0.65, size=3)
    if low == root:  # a single feature: cut each side in its middle
        cuts[1], cuts[2] = cuts[0] / 2, (1 + cuts[0]) / 2
    right: BoolArray = x[:, root] >= cuts[0]
    above_low: BoolArray = x[:, low] >= cuts[1]
    above_high: BoolArray = x[:, high] >= cuts[2]
    return 2 * right.astype(np.int64) + np.where(right, above_high, above_low).astype(np.int64)


def _smooth(x: FloatArray, actions: int, rng: np.random.Generator) -> FloatArray:
    """Return a wave (n, A) in [−1, 1] over the ranks x (n, d), with a direction and a phase per action."""
    directions = rng.standard_normal((x.shape[1], actions))
    directions /= np.linalg.norm(directions, axis=0)
    return np.sin(2 * np.pi * (x @ directions + rng.random(actions)))

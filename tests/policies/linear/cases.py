"""Contexts for linear policies, and what every parameter of a small grid is worth, tried one by one."""

from __future__ import annotations

import itertools

import numpy as np

from pacbandits.policies import LinearPolicy
from pacbandits.records import Contexts


def grid(dimension: int, levels: int) -> np.ndarray:
    return np.array(list(itertools.product(range(-levels, levels + 1), repeat=dimension)))


def with_phi(phi: np.ndarray) -> Contexts:
    return Contexts.of(np.empty((len(phi), 0)), phi=phi)


def draw_people(rng: np.random.Generator, n: int, numbers: int, labels: int = 0) -> Contexts:
    """Contexts of a few standard normal features, and one category if `labels`."""
    columns = [rng.normal(size=n) for _ in range(numbers)]
    categories: list[tuple[str, ...] | None] = [None] * numbers
    if labels:
        columns.append(rng.integers(0, labels, n).astype(float))
        categories.append(tuple("abcdef"[:labels]))
    return Contexts.of(np.column_stack(columns), categories=categories)


def brute_values(phi: np.ndarray, parameters: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The value of every parameter; scores of actions that agree to 9 digits are ties, and go to the first."""
    actions = np.array([np.round(phi @ theta, 9).argmax(axis=1) for theta in parameters])
    return scores[np.arange(len(scores)), actions].sum(axis=1)


def value(policy: LinearPolicy, contexts: Contexts, scores: np.ndarray) -> float:
    return float(scores[np.arange(len(scores)), policy(contexts)].sum())


def plain_actions(phi: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Added up one coordinate after the other, in Python's arithmetic."""
    out = []
    for row in phi.tolist():
        sums = []
        for features in row:
            total = 0.0
            for x, t in zip(features, theta.tolist(), strict=True):
                total += x * t
            sums.append(total)
        out.append(sums.index(max(sums)))
    return np.array(out)

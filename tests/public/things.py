"""Small things to call with: people of two ages, a problem, a log of it and a certificate."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import pacbandits as pb


def people(n: int = 12) -> pb.Contexts:
    """Contexts of one feature, numbered."""
    return pb.Contexts.of(np.arange(float(n))[:, None], names=["age"], ids=np.arange(n))


@cache
def stumps() -> pb.Trees:
    return pb.Trees.learn(people(), n_actions=2, depth=1, bins=4)


@cache
def problem() -> pb.Problem:
    """Two actions, of which one suits the young and the other the old."""
    means = np.stack([np.linspace(0.1, 0.9, 12), np.linspace(0.9, 0.1, 12)], axis=1)
    return pb.Problem("ages", "Two actions.", people(), means, pb.Bernoulli(), stumps())


@cache
def policy() -> Any:
    return stumps().argmax(people(), np.zeros((12, 2)))


def sampler() -> pb.Design:
    return pb.Design.uniform(policy())


@cache
def log() -> pb.Log:
    return problem().interact(sampler(), samples=400, rng=np.random.default_rng(0))


@cache
def certificate() -> pb.Certificate:
    return pb.certify(log(), stumps(), epsilon=0.3, delta=0.1).certificate


@cache
def linear_problem() -> pb.Problem:
    return pb.load_problem("linear:dimension=2,actions=3,contexts=20")


@cache
def linear_run() -> pb.Run:
    return pb.run(linear_problem(), algorithm="linear-rage", epsilon=0.3, delta=0.1, rng=1)


def scores() -> Any:
    return np.arange(24.0).reshape(12, 2)


class Mine(pb.Trial):
    """A trial of one's own."""

    def explore(self, state: Any, *, progress: Any = None) -> Any:
        raise NotImplementedError


def shares_of(contexts: pb.Contexts) -> Any:
    """Mean rewards, or variances, of two actions."""
    return np.tile([0.6, 0.7], (len(contexts), 1))

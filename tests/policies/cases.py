"""Policy classes to put to the test: small exact ones with all that they can do, and every one that is on offer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from pacbandits.policies import Bins, Finite, Learned, Linear, PolicyClass, Trees, Trivial
from pacbandits.policies.constraints import without
from pacbandits.policies.registry import SPECS, load_policies
from pacbandits.records import Contexts
from tests.policies.brute import all_actions

LABELS = ("north", "east", "south")


@dataclass(frozen=True)
class Case:
    """A class with 3 actions.

    policies: the class.
    contexts: what it acts on.
    unseen: contexts like these that it has not seen.
    """

    policies: PolicyClass
    contexts: Contexts
    unseen: Contexts


@dataclass(frozen=True)
class ExactCase(Case):
    """A class whose policies are few enough to be listed by brute force.

    policies: the class.
    behaviours (k, n): the actions of all its policies on the contexts, each once.
    """

    policies: PolicyClass
    behaviours: np.ndarray


def finite() -> ExactCase:
    table = np.random.default_rng(0).integers(0, 3, (20, 6))
    contexts = Contexts.finite(6)
    return ExactCase(Finite(table, n_actions=3), contexts, contexts.take([5, 0, 0, 3]), np.unique(table, axis=0))


def trivial() -> ExactCase:
    behaviours = np.array(list(itertools.product(range(3), repeat=5)))
    contexts = Contexts.finite(5)
    return ExactCase(Trivial(5, 3), contexts, contexts.take([4, 4, 1]), behaviours)


def trees(depth: int, *, mixed: bool) -> ExactCase:
    rng = np.random.default_rng(1)

    def draw(n: int) -> Contexts:
        features = np.column_stack([rng.normal(50, 15, n), rng.integers(0, 3, n) if mixed else rng.normal(size=n)])
        return Contexts.of(features, names=["age", "place"], categories=[None, LABELS if mixed else None])

    contexts = draw(14)
    policies = Trees(Bins.learn(contexts, bins=4), n_actions=3, depth=depth)
    behaviours = all_actions(policies.bins, contexts, n_actions=3, depth=depth)
    return ExactCase(policies, contexts, draw(9), behaviours)


def linear(what: str) -> ExactCase:
    rng = np.random.default_rng(2)

    def draw(n: int) -> Contexts:
        if what == "phi":
            return Contexts.of(np.empty((n, 0)), phi=rng.normal(size=(n, 3, 2)))
        if what == "category":
            return Contexts.of(rng.integers(0, 3, (n, 1)), names=["place"], categories=[LABELS])
        return Contexts.of(rng.normal(50, 15, (n, 1)), names=["age"])

    contexts = draw(14)
    levels = {"phi": 3, "category": 1, "number": 2}[what]
    policies = Linear.learn(contexts, n_actions=3, levels=levels)
    assert policies.has_frontier
    phi = policies.map(contexts)
    grid = itertools.product(range(-levels, levels + 1), repeat=phi.shape[2])
    # Rounded, as ties in exact arithmetic are to be ties.
    behaviours = {tuple(np.round(phi @ np.array(theta), 9).argmax(axis=1)) for theta in grid}
    return ExactCase(policies, contexts, draw(9), np.array(sorted(behaviours)))


EXACT: dict[str, Callable[[], ExactCase]] = {
    "finite": finite,
    "trivial": trivial,
    **{f"linear in {what}": lambda w=what: linear(w) for what in ("phi", "category", "number")},
    **{
        f"trees of depth {depth}, {'mixed' if mixed else 'numbers'}": lambda d=depth, m=mixed: trees(d, mixed=m)
        for depth in range(3)
        for mixed in (False, True)
    },
}


def people(n: int, seed: int, *, known: int | None = None) -> Contexts:
    """Contexts of numbers and labels, the first of them (all, if it is not said how many) known by an id."""
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(50, 15, n), rng.integers(0, 3, n)])
    ids = np.arange(n) % (n if known is None else known)
    return Contexts.of(features, names=["age", "place"], categories=[None, LABELS], ids=ids)


def offered(spec: str) -> Case:
    """A class by its name."""
    contexts = people(12, 3)
    return Case(load_policies(spec, contexts, n_actions=3), contexts, people(7, 4, known=12))


def narrower(name: str) -> Case:
    """A class by its name, from which the second action has been withdrawn."""
    contexts = people(12, 3)
    table = np.random.default_rng(0).choice([0, 1, 2], (40, 12), p=[0.49, 0.02, 0.49])
    whole = Finite(table, n_actions=3) if name == "finite" else load_policies(name, contexts, n_actions=3)
    return Case(without(whole, [1]), contexts, people(7, 4, known=12))


def learned() -> Case:
    estimator = DecisionTreeClassifier(max_depth=2)
    policies = Learned(estimator, n_actions=3, reduction="classification", log_size=10.0)
    return Case(policies, people(40, 3), people(9, 4))


NARROWED = (
    "finite",
    "trivial",
    "trees:bins=4",
    "trees:depth=3,bins=4",
    "trees:bins=4,costs=0/0.5/1,budget=1",
    "trees:bins=4,never=1:place=east;2:place=west,fallback=0",
)
# Whatever is registered comes with its default options; some classes are of another kind with others.
OFFERED: dict[str, Callable[[], Case]] = {
    **{spec: lambda s=spec: offered(s) for spec in (*SPECS, "trees:depth=3,bins=4", "linear:oracle=search")},
    # Restricted so that every action may still be taken everywhere.
    "trees with large leaves": lambda: offered("trees:bins=4,leaf=0.2"),
    "trees with a budget": lambda: offered("trees:bins=4,costs=0/0.5/1,budget=1"),
    "trees with a bar": lambda: offered("trees:bins=4,never=2:place=west,fallback=0"),
    "linear:oracle=milp": lambda: offered("linear:levels=1,oracle=milp"),
    "learned": learned,
    **{f"{name}, one action withdrawn": lambda n=name: narrower(n) for name in NARROWED},
}
CASES: dict[str, Callable[[], Case]] = {**EXACT, **OFFERED}

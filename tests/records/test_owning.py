"""Records own what they hold: whoever changes an array or a list after handing it over changes no record."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from tests.algorithms.cases import image
from tests.public.things import people, policy, stumps

import pacbandits as pb


def given():
    """Arrays and lists by the name of the argument, new each time."""
    return {
        "features": np.arange(6.0).reshape(3, 2),
        "names": ["age", "place"],
        "categories": [None, ["a", "b", "c", "d", "e", "f"]],
        "ids": np.arange(3),
        "weights": np.full(3, 1 / 3),
        "phi": np.ones((3, 2, 2)),
    }


def log_columns():
    return {
        "actions": np.zeros(12, dtype=np.int64),
        "rewards": np.ones(12),
        "propensities": np.full((12, 2), 0.5),
        "rounds": np.zeros(12, dtype=np.int64),
        "repeats": np.ones(12, dtype=np.int64),
        "remarks": ["as logged"],
    }


def contexts_as_they_are():
    parts = given() | {"phi": None}
    return parts, pb.Contexts(**parts)


MAKERS = {
    "Contexts": contexts_as_they_are,
    "Contexts.of": lambda: (parts := given(), pb.Contexts.of(**parts)),
    "Log": lambda: (parts := log_columns(), pb.Log(people(), **parts)),
    "Log.of": lambda: (parts := log_columns(), pb.Log.of(people(), **parts)),
    "Finite": lambda: (
        parts := {"table": np.zeros((2, 3), dtype=np.uint8), "names": ["a", "b"]},
        pb.Finite(**parts, n_actions=2),
    ),
    "Design": lambda: (parts := {"support": [policy()], "weights": np.ones(1)}, pb.Design(**parts, reference=policy())),
    "Gaussian": lambda: (parts := {"variance": np.ones((2, 2))}, pb.Gaussian(**parts)),
    "Crossed": lambda: (parts := {"table": np.eye(2), "encoders": []}, pb.Crossed(**parts)),
    "DesignTask": lambda: (
        parts := {"gaps": np.ones((12, 2)), "noise": np.ones((12, 2))},
        pb.DesignTask(stumps(), people(), reference=policy(), scale=pb.Clipped(0.1), **parts),
    ),
    "Problem": lambda: (
        parts := {"mean_rewards": np.full((12, 2), 0.5)},
        pb.Problem("ages", "Two.", people(), noise=pb.Bernoulli(), policies=stumps(), **parts),
    ),
    "Plan": lambda: (parts := {"details": {"price": 1.0}}, pb.Plan(1, 0.1, pb.Design.uniform(policy()), 5, **parts)),
}


def held(record):
    """All that a record holds, as plain values."""
    if hasattr(record, "__dataclass_fields__"):
        return {field.name: image(getattr(record, field.name)) for field in fields(record)}
    return {name: image(value) for name, value in vars(record).items()}


def spoil(value):
    """Change what can be changed."""
    if isinstance(value, np.ndarray):
        value[...] = 7
    elif isinstance(value, list):
        for part in value:
            spoil(part)
        value[:] = ["spoilt"]
    elif isinstance(value, dict):
        value["price"] = "spoilt"


@pytest.mark.parametrize("name", MAKERS)
def test_what_was_handed_over_may_be_changed(name):
    parts, record = MAKERS[name]()
    before = held(record)
    for value in parts.values():
        spoil(value)
    assert held(record) == before

"""Calls that make policy classes, and what these are made from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.tree import DecisionTreeClassifier

import pacbandits as pb
from tests.public.calls import Call
from tests.public.things import people, policy, scores, stumps

NO_COUNT: tuple[object, ...] = (0, -1)

CLASS_CALLS: dict[str, Callable[[], Call]] = {
    "Finite": lambda: Call(
        pb.Finite,
        {"table": [[0, 1], [1, 0]], "n_actions": 2, "names": ["one", "two"]},
        {"table": "array", "n_actions": "whole", "names": "list"},
        optional=("names",),
        beyond={"n_actions": NO_COUNT},
        called={"table": "policy_actions"},
    ),
    "Trivial": lambda: Call(
        pb.Trivial,
        {"n_contexts": 2, "n_actions": 2, "resolution": 16},
        dict.fromkeys(("n_contexts", "n_actions", "resolution"), "whole"),
        beyond=dict.fromkeys(("n_contexts", "n_actions", "resolution"), NO_COUNT),
    ),
    "Trees": lambda: Call(
        pb.Trees,
        {"bins": stumps().bins, "n_actions": 2, "depth": 1},
        {"bins": "record", "n_actions": "whole", "depth": "whole", "limits": "record", "leaf": "record"},
        optional=("limits", "leaf"),
        beyond={"n_actions": NO_COUNT, "depth": (-1, 3)},
    ),
    "Trees.learn": lambda: Call(
        pb.Trees.learn,
        {"contexts": people(), "n_actions": 2, "depth": 1, "bins": 4, "smallest_leaf": 0.1},
        {"contexts": "record", **dict.fromkeys(("n_actions", "depth", "bins"), "whole"), "smallest_leaf": "number"},
        beyond={"n_actions": NO_COUNT, "depth": (-1, 3), "bins": (1, 257), "smallest_leaf": (-0.1, 1.5)},
    ),
    "within_budget": lambda: Call(
        pb.within_budget,
        {"policies": stumps(), "contexts": people(), "costs": [0, 1], "budget": 0.5},
        {"policies": "record", "contexts": "record", "costs": "array", "budget": "number"},
        beyond={"costs": ([0], [0, 1, 2]), "budget": (-1,)},
        called={"budget": "budget|costs -1 or less"},
    ),
    "Restrictions": lambda: Call(
        pb.Restrictions,
        {"smallest_leaf": 0.1, "max_treated": 0.3, "never": ["email: age <= 25"], "control": "none"},
        {
            **dict.fromkeys(("smallest_leaf", "max_cost", "max_treated"), "number"),
            **{"cost": "mapping", "never": "list", "control": "text"},
        },
        optional=("max_cost", "max_treated"),
        beyond={"smallest_leaf": (-0.1, 1.5), "max_treated": (1.5,), "cost": ({"email": "dear"},)},
    ),
    "Trees.argmax": lambda: Call(
        stumps().argmax, {"contexts": people(), "scores": scores()}, {"contexts": "record", "scores": "array"}
    ),
    "DeepTrees": lambda: Call(
        pb.DeepTrees,
        {"bins": stumps().bins, "n_actions": 2, "depth": 3},
        {"bins": "record", "n_actions": "whole", "depth": "whole", "effort": "record"},
        optional=("effort",),
        beyond={"n_actions": NO_COUNT, "depth": (2, 9)},
    ),
    "DeepTrees.learn": lambda: Call(
        pb.DeepTrees.learn,
        {"contexts": people(), "n_actions": 2, "depth": 3, "bins": 4},
        {"contexts": "record", **dict.fromkeys(("n_actions", "depth", "bins"), "whole"), "effort": "record"},
        optional=("effort",),
        beyond={"n_actions": NO_COUNT, "depth": (2, 9), "bins": (1, 257)},
    ),
    "Linear": lambda: Call(
        pb.Linear.of,
        {"map": pb.Crossed.blocks(people(), n_actions=2), "levels": 2, "oracle": "list"},
        {"map": "record", "levels": "whole", "oracle": "text"},
        optional=("levels",),
        beyond={"levels": (0, 1001), "oracle": ("luck",)},
    ),
    "Linear.learn": lambda: Call(
        pb.Linear.learn,
        {"contexts": people(), "n_actions": 2, "levels": 2, "oracle": "list"},
        {"contexts": "record", "n_actions": "whole", "levels": "whole", "oracle": "text"},
        optional=("levels",),
        beyond={"n_actions": NO_COUNT, "levels": (0, 1001), "oracle": ("luck",)},
    ),
    "Learned": lambda: Call(
        pb.Learned,
        {"estimator": DecisionTreeClassifier(), "n_actions": 2, "reduction": "classification", "log_size": 3.0},
        {"estimator": "record", "n_actions": "whole", "reduction": "text", "log_size": "number", "encode": "function"},
        optional=("encode", "log_size"),
        beyond={"n_actions": NO_COUNT, "log_size": (0, -1), "reduction": ("luck", ())},
    ),
    "Crossed": lambda: Call(
        pb.Crossed,
        {"encoders": (), "table": np.eye(2)},
        {"encoders": "list", "table": "array"},
        beyond={"table": (np.empty((0, 0)),)},
        called={"table": "features of actions"},
    ),
    "Crossed.blocks": lambda: Call(
        pb.Crossed.blocks,
        {"contexts": people(), "n_actions": 2, "relative": False},
        {"contexts": "record", "n_actions": "whole", "relative": "flag"},
        beyond={"n_actions": NO_COUNT},
    ),
    "Crossed.shared": lambda: Call(
        pb.Crossed.shared,
        {"contexts": people(), "action_features": np.eye(2)},
        {"contexts": "record", "action_features": "array"},
    ),
    "Given": lambda: Call(
        pb.Given,
        {"n_actions": 2, "dimension": 3},
        {"n_actions": "whole", "dimension": "whole"},
        beyond={"n_actions": NO_COUNT, "dimension": NO_COUNT},
    ),
    "Given.learn": lambda: Call(
        pb.Given.learn,
        {"contexts": pb.Contexts.finite(2, phi=np.ones((2, 2, 1))), "n_actions": 2},
        {"contexts": "record", "n_actions": "whole"},
        beyond={"n_actions": NO_COUNT},
    ),
    "load_policies": lambda: Call(
        pb.load_policies,
        {"spec": "trees:depth=1", "contexts": people(), "n_actions": 2},
        {"spec": "text", "contexts": "record", "n_actions": "whole"},
        beyond={"n_actions": NO_COUNT, "spec": ("trees:depth=x", "luck")},
        called={"spec": "spec|depth|unknown policy class"},
    ),
    "policy_class": lambda: Call(
        pb.policy_class, {"name": "halves", "description": "Halves."}, {"name": "text", "description": "text"}
    ),
    "policy_from_json": lambda: Call(
        pb.policy_from_json,
        {"value": policy().to_json()},
        {"value": "record"},
        called={"value": "policy in JSON"},
    ),
    "About": lambda: Call(
        pb.About,
        {"meaning": "a number", "least": 1, "most": 3},
        {"meaning": "text", **dict.fromkeys(("least", "above", "most"), "number")},
        optional=("least", "above", "most"),
    ),
}

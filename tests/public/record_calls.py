"""Calls that make records: contexts, logs, designs, problems, and files of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.tree import DecisionTreeRegressor

import pacbandits as pb
from tests.public.calls import Call
from tests.public.things import certificate, log, people, policy, problem, sampler, stumps

COLUMNS = ("actions", "rewards", "propensities", "rounds", "repeats")


def trial_state() -> object:
    return pb.Uniform(0.3, 0.1).start(stumps(), people())


def mixture() -> pb.Mixture:
    """Between two actions for everybody."""
    n = len(people())
    either = (np.tile([1.0, 0.0], (n, 1)), np.tile([0.0, 1.0], (n, 1)))
    return pb.Mixture(tuple(stumps().argmax(people(), scores) for scores in either), (0.25, 0.75))


def _written_people() -> str:
    people().write("people.parquet")
    return "people.parquet"


RECORD_CALLS: dict[str, Callable[[], Call]] = {
    "Contexts": lambda: Call(
        pb.Contexts,
        {
            "features": np.eye(2),
            "names": ("a", "b"),
            "categories": (None, None),
            "ids": np.arange(2),
            "weights": np.full(2, 0.5),
        },
        {
            **dict.fromkeys(("features", "ids", "weights"), "array"),
            **dict.fromkeys(("names", "categories"), "list"),
            "phi": "record",
        },
        optional=("ids", "phi"),
        called={"categories": "categor"},
    ),
    "Contexts.of": lambda: Call(
        pb.Contexts.of,
        {
            "features": np.eye(2),
            "names": ("a", "b"),
            "ids": np.arange(2),
            "weights": np.full(2, 0.5),
            "phi": np.ones((2, 3, 1)),
        },
        {
            **dict.fromkeys(("features", "ids", "weights", "phi"), "array"),
            **dict.fromkeys(("names", "categories"), "list"),
        },
        optional=("ids", "weights", "phi", "names", "categories"),
        called={"categories": "categor"},
    ),
    "Contexts.finite": lambda: Call(
        pb.Contexts.finite,
        {"n": 2, "weights": np.full(2, 0.5), "phi": np.ones((2, 3, 1))},
        {"n": "whole", "weights": "array", "phi": "array"},
        optional=("weights", "phi"),
        beyond={"n": (0, -1)},
    ),
    "Contexts.take": lambda: Call(people().take, {"rows": [1, 2]}, {"rows": "array"}, beyond={"rows": ([-1], [12])}),
    "Mixture": lambda: Call(
        pb.Mixture,
        {"policies": mixture().policies, "weights": (0.25, 0.75)},
        {"policies": "list", "weights": "array"},
        beyond={"weights": ((0.5, 0.6), (0.0, 1.0), (-0.5, 1.5), (1.0,))},
        called={"policies": "polic|mixture", "weights": "weights"},
    ),
    "Mixture.propensities": lambda: Call(mixture().propensities, {"contexts": people()}, {"contexts": "record"}),
    "Mixture.play": lambda: Call(
        mixture().play,
        {"contexts": people(), "draws": np.full(12, 0.5)},
        {"contexts": "record", "draws": "array"},
        beyond={"draws": (np.ones(12), np.full(12, -0.1), [0.5])},
    ),
    "Mixture.draw": lambda: Call(
        mixture().draw, {"contexts": people(), "rng": np.random.default_rng(0)}, {"contexts": "record", "rng": "record"}
    ),
    "Log": lambda: Call(
        pb.Log,
        {name: getattr(log(), name) for name in ("contexts", *COLUMNS)},
        {"contexts": "record", **dict.fromkeys((*COLUMNS, "least"), "array"), "remarks": "list"},
        optional=("least",),
        called={"least": "minimum propensit"},
    ),
    "Log.of": lambda: Call(
        pb.Log.of,
        {name: getattr(log(), name) for name in ("contexts", *COLUMNS)},
        {"contexts": "record", **dict.fromkeys(COLUMNS, "array"), "remarks": "list"},
        optional=("rounds", "repeats"),
    ),
    "Log.of_played": lambda: Call(
        pb.Log.of_played,
        {
            **{name: getattr(log(), name) for name in ("contexts", "actions", "rewards", "rounds", "repeats")},
            "played": log().played_propensities,
            "least": np.zeros((len(log()), 2)),
        },
        {
            "contexts": "record",
            **dict.fromkeys(("actions", "rewards", "played", "least", "rounds", "repeats"), "array"),
            "remarks": "list",
        },
        optional=("rounds", "repeats"),
        called={"least": "minimum propensit"},
    ),
    "Design": lambda: Call(
        pb.Design,
        {
            "support": (policy(),),
            "weights": [1.0],
            "reference": policy(),
            "floor": 0.1,
            "smoothing": 0.1,
            "even_share": 0.1,
        },
        {
            "support": "list",
            "weights": "array",
            "reference": "record",
            "floor": "number",
            "smoothing": "number",
            "even_share": "number",
        },
        beyond={"floor": (-0.1, 0.6), "smoothing": (-1,), "even_share": (-0.1, 1.1), "weights": ([-1.0], [1.0, 2.0])},
    ),
    "Design.uniform": lambda: Call(pb.Design.uniform, {"reference": policy()}, {"reference": "record"}),
    "RewardBounds": lambda: Call(
        pb.RewardBounds,
        {"second_moment": 2.0, "in_unit": False, "proxy": 1.0},
        {"second_moment": "number", "in_unit": "flag", "proxy": "number"},
        optional=("proxy",),
        beyond={"second_moment": (0.5,), "proxy": (-1,)},
    ),
    "Gaussian": lambda: Call(pb.Gaussian, {"variance": 1.0}, {"variance": "array"}, beyond={"variance": (-1.0, [1.0])}),
    "PerAction": lambda: Call(
        pb.PerAction,
        {"estimator": DecisionTreeRegressor(), "least": 3},
        {"estimator": "record", "least": "whole"},
        beyond={"least": (0, -1)},
    ),
    "Problem": lambda: Call(
        pb.Problem,
        {
            "name": "ages",
            "description": "Two actions.",
            "population": people(),
            "mean_rewards": problem().mean_rewards,
            "noise": pb.Bernoulli(),
            "policies": stumps(),
            "most_drawn_entries": 100,
        },
        {
            **dict.fromkeys(("name", "description"), "text"),
            **dict.fromkeys(("population", "noise", "policies", "realizable"), "record"),
            "mean_rewards": "array",
            "most_drawn_entries": "whole",
        },
        optional=("realizable",),
        beyond={"most_drawn_entries": (0,)},
    ),
    "Problem.contexts": lambda: Call(
        problem().contexts,
        {"n": 3, "rng": np.random.default_rng(0)},
        {"n": "whole", "rng": "generator"},
        beyond={"n": (0, -1)},
    ),
    "Problem.rewards": lambda: Call(
        problem().rewards,
        {"contexts": people(), "actions": [0] * 12, "rng": np.random.default_rng(0)},
        {"contexts": "record", "actions": "array", "rng": "generator"},
    ),
    "Problem.interact": lambda: Call(
        problem().interact,
        {"sampler": sampler(), "samples": 3, "rng": np.random.default_rng(0), "round_number": 0},
        {"sampler": "record", "samples": "whole", "rng": "generator", "round_number": "whole"},
        beyond={"samples": (0, -1), "round_number": (-1,)},
    ),
    "Problem.value": lambda: Call(problem().value, {"policy": policy()}, {"policy": "record"}),
    "built_in": lambda: Call(
        pb.built_in, {"name": "doors", "description": "Doors."}, {"name": "text", "description": "text"}
    ),
    "load_problem": lambda: Call(
        pb.load_problem,
        {"spec": "trivial:contexts=2,actions=2"},
        {"spec": "text"},
        beyond={"spec": ("luck", "trivial:actions=x")},
        called={"spec": "spec|unknown problem|actions"},
    ),
    "save_problem": lambda: Call(
        pb.save_problem,
        {"problem": pb.load_problem("hard:m=3"), "path": "doors.npz"},
        {"problem": "record", "path": "path"},
    ),
    "save_certificate": lambda: Call(
        pb.save_certificate,
        {"path": "proof.json", "certificate": certificate(), "policies": stumps()},
        {"path": "path", "certificate": "record", "policies": "record", "record": "mapping"},
        optional=("record",),
        beyond={"record": ({}, {"records": 3}, {"records": 0, "look": 1}, {"records": 3, "look": 1, "more": 1})},
    ),
    "load_certificate": lambda: Call(
        pb.load_certificate, {"path": "proof.json"}, {"path": "path", "policies": "record"}, optional=("policies",)
    ),
    "save_state": lambda: Call(
        pb.save_state,
        {"path": "kept", "algorithm": pb.Uniform(0.3, 0.1), "state": trial_state()},
        {"path": "path", "algorithm": "record", "state": "record"},
    ),
    "load_state": lambda: Call(
        pb.load_state,
        {"path": "kept"},
        {"path": "path", **dict.fromkeys(("model", "policies", "algorithm"), "record")},
        optional=("model", "policies", "algorithm"),
    ),
    "open_contexts": lambda: Call(
        pb.open_contexts,
        {"paths": _written_people(), "features": ["age"]},
        {"paths": "path", "features": "list"},
        optional=("features",),
        called={"paths": "paths|file", "features": "features|column"},
    ),
    "read_log": lambda: Call(
        pb.read_log,
        {"path": "clicks.csv", "n_actions": 2, "least_propensity": 0.1, "reward_range": (0, 1)},
        {
            "path": "path",
            "n_actions": "whole",
            "least_propensity": "number",
            "reward_range": "span",
            "position": "whole",
            "format": "text",
        },
        optional=("n_actions", "least_propensity", "reward_range", "position", "format"),
        beyond={"n_actions": (0, -1), "least_propensity": (-0.1, 1.5), "format": ("xlsx",)},
        called={"least_propensity": "least.propensity", "reward_range": "range"},
    ),
    "from_open_bandit": lambda: Call(
        pb.from_open_bandit,
        {
            "feedback": {
                "action": [0, 1],
                "reward": [0, 1],
                "pscore": [0.5, 0.5],
                "context": np.eye(2),
                "n_actions": 2,
            },
            "n_actions": 2,
            "least_propensity": 0.1,
            "reward_range": (0, 1),
        },
        {
            "feedback": "mapping",
            "n_actions": "whole",
            "least_propensity": "number",
            "reward_range": "span",
            "position": "whole",
        },
        optional=("n_actions", "least_propensity", "reward_range", "position"),
        beyond={"n_actions": (0, -1), "least_propensity": (-0.1, 1.5)},
        called={"n_actions": "actions", "least_propensity": "least.propensity", "reward_range": "range"},
    ),
    "to_sql": lambda: Call(
        pb.to_sql,
        {"policy": mixture(), "actions": ["one", "two"], "draw": "u"},
        {"policy": "record", "actions": "list", "draw": "text", "dates": "list", "dialect": "text"},
        optional=("actions", "dialect"),
        beyond={"actions": (["one"], []), "draw": ("", " ", "random()"), "dialect": ("", "oracle")},
    ),
    "to_python": lambda: Call(
        pb.to_python,
        {"policy": mixture(), "actions": ["one", "two"], "name": "pick"},
        {"policy": "record", "actions": "list", "name": "text", "dates": "list"},
        optional=("actions",),
        beyond={"actions": (["one"],), "name": ("", "a b", "def", "x\n")},
    ),
    "to_rules": lambda: Call(
        pb.to_rules,
        {"policy": policy(), "actions": ["one", "two"]},
        {"policy": "record", "actions": "list", "dates": "list"},
        optional=("actions",),
        beyond={"actions": (["one"],)},
    ),
    "to_javascript": lambda: Call(
        pb.to_javascript,
        {"policy": mixture(), "actions": ["one", "two"]},
        {"policy": "record", "actions": "list", "dates": "list"},
        optional=("actions",),
        beyond={"actions": (["one"],)},
    ),
    "to_json_logic": lambda: Call(
        pb.to_json_logic,
        {"policy": mixture(), "actions": ["one", "two"], "draw": "u"},
        {"policy": "record", "actions": "list", "draw": "text"},
        optional=("actions",),
        beyond={"actions": (["one"],), "draw": ("", " ", "a.b", "$u")},
    ),
    "to_flags": lambda: Call(
        pb.to_flags,
        {"policy": mixture(), "actions": ["one", "two"], "draw": "u"},
        {"policy": "record", "actions": "list", "draw": "text", "name": "text", "system": "text"},
        optional=("actions",),
        beyond={"actions": (["one"],), "draw": ("", "a.b"), "name": ("",), "system": ("", "launchdarkly")},
    ),
}

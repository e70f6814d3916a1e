"""Calls that compute: runs, certificates, measurements, algorithms and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

import pacbandits as pb
from pacbandits.paper.coda import CodaPaper
from pacbandits.paper.coda_common import CodaCommon
from pacbandits.paper.coda_oracle import CodaOracle
from pacbandits.paper.rage import Rage
from pacbandits.paper.rage_features import RageFeatures, RageFreeFeatures
from pacbandits.paper.rage_free import RageFree
from pacbandits.rivals.per_context import PerContext
from pacbandits.rivals.planner_sampler import PlannerSampler
from pacbandits.simulation import repeat
from tests.public.calls import ASKED, ASKED_BEYOND, ASKED_KINDS, Call
from tests.public.things import (
    Mine,
    certificate,
    linear_problem,
    linear_run,
    log,
    people,
    policy,
    problem,
    sampler,
    scores,
    shares_of,
    stumps,
)


def trial(kind: type[pb.Trial], **own: tuple[float, tuple[object, ...]]) -> Call:
    """A trial; own: options of its own, each with a good value and those beyond its range."""
    return Call(
        kind,
        {**ASKED, "rewards": pb.RewardBounds(), "pilot": 30, "growth": 0.5}
        | {name: one[0] for name, one in own.items()},
        {**ASKED_KINDS, "rewards": "record", "pilot": "whole", "growth": "number", "model": "record"}
        | dict.fromkeys(own, "number"),
        optional=("pilot", "model"),
        beyond={**ASKED_BEYOND, "epsilon": (-0.1, 1e-200), "pilot": (0, -1), "growth": (0, -1)}
        | {name: one[1] for name, one in own.items()},
    )


def of_the_paper(kind: Callable[..., object]) -> Call:
    """An algorithm of the paper's."""
    shares = {"scale": 0.5, "floor": 0.1, "precision": 0.1}
    return Call(
        kind,
        {**ASKED, **shares, "sampled_contexts": 30, "rewards": pb.RewardBounds()},
        {**ASKED_KINDS, **dict.fromkeys(shares, "number"), "rewards": "record", "sampled_contexts": "whole"},
        optional=("sampled_contexts",),
        beyond={
            **ASKED_BEYOND,
            "epsilon": (-0.1, 1e-200),
            "scale": (0, -1),
            "floor": (-0.1, 1),
            "precision": (0, -1),
            "sampled_contexts": (0, -1),
        },
    )


def by_name(*, epsilon: object, delta: object) -> object:
    """An algorithm made by its name."""
    return pb.make_algorithm("coda", pb.Setting(stumps(), epsilon, delta, pb.RewardBounds()))


def _learnt(**options: Any) -> Any:
    """The actions that an estimator predicts for the rows it was fitted on."""
    rows = pd.DataFrame({"age": log().contexts.features[:, 0]})
    return pb.PolicyLearner(**options).fit(rows, log().actions, log().rewards).predict(rows)


ALGORITHM_CALLS: dict[str, Callable[[], Call]] = {
    "run": lambda: Call(
        pb.run,
        {"problem": problem(), "algorithm": "uniform", **ASKED, "rng": 0, "max_samples": 200, "offline_contexts": 5},
        {
            **ASKED_KINDS,
            **dict.fromkeys(("problem", "policies"), "record"),
            **dict.fromkeys(("max_samples", "offline_contexts"), "whole"),
            "algorithm": "text",
            "rng": "rng",
            "state": "path",
            "watch": "function",
        },
        optional=("max_samples", "offline_contexts", "policies", "state", "watch"),
        beyond={**ASKED_BEYOND, "max_samples": (0, -1), "offline_contexts": (0, -1)},
    ),
    "repeat": lambda: Call(
        repeat,
        {"problem": problem(), "algorithm": "uniform", **ASKED, "runs": 1, "seed": 0, "max_samples": 100},
        {**ASKED_KINDS, **dict.fromkeys(("problem", "engine"), "record"), "runs": "whole", "seed": "whole"},
        optional=("engine",),
        beyond={"runs": (0, -1), "seed": (-1,)},
    ),
    "certify": lambda: Call(
        pb.certify,
        {"log": log(), "policies": stumps(), **ASKED, "ordered": False},
        {**ASKED_KINDS, **dict.fromkeys(("log", "model", "restrictions"), "record"), "ordered": "flag"},
        optional=("model", "epsilon", "restrictions"),
        beyond={**ASKED_BEYOND, "epsilon": (-0.1, 1e-200)},
        called={"log": "log|file"},
    ),
    "PolicyLearner": lambda: Call(
        _learnt,
        {"policies": stumps(), **ASKED, "split": "uniform", "clip": False, "ordered": False, "shuffle": False}
        | {"single": True, "random_state": 0},
        {**ASKED_KINDS, "split": "text", "reward_range": "span", "random_state": "whole"}
        | dict.fromkeys(("ordered", "shuffle", "single", "clip"), "flag"),
        optional=("epsilon", "reward_range"),
        beyond={**ASKED_BEYOND, "epsilon": (-0.1, 1e-200), "random_state": (-1,), "split": ({}, {"0": 0.5})},
        called={"random_state": "seed|random_state"},
    ),
    "evaluate": lambda: Call(
        pb.evaluate,
        {"log": log(), "policy": certificate().policy, "delta": 0.1, "ordered": False},
        {**dict.fromkeys(("log", "policy", "model"), "record"), "delta": "number", "ordered": "flag"},
        optional=("model",),
        beyond={"delta": ASKED_BEYOND["delta"]},
        called={"log": "log|file"},
    ),
    "measure_worth": lambda: Call(
        pb.measure_worth,
        {"certificate": certificate(), "log": log(), "delta": 0.1},
        {**dict.fromkeys(("certificate", "log", "model"), "record"), "delta": "number"},
        optional=("model", "delta"),
        beyond={"delta": ASKED_BEYOND["delta"]},
    ),
    "learn_class": lambda: Call(
        pb.learn_class,
        {"spec": "trivial", "log": log(), "ordered": False},
        {"spec": "text", "log": "record", "contexts": "record", "ordered": "flag"},
        optional=("contexts",),
    ),
    "certify_asymptotically": lambda: Call(
        pb.certify_asymptotically,
        {"log": log(), "policies": stumps(), **ASKED, "rng": 0, "draws": 10, "ordered": False},
        {
            **ASKED_KINDS,
            **dict.fromkeys(("log", "model"), "record"),
            "ordered": "flag",
            "rng": "rng",
            "draws": "whole",
            "progress": "function",
        },
        optional=("model", "progress"),
        beyond={**ASKED_BEYOND, "epsilon": (0, -0.1, 1e-200), "draws": (0, -1, 9)},
    ),
    "measure": lambda: Call(
        pb.measure,
        {"truth": problem(), "policies": stumps(), **ASKED, "tolerance": 0.1},
        {**ASKED_KINDS, "truth": "record", "policies": "record", "tolerance": "number", "progress": "function"},
        optional=("tolerance", "progress"),
        beyond={**ASKED_BEYOND, "tolerance": (0, -1)},
    ),
    "measure_realizable": lambda: Call(
        pb.measure_realizable,
        {
            "truth": linear_problem(),
            "features": linear_problem().realizable.features,
            "policies": linear_problem().policies,
            **ASKED,
            "tolerance": 0.5,
        },
        {
            **ASKED_KINDS,
            "truth": "record",
            "policies": "record",
            "tolerance": "number",
            "features": "array",
            "progress": "function",
        },
        optional=("policies", "progress"),
        beyond={**ASKED_BEYOND, "tolerance": (0, -1)},
    ),
    "verify": lambda: Call(
        pb.verify,
        {"certificate": certificate(), "log": log(), "policies": stumps()},
        dict.fromkeys(("certificate", "log", "policies", "model"), "record"),
        optional=("model",),
    ),
    "verify_realizable": lambda: Call(
        pb.verify_realizable,
        {
            "certificate": linear_run().certificate,
            "log": linear_run().log,
            "contexts": linear_run().contexts,
            "policies": linear_problem().policies,
        },
        dict.fromkeys(("certificate", "log", "policies", "contexts"), "record"),
    ),
    "outlook": lambda: Call(
        pb.outlook,
        {"certificate": certificate(), "log": log(), "policies": stumps()},
        dict.fromkeys(("certificate", "log", "policies", "model"), "record"),
        optional=("model",),
    ),
    "Coda": lambda: trial(pb.Coda, floor=(0.1, (-0.1, 1.1)), precision=(0.1, (0, -1))),
    "Uniform": lambda: trial(pb.Uniform),
    "Trial": lambda: trial(Mine),
    "LinearRage": lambda: Call(
        pb.LinearRage,
        {**ASKED, "pilot": 30, "sampled_contexts": 5, "rewards": pb.RewardBounds()},
        {**ASKED_KINDS, "pilot": "whole", "sampled_contexts": "whole", "rewards": "record"},
        optional=("pilot", "sampled_contexts"),
        beyond={**ASKED_BEYOND, "epsilon": (0, 1e-10), "pilot": (0, -1), "sampled_contexts": (0, -1)},
    ),
    "PlannerSampler": lambda: Call(
        PlannerSampler,
        {**ASKED, "regularisation": 0.5, "sampled_contexts": 5, "rewards": pb.RewardBounds()},
        {**ASKED_KINDS, "regularisation": "number", "sampled_contexts": "whole", "rewards": "record"},
        optional=("sampled_contexts",),
        beyond={**ASKED_BEYOND, "epsilon": (0, 1e-10), "regularisation": (0, -1), "sampled_contexts": (0, -1)},
    ),
    "PerContext": lambda: Call(
        PerContext,
        {**ASKED, "rule": "lucb", "growth": 0.5, "sampled_contexts": 5, "rewards": pb.RewardBounds()},
        {**ASKED_KINDS, "rule": "text", "growth": "number", "sampled_contexts": "whole", "rewards": "record"},
        optional=("sampled_contexts",),
        beyond={**ASKED_BEYOND, "rule": ("luck",), "growth": (0, -1), "sampled_contexts": (0, -1)},
    ),
    "Rage": lambda: of_the_paper(Rage),
    "RageFree": lambda: of_the_paper(RageFree),
    "RageFeatures": lambda: of_the_paper(RageFeatures),
    "RageFreeFeatures": lambda: of_the_paper(RageFreeFeatures),
    "CodaCommon": lambda: of_the_paper(CodaCommon),
    "CodaPaper": lambda: of_the_paper(CodaPaper),
    "CodaOracle": lambda: of_the_paper(CodaOracle),
    "CodaOracle by FW-GD": lambda: Call(
        CodaOracle,
        {**ASKED, "smoothing": 0.1, "solver": "fw-gd"},
        {"smoothing": "number", "solver": "text"},
        beyond={"smoothing": (0, -1), "solver": ("simplex",)},
    ),
    "CodaPaper by FW-GD": lambda: Call(
        CodaPaper,
        {**ASKED, "smoothing": 0.1, "solver": "fw-gd"},
        {"smoothing": "number", "solver": "text"},
        beyond={"smoothing": (0, -1), "solver": ("simplex",)},
    ),
    "Setting": lambda: Call(
        pb.Setting,
        {"policies": stumps(), **ASKED, "rewards": pb.RewardBounds(), "sampled_contexts": 3},
        {"policies": "record", "rewards": "record", "sampled_contexts": "whole"},
        optional=("sampled_contexts",),
        beyond={"sampled_contexts": (0, -1)},
    ),
    "make_algorithm": lambda: Call(
        pb.make_algorithm,
        {"spec": "coda", "setting": pb.Setting(stumps(), 0.3, 0.1, pb.RewardBounds()), "options": {"floor": 0.1}},
        {"spec": "text", "setting": "record", "options": "mapping"},
        optional=("options",),
        beyond={"spec": ("luck", "coda:floor=x")},
        called={"spec": "spec|unknown algorithm|floor"},
    ),
    "make_algorithm for a setting": lambda: Call(by_name, ASKED, ASKED_KINDS, beyond=ASKED_BEYOND),
    "Plan": lambda: Call(
        pb.Plan,
        {"round_number": 1, "epsilon": 0.1, "sampler": sampler(), "samples": 3, "oracle_calls": 0},
        {
            **dict.fromkeys(("round_number", "samples", "oracle_calls"), "whole"),
            "epsilon": "number",
            "sampler": "record",
        },
        beyond={"round_number": (0,), "samples": (0, -1), "oracle_calls": (-1,)},
    ),
    "State": lambda: Call(
        pb.State,
        {
            "policies": stumps(),
            "contexts": people(),
            "policy": policy(),
            "round_number": 0,
            "samples": 0,
            "finished": False,
        },
        {
            **dict.fromkeys(("policies", "contexts", "policy"), "record"),
            **dict.fromkeys(("round_number", "samples"), "whole"),
            "finished": "flag",
        },
    ),
    "Exploration": lambda: Call(
        pb.Exploration,
        {"sampler": sampler(), "price": 1.0, "since": 3, "oracle_calls": 0},
        {"sampler": "record", "price": "number", "since": "whole", "oracle_calls": "whole"},
        beyond={"price": (0, -1), "since": (-1,), "oracle_calls": (-1,)},
    ),
    "DesignTask": lambda: Call(
        pb.DesignTask,
        {
            "policies": stumps(),
            "contexts": people(),
            "reference": policy(),
            "gaps": scores(),
            "scale": pb.Clipped(0.1),
            "floor": 0.1,
            "noise": scores(),
        },
        {
            **dict.fromkeys(("policies", "contexts", "reference", "scale"), "record"),
            **dict.fromkeys(("gaps", "noise"), "array"),
            "floor": "number",
        },
        optional=("noise",),
        beyond={"floor": (-0.1, 0.6)},
        called={"gaps": "gap scores"},
    ),
    "solve_design": lambda: Call(
        pb.solve_design,
        {
            "task": pb.DesignTask(stumps(), people(), reference=policy(), gaps=scores(), scale=pb.Clipped(0.1)),
            "tolerance": 0.1,
        },
        {"task": "record", "tolerance": "number", "progress": "function"},
        optional=("tolerance", "progress"),
        beyond={"tolerance": (0, -1)},
    ),
    "LargeTask": lambda: Call(
        pb.LargeTask,
        {
            "policies": stumps(),
            "source": people(),
            "means": shares_of,
            "scale": pb.Clipped(0.1),
            "reference": policy(),
            "noise": shares_of,
            "floor": 0.1,
        },
        {
            **dict.fromkeys(("policies", "source", "scale", "reference"), "record"),
            **dict.fromkeys(("means", "noise"), "function"),
            "floor": "number",
        },
        optional=("reference", "noise"),
        beyond={"floor": (-0.1, 0.6)},
    ),
    "solve_large_design": lambda: Call(
        pb.solve_large_design,
        {
            "task": pb.LargeTask(stumps(), people(), means=shares_of, scale=pb.Clipped(0.1)),
            "engine": "threads",
            "tolerance": 0.1,
            "sample_rows": 100,
            "max_passes": 3,
        },
        {
            **dict.fromkeys(("task", "engine"), "record"),
            **dict.fromkeys(("sample_rows", "max_passes"), "whole"),
            "tolerance": "number",
            "progress": "function",
        },
        optional=("progress",),
        beyond={"tolerance": (0, -1), "engine": ("gpu",), "sample_rows": (0,), "max_passes": (1,)},
    ),
    "Clipped": lambda: Call(pb.Clipped, {"epsilon": 0.1}, {"epsilon": "number"}, beyond={"epsilon": (-0.1, 1e-200)}),
    "Shifted": lambda: Call(
        pb.Shifted,
        {"epsilon": 0.1, "slope": 0.5},
        {"epsilon": "number", "slope": "number"},
        beyond={"epsilon": (-0.1, 1e-200), "slope": (0, -1)},
    ),
}

"""Calls that plan a trial: what is supposed, who comes when, the plan and its file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pacbandits as pb
from pacbandits.problems.scenarios import Outcome
from tests.public.calls import Call
from tests.public.things import people, stumps

STATED = {"n_actions": 2, "policies": stumps(), "epsilon": 0.2, "delta": 0.1, "baseline": 0.3, "simulated": False}


GAIN_STATED = {"n_actions": 2, "policies": stumps(), "improve_on": 0, "baseline": 0.3, "simulated": False}


@cache
def made() -> pb.StudyPlan:
    """A plan without simulation."""
    return pb.plan(people(), **STATED)


@cache
def gain_made() -> pb.GainPlan:
    """A plan to prove a gain, without simulation."""
    return pb.plan(people(), **GAIN_STATED)


PLANNING_CALLS: dict[str, Callable[[], Call]] = {
    "plan": lambda: Call(
        pb.plan,
        {
            "contexts": people(),
            **STATED,
            "variation": 0.3,
            "effect": 0.4,
            "share": 0.3,
            "control": 0,
            "budget": 3000,
            "seed": 1,
        },
        {
            "contexts": "record",
            **dict.fromkeys(("n_actions", "control", "budget", "seed"), "whole"),
            **dict.fromkeys(("epsilon", "delta", "baseline", "spread", "variation", "effect", "share"), "number"),
            "reward_range": "span",
            "simulated": "flag",
            "policies": "record",
            "traffic": "record",
            "limits": "record",
            "engine": "record",
            "scenarios": "list",
            "folder": "path",
            "progress": "function",
            "watch": "function",
        },
        optional=(
            *("n_actions", "budget", "epsilon", "spread", "effect", "share", "traffic", "limits", "scenarios"),
            *("folder", "engine", "progress", "watch"),
        ),
        beyond={
            "n_actions": (1, 3),
            "epsilon": (0, 1, 2),
            "delta": (0, 1),
            "baseline": (0, 1, -0.1),
            "spread": (0, 0.5),
            "variation": (-0.1, 0.95),
            "effect": (0, 0.8),
            "share": (0, 1),
            "control": (-1, 2),
            "budget": (0,),
            "seed": (-1,),
            "scenarios": ((),),
            "traffic": ("many", "3/fortnight", "1/week"),
        },
        called={"contexts": "data frame", "n_actions": "actions", "policies": "polic", "reward_range": "range"},
    ),
    "plan (for a gain)": lambda: Call(
        pb.plan,
        {"contexts": people(), **GAIN_STATED, "power": 0.8, "effect": 0.4},
        {"improve_on": "whole", "power": "number", "effect": "number"},
        optional=("effect", "improve_on"),
        beyond={"improve_on": (-1, 2), "power": (0, 1), "effect": (0, 0.8)},
        called={"improve_on": "improve_on"},
    ),
    "GainPlan.chance": lambda: Call(gain_made().chance, {"rows": 300.0}, {"rows": "number"}, beyond={"rows": (-1,)}),
    "GainPlan.rows_for": lambda: Call(
        gain_made().rows_for, {"share": 0.8}, {"share": "number"}, beyond={"share": (0, 1)}
    ),
    "StudyPlan.affordable": lambda: Call(
        made().affordable, {"budget": 3000}, {"budget": "whole", "progress": "function"}, optional=("progress",)
    ),
    "StudyPlan.chance": lambda: Call(made().chance, {"people": 3000.0}, {"people": "number"}, beyond={"people": (-1,)}),
    "Assumptions": lambda: Call(
        pb.Assumptions,
        {
            "people": people(),
            "policies": stumps(),
            "epsilon": 0.2,
            "delta": 0.1,
            "outcome": Outcome(0.3),
            "scenarios": (pb.Scenario("winner", 0.4),),
            "control": 0,
            "seed": 1,
            "power": 0.8,
        },
        {
            **dict.fromkeys(("people", "policies", "outcome", "traffic"), "record"),
            **dict.fromkeys(("epsilon", "delta", "power"), "number"),
            **dict.fromkeys(("control", "seed"), "whole"),
            "scenarios": "list",
        },
        optional=("traffic", "power"),
        beyond={
            "epsilon": (0, 1),
            "delta": (0, 1),
            "power": (0, 1),
            "control": (-1, 2),
            "seed": (-1,),
            "scenarios": ((),),
        },
        called={"scenarios": "scenario", "people": "people|contexts"},
    ),
    "Scenario": lambda: Call(
        pb.Scenario,
        {"kind": "segments", "effect": 0.1, "share": 0.3, "matter": 2, "weight": 1.0, "name": "young people"},
        {
            **dict.fromkeys(("kind", "name"), "text"),
            **dict.fromkeys(("effect", "share", "weight"), "number"),
            "matter": "whole",
        },
        beyond={"kind": ("some",), "effect": (0, -0.1), "share": (0, 1), "weight": (0, -1), "matter": (0,)},
        called={"kind": "scenario|kind"},
    ),
    "Limits": lambda: Call(
        pb.Limits,
        {"trials": 5, "minutes": 1.0, "precision": 0.1, "processes": 1},
        {
            **dict.fromkeys(("trials", "processes"), "whole"),
            **dict.fromkeys(("minutes", "precision"), "number"),
        },
        optional=("processes",),
        beyond={"trials": (0,), "minutes": (0, -1), "precision": (0,), "processes": (0,)},
    ),
    "Traffic": lambda: Call(
        pb.Traffic,
        {"people": 4000, "period": "week", "batched": True, "delay": 1},
        {**dict.fromkeys(("people", "delay"), "whole"), "period": "text", "batched": "flag"},
        beyond={"people": (0, -1), "delay": (-1,), "period": ("fortnight",)},
        called={"people": "traffic|people", "period": "traffic|period"},
    ),
    "Traffic.read": lambda: Call(
        pb.Traffic.read,
        {"words": "4000/week", "batched": True, "delay": 1},
        {"words": "text", "batched": "flag", "delay": "whole"},
        beyond={"words": ("many", "0/week", "10/fortnight"), "delay": (-1,)},
        called={"words": "traffic"},
    ),
    "save_plan": lambda: Call(
        pb.save_plan,
        {"path": "plan.json", "plan": made()},
        {"path": "path", "plan": "record"},
        beyond={"path": ("plan.txt", "nowhere/plan.json")},
        called={"path": "path|plan|JSON|name"},
    ),
    "load_gain_plan": lambda: Call(
        pb.load_gain_plan,
        {"path": "gain.json"},
        {"path": "path"},
        beyond={"path": ("nowhere.json", "clicks.csv")},
        called={"path": "path|nowhere|clicks|plan"},
    ),
    "load_plan": lambda: Call(
        pb.load_plan,
        {"path": "plan.json"},
        {"path": "path"},
        beyond={"path": ("nowhere.json", "clicks.csv")},
        called={"path": "path|nowhere|clicks|plan"},
    ),
}

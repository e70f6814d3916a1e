"""Calls that run an experiment: its protocol, people who come, what is reported, what is exported."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

import pacbandits as pb
from tests.experiment.cases import protocol
from tests.public.calls import Call
from tests.public.things import people

_NUMBERS = count()


@cache
def made() -> pb.Experiment:
    """An experiment with one person, whose reward is in."""
    experiment = pb.Experiment.create(Path(mkdtemp()) / "e.db", protocol())
    experiment.record(experiment.assign({"age": 25, "country": "DE"}, unit="u").id, reward=1.0)
    return experiment


def first() -> str:
    return made().assign({"age": 25, "country": "DE"}, unit="u").id


@cache
def exported() -> Path:
    path = Path(mkdtemp()) / "x.parquet"
    made().export(path)
    return path


def create(database: object, protocol: object) -> object:
    """In a new file each time, unless something else is asked for."""
    return pb.Experiment.create(f"{database}{next(_NUMBERS)}" if database == "e.db" else database, protocol)


EXPERIMENT_CALLS: dict[str, Callable[[], Call]] = {
    "Experiment.create": lambda: Call(
        create,
        {"database": Path(mkdtemp()) / "e.db", "protocol": protocol(name=f"n{next(_NUMBERS)}")},
        {"protocol": "record"},
    ),
    "Experiment.open": lambda: Call(
        pb.Experiment.open,
        {"database": str(made().database.engine.url.database), "name": "checkout"},
        {"database": "path", "name": "text"},
        beyond={"name": ("chekout",)},
        called={"name": "experiment"},
    ),
    "Experiment.assign": lambda: Call(
        made().assign,
        {"context": {"age": 25, "country": "DE"}, "unit": "u"},
        {"unit": "text"},
        optional=("unit",),
        beyond={"unit": ("", "x" * 300), "context": ({}, {"age": "x", "country": "DE"}, 3, "DE", [3])},
        called={"context": "age|context|data frame|mapping"},
    ),
    "Experiment.record": lambda: Call(
        made().record,
        {"assignment": first(), "reward": 1.0},
        {"reward": "number", "assignment": "text"},
        beyond={"reward": (2.0, -1.0, 0.5), "assignment": ("", "0-00")},
    ),
    "Experiment.pause": lambda: Call(
        lambda reason: made().pause(reason) or made().resume("it was a test"),
        {"reason": "it is a test"},
        {"reason": "text"},
        beyond={"reason": ("", " ", "x" * 2000)},
        called={"reason": "reason|why"},
    ),
    "Experiment.withdraw": lambda: Call(
        pb.Experiment.create(Path(mkdtemp()) / "e.db", protocol()).withdraw,
        {"action": "discount", "reason": "sold out"},
        {"action": "text", "reason": "text"},
        beyond={"action": ("discont",), "reason": ("",)},
        called={"reason": "reason|why"},
    ),
    "Experiment.export": lambda: Call(
        made().export,
        {"target": Path(mkdtemp()) / "x.parquet"},
        {"look": "whole", "target": "path", "reveal_seed": "flag"},
        optional=("look",),
        beyond={"look": (-1, 99)},
        called={"target": "path|file", "look": "look|analysis"},
    ),
    "ExperimentProtocol": lambda: Call(
        pb.ExperimentProtocol,
        {
            "name": "checkout",
            "contexts": people(),
            "actions": ("a", "b"),
            "policies": "trees:depth=1",
            "epsilon": 0.2,
            "delta": 0.1,
            "seed": 3,
            "holdout": 0.1,
            "round_hours": 24.0,
        },
        {
            **dict.fromkeys(("name", "policies", "algorithm", "visits", "unknown_labels", "standard"), "text"),
            **dict.fromkeys(("epsilon", "delta", "holdout", "round_hours"), "number"),
            **dict.fromkeys(("late", "guardrail", "plan", "contexts"), "record"),
            "actions": "list",
            "seed": "whole",
            "reward_range": "span",
        },
        optional=("round_hours", "guardrail", "plan", "seed", "standard"),
        beyond={
            "name": ("", "a b", "x" * 100),
            "actions": ((), ("a",), ("a", "a")),
            "epsilon": (0, 1, 2),
            "delta": (0, 1),
            "holdout": (-0.1, 1),
            "round_hours": (0, -1),
            "visits": ("sticki",),
            "standard": ("c",),
            "algorithm": ("codda", "rage"),
            "seed": (-1,),
        },
        called={
            "reward_range": "range",
            "policies": "polic|class",
            "unknown_labels": "label",
            "round_hours": "hours",
            "algorithm": "algorithm|rage",
        },
    ),
    "LateRule": lambda: Call(
        pb.LateRule,
        {"rule": "window", "window_seconds": 60.0, "missing": 0.0},
        {"rule": "text", "window_seconds": "number", "missing": "number"},
        optional=("missing",),
        beyond={"rule": ("windo",), "window_seconds": (0, -1)},
        called={"window_seconds": "window"},
    ),
    "GuardrailRule": lambda: Call(
        pb.GuardrailRule,
        {"name": "complaint", "most": 0.02, "false_alarms": 0.01},
        {"name": "text", "most": "number", "false_alarms": "number"},
        beyond={"name": ("",), "most": (-0.1, 1), "false_alarms": (0, 1)},
        called={"false_alarms": "false_alarms"},
    ),
    "audit": lambda: Call(
        pb.audit,
        {"record": pb.read_record(exported())},
        {"record": "record", "head": "text", **dict.fromkeys(("certificate", "contexts", "log"), "record")},
        optional=("certificate", "head", "contexts", "log"),
    ),
    "read_record": lambda: Call(pb.read_record, {"path": exported()}, {"path": "path"}),
    "read_protocol": lambda: Call(pb.read_protocol, {"path": _written()}, {"path": "path"}),
    "list_experiments": lambda: Call(
        pb.list_experiments, {"database": str(made().database.engine.url.database)}, {"database": "path"}
    ),
}


@cache
def _written() -> Path:
    folder = Path(mkdtemp())
    people().write(folder / "people.parquet")
    said = {"name": '"checkout"', "contexts": '"people.parquet"', "actions": '["a", "b"]', "epsilon": "0.2"}
    words = "".join(f"{name} = {value}\n" for name, value in said.items()) + 'policies = "trees:depth=1"\n'
    (folder / "checkout.toml").write_text(words)
    return folder / "checkout.toml"

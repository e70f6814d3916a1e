"""Read the protocol of an experiment from a TOML file:

name = "checkout"
contexts = "contexts.parquet"
actions = ["standard", "discount", "free shipping"]
policies = "trees:depth=2"
epsilon = 0.02

[late]
rule = "window"
window = "7 days"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pacbandits.checks import check_percentage, path_of
from pacbandits.errors import InputError, nearest, plain, spell_arguments
from pacbandits.experiment.protocol import (
    DEFAULT_ALGORITHM,
    ExperimentProtocol,
    GuardrailRule,
    LateRule,
    read_duration,
)
from pacbandits.experiment.webhooks import Webhook, read_webhooks
from pacbandits.logs import read_log
from pacbandits.logs.blocks import read_split
from pacbandits.planning import StudyPlan, load_plan
from pacbandits.planning.assumptions import Forecast
from pacbandits.planning.plan_files import two_numbers
from pacbandits.problems import load_problem
from pacbandits.problems.pilots import PilotEffects
from pacbandits.records import Contexts, parquet
from pacbandits.records.column_types import date_parts
from pacbandits.records.columns import is_temporal
from pacbandits.records.log_metadata import UNIT_RANGE
from pacbandits.records.metrics import read_guardrails, read_metrics
from pacbandits.records.text_files import naming, read_toml
from pacbandits.schema import flag, number, rate, text, texts, whole_number

Table = dict[str, Any]
Read = Callable[..., Any]


# The top-level keys other than tables, with their parsers.
KEYS: dict[str, Read] = {
    "name": text,
    "contexts": text,
    "plan": text,
    "problem": text,
    "features": texts,
    "actions": texts,
    "policies": text,
    "epsilon": rate,
    "delta": rate,
    "reward_range": two_numbers,
    "algorithm": text,
    "seed": whole_number,
    "draws": text,
    "visits": text,
    "unknown_labels": text,
    "standard": text,
    "control": text,
    "metrics": read_metrics,
    "guardrails": read_guardrails,
    "stop": text,
    "gain": rate,
    "pilot": text,
    "pilot_split": text,
    "holdout": rate,
    "rehearsal": flag,
}
LATE_KEYS: dict[str, Read] = {"rule": text, "window": read_duration, "missing": number}
ROUND_KEYS: dict[str, Read] = {"hours": number}
GUARDRAIL_KEYS: dict[str, Read] = {"name": text, "most": rate, "false_alarms": rate}
TABLES = {"late": LATE_KEYS, "rounds": ROUND_KEYS, "guardrail": GUARDRAIL_KEYS}
SOURCES = ("contexts", "plan", "problem")  # exactly one of them gives the contexts
NEEDED = ("name", "actions")  # always required; without a plan, these too:
NEEDED_WITHOUT_PLAN = ("policies", "epsilon")
EXAMPLES = {
    "name": 'name = "checkout"',
    "actions": 'actions = ["standard", "discount"]',
    "contexts": 'contexts = "contexts.parquet", a table of people as they come; or plan = "plan.json"',
    "policies": 'policies = "trees:depth=2"',
    "epsilon": "epsilon = 0.02, how near to the best is good enough, in the units of rewards",
    "most": "most = 0.02, the mean that it must not exceed",
}


def read_protocol(path: str | Path) -> ExperimentProtocol:
    """Read the protocol in a TOML file; see `read_protocol_with_remarks`."""
    return read_protocol_with_remarks(path)[0]


def read_protocol_with_remarks(path: str | Path) -> tuple[ExperimentProtocol, tuple[str, ...]]:
    """Read the protocol in a TOML file; return it with remarks on how its contexts were read.

    Raises:
        InputError: If the file cannot be read, or a field is unknown, invalid or missing; it names file and field.
    """
    source = path_of(path)
    with naming(source):
        given = _fields(read_toml(source))
        sources = [key for key in SOURCES if key in given]
        if len(sources) > 1:
            raise InputError(f"both '{sources[0]}' and '{sources[1]}' tell who comes; leave one out")
        planned = "plan" in given
        needed = () if planned else NEEDED_WITHOUT_PLAN if sources else ("contexts",)
        for key in (*NEEDED, *needed):
            if key not in given:
                raise InputError(f"'{key}' is missing; write {EXAMPLES[key]}")
        apart = (*SOURCES, "features", "pilot", "pilot_split", *TABLES)
        options = {key: value for key, value in given.items() if key not in apart}
        options |= _rules(given)
        if "pilot_split" in given and "pilot" not in given:
            raise InputError("'pilot_split' states the propensities of a pilot; name its log: pilot = \"pilot.csv\"")
        check_percentage(given.get("epsilon"), name="'epsilon'", reward_range=given.get("reward_range", UNIT_RANGE))
        if planned:
            return _with_pilot(_from_plan(source.parent / given["plan"], given, options), given, source.parent), ()
        if "problem" in given:
            made = ExperimentProtocol(contexts=load_problem(given["problem"]).population, **options)
            return _with_pilot(made, given, source.parent), ()
        contexts, dates, remarks = _read_contexts(source.parent / given["contexts"], given.get("features"))
        made = ExperimentProtocol(contexts=contexts, dates=dates, **options)
        return _with_pilot(made, given, source.parent), remarks


def _with_pilot(protocol: ExperimentProtocol, given: Table, folder: Path) -> ExperimentProtocol:
    """Return the protocol with the pilot that its file names, if it does."""
    if "pilot" not in given:
        return protocol
    reading: Table = {} if protocol.date_columns else {"features": protocol.contexts.names}
    if protocol.contexts.ids is not None:
        reading.pop("features", None)
    if "pilot_split" in given:
        reading["split"] = read_split(given["pilot_split"])
    if protocol.metrics:
        reading["metrics"] = protocol.metrics
    try:
        log, _ = read_log(folder / given["pilot"], reward_range=protocol.reward_range, **reading)
    except InputError as error:
        raise InputError(spell_arguments(str(error)).replace('split="', 'pilot_split = "')) from None
    return replace(protocol, pilot=log)


def read_protocol_webhooks(path: str | Path) -> tuple[Webhook, ...]:
    """Read the webhooks in a protocol's TOML file, which are no part of the protocol."""
    source = path_of(path)
    with naming(source):
        return read_webhooks(read_toml(source).get("webhooks", []), folder=source.parent)


def _fields(given: Table) -> Table:
    """Parse all fields to their types, including those of tables."""
    out: Table = {}
    for key, value in given.items():
        if key in TABLES:
            out[key] = _table(value, key)
        elif key == "webhooks":  # checked, and no part of the protocol
            read_webhooks(value, folder=Path())
        elif key in KEYS:
            out[key] = KEYS[key](value, name=f"'{key}'")
        else:
            raise InputError(
                f"'{plain(key)}' means nothing here{_where(key)}{nearest(key, (*KEYS, *TABLES, 'webhooks'))}"
            )
    return out


def _table(value: object, key: str) -> Table:
    """Parse the fields of one table, such as [late]."""
    known = TABLES[key]
    if not isinstance(value, dict):
        raise InputError(f"'{key}' is a table: write [{key}], and below it {next(iter(known))} = …")
    fields = cast(Table, value)
    for name in fields:
        if name not in known:
            lost = "; it belongs above the first [table]" if name in KEYS else ""
            raise InputError(f"[{key}] says '{plain(name)}', which means nothing there{lost}{nearest(name, known)}")
    return {name: known[name](one, name=f"'{name}' of [{key}]") for name, one in fields.items()}


def _where(key: str) -> str:
    """Return a hint at the table to which a misplaced top-level field belongs."""
    homes = [f"[{table}]" for table, known in TABLES.items() if key in known]
    return f"; it belongs below {' or '.join(homes)}" if homes else ""


def _rules(given: Table) -> Table:
    """Convert the tables to arguments of the protocol."""
    out: Table = {}
    if (late := given.get("late")) is not None:
        if "rule" not in late:
            raise InputError('\'rule\' of [late] is missing; write rule = "window" or rule = "worst case"')
        out["late"] = LateRule(late["rule"], late.get("window"), late.get("missing"))
    if (rounds := given.get("rounds")) is not None and "hours" in rounds:
        out["round_hours"] = rounds["hours"]
    if (guardrail := given.get("guardrail")) is not None:
        for key in ("name", "most"):
            if key not in guardrail:
                example = EXAMPLES["most"] if key == "most" else 'name = "complaint"'
                raise InputError(f"'{key}' of [guardrail] is missing; write {example}")
        out["guardrail"] = GuardrailRule(**guardrail)
    return out


def _keeping(name: str) -> str:
    """Return how a protocol keeps a column that looks like an identifier, in words."""
    return f"to keep it, list '{plain(name)}' among the features: features = [\"{plain(name)}\", …]"


def _read_contexts(path: Path, features: tuple[str, ...] | None) -> tuple[Contexts, tuple[str, ...], tuple[str, ...]]:
    """Read the contexts in a file; return them with their date columns and remarks on how they were read."""
    contexts, remarks = Contexts.read_with_remarks(path, features=features, remedy=_keeping)
    dates = tuple(
        name
        for name, column in parquet.read_table(path).columns.items()
        if is_temporal(column.type) and date_parts(contexts.names, (name,))
    )
    return contexts, dates, remarks


def _from_plan(path: Path, given: Table, options: Table) -> ExperimentProtocol:
    """Return the protocol of a planned experiment; raise InputError if a field contradicts the plan."""
    if "features" in given:
        raise InputError("'features' are those of the plan; leave them out, or make another plan")
    plan = load_plan(path)
    s = plan.supposed
    told: Table = {
        "epsilon": s.epsilon,
        "delta": s.delta,
        "reward_range": (s.outcome.low, s.outcome.high),
        "policies": s.policies if s.spec is None else s.spec,
    }
    for key, value in told.items():
        if key in given and given[key] != value:
            said = f"'{value}'" if isinstance(value, str) else plain(value)
            raise InputError(f"'{key}' is {plain(given[key])}, and the plan has {said}; leave it out, or plan again")
    names: tuple[str, ...] = given["actions"]
    if len(names) != s.n_actions:
        raise InputError(f"there are {len(names)} actions, and the plan has {s.n_actions}; name those of the plan")
    _check_pilot_names(plan, names)
    algorithm: str = options.get("algorithm", DEFAULT_ALGORITHM)
    usual: Table = {"plan": Forecast.of(plan, algorithm=algorithm.partition(":")[0])}
    if "control" not in options:
        usual["standard"] = names[s.control]
    return ExperimentProtocol(contexts=s.people, **(usual | options | told))


def _check_pilot_names(plan: StudyPlan, names: tuple[str, ...]) -> None:
    """Raise InputError if the plan's pilot has other action names, or another order: it would be another plan."""
    for one in plan.supposed.scenarios:
        known = one.log.action_names if isinstance(one, PilotEffects) else None
        if known is not None and known != names:
            raise InputError(f"the pilot of the plan has the actions {plain(', '.join(known))}, in this order")

"""An experiment from what a request says: as from a file, but with the contexts themselves."""

from __future__ import annotations

from typing import Any

from pacbandits.errors import InputError, nearest, plain
from pacbandits.experiment.database import Database
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import ExperimentProtocol
from pacbandits.experiment.rules import GuardrailRule, LateRule, read_duration
from pacbandits.logs.frames import contexts_of
from pacbandits.records import Contexts
from pacbandits.records.arrow import pa
from pacbandits.service.models import ExperimentAsk

Json = dict[str, Any]
_AS_THEY_ARE = ("name", "actions", "policies", "epsilon", "delta", "algorithm", "seed", "visits", "unknown_labels")
_AS_THEY_ARE_TOO = ("standard", "holdout")


def create_experiment(database: Database, asked: ExperimentAsk) -> Json:
    """Create what is asked for; its first seal."""
    protocol = protocol_of(asked)
    return Experiment.create(database, protocol).seal().to_json()


def protocol_of(asked: ExperimentAsk) -> ExperimentProtocol:
    """What is asked for as a protocol."""
    fields = {name: getattr(asked, name) for name in (*_AS_THEY_ARE, *_AS_THEY_ARE_TOO)}
    options: Json = {name: value for name, value in fields.items() if value is not None}
    if asked.reward_range is not None:
        options["reward_range"] = tuple(asked.reward_range)
    if asked.late is not None:
        window = None if asked.late.window is None else read_duration(asked.late.window, name="'window' of 'late'")
        options["late"] = LateRule(asked.late.rule, window, asked.late.missing)
    if asked.rounds is not None and asked.rounds.hours is not None:
        options["round_hours"] = asked.rounds.hours
    if asked.guardrail is not None:
        alarms = {} if asked.guardrail.false_alarms is None else {"false_alarms": asked.guardrail.false_alarms}
        options["guardrail"] = GuardrailRule(asked.guardrail.name, asked.guardrail.most, **alarms)
    return ExperimentProtocol(contexts=people_of(asked), **options)


def people_of(asked: ExperimentAsk) -> Contexts:
    """The contexts that a request holds."""
    names = list(dict.fromkeys(name for row in asked.contexts for name in row))
    if asked.features is not None:
        for name in asked.features:
            if name not in names:
                raise InputError(f"there is no column '{plain(name)}' in the contexts{nearest(name, names)}")
        names = list(dict.fromkeys(asked.features))
    columns = {name: _column(name, [row.get(name) for row in asked.contexts]) for name in names}
    return contexts_of(pa.table(columns))


def _column(name: str, values: list[Any]) -> Any:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise InputError(f"the column '{plain(name)}' of the contexts holds both text and numbers; take one") from None

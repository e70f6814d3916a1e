"""Models of the API's requests and responses, and the mapping from errors to HTTP responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, WithJsonSchema
from sqlalchemy.exc import SQLAlchemyError

from pacbandits.errors import (
    MAX_ERROR_CHARACTERS,
    InputError,
    close_to,
    count_of,
    nearest,
    one_line,
    plain,
    spell_arguments,
)
from pacbandits.experiment import protocol as rules
from pacbandits.experiment.assignment_records import Outcome
from pacbandits.experiment.database import (
    AlreadyThere,
    ClockSkew,
    Contradiction,
    NotCollecting,
    UnknownAssignment,
    UnknownExperiment,
)
from pacbandits.experiment.protocol import (
    NAME_PATTERN,
    ExperimentProtocol,
    LateRuleName,
    StopRule,
    UnknownLabels,
    Visits,
    check_experiment_name,
    read_duration,
)
from pacbandits.experiment.stored_rows import MAX_REASON_CHARACTERS, MAX_UNIT_CHARACTERS, check_reason, check_unit
from pacbandits.logs.readers import contexts_of
from pacbandits.records import Contexts
from pacbandits.records.columns import pa
from pacbandits.records.metrics import MAX_SEALED_COLUMNS
from pacbandits.records.text_files import MAX_COLUMNS
from pacbandits.schema import MAX_TEXT_CHARACTERS, MAX_WHOLE_NUMBER

# Requests, validated strictly: no coercion, and unknown fields are refused.


MAX_CONTEXT_ROWS = 1_000_000
MAX_WORDS_CHARACTERS = 1_000  # of a name or a spec; the protocol has a lower limit for some
MAX_LABEL_CHARACTERS, MAX_ORIGINS = 100, 20
SCOPES = ("assign", "read", "steer")  # of a key of an experiment; write, as before, is assign and read
SCOPE_PATTERN = r"^(assign|read|steer|write)( (assign|read|steer|write))*$"
ORIGIN_PATTERN = r"^https?://[A-Za-z0-9.\-\[\]:]+$"
VISIBLE, NO_NUL = r"^[^\x00-\x1f\x7f]*$", r"^[^\x00]*$"


def _text_schema(**more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", **more})


def _check_scope(given: str) -> str:
    """Return a key's scope; raise InputError if a word of it is none."""
    words = given.split()
    if not words or len(words) > len(SCOPES) + 1 or not set(words) <= {*SCOPES, "write"}:
        raise InputError(f"a scope is one or more of {', '.join(SCOPES)}, with blanks between them, got {plain(given)}")
    if "write" in words:
        words += ["assign", "read"]
    return " ".join(one for one in SCOPES if one in words)


def _check_duration(given: str) -> str:
    read_duration(given, name="it")
    return given


# An experiment's own functions check its limits, so that the service gives the same messages.
_UNIT_SCHEMA = _text_schema(minLength=1, maxLength=MAX_UNIT_CHARACTERS, pattern=r"^[\x20-\x7e]*$")
_WHY_SCHEMA = _text_schema(minLength=1, maxLength=MAX_REASON_CHARACTERS, pattern=NO_NUL)
Unit = Annotated[str, AfterValidator(check_unit), _UNIT_SCHEMA]
Name = Annotated[str, AfterValidator(check_experiment_name), _text_schema(pattern=NAME_PATTERN)]
Why = Annotated[str, AfterValidator(check_reason), _WHY_SCHEMA]
KeyScope = Annotated[str, AfterValidator(_check_scope), _text_schema(pattern=SCOPE_PATTERN)]
Lasting = Annotated[str, AfterValidator(_check_duration), _text_schema()]
Label = Annotated[str, StringConstraints(max_length=MAX_LABEL_CHARACTERS, pattern=VISIBLE)]
Origin = Annotated[str, StringConstraints(max_length=MAX_WORDS_CHARACTERS, pattern=ORIGIN_PATTERN)]
Words = Annotated[str, StringConstraints(max_length=MAX_WORDS_CHARACTERS, pattern=VISIBLE)]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS, pattern=NO_NUL)]
Whole = Annotated[int, Field(ge=-MAX_WHOLE_NUMBER, le=MAX_WHOLE_NUMBER)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Value = Annotated[Text | Whole | Number | bool | None, Field(union_mode="left_to_right")]
Context = Annotated[dict[Words, Value], Field(max_length=MAX_COLUMNS)]
MetricAsk = Words | Annotated[list[Words | Number], Field(min_length=1, max_length=5)]

ASSIGNMENT_EXAMPLE: dict[str, Any] = {"unit": "u-17", "context": {"age": 31, "country": "DE"}}
ANSWER_EXAMPLE: dict[str, Any] = {
    "id": "11-5d0c6d3bf0a1c5a3f2e1",
    "unit": "u-17",
    "action": "discount",
    "propensity": 0.6,
    "propensities": {"standard": 0.2, "discount": 0.6, "free shipping": 0.2},
    "round": 2,
    "new": True,
    "holdout": False,
    "seal": "6f0e…",
}


class Strict(BaseModel):
    """The base of all requests: exact types, and no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class AssignmentAsk(Strict):
    """A request to assign an action: a unit and its features."""

    model_config = ConfigDict(json_schema_extra={"examples": [ASSIGNMENT_EXAMPLE]})
    unit: Unit | None = Field(None, description="Who it is; without it, somebody who never comes back.")
    context: Context = Field(description="A value for each of the experiment's features.")


class AssignmentBatch(Strict):
    """A request for several assignments."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"assignments": [ASSIGNMENT_EXAMPLE, {"unit": "u-18", "context": {"age": 52, "country": "FR"}}]}
            ]
        }
    )
    assignments: list[AssignmentAsk] = Field(min_length=1)


class RewardAsk(Strict):
    """A report of an assignment's outcomes: its reward with its metrics, its guardrail outcome, or both."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"assignment": ANSWER_EXAMPLE["id"], "reward": 1}]})
    assignment: Text = Field(description="The id of the assignment.")
    reward: Number | None = Field(None, description="In the units of the experiment's reward range.")
    guardrail: Number | None = Field(None, description="The outcome of the guardrail, from 0 to 1.")
    metrics: dict[Words, Number] | None = Field(
        None,
        max_length=MAX_SEALED_COLUMNS,
        description="A value for each of the experiment's metrics, with the reward.",
    )


class RewardBatch(Strict):
    """Several reports: either all are stored, or none."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"rewards": [{"assignment": ANSWER_EXAMPLE["id"], "reward": 0.5}]}]}
    )
    rewards: list[RewardAsk] = Field(min_length=1)


class Reason(Strict):
    """The reason for a change, which the event log keeps."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the shop is closed for the holidays"}]})
    reason: Why = Field(description="For the record, which keeps it.")


class Withdrawal(Strict):
    """The withdrawal of an action: it is never played again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"action": "free shipping", "reason": "out of stock"}]})
    action: Words = Field(description="By its name.")
    reason: Why = Field(description="For the record, which keeps it.")


class Deletion(Strict):
    """The deletion of an experiment: of all its records and keys."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"confirm": "checkout"}]})
    confirm: Words = Field(description="The name of the experiment again.")


class KeyAsk(Strict):
    """A request for a new key of an experiment."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"scope": "assign", "label": "shop", "expires": "90 days"}]}
    )
    scope: KeyScope = Field(description="One or more of assign, read and steer, with blanks between them.")
    label: Label = Field("", description="A name for it: the event log names it by that.")
    expires: Lasting | None = Field(None, description="How long it is valid; without it, until it is withdrawn.")
    origins: list[Origin] = Field(
        default_factory=list[str],
        max_length=MAX_ORIGINS,
        description="Of pages whose scripts may use it. Such a key is public; its scope must be assign.",
    )


class AdminKeyAsk(Strict):
    """A request for a new admin key."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"label": "Ada", "expires": "1 year"}]})
    label: Label = Field("", description="A name for it: the event log names it by that.")
    expires: Lasting | None = Field(None, description="How long it is valid; without it, until it is withdrawn.")


class RotationAsk(Strict):
    """A request to replace a key by a new one with the same permissions."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"grace": "1 hour"}]})
    grace: Lasting | None = Field(None, description="How long the old key stays valid; without it, not at all.")


class LateRewardsRequest(Strict):
    """The rule for pending and missing rewards."""

    rule: LateRuleName
    window: Words | None = None
    missing: Number | None = None


class RoundRule(Strict):
    """The maximum length of a round."""

    hours: Number | None = None


class GuardrailRequest(Strict):
    """A guardrail: an outcome whose mean must not exceed a limit."""

    name: Words
    most: Number
    false_alarms: Number | None = None


class ExperimentAsk(Strict):
    """The protocol of a new experiment: the fields of a TOML protocol file, with the contexts inline."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "checkout",
                    "contexts": [{"age": 31, "country": "DE"}, {"age": 52, "country": "FR"}],
                    "actions": ["standard", "discount", "free shipping"],
                    "policies": "trees:depth=2",
                    "epsilon": 0.02,
                    "delta": 0.05,
                    "reward_range": [0, 1],
                    "late": {"rule": "window", "window": "7 days", "missing": 0},
                }
            ]
        }
    )
    name: Name
    contexts: list[Context] = Field(
        min_length=1, max_length=MAX_CONTEXT_ROWS, description="Of people who came before: one object a person."
    )
    features: list[Words] | None = None
    actions: list[Words]
    policies: Words
    epsilon: Number
    delta: Number | None = None
    reward_range: Annotated[list[Number], Field(min_length=2, max_length=2)] | None = None
    algorithm: Words | None = None
    seed: Whole | None = None
    visits: Visits | None = None
    unknown_labels: UnknownLabels | None = None
    standard: Words | None = None
    holdout: Number | None = None
    rehearsal: bool | None = Field(None, description="For simulated people; `pacbandits experiment drive` needs it.")
    late: LateRewardsRequest | None = None
    rounds: RoundRule | None = None
    guardrail: GuardrailRequest | None = None
    control: Words | None = Field(None, description="Another name of `standard`.")
    metrics: list[MetricAsk] | None = Field(None, max_length=MAX_SEALED_COLUMNS)
    guardrails: list[Words] | None = Field(None, max_length=MAX_SEALED_COLUMNS)
    stop: StopRule | None = Field(None, description="What ends it: `epsilon`, or a proven `gain` over control.")
    gain: Number | None = Field(None, description="With `stop` = `gain`: the smallest proven gain to stop at.")

    def protocol(self) -> ExperimentProtocol:
        """Return the protocol that the request describes.

        Raises:
            InputError: If a setting is invalid.
        """
        named = ("name", "actions", "policies", "epsilon", "delta", "algorithm", "seed", "visits", "unknown_labels")
        rest = ("standard", "control", "metrics", "guardrails", "stop", "gain", "holdout", "rehearsal")
        given = {name: getattr(self, name) for name in (*named, *rest)}
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if self.reward_range is not None:
            options["reward_range"] = tuple(self.reward_range)
        if self.late is not None:
            window = None if self.late.window is None else read_duration(self.late.window, name="'window' of 'late'")
            options["late"] = rules.LateRule(self.late.rule, window, self.late.missing)
        if self.rounds is not None and self.rounds.hours is not None:
            options["round_hours"] = self.rounds.hours
        if self.guardrail is not None:
            told = self.guardrail.model_dump(exclude_none=True)
            options["guardrail"] = rules.GuardrailRule(**told)
        return ExperimentProtocol(contexts=self._people(), **options)

    def _people(self) -> Contexts:
        """Return the contexts in the request."""
        names = list(dict.fromkeys(name for row in self.contexts for name in row))
        if self.features is not None:
            for name in self.features:
                if name not in names:
                    raise InputError(f"there is no column '{plain(name)}' in the contexts{nearest(name, names)}")
            names = list(dict.fromkeys(self.features))
        columns: dict[str, Any] = {}
        for name in names:
            try:
                columns[name] = pa.array([row.get(name) for row in self.contexts])
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                raise InputError(
                    f"the column '{plain(name)}' of the contexts holds both text and numbers; take one"
                ) from None
        return contexts_of(pa.table(columns))


# Responses, as the OpenAPI document describes them.


class ErrorAnswer(BaseModel):
    """An error: what is wrong, and what to do about it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"error": "there is no experiment 'x'"}]})
    error: str


class AssignmentAnswer(BaseModel):
    """The action assigned to a unit."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [ANSWER_EXAMPLE]})
    id: str = Field(description="By which the reward is reported.")
    unit: str
    action: str
    propensity: float = Field(description="With what probability this action was drawn.")
    propensities: dict[str, float]
    round: int
    new: bool = Field(description="False where it was drawn before, and stands.")
    holdout: bool
    seal: str = Field(description="The head of the record's chain as the server last saw it: note it down.")


class AssignmentsAnswer(BaseModel):
    """One entry for each request, in the same order: an assignment or an error."""

    model_config = ConfigDict(extra="forbid")
    assignments: list[AssignmentAnswer | ErrorAnswer]


class RewardAnswer(BaseModel):
    """The result of a report: recorded, repeated (it was known already), or late (it is stored but does not count)."""

    model_config = ConfigDict(extra="forbid")
    assignment: str
    outcome: Outcome


class RewardsAnswer(BaseModel):
    """One entry for each report, in the same order."""

    model_config = ConfigDict(extra="forbid")
    rewards: list[RewardAnswer]


class NamesAnswer(BaseModel):
    """The names of the experiments that the key may read."""

    model_config = ConfigDict(extra="forbid")
    experiments: list[str]


class KeyAnswer(BaseModel):
    """A new key, shown only once."""

    model_config = ConfigDict(extra="forbid")
    id: str
    scope: str
    key: str
    label: str
    expires: str | None
    origins: list[str]


class ShownKey(BaseModel):
    """A key without its secret."""

    model_config = ConfigDict(extra="forbid")
    id: str
    experiment: str | None = Field(description="The experiment it is for; null for an admin key.")
    scope: str
    created: str
    label: str
    expires: str | None
    origins: list[str]


class KeysAnswer(BaseModel):
    """The keys of an experiment."""

    model_config = ConfigDict(extra="forbid")
    keys: list[ShownKey]


class SealAnswer(BaseModel):
    """The seal of the event log. If its head is noted down, later changes to earlier records can be detected."""

    model_config = ConfigDict(extra="forbid")
    head: str = Field(description="SHA-256 over all records, in hexadecimal.")
    records: int = Field(description="How many it is of.")
    protocol: str = Field(description="The digest of the protocol.")
    entries: list[dict[str, Any]] = Field(description="All but assignments and outcomes, with the head after each.")


class CreatedAnswer(BaseModel):
    """A new experiment and its keys, which are shown only once."""

    model_config = ConfigDict(extra="forbid")
    experiment: str
    keys: list[KeyAnswer]
    seal: SealAnswer


class DeletedAnswer(BaseModel):
    """An experiment was deleted."""

    model_config = ConfigDict(extra="forbid")
    experiment: str
    deleted: bool


class StatusAnswer(BaseModel):
    """The status of an experiment. The documentation of experiments describes further fields."""

    model_config = ConfigDict(extra="allow")
    name: str
    state: str
    epsilon: float
    delta: float
    assigned: int
    claim: dict[str, Any] | None
    seal: dict[str, Any]


class HealthAnswer(BaseModel):
    """The server runs."""

    model_config = ConfigDict(extra="forbid")
    status: Literal["ok"]
    version: str


class ReadyAnswer(HealthAnswer):
    """The server is ready: what it answers is stored."""

    warnings: list[str] = Field(description="Other parts that fail, such as the worker process.")


# Error responses: an HTTP status and a message for each error.


UNSEEN_DATABASE = "the database does not answer; nothing was stored as far as is known, ask again"


class Refusal(Exception):
    """An error response.

    status: HTTP status.
    sentence: the message: what is wrong and what to do about it.
    headers: HTTP headers of the response.
    """

    def __init__(self, status: int, sentence: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, one_line(sentence, most=MAX_ERROR_CHARACTERS)
        self.headers = headers or {}


def refusal_of(error: Exception) -> Refusal | None:
    """Return the HTTP response to an error; None for an unexpected one."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, InputError):
        status = 422
        if isinstance(error, UnknownAssignment | UnknownExperiment):
            status = 404
        elif isinstance(error, AlreadyThere | Contradiction | NotCollecting):
            status = 409
        elif isinstance(error, ClockSkew):
            status = 503
        return Refusal(status, spell_arguments(str(error)))  # arguments instead of command-line options
    if isinstance(error, SQLAlchemyError):
        return Refusal(503, UNSEEN_DATABASE, headers={"Retry-After": "1"})
    return None


# pydantic's names of the types that a feature value may have; they end a location, but are not part of the place.
_KINDS = frozenset({"str", "int", "float", "bool", "none", "constrained-str", "constrained-int"})
_KEY = "[key]"
_PILOT = "an experiment with a pilot is created by pacbandits experiment create FILE, where its database is"
_ON_THE_SERVER = {  # fields of a protocol's file that requests lack
    "pilot": _PILOT,
    "pilot_split": _PILOT,
    "webhooks": "keys do not decide where the server sends requests; use pacbandits experiment webhooks add",
    "plan": "an experiment from a plan is created by pacbandits experiment create FILE, where its database is",
}


def sentence_of(error: ValidationError) -> str:
    """Return a message with the first fault of a body, its place, and the number of other wrong places."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    first = faults[0]
    if first["type"] == "json_invalid":
        return "the body is not JSON: " + first["msg"].removeprefix("Invalid JSON: ")
    first = next((fault for fault in faults if fault["loc"] and fault["loc"][0] in _ON_THE_SERVER), first)
    others = len({_place(fault["loc"]) for fault in faults}) - 1
    more = f" (and {count_of(others, 'other place')} {'is' if others == 1 else 'are'} wrong)" if others else ""
    place = f"'{plain(_place(first['loc']))}'" if first["loc"] else "the body"
    if first["type"] == "extra_forbidden" and (why := _ON_THE_SERVER.get(str(first["loc"][0]))):
        return f"{place} is not accepted over HTTP: {why}; leave it out here"
    if first["type"] == "extra_forbidden":
        return f"{place} means nothing here{more}"
    if first["type"] == "missing":
        strange = [_place(fault["loc"]) for fault in faults if fault["type"] == "extra_forbidden"]
        meant = close_to(_place(first["loc"]), strange)
        return f"{place} is missing{more if meant is None else f'; {plain(meant)!r} may be meant for it'}"
    if first["type"] == "string_pattern_mismatch":
        return f"{place} holds a character that cannot be seen{more}"
    if first["type"] == "value_error":  # raised by a function of the experiment
        return f"{place}: {first['msg'].removeprefix('Value error, ')}{more}"
    if len(faults) > 1 and faults[1]["loc"][:-1] == first["loc"][:-1] and first["loc"][-1] in _KINDS:
        return f"{place} must be text, a finite number, true, false or null{more}"
    return f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}{more}"


def _place(location: tuple[int | str, ...]) -> str:
    """Return a place in a body, such as assignments[3].context.age."""
    words = ""
    for step in location[:-1] if location and location[-1] in (*_KINDS, _KEY) else location:
        if isinstance(step, int):
            words += f"[{step}]"
        else:
            words += f".{step}" if words else step
    return words

"""What goes over the wire, strictly: nothing is made to fit, and what is not named here is refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

from pacbandits.errors import InputError, nearest, plain
from pacbandits.experiment import rules
from pacbandits.experiment.checking import NAME_PATTERN, check_experiment_name
from pacbandits.experiment.protocol import ExperimentProtocol, UnknownLabels, Visits
from pacbandits.experiment.rules import LateRuleName, read_duration
from pacbandits.experiment.stored_rows import MAX_REASON_CHARACTERS, MAX_UNIT_CHARACTERS, check_reason, check_unit
from pacbandits.fields import MAX_TEXT_CHARACTERS, MAX_WHOLE_NUMBER
from pacbandits.logs.frames import contexts_of
from pacbandits.records import Contexts
from pacbandits.records.arrow import pa
from pacbandits.records.files import MAX_COLUMNS

MAX_CONTEXT_ROWS = 1_000_000
MAX_WORDS_CHARACTERS = 1_000  # of a name or a specification; the protocol asks for less where it knows which it is
VISIBLE, NO_NUL = r"^[^\x00-\x1f\x7f]*$", r"^[^\x00]*$"
KeyScope = Literal["read", "write"]


def _text_schema(**more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", **more})


# Limits of an experiment are checked by its own functions, so that the service says the same sentence.
_UNIT_SCHEMA = _text_schema(minLength=1, maxLength=MAX_UNIT_CHARACTERS, pattern=NO_NUL)
_WHY_SCHEMA = _text_schema(minLength=1, maxLength=MAX_REASON_CHARACTERS, pattern=NO_NUL)
Unit = Annotated[str, AfterValidator(check_unit), _UNIT_SCHEMA]
Name = Annotated[str, AfterValidator(check_experiment_name), _text_schema(pattern=NAME_PATTERN)]
Why = Annotated[str, AfterValidator(check_reason), _WHY_SCHEMA]
Words = Annotated[str, StringConstraints(max_length=MAX_WORDS_CHARACTERS, pattern=VISIBLE)]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS, pattern=NO_NUL)]
Whole = Annotated[int, Field(ge=-MAX_WHOLE_NUMBER, le=MAX_WHOLE_NUMBER)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Value = Annotated[Text | Whole | Number | bool | None, Field(union_mode="left_to_right")]
Context = Annotated[dict[Words, Value], Field(max_length=MAX_COLUMNS)]

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
    """What is asked: only what is named, and of the kind that is named."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class AssignmentAsk(Strict):
    """Who has come, and what is known of them."""

    model_config = ConfigDict(json_schema_extra={"examples": [ASSIGNMENT_EXAMPLE]})
    unit: Unit | None = Field(None, description="Who it is; without it, somebody who never comes back.")
    context: Context = Field(description="A value for each of the experiment's features.")


class AssignmentBatch(Strict):
    """Several at once."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"assignments": [ASSIGNMENT_EXAMPLE, {"unit": "u-18", "context": {"age": 52, "country": "FR"}}]}
            ]
        }
    )
    assignments: list[AssignmentAsk] = Field(min_length=1)


class RewardAsk(Strict):
    """What came of an assignment: a reward, the outcome of the guardrail, or both."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"assignment": ANSWER_EXAMPLE["id"], "reward": 1}]})
    assignment: Text = Field(description="The id of the assignment.")
    reward: Number | None = Field(None, description="In the units of the experiment's reward range.")
    guardrail: Number | None = Field(None, description="The outcome of the guardrail, from 0 to 1.")


class RewardBatch(Strict):
    """Several at once: all are stored, or none."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"rewards": [{"assignment": ANSWER_EXAMPLE["id"], "reward": 0.5}]}]}
    )
    rewards: list[RewardAsk] = Field(min_length=1)


class Reason(Strict):
    """Why."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the shop is closed for the holidays"}]})
    reason: Why = Field(description="For the record, which keeps it.")


class Withdrawal(Strict):
    """Which action is never to be played again, and why."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"action": "free shipping", "reason": "out of stock"}]})
    action: Words = Field(description="By its name.")
    reason: Why = Field(description="For the record, which keeps it.")


class KeyAsk(Strict):
    """What a new key is to open."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"scope": "read"}]})
    scope: KeyScope


class LateRule(Strict):
    """What becomes of rewards that are late."""

    rule: LateRuleName
    window: Words | None = None
    missing: Number | None = None


class RoundRule(Strict):
    """When a round closes."""

    hours: Number | None = None


class GuardrailRule(Strict):
    """A second outcome whose mean must not exceed a limit."""

    name: Words
    most: Number
    false_alarms: Number | None = None


class ExperimentAsk(Strict):
    """An experiment, as a file in TOML says it, but with the contexts themselves."""

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
    late: LateRule | None = None
    rounds: RoundRule | None = None
    guardrail: GuardrailRule | None = None

    def protocol(self) -> ExperimentProtocol:
        """What is asked for as a protocol.

        Raises:
            InputError: When there can be no such experiment.
        """
        named = ("name", "actions", "policies", "epsilon", "delta", "algorithm", "seed", "visits", "unknown_labels")
        given = {name: getattr(self, name) for name in (*named, "standard", "holdout")}
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
        """The contexts that the request holds."""
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

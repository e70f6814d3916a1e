"""What the service answers, for whoever reads its OpenAPI."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pacbandits.experiment.people import Outcome
from pacbandits.service.models import ANSWER_EXAMPLE, KeyScope


class ErrorAnswer(BaseModel):
    """What is wrong, and what to do about it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"error": "there is no experiment 'x'"}]})
    error: str


class AssignmentAnswer(BaseModel):
    """What somebody is to get."""

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
    """One entry for each that was asked for, in that order: an assignment, or what is wrong with what was asked."""

    model_config = ConfigDict(extra="forbid")
    assignments: list[AssignmentAnswer | ErrorAnswer]


class RewardAnswer(BaseModel):
    """What became of a reward: recorded, repeated (it was known), or late (noted, and does not count)."""

    model_config = ConfigDict(extra="forbid")
    assignment: str
    outcome: Outcome


class RewardsAnswer(BaseModel):
    """One entry for each that was reported, in that order."""

    model_config = ConfigDict(extra="forbid")
    rewards: list[RewardAnswer]


class NamesAnswer(BaseModel):
    """The experiments that the key opens."""

    model_config = ConfigDict(extra="forbid")
    experiments: list[str]


class KeyAnswer(BaseModel):
    """A key: shown now, and never again."""

    model_config = ConfigDict(extra="forbid")
    id: str
    scope: KeyScope
    key: str


class ShownKey(BaseModel):
    """A key without its secret."""

    model_config = ConfigDict(extra="forbid")
    id: str
    scope: KeyScope
    created: str


class KeysAnswer(BaseModel):
    """The keys of an experiment."""

    model_config = ConfigDict(extra="forbid")
    keys: list[ShownKey]


class SealAnswer(BaseModel):
    """The head of the record's chain: whoever notes it down can tell later whether anything before was altered."""

    model_config = ConfigDict(extra="forbid")
    head: str = Field(description="SHA-256 over all records, in hexadecimal.")
    records: int = Field(description="How many it is of.")
    protocol: str = Field(description="The digest of the protocol.")
    entries: list[dict[str, Any]] = Field(description="All but assignments and outcomes, with the head after each.")


class CreatedAnswer(BaseModel):
    """An experiment that was created, and its keys: shown now, and never again."""

    model_config = ConfigDict(extra="forbid")
    experiment: str
    keys: list[KeyAnswer]
    seal: SealAnswer


class StatusAnswer(BaseModel):
    """Where an experiment stands. Further fields are described in the documentation of experiments."""

    model_config = ConfigDict(extra="allow")
    name: str
    state: str
    epsilon: float
    delta: float
    assigned: int
    claim: dict[str, Any] | None
    seal: dict[str, Any]


class HealthAnswer(BaseModel):
    """That the server runs, or is ready."""

    model_config = ConfigDict(extra="forbid")
    status: Literal["ok"]
    version: str

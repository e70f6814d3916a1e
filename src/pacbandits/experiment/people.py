"""Who is assigned what, and what comes of it: the records that callers give and get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from pacbandits.fields import Json

Value = str | float | int | bool | None  # of a context


@dataclass(frozen=True)
class AssignmentRequest:
    """Who has come. unit: who it is; None for somebody who never comes back. context: what is known of them."""

    unit: str | None
    context: Mapping[str, Value]


@dataclass(frozen=True)
class Assignment:
    """What somebody is to get.

    id: by which the reward is reported.
    unit: who it is for.
    action: by its name.
    propensity: with what probability it was drawn.
    propensities: of all actions, by their names.
    round: of the experiment, from 0.
    new: whether it was drawn now; else it was before, and stands.
    holdout: whether it is one of those who always get the standard action.
    """

    id: str
    unit: str
    action: str
    propensity: float
    propensities: dict[str, float]
    round: int
    new: bool
    holdout: bool

    def to_json(self) -> Json:
        """As what JSON knows."""
        return asdict(self)


@dataclass(frozen=True)
class Report:
    """What came of an assignment. id: which. reward: in the units of the protocol. guardrail: its second outcome."""

    id: str
    reward: float | None = None
    guardrail: float | None = None


Outcome = Literal["recorded", "repeated", "late"]


@dataclass(frozen=True)
class Recorded:
    """What was done with a report.

    id: of the assignment.
    reward: as it was reported.
    outcome: recorded, or repeated where it was known already, or late where it came after its window: then it is kept
        and does not count.
    """

    id: str
    reward: float | None
    outcome: Outcome

    def to_json(self) -> Json:
        """As what JSON knows."""
        return asdict(self)

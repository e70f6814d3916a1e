"""Requests, assignments and reports, as callers pass and receive them; clients import this without a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from pacbandits.schema import Json

Value = str | float | int | bool | None  # of a feature


@dataclass(frozen=True)
class AssignmentRequest:
    """A request for an assignment.

    unit: identifier of the user; None for one who does not return.
    context: feature values by name.
    """

    unit: str | None
    context: Mapping[str, Value]


@dataclass(frozen=True)
class Assignment:
    """The action assigned to a unit.

    id: identifier to report the reward with.
    unit: the unit.
    action: name of the action.
    propensity: probability with which the action was drawn.
    propensities: probabilities of all actions, by name.
    round: number of the round, from 0.
    new: whether it was drawn now; False for a unit that was assigned before.
    holdout: whether the unit is in the holdout, which always gets the standard action.
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
        """Serialise to JSON-compatible values."""
        return asdict(self)


@dataclass(frozen=True)
class Report:
    """The outcomes of an assignment.

    id: of the assignment.
    reward: in the units of the protocol.
    guardrail: the guardrail outcome, in [0, 1].
    """

    id: str
    reward: float | None = None
    guardrail: float | None = None


Outcome = Literal["recorded", "repeated", "late"]


@dataclass(frozen=True)
class Recorded:
    """The result of a report.

    id: of the assignment.
    reward: as reported.
    outcome: "recorded"; "repeated" if it was known already; "late" if it came after its window: then it is stored but
        does not count.
    """

    id: str
    reward: float | None
    outcome: Outcome

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return asdict(self)

"""Requests, assignments and reports, as callers pass and receive them; clients import this without a database."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
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
    metrics: the value of each column of the protocol's metrics, by name; with the reward, and only with it.
    """

    id: str
    reward: float | None = None
    guardrail: float | None = None
    metrics: Mapping[str, float] | None = None


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


# Ids of assignments: by which rewards are reported, and which never stand for two assignments.
#
#     id = row ‖ "-" ‖ BLAKE2b_secret(row, nonce, unit)
#
# Rows are numbered from 0, so a database that is restored from a backup, or fails over to a replica that lacks the last
# transactions, numbers new rows as it numbered the lost ones. The nonce, which is drawn with each transaction, and the
# unit make their ids differ: a report for a lost assignment is refused rather than counted for somebody else.


ID_BYTES, NONCE_BYTES = 10, 4
MAX_ROW_DIGITS = 15  # hexadecimal


def draw_nonce() -> str:
    """Draw the nonce of a transaction's assignments."""
    return secrets.token_hex(NONCE_BYTES)


def id_of(secret: bytes, row: int, *, unit: str, nonce: str) -> str:
    """Return the id of an assignment, which cannot be guessed without the secret; unit: as stored.

    Without a nonce, that is the id by which the first version issued it: a hash of the row alone.
    """
    hashed = b"row:%d:%s:" % (row, nonce.encode()) + unit.encode() if nonce else b"row:%d" % row
    return f"{row:x}-{blake2b(hashed, key=secret, digest_size=ID_BYTES).hexdigest()}"


def row_in(given: str) -> int | None:
    """Return the row that an id names; None if it has not the form of an id. `is_id` checks the rest."""
    digits, _, _ = given.partition("-")
    if not 0 < len(digits) <= MAX_ROW_DIGITS or not digits.isascii() or not digits.isalnum():
        return None
    try:
        return int(digits, 16)
    except ValueError:
        return None


def is_id(given: str, secret: bytes, row: int, *, unit: str, nonce: str) -> bool:
    """Return whether a text is the id of this assignment."""
    known = id_of(secret, row, unit=unit, nonce=nonce)
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "surrogatepass"))

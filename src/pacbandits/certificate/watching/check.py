"""What was found where a log was looked at, and how that is said and written down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast

from pacbandits.errors import InputError, count_of, plain

Json = dict[str, Any]
CheckKind = Literal["drift", "sample ratio"]

DRIFT: CheckKind = "drift"
SAMPLE_RATIO: CheckKind = "sample ratio"

MAX_WORDS_CHARACTERS = 600  # of each text of a check
MAX_LOGARITHM = 1e12  # of evidence; more than any log can give
MAX_ODDS = 10**9  # beyond which nobody asks how much less likely chance is

_SIGNS: dict[CheckKind, str] = {DRIFT: "drift", SAMPLE_RATIO: "a sample-ratio mismatch"}


@dataclass(frozen=True)
class Check:
    """One assumption of a certificate, looked at.

    kind: "drift" (rows that are not draws from one distribution) or "sample ratio" (actions that were not drawn with
        their propensities).
    log_evidence: the logarithm of the e-process now, or at an earlier moment when it was larger; at any time together
        it reaches L with probability at most e^{−L} while the assumption holds.
    needed: the logarithm from which on there is an alarm.
    where: the strongest sign, in words; "" if nothing could be looked at.
    looked_at: what was looked at, in words, or why nothing could be.
    by_rows: whether the order of the rows was taken for that of time, as the log has a single round.
    """

    kind: CheckKind
    log_evidence: float
    needed: float
    where: str
    looked_at: str
    by_rows: bool = False

    @property
    def looked(self) -> bool:
        """Whether there was anything to look at."""
        return self.where != ""

    @property
    def alarm(self) -> bool:
        """Whether the assumption is refuted."""
        return self.looked and self.log_evidence >= self.needed

    def describe(self) -> str:
        """What was found, in a sentence."""
        sign = _SIGNS[self.kind]
        if not self.looked:
            return f"{sign} was not looked for: {self.looked_at}"
        if not self.alarm:
            return (
                f"no sign of {sign} in {self.looked_at}; chance alone raises an alarm in at most "
                f"{100.0 * math.exp(-self.needed):.2g} % of logs"
            )
        return (
            f"signs of {sign}: {self.where}; {self._meaning()}, so what the log seems to prove may be wrong (chance "
            f"alone gives such a sign in at most 1 of {_odds(self.log_evidence):,} logs)"
        )

    def _meaning(self) -> str:
        """What an alarm says of the log."""
        if self.kind == SAMPLE_RATIO:
            return (
                "actions were not drawn with the propensities that the log states or the split gives: if the split is "
                "wrong, correct it; if it is right, rows were lost or added after the draw"
            )
        if self.by_rows:
            return (
                "either contexts or rewards changed while the log was collected, or its rows are sorted and do not "
                "stand in the order in which they occurred"
            )
        return "contexts or rewards changed while the log was collected"

    def to_json(self) -> Json:
        """Everything, as what JSON knows."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: object) -> Check:
        """The check that `to_json` wrote."""
        if not isinstance(value, dict):
            raise InputError(f"a check of a log must be an object, got {plain(value)}")
        given, names = cast(Json, value), [field.name for field in fields(cls)]
        if sorted(given, key=str) != sorted(names):
            raise InputError(
                f"a check of a log has the fields {', '.join(names)}, not {plain(', '.join(map(str, given)))}"
            )
        if not isinstance(given["kind"], str) or given["kind"] not in _SIGNS:
            raise InputError(f"a check of a log is of '{DRIFT}' or '{SAMPLE_RATIO}', not of '{plain(given['kind'])}'")
        if type(given["by_rows"]) is not bool:
            raise InputError(f"'by_rows' of a check must be true or false, got {plain(given['by_rows'])}")
        made = cls(
            kind=given["kind"],
            log_evidence=_number(given, "log_evidence"),
            needed=_number(given, "needed"),
            where=_words(given, "where"),
            looked_at=_words(given, "looked_at"),
            by_rows=given["by_rows"],
        )
        if made.needed <= 0:
            raise InputError(f"'needed' of a check must be positive, got {made.needed:g}")
        return made


def by_gravity(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Checks in the order in which to tell of them: wrong propensities first, as they make all else look wrong, too."""
    return tuple(sorted(checks, key=lambda check: check.kind != SAMPLE_RATIO))


def alarm_words(checks: Sequence[Check]) -> tuple[str, ...]:
    """What raises an alarm, in sentences, the gravest first."""
    alarms = [check for check in by_gravity(checks) if check.alarm]
    words = [check.describe() for check in alarms]
    if len(alarms) > 1 and alarms[0].kind == SAMPLE_RATIO:
        words[1:] = [f"{one}; the mismatch may be all that is behind this" for one in words[1:]]
    return tuple(words)


def _number(given: Json, name: str) -> float:
    value = given[name]
    if type(value) not in (int, float) or not abs(value) <= MAX_LOGARITHM:
        raise InputError(f"'{name}' of a check must be a number, got {plain(value)}")
    return float(value)


def _words(given: Json, name: str) -> str:
    value = given[name]
    if not isinstance(value, str) or not value.isprintable() or len(value) > MAX_WORDS_CHARACTERS:
        raise InputError(
            f"'{name}' of a check must be printable text of {MAX_WORDS_CHARACTERS} characters at most, got "
            f"{plain(value)}"
        )
    return value


def _odds(log_evidence: float) -> int:
    """e^L, rounded down to one digit."""
    odds = int(math.exp(min(log_evidence, math.log(MAX_ODDS) + 1e-9)))
    unit = 10 ** (len(str(odds)) - 1)
    return odds // unit * unit


def in_number(taken: int, there: int, noun: str) -> str:
    """`5 actions`, `1 batch`, `the first 3 of 5 actions`."""
    words = count_of(there, noun)
    return words if taken == there else f"the first {taken:,} of {words}"

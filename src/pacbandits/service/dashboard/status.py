"""Tolerant access to a status in JSON: a missing value, or one of the wrong type, reads as None, zero or empty.

Nothing here raises, so that pages render whatever an analysis has not computed yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, cast


class ValueEstimate(NamedTuple):
    """An estimate with its interval.

    low, estimate, high: in the units of rewards.
    """

    low: float
    estimate: float
    high: float

    @property
    def empty(self) -> bool:
        """Return whether the interval is empty."""
        return self.low > self.high


@dataclass(frozen=True)
class JsonView:
    """A JSON object; false if it is empty.

    value: its fields.
    """

    value: Mapping[str, object]

    def __bool__(self) -> bool:
        return bool(self.value)

    def number(self, key: str) -> float | None:
        """Return a finite number, or None."""
        value = self.value.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return float(value)

    def count(self, key: str) -> int:
        """Return a count; 0 if there is none."""
        return max(round(self.number(key) or 0.0), 0)

    def text(self, key: str) -> str:
        """Return a text; empty if there is none."""
        value = self.value.get(key)
        return value if isinstance(value, str) else ""

    def flag(self, key: str) -> bool:
        """Return whether the value is true."""
        return self.value.get(key) is True

    def time(self, key: str) -> datetime | None:
        """Return a time in UTC, or None."""
        try:
            found = datetime.fromisoformat(self.text(key))
        except ValueError:
            return None
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)

    def part(self, key: str) -> JsonView:
        """Return a nested object; empty if there is none."""
        return JsonView(_mapping(self.value.get(key)))

    def parts(self, key: str) -> list[JsonView]:
        """Return a list of objects."""
        return [JsonView(_mapping(one)) for one in _list(self.value.get(key))]

    def texts(self, key: str) -> list[str]:
        """Return a list of texts, without values of other types."""
        return [one for one in _list(self.value.get(key)) if isinstance(one, str)]

    def numbers(self, key: str) -> list[float]:
        """Return a list of finite numbers, without other values."""
        found = (JsonView({"": one}).number("") for one in _list(self.value.get(key)))
        return [one for one in found if one is not None]

    def span(self, key: str) -> ValueEstimate | None:
        """Return an estimate with its interval, or None; an empty interval has no ends in JSON."""
        within = self.part(key)
        low, estimate, high = (within.number(name) for name in ValueEstimate._fields)
        if estimate is None or (low is None) != (high is None):
            return None
        return (
            ValueEstimate(math.inf, estimate, -math.inf)
            if low is None or high is None
            else ValueEstimate(low, estimate, high)
        )


def _mapping(value: object) -> Mapping[str, object]:
    return cast(Mapping[str, object], value) if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[object]:
    return cast(Sequence[object], value) if isinstance(value, list | tuple) else ()

"""A status as JSON, read without trust: what is not there, or is not what it should be, is None, zero or nothing.

Pages must stand whatever a look has not computed yet, so that nothing here raises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, cast


class ValueEstimate(NamedTuple):
    """An estimate, and between what the truth lies.

    low, estimate, high: in the units of rewards.
    """

    low: float
    estimate: float
    high: float

    @property
    def empty(self) -> bool:
        """Whether no number lies between the ends."""
        return self.low > self.high


@dataclass(frozen=True)
class JsonView:
    """An object of JSON; false where it holds nothing.

    value: what it holds.
    """

    value: Mapping[str, object]

    def __bool__(self) -> bool:
        return bool(self.value)

    def number(self, key: str) -> float | None:
        """A finite number."""
        value = self.value.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return float(value)

    def count(self, key: str) -> int:
        """A number of things, 0 where there is none."""
        return max(round(self.number(key) or 0.0), 0)

    def text(self, key: str) -> str:
        """A text, empty where there is none."""
        value = self.value.get(key)
        return value if isinstance(value, str) else ""

    def flag(self, key: str) -> bool:
        """Whether it is true."""
        return self.value.get(key) is True

    def time(self, key: str) -> datetime | None:
        """A time in UTC."""
        try:
            found = datetime.fromisoformat(self.text(key))
        except ValueError:
            return None
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)

    def part(self, key: str) -> JsonView:
        """An object within."""
        return JsonView(_mapping(self.value.get(key)))

    def parts(self, key: str) -> list[JsonView]:
        """A list of objects."""
        return [JsonView(_mapping(one)) for one in _list(self.value.get(key))]

    def texts(self, key: str) -> list[str]:
        """A list of texts."""
        return [one for one in _list(self.value.get(key)) if isinstance(one, str)]

    def numbers(self, key: str) -> list[float]:
        """A list of numbers."""
        found = (JsonView({"": one}).number("") for one in _list(self.value.get(key)))
        return [one for one in found if one is not None]

    def span(self, key: str) -> ValueEstimate | None:
        """An interval with its estimate; an empty one has no ends in JSON."""
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

"""Traffic of a trial: people per period, batches, and the delay of rewards."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from pacbandits.checks import flag, number, settle, text, whole_number
from pacbandits.errors import InputError, plain

PERIODS = ("hour", "day", "week", "month", "year")


@dataclass(frozen=True)
class Traffic:
    """So many people a period.

    people: who come in one period.
    period: hour, day, week, month or year.
    batched: whether the design may only change from one period to the next.
    delay: how many periods pass until a reward is known.

    >>> import pacbandits as pb
    >>> pb.Traffic.read("4000/week")
    Traffic(people=4000, period='week', batched=False, delay=0)
    """

    people: int
    period: str = "week"
    batched: bool = False
    delay: int = 0

    def __post_init__(self) -> None:
        settle(self, people=whole_number(self.people, name="--traffic", least=1))
        settle(self, delay=whole_number(self.delay, name="--delay, in periods of the traffic,", least=0))
        settle(self, batched=flag(self.batched, name="batched") or self.delay > 0)
        if text(self.period, name="period") not in PERIODS:
            raise InputError(f"--traffic is so many people an {', a '.join(PERIODS)}; got '{plain(self.period)}'")

    @classmethod
    def read(cls, words: str, *, batched: bool = False, delay: int = 0) -> Traffic:
        """Traffic as people write it: 4000/week, 150 a day."""
        found = re.fullmatch(
            r"\s*([\d_,.]*\d)\s*(?:/|an? |per )\s*([a-z]+?)s?\s*", text(words, name="--traffic").lower()
        )
        count = "" if found is None else re.sub(r"[_,]|\.(?=\d{3}\b)", "", found[1])
        if found is None or not count.isdigit():
            raise InputError(f"--traffic must be people and a period, as 4000/week, got '{plain(words)}'")
        return cls(int(count), found[2], batched=batched, delay=delay)

    def taken(self, samples: float) -> float:
        """How many people come until the rewards of so many are known: whole periods, and those of the delay."""
        if math.isinf(samples) or not self.batched:
            return samples
        return float((self.periods(samples) + self.delay) * self.people)

    def counted(self, people: float) -> float:
        """Of how many the rewards are known once so many people have come."""
        return float(max(people // self.people - self.delay, 0) * self.people) if self.batched else people

    def periods(self, people: float) -> float:
        """How many periods it takes until so many people have come."""
        if math.isinf(people):
            return people
        exact = number(people, name="people", least=0) / self.people
        return float(math.ceil(exact - 1e-9)) if self.batched else exact  # what rounding adds is nobody

    def people_in(self, periods: float) -> float:
        """How many people come in so many periods."""
        return periods * self.people

    def describe(self) -> str:
        """In words."""
        words = f"{self.people:,} people a {self.period}"
        if self.batched:
            words += f", a design that changes once a {self.period}"
        if self.delay:
            words += f", rewards known {self.delay} {self.period}{'s' * (self.delay > 1)} later"
        return words

    def to_json(self) -> dict[str, Any]:
        """Serialise to JSON-compatible values."""
        return {"people": self.people, "period": self.period, "batched": self.batched, "delay": self.delay}

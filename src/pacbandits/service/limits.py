"""Limits on the size and rate of requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from pacbandits.errors import InputError


@dataclass(frozen=True)
class ServiceLimits:
    """The limits of a server; requests beyond them are refused.

    max_body_bytes: size of a request's body; a longer one is refused without reading the rest.
    max_batch: assignments or rewards in one request.
    rows_per_second: average rate per key of assignments and rewards; any other request counts as one.
    burst_rows: how many of them a key may send at once after a pause.
    max_waiting_rows: assignments and rewards of one experiment waiting to be written; above that, requests get 429.
    """

    max_body_bytes: int = 2**24
    max_batch: int = 10_000
    rows_per_second: float = 50_000.0
    burst_rows: float = 100_000.0
    max_waiting_rows: int = 100_000

    def __post_init__(self) -> None:
        for name in ("max_body_bytes", "max_batch", "rows_per_second", "burst_rows", "max_waiting_rows"):
            if not getattr(self, name) > 0:
                raise InputError(f"the limit {name} must be more than 0, got {getattr(self, name)}")
        if self.burst_rows < self.max_batch:
            raise InputError(
                f"the limit burst_rows ({self.burst_rows:g}) must let a batch of max_batch ({self.max_batch}) through"
            )


@dataclass
class Bucket:
    """A token bucket.

    rate: tokens added per second.
    most: capacity.
    """

    rate: float
    most: float
    _tokens: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens, self._at = self.most, monotonic()

    def take(self, count: float) -> float:
        """Take tokens and return 0; if there are too few, take none and return the seconds until there are enough."""
        now = monotonic()
        self._tokens = min(self.most, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if count <= self._tokens:
            self._tokens -= count
            return 0.0
        return (count - self._tokens) / self.rate

"""Limits on the size and rate of requests."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
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
    max_connections: open connections; above that, those without a complete request are closed, oldest first.
    max_header_bytes: size of a request's header.
    header_seconds, body_seconds: how long a header, and then a body, may take to arrive.
    max_held_bytes: bodies in memory, of all requests together; above that, requests get 503.
    max_exports: exports that wait for their turn; one at a time is made.
    """

    max_body_bytes: int = 2**24
    max_batch: int = 10_000
    rows_per_second: float = 50_000.0
    burst_rows: float = 100_000.0
    max_waiting_rows: int = 100_000
    max_connections: int = 2_000
    max_header_bytes: int = 2**16
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    max_held_bytes: int = 2**27
    max_exports: int = 4

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:
                raise InputError(f"the limit {one.name} must be more than 0, got {getattr(self, one.name)}")
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

    def charge(self, count: float) -> None:
        """Take tokens for work that is done already; at most as many as the bucket then lacks after an hour."""
        self._tokens = max(self._tokens - count, -3600.0 * self.rate)

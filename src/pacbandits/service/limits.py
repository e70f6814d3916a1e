"""How much one may ask of the service at once, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from pacbandits.errors import InputError


@dataclass(frozen=True)
class ServiceLimits:
    """What a server answers before it says that it is too much.

    max_body_bytes: of one request; a longer one is refused before it is read.
    max_batch: assignments or rewards in one request.
    rows_per_second: assignments and rewards (any other request counts as one) that a key may ask for, on average.
    burst_rows: how many of them at once, after a while of silence.
    max_waiting_rows: assignments and rewards of one experiment that wait to be written; more are refused for a moment.
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
    """Tokens that come at a steady rate up to a most, and go as they are asked for.

    rate: how many come a second.
    most: how many there can be.
    """

    rate: float
    most: float
    _tokens: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens, self._at = self.most, monotonic()

    def take(self, count: float) -> float:
        """Take so many; 0 if they were there, else the seconds until they are, and none is taken."""
        now = monotonic()
        self._tokens = min(self.most, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if count <= self._tokens:
            self._tokens -= count
            return 0.0
        return (count - self._tokens) / self.rate

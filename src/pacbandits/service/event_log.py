"""The server log as JSON lines, and the server's metrics."""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic_core import to_json

from pacbandits.errors import one_line
from pacbandits.experiment.database import describe_failure

if TYPE_CHECKING:
    from pacbandits.service.parts import ServiceParts

# The server log: one JSON object per line, without feature values and keys.


FLUSH_SECONDS = 0.2
MAX_LINES_HELD = 20_000
MAX_RELAYED_CHARACTERS = 1_000


class Journal:
    """The server log, written by its own thread, so that requests never wait for a slow reader.

    If too many lines are waiting, the oldest are dropped, and a line says how many.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def write(self, event: str, **fields: object) -> None:
        """Log an event with its fields."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._put(to_json({"at": at, "event": event, **fields}, fallback=str).decode())

    def _put(self, line: str) -> None:
        if len(self._lines) >= MAX_LINES_HELD:
            self._lines.popleft()
            self._dropped += 1
        self._lines.append(line)
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_writing, name="pacbandits journal", daemon=True)
            self._thread.start()

    def error(self, event: str, error: BaseException, **fields: object) -> None:
        """Log an unexpected error with its place, and its reason where that contains no data."""
        self.write(event, **describe_failure(error), **fields)

    def relay(self, line: str) -> None:
        """Log a line that another process wrote: as it is if it is JSON, and else as text."""
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        if isinstance(told, dict):
            self._put(line.strip())
        elif line.strip():
            self.write("the worker said", text=one_line(line, most=MAX_RELAYED_CHARACTERS))

    def close(self) -> None:
        """Write the remaining lines and end the thread."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=2)

    def _keep_writing(self) -> None:
        while not self._over.wait(FLUSH_SECONDS):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        held: list[str] = []
        while self._lines:
            held.append(self._lines.popleft())
        if self._dropped:
            held.append(json.dumps({"event": "lines left out", "count": self._dropped}))
            self._dropped = 0
        if held:
            stream = self._stream or sys.stderr
            try:
                stream.write("\n".join(held) + "\n")
                stream.flush()
            except (OSError, ValueError):  # the reader has gone
                return


# Metrics for Prometheus. They name no experiment, so access to the metrics does not reveal what is tested.


SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
GAUGES = {  # by the names of the fields of `Parts`
    "database_up": "1 if the database answers.",
    "writable": "1 if the database stores what is written.",
    "clock_skew_seconds": "How far this server's clock is ahead of the database's.",
    "disk_free_bytes": "Free space beside an SQLite file; NaN for PostgreSQL.",
    "workers": "Worker processes with a recent heartbeat.",
    "worker_heartbeat_seconds": "Time since the last heartbeat of any worker process; infinite without one.",
    "worker_errors": "Errors of experiments that the running workers have met.",
    "analyses": "Interim analyses that were stored.",
    "analysis_lag_rows": "Assignments since the last analysis, of the experiment with most of them.",
    "analysis_lag_ratio": "Assignments in all, relative to those at the last analysis, at most over experiments.",
    "webhooks_delivered": "Events that webhooks have accepted.",
    "webhooks_waiting": "Events that wait to be delivered to webhooks.",
    "webhooks_waiting_seconds": "Age of the oldest of them.",
    "webhooks_given_up": "Events that webhooks did not accept in three days.",
    "webhooks_failed_attempts": "Attempts to deliver events that failed.",
}
ROWS = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)


class Meters:
    """The metrics of one server, in their own registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._answers = Counter(
            "pacbandits_answers", "Requests that were answered.", ("route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "pacbandits_answer_seconds",
            "From the first byte of a request to the last of its answer.",
            ("route",),
            buckets=SECONDS,
            registry=self._registry,
        )
        self.assigned = Counter("pacbandits_assigned", "Assignments that were drawn.", registry=self._registry)
        self.repeated = Counter(
            "pacbandits_assigned_again", "Assignments that were drawn before.", registry=self._registry
        )
        self._rewards = Counter("pacbandits_rewards", "Rewards that were taken.", ("outcome",), registry=self._registry)
        self.waiting = Gauge(
            "pacbandits_waiting_rows", "Assignments and rewards that wait to be written.", registry=self._registry
        )
        self.commit_rows = Histogram(
            "pacbandits_commit_rows", "Rows of one transaction.", buckets=ROWS, registry=self._registry
        )
        self.commit_seconds = Histogram(
            "pacbandits_commit_seconds", "What one transaction took.", buckets=SECONDS, registry=self._registry
        )
        self.write_errors = Counter(
            "pacbandits_write_errors", "Transactions that could not be stored.", registry=self._registry
        )
        self.worker_restarts = Counter(
            "pacbandits_worker_restarts", "Ends of this server's worker process.", registry=self._registry
        )
        self._gauges = {
            name: Gauge(f"pacbandits_{name}", words, registry=self._registry) for name, words in GAUGES.items()
        }
        self._states = Gauge(
            "pacbandits_experiments", "Experiments by their state.", ("state",), registry=self._registry
        )

    def answer(self, route: str, status: int, seconds: float) -> None:
        """Count a response and its duration."""
        known = self._known.get((route, status))
        if known is None:
            known = (self._answers.labels(route, str(status)), self._seconds.labels(route))
            self._known[route, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def reward(self, outcome: str) -> None:
        """Count a reward by its outcome: recorded, repeated or late."""
        self._rewards.labels(outcome).inc()

    def show(self, parts: ServiceParts) -> None:
        """Set the metrics of the parts of the service."""
        for name, gauge in self._gauges.items():
            gauge.set(getattr(parts, name))
        for state, count in parts.states.items():
            self._states.labels(state).set(count)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

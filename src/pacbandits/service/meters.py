"""Counts and times for Prometheus. They name no experiment: whoever may scrape a server need not know what it tests."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
ROWS = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)


class Meters:
    """What one server counts, in a registry of its own."""

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

    def answer(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        known = self._known.get((route, status))
        if known is None:
            known = (self._answers.labels(route, str(status)), self._seconds.labels(route))
            self._known[route, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def reward(self, outcome: str) -> None:
        """Count a reward."""
        self._rewards.labels(outcome).inc()

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)

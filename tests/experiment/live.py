"""Experiments that are played: people who come day by day, and what comes of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from pacbandits.experiment.assignment_records import AssignmentRequest, Report
from pacbandits.experiment.experiment import Experiment
from tests.experiment.cases import COUNTRIES, protocol

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def mean_of(action, context):
    """What an action earns: a discount pays for the young alone."""
    return {"standard": 0.3, "free shipping": 0.35}.get(action, 0.8 if context["age"] < 40 else 0.1)


@dataclass
class Played:
    """An experiment and its clock; everybody who comes is somebody else."""

    path: object
    options: dict = field(default_factory=dict)
    seed: int = 0
    webhooks: tuple = ()

    def __post_init__(self):
        self.now = BEGUN
        self.rng = np.random.default_rng(self.seed)
        made, clock = protocol(**self.options), lambda: self.now
        self.experiment = Experiment.create(self.path, made, clock=clock, webhooks=self.webhooks)

    def day(self, people=200, *, told=1.0, guardrail=None, mean=mean_of):
        """A day on which so many come; told: the share whose reward is reported. What was assigned."""
        rng = self.rng
        contexts = [{"age": int(rng.integers(18, 80)), "country": str(rng.choice(COUNTRIES))} for _ in range(people)]
        given = self.experiment.assign_many([AssignmentRequest(None, one) for one in contexts])
        reports = [
            Report(
                one.id,
                float(rng.random() < mean(one.action, context)),
                None if guardrail is None else float(rng.random() < guardrail(one.action)),
            )
            for one, context in zip(given, contexts, strict=True)
            if rng.random() < told
        ]
        if reports:
            self.experiment.record_many(reports)
        self.now += timedelta(days=1)
        return given

    def advance(self):
        """Do all that is due."""
        for _ in range(10):
            if not self.experiment.advance(at_once=False):
                break
        self.experiment.advance(at_once=True)
        return self.experiment.status().to_json()

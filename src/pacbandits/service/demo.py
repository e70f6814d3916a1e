"""A demonstration: a shop's checkout with made-up visitors who come while one watches.

Everything is real but the visitors: the experiment, its database, the service and the dashboard.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from pacbandits.experiment.database import Database
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import ExperimentProtocol
from pacbandits.experiment.rules import GuardrailRule, LateRule
from pacbandits.records import Contexts
from pacbandits.service.keys import Keys

NAME = "checkout"
ACTIONS = ("standard", "discount", "free shipping", "gift")
VISITORS, SEED = 2_000, 7
# Of the traffic: a made-up visitor every 20 ms, who buys within some seconds or not at all.
RATE, DELAY_SECONDS, LOST_SHARE, RETURNING_SHARE, MOST_PEOPLE = 50, 2, 0.02, 0.1, 200_000
TRUTH = "segments:effect=0.25,baseline=0.3"


def visitors(count: int = VISITORS, *, seed: int = SEED) -> Contexts:
    """Last month's visitors, made up."""
    rng = np.random.default_rng(seed)
    age = np.clip(np.round(rng.gamma(9.0, 4.5, count)), 16, 90)
    country = rng.choice(4, size=count, p=[0.45, 0.25, 0.2, 0.1])
    device = (rng.random(count) < 0.75 - 0.006 * (age - 16)).astype(np.float64)
    visits = rng.poisson(2.5, count)
    return Contexts.of(
        np.column_stack([age, country, device, visits]),
        names=["age", "country", "device", "earlier visits"],
        categories=[None, ("DE", "FR", "AT", "PL"), ("desktop", "phone"), None],
    )


def demo_protocol() -> ExperimentProtocol:
    """What the demonstration asks: who should be offered what at the checkout."""
    return ExperimentProtocol(
        name=NAME,
        contexts=visitors(),
        actions=ACTIONS,
        policies="trees:depth=2",
        epsilon=0.05,
        seed=SEED,
        holdout=0.05,
        late=LateRule("window", window_seconds=30),
        guardrail=GuardrailRule("complaint", 0.05),
    )


def prepare(path: str | Path) -> str:
    """A database with the experiment of the demonstration; a key that may write to it."""
    database = Database(path, create=True)
    if NAME not in database.names():
        Experiment.create(database, demo_protocol())
    return Keys(database).make(NAME, "write")[0]


def drive(url: str, key: str, path: str | Path) -> subprocess.Popen[bytes]:
    """Visitors who come until there were enough, from a process of their own."""
    asked = {
        "--url": url,
        "--key": key,
        "--problem": TRUTH,
        "--rate": RATE,
        "--people": MOST_PEOPLE,
        "--delay": DELAY_SECONDS,
        "--lost": LOST_SHARE,
        "--returning": RETURNING_SHARE,
        "--database": path,
        "--seed": SEED,
    }
    words = [str(word) for pair in asked.items() for word in pair]
    command = [sys.executable, "-m", "pacbandits", "experiment", "drive", NAME, *words]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

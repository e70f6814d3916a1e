"""The pictures of the dashboard in the documentation: an experiment on made-up traffic, seen in a real browser.

    python docs/tools/dashboard.py docs/figures

Needs `pacbandits[service]`, playwright and Chromium. People come over a week that passes in a minute; what they like
is made up here, and the experiment finds it out.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import sync_playwright

import pacbandits as pb
from pacbandits.experiment.assignment_records import AssignmentRequest, Report
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import ExperimentProtocol, GuardrailRule, LateRule
from pacbandits.service.dashboard import MemorySessions, router_for

ACTIONS = ("standard", "discount", "free shipping", "gift", "points", "bundle", "two for one", "sample")
COUNTRIES, DEVICES = ("AT", "DE", "FR"), ("desktop", "phone")
KEY = "picture"
START = datetime(2026, 3, 2, 8, tzinfo=UTC)
PEOPLE_A_DAY, DAYS = 1500, 8
WINDOW_SECONDS = 2 * 86_400.0
NO_REWARD_SHARE = 0.02  # of people of whom nothing is ever heard


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def draw_people(count: int, rng: np.random.Generator) -> list[dict[str, object]]:
    return [
        {
            "age": int(rng.integers(18, 75)),
            "country": COUNTRIES[rng.choice(3, p=(0.2, 0.55, 0.25))],
            "device": DEVICES[rng.choice(2)],
        }
        for _ in range(count)
    ]


def chance_of_buying(person: dict[str, object], action: str) -> float:
    """What nobody knows: younger people in Germany like a discount, others free shipping."""
    base = 0.3 + 0.1 * (person["device"] == "desktop")
    if person["country"] == "DE" and int(str(person["age"])) <= 38:
        return base + {"discount": 0.28, "free shipping": 0.1}.get(action, 0.0)
    return base + {"free shipping": 0.22, "discount": 0.08}.get(action, 0.0)


def play(database: Path) -> tuple[Experiment, Clock]:
    """An experiment after a week of traffic."""
    rng, clock = np.random.default_rng(5), Clock()
    before = draw_people(2000, rng)
    codes = [
        [person["age"], COUNTRIES.index(str(person["country"])), DEVICES.index(str(person["device"]))]
        for person in before
    ]
    contexts = pb.Contexts.of(codes, names=["age", "country", "device"], categories=[None, COUNTRIES, DEVICES])
    protocol = ExperimentProtocol(
        name="checkout",
        contexts=contexts,
        actions=ACTIONS,
        policies="trees:depth=2",
        epsilon=0.04,
        seed=17,
        holdout=0.05,
        late=LateRule("window", window_seconds=WINDOW_SECONDS),
        guardrail=GuardrailRule(name="complaint", most=0.03),
    )
    experiment = Experiment.create(database, protocol, clock=clock)
    waiting: list[tuple[datetime, Report]] = []
    hours = 4
    for step in range(DAYS * 24 // hours):
        clock.now = START + timedelta(hours=hours * step)
        some = draw_people(PEOPLE_A_DAY * hours // 24, rng)
        requests = [AssignmentRequest(f"u-{step}-{i}", person) for i, person in enumerate(some)]
        for person, given in zip(some, experiment.assign_many(requests), strict=True):
            if isinstance(given, Exception):
                raise given
            if rng.random() < NO_REWARD_SHARE:
                continue
            bought = float(rng.random() < chance_of_buying(person, given.action))
            due = clock.now + timedelta(hours=float(rng.exponential(9.0)))
            waiting.append((due, Report(given.id, bought, float(rng.random() < 0.01))))
        due = [report for when, report in waiting if when <= clock.now]
        waiting = [one for one in waiting if one[0] > clock.now]
        if due:
            experiment.record_many(due)
        while experiment.advance():
            pass
    return experiment, clock


def serve(experiment: Experiment) -> tuple[uvicorn.Server, threading.Thread, str]:
    app = FastAPI()
    app.include_router(
        router_for(
            lambda name: experiment,
            lambda: ("checkout",),
            MemorySessions(lambda key: {"checkout": "read"} if key == KEY else {}),
        )
    )
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [held]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    return server, thread, f"http://127.0.0.1:{held.getsockname()[1]}/dashboard"


def main() -> None:
    folder = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as temporary:
        experiment, _ = play(Path(temporary) / "checkout.db")
        server, thread, address = serve(experiment)
        program = os.environ.get("CHROMIUM") or shutil.which("chromium")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for name, face, width, height in (
                ("dashboard-light", "light", 1120, 1500),
                ("dashboard-phone", "dark", 390, 1500),
            ):
                page = browser.new_page(color_scheme=face, viewport={"width": width, "height": height})
                page.goto(f"{address}/sign-in")
                page.fill("#key", KEY)
                page.keyboard.press("Enter")
                page.wait_for_url("**/dashboard")
                page.goto(f"{address}/experiments/checkout")
                page.screenshot(path=folder / f"{name}.png")
            browser.close()
        server.should_exit = True
        thread.join()
        experiment.close()


if __name__ == "__main__":
    main()

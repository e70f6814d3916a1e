"""The dashboard over an experiment that really runs: people come, rewards flow in, and the page follows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from fastapi import FastAPI

from pacbandits.errors import InputError
from pacbandits.experiment.assignment_records import AssignmentRequest, Report
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import GuardrailRule
from pacbandits.service.dashboard import MemorySessions, router_for
from tests.experiment.cases import COUNTRIES, protocol
from tests.service.dashboard.serving import READ_KEY, Client, Server
from tests.service.dashboard.test_pages import check_sound

START = datetime(2026, 3, 2, 8, tzinfo=UTC)


class Live:
    """An experiment with people who come when they are told to; "discount" earns most."""

    def __init__(self, path):
        self.now, self._rng, self._people = START, np.random.default_rng(3), 0
        rule = GuardrailRule("complaint", 0.05)
        made = protocol(holdout=0.1, guardrail=rule)
        self.experiment = Experiment.create(path / "shop.db", made, clock=lambda: self.now)

    def come(self, count, *, complaints=0.0):
        """People come, and nearly all of what they do is known at once."""
        people = [
            AssignmentRequest(
                f"u{self._people + i}",
                {"age": int(self._rng.integers(18, 80)), "country": str(self._rng.choice(COUNTRIES))},
            )
            for i in range(count)
        ]
        self._people += count
        given = self.experiment.assign_many(people)
        chance = {"standard": 0.2, "discount": 0.8}
        self.experiment.record_many(
            [
                Report(
                    one.id,
                    float(self._rng.random() < chance.get(one.action, 0.3)),
                    float(self._rng.random() < complaints),
                )
                for one in given[: count - 5]
            ]
        )
        self.now += timedelta(hours=6)
        while self.experiment.advance():
            pass

    def app(self, **options):
        def open_experiment(name):
            if name != self.experiment.name:
                raise InputError(f"there is no experiment '{name}'")
            return self.experiment

        app = FastAPI()
        app.include_router(
            router_for(
                open_experiment,
                lambda: (self.experiment.name,),
                MemorySessions(lambda key: {self.experiment.name: "read"} if key == READ_KEY else {}),
                keep_seconds=0.0,
            )
        )
        return app


@pytest.fixture
def live(tmp_path):
    made = Live(tmp_path)
    yield made
    made.experiment.close()


def test_a_page_stands_from_the_first_moment(live):
    client = Client(live.app())
    client.post("/dashboard/sign-in", data={"key": READ_KEY})
    page = client.get("/dashboard/experiments/checkout").text
    check_sound(page)
    assert "Nothing is proven yet" in page
    check_sound(client.get("/dashboard").text)


@pytest.mark.slow
def test_a_page_follows_an_experiment_to_its_proof(live, browser):
    with Server(live.app()) as server:
        context = browser.new_context(base_url=server.address)
        try:
            page = context.new_page()
            said = []
            context.on("console", lambda message: said.append(message.text))
            page.clock.install()
            page.goto("/dashboard/sign-in")
            page.fill("#key", READ_KEY)
            page.keyboard.press("Enter")
            page.wait_for_url("**/dashboard")
            page.goto("/dashboard/experiments/checkout")
            assert page.locator("path.best").count() == 0
            curves, states = [], set()
            for _ in range(40):
                live.come(60)
                with page.expect_response("**/parts/checkout"):
                    page.clock.run_for(4_500)
                page.wait_for_function(
                    "people => document.getElementById('answer').textContent.includes(people)",
                    arg=f"{live.experiment.status().assigned:,}",
                )
                if page.locator("path.best").count():
                    curves.append(page.locator("path.best").get_attribute("d"))
                states.add(page.locator("#title .state").text_content())
                if "proven" in states:
                    break
            assert len(set(curves)) > 2  # it was redrawn while rewards flowed in
            assert states == {"collecting", "proven"}
            assert "Proven: " in page.locator(".headline").text_content()
            assert "discount" in page.locator("#rule").text_content()
            check_sound(page.request.get("/dashboard/experiments/checkout").text())
            assert said == []
        finally:
            context.close()


@pytest.mark.slow
def test_a_guardrail_that_pauses_is_on_the_page(live):
    client = Client(live.app())
    client.post("/dashboard/sign-in", data={"key": READ_KEY})
    for _ in range(20):
        live.come(50, complaints=0.5)
        if live.experiment.status().state == "paused":
            break
    page = client.get("/dashboard/experiments/checkout").text
    check_sound(page)
    assert ">paused</span>" in page
    assert "<p>Paused: complaint exceeds 5&nbsp;% over all" in page

"""An experiment that was played to its end, for all who look at its record."""

from __future__ import annotations

import pytest

from pacbandits.certificate import Certificate
from pacbandits.experiment.protocol import LateRule
from pacbandits.experiment.webhooks import Webhook
from tests.experiment.live import Played

NOTED_ROW = 150


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder of an export, the experiment, its certificate, which has leaders, and a head noted down meanwhile."""
    folder = tmp_path_factory.mktemp("sealed")
    late = LateRule("window", window_seconds=86400 * 1.5)
    options = {"epsilon": 0.18, "holdout": 0.05, "late": late, "policies": "trees:depth=2"}
    hooks = (Webhook("https://example.org/hook", secret="env:HOOK_SECRET"),)
    played = Played(folder / "e.db", options, webhooks=hooks)
    played.day(NOTED_ROW, told=0.9)
    noted = played.experiment.seal().head
    for _ in range(20):
        played.day(300, told=0.9)
        if played.advance()["state"] == "certified":
            break
    played.day(30)
    result = played.experiment.result()
    assert result.certified
    played.experiment.export(folder / "export.parquet")
    return folder, played, Certificate.from_json(result.certificate), noted


@pytest.fixture
def export(finished):
    return finished[0] / "export.parquet"

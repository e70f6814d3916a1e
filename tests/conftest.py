"""What tests share. Hypothesis: the same examples at every `make test`; more and new ones at every `make test-slow`."""

from __future__ import annotations

import gc
import os
import sys

import pytest
from hypothesis import HealthCheck, settings

from pacbandits import cli

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("PACBANDITS_HYPOTHESIS", "steady"))


def pytest_collection_finish() -> None:
    """What was collected stays: to look through it for garbage again and again takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command line in this process: exit code, standard output, standard error."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["pacbandits", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        out = capsys.readouterr()
        return code, out.out, out.err

    return call

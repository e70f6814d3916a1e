"""What tests share: how many examples Hypothesis tries, which cases are left to `make test-all`, the command line."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from pacbandits import cli
from tests.examples import PROFILE

# `make test` tries a few examples of each property and `make test-all` more, both always the same; "explore" draws new.
settings.register_profile("steady", derandomize=True, deadline=None, max_examples=12)
settings.register_profile("thorough", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(PROFILE)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases beyond the first n of a test as `thorough`, where it has the mark `first(n)`."""
    met: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("first")
        if mark is None or item.get_closest_marker("slow") or item.get_closest_marker("thorough"):
            continue
        function = item.nodeid.partition("[")[0]
        met[function] += 1
        if met[function] > mark.args[0]:
            item.add_marker("thorough")


def pytest_collection_finish() -> None:
    """What was collected stays: to look through it for garbage again and again takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(autouse=True, scope="session")
def cores():
    """No test may depend on the number of cores; with PACBANDITS_CORES this process seems to have so many."""
    with pytest.MonkeyPatch.context() as patch:
        if count := os.environ.get("PACBANDITS_CORES"):
            patch.setattr(os, "sched_getaffinity", lambda _process: set(range(int(count))), raising=False)
        yield


@pytest.fixture
def interruptible():
    """Children answer Ctrl-C even where these tests were told to ignore it, as in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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

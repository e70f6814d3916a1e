"""What tests of the dashboard share: a shop of experiments, and a browser where there is one."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.service.dashboard.serving import Shop
from tests.service.dashboard.statuses import all_of_them

HOW = "apt-get install chromium, and pip install 'pacbandits[test]' for playwright"


@pytest.fixture
def shop():
    return Shop(all_of_them())


@pytest.fixture(scope="module")
def browser():
    """Chromium of the system's packages, without a window. For one module: while it runs, nobody else has a loop."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip(f"pages are not tried in a browser: playwright is missing; {HOW}")
    if program is None:
        pytest.skip(f"pages are not tried in a browser: chromium is missing; {HOW}")
    with sync_playwright() as playwright:
        # Who runs tests as root, as containers do, has no sandbox.
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield running
        running.close()

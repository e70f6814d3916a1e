"""Killed at every step between write, flush and rename, alone and with others: nothing is lost, nothing is mixed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def kills(folder, *, stride):
    """How many kills did no harm, by what else went on."""
    script = ROOT / "tests" / "trials" / "killing.py"
    paths = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(
        [sys.executable, script, folder, str(stride)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    return Counter(line.split()[0] for line in done.stdout.splitlines())


@pytest.mark.thorough
def test_some_kills_do_no_harm(tmp_path):
    found = kills(tmp_path, stride=52)
    assert found.keys() == {"alone", "beside", "both", "another"}
    assert min(found.values()) >= 2


@pytest.mark.slow
def test_a_kill_at_any_step_does_no_harm(tmp_path):
    found = kills(tmp_path, stride=1)
    assert min(found[mode] for mode in ("alone", "beside", "both")) > 100
    assert found["another"] > 15

"""The two tiers of tests: which tests are in which; what `make test-all` does when time is short or a part fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import suite
from suite import FAST, SLOW, Part, parts, run_all

ROOT = Path(__file__).parent.parent


def python(code):
    return [[sys.executable, "-c", code]]


@pytest.fixture
def told(monkeypatch, tmp_path, capsys):
    """Run some parts: the exit code, and what became of each."""
    monkeypatch.setattr(suite, "LOGS", tmp_path)

    def run(*given, minutes=None):
        code = run_all(given, minutes=minutes)
        lines = capsys.readouterr().out.splitlines()
        return code, [line[:32].rstrip() for line in lines if line.startswith("part ")], lines

    return run


def part(name, code="pass", *, minutes=0.01, **options):
    return Part(f"part {name}", minutes, python(code), **options)


def test_a_failure_is_shown_and_does_not_stop_the_rest(told):
    code, found, lines = told(part("a"), part("b", "print('so it is'); raise SystemExit(3)"), part("c"))
    assert code == 1
    assert [line.split()[1:3] for line in found] == [["a", "passed"], ["b", "FAILED"], ["c", "passed"]]
    assert "    so it is" in lines
    assert lines[-1] == "parts: 2 passed, 1 failed, 0 skipped"


def test_parts_that_do_not_fit_are_left_out_and_named_and_required_ones_run(told):
    dear, must = part("dear", minutes=3), part("must", minutes=5, required=True)
    code, found, lines = told(part("cheap"), dear, must, minutes=2)
    assert code == 0
    assert [line.split()[1:3] for line in found] == [["cheap", "left"], ["dear", "left"], ["must", "passed"]]
    assert lines[-2] == "left out for lack of time: part cheap, part dear"
    code, found, _ = told(part("cheap"), dear, must, minutes=8.5)
    assert [line.split()[1:3] for line in found] == [["cheap", "passed"], ["dear", "passed"], ["must", "passed"]]


@pytest.mark.thorough
def test_a_part_that_takes_longer_than_is_left_is_ended(told):
    code, found, _ = told(part("endless", "import time; time.sleep(60)", minutes=0.0), minutes=0.02)
    assert code == 0
    assert found[0].split()[1:3] == ["endless", "left"]


def test_what_this_machine_cannot_do_is_skipped_with_the_reason(told):
    code, _, lines = told(part("card", why_not=lambda: "no CUDA card"))
    assert code == 0
    assert lines[0].split() == ["part", "card", "skipped", "no", "CUDA", "card"]


@pytest.mark.thorough
def test_cpu_seconds_count_those_of_children():
    work = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(10**7))'])"
    used, idle = (suite.measure(python(code)[0]) for code in (work, "import time; time.sleep(0.5)"))
    assert used.code == idle.code == 0
    assert used.cpu > idle.cpu
    assert idle.seconds >= 0.5


def test_every_slow_test_is_in_a_part():
    """By its folder, or in a part of its own."""
    places = [f"tests/{place}" for _, folders, _ in SLOW for place in folders]
    assert all((ROOT / place).exists() for place in places)
    own = ("tests/test_docs.py", "tests/test_figures.py")
    for path in (ROOT / "tests").rglob("test_*.py"):
        if re.search(r"mark\.slow\b", path.read_text(encoding="utf-8")) and path.name != "test_suite.py":
            assert str(path.relative_to(ROOT)).startswith((*places, *own)), path


def test_mutants_and_lowest_versions_always_run():
    assert {one.name for one in parts() if one.required} == {"mutants", "lowest versions"}
    assert parts()[0].name == "test"


@pytest.mark.thorough
def test_first_leaves_further_cases_to_the_second_tier(pytester_files):
    run = pytester_files(FAST)
    assert run == ["a[0]", "a[1]", "b"]
    assert pytester_files("thorough") == ["a[2]", "a[3]", "c"]


@pytest.fixture
def pytester_files(tmp_path):
    """Which of three tests are chosen by marks, in a process of its own with the tests' own settings."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.first(2)\n@pytest.mark.parametrize('x', range(4))\ndef test_a(x): pass\n"
        "def test_b(): pass\n"
        "@pytest.mark.thorough\ndef test_c(): pass\n"
    )

    def chosen(marks):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "conftest",
            "-c",
            ROOT / "pyproject.toml",
        ]
        done = subprocess.run(
            [*map(str, command), "-m", marks, "--rootdir", str(tmp_path), str(tmp_path / "test_it.py")],
            cwd=ROOT / "tests",
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT}"},
        )
        return [line.partition("::test_")[2] for line in done.stdout.splitlines() if "::" in line]

    return chosen

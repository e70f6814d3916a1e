"""Run the tests in two tiers: `make test` runs each behaviour once, `make test-all` runs everything.

    python tests/suite.py test                  what `make test` runs, from installation to tests
    python tests/suite.py all                   every part, cheapest first; a failure does not stop the rest
    python tests/suite.py all --minutes 45      the parts that fit, and always those marked as required
    python tests/suite.py all --only mutants    the parts whose name has this word
    python tests/suite.py all --skip test
    python tests/suite.py list                  the parts, with the minutes that each takes

Each part prints one line with its time and its CPU-seconds, which do not depend on what else the machine does. The
output of a part of `all` is in out/test-all/. This file uses the standard library alone: it installs what is needed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from environments import newest_python

ROOT = Path(__file__).parent.parent
ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / "bin"
LOGS = ROOT / "out" / "test-all"
TAIL_LINES = 30  # of a failed part's output that are printed
TIMED_OUT = 124
# As many processes as cores test at once; threads of theirs would only wait for one another.
PYTEST = [str(BIN / "pytest"), "-n", "auto", "--dist", "worksteal"]
CARD = ("tests/certificate/summed/test_on_card.py", "tests/engines", "tests/cli/test_engines.py")
# Slow tests by folder, with the minutes that they take.
SLOW = (
    ("certificate", ("certificate", "verifier"), 20),
    ("trials", ("trials", "planning"), 5),
    ("theory", ("paper", "realizable", "design", "complexity", "policies", "problems"), 5),
    ("rivals", ("algorithms", "rivals", "benchmark"), 3),
    ("service", ("service", "experiment", "engines", "cli"), 8),
    ("files", ("fuzz", "records", "exports", "logs", "test_machine_code.py"), 10),
)
# Asserts as they are: to rewrite them, so that they tell more, takes half a minute. What fails is run again with it.
PLAIN = ["--assert=plain"]
TESTS_FAILED = 1  # the exit code of pytest
FAST = "not slow and not thorough"
PASSED, FAILED, SKIPPED, LEFT_OUT = "passed", "FAILED", "skipped", "left out"


class Usage(NamedTuple):
    """The exit code of a command, its seconds by the clock, and the CPU-seconds of it and all its children."""

    code: int
    seconds: float
    cpu: float

    def then(self, other: Usage) -> Usage:
        """Both, one after the other."""
        return Usage(self.code or other.code, self.seconds + other.seconds, self.cpu + other.cpu)


class Part(NamedTuple):
    """A part of `make test-all`.

    name: one or two words.
    minutes: how long it takes on two idle cores of x86-64.
    commands: run in the root of the project, one after the other, until one fails.
    environment: variables for them.
    required: it runs whatever time is left.
    why_not: why it cannot run on this machine, or nothing.
    """

    name: str
    minutes: float
    commands: Sequence[Sequence[str]]
    environment: Mapping[str, str] = MappingProxyType({})
    required: bool = False
    why_not: Callable[[], str] = str


class Outcome(NamedTuple):
    """What became of a part."""

    name: str
    state: str
    words: str = ""


def measure(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] = MappingProxyType({}),
    out: int | None = None,
    limit: float | None = None,
) -> Usage:
    """Run a command in the root of the project; kill it and its children after `limit` seconds."""
    began = time.monotonic()
    variables = os.environ | {"OPENBLAS_NUM_THREADS": "1"} | dict(environment)
    # Where this is set, as in many containers, each of the tests' processes would compile all sources again.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=variables,
        stdout=out,
        stderr=out,
        stdin=subprocess.DEVNULL,
        start_new_session=limit is not None,
    )
    killed = False
    try:
        while limit is not None:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if not killed and time.monotonic() - began > limit:
                os.killpg(process.pid, signal.SIGKILL)
                killed = True
            time.sleep(0.2)
        else:
            _, status, used = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        raise
    process.returncode = TIMED_OUT if killed else os.waitstatus_to_exitcode(status)
    return Usage(process.returncode, time.monotonic() - began, used.ru_utime + used.ru_stime)


def make(target: str) -> list[str]:
    return ["make", "--no-print-directory", target]


# The first tier.


def run_test() -> int:
    """Install, lint, check types, compile and test; print what each took."""
    began = time.monotonic()
    rows = [("install", measure(make(".venv/.test")))]
    if rows[0][1].code == 0:
        with ThreadPoolExecutor() as pool:  # the linters leave a core idle, on which kernels and sources are compiled
            warm = pool.submit(measure, [str(BIN / "python"), "tests/warm_up.py", "tests"])
            rows += [(name, _said(command)) for name, command in LINT]
            rows.append(("compile", warm.result()))
    if not any(usage.code for _, usage in rows):
        rows.append(("test", _said([*PYTEST, *PLAIN, "-m", FAST])))
        if rows[-1][1].code == TESTS_FAILED:
            rows.append(("failed again", _said([str(BIN / "pytest"), "--last-failed", "-m", FAST])))
    rows.append(("in all", Usage(0, time.monotonic() - began, sum(usage.cpu for _, usage in rows))))
    print(f"\n{'part':18s}{'CPU-seconds':>12s}{'seconds':>10s}")
    for name, usage in rows:
        print(f"{name:18s}{usage.cpu:12.0f}{usage.seconds:10.0f}" + ("   FAILED" if usage.code else ""))
    return next((usage.code for _, usage in rows if usage.code), 0)


LINT = (
    ("lint", [str(BIN / "ruff"), "check", "."]),
    ("format", [str(BIN / "ruff"), "format", "--check", "."]),
    ("types", [str(BIN / "pyright"), "--pythonpath", str(BIN / "python")]),
    ("import contracts", [str(BIN / "lint-imports")]),
)


def _said(command: Sequence[str]) -> Usage:
    """Run a command after saying which."""
    print(" ".join([Path(command[0]).name, *command[1:]]), flush=True)
    return measure(command)


# The second tier.


def no_card() -> str:
    """Why card tests cannot run here, or nothing."""
    return "" if shutil.which("nvidia-smi") else "no CUDA card"


def no_newer_python() -> str:
    """Why the tests cannot run on a newer Python, or nothing."""
    return "" if newest_python() else "no Python newer than this one is installed"


def some(name: str, marks: str, *places: str, minutes: float) -> Part:
    """Some tests as a part, with all examples of properties."""
    commands = [make(".venv/.test"), [*PYTEST, "-m", marks, *(f"tests/{place}" for place in places)]]
    return Part(name, minutes, commands, {"PACBANDITS_HYPOTHESIS": "thorough"})


def parts() -> list[Part]:
    """Every part: the tests of `make test`, and then the cheapest first."""
    python, module = str(BIN / "python"), [str(BIN / "python"), "-m"]
    other = [sys.executable, "tests/environments.py", "machine"]
    every = [
        Part("test", 6, [make("test")]),
        Part("docs", 1, [make("docs")]),
        Part("wheel", 2, [make(".venv/.core"), [python, "tests/wheel.py"]]),
        some("tutorials", "thorough or slow", "test_docs.py", "test_readme.py", minutes=2),
        some("figures", "slow", "test_figures.py", minutes=3),
        Part("card", 5, [make(".venv/.gpu"), [str(BIN / "pytest"), *CARD]], why_not=no_card),
        Part("mutants", 20, [make(".venv/.test"), [*module, "tests.mutants"]], required=True),
        Part("lowest versions", 7, [[sys.executable, "tests/environments.py", "lowest"]], required=True),
        Part("newest Python", 7, [[sys.executable, "tests/environments.py", "newest"]], why_not=no_newer_python),
        Part("other machine", 5, [make(".venv/.test"), other, [*other, "-n", "auto", "tests/test_pinned_runs.py"]]),
        some("thorough", "not slow and (thorough or hypothesis)", minutes=10),
        *(some(f"slow {name}", "slow", *folders, minutes=minutes) for name, folders, minutes in SLOW),
    ]
    return sorted(every, key=lambda part: (part.name != "test", part.minutes))


def run_all(chosen: Sequence[Part], *, minutes: float | None = None) -> int:
    """Run the parts that fit into the time; go on after a failure; say what was left out; the exit code."""
    began = time.monotonic()
    LOGS.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    pace = 1.0  # this machine's minutes to those of the table
    for place, part in enumerate(chosen):
        left = float("inf") if minutes is None else 60 * minutes - (time.monotonic() - began)
        kept = sum(60 * pace * later.minutes for later in chosen[place + 1 :] if later.required)
        if words := part.why_not():
            outcomes.append(Outcome(part.name, SKIPPED, words))
        elif not part.required and 60 * pace * part.minutes > left - kept:
            words = f"takes {pace * part.minutes:.0f} minutes; {left / 60:.0f} are left"
            outcomes.append(Outcome(part.name, LEFT_OUT, words))
        else:
            limit = None if part.required or minutes is None else left - kept
            usage = _run_part(part, limit=limit)
            if part.name == "test":
                pace = max(1.0, usage.seconds / 60 / part.minutes)
            state = PASSED if usage.code == 0 else LEFT_OUT if usage.code == TIMED_OUT else FAILED
            outcomes.append(Outcome(part.name, state, f"{usage.seconds:6.0f} s {usage.cpu:8.0f} CPU-s"))
        _say(outcomes[-1])
    counted = {state: sum(one.state == state for one in outcomes) for state in (PASSED, FAILED, SKIPPED, LEFT_OUT)}
    print(f"left out for lack of time: {', '.join(one.name for one in outcomes if one.state == LEFT_OUT) or 'nothing'}")
    print(f"parts: {counted[PASSED]} passed, {counted[FAILED]} failed, {counted[SKIPPED] + counted[LEFT_OUT]} skipped")
    return 1 if counted[FAILED] else 0


def _run_part(part: Part, *, limit: float | None) -> Usage:
    """Run the commands of a part, its output in a file; print the end of it on failure."""
    log, usage = LOGS / f"{part.name.replace(' ', '-')}.log", Usage(0, 0.0, 0.0)
    with log.open("w") as out:
        for command in part.commands:
            left = None if limit is None else limit - usage.seconds
            usage = usage.then(measure(command, environment=part.environment, out=out.fileno(), limit=left))
            if usage.code:
                break
    if usage.code not in (0, TIMED_OUT):
        print("\n".join(f"    {line}" for line in log.read_text(errors="replace").splitlines()[-TAIL_LINES:]))
    return usage


def _say(outcome: Outcome) -> None:
    print(f"{outcome.name:22s}{outcome.state:10s}{outcome.words}", flush=True)


def main() -> int:
    """Read the arguments and run; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("tier", choices=["test", "all", "list"])
    parser.add_argument("--minutes", type=float, help="stop after about so many; required parts run all the same")
    parser.add_argument("--only", default="", help="the parts whose name has this word")
    parser.add_argument("--skip", default="", help="not the part of this name")
    given = parser.parse_args()
    if given.tier == "test":
        return run_test()
    if given.tier == "list":
        for part in parts():
            print(f"{part.name:22s}{part.minutes:6.0f} minutes" + (", required" if part.required else ""))
        return 0
    chosen = [part for part in parts() if given.only in part.name and part.name != given.skip]
    if not chosen:
        print(f"no part has '{given.only}' in its name; {', '.join(part.name for part in parts())} do exist")
        return 2
    return run_all(chosen, minutes=given.minutes)


if __name__ == "__main__":
    sys.exit(main())

"""How the command line starts and ends: exit codes of the real command, Ctrl-C at any moment, readers that go away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pacbandits
from pacbandits.cli import interruption

SCRIPT = Path(sys.executable).parent / "pacbandits"
MODULE = (sys.executable, "-m", "pacbandits")
LONG_RUN = ("run", "trees:actions=6,contexts=300", "--algorithm", "coda", "--epsilon", "0.02")


def finished(*arguments: str, **settings):
    return subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120, **settings)


def interrupted_while_importing(package: str) -> tuple[int, list[str]]:
    """Exit code and standard error of a command that gets Ctrl-C once some part of the package is imported."""
    words = LONG_RUN if package in ("numba", "scipy") else ("policies",)  # which needs neither
    command = [sys.executable, "-X", "importtime", *MODULE[1:], *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        lines = []
        for line in child.stderr:
            lines.append(line)
            if line.rpartition("|")[2].strip().startswith(package + "."):
                break
        child.send_signal(signal.SIGINT)
        lines += child.stderr
    return child.returncode, [line for line in lines if not line.startswith("import time:")]


@pytest.mark.thorough
@pytest.mark.skipif(not SCRIPT.exists(), reason="the command is not installed beside this Python")
@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["--version"], 0, pacbandits.__version__, ""),
        (["policies", "--jsn"], 2, "", "No such option"),
        (["verify", "missing.json", "x"], 2, "", "pacbandits: cannot read missing.json"),
        pytest.param([], 2, "verify", "", marks=pytest.mark.slow),
        pytest.param(["--help"], 0, "verify", "", marks=pytest.mark.slow),
        pytest.param(["verify"], 2, "", "Missing argument", marks=pytest.mark.slow),
        pytest.param(["verfy"], 2, "", "No such command", marks=pytest.mark.slow),
        pytest.param(["run", "hard", "--epsilon", "x"], 2, "", "--epsilon", marks=pytest.mark.slow),
        pytest.param(["run", "hrad"], 2, "", "did you mean 'hard'", marks=pytest.mark.slow),
        pytest.param(["run", "--help"], 0, "--epsilon", "", marks=pytest.mark.slow),
    ],
)
def test_the_installed_command_ends_as_it_says(arguments, code, out, err):
    done = finished(str(SCRIPT), *arguments)
    assert done.returncode == code
    assert (out in done.stdout) if out else done.stdout == ""
    assert (err in done.stderr) if err else done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["pacbandits", "pacbandits.cli"])
def test_the_package_runs_as_a_module(module):
    done = finished(sys.executable, "-m", module, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, pacbandits.__version__ + "\n", "")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    "package",
    ["typer", "numpy", *(pytest.param(name, marks=pytest.mark.slow) for name in ("numba", "scipy", "pyarrow"))],
)
def test_an_interruption_while_a_package_is_imported_is_one_line(package):
    code, lines = interrupted_while_importing(package)
    assert (code, lines) == (130, ["pacbandits: interrupted\n"])


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("milliseconds", range(0, 4000, 160))
def test_an_interruption_at_any_time_leaves_no_traceback(milliseconds):
    """From the moment that the package is in charge, while it imports, compiles, computes and ends."""
    program = "import sys, time\nfrom pacbandits.cli import main\nprint('ready', flush=True)\nmain()"
    command = [sys.executable, "-c", program, *LONG_RUN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        try:
            child.wait(timeout=0.02 + milliseconds / 1000)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Traceback" not in err
    assert err.endswith("pacbandits: interrupted\n") or "stopped early (interrupted)" in " ".join(out.split())


@pytest.mark.thorough
def calling(module: str, callee):
    """A function of a module of that name, which works for a quarter of a CPU-second and then calls on."""
    source = (
        "def call():\n"
        "    until = time.thread_time() + 0.25\n"  # not by the clock, which goes on where the machine stands still
        "    while time.thread_time() < until:\n"
        "        step()\n"
        "    return callee()\n"
        "def step(): pass\n"
    )
    names = {"__name__": module, "time": time, "callee": callee}
    exec(source, names)
    return names["call"]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("module", "patience", "reaches_us"),
    [
        ("scipy.optimize", 60, True),
        ("scipy.optimize", 0.05, False),
        ("numba.core.serialize", 60, True),
    ],
)
def test_an_interruption_is_raised_in_our_own_code_not_in_that_of_others(monkeypatch, module, patience, reaches_us):
    monkeypatch.setattr(interruption, "PATIENCE", patience)
    interruption.raise_from_now()
    reached = []
    ours = calling("pacbandits.somewhere", lambda: "not interrupted")
    theirs = calling(module, lambda: (reached.append(True), ours()))

    def start():
        signal.raise_signal(signal.SIGINT)
        return theirs()

    with pytest.raises(KeyboardInterrupt):
        start()
    assert bool(reached) == reaches_us


@pytest.mark.usefixtures("interruptible")
def test_who_waits_for_a_compiler_leaves_at_once(monkeypatch):
    """An exception in code that machine code calls is swallowed, or ends in a crash."""
    monkeypatch.setattr(interruption, "PATIENCE", 0.05)
    monkeypatch.setattr(interruption, "_leave", lambda number, frame: sys.exit(interruption.INTERRUPTED))
    interruption.raise_from_now()
    compiling = calling("llvmlite.binding.executionengine", lambda: None)

    def start():
        signal.raise_signal(signal.SIGINT)
        compiling()

    with pytest.raises(SystemExit, match="130"):
        start()


@pytest.mark.usefixtures("interruptible")
def test_who_ignores_interruptions_goes_on():
    """As under nohup."""
    program = (
        "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nfrom pacbandits.cli import main\n"
        "from pacbandits.cli.interruption import raise_from_now\n"
        "import atexit; atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\nraise_from_now()\nmain()"
    )
    done = finished(sys.executable, "-c", program, "--version")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2")])
def test_a_command_has_one_thread_of_linear_algebra_unless_more_are_asked_for(monkeypatch, given, threads):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    program = (
        "import os, sys\nfrom pacbandits import cli\nassert 'numpy' not in sys.modules\nsys.argv = ['', '--version']\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    print(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    assert finished(sys.executable, "-c", program).stdout.split()[-1] == threads


def test_version_and_help_load_no_library_that_takes_long():
    """A command imports what it needs when it runs."""
    program = (
        "import sys\nimport pacbandits.cli.application\n"
        "print([name for name in ('matplotlib', 'numba', 'numpy', 'pyarrow', 'scipy') if name in sys.modules])"
    )
    assert finished(sys.executable, "-c", program).stdout == "[]\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        *(pytest.param(words, marks=pytest.mark.slow) for words in (["--help"], ["policies"], ["policies", "--json"])),
    ],
)
def test_a_reader_that_goes_away_is_no_error_of_ours(arguments):
    gone, output = os.pipe()
    os.close(gone)
    try:
        done = subprocess.run([*MODULE, *arguments], stdout=output, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(output)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to offer")
@pytest.mark.parametrize("arguments", [["--version"], ["policies"], ["policies", "--json"]])
def test_a_full_disk_is_one_line(arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*MODULE, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "pacbandits: cannot write the output: No space left on device\n"

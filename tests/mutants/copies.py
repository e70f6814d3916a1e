"""A copy of the code to change, and whether tests of it fail."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.table import Mutant

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pacbandits"
MAX_SECONDS_A_TEST = 600
PYTEST_PASSED, PYTEST_FAILED = 0, 1  # any other exit code means that the tests did not run, but these:
CRASHED = (-signal.SIGABRT, -signal.SIGBUS, -signal.SIGSEGV)  # a change that reads beyond an array may end so


@cache
def text_of(path: Path) -> str:
    """What a file says."""
    return path.read_text(encoding="utf-8")


def fault(mutant: Mutant) -> str:
    """Why the change cannot be made, or nothing."""
    path = PACKAGE / mutant.file
    if not path.is_file():
        return f"there is no file {mutant.file}"
    found = text_of(path).count(mutant.text)
    if found != 1:
        return f"'{mutant.text}' stands in {mutant.file} {found} times, and must once"
    if mutant.text == mutant.instead:
        return "nothing is changed"
    return next((words for test in mutant.tests.split() if (words := _missing(test))), "")


def _missing(test: str) -> str:
    """Why there is no such test, or nothing."""
    path, _, name = test.partition("::")
    file = ROOT / "tests" / path
    if not file.is_file():
        return f"there is no tests/{path}"
    function = name.partition("[")[0]
    return "" if not name or f"def {function}(" in text_of(file) else f"there is no test {test}"


class Copy:
    """A copy of the package in a folder of its own, with the machine code that was compiled before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(PACKAGE, folder / "pacbandits")

    @contextmanager
    def changed(self, mutant: Mutant) -> Generator[None]:
        """The copy with the change, and afterwards without, as if it had never been."""
        path, kept = self.folder / "pacbandits" / mutant.file, self.folder / "kept"
        shutil.copy2(path, kept)
        path.write_text(text_of(PACKAGE / mutant.file).replace(mutant.text, mutant.instead), encoding="utf-8")
        try:
            yield
        finally:
            shutil.copy2(kept, path)  # with its time: what was compiled of it is valid again

    def run(self, tests: Sequence[str], *, fresh: bool) -> tuple[int, str]:
        """The exit code and the last words of pytest on the copy; fresh: without the machine code from before."""
        limit = MAX_SECONDS_A_TEST * len(tests)
        with TemporaryDirectory() as cache:
            environment = os.environ | {
                "PYTHONPATH": str(self.folder),
                "PYTHONDONTWRITEBYTECODE": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "PACBANDITS_HYPOTHESIS": "thorough",
            }
            if fresh:
                environment["NUMBA_CACHE_DIR"] = cache
            command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider"]
            marks = ["-m", "not slow", *(f"tests/{test}" for test in tests)]
            try:
                done = subprocess.run(
                    [*command, *marks],
                    cwd=ROOT,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=limit,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return -1, f"no end after {limit} seconds"
        return done.returncode, "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])


def has_kernels(mutant: Mutant) -> bool:
    """Whether the change may reach code that is compiled, and compiled into others' too."""
    return "@kernel" in text_of(PACKAGE / mutant.file)

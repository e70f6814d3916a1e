"""How far a reader walks: the files that each command enters, and how often it comes back to one.

A reader follows a command through the code and reads every function when it is first called. A step into a file that
was not read before enters it; a step back into one that was left is a return. Of two layouts that do the same, the one
with fewer of both, and with fewer files to pass over in the folders on the way, is the easier to live in.

    python -m benchmarks.walks
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pacbandits

HOME = Path(pacbandits.__file__).parent
PROBLEM = "trees:actions=4,features=3,contexts=300,bins=6"


@dataclass(frozen=True)
class Walk:
    """What a reader comes by.

    functions: read on the way.
    files, folders: entered.
    returns: to files that were left.
    beside: files that stand in the folders entered and have no part in the walk.
    """

    functions: int
    files: int
    returns: int
    folders: int
    beside: int


def walk(task: Callable[[], object]) -> Walk:
    """The walk through what a task calls; calls within other threads, which run kernels alone, are not followed."""
    seen: set[Any] = set()
    steps: list[str] = []

    def follow(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code not in seen and code.co_filename.startswith(str(HOME)):
            seen.add(code)
            if code.co_name not in ("<module>", "<genexpr>", "<listcomp>", "<dictcomp>", "<lambda>"):
                steps.append(code.co_filename)

    sys.setprofile(follow)
    try:
        task()
    finally:
        sys.setprofile(None)
    entered: set[str] = set()
    returns = 0
    for last, here in zip(["", *steps], steps, strict=False):
        returns += here != last and here in entered
        entered.add(here)
    folders = {Path(file).parent for file in entered} - {HOME}
    rooms = {str(file) for folder in folders for file in folder.glob("*.py") if file.name != "__init__.py"}
    return Walk(len(steps), len(entered), returns, len(folders), len(rooms - entered))


def command(*words: str) -> Callable[[], None]:
    """A command line as a task, its words kept to itself."""
    from pacbandits.cli.application import app

    def task() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            app(list(words))

    return task


def main() -> None:
    """Print the walks of the four main commands."""
    with tempfile.TemporaryDirectory() as folder:
        proof, log = f"{folder}/proof.json", f"{folder}/log.parquet"
        some = ("--epsilon", "0.2", "--delta", "0.1")
        commands = {
            "run": ("run", PROBLEM, *some, "--certificate", proof, "--log", log),
            "certify": ("certify", log, "--policies", "trees:bins=6", *some),
            "complexity": ("complexity", PROBLEM, *some),
            "verify": ("verify", proof, log),
        }
        command(*commands["run"])()  # so that nothing is compiled or imported on the way
        print(f"{'command':<12}{'functions':>10}{'files':>7}{'returns':>9}{'folders':>9}{'files beside':>14}")
        for name, words in commands.items():
            found = walk(command(*words))
            print(
                f"{name:<12}{found.functions:>10}{found.files:>7}{found.returns:>9}{found.folders:>9}{found.beside:>14}"
            )


if __name__ == "__main__":
    main()

"""Every table and picture of the documentation, made anew by its own command.

python -m benchmarks.figures                          all of them: hours
python -m benchmarks.figures --cheap                  those that take seconds
python -m benchmarks.figures docs/realizable.md       those of these pages
python -m benchmarks.figures --only claims            those whose command has this word
python -m benchmarks.figures … --check                compare only, and change nothing
python -m benchmarks.figures … --list                 tell which there are

Pages say themselves which command makes what: `benchmarks.markers` tells how. Who adds a table adds its marker.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from benchmarks.markers import ROOT, Figure, compare, fill, pages, read_figures

# One thread of linear algebra: sums are then in the same order everywhere, and figures the same to the digit.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}"}
PROGRAMS = {"python": [sys.executable], "pacbandits": [sys.executable, "-m", "pacbandits.cli"]}


@cache
def printed_by(command: str, timeout: float | None = None) -> str:
    """What a command prints, in the root of the project; pictures it writes by itself."""
    program, *words = shlex.split(command)
    if program not in PROGRAMS:
        raise ValueError(f"'{command}' should begin with {' or '.join(PROGRAMS)}")
    call = [*PROGRAMS[program], *words]
    environment = os.environ | ENVIRONMENT
    done = subprocess.run(
        call, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8", timeout=timeout
    )
    return done.stdout


def made_by_commands(of: list[Path] | None = None) -> list[Figure]:
    """All marked figures that a command makes, of all pages or of some."""
    return [figure for page in of or pages() for figure in read_figures(page) if figure.kind != "kept"]


def remake(figure: Figure) -> None:
    """Run a figure's command, and write what it prints into the page."""
    printed = printed_by(figure.command)
    if figure.kind == "picture":
        return
    here = read_figures(figure.page)[figure.place]  # what stands before it may have grown
    text = figure.page.read_text(encoding="utf-8")
    figure.page.write_text(fill(text, here, printed), encoding="utf-8")


def check(figure: Figure, *, timeout: float | None = None) -> list[str]:
    """What differs from the page now; nothing for pictures, whose pixels are the drawing library's affair."""
    if figure.kind == "picture":
        return []
    return compare(figure, figure.page.read_text(encoding="utf-8"), printed_by(figure.command, timeout))


def main() -> int:
    """Remake, compare or list; 1 if anything differs."""
    parser = argparse.ArgumentParser(description="Make the tables and pictures of the documentation anew.")
    parser.add_argument("pages", nargs="*", type=Path, help="these pages only")
    parser.add_argument("--cheap", action="store_true", help="only what takes seconds")
    parser.add_argument("--only", default="", metavar="WORD", help="only commands with this word")
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    parser.add_argument("--list", action="store_true", help="tell which there are, and run nothing")
    asked = parser.parse_args()
    chosen = [
        figure
        for figure in made_by_commands([page.resolve() for page in asked.pages])
        if asked.only in figure.command and not (asked.cheap and figure.dear)
    ]
    faults: list[str] = []
    for figure in chosen:
        if asked.list:
            print(f"{figure.kind:<8}{figure.dear or 'seconds':<16}{figure.name}")
            continue
        began = time.perf_counter()
        if asked.check:
            faults += [f"{figure.name}: {fault}" for fault in check(figure)]
        else:
            remake(figure)
        print(f"{time.perf_counter() - began:6.1f} s  {figure.name}", file=sys.stderr, flush=True)
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

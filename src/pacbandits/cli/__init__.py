"""The command line: a thin layer over the package.

Importing it imports next to nothing, so that Ctrl-C works from the start; each command imports what it needs when it
runs, and `--help` and `--version` answer at once.
"""

from __future__ import annotations

import os

from pacbandits.cli.interruption import leave_at_once

__all__ = ["main"]

# Products of small matrices on several threads, which wait for one another, took twice the time of one (`digits`).
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> None:
    """Run the command line and exit with its code."""
    leave_at_once()
    for library in ONE_THREAD:  # read when numpy is imported
        os.environ.setdefault(library, "1")
    from pacbandits.cli.application import answer

    answer()

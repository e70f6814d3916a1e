"""The command line: a thin layer over the package.

Importing it imports next to nothing, so that Ctrl-C works from the start; each command imports what it needs when it
runs, and `--help` and `--version` answer at once.
"""

from __future__ import annotations

from pacbandits.cli.interruption import leave_at_once

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    leave_at_once()
    from pacbandits.cli.application import answer

    answer()

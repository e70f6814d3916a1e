"""The command line: a thin shell over the package.

Importing it imports next to nothing, so that Ctrl-C is answered from the first moment; what a command needs is imported
when it runs, and `--help` and `--version` answer at once.
"""

from __future__ import annotations

from pacbandits.cli.interruption import leave_at_once

__all__ = ["main"]


def main() -> None:
    """Run the command line and leave, with its exit code."""
    leave_at_once()
    from pacbandits.cli.application import answer

    answer()

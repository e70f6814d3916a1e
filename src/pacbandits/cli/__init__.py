"""The command line: a thin shell over the package.

What a command needs is imported when it runs: `--help` and `--version` answer at once.
"""

from __future__ import annotations

import sys

from pacbandits.cli import certifying as _certifying
from pacbandits.cli import listing as _listing
from pacbandits.cli import measuring as _measuring
from pacbandits.cli import running as _running
from pacbandits.cli import verifying as _verifying
from pacbandits.cli.shared import BAD_INPUT, INTERRUPTED, app
from pacbandits.errors import InputError

__all__ = ["app", "main"]
# Importing them puts their commands into the application.
_commands = (_running, _certifying, _verifying, _measuring, _listing)


def main() -> None:
    """Run the command line; bad input ends in one line and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"pacbandits: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        print("pacbandits: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)

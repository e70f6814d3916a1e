"""The application with all commands; each ends with an exit code and at most one line, never a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from pacbandits.cli import apply as _applying
from pacbandits.cli import bench as _benching
from pacbandits.cli import catalogue as _listing
from pacbandits.cli import certify as _certifying
from pacbandits.cli import complexity as _measuring
from pacbandits.cli import drive as _driving
from pacbandits.cli import evaluate as _evaluating
from pacbandits.cli import experiment as _experiments
from pacbandits.cli import plan as _planning
from pacbandits.cli import report as _reporting
from pacbandits.cli import run as _running
from pacbandits.cli import serve as _serving
from pacbandits.cli import verify as _verifying
from pacbandits.cli.console import BAD_INPUT, UNREAD, app
from pacbandits.cli.interruption import INTERRUPTED, leave_at_once
from pacbandits.errors import InputError, spelling_options

__all__ = ["answer", "app"]
# Importing these modules registers their commands.
_commands = (_planning, _running, _experiments, _driving, _serving, _certifying, _evaluating, _verifying, _applying)
_more_commands = (_measuring, _benching, _reporting, _listing)


def answer() -> None:
    """Run the command and exit."""
    try:
        app()
    except OSError as error:
        _leave_unwritten(error)
    finally:
        _flush()


def _ending_well(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with its errors handled: typer's own handling differs between its versions."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        with spelling_options():
            try:
                command(*arguments, **options)
            except InputError as error:
                print(f"pacbandits: {error}", file=sys.stderr)
                sys.exit(BAD_INPUT)
            except KeyboardInterrupt:
                leave_at_once()
                print("pacbandits: interrupted", file=sys.stderr)
                sys.exit(INTERRUPTED)

    return run


def _flush() -> None:
    """Flush standard output while an error can still be reported in one line."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        _leave_unwritten(error)


def _leave_unwritten(error: OSError) -> None:
    """Exit quietly if the reader of the output has gone, with one line if the disk is full; else raise the error."""
    if error.errno not in (errno.EPIPE, errno.ENOSPC):
        raise error
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # else the interpreter would flush, and fail, once more
    if error.errno == errno.EPIPE:
        sys.exit(UNREAD)
    print(f"pacbandits: cannot write the output: {os.strerror(error.errno)}", file=sys.stderr)
    sys.exit(BAD_INPUT)


for _group in (app, _experiments.experiments, _experiments.webhooks):
    for _one in _group.registered_commands:
        if _one.callback is not None:
            _one.callback = _ending_well(_one.callback)

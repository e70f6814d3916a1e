"""Errors as server logs tell them: their kind, place and reason, without data."""

from __future__ import annotations

import traceback

from pacbandits.errors import InputError, one_line
from pacbandits.experiment.database import ClockSkew
from pacbandits.experiment.extra import exc

MAX_FRAMES = 8


def describe_failure(error: BaseException) -> dict[str, object]:
    """Return the fields of a log line about an unexpected error.

    The reason is given where it holds no data: of a database that fails, and of clocks; the messages of other errors
    may quote rows.
    """
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
    told: dict[str, object] = {"error": type(error).__name__, "places": places}
    reason = reason_of(error)
    return told | {"reason": reason} if reason else told


def reason_of(error: BaseException) -> str:
    """Return why an error occurred, in a line; empty if that could quote data."""
    if isinstance(error, ClockSkew):
        return str(error)
    if isinstance(error, exc.OperationalError | exc.InterfaceError):
        return one_line(str(error.orig).partition("\n")[0])
    if isinstance(error, OSError) and not isinstance(error, InputError):
        return one_line(error.strerror or "")
    return ""

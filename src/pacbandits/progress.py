"""How long computations say what they are doing: one line of words at a time, to whoever listens."""

from __future__ import annotations

from collections.abc import Callable

from pacbandits.checks import function

Progress = Callable[[str], None]


def silent(_: str) -> None:
    """Nobody listens."""


def listener(progress: Progress | None) -> Progress:
    """Who listens, if anybody does."""
    if progress is None:
        return silent
    function(progress, name="progress")
    return progress


def prefixed(tell: Progress, what: str) -> Progress:
    """The same listener, told of what the words belong to."""
    return lambda text: tell(f"{what}: {text}")

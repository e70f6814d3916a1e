"""Report the progress of long computations, one line of text at a time.

Most functions take a callback as an argument. Code too deep to be passed one uses a context variable: `heard_by` sets
the callback, and `count_aloud` reports to it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from time import monotonic

from pacbandits.checks import function

Progress = Callable[[str], None]

SECONDS_BETWEEN_WORDS = 0.2

_hearer: ContextVar[tuple[Progress, float] | None] = ContextVar("hearer", default=None)


def silent(_: str) -> None:
    """Ignore the message."""


def listener(progress: Progress | None) -> Progress:
    """Return the callback, or `silent` if there is none; raise InputError if it is not callable."""
    if progress is None:
        return silent
    function(progress, name="progress")
    return progress


def prefixed(tell: Progress, what: str) -> Progress:
    """Return a callback that puts `what` and a colon before each message."""
    return lambda text: tell(f"{what}: {text}")


@contextmanager
def heard_by(tell: Progress, *, every_seconds: float = SECONDS_BETWEEN_WORDS) -> Generator[None]:
    """Within this context `count_aloud` and searches report to `tell`, at most once per `every_seconds`."""
    before = _hearer.set((tell, every_seconds))
    try:
        yield
    finally:
        _hearer.reset(before)


def hearer() -> tuple[Progress, float] | None:
    """Return the callback of `heard_by` and the seconds between its messages; None outside that context."""
    return _hearer.get()


def count_aloud(what: str, count: int) -> Callable[[], None]:
    """Return a function to call, from any thread, when one of `count` pieces is done; it reports the count."""
    hearer = _hearer.get()
    if hearer is None:
        return _nothing
    tell, seconds = hearer
    lock, done, last = Lock(), 0, monotonic()

    def one_more() -> None:
        nonlocal done, last
        with lock:
            done += 1
            now = monotonic()
            if now - last >= seconds:
                last = now
                tell(f"{what} {done:,} of {count:,}")

    return one_more


def _nothing() -> None:
    """Report nothing."""

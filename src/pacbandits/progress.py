"""How long computations say what they are doing: one line of words at a time, to whoever listens.

Most are handed their listener. What lies deep below, where nobody hands one down, is overheard: `heard_by` says who
hears it, and `count_aloud` is how it speaks.
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

_hearer: ContextVar[Progress | None] = ContextVar("hearer", default=None)


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


@contextmanager
def heard_by(tell: Progress) -> Generator[None]:
    """Within this, searches are overheard."""
    before = _hearer.set(tell)
    try:
        yield
    finally:
        _hearer.reset(before)


def count_aloud(what: str, count: int) -> Callable[[], None]:
    """To be called whenever one of `count` pieces is done, from any thread; now and then it says how many are."""
    tell = _hearer.get()
    if tell is None:
        return _nothing
    lock, done, last = Lock(), 0, monotonic()

    def one_more() -> None:
        nonlocal done, last
        with lock:
            done += 1
            due = monotonic() - last >= SECONDS_BETWEEN_WORDS
            if due:
                last = monotonic()
                tell(f"{what} {done:,} of {count:,}")

    return one_more


def _nothing() -> None:
    """Nobody hears it."""

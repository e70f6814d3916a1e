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

_hearer: ContextVar[tuple[Progress, float] | None] = ContextVar("hearer", default=None)


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
def heard_by(tell: Progress, *, every_seconds: float = SECONDS_BETWEEN_WORDS) -> Generator[None]:
    """Within this, searches are overheard, but no more often than that."""
    before = _hearer.set((tell, every_seconds))
    try:
        yield
    finally:
        _hearer.reset(before)


def hearer() -> tuple[Progress, float] | None:
    """Who overhears searches, and how many seconds there should be between words; nobody by default."""
    return _hearer.get()


def count_aloud(what: str, count: int) -> Callable[[], None]:
    """To be called whenever one of `count` pieces is done, from any thread; now and then it says how many are."""
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
    """Nobody hears it."""

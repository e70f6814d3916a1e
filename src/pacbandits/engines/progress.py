"""How far a sum over rows has come, and when it will be done."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic

from pacbandits.progress import hearer

MIN_FORETOLD_SECONDS = 2.0  # since the start, before which nobody could say


def count_rows_aloud(what: str, n_rows: int, *, started: float) -> Callable[[int], None]:
    """To be called with the rows of each block that is done, from any thread; now and then it says how many are.

    started: when, by `time.monotonic`.
    """
    heard = hearer()
    if heard is None:
        return _nothing
    tell, seconds = heard
    lock, rows, last = Lock(), 0, started

    def more(count: int) -> None:
        nonlocal rows, last
        with lock:
            rows += count
            now = monotonic()
            if now - last < seconds:
                return
            last, spent = now, now - started
            left = spent * (n_rows - rows) / rows
            when = f", about {left:,.0f} s left" if spent >= MIN_FORETOLD_SECONDS else ""
            tell(f"{what}: {rows:,} of {n_rows:,} rows{when}")

    return more


def _nothing(count: int) -> None:
    """Nobody hears it."""

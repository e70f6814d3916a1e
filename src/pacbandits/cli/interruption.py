"""Ctrl-C: one line and an end while a command starts or stops, an exception that can be caught while it computes."""

from __future__ import annotations

import _thread
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

INTERRUPTED = 130

PAUSE = 0.005  # seconds until the next try, where an exception would do harm
PATIENCE = 1.0  # seconds after which it is raised in the code of other packages too
# Machine code calls these and does not look for exceptions: one would be swallowed, or end in a crash.
_NEVER = ("numba", "llvmlite")

_asked_since: float | None = None


def leave_at_once() -> None:
    """From now on Ctrl-C ends this process.

    An exception in the middle of an import would be swallowed, or end in a traceback of somebody else's.
    """
    _answer_by(_leave)


def raise_from_now() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt, so that what is known by then can be told and saved.

    It is raised in our own code. Other packages may swallow it, or crash. Who waits for a compiler leaves at once.
    """
    _answer_by(_raise)


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise where this package is at work; elsewhere ask again a little later, from a thread that holds no lock."""
    global _asked_since
    now = time.monotonic()
    since = now if _asked_since is None else _asked_since
    package = "" if frame is None else str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if package in ("pacbandits", "__main__") or (now - since > PATIENCE and package not in _NEVER):
        _asked_since = None
        raise KeyboardInterrupt
    if now - since > PATIENCE:
        _leave(number, frame)
    _asked_since = since
    _thread.start_new_thread(_ask_again, (number,))


def _ask_again(number: int) -> None:
    time.sleep(PAUSE)
    signal.raise_signal(number)


def _leave(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"pacbandits: interrupted\n")
    finally:  # also when nobody is there to read it
        os._exit(INTERRUPTED)


def _answer_by(handler: Callable[[int, FrameType | None], object]) -> None:
    """Unless whoever started us wants Ctrl-C ignored, or has an answer of their own."""
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, _leave, _raise):
        return
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:  # only the main thread may
        return

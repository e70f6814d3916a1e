"""Ctrl-C: exit with one line while a command starts or stops, and a KeyboardInterrupt while it computes."""

from __future__ import annotations

import _thread
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

INTERRUPTED = 130

PAUSE = 0.005  # seconds until the next attempt, where an exception would do harm
PATIENCE = 1.0  # seconds after which it is raised in the code of other packages too
# Compiled code calls these and does not check for exceptions: one would be swallowed, or crash the process.
_NEVER = ("numba", "llvmlite")

_asked_since: float | None = None


def leave_at_once() -> None:
    """From now on, Ctrl-C ends this process.

    An exception in the middle of an import would be swallowed, or end in a traceback from another package.
    """
    _answer_by(_leave)


def raise_from_now() -> None:
    """From now on, Ctrl-C raises KeyboardInterrupt, so that results so far can be reported and saved.

    It is raised in our own code, as other packages may swallow it or crash; after `PATIENCE` it is raised there too,
    but in a compiler the process exits.
    """
    _answer_by(_raise)


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise in code of this package; elsewhere try again shortly, from a thread that holds no lock."""
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
    finally:  # also if standard error is closed
        os._exit(INTERRUPTED)


def _answer_by(handler: Callable[[int, FrameType | None], object]) -> None:
    """Install a handler, unless the parent process ignores Ctrl-C or other code has installed one."""
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, _leave, _raise):
        return
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:  # only the main thread may install one
        return

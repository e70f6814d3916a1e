"""Ctrl-C: one line and an end while a command starts or stops, an exception that can be caught while it computes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

INTERRUPTED = 130


def leave_at_once() -> None:
    """From now on Ctrl-C ends this process.

    An exception in the middle of an import would be swallowed, or end in a traceback of somebody else's.
    """
    _answer_by(_leave)


def raise_from_now() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt, so that what is known by then can be told and saved."""
    _answer_by(signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"pacbandits: interrupted\n")
    finally:  # also when nobody is there to read it
        os._exit(INTERRUPTED)


def _answer_by(handler: Callable[[int, FrameType | None], object]) -> None:
    """Unless whoever started us wants Ctrl-C ignored, or has an answer of their own."""
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, _leave):
        return
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:  # only the main thread may
        return

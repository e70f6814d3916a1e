"""Report the progress of long computations, one line of text at a time; show results in notebooks.

Most functions take a callback as an argument. Code too deep to be passed one uses a context variable: `heard_by` sets
the callback, and `count_aloud` reports to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from importlib import import_module
from threading import Lock
from time import monotonic

from pacbandits.checks import function
from pacbandits.errors import one_line

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


# Notebooks: a result as a document, and a line of progress below the cell.


class Displayed:
    """A result that a notebook shows as a document."""

    def _repr_html_(self) -> str:
        # Documents stand above all results in the layers, and are imported only when a notebook asks for one.
        return import_module("pacbandits.report").to_html(self)


@contextmanager
def show_progress() -> Generator[Progress]:
    """Show progress on one line while this context lasts: below the cell in a notebook, or in a terminal.

    It yields the function to pass as `progress`. If standard error is a file or a pipe, nothing is shown.

    >>> import pacbandits as pb
    >>> with pb.show_progress() as progress:
    ...     progress("certifying 60,000 interactions")
    """
    with ExitStack() as stack:
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        if shell is not None and hasattr(shell, "kernel"):
            line = import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)
            update: Progress = lambda text: line.update({"text/plain": text}, raw=True)  # noqa: E731
            stack.callback(update, "")
        elif sys.stderr.isatty():
            console = import_module("rich.console").Console(stderr=True, markup=False, emoji=False)
            update = stack.enter_context(console.status("")).update
        else:
            update = silent
        doing = ""

        def tell(text: str) -> None:
            nonlocal doing
            doing = one_line(text)
            update(doing)

        stack.enter_context(heard_by(lambda text: update(f"{doing} ({one_line(text)})")))
        yield tell

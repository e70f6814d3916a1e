"""Errors that a user can act on, and the words they are made of."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """The input is wrong; the message is one line that names the bad value and the remedy."""


def plain(value: object, *, most: int = 80) -> str:
    """The value as text on one line, printable and of at most so many characters, whatever was given."""
    text = "".join(c if c.isprintable() else "?" for c in " ".join(str(value).split()))
    return text if len(text) <= most else f"{text[: most - 3]}…"


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` when a known name is close to `name`, then the list of known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"{hint} (known: {', '.join(names)})"

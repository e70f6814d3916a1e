"""Errors that a user can act on, and the words they are made of."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_NAMES_SHOWN = 40
_MOST_CHARACTERS_SHOWN = 300


class InputError(ValueError):
    """The input is wrong; the message is one line that names the bad value and the remedy."""


def plain(value: object, *, most: int = 80) -> str:
    """The value as text on one line, printable and of at most so many characters, whatever was given."""
    given = str(value)[: 4 * most]  # a part of it may be space
    text = "".join(c if c.isprintable() else "?" for c in " ".join(given.split()))
    return text if len(text) <= most and len(given) < 4 * most else f"{text[: most - 3]}…"


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` when a known name is close to `name`, then the known names, not too many of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean '{plain(close[0])}'?" if close else ""
    shown = ", ".join(plain(one, most=40) for one in names[:_MOST_NAMES_SHOWN])
    more = f" and {len(names) - _MOST_NAMES_SHOWN:,} more" if len(names) > _MOST_NAMES_SHOWN else ""
    return f"{hint} (known: {plain(shown, most=_MOST_CHARACTERS_SHOWN)}{more})"

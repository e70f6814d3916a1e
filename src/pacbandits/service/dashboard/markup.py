"""HTML made of parts: whatever is text is escaped, whatever is markup was made here.

Nothing else writes a `<`: so that a name of somebody's, however hostile, is only ever shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape

from pacbandits.errors import visible

_UNIT = re.compile(r"(\d) %")  # a figure and its unit stay on one line
VOID = frozenset(("br", "input", "link", "meta"))


@dataclass(frozen=True)
class Html:
    """Markup that is ready to be sent.

    text: the markup.
    """

    text: str


Inside = Html | str | None
Attribute = str | int | float | bool | None


def tag(element: str, /, *inside: Inside | Iterable[Inside], **attributes: Attribute) -> Html:
    """An element around what is given: text is escaped, markup kept, None left out.

    Attributes are named as in HTML with _ for -, and one at the end where Python has the word for itself: class_. None
    and False leave one out, True gives one without a value.
    """
    head = element + "".join([_attribute(key, value) for key, value in attributes.items()])
    return Html(f"<{head}>" if element in VOID else f"<{head}>{join(*inside).text}</{element}>")


def join(*inside: Inside | Iterable[Inside]) -> Html:
    """Parts one after the other."""
    return Html("".join(map(_shown, inside)))


def _shown(inside: Inside | Iterable[Inside]) -> str:
    if inside is None:
        return ""
    if isinstance(inside, Html):
        return inside.text
    if isinstance(inside, str):
        return _UNIT.sub(r"\1&nbsp;%", safe(inside)) if " %" in inside else safe(inside)
    return "".join(map(_shown, inside))


def safe(text: str) -> str:
    """Text for HTML, without what could hide or turn around what stands beside it."""
    return escape(visible(text))


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    return f" {_name(key)}" if value is True else f' {_name(key)}="{safe(str(value))}"'


@cache
def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def part(name: str, title: str, *inside: Inside | Iterable[Inside]) -> Html:
    """A part of a page with its heading; the script replaces it when it changes."""
    return tag("section", tag("h2", title, id=f"{name}-title"), *inside, id=name, aria_labelledby=f"{name}-title")


def scrolled(table: Html, title: str) -> Html:
    """A table that may be wider than a phone: it moves by itself, with keys as well."""
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=title)

"""How our docstrings become pages: fields become a list, and examples become code.

    name: what it is.
    other, another: what they are, which may go on
        in the next line.

    >>> an_example()

Everything else in a docstring is Markdown already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from griffe import Class, Extension, Function, Module, Object

NAMES = r"\*{0,2}[a-zA-Z_]\w*(?:, \*{0,2}[a-zA-Z_]\w*)*"
# `name: …`, `name (n, A): …` or `one, two: …`, at the start of a line or of a sentence.
FIELD = re.compile(rf"(?:^|(?<=[.;] ))(?P<names>{NAMES})(?P<shape> \([^)]*\)(?: or None)?)?: ", re.MULTILINE)


class OurDocstrings(Extension):
    """Rewrite every docstring of the package before it is rendered."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        for documented in _all_of(pkg):
            if documented.docstring is not None:
                documented.docstring.value = as_markdown(documented.docstring.value, known=_fields(documented))


def as_markdown(text: str, *, known: set[str]) -> str:
    """A docstring of ours in plain Markdown; known: the names that can be fields."""
    return "\n\n".join(_paragraph(part, known) for part in re.split(r"\n\s*\n", text))


def _paragraph(part: str, known: set[str]) -> str:
    lines = part.splitlines()
    if lines[0].startswith(">>> "):
        return "\n".join(["```pycon", *lines, "```"])
    if lines[0].startswith("    "):  # a formula
        return part
    joined = " ".join(line.strip() for line in lines)
    starts = [field for field in FIELD.finditer(joined) if _named(field) <= known]
    if not starts or starts[0].start() > 0:
        return part
    ends = [*(field.start() for field in starts[1:]), len(joined)]
    items: list[str] = []
    for field, end in zip(starts, ends, strict=True):
        names = ", ".join(f"`{name}`" for name in field["names"].split(", "))
        items.append(f"- {names}{field['shape'] or ''}: {joined[field.end() : end].strip()}")
    return "\n".join(items)


def _named(field: re.Match[str]) -> set[str]:
    return {name.lstrip("*") for name in field["names"].split(", ")}


def _fields(documented: Object) -> set[str]:
    """What a docstring may speak of: the parameters of a function, the attributes of a class and of what it extends."""
    if isinstance(documented, Function):
        return {parameter.name.lstrip("*") for parameter in documented.parameters}
    if isinstance(documented, Class):
        own = {name for name, member in documented.members.items() if not member.is_alias}
        made = documented.members.get("__init__")
        own |= _fields(made) if isinstance(made, Function) else set()
        return own.union(*(_fields(base) for base in documented.resolved_bases if isinstance(base, Class)))
    return set()


def _all_of(parent: Object) -> Iterator[Object]:
    yield parent
    for member in parent.members.values():
        if not member.is_alias and isinstance(member, Object):
            yield from _all_of(member)

"""Documents as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pacbandits.errors import one_line, visible_lines
from pacbandits.report.document import (
    ALARM,
    MAX_TEXT_CHARACTERS,
    Bars,
    Block,
    Box,
    Cell,
    Checks,
    Code,
    Columns,
    Curve,
    Document,
    Figure,
    Fold,
    Intervals,
    Items,
    Note,
    Numbers,
    Section,
    Stacks,
    Table,
    Text,
    Tree,
    tree_lines,
)

STATUS_MARKS = {"": "", "good": "✓ ", "warning": "• ", "alarm": "✗ "}


def render_markdown(document: Document) -> str:
    """Return the document as Markdown; figures are left out, intervals and curves become tables."""
    lines = [f"# {_safe(document.title)}", ""] if document.title else []
    return "\n".join([*lines, *_blocks(document.blocks, level=2)]).rstrip("\n") + "\n"


def _blocks(blocks: Iterable[Block], *, level: int) -> Iterator[str]:
    """Yield the lines of blocks, each followed by an empty line."""
    for block in blocks:
        match block:
            case Text(words, style):
                yield from (f"**{_safe(words)}**" if style in ("strong", "headline") else _safe(words), "")
            case Note(kind, words):
                prefix, around = (ALARM, "**") if kind == "alarm" else ("", "")
                yield from (f"{around}{prefix}{_safe(words)}{around}", "")
            case Items(items):
                yield from (*(f"- {_safe(words)}" for words in items), "")
            case Code(text, language):
                # The fence is longer than any within the text, so that nothing in it ends the block.
                fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
                yield from (f"{fence}{language}", visible_lines(text), fence, "")
            case Table():
                yield from _heading(block.title, level)
                rows = [tuple(_cell(one) for one in row) for row in block.rows]
                yield from _table(block.head or ("",) * max(map(len, rows), default=2), rows)
                yield from (_safe(block.note), "") if block.note else ()
            case Intervals(rows, title):
                yield from _heading(title, level)
                yield from _table(("", "estimate"), [(one.label, one.words) for one in rows])
            case Tree(root):
                yield from _blocks((Code("\n".join(tree_lines(root))),), level=level)
            case Curve(points):
                yield from _table(("people", "distance"), [(f"{one.samples:,}", one.words) for one in points])
            case Bars(rows) | Stacks(rows):
                yield from _table(("", ""), [(one.label, one.words) for one in rows])
            case Numbers(items):
                yield from (
                    *(f"- {_safe(one.name)}: {_safe(one.value)} {_safe(one.remark)}".rstrip() for one in items),
                    "",
                )
            case Checks(items):
                for one in items:
                    more = "".join(f" ({_safe(words)})" for words in (one.figure, one.remark) if words)
                    yield f"- {STATUS_MARKS[one.status]}**{_safe(one.title)}** {_safe(one.words)}{more}"
                yield ""
            case Figure():
                pass
            case Box(inside):
                yield from _blocks(inside, level=level)
            case Columns(columns):
                yield from (line for inside in columns for line in _blocks(inside, level=level))
            case Fold(title, inside) | Section(title, inside):
                yield from _heading(title, level)
                yield from _blocks(inside, level=level + 1)


def _heading(title: str, level: int) -> Iterator[str]:
    if title:
        yield from (f"{'#' * level} {_safe(title)}", "")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(_safe(cell).replace("|", "\\|") for cell in row) + " |"
    yield ""


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return cell
    return f"{cell.text} {cell.remark}".rstrip()


def _safe(text: str) -> str:
    """Return text on one line in which nothing is HTML, a link or an image."""
    return one_line(text, most=MAX_TEXT_CHARACTERS).replace("&", "&amp;").replace("<", "&lt;").replace("](", "]\\(")

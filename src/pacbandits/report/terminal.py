"""Render documents in a terminal, as renderables of rich."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Words

from pacbandits.errors import one_line, visible, visible_lines
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

HEADING = "bold cyan"
GAP = Words()  # an empty line between blocks; never two of them
NOTE_STYLES = {"alarm": "bold red", "warning": "yellow", "remark": "dim"}
TEXT_STYLES = {"": "", "dim": "dim", "strong": "bold", "headline": "bold"}
CELL_STYLES = {"": "", "chosen": "bold", "dim": "dim", "good": "green", "warning": "yellow", "alarm": "red"}
STATUS_STYLES = {"": "dim", "good": "dim", "warning": "yellow", "alarm": "bold red"}


def render_terminal(document: Document) -> RenderableType:
    """Return the document for rich to print; figures are left out, intervals and curves become tables."""
    head = [Words(one_line(document.title), style="bold")] if document.title else []
    shown: list[RenderableType] = []
    for one in (*head, *_blocks(document.blocks)):
        if one is not GAP or (shown and shown[-1] is not GAP):
            shown.append(one)
    return Group(*(shown[:-1] if shown and shown[-1] is GAP else shown))


def _blocks(blocks: Iterable[Block]) -> Iterator[RenderableType]:
    """Yield the renderables of blocks; sections, tables, checks and alarms are followed by a gap."""
    for block in blocks:
        match block:
            case Text(words, style):
                yield Words(visible(words[:MAX_TEXT_CHARACTERS]), style=TEXT_STYLES[style])
            case Note(kind, words):
                yield Words(
                    f"{ALARM if kind == 'alarm' else ''}{one_line(words, most=MAX_TEXT_CHARACTERS)}",
                    style=NOTE_STYLES[kind],
                )
                if kind == "alarm":
                    yield GAP
            case Items(items):
                # In a column of its own, so that no untrusted text begins a line.
                yield _table(Table((), tuple(("•", words) for words in items)), padding=1)
            case Code(text):
                yield Padding(
                    Words(visible_lines(text)), (0, 0, 0, 2), expand=False
                )  # so that no untrusted text begins a line
            case Table():
                yield from (_table(block), GAP)
            case Intervals(rows, title):
                yield _table(Table((), tuple((one.label, one.words) for one in rows), title=title))
            case Tree(root):
                yield from _blocks((Code("\n".join(tree_lines(root))),))
            case Curve(points):
                yield _table(Table((), tuple((f"{one.samples:,} people", one.words) for one in points)))
            case Bars(rows) | Stacks(rows):
                yield _table(Table((), tuple((one.label, one.words) for one in rows)))
            case Numbers(items):
                yield _table(Table((), tuple((one.name, f"{one.value} {one.remark}".rstrip()) for one in items)))
            case Checks(items):
                for one in items:
                    title = f"{one_line(one.title)}: " if one.title else ""
                    more = "".join(f" ({one_line(words)})" for words in (one.figure, one.remark) if words)
                    prefix = ALARM if one.status == "alarm" else ""
                    yield Words(f"{prefix}{title}{one_line(one.words)}{more}", style=STATUS_STYLES[one.status])
                yield GAP
            case Figure():
                pass
            case Box(inside):
                yield from _blocks(inside)
            case Columns(columns):
                yield from (one for inside in columns for one in _blocks(inside))
            case Fold(title, inside) | Section(title, inside):
                yield from (Words(one_line(title), style=HEADING), *_blocks(inside), GAP)


def _table(table: Table, *, padding: int = 2) -> RenderableType:
    """Return a table without lines; the note below it is grey."""
    headed = any(table.head)
    grid = Grid(
        box=None,
        title=Words(one_line(table.title)) if table.title else None,
        title_justify="left",
        title_style=HEADING,
        show_header=headed,
        header_style="bold",
        pad_edge=False,
        padding=(0, padding, 0, 0),
    )
    count = len(table.head) or max(map(len, table.rows), default=1)
    for column in range(count):
        name = table.head[column] if table.head else ""
        right = table.side(column) == "right"
        width = table.widths[column] if column < len(table.widths) else None
        grid.add_column(
            Words(one_line(name)),
            justify="right" if right else "left",
            width=width if column == 0 else None,
            min_width=width,
            no_wrap=right and width is not None,
            overflow="fold",
        )
    for row in table.rows:
        grid.add_row(*map(_cell, row))
    return (
        Group(grid, Words(f"\n{one_line(table.note, most=MAX_TEXT_CHARACTERS)}", style="dim")) if table.note else grid
    )


def _cell(cell: str | Cell) -> Words:
    """Return a cell on one line; spaces before its text indent it."""
    one = Cell(cell) if isinstance(cell, str) else cell
    indent = " " * (len(one.text) - len(one.text.lstrip(" ")))
    return Words(f"{indent}{one_line(f'{one.text} {one.remark}'.rstrip())}", style=CELL_STYLES[one.style])

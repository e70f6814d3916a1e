"""Documents in a terminal, as renderables of rich."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text as Words

from pacbandits.errors import one_line, visible_lines
from pacbandits.report.document import (
    ALARM,
    Bars,
    Block,
    Box,
    Branch,
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
    Leaf,
    Note,
    Numbers,
    Section,
    Stacks,
    Table,
    Text,
    Tree,
)

HEADING = "bold cyan"
NOTE_STYLES = {"alarm": "bold red", "warning": "yellow", "remark": "dim"}
TEXT_STYLES = {"": "", "dim": "dim", "strong": "bold", "headline": "bold"}
CELL_STYLES = {"": "", "chosen": "bold", "dim": "dim", "good": "green", "warning": "yellow", "alarm": "red"}
STATUS_STYLES = {"": "dim", "good": "dim", "warning": "yellow", "alarm": "bold red"}


def render_terminal(document: Document) -> RenderableType:
    """Return the document for rich to print; figures are left out, intervals and curves become tables."""
    head = [Words(one_line(document.title), style="bold")] if document.title else []
    return Group(*head, *_blocks(document.blocks))


def _blocks(blocks: Iterable[Block]) -> Iterator[RenderableType]:
    """Yield what blocks look like; sections, tables and alarms are followed by an empty line."""
    for block in blocks:
        match block:
            case Text(words, style):
                yield Words(visible_lines(words), style=TEXT_STYLES[style])
            case Note(kind, words):
                prefix, gap = (ALARM, "\n") if kind == "alarm" else ("", "")
                yield Words(f"{prefix}{one_line(words)}{gap}", style=NOTE_STYLES[kind])
            case Items(items):
                yield Words("\n".join(f"• {one_line(words)}" for words in items))
            case Code(text):
                yield Words(visible_lines(text))
            case Table():
                yield from (_table(block), Words())
            case Intervals(rows, title):
                yield _table(Table((), tuple((one.label, one.words) for one in rows), title=title))
            case Tree(root):
                yield Words("\n".join(_tree(root, 0)))
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
                yield Words()
            case Figure():
                pass
            case Box(inside):
                yield from _blocks(inside)
            case Columns(columns):
                yield from (one for inside in columns for one in _blocks(inside))
            case Fold(title, inside) | Section(title, inside):
                yield from (Words(one_line(title), style=HEADING), *_blocks(inside), Words())


def _table(table: Table) -> RenderableType:
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
        padding=(0, 2, 0, 0),
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
    return Group(grid, Words(f"\n{one_line(table.note)}", style="dim")) if table.note else grid


def _cell(cell: str | Cell) -> Words:
    if isinstance(cell, str):
        return Words(one_line(cell))
    return Words(one_line(f"{cell.text} {cell.remark}".rstrip()), style=CELL_STYLES[cell.style])


def _tree(node: Branch | Leaf, depth: int) -> Iterator[str]:
    """Yield a tree as indented lines."""
    indent = "    " * depth
    if isinstance(node, Leaf):
        share = "" if node.share is None else f" ({100 * node.share:.0f} % of people)"
        yield f"{indent}{one_line(node.words)}{share}"
        return
    for head, child in ((f"if {one_line(node.question)}:", node.yes), ("else:", node.no)):
        if isinstance(child, Leaf):
            yield f"{indent}{head} {next(_tree(child, 0))}"
        else:
            yield from (f"{indent}{head}", *_tree(child, depth + 1))

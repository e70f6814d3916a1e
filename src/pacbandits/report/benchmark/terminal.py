"""A table of a benchmark in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pacbandits.errors import one_line
from pacbandits.report.benchmark.tables import TextTable


def terminal_table(table: TextTable, *, head: str, words: Sequence[str]) -> RenderableType:
    """A table between a line above it and sentences below."""
    made = Table(box=None, pad_edge=False, header_style="bold cyan", title_justify="left")
    for at, name in enumerate(table.head):
        made.add_column(Text(name), justify="right" if at else "left", overflow="fold")
    for row in table.rows:
        made.add_row(*(Text(one_line(cell)) for cell in row))
    below = Text("\n".join(["", *(one_line(line) for line in words), ""]))
    return Group(Text(one_line(head), style="bold"), Text(), made, below, Text(table.note, style="dim"), Text())

"""What a policy decided for the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pacbandits.errors import count_of, plain


def applied_table(counted: Sequence[tuple[str | int, int]]) -> RenderableType:
    """How many rows get each action; actions that none gets are counted below."""
    total = sum(count for _, count in counted)
    table = Table(box=None, pad_edge=False)
    table.add_column("action", overflow="fold")
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    for action, count in counted:
        if count:
            table.add_row(plain(action), f"{count:,}", f"{count / total:.1%}")
    idle = sum(1 for _, count in counted if not count)
    words = f"{count_of(total, 'row')} in all" + (f"; {count_of(idle, 'action')} for none of them" if idle else "")
    return Group(table, Text(words, style="dim"))

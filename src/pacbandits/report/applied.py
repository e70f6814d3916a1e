"""What `apply` prints: how many rows a policy gives each action."""

from __future__ import annotations

from collections.abc import Sequence

from pacbandits.errors import count_of, plain
from pacbandits.report.document import Document, Table, Text


def applied_document(counted: Sequence[tuple[str | int, int]]) -> Document:
    """Return how many rows get each action, and how many actions no row gets."""
    total = sum(count for _, count in counted)
    rows = tuple((plain(action), f"{count:,}", f"{count / total:.1%}") for action, count in counted if count)
    idle = sum(1 for _, count in counted if not count)
    words = f"{count_of(total, 'row')} in all" + (f"; {count_of(idle, 'action')} for none of them" if idle else "")
    return Document("", (Table(("action", "rows", "share"), rows), Text(words, "dim")))

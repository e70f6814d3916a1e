"""Approximate certificates for people: no one should take them for the other kind."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pacbandits.certificate import AsymptoticCertificate
from pacbandits.errors import visible_lines
from pacbandits.report.numbers import show_number
from pacbandits.report.runs import alarms_in_words, looks_in_words


def asymptotic_table(certificate: AsymptoticCertificate) -> RenderableType:
    """What a log suggests: the warning, the policy in words, the claim, and the figures behind it."""
    c = certificate
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(width=31)
    table.add_column()
    table.add_row("certified, approximately", "yes" if c.certified else "no")
    table.add_row("smallest ε, approximately", show_number(c.certified_epsilon) if c.certified_epsilon < 1 else "—")
    table.add_row("interactions", f"{c.samples:,}")
    seed = "" if c.seed is None else f", seed {c.seed}"
    table.add_row("bootstrap", f"{c.draws:,} draws{seed}, slope {c.slope:g}")
    rivals = f"all {c.rivals:,} of the class" if c.complete else f"{c.rivals:,} that the oracle named"
    table.add_row("looked at as possibly the best", rivals)
    words = Text.assemble(
        ("an approximate certificate, which is not a proof\n\n", "bold yellow"),
        ("policy\n", "bold cyan"),
        f"{visible_lines(c.policy.describe())}\n\n",
        ("claim\n", "bold cyan"),
        f"{c.describe()}\n",
    )
    words.append_text(alarms_in_words(c))
    assuming = Text(f"assuming that {c.assuming()}", style="dim")
    return Group(words, table, Text(), looks_in_words(c), assuming)

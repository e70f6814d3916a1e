"""The screen: nothing that a file or a table holds can colour, move or hide what is shown there."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment

from pacbandits.errors import visible


@dataclass(frozen=True, eq=False)
class Visible:
    """The same, with all that is no visible character replaced; colours of our own remain."""

    what: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.what, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self.what)


def make_console(*, stderr: bool = False) -> Console:
    """A console that takes words as they are: `[red]` is no colour, and `:warning:` no picture."""
    return Console(stderr=stderr, markup=False, emoji=False)

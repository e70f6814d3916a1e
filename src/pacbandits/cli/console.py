"""Shared by all commands: the application, progress, JSON, and a console that data cannot colour or control."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment

from pacbandits.cli.interruption import raise_from_now
from pacbandits.errors import InputError, one_line, visible, visible_lines
from pacbandits.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from pacbandits.policies.base import PolicyClass
    from pacbandits.records import Contexts, Log
    from pacbandits.report.document import Document


# The application, progress for a terminal, and JSON for machines.


Computation = Literal["certificate", "bootstrap", "measurement", "run"]

app = typer.Typer(
    name="pacbandits",
    help="Best-policy identification for contextual bandits: find a policy within ε of the best, with probability 1 − "
    "δ.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

PROBLEM_HELP = "A built-in problem, [cyan]name:key=value,…[/] (see [cyan]pacbandits problems[/]), or an .npz file."
SINGLE_HELP = (
    "Certify a single policy. By default the result may be a mixture of a few policies, which needs fewer samples if "
    "the class is large."
)
POLICIES_HELP = (
    "Policy class, [cyan]name:key=value,…[/] (see [cyan]pacbandits policies[/]; default: the problem's own)."
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

UNREAD = 1
BAD_INPUT = 2
PARTIAL = 3


def as_rate(words: str | float) -> float:
    """Return the value of an option that takes a rate or a share: 0.05, 5% or 1/20."""
    if not isinstance(words, str):
        return words  # a default
    from pacbandits.checks import read_rate

    try:
        return read_rate(words)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def as_effect(words: str) -> float | str:
    """Return the value of an option that takes an effect: a number, or percent as written (`+20%` of the baseline)."""
    value = as_rate(words)
    return words if words.strip().endswith("%") else value


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(BAD_INPUT)


def console() -> Console:
    """Return a console on standard error; announce compilation, and let Ctrl-C raise from here on."""
    from pacbandits.compiled import announces_compiling, keeps_code

    made = make_console(stderr=True)
    if not keeps_code():
        made.print(
            "compiling, at every run (less than a minute): no folder for machine code can be written; "
            "set NUMBA_CACHE_DIR to one that can",
            style="dim",
            soft_wrap=True,
        )
    elif announces_compiling():
        made.print("first run: compiling, once (less than a minute)", style="dim")
    raise_from_now()
    return made


@contextmanager
def status() -> Generator[Callable[[str], None]]:
    """Show a status line on standard error if it is a terminal; yield the function that updates it.

    The progress of searches is shown too.
    """
    from pacbandits.progress import heard_by

    with console().status("starting") as line:
        doing = "starting"

        def tell(text: str) -> None:
            nonlocal doing
            doing = one_line(text)
            line.update(doing)

        with heard_by(lambda text: line.update(f"{doing} ({one_line(text)})")):
            yield tell


def say_cost(policies: PolicyClass, contexts: Contexts, *, of: Computation) -> None:
    """Print a line on standard error before a long computation."""
    from pacbandits.certificate.asymptotic import BOOTSTRAP_SEARCHES
    from pacbandits.certificate.certify import CERTIFICATE_SEARCHES
    from pacbandits.complexity.measure import MEASUREMENT_SEARCHES
    from pacbandits.policies.base import count_rows, foretell
    from pacbandits.simulation.runs import RUN_SEARCHES

    searches = {
        "certificate": CERTIFICATE_SEARCHES,
        "bootstrap": BOOTSTRAP_SEARCHES,
        "measurement": MEASUREMENT_SEARCHES,
        "run": RUN_SEARCHES,
    }
    words = foretell(policies, count_rows(contexts), searches[of])
    if words:
        typer.echo(words, err=True)


def check_output(path: Path | None) -> None:
    """Raise, before anything is computed, if the path is given and cannot be written."""
    from tempfile import TemporaryFile

    if path is None:
        return
    if not path.parent.is_dir():
        raise InputError(f"the folder of '{path}' does not exist; make it first")
    if path.is_dir():
        raise InputError(f"'{path}' is a folder; name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        what = "file" if path.exists() else "folder of"
        raise InputError(f"the {what} '{path}' may not be written to; name another place")
    try:  # some file systems, such as /proc, refuse what their permissions allow
        if path.is_file():
            path.open("ab").close()
        elif not path.exists():
            TemporaryFile(dir=path.parent).close()
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"'{path}' cannot be written ({why}); name another place") from None


def show(document: Document) -> None:
    """Print a document on standard output."""
    from pacbandits.report.terminal import render_terminal

    make_console().print(Visible(render_terminal(document)))


def say(words: str, *, err: bool = False) -> None:
    """Print text on standard output, or on standard error."""
    typer.echo(visible_lines(words), err=err)


def say_notices(log: Log) -> None:
    """Print the notices of a log, which come before the answer."""
    if log.notices:
        say("".join(f"note: {one_line(words)}\n" for words in log.notices))


def print_json(value: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Print one JSON value on standard output; numbers that are not finite become strings."""
    from pacbandits.schema import json_text

    print(json_text(value, indent=2))


# The console: no content of a file or a table can colour, move or hide the output.


@dataclass(frozen=True, eq=False)
class Visible:
    """A renderable with all invisible characters replaced; our own styles remain."""

    what: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.what, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self.what)


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that prints text literally: `[red]` is not a colour, and `:warning:` not an emoji.

    A notebook runs a command (`!pacbandits …`) as if in a terminal, but cannot move a cursor: it is none.
    """
    terminal = False if "JPY_PARENT_PID" in os.environ else None
    return Console(stderr=stderr, markup=False, emoji=False, force_terminal=terminal)

"""What the commands share: the application, progress for whoever is watching, JSON for machines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbandits.cli.interruption import raise_from_now
from pacbandits.errors import InputError
from pacbandits.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    name="pacbandits",
    help="Best-policy identification for contextual bandits: which policy is best, within ε, with probability 1 − δ.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

PROBLEM_HELP = "A built-in [cyan]name:key=value,…[/] (see [cyan]pacbandits problems[/]) or an .npz file."
POLICIES_HELP = (
    "Another policy class than the problem's own, [cyan]name:key=value,…[/] (see [cyan]pacbandits policies[/])."
)

UNREAD = 1
BAD_INPUT = 2
PARTIAL = 3


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(BAD_INPUT)


def console() -> Console:
    """Standard error, when all is imported and work begins, with a word before the first compilation."""
    from rich.console import Console

    from pacbandits.compiled import compiled_before, keeps_code

    made = Console(stderr=True)
    if not keeps_code():
        made.print(
            "compiling, at every run (less than a minute): no folder for machine code can be written; "
            "set NUMBA_CACHE_DIR to one that can",
            style="dim",
            soft_wrap=True,
        )
    elif not compiled_before():
        made.print("first run: compiling, once (less than a minute)", style="dim")
    raise_from_now()
    return made


@contextmanager
def status() -> Generator[Callable[[str], None]]:
    """A line on standard error that says what is going on, when someone is there to read it."""
    with console().status("starting") as line:
        yield line.update


def check_output(path: Path | None) -> None:
    """Raise unless a file can be written there, or none is asked for; before anything is computed."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise InputError(f"the folder of '{path}' does not exist; make it first")
    if path.is_dir():
        raise InputError(f"'{path}' is a folder; name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        what = "file" if path.exists() else "folder of"
        raise InputError(f"the {what} '{path}' may not be written to; name another place")


def print_json(value: dict[str, Any] | list[dict[str, Any]]) -> None:
    """One JSON value on standard output; what is not a number is a string."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))

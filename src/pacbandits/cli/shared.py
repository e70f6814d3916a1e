"""What the commands share: the application, progress for whoever is watching, JSON for machines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pacbandits.errors import InputError
from pacbandits.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from pacbandits.policies.base import PolicyClass
    from pacbandits.records import Contexts

Computation = Literal["certificate", "bootstrap", "measurement", "run"]

app = typer.Typer(
    name="pacbandits",
    help="Best-policy identification for contextual bandits: which policy is best, within ε, with probability 1 − δ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

PROBLEM_HELP = "A built-in [cyan]name:key=value,…[/] (see [cyan]pacbandits problems[/]) or an .npz file."
POLICIES_HELP = (
    "Another policy class than the problem's own, [cyan]name:key=value,…[/] (see [cyan]pacbandits policies[/])."
)

BAD_INPUT = 2
PARTIAL = 3
INTERRUPTED = 130


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def console() -> Console:
    """Standard error, with a word before the first compilation."""
    from rich.console import Console

    from pacbandits.compiled import compiled_before

    made = Console(stderr=True)
    if not compiled_before():
        made.print("first run: compiling, once (less than a minute)", style="dim")
    return made


@contextmanager
def status() -> Generator[Callable[[str], None]]:
    """A line on standard error that says what is going on, when someone is there to read it.

    Searches are overheard, so that the line moves while one of them goes on.
    """
    from pacbandits.progress import heard_by

    with console().status("starting") as line:
        doing = "starting"

        def tell(text: str) -> None:
            nonlocal doing
            doing = text
            line.update(text)

        with heard_by(lambda text: line.update(f"{doing} ({text})")):
            yield tell


def say_cost(policies: PolicyClass, contexts: Contexts, *, of: Computation) -> None:
    """A line on standard error before what will take long."""
    from pacbandits.certificate.asymptotic import BOOTSTRAP_SEARCHES
    from pacbandits.certificate.certify import CERTIFICATE_SEARCHES
    from pacbandits.complexity.measure import MEASUREMENT_SEARCHES
    from pacbandits.policies.costs import count_rows, foretell
    from pacbandits.simulation.running import RUN_SEARCHES

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

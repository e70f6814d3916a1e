"""The command line: a thin shell over the package."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pacbandits import __version__
from pacbandits.compiled import compiled_before
from pacbandits.complexity import measure
from pacbandits.errors import InputError, check_delta, check_epsilon
from pacbandits.problems import list_problems, load_policies, load_problem
from pacbandits.report import check_figure_path, complexity_table, draw_complexity, problems_table

app = typer.Typer(
    name="pacbandits",
    help="Best-policy identification for contextual bandits: which policy is best, within ε, with probability 1 − δ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

BadInput = 2


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def complexity(
    problem: Annotated[
        str,
        typer.Argument(help="A built-in [cyan]name:key=value,…[/] (see [cyan]pacbandits problems[/]) or an .npz file."),
    ],
    epsilon: Annotated[float, typer.Option(help="How far from the best policy is good enough, 0 or more.")] = 0.05,
    delta: Annotated[float, typer.Option(help="The probability of being wrong, between 0 and 1.")] = 0.05,
    policies: Annotated[
        str | None,
        typer.Option(
            help="Another policy class than the problem's own: [cyan]trivial[/] or [cyan]trees:depth=2,bins=16[/]."
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Relative width at which the bracket on ρ is narrow enough (1e-5 for listed classes, else 0.01)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    figure: Annotated[Path | None, typer.Option(help="Also draw a picture: .png, .pdf or .svg.")] = None,
) -> None:
    """Measure what a problem costs: its complexity ρ, lower and upper bounds, and what a randomised trial would pay.

    [dim]Examples:
    pacbandits complexity hard:m=50,gap=1 --epsilon 0
    pacbandits complexity trees:actions=8,features=6,seed=3 --figure design.png
    pacbandits complexity my-problem.npz --epsilon 0.05 --json[/]
    """
    check_epsilon(epsilon)
    check_delta(delta)
    if tolerance is not None and not 0 < tolerance < float("inf"):
        raise InputError(f"tolerance must be positive, got {tolerance}")
    if figure is not None:
        check_figure_path(figure)
    loaded = load_problem(problem)
    chosen = loaded.policies if policies is None else load_policies(policies, loaded)
    with _progress() as tell:
        measured = measure(loaded, chosen, epsilon=epsilon, delta=delta, tolerance=tolerance, progress=tell)
        if figure is not None:
            tell("drawing")
            draw_complexity(loaded, chosen, measured, path=figure)
    if as_json:
        _print_json({"problem": loaded.name} | measured.to_json())
    else:
        Console().print(complexity_table(loaded, measured))


@app.command()
def problems(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """List the built-in problems and their options."""
    if as_json:
        _print_json(
            {
                problem.name: {
                    "description": problem.description,
                    "options": {
                        option.name: {
                            "default": option.default,
                            "permitted": option.permitted,
                            "meaning": option.meaning,
                        }
                        for option in problem.options
                    },
                }
                for problem in list_problems()
            }
        )
    else:
        Console().print(problems_table(list_problems()))


def main() -> None:
    """Run the command line; bad input ends in one line and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"pacbandits: {error}", file=sys.stderr)
        sys.exit(BadInput)
    except KeyboardInterrupt:
        print("pacbandits: interrupted", file=sys.stderr)
        sys.exit(130)


@contextmanager
def _progress() -> Generator[Callable[[str], None]]:
    """A line on standard error that says what is going on, when someone is there to read it."""
    console = Console(stderr=True)
    if not compiled_before():
        console.print("first run: compiling, once (less than a minute)", style="dim")
    with console.status("starting") as status:
        yield status.update


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


if __name__ == "__main__":
    main()

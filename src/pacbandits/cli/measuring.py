"""`pacbandits complexity` and `pacbandits problems`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pacbandits.cli.shared import app, check_output, print_json, status
from pacbandits.complexity import measure
from pacbandits.errors import InputError, check_delta, check_epsilon
from pacbandits.problems import list_problems, load_policies, load_problem
from pacbandits.report import check_figure_path, complexity_table, draw_complexity, problems_table


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
        check_output(figure)
    loaded = load_problem(problem)
    chosen = loaded.policies if policies is None else load_policies(policies, loaded)
    with status() as tell:
        measured = measure(loaded, chosen, epsilon=epsilon, delta=delta, tolerance=tolerance, progress=tell)
        if figure is not None:
            tell("drawing")
            draw_complexity(loaded, chosen, measured, path=figure)
    if as_json:
        print_json({"problem": loaded.name} | measured.to_json())
    else:
        Console().print(complexity_table(loaded, measured))


@app.command()
def problems(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """List the built-in problems and their options."""
    if as_json:
        print_json(
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

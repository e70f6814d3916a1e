"""`pacbandits complexity`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbandits.cli.console import (
    POLICIES_HELP,
    PROBLEM_HELP,
    AsJson,
    app,
    as_rate,
    check_output,
    print_json,
    say_cost,
    show,
    status,
)
from pacbandits.errors import InputError

if TYPE_CHECKING:
    from pacbandits.problems import Problem


@app.command()
def complexity(
    problem: Annotated[
        str,
        typer.Argument(help=PROBLEM_HELP),
    ],
    epsilon: Annotated[
        float,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="Tolerance ε: the largest acceptable distance from the best policy, 0 or more.",
        ),
    ] = 0.05,
    delta: Annotated[
        float, typer.Option(parser=as_rate, metavar="RATE", help="Error probability δ, between 0 and 1.")
    ] = 0.05,
    policies: Annotated[
        str | None,
        typer.Option(help=f"{POLICIES_HELP} With --realizable, [cyan]linear[/] means all linear policies."),
    ] = None,
    realizable: Annotated[
        bool, typer.Option("--realizable", help="Compute ρ_lin: mean rewards are known to be linear in the features.")
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Relative width at which the bounds on ρ are tight enough (default: 1e-5 for listed classes, "
            "otherwise 0.01; 0.01 with --realizable)."
        ),
    ] = None,
    as_json: AsJson = False,
    figure: Annotated[Path | None, typer.Option(help="Also draw a figure (.png, .pdf or .svg).")] = None,
) -> None:
    """Compute the complexity ρ of a problem, bounds on the sample size, and the complexity of a randomised trial.

    [dim]Examples:
    pacbandits complexity hard:m=50,gap=1 --epsilon 0
    pacbandits complexity trees:actions=8,features=6,seed=3 --figure design.png
    pacbandits complexity linear:dimension=5,actions=10 --realizable --policies linear
    pacbandits complexity my-problem.npz --epsilon 0.05 --json[/]
    """
    from pacbandits.checks import positive
    from pacbandits.complexity import measure
    from pacbandits.confidence import check_delta, check_epsilon
    from pacbandits.problems import load_policies_for, load_problem
    from pacbandits.report import check_figure_path, complexity_document, draw_complexity

    check_epsilon(epsilon)
    check_delta(delta)
    if tolerance is not None:
        positive(tolerance, name="tolerance")
    if figure is not None:
        check_figure_path(figure)
        check_output(figure)
    loaded = load_problem(problem)
    if realizable:
        _measure_realizable(
            loaded, policies, epsilon=epsilon, delta=delta, tolerance=tolerance, as_json=as_json, figure=figure
        )
        return
    chosen = loaded.policies if policies is None else load_policies_for(policies, loaded)
    say_cost(chosen, loaded.population, of="measurement")
    with status() as tell:
        measured = measure(loaded, chosen, epsilon=epsilon, delta=delta, tolerance=tolerance, progress=tell)
        if figure is not None:
            tell("drawing")
            draw_complexity(loaded, chosen, measured, path=figure)
    if as_json:
        print_json({"problem": loaded.name} | measured.to_json())
    else:
        show(complexity_document(loaded, measured))


def _measure_realizable(
    problem: Problem,
    policies: str | None,
    *,
    epsilon: float,
    delta: float,
    tolerance: float | None,
    as_json: bool,
    figure: Path | None,
) -> None:
    """Measure, and print or draw, the complexity with mean rewards linear in the features."""
    from pacbandits.problems import load_policies_for
    from pacbandits.realizable.complexity import measure_realizable
    from pacbandits.report import draw_realizable, realizable_document

    if problem.realizable is None:
        raise InputError(f"'{problem.name}' has no features in which rewards are linear; leave out --realizable")
    if policies is None:
        chosen = problem.policies
    else:
        chosen = None if policies == "linear" else load_policies_for(policies, problem)
    with status() as tell:
        measured = measure_realizable(
            problem,
            problem.realizable.features,
            chosen,
            epsilon=epsilon,
            delta=delta,
            tolerance=0.01 if tolerance is None else tolerance,
            progress=tell,
        )
        if figure is not None:
            tell("drawing")
            draw_realizable(problem, measured, path=figure)
    if as_json:
        print_json({"problem": problem.name} | measured.to_json())
    else:
        show(realizable_document(problem, measured))

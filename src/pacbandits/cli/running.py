"""`pacbandits run`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from math import log as logarithm
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbandits.cli.engines import PLAYERS, Player, Scheduler, Workers, check_engine, open_players
from pacbandits.cli.interruption import INTERRUPTED
from pacbandits.cli.shared import (
    PARTIAL,
    POLICIES_HELP,
    PROBLEM_HELP,
    SINGLE_HELP,
    app,
    as_rate,
    check_output,
    console,
    print_json,
    say,
    say_cost,
    show,
)
from pacbandits.errors import InputError, one_line

if TYPE_CHECKING:
    from pacbandits.policies.base import PolicyClass
    from pacbandits.simulation import Run, Stage, Watch

BAR = 12  # columns


@app.command()
def run(
    problem: Annotated[
        str,
        typer.Argument(help=f"{PROBLEM_HELP} Or a plan written by [cyan]pacbandits plan --out plan.json[/]."),
    ],
    algorithm: Annotated[
        str,
        typer.Option(help="Algorithm, [cyan]name:key=value,…[/] (see [cyan]pacbandits algorithms[/])."),
    ] = "coda",
    epsilon: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="Tolerance ε: the largest acceptable distance from the best policy (default: 0.1, or the plan's); 0 "
            "asks for the best policy itself.",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="Error probability δ, between 0 and 1 (default: 0.05, or the plan's).",
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(help="With a plan: the scenario to simulate (default: drawn at random)."),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(help=POLICIES_HELP),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same run.")] = 0,
    repeat_: Annotated[
        int, typer.Option("--repeat", help="Number of runs, with seeds seed, seed + 1, …; --json then prints a list.")
    ] = 1,
    engine: Player = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    scale: Annotated[
        float | None,
        typer.Option(help="Option [cyan]scale[/] of algorithms that have it: multiplies every sample size."),
    ] = None,
    max_samples: Annotated[
        int | None,
        typer.Option(help="Start no round that would exceed this sample size; exit code 3 if the result is partial."),
    ] = None,
    offline: Annotated[
        int | None,
        typer.Option(help="Give the algorithm this many sampled contexts instead of their distribution."),
    ] = None,
    solver: Annotated[str | None, typer.Option(help="Option [cyan]solver[/] of algorithms that have it.")] = None,
    single: Annotated[bool, typer.Option("--single", help=SINGLE_HELP)] = False,
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="Write the certificate to this file, for [cyan]pacbandits verify[/]; only for algorithms that certify."
        ),
    ] = None,
    log: Annotated[Path | None, typer.Option(help="Write the log of the run to this Parquet file.")] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Also run this algorithm with the same seed, ε and δ, and compare both with the sample sizes from "
            "theory."
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Plot certified ε against samples (.png, .pdf or .svg); only for algorithms that certify."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Save the state of the trial in this folder after every round, and resume from it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Run a best-policy identification algorithm in simulation and compare its result with the truth.

    [dim]Examples:
    pacbandits run trees:actions=8 --epsilon 0.05 --certificate proof.json --log log.parquet
    pacbandits run trees:actions=8 --epsilon 0.05 --against uniform --figure trial.png
    pacbandits run hard:m=10,gap=1 --algorithm rage --epsilon 0.2 --delta 0.1 --seed 1
    pacbandits run two-of-many:actions=6,policies=40 --algorithm coda-paper --repeat 20 --json
    pacbandits run trees:actions=8 --epsilon 0.05 --repeat 100 --engine dask
    pacbandits run trees:actions=8 --algorithm coda-paper --max-samples 1000000
    pacbandits run trees:actions=8 --epsilon 0.05 --max-samples 3000 --state trial
    pacbandits run linear:dimension=5,actions=10 --algorithm linear-rage --epsilon 0.05
    pacbandits run plan.json --scenario segments[/]
    """
    from pacbandits.algorithms import find_algorithm, options_of
    from pacbandits.cli.comparing import ComparedAlgorithm, check_figure, compare
    from pacbandits.cli.started import happened_of, started_from
    from pacbandits.compiled import compiled_before
    from pacbandits.confidence import check_delta
    from pacbandits.problems import load_policies_for
    from pacbandits.report import comparison_document, run_document, runs_document
    from pacbandits.report.page import happened_document
    from pacbandits.simulation import repeat

    check_engine(engine, scheduler=scheduler, workers=workers, known=PLAYERS)
    if engine == "dask" and repeat_ == 1:
        raise InputError("--engine dask plays many runs at once; say how many: --repeat 20")
    if workers is not None and engine != "dask":
        raise InputError("--workers play runs at once by --engine dask alone; say it, or leave them out")
    planned, loaded = started_from(problem, scenario, seed=seed)
    asked_of = (0.1, 0.05) if planned is None else (planned.supposed.unit_epsilon, planned.supposed.delta)
    epsilon, delta = asked_of[0] if epsilon is None else epsilon, asked_of[1] if delta is None else delta
    check_delta(delta)
    if repeat_ > 1 and (certificate is not None or log is not None):
        raise InputError("a certificate and a log are of one run; leave out --repeat")
    if repeat_ > 1 and state is not None:
        raise InputError("a folder keeps the state of one run; leave out --repeat or --state")
    _check_files(certificate, log, algorithm=algorithm)
    check_figure(figure, algorithm=algorithm, against=against, repeats=repeat_)
    _check_least(0, seed=seed)
    _check_least(1, repeat=repeat_, max_samples=max_samples, offline=offline)
    chosen = loaded.policies if policies is None else load_policies_for(policies, loaded)
    asked: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "max_samples": max_samples,
        "offline_contexts": offline,
    }
    # Algorithms without a choice answer with a single policy anyway.
    answer = "single" if single and "answer" in {one.name for one in options_of(find_algorithm(algorithm)[0])} else None
    wanted = (("scale", scale), ("solver", solver), ("answer", answer))
    options: dict[str, Any] = {name: given for name, given in wanted if given is not None}
    rival = None
    if against is not None:
        rival = ComparedAlgorithm.checked(against, loaded, chosen, asked, options, algorithm=algorithm, repeats=repeat_)
    say_cost(chosen, loaded.population, of="run")
    compiling = not compiled_before()
    with _watch(_names(algorithm, against, repeat_), epsilon=epsilon) as watch:
        with open_players(engine, scheduler=scheduler, workers=workers) as players:
            given = {"algorithm": algorithm, "state": state, **asked, **options}
            runs = repeat(loaded, chosen, runs=repeat_, seed=seed, engine=players, watch=watch, **given)
        lacking = _save(runs[0], chosen, certificate=certificate, log=log)
        second = None if rival is None or runs[0].stopped == "interrupted" else rival.run(seed, watch=watch)
    if lacking:
        say(f"no round was played, so there is nothing to write to {' and '.join(lacking)}", err=True)
    comparison = None
    if against is not None or figure is not None:
        comparison = compare(loaded, chosen, runs[0], second, compiling=compiling, figure=figure)
    if as_json:
        whole = None if comparison is None or against is None else comparison.to_json()
        against_plan = {} if planned is None else {"planned": [list(row) for row in happened_of(planned, runs[0])]}
        print_json(whole or (runs[0].to_json() | against_plan if repeat_ == 1 else [one.to_json() for one in runs]))
    else:
        show(run_document(runs[0]) if repeat_ == 1 else runs_document(runs, asked=repeat_))
        if comparison is not None:
            show(comparison_document(comparison))
        if planned is not None:
            show(happened_document(happened_of(planned, runs[0])))
    stops = {one.stopped for one in (*runs, *([] if second is None else [second]))}
    if "interrupted" in stops:
        raise typer.Exit(INTERRUPTED)
    if stops != {"done"}:
        raise typer.Exit(PARTIAL)


def _check_files(certificate: Path | None, log: Path | None, *, algorithm: str) -> None:
    """Raise when a certificate or a log is asked for that could not be written; before anything is run."""
    from pacbandits.algorithms import list_profiles, profile_of

    check_output(certificate)
    check_output(log)
    if log is not None and log.suffix.lower() != ".parquet":
        raise InputError(f"logs are written as Parquet; name it {log.with_suffix('.parquet')}")
    for path, what in ((certificate, "makes no certificate"), (log, "keeps no log")):
        if path is not None and not profile_of(algorithm).certifies:
            able = ", ".join(profile.name for profile in list_profiles() if profile.certifies)
            raise InputError(f"{algorithm} {what}; these do: {able}")


def _check_least(least: int, **values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < least:
            raise InputError(f"{name.replace('_', '-')} must be {least} or more, got {value}")


def _save(one: Run, policies: PolicyClass, *, certificate: Path | None, log: Path | None) -> list[str]:
    """Write what was asked for; the files for which there is nothing to write, as no round was played."""
    from pacbandits.proofs import save_certificate

    lacking: list[str] = []
    if certificate is not None:
        if one.certificate is None:
            lacking.append(str(certificate))
        else:
            save_certificate(certificate, one.certificate, policies, contexts=one.contexts)
    if log is not None:
        if one.log is None:
            lacking.append(str(log))
        else:
            one.log.write(log)
    return lacking


def _names(algorithm: str, against: str | None, repeats: int) -> list[str]:
    """What to call each run on the bar; one alone needs no name."""
    if against is not None:
        return [algorithm, against]
    return [f"run {i + 1} of {repeats}" for i in range(repeats)] if repeats > 1 else [""]


@contextmanager
def _watch(names: Sequence[str], *, epsilon: float) -> Generator[Watch]:
    """A bar on standard error: rounds done, samples so far, certified ε or the best policy, time left."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from pacbandits.progress import heard_by

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=BAR),
        TextColumn("{task.fields[facts]}", markup=False),
        TimeRemainingColumn(),
        TextColumn("{task.fields[doing]}", style="dim", markup=False),
    )
    screen = console()
    bar = Progress(*columns, console=screen, transient=True)
    with bar if screen.is_terminal else nullcontext():  # a bar that is shown to nobody would still leave an empty line
        task = bar.add_task("starting", total=len(names), facts="", doing="")
        furthest, begun, room = 0.0, False, BAR

        def watch(stage: Stage) -> None:
            nonlocal furthest, begun, room
            if not begun and stage.samples > 0:
                screen.print(f"resuming after {stage.samples:,} samples", highlight=False)
            begun = True
            furthest = max(furthest, stage.run + _share(stage, epsilon))
            which = f"{names[stage.run]}, " if names[stage.run] else ""
            of, fact = f" of {stage.rounds}", f"best so far {_cut(stage.policy, 20)}"
            if stage.certified_epsilon is not None:  # a trial does not know how many rounds it will take
                of, fact = "", f"certified ε {stage.certified_epsilon:.3g}"
            where, facts = f"{which}round {stage.round_number}{of}", f"{stage.samples:,} samples, {fact}"
            room = screen.width - len(where) - BAR - len(facts) - len("0:00:00") - 4
            bar.update(task, completed=furthest, description=where, facts=facts, doing=_cut(stage.doing, room))

        with heard_by(lambda text: bar.update(task, doing=_cut(text, room))):
            yield watch


def _share(stage: Stage, epsilon: float) -> float:
    """How much of a run is done: of its rounds, or of the way from 1 down to ε, which each round shortens alike."""
    if stage.certified_epsilon is None:
        return max(stage.round_number - 1, 0) / max(stage.rounds, 1)
    if epsilon >= 1:
        return 0.0
    if epsilon == 0:  # how long it takes to find the best itself, nobody knows
        return 0.0
    done = stage.certified_epsilon <= epsilon
    return 1.0 if done else logarithm(stage.certified_epsilon) / logarithm(epsilon)


def _cut(words: str, most: int) -> str:
    """Words on one line, cut where they grow long, and left out where hardly any would fit."""
    line = one_line(words)
    return line if len(line) <= most else line[: most - 1] + "…" if most > 6 else ""

"""`pacbandits run`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from math import log as logarithm
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbandits.cli.console import (
    PARTIAL,
    POLICIES_HELP,
    PROBLEM_HELP,
    SINGLE_HELP,
    AsJson,
    app,
    as_rate,
    check_output,
    console,
    print_json,
    say,
    say_cost,
    show,
)
from pacbandits.cli.interruption import INTERRUPTED
from pacbandits.cli.log_options import (
    PLAYERS,
    Player,
    Scheduler,
    Workers,
    check_engine,
    open_log,
    open_players,
    reading_options,
)
from pacbandits.errors import InputError, nearest, one_line, plain

if TYPE_CHECKING:
    from pacbandits.planning import StudyPlan
    from pacbandits.problems import Problem
    from pacbandits.simulation import Stage, Watch


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
    improve_on: Annotated[
        int | None,
        typer.Option(
            metavar="ACTION",
            help="Stop as soon as a gain over this action, today's practice, is proven, instead of by ε; its number, "
            "from 0. Ends after 200,000 interactions without one, unless --max-samples is given.",
        ),
    ] = None,
    gain: Annotated[
        float | None,
        typer.Option(
            parser=as_rate,
            metavar="RATE",
            help="With --improve-on: the smallest proven gain to stop at (default: any above 0).",
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
    pilot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Log of a randomised pilot on the same problem, with the propensities of all actions (or "
            "[cyan]--split[/]): its rows count as the first of the trial, which then needs fewer new ones. "
            "[cyan]--max-samples[/] limits new ones. For algorithms that certify; their option [cyan]pilot=SIZE[/] is "
            "something else, the size of the first round.",
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Assignment probabilities of the pilot, if its log lacks them: one per action, "
            "[cyan]a=0.4,b=0.6[/], or a word for equal ones, as in [cyan]pacbandits certify --split[/]."
        ),
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
        typer.Option(help="Save the trial in this file after every round, and resume from it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a best-policy identification algorithm in simulation and compare its result with the truth.

    [dim]Examples:
    pacbandits run trees:actions=8 --epsilon 0.05 --certificate proof.json --log log.parquet
    pacbandits run trees:actions=8 --epsilon 0.05 --against uniform --figure trial.png
    pacbandits run hard:m=10,gap=1 --algorithm rage --epsilon 0.2 --delta 0.1 --seed 1
    pacbandits run two-of-many:actions=6,policies=40 --algorithm coda-paper --repeat 20 --json
    pacbandits run trees:actions=8 --epsilon 0.05 --repeat 100 --engine dask
    pacbandits run trees:actions=8 --algorithm coda-paper --max-samples 1000000
    pacbandits run trees:actions=8 --epsilon 0.05 --max-samples 3000 --state trial.state
    pacbandits run linear:dimension=5,actions=10 --algorithm linear-rage --epsilon 0.05
    pacbandits run trees:actions=8 --improve-on 0 --certificate proof.json --log log.parquet
    pacbandits run trees:actions=8 --algorithm uniform:pilot=1000 --max-samples 1000 --log pilot.parquet
    pacbandits run trees:actions=8 --pilot pilot.parquet --seed 1 --certificate proof.json --log log.parquet
    pacbandits run plan.json --scenario segments[/]
    """
    from pacbandits.algorithms import find_algorithm, list_profiles, options_of, profile_of
    from pacbandits.cli.comparison import ComparedAlgorithm, check_figure, compare
    from pacbandits.compiled import compiled_before
    from pacbandits.confidence import check_asked_delta
    from pacbandits.problems import load_policies_for
    from pacbandits.proofs import save_certificate
    from pacbandits.report import comparison_document, run_document, runs_document
    from pacbandits.report.plan_report import happened_rows
    from pacbandits.report.result_report import happened_document
    from pacbandits.simulation import repeat

    check_engine(engine, scheduler=scheduler, workers=workers, known=PLAYERS)
    if engine == "dask" and repeat_ == 1:
        raise InputError("--engine dask is for many runs at once; add their number: --repeat 20")
    if workers is not None and engine != "dask":
        raise InputError("--workers needs --engine dask; add it, or leave out --workers")
    if gain is not None and improve_on is None:
        raise InputError("--gain is over today's practice; name that action: --improve-on 0")
    if improve_on is not None:
        unused = (("--epsilon", epsilon), ("--against", against), ("--figure", figure), ("--single", single or None))
        for name, value in unused:
            if value is not None:
                raise InputError(f"--improve-on stops by a proven gain, and {name} is about ε; leave one of them out")
    if split is not None and pilot is None:
        raise InputError("--split states the propensities of a pilot; name its log: --pilot pilot.csv")
    for name in (algorithm, against) if pilot is not None else ():
        if name is not None and not profile_of(name).keeps_state:
            raise InputError(f"rows of a pilot count in coda and uniform, not in {name}; leave out --pilot")
    planned, loaded = _load(problem, scenario, seed=seed)
    asked_of = (0.1, 0.05) if planned is None else (planned.supposed.unit_epsilon, planned.supposed.delta)
    epsilon, delta = asked_of[0] if epsilon is None else epsilon, asked_of[1] if delta is None else delta
    check_asked_delta(delta)
    if repeat_ > 1 and (certificate is not None or log is not None):
        raise InputError("a certificate and a log can be written for one run only; leave out --repeat")
    if repeat_ > 1 and state is not None:
        raise InputError("a file stores the state of one run; leave out --repeat or --state")
    check_output(certificate)
    check_output(log)
    if log is not None and log.suffix.lower() != ".parquet":
        raise InputError(f"logs are written as Parquet; name it {log.with_suffix('.parquet')}")
    if (certificate is not None or log is not None) and not profile_of(algorithm).certifies:
        lacks = "keeps no log" if certificate is None else "makes no certificate"
        able = ", ".join(profile.name for profile in list_profiles() if profile.certifies)
        raise InputError(f"{algorithm} {lacks}; these do: {able}")
    if figure is not None:
        check_figure(figure, algorithm=algorithm, against=against, repeats=repeat_)
    counts = (("seed", seed, 0), ("repeat", repeat_, 1), ("max-samples", max_samples, 1), ("offline", offline, 1))
    for name, count, least in counts:
        if count is not None and count < least:
            raise InputError(f"{name} must be {least} or more, got {count}")
    chosen = loaded.policies if policies is None else load_policies_for(policies, loaded)
    asked: dict[str, Any] = {
        "epsilon": epsilon if improve_on is None else None,
        "delta": delta,
        "max_samples": max_samples,
        "offline_contexts": offline,
        "pilot": None if pilot is None else open_log(pilot, reading_options(split=split)),
    }
    if pilot is None and planned is not None and profile_of(algorithm).keeps_state:
        asked["pilot"] = planned.supposed.counted_pilot
    # Algorithms without a choice answer with a single policy anyway.
    answer = "single" if single and "answer" in {one.name for one in options_of(find_algorithm(algorithm)[0])} else None
    wanted = (("scale", scale), ("solver", solver), ("answer", answer))
    options: dict[str, Any] = {name: given for name, given in wanted if given is not None}
    rival = None
    if against is not None:
        rival = ComparedAlgorithm.checked(against, loaded, chosen, asked, options, algorithm=algorithm, repeats=repeat_)
    say_cost(chosen, loaded.population, of="run")
    compiling = not compiled_before()
    names = [""] if repeat_ == 1 else [f"run {i + 1} of {repeat_}" for i in range(repeat_)]
    begun = 0 if asked["pilot"] is None else asked["pilot"].samples
    with _watch(names if against is None else [algorithm, against], epsilon=epsilon, begun=begun) as watch:
        with open_players(engine, scheduler=scheduler, workers=workers) as players:
            given = {"algorithm": algorithm, "state": state, "improve_on": improve_on, "gain": gain, **asked, **options}
            runs = repeat(loaded, chosen, runs=repeat_, seed=seed, engine=players, watch=watch, **given)
        first = runs[0]
        if certificate is not None and first.certificate is not None:
            save_certificate(certificate, first.certificate, chosen, contexts=first.contexts)
        if log is not None and first.log is not None:
            first.log.write(log)
        second = None if rival is None or first.stopped == "interrupted" else rival.run(seed, watch=watch)
    wanted_files = ((certificate, first.certificate), (log, first.log))
    if lacking := [str(path) for path, made in wanted_files if path is not None and made is None]:
        say(f"no round was played, so there is nothing to write to {' and '.join(lacking)}", err=True)
    comparison, happened = None, ()
    if planned is not None:
        certified = None if first.certificate is None else planned.unit * first.certificate.certified_epsilon
        happened = happened_rows(planned, samples=first.new_samples, algorithm=first.algorithm, certified=certified)
    if against is not None or figure is not None:
        comparison = compare(loaded, chosen, first, second, compiling=compiling, figure=figure)
    if as_json:
        whole = None if comparison is None or against is None else comparison.to_json()
        against_plan = {"planned": [list(row) for row in happened]} if happened else {}
        print_json(whole or (first.to_json() | against_plan if repeat_ == 1 else [one.to_json() for one in runs]))
    else:
        show(run_document(first) if repeat_ == 1 else runs_document(runs, asked=repeat_))
        if comparison is not None:
            show(comparison_document(comparison))
        if happened:
            show(happened_document(happened))
    stops = {one.stopped for one in (*runs, *([] if second is None else [second]))}
    if "interrupted" in stops:
        raise typer.Exit(INTERRUPTED)
    if stops != {"done"}:
        raise typer.Exit(PARTIAL)


def _load(source: str, scenario: str | None, *, seed: int) -> tuple[StudyPlan | None, Problem]:
    """Return the problem to run on; for a plan, the plan too, and a problem drawn from its scenarios."""
    from pacbandits.problems import load_problem

    if not source.endswith(".json"):
        if scenario is not None:
            raise InputError(f"--scenario needs a plan, and {plain(source)} is not one; leave it out")
        return None, load_problem(source)
    import numpy as np

    from pacbandits.planning import load_plan

    plan = load_plan(source)
    names = [one.name for one in plan.supposed.scenarios]
    if scenario is None:
        which = int(np.random.default_rng([seed, 1]).choice(len(names), p=plan.supposed.shares))
    elif scenario in names:
        which = names.index(scenario)
    else:
        raise InputError(f"the plan has no scenario '{plain(scenario)}'{nearest(scenario, names)}")
    problem = plan.supposed.problem(which, seed)
    return plan, replace(problem, name=f"{plain(source)}, scenario {names[which]}")


@contextmanager
def _watch(names: Sequence[str], *, epsilon: float, begun: int = 0) -> Generator[Watch]:
    """Show a progress bar on standard error: rounds, samples, certified ε or the best policy, time left.

    begun: the number of interactions of a pilot.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from pacbandits.certificate.claim import rounded_up
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
    with bar if screen.is_terminal else nullcontext():  # without a terminal, a bar would still leave an empty line
        task = bar.add_task("starting", total=len(names), facts="", doing="")
        furthest, seen, room = 0.0, False, BAR

        def watch(stage: Stage) -> None:
            nonlocal furthest, seen, room
            if not seen and stage.samples > begun:
                screen.print(f"resuming after {stage.samples:,} samples", highlight=False)
            seen = True
            furthest = max(furthest, stage.run + _share(stage, epsilon))
            which = f"{names[stage.run]}, " if names[stage.run] else ""
            of, fact = f" of {stage.rounds}", f"best so far {_cut(stage.policy, 20)}"
            if stage.proven_gain is not None:
                of, fact = "", f"proven gain {stage.proven_gain:+.3g}" if stage.proven_gain > -1 else "no gain bounded"
            elif stage.certified_epsilon is not None:  # a trial does not know its number of rounds
                of, fact = "", f"certified ε {rounded_up(stage.certified_epsilon):.3g}"
            where, facts = f"{which}round {stage.round_number}{of}", f"{stage.samples:,} samples, {fact}"
            room = screen.width - len(where) - BAR - len(facts) - len("0:00:00") - 4
            bar.update(task, completed=furthest, description=where, facts=facts, doing=_cut(stage.doing, room))

        with heard_by(lambda text: bar.update(task, doing=_cut(text, room))):
            yield watch


def _share(stage: Stage, epsilon: float) -> float:
    """Return the share of a run that is done: of its rounds, or of the way from 1 to ε on a logarithmic scale."""
    if stage.proven_gain is not None:  # the time to prove a gain is unknown
        return 0.0
    if stage.certified_epsilon is None:
        return max(stage.round_number - 1, 0) / max(stage.rounds, 1)
    if epsilon >= 1:
        return 0.0
    if epsilon == 0:  # the time to identify the best policy is unknown
        return 0.0
    done = stage.certified_epsilon <= epsilon
    return 1.0 if done else logarithm(stage.certified_epsilon) / logarithm(epsilon)


def _cut(words: str, most: int) -> str:
    """Return text on one line, cut to `most` characters, or "" if hardly any would fit."""
    line = one_line(words)
    return line if len(line) <= most else line[: most - 1] + "…" if most > 6 else ""

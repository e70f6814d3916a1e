"""`pacbandits bench`."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pacbandits.cli.console import PARTIAL, AsJson, app, console, print_json, say, show
from pacbandits.cli.interruption import INTERRUPTED
from pacbandits.errors import InputError

if TYPE_CHECKING:
    from pacbandits.benchmark.results import Results
    from pacbandits.benchmark.suite_runs import SuiteProgress, Watch
    from pacbandits.benchmark.suites import Suite


BAR = 24  # columns
SECONDS_BETWEEN_LINES = 60.0  # without a terminal


@app.command()
def bench(
    suite: Annotated[
        str | None, typer.Argument(help="The suite to run; [cyan]quick[/] takes minutes. --list shows all suites.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results, created if needed. Runs that it already contains are skipped."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Number of worker processes (default: one per core). 0 runs everything in this process, for debugging."
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Number of runs of each algorithm on each case (default: set by the suite).")
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(help="Run only cases that match this pattern, [cyan]'trees*'[/]. May be repeated."),
    ] = None,
    entry: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only algorithms whose name or spec matches this pattern, [cyan]'coda*'[/]. May be repeated."
        ),
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            help="Stop after this many seconds and store the finished runs; the cheapest cases come first. The same "
            "command resumes."
        ),
    ] = None,
    screen: Annotated[
        bool,
        typer.Option(
            "--screen/--no-screen",
            help="In suite [cyan]full[/], stop adding seeds of algorithms that are clearly behind on a case.",
        ),
    ] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the results in the folder first.")] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List the suites, or the cases and algorithms of one suite, and run nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run every algorithm on the same problems and store each run as a row of a table.

    Runs are spread over several worker processes. After an interrupt, a crash
    or a power failure the same command resumes. The same seed gives the same
    row, and each row holds everything needed to repeat it. All runs with the
    first seed come before those with the second, so that early results are
    comparable. In suite full, an algorithm that is clearly behind on a case
    after two or more seeds plays no more of them there.

    The folder contains [cyan]runs.parquet[/], one row per run; [cyan]facts.json[/], theoretical
    values of each case; [cyan]misfits.json[/], the algorithms that refused a case;
    [cyan]failed.json[/], runs that ended in an error, which the next command retries
    (exit code 3); [cyan]suite.json[/], suites, commands and versions. [cyan]pacbandits
    report[/] turns it into tables and figures.

    [dim]Examples:
    pacbandits bench --list
    pacbandits bench quick --out results
    pacbandits bench full --out results --jobs 16 --within 3600
    pacbandits bench quick --out results --case 'two-of-many*' --entry coda --entry uniform --seeds 50[/]
    """
    from pacbandits.benchmark.results import Results
    from pacbandits.benchmark.suite_runs import run_suite
    from pacbandits.benchmark.suites import find_suite, select
    from pacbandits.checks import positive, whole_number
    from pacbandits.compiled import cores

    if list_:
        _list(suite, as_json=as_json)
        return
    if suite is None:
        raise InputError("name a suite: pacbandits bench quick --out results (pacbandits bench --list shows all)")
    whole = find_suite(suite)
    whole = whole if screen else replace(whole, screened=False)
    chosen = select(whole, cases=case or (), entries=entry or (), seeds=seeds)
    limit = None if within is None else positive(within, name="--within")
    if out is None:
        raise InputError(f"name a folder for the results: pacbandits bench {suite} --out results")
    count = cores() if jobs is None else whole_number(jobs, name="--jobs", least=0)
    folder = Results.at(out)
    typed = _typed(out)
    try:
        with _watch(chosen) as watch:
            tally = run_suite(chosen, folder, jobs=count, command=typed, fresh=fresh, within=limit, watch=watch)
    except KeyboardInterrupt:
        say(f"interrupted; finished runs are stored in {out}. Repeat the command without --fresh to continue", err=True)
        sys.exit(INTERRUPTED)
    _tell(chosen, folder, tally, as_json=as_json)
    if tally.failures:
        say(
            f"{len(tally.failures)} of the runs failed ({out / 'failed.json'}); repeat the command to retry them",
            err=True,
        )
        sys.exit(PARTIAL)


def _list(name: str | None, *, as_json: bool) -> None:
    """Print the suites, or the cases and algorithms of one."""
    from dataclasses import asdict

    from pacbandits.benchmark.suites import SUITES, find_suite
    from pacbandits.report.benchmark.report import suite_document, suites_document

    suites = list(SUITES.values()) if name is None else [find_suite(name)]
    if as_json:
        print_json({one.name: asdict(one) for one in suites})
    else:
        show(suites_document(suites) if name is None else suite_document(suites[0]))


def _tell(suite: Suite, folder: Results, tally: SuiteProgress, *, as_json: bool) -> None:
    """Print the finished runs, and the next command."""
    from dataclasses import asdict

    from pacbandits.report.benchmark.report import played, played_document

    done, report = played(folder.asked(), suite), f"pacbandits report {shlex.quote(str(folder.path))}"
    if as_json:
        counts = {"wanted": tally.wanted, "done": tally.done, "played": tally.played, "seconds": tally.seconds}
        lacking: dict[str, Any] = {
            "misfits": [asdict(one) for one in tally.misfits],
            "failures": [asdict(one) for one in tally.failures],
        }
        print_json({"suite": suite.name, **counts, "runs": [one.to_json() for one in done], **lacking, "next": report})
        return
    show(played_document(done, misfits=tally.misfits, failures=tally.failures))
    say(f"\n{tally.done:,} of {tally.wanted:,} runs are done, {tally.played:,} of them new.")
    say(f"For tables and figures: {report}")


def _typed(out: Path) -> str:
    """Return the command as typed, with the folder's name instead of its path."""
    words = [out.name if Path(word) == out else word for word in sys.argv[1:]]
    words = [f"--out={out.name}" if word.startswith("--out=") else word for word in words]
    return shlex.join(["pacbandits", *words])


def _time_left(seconds: float | None) -> str:
    """Return the time left in words."""
    if seconds is None:
        return "time left unknown"
    return f"about {seconds / 60:,.0f} min left" if seconds > 90 else f"about {seconds:,.0f} s left"


@contextmanager
def _watch(suite: Suite) -> Generator[Watch]:
    """Show a progress bar on standard error: runs done and time left; without a terminal, a line per minute."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=BAR),
        MofNCompleteColumn(),
        TextColumn("runs, {task.fields[failed]}{task.fields[left]} after", markup=False),
        TimeElapsedColumn(),
    )
    screen = console()
    bar = Progress(*columns, console=screen, transient=True)
    with bar if screen.is_terminal else nullcontext():  # without a terminal, a bar would still leave an empty line
        task, last, begun = bar.add_task(suite.name, total=None, failed="", left=""), time.monotonic(), False

        def watch(tally: SuiteProgress) -> None:
            nonlocal last, begun
            if not begun and tally.done:
                screen.print(f"{tally.done:,} of {tally.wanted:,} runs are done already", highlight=False)
            begun = True
            failed = f"{len(tally.failures)} failed, " if tally.failures else ""
            left = _time_left(tally.seconds_left)
            bar.update(task, completed=tally.done, total=tally.wanted, failed=failed, left=left)
            if not screen.is_terminal and time.monotonic() - last > SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                screen.print(f"{tally.done:,} of {tally.wanted:,} runs, {failed}{left}", highlight=False)

        yield watch

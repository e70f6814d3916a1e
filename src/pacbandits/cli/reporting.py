"""`pacbandits report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbandits.cli.shared import app, check_output, print_json, say, show
from pacbandits.errors import InputError

if TYPE_CHECKING:
    from pacbandits.benchmark.findings import BenchmarkFindings

DEFAULT_NAME = "report.html"


@app.command("report")
def report_results(
    results: Annotated[Path, typer.Argument(help="The folder that [cyan]pacbandits bench[/] played into.")],
    out: Annotated[
        Path | None, typer.Option(help=f"Where to write the page (.html): {DEFAULT_NAME} in that folder, if not said.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the tables here, in Markdown (.md).")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all figures as JSON instead; a page is written only with --out.")
    ] = False,
) -> None:
    """What came of a benchmark: who proves the best policy soonest, who is right soonest, and what that costs.

    One page of HTML that needs nothing else, with all tables and figures, the environment and the commands; made from
    the rows of the folder alone, also while more of them are played.

    [dim]Examples:
    pacbandits report results/
    pacbandits report results/ --out report.html --markdown tables.md
    pacbandits report results/ --json[/]
    """
    page = out if out is not None or as_json else results / DEFAULT_NAME
    _check_name(page, endings=(".html", ".htm"), option="--out")
    _check_name(markdown, endings=(".md",), option="--markdown")
    from pacbandits.benchmark.findings import read_findings
    from pacbandits.cli.screen import make_console
    from pacbandits.report.benchmark import benchmark_summary

    with make_console(stderr=True).status("reading") as line:  # nothing here compiles, as `status` would say
        found = read_findings(results)
        for path in (page, markdown):
            check_output(path)
        line.update("drawing")
        _write(found, page, markdown)
    if as_json:
        print_json(found.to_json())
        return
    show(benchmark_summary(found))
    for path in (page, markdown):
        if path is not None:
            say(f"written: {path}")


def _check_name(path: Path | None, *, endings: tuple[str, ...], option: str) -> None:
    if path is not None and path.suffix.lower() not in endings:
        raise InputError(f"{option} must end in {' or '.join(endings)}, got '{path}'")


def _write(found: BenchmarkFindings, page: Path | None, markdown: Path | None) -> None:
    """Write what is asked for."""
    from pacbandits.report.benchmark import report_html, report_markdown, separation_chapters

    for path, make in ((page, report_html), (markdown, report_markdown)):
        if path is None:
            continue
        try:
            path.write_text(make(found, chapters=separation_chapters(found.rows)), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}") from None

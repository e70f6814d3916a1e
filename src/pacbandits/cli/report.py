"""`pacbandits report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pacbandits.cli.console import app, check_output, print_json, say, show
from pacbandits.errors import InputError

if TYPE_CHECKING:
    from pacbandits.benchmark.claims import BenchmarkFindings


DEFAULT_NAME = "report.html"


@app.command("report")
def report_results(
    results: Annotated[Path, typer.Argument(help="The results folder of [cyan]pacbandits bench[/].")],
    out: Annotated[
        Path | None,
        typer.Option(help=f"Write the page to this .html file (default: {DEFAULT_NAME} in the results folder)."),
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the tables to this Markdown file (.md).")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all figures as JSON; a page is then written only with --out.")
    ] = False,
) -> None:
    """Report the results of a benchmark: samples until the best policy is proven, until it is found, and run time.

    Writes one self-contained HTML page with all tables and figures, the
    environment and the commands. It needs only the rows in the folder and can
    be made while the benchmark is still running.

    [dim]Examples:
    pacbandits report results/
    pacbandits report results/ --out report.html --markdown tables.md
    pacbandits report results/ --json[/]
    """
    page = out if out is not None or as_json else results / DEFAULT_NAME
    _check_name(page, endings=(".html", ".htm"), option="--out")
    _check_name(markdown, endings=(".md",), option="--markdown")
    from pacbandits.benchmark.claims import read_findings
    from pacbandits.cli.console import make_console
    from pacbandits.report.benchmark import benchmark_summary

    with make_console(stderr=True).status("reading") as line:  # not `status`, which announces compilation
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
    """Write the requested files."""
    from pacbandits.report.benchmark import report_html, report_markdown, separation_chapters

    for path, make in ((page, report_html), (markdown, report_markdown)):
        if path is None:
            continue
        try:
            path.write_text(make(found, chapters=separation_chapters(found.rows)), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}") from None

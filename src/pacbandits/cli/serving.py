"""`pacbandits serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from pacbandits.cli.shared import app
from pacbandits.service.limits import ServiceLimits


@app.command("serve")
def serve_experiments(
    port: Annotated[int, typer.Option(help="Where to listen; 0 for any port that is free.", min=0, max=65535)] = 8000,
    host: Annotated[
        str,
        typer.Option(help="On which address; [cyan]0.0.0.0[/] for all. Put what ends TLS in front of it."),
    ] = "127.0.0.1",
    database: Annotated[
        str,
        typer.Option(
            help="A file of SQLite, or [cyan]postgresql://user:password@host/name[/] for more than one server.",
            envvar="PACBANDITS_DATABASE",
            show_envvar=True,
        ),
    ] = "pacbandits.db",
    worker: Annotated[
        bool,
        typer.Option(
            help="Start the process that closes rounds, looks at the data and designs. Several servers may each have "
            "one; one at least is needed."
        ),
    ] = True,
    max_body: Annotated[int, typer.Option(help="The longest body of a request, in bytes.", min=1)] = (
        ServiceLimits.max_body_bytes
    ),
    max_batch: Annotated[int, typer.Option(help="The most assignments or rewards in one request.", min=1)] = (
        ServiceLimits.max_batch
    ),
    rate: Annotated[
        float, typer.Option(help="Assignments and rewards a second that a key may ask for, on average.", min=1)
    ] = ServiceLimits.rows_per_second,
    demo: Annotated[
        bool, typer.Option("--demo", help="Make up an experiment, [cyan]checkout[/], and visitors who come to it.")
    ] = False,
) -> None:
    """Serve experiments over HTTP, with a dashboard: assignments and rewards are stored before they are answered.

    The admin's key, which creates experiments and keys, is taken from
    PACBANDITS_ADMIN_KEY, or made and printed once. Ends at an interrupt or
    when asked to terminate, once it has answered what it had accepted. Its
    journal, one JSON object a line, goes to standard error.

    [dim]Examples:
    pacbandits serve --port 8000
    pacbandits serve --demo --database demo.db
    pacbandits serve --database postgresql://pacbandits@localhost/experiments --host 0.0.0.0[/]
    """
    from pacbandits.service.extra import SERVER_MODULES, check_installed

    check_installed(SERVER_MODULES, what="pacbandits serve", extra="service")
    from pacbandits.service.serving import Serving, serve

    limits = ServiceLimits(
        max_body_bytes=max_body, max_batch=max_batch, rows_per_second=rate, burst_rows=max(2 * rate, max_batch)
    )
    serve(Serving(database=database, host=host, port=port, worker=worker, limits=limits, demo=demo))

"""`pacbandits serve`."""

from __future__ import annotations

import gc
from importlib.util import find_spec
from typing import Annotated

import typer

from pacbandits.cli.console import app
from pacbandits.errors import InputError
from pacbandits.service.limits import ServiceLimits

SERVER_MODULES = ("sqlalchemy", "fastapi", "uvicorn", "prometheus_client")  # of the extra `service`


@app.command("serve")
def serve_experiments(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free port.", min=0, max=65535)] = 8000,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; [cyan]0.0.0.0[/] for all. Put a reverse proxy for TLS in front of it."
        ),
    ] = "127.0.0.1",
    database: Annotated[
        str,
        typer.Option(
            help="An SQLite file, or [cyan]postgresql://user:password@host/name[/] for several servers.",
            envvar="PACBANDITS_DATABASE",
            show_envvar=True,
        ),
    ] = "pacbandits.db",
    worker: Annotated[
        bool,
        typer.Option(
            help="Start the worker process that closes rounds, runs interim analyses and computes designs. Several "
            "servers may each have one; at least one is needed."
        ),
    ] = True,
    max_body: Annotated[int, typer.Option(help="Maximum size of a request body, in bytes.", min=1)] = (
        ServiceLimits.max_body_bytes
    ),
    max_batch: Annotated[
        int, typer.Option(help="Maximum number of assignments or rewards in one request.", min=1)
    ] = ServiceLimits.max_batch,
    rate: Annotated[
        float, typer.Option(help="Rate limit per key: assignments and rewards per second, on average.", min=1)
    ] = ServiceLimits.rows_per_second,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Create a demonstration experiment, [cyan]checkout[/], with simulated visitors."),
    ] = False,
    typescript_client: Annotated[
        bool, typer.Option("--typescript-client", help="Print a client of the service in TypeScript, and exit.")
    ] = False,
) -> None:
    """Serve experiments over HTTP, with a dashboard. Assignments and rewards are stored before they are answered.

    The admin key, which creates experiments and keys, comes from
    PACBANDITS_ADMIN_KEY; otherwise one is generated and printed once. On an
    interrupt or SIGTERM the server finishes accepted requests, then exits.
    It writes a log of JSON lines to standard error.

    [dim]Examples:
    pacbandits serve --port 8000
    pacbandits serve --demo --database demo.db
    pacbandits serve --database postgresql://pacbandits@localhost/experiments --host 0.0.0.0[/]
    """
    for module in SERVER_MODULES:
        if find_spec(module) is None:
            raise InputError(f"pacbandits serve needs {module}; pip install 'pacbandits[service]'")
    if typescript_client:
        from pacbandits.service.application import describe_service
        from pacbandits.service.openapi import make_typescript_client

        print(make_typescript_client(describe_service()), end="")
        return
    gc.disable()  # until the server starts: there is no garbage among modules, and looking for it takes a tenth of that
    from pacbandits.service.server import Serving, serve

    limits = ServiceLimits(
        max_body_bytes=max_body, max_batch=max_batch, rows_per_second=rate, burst_rows=max(2 * rate, max_batch)
    )
    serve(Serving(database=database, host=host, port=port, worker=worker, limits=limits, demo=demo))

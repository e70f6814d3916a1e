"""The service as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import APIRouter, FastAPI
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from pacbandits.errors import InputError
from pacbandits.schema import Json
from pacbandits.service import assignment_routes, steering
from pacbandits.service.access import REFRESH_SECONDS, Keys, ProxySignIn, Service, Sessions
from pacbandits.service.event_log import Journal, Meters
from pacbandits.service.gate import UNFORESEEN, Gate
from pacbandits.service.limits import ServiceLimits
from pacbandits.service.messages import HealthAnswer, ReadyAnswer, Refusal, refusal_of
from pacbandits.service.open_experiments import Shelf
from pacbandits.service.openapi import document, errors, operation_id
from pacbandits.service.parts import PartWatch
from pacbandits.version import __version__

DESCRIPTION = "Experiments on live traffic that end with a policy and a proof: who gets what, and what came of it."
DASHBOARD = "pacbandits.service.dashboard"


class Application(FastAPI):
    """A FastAPI application behind a gate, which answers the routes with most traffic: the framework takes longer."""

    gate: Gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.gate(scope, receive, send)


def create_app(
    database: str | Path,
    *,
    admin_key: str | None = None,
    limits: ServiceLimits | None = None,
    journal: Journal | None = None,
    proxy: ProxySignIn | None = None,
) -> FastAPI:
    """Return the service over the experiments of a database, as an application for any ASGI server.

    database: the path of an SQLite file, created if missing, or a URL.
    admin_key: an admin key besides the stored ones; it is not stored.
    limits: limits on bodies, batches and rates.
    journal: the server log; by default it goes to standard error.
    proxy: sign-in to the dashboard by a proxy in front of it.

    The application's `state.service` is the `Service` that its routes share, with the keys.
    """
    limits, journal, meters = limits or ServiceLimits(), journal or Journal(), Meters()
    shelf = Shelf(database, limits=limits, meters=meters, journal=journal)
    service = Service(shelf, Keys(shelf.database, admin=admin_key), limits, meters, journal)

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncGenerator[None]:
        looking = asyncio.create_task(_keep_looking(service))
        yield
        service.stopping = True
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        await run_in_threadpool(shelf.close)
        journal.close()

    app = Application(
        title="pacbandits",
        version=__version__,
        description=DESCRIPTION,
        lifespan=living,
        docs_url=None,  # its page would load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
    )
    app.state.service = service
    people = assignment_routes.People(service)
    app.gate = Gate(
        super(Application, app).__call__,
        limits=limits,
        meters=meters,
        journal=journal,
        straight=people.routes(),
        allows=service.keys.allows,
    )
    app.include_router(assignment_routes.router_for(people))
    app.include_router(steering.router_for(service))
    app.include_router(_health(service))
    if find_spec(DASHBOARD) is not None:
        pages: Any = import_module(DASHBOARD)
        sessions = Sessions(shelf.database, service.keys)
        app.include_router(
            pages.router_for(
                shelf.open,
                shelf.names,
                sessions,
                trusted=proxy.read if proxy else None,
                versions=shelf.versions,
                export=shelf.export,
                certificate=shelf.certificate,
            )
        )
        app.add_api_route("/", _to_dashboard, include_in_schema=False)
    _answer_errors(app)
    document(app)
    return app


def describe_service() -> Json:
    """Return the OpenAPI document of the service."""
    with TemporaryDirectory() as folder:
        app = create_app(Path(folder) / "empty.db")
        service: Service = app.state.service
        described = app.openapi()
        service.shelf.close()
        service.journal.close()
    return described


async def _keep_looking(service: Service) -> None:
    """Reload the keys periodically, to learn of those that other servers created or revoked."""
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        with suppress(SQLAlchemyError):  # while the database does not respond, the known keys stay valid
            await run_in_threadpool(service.keys.refresh)


def _health(service: Service) -> APIRouter:
    router = APIRouter(tags=["health"])
    well, watch = {"status": "ok", "version": __version__}, PartWatch(service.shelf.database)

    async def healthy() -> Response:
        """Return 200 if the server runs."""
        return JSONResponse(well)

    router.get("/healthz", summary="Liveness", responses={200: {"model": HealthAnswer}}, response_model=None)(healthy)

    async def ready() -> Response:
        """Return 200 if the server accepts requests and stores what it answers; warnings name other parts that fail."""
        if service.stopping:
            raise Refusal(503, "the server is being shut down")
        parts = await run_in_threadpool(watch.look)
        if parts.faults:
            raise Refusal(503, "; ".join(parts.faults))
        return JSONResponse(well | {"warnings": list(parts.warnings)})

    router.get(
        "/readyz",
        summary="Readiness",
        responses={200: {"model": ReadyAnswer}, **errors(503)},
        response_model=None,
    )(ready)

    async def metrics() -> Response:
        """Return the metrics for Prometheus; they name no experiment."""
        service.meters.show(await run_in_threadpool(watch.look))
        return Response(service.meters.text(), media_type="text/plain; version=0.0.4")

    router.get(
        "/metrics",
        summary="Metrics",
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        response_class=Response,
        response_model=None,
    )(metrics)

    return router


def _to_dashboard(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/dashboard", status_code=303)


def _answer_errors(app: FastAPI) -> None:
    """Register the handlers that turn errors into JSON responses with a message."""

    def told(refusal: Refusal) -> JSONResponse:
        return JSONResponse({"error": refusal.sentence}, status_code=refusal.status, headers=refusal.headers)

    async def refused(_: Request, error: Exception) -> Response:
        if isinstance(error, SQLAlchemyError):
            journal: Journal = app.state.service.journal
            journal.error("the database does not answer", error)
        return told(refusal_of(error) or Refusal(500, UNFORESEEN))

    async def lost(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = {404: "there is nothing at this address; /openapi.json says what there is"}
        words[405] = "this address takes other methods; the header Allow names them"
        sentence = words.get(error.status_code, str(error.detail))
        return told(Refusal(error.status_code, sentence, headers=dict(error.headers or {})))

    for foreseen in (Refusal, InputError, SQLAlchemyError):
        app.add_exception_handler(foreseen, refused)
    app.add_exception_handler(HTTPException, lost)

"""Routes to create, read and steer experiments, and to manage their keys."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from pacbandits.errors import InputError, plain
from pacbandits.experiment.experiment import Experiment
from pacbandits.schema import Json, json_text
from pacbandits.service.access import Grant, Scope, Service, parse
from pacbandits.service.documented import READING, STEERING, body, errors
from pacbandits.service.messages import (
    CreatedAnswer,
    ExperimentAsk,
    KeyAnswer,
    KeyAsk,
    KeysAnswer,
    NamesAnswer,
    Reason,
    Refusal,
    SealAnswer,
    ShownKey,
    StatusAnswer,
    Withdrawal,
)

PARQUET = "application/vnd.apache.parquet"
_EXPERIMENT = TypeAdapter(ExperimentAsk)
_KEY = TypeAdapter(KeyAsk)


def router_for(service: Service) -> APIRouter:
    """Return the router with all these routes."""
    router = APIRouter()
    _add_creating(router, service)
    _add_looking(router, service)
    _add_steering(router, service)
    _add_keys(router, service)
    return router


def _add_creating(router: APIRouter, service: Service) -> None:
    async def create(request: Request) -> Response:
        """Create an experiment. Needs the admin key. The response has two keys for it, shown only once."""
        service.spend(await service.admit_admin(request.scope), 1)
        asked = parse(await request.body(), _EXPERIMENT)

        def make() -> Json:
            seal = Experiment.create(service.shelf.database, asked.protocol()).seal().to_json()
            scopes: tuple[Scope, ...] = ("read", "write")
            made = [service.keys.make(asked.name, scope) for scope in scopes]
            return {"experiment": asked.name, "keys": [_with_secret(*one) for one in made], "seal": seal}

        return _answer(await run_in_threadpool(make), status=201)

    router.post(
        "/experiments",
        status_code=201,
        summary="Create an experiment",
        tags=["experiments"],
        responses={201: {"model": CreatedAnswer}, **STEERING},
        openapi_extra=body(ExperimentAsk),
        response_model=None,
    )(create)

    async def names(request: Request) -> Response:
        """List the names of the experiments that the key may read."""
        grant = await service.holder(request.scope)
        service.spend(grant, 1)
        found = await run_in_threadpool(service.shelf.names)
        return _answer({"experiments": [name for name in found if grant.opens(name, "read")]})

    router.get(
        "/experiments",
        summary="List experiments",
        tags=["experiments"],
        responses={200: {"model": NamesAnswer}, **errors(401, 429, 503)},
        response_model=None,
    )(names)


def _add_looking(router: APIRouter, service: Service) -> None:
    def add(path: str, summary: str, words: str, model: Any, look: Callable[[Experiment], Json]) -> None:
        async def answer(name: str, request: Request) -> Response:
            service.spend(await service.admit(request.scope, name, "read"), 1)
            return _answer(await service.shelf.ask(name, look))

        router.add_api_route(
            path,
            answer,
            methods=["GET"],
            summary=summary,
            description=words,
            operation_id=summary.lower().replace(" ", "_"),
            tags=["experiments"],
            responses={200: {"model": model}, **READING},
            response_model=None,
        )

    at = "/experiments/{name}"
    add(at, "Status", "Where it stands.", StatusAnswer, lambda e: e.status().to_json())
    add(f"{at}/result", "Result", "What is proven so far, and of which policy.", Json, lambda e: e.result().to_json())
    add(f"{at}/seal", "Seal", "The head of the chain of its record.", SealAnswer, lambda e: e.seal().to_json())
    words = "The design that is played now, or the final policy, for a client that evaluates it by itself."
    add(f"{at}/design", "Design", words, Json, lambda e: e.payload())

    async def export(name: str, request: Request) -> Response:
        """Export the event log as a Parquet file that `pacbandits certify` and `pacbandits verify` read."""
        service.spend(await service.admit(request.scope, name, "read"), 1)

        def write(experiment: Experiment) -> Path:
            with tempfile.NamedTemporaryFile(suffix=".parquet", delete=False) as file:
                path = Path(file.name)
            try:
                experiment.export(path)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
            return path

        path = await service.shelf.ask(name, write)
        return FileResponse(
            path, media_type=PARQUET, filename="experiment.parquet", background=BackgroundTask(path.unlink)
        )

    router.get(
        at + "/export",
        summary="Export",
        tags=["experiments"],
        responses={200: {"content": {PARQUET: {}}, "description": "The log in Parquet."}, **READING, **errors(409)},
        response_class=FileResponse,
        response_model=None,
    )(export)


def _add_steering(router: APIRouter, service: Service) -> None:
    def add(word: str, summary: str, words: str, model: Any, steer: Callable[[Experiment, Any], object]) -> None:
        adapter: TypeAdapter[Any] = TypeAdapter(model)

        async def answer(name: str, request: Request) -> Response:
            service.spend(await service.admit(request.scope, name, "write"), 1)
            asked = parse(await request.body(), adapter)

            def do(experiment: Experiment) -> Json:
                steer(experiment, asked)
                return experiment.status().to_json()

            return _answer(await service.shelf.ask(name, do))

        router.add_api_route(
            "/experiments/{name}/" + word,
            answer,
            methods=["POST"],
            summary=summary,
            description=words + " Answers with the status.",
            operation_id=word.replace("-", "_"),
            tags=["steering"],
            responses={200: {"model": StatusAnswer}, **STEERING},
            openapi_extra=body(model),
            response_model=None,
        )

    add(
        "pause",
        "Pause",
        "No new units are assigned; with sticky visits known units keep their action.",
        Reason,
        lambda e, a: e.pause(a.reason),
    )
    add("resume", "Resume", "Take people in again.", Reason, lambda e, a: e.resume(a.reason))
    add("stop", "Stop", "For good.", Reason, lambda e, a: e.stop(a.reason))
    words = "Play an action no more, at once. What that costs is stated with the claim."
    add("withdraw", "Withdraw an action", words, Withdrawal, lambda e, a: e.withdraw(a.action, a.reason))
    words = "Close the round now; the next one is designed from what is known."
    add("close-round", "Close the round", words, Reason, lambda e, a: e.close_round(a.reason))


def _add_keys(router: APIRouter, service: Service) -> None:
    at = "/experiments/{name}/keys"

    async def admit(request: Request, name: str) -> None:
        service.spend(await service.admit_admin(request.scope), 1)
        await service.shelf.ask(name, lambda _: None)  # raises if there is no such experiment

    async def make(name: str, request: Request) -> Response:
        """Create a key for an experiment, shown only once. Needs the admin key."""
        await admit(request, name)
        asked = parse(await request.body(), _KEY)
        return _answer(_with_secret(*await run_in_threadpool(service.keys.make, name, asked.scope)), status=201)

    router.post(
        at,
        status_code=201,
        summary="Make a key",
        tags=["keys"],
        responses={201: {"model": KeyAnswer}, **STEERING},
        openapi_extra=body(KeyAsk),
        response_model=None,
    )(make)

    async def keys(name: str, request: Request) -> Response:
        """List the keys of an experiment, without their secrets. Needs the admin key."""
        await admit(request, name)
        return _answer({"keys": [_without_secret(grant) for grant in service.keys.of(name)]})

    router.get(
        at,
        summary="List keys",
        tags=["keys"],
        responses={200: {"model": KeysAnswer}, **READING},
        response_model=None,
    )(keys)

    async def withdraw(name: str, identity: str, request: Request) -> Response:
        """Revoke a key: at once on this server, within seconds on others. Needs the admin key."""
        await admit(request, name)
        if not identity.isalnum():
            raise Refusal(404, f"there is no key '{plain(identity)}'")
        try:
            grant = await run_in_threadpool(lambda: service.keys.withdraw(identity, experiment=name))
        except InputError as error:
            raise Refusal(404, str(error)) from None
        return _answer(_without_secret(grant))

    router.delete(
        at + "/{identity}",
        summary="Withdraw a key",
        tags=["keys"],
        responses={200: {"model": ShownKey}, **READING},
        response_model=None,
    )(withdraw)


def _with_secret(key: str, grant: Grant) -> Json:
    return {"id": grant.id, "scope": grant.scope, "key": key}


def _without_secret(grant: Grant) -> Json:
    created = datetime.fromtimestamp(grant.created / 1e6, UTC).isoformat(timespec="seconds")
    return {"id": grant.id, "scope": grant.scope, "created": created}


def _answer(value: Json, *, status: int = 200) -> Response:
    return Response(json_text(value).encode(), status_code=status, media_type="application/json")

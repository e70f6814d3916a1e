"""Routes to create, read and steer experiments, and to manage their keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from pacbandits.errors import InputError, plain
from pacbandits.experiment.database import spell
from pacbandits.experiment.experiment import Experiment
from pacbandits.experiment.protocol import read_duration
from pacbandits.schema import Json, json_text
from pacbandits.service.access import ADMIN, SCOPES, Grant, Service, parse
from pacbandits.service.messages import (
    AdminKeyAsk,
    CreatedAnswer,
    DeletedAnswer,
    Deletion,
    ExperimentAsk,
    KeyAnswer,
    KeyAsk,
    KeysAnswer,
    NamesAnswer,
    Reason,
    Refusal,
    RotationAsk,
    SealAnswer,
    ShownKey,
    StatusAnswer,
    Withdrawal,
)
from pacbandits.service.openapi import READING, STEERING, body, errors

PARQUET = "application/vnd.apache.parquet"
_EXPERIMENT, _DELETION = TypeAdapter(ExperimentAsk), TypeAdapter(Deletion)
_KEY, _ADMIN_KEY, _ROTATION = TypeAdapter(KeyAsk), TypeAdapter(AdminKeyAsk), TypeAdapter(RotationAsk)


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
        """Create an experiment. Needs the admin key. The response has a key for each scope, shown only once."""
        service.spend(await service.admit_admin(request.scope), 1)
        asked = parse(await request.body(), _EXPERIMENT)

        def make() -> Json:
            seal = Experiment.create(service.shelf.database, asked.protocol()).seal().to_json()
            made = [service.keys.make(asked.name, scope) for scope in SCOPES]
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

    async def delete(name: str, request: Request) -> Response:
        """Delete an experiment with all its records and keys, for good. Needs an admin key and the name again."""
        service.spend(await service.admit_admin(request.scope), 1)
        asked = parse(await request.body(), _DELETION)
        if asked.confirm != name:
            raise Refusal(422, f"'confirm' must be '{plain(name)}', the name of what is deleted for good")
        await run_in_threadpool(service.shelf.delete, name)
        await run_in_threadpool(service.keys.refresh)
        return _answer({"experiment": name, "deleted": True})

    router.delete(
        "/experiments/{name}",
        summary="Delete an experiment",
        tags=["experiments"],
        responses={200: {"model": DeletedAnswer}, **STEERING},
        openapi_extra=body(Deletion),
        response_model=None,
    )(delete)

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
            grant = await service.admit(request.scope, name, "read")
            return _answer(await service.look(grant, name, look))

        router.add_api_route(
            path,
            answer,
            methods=["GET"],
            summary=summary,
            description=words,
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
        grant = await service.admit(request.scope, name, "read")
        path = await service.export(grant, name)
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
    def add(word: str, summary: str, words: str, model: Any, steer: Callable[[Experiment, Any, str], object]) -> None:
        adapter: TypeAdapter[Any] = TypeAdapter(model)

        async def answer(name: str, request: Request) -> Response:
            grant = await service.admit(request.scope, name, "steer")
            service.spend(grant, 1)
            asked = parse(await request.body(), adapter)

            def do(experiment: Experiment) -> Json:
                steer(experiment, asked, grant.who)
                return experiment.status().to_json()

            return _answer(await service.shelf.ask(name, do))

        router.add_api_route(
            "/experiments/{name}/" + word,
            answer,
            methods=["POST"],
            summary=summary,
            description=words + " Answers with the status.",
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
        lambda e, a, by: e.pause(a.reason, by=by),
    )
    add("resume", "Resume", "Take people in again.", Reason, lambda e, a, by: e.resume(a.reason, by=by))
    add("stop", "Stop", "For good.", Reason, lambda e, a, by: e.stop(a.reason, by=by))
    words = "Play an action no more, at once. What that costs is stated with the claim."
    add("withdraw", "Withdraw an action", words, Withdrawal, lambda e, a, by: e.withdraw(a.action, a.reason, by=by))
    words = "Close the round now; the next one is designed from what is known."
    add("close-round", "Close the round", words, Reason, lambda e, a, by: e.close_round(a.reason, by=by))


def _add_keys(router: APIRouter, service: Service) -> None:
    at = "/experiments/{name}/keys"

    async def admit(request: Request, name: str | None = None) -> None:
        service.spend(await service.admit_admin(request.scope), 1)
        if name is not None:
            await service.shelf.ask(name, lambda _: None)  # raises if there is no such experiment

    async def change(change: Callable[[], Any]) -> Any:
        try:
            return await run_in_threadpool(change)
        except InputError as error:
            raise Refusal(404, str(error)) from None

    async def make(name: str, request: Request) -> Response:
        """Create a key for an experiment, shown only once. Needs an admin key."""
        await admit(request, name)
        asked = parse(await request.body(), _KEY)
        if asked.origins and asked.scope != "assign":
            raise Refusal(422, f"a key with origins is public; its scope must be assign, not {asked.scope}")
        seconds, origins = _seconds(asked.expires), " ".join(asked.origins)
        made = await run_in_threadpool(
            lambda: service.keys.make(name, asked.scope, label=asked.label, seconds=seconds, origins=origins)
        )
        return _answer(_with_secret(*made), status=201)

    async def keys(name: str, request: Request) -> Response:
        """List the keys of an experiment, without their secrets. Needs an admin key."""
        await admit(request, name)
        return _answer({"keys": [_without_secret(grant) for grant in service.keys.of(name)]})

    async def withdraw(name: str, identity: str, request: Request) -> Response:
        """Revoke a key: at once on this server, within seconds on others. Needs an admin key."""
        await admit(request, name)
        return _answer(_without_secret(await change(lambda: service.keys.withdraw(identity, experiment=name))))

    async def make_admin(request: Request) -> Response:
        """Create an admin key, shown only once. Needs an admin key."""
        await admit(request)
        asked = parse(await request.body(), _ADMIN_KEY)
        seconds = _seconds(asked.expires)
        made = await run_in_threadpool(lambda: service.keys.make("", ADMIN, label=asked.label, seconds=seconds))
        return _answer(_with_secret(*made), status=201)

    async def all_keys(request: Request) -> Response:
        """List all keys: of every experiment, and admin keys. Needs an admin key."""
        await admit(request)
        return _answer({"keys": [_without_secret(grant) for grant in service.keys.of()]})

    async def withdraw_any(identity: str, request: Request) -> Response:
        """Revoke any key, also an admin key: at once on this server, within seconds on others. Needs an admin key."""
        await admit(request)
        return _answer(_without_secret(await change(lambda: service.keys.withdraw(identity))))

    async def rotate(identity: str, request: Request) -> Response:
        """Replace a key by a new one with the same permissions, shown only once. Needs an admin key."""
        await admit(request)
        grace = _seconds(parse(await request.body(), _ROTATION).grace) or 0.0
        return _answer(
            _with_secret(*await change(lambda: service.keys.rotate(identity, grace_seconds=grace))), status=201
        )

    made, shown, listed = ({"model": one} for one in (KeyAnswer, ShownKey, KeysAnswer))
    routes: tuple[tuple[str, str, Any, str, Any, Json], ...] = (
        ("POST", at, make, "Make a key", {201: made, **STEERING}, body(KeyAsk)),
        ("GET", at, keys, "List keys", {200: listed, **READING}, {}),
        ("DELETE", at + "/{identity}", withdraw, "Withdraw a key", {200: shown, **READING}, {}),
        ("POST", "/keys", make_admin, "Make an admin key", {201: made, **STEERING}, body(AdminKeyAsk)),
        ("GET", "/keys", all_keys, "List all keys", {200: listed, **READING}, {}),
        ("DELETE", "/keys/{identity}", withdraw_any, "Withdraw any key", {200: shown, **READING}, {}),
        ("POST", "/keys/{identity}/rotate", rotate, "Rotate a key", {201: made, **STEERING}, body(RotationAsk)),
    )
    for route in routes:
        _add_route(router, *route)


def _add_route(
    router: APIRouter, method: str, path: str, answer: Any, summary: str, responses: Any, extra: Json
) -> None:
    router.add_api_route(
        path,
        answer,
        methods=[method],
        status_code=201 if 201 in responses else 200,
        summary=summary,
        tags=["keys"],
        responses=responses,
        openapi_extra=extra,
        response_model=None,
    )


def _seconds(lasting: str | None) -> float | None:
    return None if lasting is None else read_duration(lasting, name="it")


def _with_secret(key: str, grant: Grant) -> Json:
    return {"id": grant.id, "scope": grant.scope, "key": key, **_limits_of(grant)}


def _without_secret(grant: Grant) -> Json:
    about = {"id": grant.id, "experiment": grant.experiment or None, "scope": grant.scope}
    return about | {"created": spell(grant.created), **_limits_of(grant)}


def _limits_of(grant: Grant) -> Json:
    expires = spell(grant.expires) if grant.expires else None
    return {"label": grant.label, "expires": expires, "origins": grant.origins.split()}


def _answer(value: Json, *, status: int = 200) -> Response:
    return Response(json_text(value).encode(), status_code=status, media_type="application/json")

"""The OpenAPI description of the routes: bodies, errors, keys."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from pacbandits.schema import Json
from pacbandits.service.messages import (
    AdminKeyAsk,
    AssignmentAsk,
    AssignmentBatch,
    Deletion,
    ErrorAnswer,
    ExperimentAsk,
    KeyAsk,
    Reason,
    RewardAsk,
    RewardBatch,
    RotationAsk,
    Withdrawal,
)

BODIES: tuple[type[BaseModel], ...] = (
    AssignmentAsk,
    AssignmentBatch,
    RewardAsk,
    RewardBatch,
    Reason,
    Withdrawal,
    KeyAsk,
    AdminKeyAsk,
    RotationAsk,
    Deletion,
    ExperimentAsk,
)
OPEN = ("/healthz", "/readyz", "/metrics")
_ERRORS = {
    401: "No key, or one that is not valid.",
    403: "The key does not open this.",
    404: "There is no such experiment, assignment or key.",
    409: "It is not the time for this: the experiment is paused or stopped, or it contradicts what is known.",
    410: "The reward came after its window: it is noted, and does not count.",
    413: "The body, or the batch, is too long.",
    431: "The header is too long.",
    422: "What was asked is wrong; the sentence says what.",
    429: "Too much at once; Retry-After says when to ask again.",
    503: "The database does not answer, or the server ends; ask again.",
}
_REF = "#/components/schemas/{model}"


def errors(*statuses: int) -> dict[int | str, Json]:
    """Return the OpenAPI descriptions of a route's error responses."""
    return {status: {"model": ErrorAnswer, "description": _ERRORS[status]} for status in statuses}


READING = errors(401, 403, 404, 422, 429, 503)
STEERING = errors(401, 403, 404, 409, 413, 422, 429, 503)


def body(*models: type[BaseModel]) -> Json:
    """Return the OpenAPI description of a request body that is one of these models."""
    refs = [{"$ref": _REF.format(model=model.__name__)} for model in models]
    schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def document(app: FastAPI) -> None:
    """Set an application's OpenAPI document, with request bodies and keys."""

    def described() -> Json:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes, tags=None
            )
            _, definitions = models_json_schema([(model, "validation") for model in BODIES], ref_template=_REF)
            components = made.setdefault("components", {})
            components.setdefault("schemas", {}).update(definitions.get("$defs", {}))
            components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            for path, operations in made["paths"].items():
                for operation in operations.values():
                    operation["security"] = [] if path in OPEN else [{"key": []}]
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = described

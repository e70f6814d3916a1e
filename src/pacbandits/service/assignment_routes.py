"""The two routes with the most traffic: assignments and rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from fastapi import APIRouter
from pydantic import TypeAdapter
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from pacbandits.errors import InputError, count_of
from pacbandits.experiment.assignment_records import Assignment, AssignmentRequest, Recorded, Report
from pacbandits.schema import Json
from pacbandits.service.access import Service, parse_either
from pacbandits.service.gate import NOTES, Answering, Body
from pacbandits.service.messages import (
    AssignmentAnswer,
    AssignmentAsk,
    AssignmentBatch,
    AssignmentsAnswer,
    Refusal,
    RewardAnswer,
    RewardAsk,
    RewardBatch,
    RewardsAnswer,
)
from pacbandits.service.openapi import STEERING, body, errors

_ASSIGNMENT = cast(TypeAdapter[AssignmentAsk | AssignmentBatch], TypeAdapter(AssignmentAsk))
_ASSIGNMENTS = cast(TypeAdapter[AssignmentAsk | AssignmentBatch], TypeAdapter(AssignmentBatch))
_REWARD = cast(TypeAdapter[RewardAsk | RewardBatch], TypeAdapter(RewardAsk))
_REWARDS = cast(TypeAdapter[RewardAsk | RewardBatch], TypeAdapter(RewardBatch))


class People:
    """The handlers for assignments and rewards; they need a key with scope assign."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> Mapping[str, Answering]:
        """Return both handlers by the last word of their path."""
        return {"assignments": self.assign, "rewards": self.record}

    async def assign(self, request: Scope, name: str, read: Body) -> bytes:
        """Answer POST /experiments/NAME/assignments; the body is read once the key is admitted."""
        grant = await self._service.admit(request, name, "assign")
        asked = parse_either(await read(), _ASSIGNMENT, _ASSIGNMENTS, b"assignments")
        entries = asked.assignments if isinstance(asked, AssignmentBatch) else [asked]
        self._service.spend(grant, self._count(request, len(entries)))
        writer = await self._service.shelf.writer(name)
        made = await writer.assign([AssignmentRequest(one.unit, one.context) for one in entries])
        if isinstance(asked, AssignmentAsk):
            if isinstance(made[0], InputError):
                raise made[0]
            return to_json(_assigned(made[0], writer.seal))
        wrong = [one for one in made if isinstance(one, InputError)]
        if len(wrong) == len(made):
            raise wrong[0]
        told = [{"error": str(m)} if isinstance(m, InputError) else _assigned(m, writer.seal) for m in made]
        return to_json({"assignments": told})

    async def record(self, request: Scope, name: str, read: Body) -> bytes:
        """Answer POST /experiments/NAME/rewards; the body is read once the key is admitted."""
        grant = await self._service.admit(request, name, "assign")
        asked = parse_either(await read(), _REWARD, _REWARDS, b"rewards")
        entries = asked.rewards if isinstance(asked, RewardBatch) else [asked]
        self._service.spend(grant, self._count(request, len(entries)))
        writer = await self._service.shelf.writer(name)
        reports = [Report(one.assignment, one.reward, one.guardrail, one.metrics) for one in entries]
        made = await writer.record(reports)
        if isinstance(asked, RewardBatch):
            return to_json({"rewards": [_recorded(one) for one in made]})
        if made[0].outcome == "late":
            raise Refusal(410, "the reward came after its window: it is noted, and does not count")
        return to_json(_recorded(made[0]))

    def _count(self, request: Scope, rows: int) -> int:
        """Return the number of rows of a request; raise Refusal (413) if there are too many."""
        request[NOTES]["rows"] = rows
        most = self._service.limits.max_batch
        if rows > most:
            raise Refusal(413, f"{count_of(rows, 'entry', 'entries')} are too many for one request; at most {most:,}")
        return rows


def router_for(people: People) -> APIRouter:
    """Return the same handlers as routes: for the OpenAPI document, and for a service mounted below another path."""
    router = APIRouter(tags=["people"])

    async def assign(name: str, request: Request) -> Response:
        """Assign an action to a unit, or to several units given under "assignments".

        With sticky visits, a repeated request for a unit returns the same action, so retries are safe. Assignments are
        stored before the response is sent. In a batch, an invalid entry gets an error in its place and is not stored;
        the status is 200 if any entry was assigned.
        """
        return _response(await people.assign(request.scope, name, request.body))

    router.post(
        "/experiments/{name}/assignments",
        summary="Assign",
        responses={200: {"model": AssignmentAnswer | AssignmentsAnswer}, **STEERING},
        openapi_extra=body(AssignmentAsk, AssignmentBatch, idempotency_key="unit"),
        response_model=None,
    )(assign)

    async def record(name: str, request: Request) -> Response:
        """Report the outcomes of an assignment, or of several under "rewards": then either all are stored, or none.

        Repeating a report changes nothing, so retries are safe; a different value is a contradiction (409). A reward
        that arrives after its window is stored but does not count: the response is 410, or, in a batch, the outcome
        "late".
        """
        return _response(await people.record(request.scope, name, request.body))

    router.post(
        "/experiments/{name}/rewards",
        summary="Report rewards",
        responses={200: {"model": RewardAnswer | RewardsAnswer}, **STEERING, **errors(410)},
        openapi_extra=body(RewardAsk, RewardBatch, idempotency_key="assignment"),
        response_model=None,
    )(record)

    return router


def _assigned(made: Assignment, seal: str) -> Json:
    return vars(made) | {"seal": seal}


def _recorded(made: Recorded) -> Json:
    return {"assignment": made.id, "outcome": made.outcome}


def _response(said: bytes) -> Response:
    return Response(said, media_type="application/json")

"""The two routes that every visitor passes: what somebody is to get, and what came of it."""

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
from pacbandits.experiment.assignments import Assignment, AssignmentRequest, Recorded, Report
from pacbandits.schema import Json
from pacbandits.service.access import Service, parse_either
from pacbandits.service.documented import STEERING, body, errors
from pacbandits.service.gate import NOTES, Answering
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

_ASSIGNMENT = cast(TypeAdapter[AssignmentAsk | AssignmentBatch], TypeAdapter(AssignmentAsk))
_ASSIGNMENTS = cast(TypeAdapter[AssignmentAsk | AssignmentBatch], TypeAdapter(AssignmentBatch))
_REWARD = cast(TypeAdapter[RewardAsk | RewardBatch], TypeAdapter(RewardAsk))
_REWARDS = cast(TypeAdapter[RewardAsk | RewardBatch], TypeAdapter(RewardBatch))


class People:
    """Assigns and records, for whoever has a key that may write."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> Mapping[str, Answering]:
        """Both, by the last word of their address."""
        return {"assignments": self.assign, "rewards": self.record}

    async def assign(self, request: Scope, name: str, said: bytes) -> bytes:
        """Answer POST /experiments/NAME/assignments."""
        grant = await self._service.admit(request, name, "write")
        asked = parse_either(said, _ASSIGNMENT, _ASSIGNMENTS, b"assignments")
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

    async def record(self, request: Scope, name: str, said: bytes) -> bytes:
        """Answer POST /experiments/NAME/rewards."""
        grant = await self._service.admit(request, name, "write")
        asked = parse_either(said, _REWARD, _REWARDS, b"rewards")
        entries = asked.rewards if isinstance(asked, RewardBatch) else [asked]
        self._service.spend(grant, self._count(request, len(entries)))
        writer = await self._service.shelf.writer(name)
        made = await writer.record([Report(one.assignment, one.reward, one.guardrail) for one in entries])
        if isinstance(asked, RewardBatch):
            return to_json({"rewards": [_recorded(one) for one in made]})
        if made[0].outcome == "late":
            raise Refusal(410, "the reward came after its window: it is noted, and does not count")
        return to_json(_recorded(made[0]))

    def _count(self, request: Scope, rows: int) -> int:
        """How many rows are asked for; raise where they are too many for one request."""
        request[NOTES]["rows"] = rows
        most = self._service.limits.max_batch
        if rows > most:
            raise Refusal(413, f"{count_of(rows, 'entry', 'entries')} are too many for one request; at most {most:,}")
        return rows


def router_for(people: People) -> APIRouter:
    """The same two as routes: to be described, and for whoever puts the service below another address."""
    router = APIRouter(tags=["people"])

    async def assign(name: str, request: Request) -> Response:
        """Draw an action for somebody, or for several under "assignments".

        Asking again for the same unit gives the same answer (where visits are sticky), so asking again is safe. What is
        answered is stored. In a batch each entry is answered by itself: an entry that is wrong gets an error in its
        place, and is not stored; the status is 200 if any of them was assigned.
        """
        return _response(await people.assign(request.scope, name, await request.body()))

    router.post(
        "/experiments/{name}/assignments",
        summary="Assign",
        responses={200: {"model": AssignmentAnswer | AssignmentsAnswer}, **STEERING},
        openapi_extra=body(AssignmentAsk, AssignmentBatch),
        response_model=None,
    )(assign)

    async def record(name: str, request: Request) -> Response:
        """Report what came of an assignment, or of several under "rewards": then all are stored, or none.

        Reporting the same again changes nothing, so asking again is safe; a different reward is a contradiction (409).
        A reward that comes after its window is noted and does not count: alone it is answered with 410, within a batch
        it stands as "late" among the others.
        """
        return _response(await people.record(request.scope, name, await request.body()))

    router.post(
        "/experiments/{name}/rewards",
        summary="Report rewards",
        responses={200: {"model": RewardAnswer | RewardsAnswer}, **STEERING, **errors(410)},
        openapi_extra=body(RewardAsk, RewardBatch),
        response_model=None,
    )(record)

    return router


def _assigned(made: Assignment, seal: str) -> Json:
    return vars(made) | {"seal": seal}


def _recorded(made: Recorded) -> Json:
    return {"assignment": made.id, "outcome": made.outcome}


def _response(said: bytes) -> Response:
    return Response(said, media_type="application/json")

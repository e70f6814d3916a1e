"""What every request passes: the limit on its body, the clock, the journal, and the last word on errors."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pacbandits.service.journal import Journal
from pacbandits.service.limits import ServiceLimits
from pacbandits.service.meters import Meters
from pacbandits.service.refusals import Refusal

NOTES = "pacbandits.notes"  # of a request, for the journal: never what a context holds
UNFORESEEN = "something went wrong that should not have; the server's journal says where"


class Gate:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, *, limits: ServiceLimits, meters: Meters, journal: Journal) -> None:
        self._app, self._limits, self._meters, self._journal = app, limits, meters, journal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        scope[NOTES] = {}
        status = 0
        most = self._limits.max_body_bytes
        left = most

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise _too_long(most)
            return message

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if _announced_bytes(scope) > most:
                raise _too_long(most)
            await self._app(scope, counted, noted)
        except Refusal as refusal:
            await _answer(noted, refusal.status, refusal.sentence, already=status)
        except Exception as error:  # the last resort: one line for whoever asked, the place in the journal
            self._journal.error("unforeseen", error, route=_route(scope))
            await _answer(noted, 500, UNFORESEEN, already=status)
        finally:
            seconds = perf_counter() - started
            self._meters.answer(_route(scope), status, seconds)
            self._journal.write(
                "answered",
                method=scope["method"],
                route=_route(scope),
                status=status,
                ms=round(1e3 * seconds, 2),
                **scope[NOTES],
            )


def _announced_bytes(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


def _too_long(most: int) -> Refusal:
    return Refusal(413, f"the body is longer than {most:,} bytes; send less at once")


def _route(scope: Scope) -> str:
    """Which of the routes, by its pattern: a path may hold anything."""
    return getattr(scope.get("route"), "path", "none")


async def _answer(send: Send, status: int, sentence: str, *, already: int) -> None:
    if already:  # half an answer cannot be taken back
        return
    body = json.dumps({"error": sentence}).encode()
    headers: list[Any] = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

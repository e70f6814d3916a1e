"""The outermost middleware: limits bodies, measures and logs requests, and turns errors into responses.

The two routes with the most traffic are answered here: routing through the framework takes longer than the work itself.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import perf_counter, time_ns
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pacbandits.experiment.extra import tracing
from pacbandits.service.limits import ServiceLimits
from pacbandits.service.messages import Refusal, refusal_of

if TYPE_CHECKING:
    from pacbandits.service.event_log import Journal, Meters

NOTES = "pacbandits.notes"  # fields of a request for the server log; never feature values
UNFORESEEN = "something went wrong that should not have; the server log says where"
MAX_DROPPED_BYTES = 2**16
PREFLIGHT = {  # what a browser may send from the page of another origin, and for how long it may remember that
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}
_BEFORE = "/experiments/"
_JSON = (b"content-type", b"application/json")

Body = Callable[[], Awaitable[bytes]]  # reads a request's body
Answering = Callable[[Scope, str, Body], Awaitable[bytes]]  # from ASGI scope, experiment name and body to the response


@dataclass(eq=False)
class Passage:
    """One request.

    scope, receive, send: its ASGI scope and channels.
    most: maximum length of its body in bytes.
    left: bytes that the body may still have.
    hold: counts bytes that are held; raises Refusal if those of all requests together are too many.
    status: HTTP status of the response; 0 before there is one.
    whole: whether all of the body has arrived.
    origin: the origin of a page whose script may read the response; empty for none.
    """

    scope: Scope
    receive: Receive
    send: Send
    most: int
    left: int
    hold: Callable[[int], None]
    status: int = 0
    whole: bool = False
    origin: str = ""

    async def counted(self) -> Message:
        """Receive the next part of the body; raise Refusal (413) if the body is too long."""
        message = await self.receive()
        size = len(message.get("body", b""))
        self.left -= size
        self.whole = not message.get("more_body", False)
        self.hold(size)
        if self.left < 0:
            raise _too_long(self.most)
        return message

    async def noted(self, message: Message) -> None:
        """Send a part of the response, and note its status."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self.send(message)

    async def body(self) -> bytes:
        """Return the whole body."""
        parts: list[bytes] = []
        while True:
            message = await self.counted()
            if message["type"] == "http.disconnect":
                raise Refusal(400, "the request broke off before its end")
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)

    async def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a JSON response, unless one has begun already."""
        if self.status:
            return
        named = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()]
        if not self.whole and _has_long_body(self.scope):
            named.append((b"connection", b"close"))  # rather than read a body that nobody needs
        if self.origin:
            named += [(b"access-control-allow-origin", self.origin.encode("latin-1")), (b"vary", b"origin")]
        length = (b"content-length", b"%d" % len(body))
        self.status = status
        await self.send({"type": "http.response.start", "status": status, "headers": [_JSON, length, *named]})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, refusal: Refusal) -> None:
        """Send an error response."""
        await self.answer(refusal.status, json.dumps({"error": refusal.sentence}).encode(), refusal.headers)


class Gate:
    """An ASGI middleware.

    straight: handlers of the routes answered here, by the last word of POST /experiments/NAME/WORD.
    allows: returns whether scripts of pages of an origin may use the routes answered here, by experiment and origin.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ServiceLimits,
        meters: Meters,
        journal: Journal,
        straight: Mapping[str, Answering],
        allows: Callable[[str, str], bool],
    ) -> None:
        self._app, self._meters, self._journal, self._straight = app, meters, journal, straight
        self._most, self._limits, self._held, self._allows = limits.max_body_bytes, limits, 0, allows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        scope[NOTES] = {}
        passage = Passage(scope, receive, send, self._most, self._most, self._hold)
        name, word = self._find(scope)
        try:
            if _read_header(scope, self._limits.max_header_bytes) > self._most:
                raise _too_long(self._most)
            if name:
                origin = header_of(scope, b"origin")
                if origin and self._allows(name, origin):
                    passage.origin = origin
                if scope["method"] == "OPTIONS":
                    await passage.answer(204 if passage.origin else 403, b"", PREFLIGHT if passage.origin else None)
                    return
                await passage.answer(200, await self._straight[word](scope, name, passage.body))
            else:
                await self._app(scope, passage.counted, passage.noted)
        except Exception as error:  # last resort: a message to the client, the place in the server log
            refusal = refusal_of(error)
            if refusal is None or refusal.status >= 500:
                self._journal.error("could not answer", error, route=_route(scope))
            await passage.refuse(refusal or Refusal(500, UNFORESEEN))
        finally:
            self._held -= passage.most - passage.left
            seconds = perf_counter() - started
            route = f"{_BEFORE}{{name}}/{word}" if name else _route(scope)
            self._meters.answer(route, passage.status, seconds)
            if tracing.tracer is not None and _BEFORE[:-1] in route:
                _trace(scope, route, passage.status, seconds)
            self._journal.write(
                "answered",
                method=scope["method"],
                route=route,
                status=passage.status,
                ms=round(1e3 * seconds, 2),
                **scope[NOTES],
            )

    def _hold(self, size: int) -> None:
        """Count bytes of bodies; raise Refusal (503) if all requests together hold too many."""
        self._held += size
        if self._held > self._limits.max_held_bytes:
            raise Refusal(
                503, "the server has too many large requests at once; ask again", headers={"Retry-After": "1"}
            )

    def _find(self, scope: Scope) -> tuple[str, str]:
        """Return the experiment and the word of a route answered here; empty texts for any other route."""
        path: str = scope["path"]
        if scope["method"] in ("POST", "OPTIONS") and path.startswith(_BEFORE):
            name, _, word = path[len(_BEFORE) :].partition("/")
            if word in self._straight:
                return name, word
        return "", ""


def header_of(scope: Scope, name: bytes) -> str:
    """Return the value of a request's header; empty if it has none."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return ""


def _has_long_body(scope: Scope) -> bool:
    """Return whether a body may be longer than the server reads and drops to keep the connection."""
    length = header_of(scope, b"content-length")
    long = length.isdigit() and int(length) > MAX_DROPPED_BYTES
    return long or any(name == b"transfer-encoding" for name, _ in scope["headers"])


def _read_header(scope: Scope, most: int) -> int:
    """Return how many bytes of body a request announces; raise Refusal (431) if its header is too large."""
    size, announced = len(scope.get("raw_path") or b"") + len(scope["query_string"]), 0
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        if name == b"content-length" and value.isdigit():
            announced = int(value)
    if size > most:
        raise Refusal(431, f"the header is longer than {most:,} bytes; send less")
    return announced


def _too_long(most: int) -> Refusal:
    return Refusal(413, f"the body is longer than {most:,} bytes; send less at once")


def _trace(scope: Scope, route: str, status: int, seconds: float) -> None:
    """Record the span of a request; it holds nothing that was sent but the name of the experiment."""
    method, notes = scope["method"], scope[NOTES]
    about = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
    about |= {f"pacbandits.{name}": notes[name] for name in ("experiment", "rows") if name in notes and status != 404}
    begun, parent = time_ns() - int(1e9 * seconds), header_of(scope, b"traceparent")
    tracing.record(f"{method} {route}", begun, parent=parent, failed=status >= 500, **about)


def _route(scope: Scope) -> str:
    """Return the pattern of the route rather than the path, which may contain anything."""
    return getattr(scope.get("route"), "path", "none")

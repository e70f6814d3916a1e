"""Limits on connections: on their number, on the size of headers, and on the time that headers and bodies may take.

uvicorn has none of these, so that a few hundred clients that never finish their requests would stop it. A connection
without a complete request is closed when its time is over, and the oldest of them when there are too many connections:
a client that sends whole requests is always answered.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from pacbandits.service.limits import ServiceLimits

SWEEP_SECONDS = 1.0
_SPARE_DESCRIPTORS = 128  # for the database, the log and threads
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def guarded(protocol: Any, limits: ServiceLimits) -> type[Any]:
    """Return one of uvicorn's HTTP protocols with the limits on connections."""
    idle: dict[Any, None] = {}  # connections without a complete request, oldest first
    most_headers = 2 * limits.max_header_bytes  # the rest of a body that was refused may come before a header
    sweeping: list[asyncio.TimerHandle] = []

    def sweep() -> None:
        """Close the connections that have taken too long."""
        now, loop = monotonic(), asyncio.get_running_loop()
        for one in [*open_connections]:
            one.close_if_late(now)
        sweeping[:] = [loop.call_later(SWEEP_SECONDS, sweep)] if open_connections else []

    open_connections: set[Any] = set()

    class Guarded(protocol):
        """A connection."""

        _since, _partial = 0.0, 0

        def connection_made(self, transport: Any) -> None:
            protocol.connection_made(self, transport)
            self._since, self._partial = monotonic(), 0
            open_connections.add(self)
            if len(open_connections) > limits.max_connections:
                next(iter(idle), self).transport.abort()
            idle[self] = None
            if not sweeping:
                sweeping.append(asyncio.get_running_loop().call_later(SWEEP_SECONDS, sweep))

        def connection_lost(self, exc: Exception | None) -> None:
            open_connections.discard(self)
            idle.pop(self, None)
            protocol.connection_lost(self, exc)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            if before is not None and not before.response_complete:
                protocol.data_received(self, data)
                return
            if not self._partial:
                self._since = monotonic()
            self._partial += len(data)
            protocol.data_received(self, data)
            if self.cycle is not before:  # the header is complete, and the body begins
                self._since, self._partial = monotonic(), 0
                idle.pop(self, None)
            elif self._partial > most_headers:
                self.transport.write(_TOO_LARGE)
                self.transport.close()

        def on_response_complete(self) -> None:
            protocol.on_response_complete(self)
            if self in open_connections:
                idle[self] = None

        def close_if_late(self, now: float) -> None:
            """Close the connection if its header or body is late; while the server is slow to read, it is not."""
            cycle = self.cycle
            if cycle is None or cycle.response_complete:
                late = (self._partial or cycle is None) and now - self._since > limits.header_seconds
            else:
                late = cycle.more_body and not self.flow.read_paused and now - self._since > limits.body_seconds
            if late:
                self.transport.abort()

    return Guarded


def raise_descriptor_limit(limits: ServiceLimits) -> int:
    """Let this process open as many files as its connections need, if it may; return the possible connections."""
    try:
        import resource
    except ImportError:  # not on this system
        return limits.max_connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.max_connections + _SPARE_DESCRIPTORS
    if 0 <= soft < wanted:
        allowed = wanted if hard < 0 else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            soft = allowed
        except (OSError, ValueError):
            pass
    return limits.max_connections if soft < 0 else max(1, min(limits.max_connections, soft - _SPARE_DESCRIPTORS))

"""Who has no key, or never finishes a request, takes neither memory nor sockets from others."""

from __future__ import annotations

import io
import json
import socket
import threading
import time

import httpx
import pytest
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.http.h11_impl import H11Protocol

from pacbandits.service.application import create_app
from pacbandits.service.connections import guarded
from pacbandits.service.event_log import Journal
from pacbandits.service.limits import ServiceLimits
from pacbandits.service.open_experiments import EXPORTER
from tests.service.cases import ADMIN, SOMEBODY, protocol, refused, serving
from tests.service.servers import listening

LIMITS = ServiceLimits(max_connections=20, header_seconds=0.5, body_seconds=1.0, max_header_bytes=2**14)
AT = "/experiments/checkout/assignments"


@pytest.fixture(scope="module", params=[AutoHTTPProtocol, H11Protocol])
def server(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("connections") / "e.db"
    app = create_app(path, admin_key=ADMIN, journal=Journal(io.StringIO()), limits=LIMITS)
    with listening(app, http=guarded(request.param, LIMITS)) as address:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        httpx.post(f"{address}/experiments", json=protocol(), headers=headers, timeout=60)
        yield address


def connect(address):
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def closed(connection, *, within):
    """Whether the server closes a connection in time."""
    connection.settimeout(within)
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def healthy(address):
    return httpx.get(f"{address}/healthz", timeout=3).status_code == 200


def test_half_sent_requests_stop_nobody(server):
    """More of them than there may be connections, each kept alive by a byte now and then."""
    held = [connect(server) for _ in range(40)]
    for one in held[20:]:
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
    assert healthy(server)
    begun = time.monotonic()
    assert all(closed(one, within=5) for one in held)
    assert time.monotonic() - begun < 4
    assert healthy(server)
    for one in held:
        one.close()


def test_a_body_that_never_comes_is_not_awaited(server):
    with connect(server) as one:
        one.sendall(
            f"POST {AT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\nContent-Length: 100\r\n\r\n{{".encode()
        )
        assert closed(one, within=4)
    assert healthy(server)


def test_a_header_of_megabytes_is_refused(server):
    with connect(server) as one:
        try:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
            for number in range(500):
                one.sendall(b"x-%d: " % number + b"a" * 10_000 + b"\r\n")
        except ConnectionError:
            return
        assert closed(one, within=4)


def test_a_header_that_comes_at_once_is_refused_in_a_sentence(tmp_path):
    with serving(tmp_path, limits=LIMITS) as service:
        answer = service.client.request("GET", "/healthz", headers={"x": "a" * 2**14})
        assert refused(answer, 431, "16,384 bytes")


def test_connections_that_are_kept_alive_are_used_again(server):
    with httpx.Client(base_url=server, headers={"Authorization": f"Bearer {ADMIN}"}) as client:
        for number in range(30):
            said = {"unit": f"u-{number}", "context": SOMEBODY}
            assert client.post(AT, json=said).status_code == 200
        assert client.post(AT, json=said, headers={"Authorization": "Bearer pb_no_key"}).status_code == 401
        assert client.post(AT, json=said).status_code == 200


@pytest.mark.parametrize("key", [None, "pb_no_key"])
def test_without_a_key_no_body_is_read(server, key):
    """Sixteen megabytes are announced; the answer comes before the first of them."""
    with connect(server) as one:
        said = "" if key is None else f"Authorization: Bearer {key}\r\n"
        one.sendall(f"POST {AT} HTTP/1.1\r\nHost: x\r\n{said}Content-Length: 16000000\r\n\r\n".encode())
        answer = one.recv(65536)
        assert answer.startswith(b"HTTP/1.1 401")
        assert b"connection: close" in answer.lower()
        assert closed(one, within=4)


def test_bodies_in_memory_are_limited_together(tmp_path):
    limits = ServiceLimits(max_held_bytes=2**16)
    with serving(tmp_path, limits=limits) as service:
        service.create()
        large = json.dumps({"assignments": [{"unit": "u" * 200, "context": SOMEBODY}] * 400})
        answer = service.post(AT, raw=large)
        assert refused(answer, 503, "too many large requests")
        assert answer.headers["retry-after"] == "1"
        assert service.post(AT, raw=large[: 2**15]).status_code == 422  # what was held is free again


def test_exports_take_turns_and_assignments_go_on(tmp_path, monkeypatch):
    limits = ServiceLimits(max_exports=2)
    with serving(tmp_path, limits=limits) as service:
        service.create()
        service.assign()
        shelf = service.client.app.state.service.shelf
        going, running, most = threading.Event(), [], []

        def slow(database, name, path):
            running.append(1)
            most.append(len(running))
            going.wait(10)
            shelf.open(name).export(path)
            running.pop()
            return 0.0

        monkeypatch.setattr(EXPORTER, "write", slow)
        answers = []
        asking = [
            threading.Thread(target=lambda: answers.append(service.get("/experiments/checkout/export")))
            for _ in range(12)
        ]
        for one in asking:
            one.start()
        deadline = time.monotonic() + 5
        while len(answers) < 9 and time.monotonic() < deadline:
            time.sleep(0.01)
        service.assign("another")
        assert service.get("/experiments/checkout").status_code == 200
        going.set()
        for one in asking:
            one.join()
        assert max(most) == 1
        assert sorted(one.status_code for one in answers) == [200] * 3 + [429] * 9


def test_reading_is_counted_by_the_time_it_takes(tmp_path, monkeypatch):
    limits = ServiceLimits(rows_per_second=1_000, burst_rows=2_000, max_batch=1_000)
    with serving(tmp_path, limits=limits) as service:
        keys = service.create()
        service.assign()

        def hard(self):
            time.sleep(0.3)
            return result(self)

        kind = type(service.client.app.state.service.shelf.open("checkout"))
        result = kind.result
        monkeypatch.setattr(kind, "result", hard)
        statuses = [service.get("/experiments/checkout/result", key=keys["read"]).status_code for _ in range(4)]
        assert statuses[:1] + statuses[3:] == [200, 429]
        assert service.get("/experiments/checkout", key=keys["steer"]).status_code == 200

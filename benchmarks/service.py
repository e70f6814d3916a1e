"""The service under load, on one machine and the loopback alone: `python -m benchmarks.service [seconds]`.

`python -m benchmarks.service exports [seconds]` measures single assignments while others export the event log.

Single assignments at a steady rate, latencies counted from when each was due; batches as fast as they are answered;
single ones again while rounds are designed; and beside them a bare FastAPI answer to the same requests on the same
machine, in the same run. CPU times are those of the server's process, which depend less on other work on the machine
than latencies do. The load comes from a process of its own, and takes its share of the same cores.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from pathlib import Path

from benchmarks.measuring import print_table
from pacbandits.service.client import Client

RATE = 1_000  # single assignments a second
CALM_RATE = 100  # the same while others export
EXPORTED_ROWS, EXPORTERS = 20_000, 40  # rows of the exported experiment; connections that ask for it all the time
BATCH_ROWS = 1_000
CONNECTIONS, BATCH_CONNECTIONS = 64, 4
MAX_SECONDS = 120
PAUSE_SECONDS = 0.05  # of a connection that exports, between an answer and the next request
QUANTILES = (50, 95, 99, 99.9)
BARE = """
import uvicorn
from fastapi import FastAPI, Request
from starlette.responses import Response
app = FastAPI()
@app.post("/experiments/{name}/assignments")
async def answer(name: str, request: Request) -> Response:
    await request.body()
    return Response(b'{"action": "standard"}', media_type="application/json")
import socket
s = socket.create_server(("127.0.0.1", 0))
print(f"serving on http://127.0.0.1:{s.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[s])
"""


class Wire(asyncio.Protocol):
    """One connection that is kept, with at most one request on it."""

    def __init__(self, load: Load) -> None:
        self._load, self._held, self._due = load, b"", 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def send(self, request: bytes, due: float) -> None:
        self._due = due
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._held[:end].lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self._held) < end + 4 + length:
            return
        status = int(head[9:12])
        self._held = b""
        self._load.answered(self, status, time.perf_counter() - self._due)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.lost += 1


class Load:
    """Requests that are due at a rate, or as soon as a connection is free (rate 0)."""

    def __init__(self, host: str, port: int, key: str, *, rate: float, seconds: float, rows: int) -> None:
        self._host, self._port, self._key = host, port, key
        self._rate, self._seconds, self._rows = rate, seconds, rows
        self._run = secrets.token_hex(4)
        self._count = 0
        self._free: deque[Wire] = deque()
        self._waiting: deque[float] = deque()
        self._until = 0.0
        self._out = 0
        self.times: list[float] = []
        self.statuses: dict[int, int] = {}
        self.lost = 0

    async def run(self, connections: int) -> dict[str, object]:
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            _, wire = await loop.create_connection(lambda: Wire(self), self._host, self._port)
            self._free.append(wire)
        started = time.perf_counter()
        self._until = started + self._seconds
        due = started
        while self._rate and due < self._until:
            now = time.perf_counter()
            while due <= now and due < self._until:
                self._ask(due)
                due += random.expovariate(self._rate)
            await asyncio.sleep(max(0.0005, due - time.perf_counter()))
        if not self._rate:
            for _ in range(len(self._free)):
                self._ask(time.perf_counter())
            await asyncio.sleep(self._seconds)
        while self._out and time.perf_counter() < self._until + 10:
            await asyncio.sleep(0.01)
        took = max(self._seconds, time.perf_counter() - started) if not self._rate else self._seconds
        times = sorted(self.times)
        found = {f"p{q:g}": 1e3 * times[min(len(times) - 1, int(len(times) * q / 100))] for q in QUANTILES}
        rate = len(times) * self._rows / took
        return found | {"rows_per_second": rate, "statuses": self.statuses, "lost": self.lost}

    def answered(self, wire: Wire, status: int, seconds: float) -> None:
        self.times.append(seconds)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self._out -= 1
        self._free.append(wire)
        if self._waiting:
            self._ask(self._waiting.popleft())
        elif not self._rate and time.perf_counter() < self._until:
            self._ask(time.perf_counter())

    def _ask(self, due: float) -> None:
        if not self._free:
            self._waiting.append(due)
            return
        self._out += 1
        self._free.popleft().send(self._request(), due)

    def _request(self) -> bytes:
        entries = []
        for _ in range(self._rows):
            self._count += 1
            age, country = 18 + self._count * 7 % 60, ("AT", "DE", "FR")[self._count % 3]
            entries.append(
                f'{{"unit":"{self._run}-{self._count}","context":{{"age":{age},"country":"{country}","visits":'
                f"{self._count % 11}}}}}"
            )
        body = (entries[0] if self._rows == 1 else f'{{"assignments":[{",".join(entries)}]}}').encode()
        return (
            f"POST /experiments/bench/assignments HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body


def generate(words: str) -> None:
    """What the load's own process does: it prints what came of it."""
    asked = json.loads(words)
    load = Load(
        "127.0.0.1", asked["port"], asked["key"], rate=asked["rate"], seconds=asked["seconds"], rows=asked["rows"]
    )
    try:
        import uvloop

        run = uvloop.run
    except ModuleNotFoundError:
        run = asyncio.run
    print(json.dumps(run(load.run(asked["connections"]))))


def measure(
    server: int, port: int, key: str, *, rate: float, seconds: float, rows: int = 1, connections: int = CONNECTIONS
) -> dict:
    """What came of a load on a server, by its process and port."""
    before = _cpu_seconds(server)
    asked = {"port": port, "key": key, "rate": rate, "seconds": seconds, "rows": rows, "connections": connections}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.service", "generate", json.dumps(asked)],
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds + 60,
    )
    spent = (_cpu_seconds(server) - before) / seconds
    return json.loads(done.stdout) | {"cores": spent}


def _cpu_seconds(process: int) -> float:
    """What a process has used so far; 0 where that cannot be told."""
    try:
        used = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")


def started(*command: str, env: dict[str, str] | None = None) -> tuple[subprocess.Popen, str]:
    """A server in a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | (env or {}),
    )
    for line in process.stdout:
        if line.startswith("serving on "):
            return process, line.removeprefix("serving on ").strip()
    raise RuntimeError("the server did not start")


def people(count: int) -> list[dict[str, object]]:
    draw = random.Random(0)
    return [
        {"age": draw.randint(18, 77), "country": draw.choice(("AT", "DE", "FR")), "visits": draw.randint(0, 10)}
        for _ in range(count)
    ]


PROTOCOL = {
    "name": "bench",
    "contexts": people(2_000),
    "actions": ["standard", "discount", "free shipping", "gift"],
    "policies": "trees:depth=2",
    "epsilon": 0.01,
    "seed": 17,
}


def told(what: str, found: dict, *, bare: dict | None = None) -> None:
    beside = "" if bare is None else f"   (bare: p99 {bare['p99']:.1f} ms, × {found['p99'] / bare['p99']:.1f})"
    wrong = {status: count for status, count in found["statuses"].items() if status != "200"}
    unanswered = f"   NOT 200: {wrong}" if wrong else ""
    print(
        f"{what:34} {found['rows_per_second']:9,.0f} rows/s   p50 {found['p50']:6.1f}  p95 {found['p95']:6.1f}  "
        f"p99 {found['p99']:6.1f}  p99.9 {found['p99.9']:6.1f} ms   {found['cores']:.2f} cores{beside}{unanswered}",
        file=sys.stderr,
        flush=True,
    )


def row(what: str, found: dict, bare: dict, *, unit: str = "") -> list[str]:
    """A line of the table in the documentation, with the server's CPU time beside that of the bare answer."""
    spent, echo = (1e3 * one["cores"] / one["rows_per_second"] for one in (found, bare))
    times = (f"{found[q]:.1f} ms" for q in ("p50", "p99", "p99.9"))
    return [what, f"{found['rows_per_second']:,.0f}{unit}", *times, f"{spent:.2f} ms", f"{spent / echo:.1f}"]


def main(seconds: float = 10.0) -> None:
    seconds = min(seconds, MAX_SECONDS)
    admin = secrets.token_urlsafe(32)
    bare, address = started("-c", BARE)
    port = int(address.rpartition(":")[2])
    try:
        measure(bare.pid, port, "none", rate=RATE, seconds=2)
        plain = measure(bare.pid, port, "none", rate=RATE, seconds=seconds)
        plain_most = measure(bare.pid, port, "none", rate=0, seconds=min(5, seconds))
    finally:
        bare.terminate()
        bare.wait()
    told("bare FastAPI, singles", plain)
    told("bare FastAPI, as fast as it can", plain_most)
    with tempfile.TemporaryDirectory() as folder:
        server, address = started(
            *("-m", "pacbandits", "serve", "--port", "0", "--database", str(Path(folder) / "bench.db")),
            env={"PACBANDITS_ADMIN_KEY": admin},
        )
        port = int(address.rpartition(":")[2])
        try:
            with Client(address, admin, timeout_seconds=120) as client:
                client.create(PROTOCOL)
                experiment = client.experiment("bench")
                measure(server.pid, port, admin, rate=RATE, seconds=2)
                singles = measure(server.pid, port, admin, rate=RATE, seconds=seconds)
                told("singles", singles, bare=plain)
                most = measure(server.pid, port, admin, rate=0, seconds=min(5, seconds))
                told("singles, as fast as it can", most)
                batches = measure(
                    server.pid,
                    port,
                    admin,
                    rate=0,
                    seconds=min(10, seconds),
                    rows=BATCH_ROWS,
                    connections=BATCH_CONNECTIONS,
                )
                told(f"batches of {BATCH_ROWS:,}", batches)
                designing = while_designing(experiment, server.pid, port, admin, seconds, bare=plain)
        finally:
            server.terminate()
            server.wait(30)
    print_table(
        f"{seconds:.0f} seconds each",
        ["", "a second", "median", "99 % within", "99.9 % within", "CPU each", "times the bare one's"],
        [
            row("bare FastAPI, one by one", plain, plain),
            row("assignments one by one", singles, plain),
            row("the same while rounds are designed", designing, plain),
            row("bare FastAPI, as fast as it can", plain_most, plain_most),
            row("one by one, as fast as it can", most, plain_most),
            row(f"batches of {BATCH_ROWS:,}", batches, plain_most, unit=" people"),
        ],
    )


def exporting(seconds: float = 10.0) -> None:
    """Assignments alone, and while EXPORTERS connections with a read key ask for the event log, again and again."""
    with tempfile.TemporaryDirectory() as folder:
        admin = secrets.token_urlsafe(32)
        server, address = started(
            *("-m", "pacbandits", "serve", "--port", "0", "--no-worker", "--database", str(Path(folder) / "bench.db")),
            env={"PACBANDITS_ADMIN_KEY": admin},
        )
        port = int(address.rpartition(":")[2])
        try:
            with Client(address, admin, timeout_seconds=120) as client:
                keys = {one["scope"]: one["key"] for one in client.create(PROTOCOL)["keys"]}
                experiment = client.experiment("bench")
                rows = people(EXPORTED_ROWS)
                for at in range(0, len(rows), 5_000):
                    made = experiment.assign_many(rows[at : at + 5_000])
                    experiment.record_many({one.id: 1.0 for one in made})
                measure(server.pid, port, admin, rate=CALM_RATE, seconds=2)
                alone = measure(server.pid, port, admin, rate=CALM_RATE, seconds=seconds)
                told("assignments alone", alone)
                over, statuses = threading.Event(), Counter[int]()

                def ask() -> None:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                    while not over.is_set():
                        headers = {"Authorization": f"Bearer {keys['read']}"}
                        connection.request("GET", "/experiments/bench/export", headers=headers)
                        answer = connection.getresponse()
                        answer.read()
                        statuses[answer.status] += 1
                        time.sleep(PAUSE_SECONDS)

                asking = [threading.Thread(target=ask, daemon=True) for _ in range(EXPORTERS)]
                for one in asking:
                    one.start()
                time.sleep(1)
                beside = measure(server.pid, port, admin, rate=CALM_RATE, seconds=seconds)
                over.set()
                told(f"with {EXPORTERS} exporters", beside)
                print(f"answers to exports: {dict(statuses)}", file=sys.stderr)
        finally:
            server.terminate()
            server.wait(30)
    print_table(
        f"{seconds:.0f} seconds each, {EXPORTED_ROWS:,} rows",
        ["", "median", "95 % within", "99 % within"],
        [
            [what, *(f"{found[q]:.0f} ms" for q in ("p50", "p95", "p99"))]
            for what, found in (("assignments alone", alone), (f"with {EXPORTERS} exporters", beside))
        ],
    )


def while_designing(experiment, server: int, port: int, key: str, seconds: float, *, bare: dict) -> dict:
    """Single assignments while the worker looks at what has come and designs the next round.

    So many people have come by then that round after round is full, and it has something to do all the time.
    """
    draw = random.Random(1)
    rows = people(20_000)
    for at in range(0, len(rows), 5_000):
        made = experiment.assign_many(rows[at : at + 5_000])
        experiment.record_many({one.id: float(draw.random() < 0.3) for one in made})
    before = experiment.status()
    found = measure(server, port, key, rate=RATE, seconds=seconds)
    after = experiment.status()
    told("singles while a round is designed", found, bare=bare)
    print(
        f"rounds before and after: {before['round']['number']}, {after['round']['number']}; looked: {after['updated']}",
        file=sys.stderr,
    )
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["generate"]:
        generate(sys.argv[2])
    elif sys.argv[1:2] == ["exports"]:
        exporting(*map(float, sys.argv[2:3]))
    else:
        main(*map(float, sys.argv[1:2]))

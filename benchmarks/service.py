"""The service under load, on one machine and the loopback alone: `python -m benchmarks.service [seconds]`.

`python -m benchmarks.service exports [seconds]` measures single assignments while others export the event log.

Single assignments at a steady rate, latencies counted from when each was due; batches as fast as they are answered;
single ones again while rounds are designed; and beside them a bare FastAPI answer to the same requests on the same
machine, in turns of a few seconds: what other work on the machine costs, it costs both. CPU times are those of the
server's process, which depend less on such work than latencies do. The load comes from a process of its own, and takes
its share of the same cores.
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
# Rows of the exported experiment; connections that ask for it all the time: as many as may wait, and one is served.
EXPORTED_ROWS, EXPORTERS = 20_000, 5
BATCH_ROWS = 1_000
CONNECTIONS, BATCH_CONNECTIONS = 64, 4
MAX_SECONDS, TURNS = 120, 4
PAUSE_SECONDS = 0.05  # of a connection that exports, between an answer and the next request
QUANTILES = (50, 95, 99, 99.9)
# Replaces the process that writes exports by the thread of the server that waits for it.
IN_A_THREAD = """
from time import thread_time
from pacbandits.experiment.experiment import Experiment
from pacbandits.service.open_experiments import ExportProcess
def write(self, database, name, path):
    begun = thread_time()
    Experiment.open(database, name).export(path)
    return thread_time() - begun
ExportProcess.write = write
"""
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
        return {"times": self.times, "took": took, "statuses": self.statuses, "lost": self.lost}

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
    with open(1, "w", encoding="utf-8", closefd=False) as out:  # in parts, even where PYTHONUNBUFFERED is set
        out.write(json.dumps(run(load.run(asked["connections"]))))


def measure(server: int, port: int, key: str, **asked: float) -> dict:
    """What came of a load on a server, by its process and port."""
    return measure_in_turns([(server, port, key)], turns=1, **asked)[0]


def measure_in_turns(
    servers: list[tuple[int, int, str]],
    *,
    rate: float,
    seconds: float,
    rows: int = 1,
    connections: int = CONNECTIONS,
    turns: int = TURNS,
) -> list[dict]:
    """What came of the same load on several servers, by process, port and key, one after the other in several turns."""
    found: list[list[dict]] = [[] for _ in servers]
    for _ in range(turns):
        for (server, port, key), own in zip(servers, found, strict=True):
            asked = {"port": port, "key": key, "rate": rate, "seconds": seconds / turns, "rows": rows}
            words = json.dumps(asked | {"connections": connections})
            before = _cpu_seconds(server)
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.service", "generate", words],
                capture_output=True,
                text=True,
                check=True,
                timeout=seconds + 60,
            )
            own.append(json.loads(done.stdout) | {"spent": _cpu_seconds(server) - before})
    return [_together(own, rows) for own in found]


def _together(turns: list[dict], rows: int) -> dict:
    """Quantiles, rate, CPU time of a row and cores in use, over all turns."""
    times = sorted(one for turn in turns for one in turn["times"])
    statuses = sum((Counter(turn["statuses"]) for turn in turns), Counter())
    took, spent = (sum(turn[name] for turn in turns) for name in ("took", "spent"))
    found = {f"p{q:g}": 1e3 * times[min(len(times) - 1, int(len(times) * q / 100))] for q in QUANTILES}
    found |= {"rows_per_second": len(times) * rows / took, "cores": spent / took, "statuses": dict(statuses)}
    return found | {"lost": sum(turn["lost"] for turn in turns), "spent": 1e3 * spent / (len(times) * rows)}


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
    spent, echo = found["spent"], bare["spent"]
    times = (f"{found[q]:.1f} ms" for q in ("p50", "p99", "p99.9"))
    return [what, f"{found['rows_per_second']:,.0f}{unit}", *times, f"{spent:.2f} ms", f"{spent / echo:.1f}"]


def main(seconds: float = 10.0) -> None:
    seconds = min(seconds, MAX_SECONDS)
    admin = secrets.token_urlsafe(32)
    bare, bare_address = started("-c", BARE)
    echo = (bare.pid, int(bare_address.rpartition(":")[2]), "none")
    with tempfile.TemporaryDirectory() as folder:
        server, address = started(
            *("-m", "pacbandits", "serve", "--port", "0", "--database", str(Path(folder) / "bench.db")),
            env={"PACBANDITS_ADMIN_KEY": admin},
        )
        own = (server.pid, int(address.rpartition(":")[2]), admin)
        try:
            with Client(address, admin, timeout_seconds=120) as client:
                client.create(PROTOCOL)
                experiment = client.experiment("bench")
                measure_in_turns([echo, own], rate=RATE, seconds=2, turns=1)
                plain, singles = measure_in_turns([echo, own], rate=RATE, seconds=seconds)
                told("bare FastAPI, singles", plain)
                told("singles", singles, bare=plain)
                plain_most, most = measure_in_turns([echo, own], rate=0, seconds=seconds)
                told("bare FastAPI, as fast as it can", plain_most)
                told("singles, as fast as it can", most)
                batches = measure(*own, rate=0, seconds=seconds, rows=BATCH_ROWS, connections=BATCH_CONNECTIONS)
                told(f"batches of {BATCH_ROWS:,}", batches)
                designing = while_designing(experiment, *own, seconds, bare=plain)
        finally:
            for one in (bare, server):
                one.terminate()
                one.wait(30)
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
    """Assignments alone, and while EXPORTERS connections, each with its own key, ask for the event log all the time.

    Once as the service does it, by a process of its own with a lower priority, and once by a thread of the server.
    """
    rows = []
    for what, words in (("a process of its own", ""), ("a thread of the server", IN_A_THREAD)):
        with tempfile.TemporaryDirectory() as folder:
            alone, beside, exports = _with_exports(folder, words, seconds)
        rows += [(what, "no exports", alone, ""), (what, f"{EXPORTERS} exporters", beside, f"{exports / seconds:.1f}")]
    print_table(
        f"{seconds:.0f} seconds each, {EXPORTED_ROWS:,} rows",
        ["exports by", "", "median", "95 % within", "99 % within", "exports a second"],
        [
            [what, when, *(f"{found[q]:.0f} ms" for q in ("p50", "p95", "p99")), exports]
            for what, when, found, exports in rows
        ],
    )


def _with_exports(folder: str, words: str, seconds: float) -> tuple[dict, dict, int]:
    """Assignments alone and beside exports, and how many exports were written meanwhile; words: run by the server."""
    admin = secrets.token_urlsafe(32)
    database = str(Path(folder) / "bench.db")
    arguments = ["pacbandits", "serve", "--port", "0", "--no-worker", "--database", database]
    code = f"import sys\nsys.argv = {arguments}\n{words}\nfrom pacbandits.cli import main\nmain()"
    server, address = started("-c", code, env={"PACBANDITS_ADMIN_KEY": admin})
    port = int(address.rpartition(":")[2])
    try:
        with Client(address, admin, timeout_seconds=120) as client:
            client.create(PROTOCOL)
            made = [client.ask("POST", "/experiments/bench/keys", {"scope": "read"}) for _ in range(EXPORTERS)]
            experiment, people_there = client.experiment("bench"), people(EXPORTED_ROWS)
            for at in range(0, EXPORTED_ROWS, 5_000):
                assigned = experiment.assign_many(people_there[at : at + 5_000])
                experiment.record_many({one.id: 1.0 for one in assigned})
            measure(server.pid, port, admin, rate=CALM_RATE, seconds=2)
            alone = measure(server.pid, port, admin, rate=CALM_RATE, seconds=seconds)
            over, statuses = threading.Event(), Counter[int]()

            def ask(key: str) -> None:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                while not over.is_set():
                    connection.request("GET", "/experiments/bench/export", headers={"Authorization": f"Bearer {key}"})
                    answer = connection.getresponse()
                    answer.read()
                    statuses[answer.status] += 1
                    time.sleep(PAUSE_SECONDS)

            asking = [threading.Thread(target=ask, args=(one["key"],), daemon=True) for one in made]
            for one in asking:
                one.start()
            time.sleep(5)  # until the process that exports has started
            before = statuses[200]
            beside = measure(server.pid, port, admin, rate=CALM_RATE, seconds=seconds)
            done = statuses[200] - before
            over.set()
            for one in asking:
                one.join()
            told("alone", alone)
            told(f"with {EXPORTERS} exporters", beside)
            print(f"answers to exports: {dict(statuses)}", file=sys.stderr)
            return alone, beside, done
    finally:
        server.terminate()
        server.wait(30)


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

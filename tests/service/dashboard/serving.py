"""A real server for the dashboard over statuses that a test changes as it likes."""

from __future__ import annotations

import asyncio
import copy
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import uvicorn
from fastapi import FastAPI

from pacbandits.errors import InputError
from pacbandits.service.dashboard import MemorySessions, router_for

READ_KEY, ADMIN_KEY = "pb_read_checkout", "pb_admin"


class Shown:
    """What the dashboard asks of an experiment."""

    def __init__(self, status):
        self._status = status

    def status(self):
        return self

    def to_json(self):
        return copy.deepcopy(self._status)


class Shop:
    """Experiments by name, and keys; statuses and scopes may be changed at any time."""

    def __init__(self, statuses):
        self.statuses = statuses
        self.scopes = {READ_KEY: {"checkout": "read"}, ADMIN_KEY: {"*": "admin"}}

    def open(self, name):
        if name not in self.statuses:
            raise InputError(f"there is no experiment '{name}'")
        return Shown(self.statuses[name])

    def scopes_of(self, key):
        return self.scopes.get(key, {})

    def app(self, **options):
        app = FastAPI()
        app.include_router(
            router_for(
                self.open,
                lambda: list(self.statuses),
                MemorySessions(self.scopes_of),
                **{"keep_seconds": 0.0, **options},
            )
        )
        return app


class Client:
    """Asks an application without a server, and keeps its cookies; follows no redirection."""

    def __init__(self, app, *, base="http://shop.test", root_path=""):
        self.app, self._base, self._root_path = app, base, root_path
        self.cookies = httpx.Cookies()

    def get(self, path, **options):
        return self._run("GET", path, options)

    def post(self, path, **options):
        return self._run("POST", path, options)

    def _run(self, *asked):
        """In a thread of its own, as a browser may occupy the loop of this one."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(self._ask(*asked))).result()

    async def _ask(self, method, path, options):
        transport = httpx.ASGITransport(self.app, root_path=self._root_path)
        async with httpx.AsyncClient(transport=transport, base_url=self._base, cookies=self.cookies) as client:
            answer = await client.request(method, path, **options)
            self.cookies = client.cookies
            return answer


class Server:
    """An application served on a port of its own, in a thread."""

    def __init__(self, app):
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    def __enter__(self):
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join()
        self._socket.close()

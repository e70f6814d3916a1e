"""A small service: one experiment that takes a moment to make, asked within this process."""

from __future__ import annotations

import io
import random
from contextlib import contextmanager
from functools import partial

import httpx
from anyio.from_thread import start_blocking_portal

from pacbandits.service.application import create_app
from pacbandits.service.event_log import Journal

ADMIN = "an-admin-key-of-32-characters-xx"
ACTIONS = ["standard", "discount", "free shipping"]
COUNTRIES = ("AT", "DE", "FR")
SOMEBODY = {"age": 31, "country": "DE"}


def people(count=200, seed=0):
    """Contexts of an age and a country, as a request has them."""
    draw = random.Random(seed)
    return [{"age": draw.randint(18, 80), "country": draw.choice(COUNTRIES)} for _ in range(count)]


def protocol(**more):
    """What a request says to create an experiment."""
    usual = {
        "name": "checkout",
        "contexts": people(),
        "actions": ACTIONS,
        "policies": "trees:depth=1",
        "epsilon": 0.2,
        "seed": 17,
    }
    return {name: value for name, value in (usual | more).items() if value is not None}


class Within:
    """An application in a loop of its own, asked from any thread."""

    def __init__(self, app, portal, http):
        self.app, self._portal, self._http = app, portal, http

    def request(self, method, path, **options):
        return self._portal.call(partial(self._http.request, method, path, **options))


@contextmanager
def within(app):
    """An application that has begun, and ends with this."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(app.router.lifespan_context(app)):
        http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")
        yield Within(app, portal, http)
        portal.call(http.aclose)


class Asked:
    """A service that is asked, with the admin's key unless another is given."""

    def __init__(self, client, journal):
        self.client, self._journal = client, journal

    def ask(self, method, path, body=None, *, key=ADMIN, raw=None):
        headers = {} if key is None else {"Authorization": f"Bearer {key}".encode("latin-1")}
        return self.client.request(method, path, json=body, content=raw, headers=headers)

    def get(self, path, *, key=ADMIN):
        return self.ask("GET", path, key=key)

    def post(self, path, body=None, *, key=ADMIN, raw=None):
        return self.ask("POST", path, body, key=key, raw=raw)

    def create(self, **more):
        """An experiment, and its keys by their scopes."""
        answer = self.post("/experiments", protocol(**more))
        assert answer.status_code == 201, answer.text
        return {one["scope"]: one["key"] for one in answer.json()["keys"]}

    def assign(self, unit="u-1", name="checkout", context=SOMEBODY):
        answer = self.post(f"/experiments/{name}/assignments", {"unit": unit, "context": context})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def records(self, name="checkout"):
        """How many there are in the chain: whatever is stored of an experiment is one."""
        return self.get(f"/experiments/{name}/seal").json()["records"]

    def journal(self):
        self.client.app.state.service.journal._flush()
        return self._journal.getvalue()


@contextmanager
def serving(folder, **options):
    """A service over a new database in a folder."""
    written = io.StringIO()
    options = {"admin_key": ADMIN, "journal": Journal(written)} | options
    app = create_app(folder / "experiments.db", **options)
    with within(app) as client:
        yield Asked(client, written)


def refused(answer, status, words):
    """That an answer is an error with a sentence that says this."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"], answer.text
    return True

"""The dashboard's routes: sign-in, the list, a page for each experiment, and their updates for the script."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Annotated, Protocol
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from markupsafe import Markup
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from pacbandits.errors import InputError
from pacbandits.schema import Json, json_text
from pacbandits.service.access import EVERYTHING, SESSION_SECONDS
from pacbandits.service.dashboard.pages import (
    ASSETS,
    address,
    asset,
    etag_of,
    experiment_inside,
    experiment_page,
    fragment,
    list_page,
    list_parts,
    missing_page,
    sign_in_page,
)
from pacbandits.service.dashboard.sentences import news, urgency
from pacbandits.service.dashboard.status import JsonView

COOKIE = "pacbandits-session"


class SessionStore(Protocol):
    """Sessions of signed-in users, by their cookies."""

    def begin(self, key: str) -> str | None:
        """Return the cookie of a new session; None if the key may read nothing."""
        ...

    def read(self, token: str | None) -> frozenset[str] | None:
        """Return the names of the readable experiments, or EVERYTHING; None if the session is not valid."""
        ...

    def end(self, token: str | None) -> None:
        """End a session."""
        ...


class MemorySessions:
    """Sessions of one process, for an application of one's own; those of a service are in its database.

    scopes_of: returns the scopes of a key as {experiment: scope}; asked at each request: sessions end with their key.
    """

    def __init__(self, scopes_of: Callable[[str], Mapping[str, str]]) -> None:
        self._scopes_of = scopes_of
        self._known: dict[str, tuple[str, float]] = {}

    def begin(self, key: str) -> str | None:
        """Return the cookie of a new session; None if the key may read nothing."""
        if not self._scopes_of(key):
            return None
        token, now = secrets.token_urlsafe(32), monotonic()
        self._known = {one: held for one, held in self._known.items() if held[1] > now}
        self._known[token] = key, now + SESSION_SECONDS
        return token

    def read(self, token: str | None) -> frozenset[str] | None:
        """Return the names of the readable experiments; None if the session is not valid."""
        key, until = self._known.get(token or "", ("", 0.0))
        return frozenset(self._scopes_of(key)) or None if until > monotonic() else None

    def end(self, token: str | None) -> None:
        """End a session."""
        self._known.pop(token or "", None)


PREFIX = "/dashboard"
UNCHANGED_SECONDS = 60.0  # for which the list shows a status without new records: windows may end meanwhile
KEEP_SECONDS, EASY_SECONDS = 2.0, 0.1  # a status is cached for 2 s; in proportion longer if reading it took over 0.1 s
MAX_FORM_BYTES = 16_384
MAX_LISTED = 200
MAX_SEARCH_CHARACTERS = 100
WRONG_KEY = "This key opens no experiment. Was all of it copied, was it withdrawn, or is there no experiment yet?"
NOT_THERE = "There is no such experiment, or this key may not read it."
FOREIGN = "Sign in from the dashboard’s own page."
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class StatusLike(Protocol):
    """The status of an experiment."""

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        ...


class Shown(Protocol):
    """The part of an experiment that the dashboard uses."""

    def status(self) -> StatusLike:
        """Return the current status."""
        ...


def router_for(
    open_experiment: Callable[[str], Shown],
    names: Callable[[], Sequence[str]],
    sessions: SessionStore,
    *,
    trusted: Callable[[Mapping[str, str]], frozenset[str] | None] | None = None,
    versions: Callable[[], Mapping[str, object]] | None = None,
    export: Callable[[str], Awaitable[tuple[Path, float]]] | None = None,
    certificate: Callable[[str], Json | None] | None = None,
    keep_seconds: float = KEEP_SECONDS,
) -> APIRouter:
    """Return the dashboard's router, to be included in an application; all its paths are below /dashboard.

    open_experiment: returns an experiment by name; raises InputError if there is none.
    names: returns the names of all experiments.
    sessions: of signed-in users; servers behind one load balancer need the same.
    trusted: returns what the headers of a request allow to read, if a proxy signs users in.
    versions: returns a value for each experiment that changes with its records; while it does not, its status is not
        read again for the list.
    export: writes the event log of an experiment to a new file and returns its path first; it is deleted afterwards.
    certificate: returns the certificate of an experiment, if there is one.
    keep_seconds: how long a status is cached, for all viewers together.
    """
    exportable = export is not None and certificate is not None

    def read(name: str) -> JsonView:
        return JsonView(open_experiment(name).status().to_json() | {"exportable": exportable})

    dashboard = _Dashboard(Recent(read, keep_seconds=keep_seconds), names, sessions, trusted, versions)
    router = APIRouter(prefix=PREFIX, include_in_schema=False)
    router.add_api_route("/assets/{name}", dashboard.asset, methods=["GET"])
    router.add_api_route("/sign-in", dashboard.ask_key, methods=["GET"])
    router.add_api_route("/sign-in", dashboard.sign_in, methods=["POST"])
    router.add_api_route("/sign-out", dashboard.sign_out, methods=["POST"])
    router.add_api_route("", dashboard.overview, methods=["GET"])
    router.add_api_route("/", dashboard.enter, methods=["GET"])
    router.add_api_route("/parts", dashboard.overview_again, methods=["GET"])
    router.add_api_route("/experiments/{name:path}", dashboard.one, methods=["GET"])
    router.add_api_route("/parts/{name:path}", dashboard.one_again, methods=["GET"])
    if export is not None and certificate is not None:
        _add_downloads(router, dashboard, export, certificate)
    return router


def _add_downloads(
    router: APIRouter,
    dashboard: _Dashboard,
    export: Callable[[str], Awaitable[tuple[Path, float]]],
    certificate: Callable[[str], Json | None],
) -> None:
    async def download_log(request: Request, name: str) -> Response:
        if (refusal := await run_in_threadpool(dashboard.refuse, request, name)) is not None:
            return refusal
        path, _ = await export(name)
        kind, done = "application/vnd.apache.parquet", BackgroundTask(path.unlink)
        return FileResponse(path, headers=HEADERS, media_type=kind, filename="record.parquet", background=done)

    def download_certificate(request: Request, name: str) -> Response:
        if (refusal := dashboard.refuse(request, name)) is not None:
            return refusal
        found = certificate(name)
        if found is None:
            return _html(missing_page(_root(request), "Nothing is proven yet: there is no certificate."), status=404)
        headers = HEADERS | {"Content-Disposition": 'attachment; filename="proof.json"'}
        return Response(json_text(found).encode(), media_type="application/json", headers=headers)

    router.add_api_route("/export/{name:path}", download_log, methods=["GET"])
    router.add_api_route("/certificate/{name:path}", download_certificate, methods=["GET"])


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; none if it is too large or malformed."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_FORM_BYTES:
            return {}
    try:
        return {key: values[0] for key, values in parse_qs(body.decode("ascii"), max_num_fields=10).items()}
    except ValueError:
        return {}


Form = Annotated[dict[str, str], Depends(read_form)]


class Recent:
    """A cache of statuses, each read by one request at a time, as reading takes long in a large database.

    keep_seconds: minimum time that a status is cached.
    """

    def __init__(self, ask: Callable[[str], JsonView], *, keep_seconds: float) -> None:
        self._ask, self._keep_seconds = ask, keep_seconds
        self._kept: dict[str, tuple[float, float, object, JsonView]] = {}
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)

    def __call__(self, name: str, version: object = None) -> JsonView:
        """Return the status of an experiment, from the cache if it is recent, or of the same version and not old."""
        with self._locks[name]:
            until, old, of, status = self._kept.get(name, (0.0, 0.0, None, JsonView({})))
            same = version is not None and version == of and monotonic() < old
            if monotonic() >= until and not same:
                begun = monotonic()
                status, ended = self._ask(name), monotonic()
                # A slow status is read less often: viewers must not slow down assignments.
                keep = self._keep_seconds * max(1.0, (ended - begun) / EASY_SECONDS)
                self._kept[name] = ended + keep, ended + UNCHANGED_SECONDS, version, status
            return status


class _Dashboard:
    """The request handlers."""

    def __init__(
        self,
        recent: Recent,
        names: Callable[[], Sequence[str]],
        sessions: SessionStore,
        trusted: Callable[[Mapping[str, str]], frozenset[str] | None] | None,
        versions: Callable[[], Mapping[str, object]] | None,
    ) -> None:
        self._versions = versions
        self._recent, self._names, self._sessions, self._trusted = recent, names, sessions, trusted

    def asset(self, name: str) -> Response:
        """Return a static file: public, and cached by browsers, as its URL contains a hash."""
        if name not in ASSETS:
            return Response(status_code=404)
        kept = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return Response(asset(name), media_type=ASSETS[name], headers=kept)

    def ask_key(self, request: Request, target: str = "") -> Response:
        return _html(sign_in_page(_root(request), target=target))

    def sign_in(self, request: Request, form: Form) -> Response:
        root, target = _root(request), form.get("target", "")
        if _is_foreign(request):
            return _html(sign_in_page(root, wrong=FOREIGN), status=403)
        cookie = self._sessions.begin(form.get("key", "").strip())
        if cookie is None:
            return _html(sign_in_page(root, wrong=WRONG_KEY, target=target), status=403)
        answer = RedirectResponse(address(root, target) if target else root, status_code=303, headers=HEADERS)
        answer.set_cookie(
            COOKIE,
            cookie,
            max_age=SESSION_SECONDS,
            path=root,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    def sign_out(self, request: Request) -> Response:
        root = _root(request)
        answer = RedirectResponse(f"{root}/sign-in", status_code=303, headers=HEADERS)
        if not _is_foreign(request):
            self._sessions.end(request.cookies.get(COOKIE))
            answer.delete_cookie(COOKIE, path=root, httponly=True, samesite="strict")
        return answer

    def enter(self, request: Request) -> Response:
        return RedirectResponse(_root(request), status_code=303, headers=HEADERS)

    def overview(self, request: Request, q: str = "") -> Response:
        allowed = self._allowed(request)
        if allowed is None:
            return _to_sign_in(request)
        return _html(list_page(_root(request), self._statuses(allowed, q), wanted=q[:MAX_SEARCH_CHARACTERS]))

    def overview_again(self, request: Request, q: str = "") -> Response:
        allowed = self._allowed(request)
        if allowed is None:
            return _signed_out()
        parts = list_parts(_root(request), self._statuses(allowed, q), wanted=q[:MAX_SEARCH_CHARACTERS])
        return _fragment(request, parts, "")

    def one(self, request: Request, name: str) -> Response:
        allowed = self._allowed(request)
        if allowed is None:
            return _to_sign_in(request, name)
        status, root = self._status(name, allowed), _root(request)
        if status is None:
            return _html(missing_page(root, NOT_THERE), status=404)
        return _html(experiment_page(root, name, status))

    def one_again(self, request: Request, name: str) -> Response:
        allowed = self._allowed(request)
        if allowed is None:
            return _signed_out()
        status = self._status(name, allowed)
        if status is None:
            return Response(status_code=404, headers=HEADERS)
        return _fragment(request, experiment_inside(_root(request), name, status), news(status))

    def refuse(self, request: Request, name: str) -> Response | None:
        """Return the answer to a request that may not read an experiment; None if it may."""
        allowed = self._allowed(request)
        if allowed is None:
            return _to_sign_in(request, name)
        found = self._status(name, allowed)
        return None if found is not None else _html(missing_page(_root(request), NOT_THERE), status=404)

    def _allowed(self, request: Request) -> frozenset[str] | None:
        by_proxy = None if self._trusted is None else self._trusted(request.headers)
        return by_proxy or self._sessions.read(request.cookies.get(COOKIE))

    def _status(self, name: str, allowed: frozenset[str]) -> JsonView | None:
        """Return the status of an experiment; None if it does not exist, or the key may not read it."""
        if name not in allowed and (EVERYTHING not in allowed or name not in self._names()):
            return None
        return self._read(name)

    def _read(self, name: str, version: object = None) -> JsonView | None:
        try:
            return self._recent(name, version)
        except InputError:
            return None

    def _statuses(self, allowed: frozenset[str], wanted: str) -> list[tuple[str, JsonView | None]]:
        """Return the statuses of the list: alarms first, then those that run, then the others; by name."""
        words = wanted[:MAX_SEARCH_CHARACTERS].strip().lower()
        seen = [name for name in self._names() if (name in allowed or EVERYTHING in allowed) and words in name.lower()]
        versions: Mapping[str, object] = {} if self._versions is None else self._versions()
        found = [(name, self._read(name, versions.get(name))) for name in sorted(seen)[:MAX_LISTED]]
        return sorted(found, key=lambda one: (urgency(one[1]), one[0]))


def _root(request: Request) -> str:
    """Return the dashboard's root path, below the path that the server is mounted at."""
    return f"{request.scope.get('root_path', '')}{PREFIX}"


def _is_foreign(request: Request) -> bool:
    """Return whether the browser says that the request comes from another site."""
    return request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")


def _html(text: str, *, status: int = 200) -> Response:
    return HTMLResponse(text, status_code=status, headers=HEADERS)


def _to_sign_in(request: Request, name: str = "") -> Response:
    target = f"?{urlencode({'target': name})}" if name else ""
    return RedirectResponse(f"{_root(request)}/sign-in{target}", status_code=303, headers=HEADERS)


def _signed_out() -> Response:
    return Response(status_code=401, headers=HEADERS)


def _fragment(request: Request, inside: Markup, said: str) -> Response:
    """Return the updatable part of a page, or 304 if the script has it already."""
    etag = etag_of(inside)
    headers = {**HEADERS, "ETag": etag, "Content-Language": "en"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return HTMLResponse(fragment(inside, said), headers=headers)

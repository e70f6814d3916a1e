"""The dashboard's routes: sign-in, the list, a page for each experiment, and their updates for the script."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import Annotated, Protocol
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup

from pacbandits.errors import InputError, count_of
from pacbandits.schema import Json
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
from pacbandits.service.dashboard.sentences import news
from pacbandits.service.dashboard.status import JsonView

# Sessions: a signed cookie with the readable experiments and the expiry time, without the key.
#
# The process in which a user signed in checks the key again every RECHECK_SECONDS, so a revoked key soon stops working.
# Another process (a server with the same secret) relies on the signature until the session expires.


COOKIE = "pacbandits-session"
SESSION_SECONDS = 12 * 60 * 60
RECHECK_SECONDS = 15
MAX_COOKIE_CHARACTERS = 3_600  # browsers keep 4,096 with name and attributes
MAX_REMEMBERED_KEYS = 10_000
EVERYTHING = "*"  # stands for all experiments
ADMIN = "admin"  # the scope of admin keys

Scopes = Mapping[str, str]


class Sessions:
    """Creates and reads session cookies.

    secret: signs the cookies; servers that share it accept one another's.
    """

    def __init__(
        self, scopes_of: Callable[[str], Scopes], *, secret: bytes | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._scopes_of, self._clock = scopes_of, clock
        self._secret = secret or secrets.token_bytes(32)
        self._lock = Lock()
        # By fingerprint of the key: the key, its scopes, and when they were read.
        self._known: OrderedDict[str, tuple[str, Scopes, float]] = OrderedDict()

    def begin(self, key: str) -> str | None:
        """Return the cookie for a key; None if the key has no access."""
        scopes = self._ask(key)
        if not scopes:
            return None
        who = self._fingerprint(key)
        self._remember(who, key, scopes)
        return self._sealed({"who": who, "scopes": scopes, "until": int(self._clock()) + SESSION_SECONDS})

    def read(self, cookie: str | None) -> frozenset[str] | None:
        """Return the names of the readable experiments; None if the cookie is invalid, expired or without access."""
        session = self._opened(cookie or "")
        if session is None or (session.number("until") or 0.0) <= self._clock():
            return None
        scopes = {name: str(scope) for name, scope in session.part("scopes").value.items()}
        return frozenset(self._fresh(session.text("who"), scopes)) or None

    def _fresh(self, who: str, scopes: Scopes) -> Scopes:
        """Return the current scopes of the key if this process knows it; else those of the cookie."""
        with self._lock:
            known = self._known.get(who)
        if known is None:
            return scopes
        key, last, asked = known
        if self._clock() - asked < RECHECK_SECONDS:
            return last
        now = self._ask(key)
        self._remember(who, key, now)
        return now

    def _ask(self, key: str) -> Scopes:
        """Return the scopes of a key by experiment; those of an admin key as one entry for all experiments."""
        scopes = dict(self._scopes_of(key))
        return {EVERYTHING: ADMIN} if ADMIN in scopes.values() else scopes

    def _remember(self, who: str, key: str, scopes: Scopes) -> None:
        with self._lock:
            self._known[who] = (key, scopes, self._clock())
            self._known.move_to_end(who)
            while len(self._known) > MAX_REMEMBERED_KEYS:
                self._known.popitem(last=False)

    def _fingerprint(self, key: str) -> str:
        return hmac.new(self._secret, b"key" + key.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:32]

    def _sealed(self, session: Json) -> str:
        body = base64.urlsafe_b64encode(zlib.compress(json.dumps(session).encode())).decode()
        cookie = f"{body}.{self._signature(body)}"
        if len(cookie) > MAX_COOKIE_CHARACTERS:
            many = count_of(len(session["scopes"]), "experiment")
            raise InputError(f"this key opens {many}, more than one session can hold; use a key for fewer of them")
        return cookie

    def _opened(self, cookie: str) -> JsonView | None:
        body, _, signature = cookie.rpartition(".")
        if len(cookie) > MAX_COOKIE_CHARACTERS or not cookie.isascii():
            return None
        if not hmac.compare_digest(signature, self._signature(body)):
            return None
        return JsonView(json.loads(zlib.decompress(base64.urlsafe_b64decode(body))))

    def _signature(self, body: str) -> str:
        return hmac.new(self._secret, b"session" + body.encode(), hashlib.sha256).hexdigest()


PREFIX = "/dashboard"
KEEP_SECONDS, EASY_SECONDS = 2.0, 0.1  # a status is cached for 2 s; in proportion longer if reading it took over 0.1 s
MAX_FORM_BYTES = 16_384
MAX_LISTED = 200
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
    scopes_of: Callable[[str], Mapping[str, str]],
    *,
    secret: bytes | None = None,
    keep_seconds: float = KEEP_SECONDS,
) -> APIRouter:
    """Return the dashboard's router, to be included in an application; all its paths are below /dashboard.

    open_experiment: returns an experiment by name; raises InputError if there is none.
    names: returns the names of all experiments.
    scopes_of: returns the scopes of a key as {experiment: scope}, empty for a wrong key; * stands for all experiments.
    secret: signs sessions; servers behind one load balancer need the same. By default it is drawn at each start.
    keep_seconds: how long a status is cached, for all viewers together.
    """
    recent = Recent(lambda name: JsonView(open_experiment(name).status().to_json()), keep_seconds=keep_seconds)
    dashboard = _Dashboard(recent, names, Sessions(scopes_of, secret=secret))
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
    return router


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
        self._kept: dict[str, tuple[float, JsonView]] = {}
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)

    def __call__(self, name: str) -> JsonView:
        """Return the status of an experiment, from the cache if it is recent."""
        with self._locks[name]:
            kept = self._kept.get(name)
            if kept is None or monotonic() >= kept[0]:
                begun = monotonic()
                status, ended = self._ask(name), monotonic()
                # A slow status is read less often: viewers must not slow down assignments.
                keep = self._keep_seconds * max(1.0, (ended - begun) / EASY_SECONDS)
                kept = self._kept[name] = ended + keep, status
            return kept[1]


class _Dashboard:
    """The request handlers."""

    def __init__(self, recent: Recent, names: Callable[[], Sequence[str]], sessions: Sessions) -> None:
        self._recent, self._names, self._sessions = recent, names, sessions

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
        try:
            cookie = self._sessions.begin(form.get("key", "").strip())
        except InputError as error:
            return _html(sign_in_page(root, wrong=str(error), target=target), status=403)
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
            answer.delete_cookie(COOKIE, path=root, httponly=True, samesite="strict")
        return answer

    def enter(self, request: Request) -> Response:
        return RedirectResponse(_root(request), status_code=303, headers=HEADERS)

    def overview(self, request: Request) -> Response:
        allowed = self._allowed(request)
        if allowed is None:
            return _to_sign_in(request)
        return _html(list_page(_root(request), self._statuses(allowed)))

    def overview_again(self, request: Request) -> Response:
        allowed = self._allowed(request)
        if allowed is None:
            return _signed_out()
        return _fragment(request, list_parts(_root(request), self._statuses(allowed)), "")

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

    def _allowed(self, request: Request) -> frozenset[str] | None:
        return self._sessions.read(request.cookies.get(COOKIE))

    def _status(self, name: str, allowed: frozenset[str]) -> JsonView | None:
        """Return the status of an experiment; None if it does not exist, or the key may not read it."""
        if name not in allowed and (EVERYTHING not in allowed or name not in self._names()):
            return None
        try:
            return self._recent(name)
        except InputError:
            return None

    def _statuses(self, allowed: frozenset[str]) -> list[tuple[str, JsonView | None]]:
        seen = [name for name in self._names() if name in allowed or EVERYTHING in allowed]
        return [(name, self._status(name, allowed)) for name in sorted(seen)[:MAX_LISTED]]


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

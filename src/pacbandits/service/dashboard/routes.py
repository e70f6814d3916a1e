"""The dashboard's addresses: sign-in, the list, one page an experiment, and the same again for the script."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from time import monotonic
from typing import Annotated, Protocol
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup

from pacbandits.errors import InputError
from pacbandits.fields import Json
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
from pacbandits.service.dashboard.reading import Given
from pacbandits.service.dashboard.session import COOKIE, EVERYTHING, SESSION_SECONDS, Sessions
from pacbandits.service.dashboard.words import news

PREFIX = "/dashboard"
KEEP_SECONDS, EASY_SECONDS = 2.0, 0.1  # a status is kept, and longer in proportion if it took more than this
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
    """What an experiment says of itself."""

    def to_json(self) -> Json:
        """The same as JSON."""
        ...


class Shown(Protocol):
    """What the dashboard asks of an experiment."""

    def status(self) -> StatusLike:
        """Where it stands now."""
        ...


def router_for(
    open_experiment: Callable[[str], Shown],
    names: Callable[[], Sequence[str]],
    scopes_of: Callable[[str], Mapping[str, str]],
    *,
    secret: bytes | None = None,
    keep_seconds: float = KEEP_SECONDS,
) -> APIRouter:
    """The dashboard, to be included in an application; all of it lies below /dashboard.

    open_experiment: an experiment by its name; InputError where there is none.
    names: of all experiments.
    scopes_of: what a key opens, as {experiment: scope}, nothing for a wrong key; the name * stands for all experiments.
    secret: what sessions are signed with; servers that take turns need the same one. Else drawn anew at each start.
    keep_seconds: how long a status is shown before it is asked for again, however many people watch.
    """
    recent = Recent(lambda name: Given(open_experiment(name).status().to_json()), keep_seconds=keep_seconds)
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
    """The fields of a small form; one that is too large has none."""
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
    """Statuses, each asked for at most every so often and by one at a time, as that takes a while of a large database.

    keep_seconds: how long one is kept.
    """

    def __init__(self, ask: Callable[[str], Given], *, keep_seconds: float) -> None:
        self._ask, self._keep_seconds = ask, keep_seconds
        self._kept: dict[str, tuple[float, Given]] = {}
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)

    def __call__(self, name: str) -> Given:
        """Where an experiment stands, or stood a moment ago."""
        with self._locks[name]:
            kept = self._kept.get(name)
            if kept is None or monotonic() >= kept[0]:
                begun = monotonic()
                status, ended = self._ask(name), monotonic()
                # What takes long is asked for less often: whoever watches must not slow down whoever is assigned.
                keep = self._keep_seconds * max(1.0, (ended - begun) / EASY_SECONDS)
                kept = self._kept[name] = ended + keep, status
            return kept[1]


class _Dashboard:
    """Answers to requests."""

    def __init__(self, recent: Recent, names: Callable[[], Sequence[str]], sessions: Sessions) -> None:
        self._recent, self._names, self._sessions = recent, names, sessions

    def asset(self, name: str) -> Response:
        """A file that pages load; nothing secret, and kept by browsers, as its address changes with it."""
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

    def _status(self, name: str, allowed: frozenset[str]) -> Given | None:
        """Where an experiment stands; None where there is none, or it is not for this key."""
        if name not in allowed and (EVERYTHING not in allowed or name not in self._names()):
            return None
        try:
            return self._recent(name)
        except InputError:
            return None

    def _statuses(self, allowed: frozenset[str]) -> list[tuple[str, Given | None]]:
        seen = [name for name in self._names() if name in allowed or EVERYTHING in allowed]
        return [(name, self._status(name, allowed)) for name in sorted(seen)[:MAX_LISTED]]


def _root(request: Request) -> str:
    """Where the dashboard begins, below what the server itself is mounted at."""
    return f"{request.scope.get('root_path', '')}{PREFIX}"


def _is_foreign(request: Request) -> bool:
    """Whether a browser says that another site sent this."""
    return request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")


def _html(text: str, *, status: int = 200) -> Response:
    return HTMLResponse(text, status_code=status, headers=HEADERS)


def _to_sign_in(request: Request, name: str = "") -> Response:
    target = f"?{urlencode({'target': name})}" if name else ""
    return RedirectResponse(f"{_root(request)}/sign-in{target}", status_code=303, headers=HEADERS)


def _signed_out() -> Response:
    return Response(status_code=401, headers=HEADERS)


def _fragment(request: Request, inside: Markup, said: str) -> Response:
    """What changes of a page, unless the script has it already."""
    etag = etag_of(inside)
    headers = {**HEADERS, "ETag": etag, "Content-Language": "en"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return HTMLResponse(fragment(inside, said), headers=headers)

"""The pages of the dashboard: sign-in, list of experiments, one experiment, and not found."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from pacbandits.errors import count_of, one_line
from pacbandits.report.html import make_environment, render_blocks, safe, style_sheet
from pacbandits.service.dashboard.content import experiment_sections
from pacbandits.service.dashboard.sentences import alarms, day, goal_words, headline, moment, news, state
from pacbandits.service.dashboard.status import JsonView
from pacbandits.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent
ASSETS = {
    "style.css": "text/css; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
POLL_SECONDS = 4
MAX_TITLE_CHARACTERS = 200


@cache
def asset(name: str) -> bytes:
    """Return a static file; the style sheet is that of documents followed by the dashboard's own."""
    own = (FOLDER / "assets" / name).read_bytes()
    return style_sheet().encode() + own if name == "style.css" else own


@cache
def _version(name: str) -> str:
    """Return a hash of a static file for its URL, so that browsers may cache it."""
    return hashlib.sha256(asset(name)).hexdigest()[:12]


@cache
def _environment() -> Environment:
    return make_environment(FOLDER / "templates")


def _asset_address(root: str, name: str) -> str:
    return f"{root}/assets/{name}?v={_version(name)}"


def _page(template: str, root: str, title: str, *, signed_in: bool = True, live: bool = False, **content: Any) -> str:
    """Return a whole page; root: the dashboard's root path."""
    return (
        _environment()
        .get_template(template)
        .render(
            root=root or "/",
            title=one_line(title, most=MAX_TITLE_CHARACTERS),
            asset=partial(_asset_address, root),
            signed_in=signed_in,
            live=live,
            version=__version__,
            **content,
        )
    )


def sign_in_page(root: str, *, wrong: str = "", target: str = "") -> str:
    """Return the sign-in page; wrong: error message for the last key; target: the experiment to show afterwards."""
    return _page("sign_in.html", root, "Sign in", signed_in=False, wrong=wrong, target=target)


def missing_page(root: str, words: str) -> str:
    """Return the page for an experiment that does not exist, or that the key may not read."""
    return _page("missing.html", root, "Not found", words=words)


def list_page(root: str, statuses: Sequence[tuple[str, JsonView | None]], *, wanted: str = "") -> str:
    """Return the page with the list of experiments; wanted: what their names were searched for."""
    source = f"{root}/parts" + (f"?{urlencode({'q': wanted})}" if wanted else "")
    return _live_page(root, "Experiments", source, list_parts(root, statuses, wanted=wanted), "")


def experiment_page(root: str, name: str, status: JsonView) -> str:
    """Return the page of an experiment."""
    source = f"{root}/parts/{quote(name, safe='')}"
    return _live_page(root, name, source, experiment_inside(root, name, status), news(status))


def _live_page(root: str, title: str, source: str, inside: Markup, said: str) -> str:
    """Return a page that the script updates; source: URL of its parts; said: announcement for screen readers."""
    content: dict[str, Any] = {"source": source, "etag": etag_of(inside), "news": said, "seconds": POLL_SECONDS}
    return _page("live.html", root, title, live=True, inside=inside, **content)


def list_parts(root: str, statuses: Sequence[tuple[str, JsonView | None]], *, wanted: str = "") -> Markup:
    """Return the updatable part of the list; the status of an experiment that cannot be read now is None."""
    items: list[dict[str, Any]] = []
    for name, status in statuses:
        item = {"name": one_line(name, most=MAX_TITLE_CHARACTERS), "address": address(root, name), "state": ""}
        if status is not None:
            facts = (
                f"goal {goal_words(status)}",
                count_of(status.count("assigned"), "person", "people"),
                f"{count_of(status.part('rewards').count('in'), 'reward')} in",
                f"since {day(status.time('created'))}",
                *(["a rehearsal"] if status.flag("rehearsal") else []),
            )
            item |= _state(status) | {
                "headline": headline(status, below=False),
                "facts": facts,
                "alarms": alarms(status),
            }
        items.append(item)
    return Markup(_environment().get_template("list.html").render(items=items, root=root or "/", wanted=wanted))


def experiment_inside(root: str, name: str, status: JsonView) -> Markup:
    """Return the updatable part of an experiment's page: its title and all sections."""
    return Markup(
        _environment()
        .get_template("experiment.html")
        .render(
            root=root or "/",
            name=one_line(name, most=MAX_TITLE_CHARACTERS),
            seen=status.time("updated"),
            moment=moment,
            sections=render_blocks(experiment_sections(status)),
            **_state(status),
        )
    )


def _state(status: JsonView) -> dict[str, str]:
    """Return the state in a word, and the style to show it in."""
    word = state(status)
    # A guardrail's alarm does not put the proof in doubt.
    return {"state": word, "kind": "alarm" if alarms(status) and word != "proven" else word}


def etag_of(inside: str) -> str:
    """Return the ETag of the updatable part of a page."""
    return f'"{hashlib.sha256(inside.encode()).hexdigest()[:32]}"'


def fragment(inside: Markup, said: str) -> str:
    """Return the updatable part of a page for the script; said: announcement for screen readers."""
    return Markup('<div data-news="{}">{}</div>').format(safe(said), inside)


def address(root: str, name: str) -> str:
    """Return the path of an experiment's page."""
    return f"{root}/experiments/{quote(name, safe='')}"

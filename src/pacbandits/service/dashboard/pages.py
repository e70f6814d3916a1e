"""Whole pages: the frame around all, the sign-in, the list of experiments, one of them, and what is not there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote

from pacbandits.errors import count_of, one_line
from pacbandits.service.dashboard.markup import Html, join, tag
from pacbandits.service.dashboard.parts import experiment_parts
from pacbandits.service.dashboard.reading import Given
from pacbandits.service.dashboard.words import (
    alarms,
    day,
    headline,
    moment,
    news,
    show,
    state,
)
from pacbandits.version import __version__

ASSETS = {
    "style.css": "text/css; charset=utf-8",
    "face.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
POLL_SECONDS = 4
MAX_TITLE_CHARACTERS = 200


@cache
def asset(name: str) -> bytes:
    """A file that pages load."""
    return (Path(__file__).parent / "assets" / name).read_bytes()


@cache
def _version(name: str) -> str:
    """What tells a file from its older ones, so that a browser may keep it."""
    return hashlib.sha256(asset(name)).hexdigest()[:12]


def page(root: str, title: str, inside: Html, *, signed_in: bool, live: bool = False) -> str:
    """A whole page; root: where the dashboard begins."""

    def at(name: str) -> str:
        return f"{root}/assets/{name}?v={_version(name)}"

    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{one_line(title, most=MAX_TITLE_CHARACTERS)} · pacbandits"),
        tag("link", rel="icon", href=at("icon.svg"), type="image/svg+xml"),
        tag("link", rel="stylesheet", href=at("style.css")),
        tag("script", src=at("face.js")),
        tag("script", src=at("live.js"), defer=True) if live else None,
    )
    out = tag("form", tag("button", "Sign out", class_="quiet"), method="post", action=f"{root}/sign-out")
    face = tag("button", "Dark face", type="button", id="face", class_="quiet scripted")
    top = tag(
        "header",
        tag("a", "pacbandits", href=root or "/", class_="home"),
        tag("div", face, out if signed_in else None, class_="tools"),
        class_="top",
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        top,
        inside,
        tag("footer", f"pacbandits {__version__}", class_="foot dim"),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en').text}\n"


def sign_in_page(root: str, *, wrong: str = "", target: str = "") -> str:
    """The form for a key; wrong: what was wrong with the last one; target: which experiment to show afterwards."""
    form = tag(
        "form",
        # Without a name beside it, those who keep passwords for people take the key for a new one each time.
        tag("input", type="text", name="username", value="pacbandits", autocomplete="username", hidden=True),
        tag("label", "Key", for_="key"),
        tag(
            "input",
            id="key",
            name="key",
            type="password",
            autocomplete="current-password",
            required=True,
            autofocus=True,
            spellcheck="false",
            aria_describedby="wrong" if wrong else "hint",
            aria_invalid="true" if wrong else None,
        ),
        tag("input", type="hidden", name="target", value=target) if target else None,
        tag("p", wrong, id="wrong", class_="alarm", role="alert") if wrong else None,
        tag("p", "A key was shown once, when it was made. One that may read is enough.", id="hint", class_="dim"),
        tag("button", "Sign in", class_="main"),
        method="post",
        action=f"{root}/sign-in",
        class_="sign-in",
    )
    return page(root, "Sign in", tag("main", tag("h1", "Sign in"), form, id="content"), signed_in=False)


def list_page(root: str, statuses: Sequence[tuple[str, Given | None]]) -> str:
    """All experiments that one may read."""
    return page(root, "Experiments", _live(root, "", list_parts(root, statuses), ""), signed_in=True, live=True)


def list_parts(root: str, statuses: Sequence[tuple[str, Given | None]]) -> Html:
    """What is on the list; an experiment that cannot be read now has no status."""
    if not statuses:
        how = tag("code", "pacbandits experiment create checkout.toml")
        empty = tag("p", "There is no experiment that this key may read. One is made by ", how, ".", class_="empty")
        return join(_title("Experiments"), tag("section", empty, id="list"))
    items = (_item(root, name, status) for name, status in statuses)
    return join(_title("Experiments"), tag("section", tag("ul", items, class_="list"), id="list"))


def _item(root: str, name: str, status: Given | None) -> Html:
    link = tag("h2", tag("a", one_line(name, most=MAX_TITLE_CHARACTERS), href=address(root, name)))
    if status is None:
        return tag("li", link, tag("p", "Its state cannot be read just now.", class_="warn"))
    return tag(
        "li",
        tag("div", link, _state(status), class_="row"),
        tag("p", tag("strong", "Alarm: "), " ".join(alarms(status)), class_="alarm") if alarms(status) else None,
        tag("p", headline(status, below=False)),
        tag("p", " · ".join(_facts(status)), class_="dim"),
    )


def _facts(status: Given) -> Iterable[str]:
    yield f"goal {show(status.number('epsilon'))}"
    yield count_of(status.count("assigned"), "person", "people")
    yield f"{count_of(status.part('rewards').count('in'), 'reward')} in"
    yield f"since {day(status.time('created'))}"


def experiment_page(root: str, name: str, status: Given) -> str:
    """One experiment."""
    inside = _live(root, name, experiment_inside(root, name, status), news(status))
    return page(root, name, inside, signed_in=True, live=True)


def experiment_inside(root: str, name: str, status: Given) -> Html:
    """The title and all parts of an experiment's page: what the script asks for again."""
    seen = status.time("updated")
    looked = tag(
        "p",
        "Last look at the data: " if seen is not None else "No look at the data yet.",
        None if seen is None else tag("time", moment(seen), datetime=seen.isoformat()),
        id="looked",
        class_="dim",
    )
    title = tag("div", tag("h1", one_line(name, most=MAX_TITLE_CHARACTERS)), _state(status), id="title", class_="row")
    back = tag("p", tag("a", "All experiments", href=root or "/"), class_="back")
    return join(back, title, looked, tag("div", experiment_parts(status), class_="parts"))


def _title(words: str) -> Html:
    return tag("h1", words)


def _state(status: Given) -> Html:
    word = state(status)
    kind = "alarm" if alarms(status) and word != "proven" else word  # a guardrail's alarm is no doubt about the proof
    return tag("span", word, class_=f"state {kind}")


def etag_of(inside: Html) -> str:
    """What tells parts from newer ones."""
    return f'"{hashlib.sha256(inside.text.encode()).hexdigest()[:32]}"'


def _live(root: str, name: str, inside: Html, said: str) -> Html:
    """The content, with what the script needs to keep it new, and a place where it tells listeners what changed."""
    source = f"{root}/parts/{quote(name, safe='')}" if name else f"{root}/parts"
    bar = tag(
        "p",
        tag("span", "Live", id="pulse"),
        tag("button", "Stop updating", type="button", id="hold", class_="quiet"),
        class_="live scripted",
    )
    still = tag("noscript", tag("p", "Without scripts this page stays as it is; reload it for news.", class_="dim"))
    heard = tag("p", id="news", role="status", aria_live="polite", class_="unseen")
    about = {"data_source": source, "data_etag": etag_of(inside), "data_news": said, "data_seconds": POLL_SECONDS}
    content = tag("div", inside, id="parts", **about)
    return tag("main", bar, still, heard, content, id="content")


def missing_page(root: str, words: str) -> str:
    """What is not there, or not for this key."""
    back = tag("p", tag("a", "All experiments", href=root or "/"))
    inside = tag("main", tag("h1", "Not found"), tag("p", words), back, id="content")
    return page(root, "Not found", inside, signed_in=True)


def address(root: str, name: str) -> str:
    """Where an experiment's page is."""
    return f"{root}/experiments/{quote(name, safe='')}"

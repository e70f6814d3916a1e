"""Check the built site: every link and anchor leads somewhere, and viewing it loads nothing from elsewhere.

python docs/tools/check.py site
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself: attributes by element. Links that a reader may follow are no loads.
LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "audio": "src",
    "video": "src",
    "embed": "src",
    "object": "data",
    "input": "src",
}
LOADED_BY_LINK = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "modulepreload",
    "manifest",
}
OUTSIDE = re.compile(r"^(https?:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"""(?:@import\s+(?:url\()?|url\()\s*['"]?((?:https?:)?//[^'")\s]+)""", re.IGNORECASE)
# Addresses in scripts that look like something to be fetched.
IN_SCRIPT = re.compile(
    r"""https?://(?:unpkg\.com|api\.github\.com|gitlab\.com/api|[\w.-]*(?:cdn|fonts|analytics)[\w.-]*)[^\s"'`]*"""
)
# The theme's script fetches these for what a page may hold; then no page may hold it.
ONLY_FOR = {
    "https://unpkg.com/mermaid": 'class="mermaid"',
    "https://api.github.com/": 'data-md-component="source"',
    "https://gitlab.com/api": 'data-md-component="source"',
    "https://unpkg.com/resize-observer-polyfill": "",  # for browsers from before 2020
}


class Page(HTMLParser):
    """A page's anchors, links and loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADS and LOADS[tag] in given:
            self.loads.append(given[LOADS[tag]])
        if tag == "link" and LOADED_BY_LINK & set(given.get("rel", "").lower().split()):
            self.loads.append(given.get("href", ""))
        self.loads += [source.split()[0] for source in given.get("srcset", "").split(",") if source.strip()]
        self.loads += IN_STYLE.findall(given.get("style", ""))


def find_faults(site: Path) -> list[str]:
    """What is wrong with the site, in words."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    faults: list[str] = [] if pages else [f"there is no page in {site}; build it first"]
    for path, page in pages.items():
        where = path.relative_to(site)
        faults += [f"{where} loads {load}" for load in page.loads if OUTSIDE.match(load)]
        if path.name == "404.html":  # shown at any address, so that its links start at the root
            continue
        for link in (*page.links, *page.loads):
            faults += [f"{where}: {fault}" for fault in _faults_of(link, path, pages)]
    for path in sorted([*site.rglob("*.css"), *site.rglob("*.js")]):
        text = path.read_text(encoding="utf-8", errors="replace")
        found = IN_STYLE.findall(text) if path.suffix == ".css" else IN_SCRIPT.findall(text)
        faults += [f"{path.relative_to(site)} loads {address}" for address in found if _is_fetched(address, pages)]
    return faults


def _is_fetched(address: str, pages: dict[Path, Page]) -> bool:
    """Whether an address in a script or a style is one that a page of this site makes a browser fetch."""
    for start, cause in ONLY_FOR.items():
        if address.startswith(start):
            return bool(cause) and any(cause in page.text for page in pages.values())
    return True


def _faults_of(link: str, path: Path, pages: dict[Path, Page]) -> list[str]:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return []
    target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return [f"nothing at {link}"]
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return [f"no place {link}"]
    return []


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve()
    faults = find_faults(site)
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(faults)} faults" if faults else "every link leads somewhere, and nothing is loaded from elsewhere")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""What pages need on their way into the site: files of the root as pages, and formulas that stay as they are.

They are written in the Markdown that code hosts show, in which `Δ̂_l` and `π*` stand for themselves, and `\\|` within
code in a table is a bar. The site's Markdown is another, so these are escaped for it here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
NO_PAGES = ("SECURITY.md", "SUPPORT.md", "CODE_OF_CONDUCT.md", "LICENSE", "CITATION.cff")  # their names stay, without a link

# What is left alone: fenced and indented code, code within a line, the targets of links, addresses, identifiers of
# the reference.
CODE = re.compile(r"(^```.*?^```$|^ {4,}[^\n]*$|^:::[^\n]*$|`[^`\n]+`|\]\([^)]*\)|<[^>\n]+>)", re.DOTALL | re.MULTILINE)
SYMBOL = re.compile(r"(?<!\\)_|(?<=[πθV])(?<!\\)\*(?!\*)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page as the site's Markdown wants it."""
    source = PAGES.get(page.file.src_uri)
    return escaped(markdown if source is None else as_page((ROOT / source).read_text(encoding="utf-8")))


def as_page(text: str) -> str:
    """A file of the root with its links turned to where things are in the site."""
    text = text.replace("](docs/", "](")
    for page, source in PAGES.items():
        text = text.replace(f"]({source})", f"]({page})")
    for name in NO_PAGES:
        text = text.replace(f"[{name}]({name})", f"`{name}`")
    return text


def escaped(text: str) -> str:
    """The same page in which no symbol can be taken for emphasis."""
    parts = CODE.split(text)
    for i, part in enumerate(parts):
        parts[i] = part.replace(r"\|", "|") if i % 2 else SYMBOL.sub(lambda symbol: f"\\{symbol[0]}", part)
    return "".join(parts)

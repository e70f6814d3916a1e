"""What pages need on their way into the site: files of the root and notebooks as pages, formulas as they are.

They are written in the Markdown that code hosts show, in which `Δ̂_l` and `π*` stand for themselves, and `\\|` within
code in a table is a bar. The site's Markdown is another, so these are escaped for it here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
# Files of the root whose names stay, without a link.
NO_PAGES = ("SECURITY.md", "SUPPORT.md", "CODE_OF_CONDUCT.md", "LICENSE", "CITATION.cff")

# What is left alone: fenced and indented code, code within a line, the targets of links, addresses, identifiers of
# the reference.
CODE = re.compile(r"(^```.*?^```$|^ {4,}[^\n]*$|^:::[^\n]*$|`[^`\n]+`|\]\([^)]*\)|<[^>\n]+>)", re.DOTALL | re.MULTILINE)
SYMBOL = re.compile(r"(?<!\\)_|(?<=[πθV])(?<!\\)\*(?!\*)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page as the site's Markdown wants it."""
    place = page.file.src_uri
    if place.startswith("notebooks/"):
        return notebook_page(json.loads((ROOT / "docs" / place).with_suffix(".ipynb").read_text("utf-8")), place)
    source = PAGES.get(place)
    return escaped(markdown if source is None else as_page((ROOT / source).read_text(encoding="utf-8")))


def notebook_page(notebook: dict[str, Any], place: str) -> str:
    """A notebook as a page: its texts, its code, and what its cells showed."""
    parts: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(escaped(source) if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" in data:  # without empty lines, at which Markdown would begin again
                parts.append(re.sub(r"\n\s*(?=\n)", "", "".join(data["text/html"])))
            elif "image/png" in data:
                parts.append(
                    f'<img alt="The figure of the cell above" src="data:image/png;base64,{data["image/png"]}">'
                )
            else:
                said = "".join(data.get("text/plain", output.get("text", ()))).rstrip("\n")
                parts.append(f"```text\n{said}\n```")
    name = Path(place).with_suffix(".ipynb").name
    return "\n\n".join([parts[0], f"This page is the notebook [{name}]({name}).", *parts[1:]])


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

"""Render documents as HTML: a single file without external resources, an output of a notebook, parts of a dashboard.

The templates escape every text. This module computes the layout: positions are shares of the width and the height, so
that a figure fits a phone and its text keeps its size.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacbandits.errors import visible
from pacbandits.report.document import (
    ALARM,
    MAX_TEXT_CHARACTERS,
    Block,
    Curve,
    Document,
    Figure,
    Intervals,
    Leaf,
    Stack,
    Tree,
    has_alarm,
)
from pacbandits.report.numbers import percent, show_short

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
N_COLOURS = 8
MAX_TREE_LEAVES, MAX_TREE_DEPTH = 8, 3  # of a tree that is drawn across the page
MAX_STACK_NAMES = 12  # of a stacked bar
MAX_TICKS = 4  # besides 0, so that they have room on a phone
_ROOM = 1.25  # above the largest and below the smallest distance of a curve
_PATH_UNITS = 1000  # of the width and the height, within paths
_MARGIN = 0.05  # of the width, at both ends of intervals: room for half a circle
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
_TIME = re.compile(rf"\b(\d{{1,2}}) ({_MONTHS.replace(' ', '|')}) (\d{{4}}), (\d\d:\d\d) UTC\b")
_UNIT = re.compile(r"(\d) %")  # a number and its unit stay on one line


def render_html(document: Document) -> str:
    """Return the document as a page of its own."""
    page = environment().get_template("page.html")
    title = f"{ALARM if has_alarm(document.blocks) else ''}{document.title}"
    return page.render(
        document=document, title=title, style=style_sheet() + (TEMPLATES / "page.css").read_text("utf-8")
    )


def render_notebook(document: Document) -> str:
    """Return the document as an element for the output of a notebook: its style applies to nothing else there."""
    title = safe(document.title) if document.title else ""
    head = f"<h1>{title}</h1>\n" if title else ""
    return (
        f'<div class="pacbandits">\n<style>\n{notebook_style()}</style>\n{head}{render_blocks(document.blocks)}</div>'
    )


# Three times the class, so that it outweighs the rules of notebooks, such as `.rendered tbody tr:nth-child(even)`.
NOTEBOOK = ".pacbandits" * 3
# How JupyterLab, Visual Studio Code, Colab and this project's documentation mark their theme; else the system's holds.
LIGHT = ('[data-jp-theme-light="true"]', ".vscode-light", '[theme="light"]', '[data-md-color-scheme="default"]')
DARK = ('[data-jp-theme-light="false"]', ".vscode-dark", '[theme="dark"]', '[data-md-color-scheme="slate"]')


@cache
def notebook_style() -> str:
    """Return the style of all blocks, for elements within the output of a notebook alone."""
    sheets = [style_sheet(), *((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "notebook.css"))]
    rules = re.sub(r"/\*.*?\*/", "", "\n".join(sheets), flags=re.DOTALL)
    scoped = re.sub(r"([^{}]+)\{([^{}]*)\}", lambda rule: _scoped(rule[1], rule[2]), rules)
    return re.sub(r"\s*\n\s*", "\n", scoped).lstrip()


def _scoped(selectors: str, body: str) -> str:
    """Return a rule of a page for a notebook's output, which has neither a root nor a body of its own."""
    out: list[str] = []
    for one in map(str.strip, selectors.split(",")):
        if one == ":root":
            out += [NOTEBOOK, *(f"{theme} {NOTEBOOK}" for theme in LIGHT)]
        elif one == ':root[data-theme="dark"]':
            out += [f"{theme} {NOTEBOOK}" for theme in DARK]
        elif one == "body" or one.startswith(":root"):
            out.append(NOTEBOOK)
        elif one not in ("html", "@page"):
            out.append(f"{NOTEBOOK} {one}")
    return f"\n{', '.join(out)} {{{body}}}" if out else ""


def render_blocks(blocks: Sequence[Block]) -> Markup:
    """Return blocks as HTML, for a page that has its own frame."""
    macros: Any = environment().get_template("blocks.html").module
    return macros.blocks(blocks, 2)


@cache
def style_sheet() -> str:
    """Return the style of all blocks, in a light and a dark theme."""
    return (TEMPLATES / "style.css").read_text(encoding="utf-8")


def make_environment(*folders: Path) -> Environment:
    """Return an environment that escapes all texts, with the templates of these folders and of documents."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made: Any = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=safe,
        auto_reload=False,
    )
    made.filters |= {
        "kind": _kind,
        "is_leaf": _is_leaf,
        "has_alarm": has_alarm,
        "percent": percent,
        "timed": timed,
        "short": show_short,
        "colour": _colour,
        "place": _place,
    }
    made.globals |= {
        "ALARM": ALARM,
        "intervals_layout": intervals_layout,
        "intervals_ticks": intervals_ticks,
        "curve_layout": curve_layout,
        "stack_layout": stack_layout,
        "tree_fits": tree_fits,
        "data_uri": data_uri,
    }
    return made


@cache
def environment() -> Environment:
    """Return the environment of documents."""
    return make_environment()


def safe(value: object) -> object:
    """Return a value as a template prints it: text is escaped and made visible, markup is kept."""
    from markupsafe import Markup, escape

    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    text = str(escape(visible(value[:MAX_TEXT_CHARACTERS])))
    return Markup(_UNIT.sub(r"\1&nbsp;%", text) if " %" in text else text)


def timed(text: str) -> Markup:
    """Return a text with its times marked up, for a script that shows them in the reader's zone; not in attributes."""
    from markupsafe import Markup

    def mark(found: re.Match[str]) -> str:
        day, month, year, clock = found.groups()
        number = _MONTHS.index(month) // 4 + 1
        return f'<time datetime="{year}-{number:02}-{int(day):02}T{clock}Z">{found[0]}</time>'

    return Markup(_TIME.sub(mark, str(safe(text))))


def data_uri(figure: Figure) -> Markup:
    """Return a figure as an address that holds its data."""
    from markupsafe import Markup

    return Markup(f"data:image/svg+xml;base64,{base64.b64encode(figure.svg.encode()).decode()}")


def tree_fits(tree: Tree) -> bool:
    """Return whether a tree is drawn across the page, and not as an indented list."""
    return tree.wide and len(tree.leaves) <= MAX_TREE_LEAVES and tree.depth <= MAX_TREE_DEPTH


def _kind(block: Block) -> str:
    return type(block).__name__


def _is_leaf(node: object) -> bool:
    return isinstance(node, Leaf)


def _colour(action: int) -> str:
    return f"a{action % N_COLOURS}"


def _place(share: float) -> str:
    return f"{100 * share:.2f}%"


def intervals_layout(block: Intervals) -> list[tuple[float, float | None, float | None, float | None]]:
    """Return where the estimate, both ends and zero of each interval are drawn, as shares of the width."""
    low, wide = _scale(block)

    def at(value: float | None) -> float | None:
        return None if value is None else _MARGIN + (1 - 2 * _MARGIN) * (value - low) / wide

    zero = at(0.0) if block.zero else None
    return [(at(one.estimate) or 0.0, at(one.low), at(one.high), zero) for one in block.rows]


def intervals_ticks(block: Intervals) -> list[tuple[float, str]]:
    """Return the places of round values on the axis of intervals, as shares of the width, with their labels."""
    low, wide = _scale(block)
    edge = _MARGIN / (1 - 2 * _MARGIN) * wide  # the axis is as wide as the page
    step = _round_step((wide + 2 * edge) / MAX_TICKS)
    first, last = math.ceil((low - edge) / step), math.floor((low + wide + edge) / step)
    ticks: list[tuple[float, str]] = []
    for i in range(first, last + 1):
        words = show_short(i * step)
        place = (i * step - low + edge) / (wide + 2 * edge)
        ticks.append((place, f"+{words}" if block.zero and i > 0 else words))
    return ticks


def _scale(block: Intervals) -> tuple[float, float]:
    """Return the smallest value that is drawn, and the distance to the largest one."""
    ends = [end for one in block.rows for end in (one.estimate, one.low, one.high) if end is not None]
    ends += [0.0] if block.zero else []
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    return low, (high - low) or abs(low) or 1.0


@dataclass(frozen=True)
class StackLayout:
    """The pieces of a stacked bar (start, width, colour) and the shares that are named beside it."""

    pieces: list[tuple[float, float, int]]
    named: list[Any]
    others: int


def stack_layout(stack: Stack) -> StackLayout:
    """Return the pieces of a bar in their order, and the largest of them to be named."""
    start, whole = 0.0, sum(one.share for one in stack.shares) or 1.0
    pieces: list[tuple[float, float, int]] = []
    for one in stack.shares:
        if one.share > 0:
            pieces.append((start, one.share / whole, one.colour))
        start += one.share / whole
    least = sorted((one.share for one in stack.shares), reverse=True)[:MAX_STACK_NAMES][-1:]
    named = [one for one in stack.shares if one.share > 0 and [one.share] >= least][:MAX_STACK_NAMES]
    return StackLayout(pieces, named, sum(one.share > 0 for one in stack.shares) - len(named))


@dataclass(frozen=True)
class CurveLayout:
    """The positions of the parts of a curve, as shares of the width and the height.

    lines: heights of grid lines with their labels.
    ticks: places of numbers of people with their labels.
    goal: the height of the goal, if there is one.
    best, expected: paths, in thousandths.
    dots: places of the analyses with their words.
    """

    lines: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    goal: float | None
    best: str
    expected: str
    dots: list[tuple[float, float, str]]


def curve_layout(curve: Curve) -> CurveLayout:
    """Return where the parts of a curve are drawn: the best distance so far as steps, and then what is expected."""
    first, last = curve.points[0], curve.points[-1]
    distances = [*([] if curve.goal is None else [curve.goal]), *(one.best for one in curve.points)]
    distances += [min(one.value, first.best) for one in curve.points if one.value is not None]
    low, high = min(distances) / _ROOM, max(distances) * _ROOM
    people = 1.02 * max(curve.expected or 0.0, last.samples)

    def across(samples: float) -> float:
        return min(samples / people, 1.0)

    def down(distance: float) -> float:
        return min(max(math.log(high / distance) / math.log(high / low), 0.0), 1.0)

    best, units = "", _PATH_UNITS
    for one in curve.points:
        x, y = units * across(one.samples), units * down(one.best)
        best += f"H{x:.1f}V{y:.1f}" if best else f"M{x:.1f} {y:.1f}"
    expected = ""
    if curve.expected is not None and curve.goal is not None:
        start = f"M{units * across(last.samples):.1f} {units * down(last.best):.1f}"
        expected = f"{start}L{units * across(curve.expected):.1f} {units * down(curve.goal):.1f}"
    step = _round_step(max(people / MAX_TICKS, 1.0))
    return CurveLayout(
        lines=[(down(one), show_short(one)) for one in _round_distances(low, high)],
        ticks=[(across(i * step), f"{i * step:,.0f}") for i in range(int(people / step) + 1)],
        goal=None if curve.goal is None else down(curve.goal),
        best=best,
        expected=expected,
        dots=[(across(one.samples), down(one.value), one.words) for one in curve.points if one.value is not None],
    )


def _round_distances(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between both ends; powers of ten alone where they would crowd."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside = [one for power in powers for digit in (1, 2, 5) if low <= (one := digit * 10.0**power) <= high]
    return inside if len(inside) <= 7 else [one for one in inside if f"{one:e}".startswith("1")]


def _round_step(least: float) -> float:
    """Return the round number, 1, 2 or 5 times a power of ten, that is no less than this."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least or digit == 10)

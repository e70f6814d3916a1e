"""Pictures in SVG for a page: a tree of decisions, and intervals beside one another. Nothing but text and lines."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import wrap

from pacbandits.certificate.worth import Interval
from pacbandits.policies.trees.tree import Branch, Node
from pacbandits.records.naming import call

_COLOURS = ("#0b6e8f", "#c4561e", "#4d7c2a", "#7a4f9e", "#a8881a", "#93304e", "#3f5d7a", "#5f5f5f")
_EMPTY_COLOUR = "#b3261e"
_LEAF_WIDTH, _LEVEL_HEIGHT, _BOX_HEIGHT = 168, 100, 50
_CHARACTER_WIDTH = 6.6  # of text of 12 pixels, about
_MAX_CHARACTERS = 23  # of a line in a box
_MAX_LINES = 3  # of a box
_LINE_HEIGHT = 14


def colour_of(action: int) -> str:
    """The colour of an action."""
    return _COLOURS[action % len(_COLOURS)]


def draw_tree(root: Node, names: Sequence[str], *, shares: Sequence[float]) -> str:
    """A tree: questions in boxes, "yes" to the left, actions in colour at the ends, with the share of people there."""
    width, depth = _LEAF_WIDTH * _count(root), _depth(root)
    parts: list[str] = []
    left = iter(shares)

    def place(node: Node, x: float, level: int) -> float:
        """Draw a node whose leaves begin at x, and return where its middle is."""
        y = 10 + level * _LEVEL_HEIGHT
        if not isinstance(node, Branch):
            middle = x + _LEAF_WIDTH / 2
            parts.append(_box(middle, y, call(node, names), fill=colour_of(node), ink="white", bold=True))
            parts.append(
                _text(middle, y + _BOX_HEIGHT + 14, f"{100 * next(left):.0f} % of people", size=11, ink="#666")
            )
            return middle
        begin = _LEAF_WIDTH * _count(node.then)
        yes, no = place(node.then, x, level + 1), place(node.otherwise, x + begin, level + 1)
        middle = (yes + no) / 2
        for end, word in ((yes, "yes"), (no, "no")):
            top, foot = y + _BOX_HEIGHT, y + _LEVEL_HEIGHT
            parts.insert(0, f'<path d="M{middle:.0f} {top}L{end:.0f} {foot}" stroke="#999" stroke-width="1.4"/>')
            side = 14 if end > middle else -14
            parts.append(_text((middle + end) / 2 + side, (top + foot) / 2 - 2, word, size=11, ink="#666"))
        parts.append(_box(middle, y, node.test.describe() + "?", fill="#f2f2f2", ink="#222"))
        return middle

    place(root, 0.0, 0)
    height = 10 + depth * _LEVEL_HEIGHT + _BOX_HEIGHT + 24
    return _svg(width, height, parts, title="The rule as a tree of questions")


def draw_intervals(rows: Sequence[tuple[str, Interval, str]], *, zero: bool) -> str:
    """Intervals beside one another, each with a label and its words; zero: whether to mark where nothing is gained."""
    ends = [end for _, one, _ in rows for end in _drawn(one)] + ([0.0] if zero else [])
    low, high = min(ends), max(ends)
    span = (high - low) or 1.0
    start, room, line = 210, 280, 30

    def at(value: float) -> float:
        return start + room * (value - low) / span

    parts: list[str] = []
    if zero:
        parts.append(f'<path d="M{at(0):.1f} 4V{len(rows) * line + 4}" stroke="#bbb" stroke-dasharray="3 3"/>')
    for i, (label, one, words) in enumerate(rows):
        y = 18 + i * line
        parts.append(_text(start - 14, y + 4, label, anchor="end"))
        colour = _EMPTY_COLOUR if one.empty else _COLOURS[0]
        if not one.empty:
            parts.append(f'<path d="M{at(one.low):.1f} {y}H{at(one.high):.1f}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<circle cx="{at(one.estimate):.1f}" cy="{y}" r="5" fill="{colour}"/>')
        parts.append(_text(start + room + 16, y + 4, words, anchor="start"))
    longest = max(len(words) for _, _, words in rows)
    width = start + room + max(270, 26 + round(_CHARACTER_WIDTH * longest))
    return _svg(width, len(rows) * line + 8, parts, title="Estimates and their intervals")


def _drawn(one: Interval) -> tuple[float, ...]:
    """What is drawn of an interval: of an empty one its estimate alone."""
    return (one.estimate,) if one.empty else (one.low, one.estimate, one.high)


def _count(node: Node) -> int:
    return _count(node.then) + _count(node.otherwise) if isinstance(node, Branch) else 1


def _depth(node: Node) -> int:
    return 1 + max(_depth(node.then), _depth(node.otherwise)) if isinstance(node, Branch) else 0


def _box(x: float, y: float, words: str, *, fill: str, ink: str, bold: bool = False) -> str:
    lines = wrap(words, _MAX_CHARACTERS, max_lines=_MAX_LINES, placeholder="…")
    longest = max(map(len, lines), default=0)
    width = min(max(_CHARACTER_WIDTH * longest + 22, 60), _LEAF_WIDTH - 4)
    first = y + (_BOX_HEIGHT - _LINE_HEIGHT * len(lines)) / 2 + 11
    text = "".join(_text(x, first + _LINE_HEIGHT * i, line, ink=ink, bold=bold) for i, line in enumerate(lines))
    frame = (
        f'<rect x="{x - width / 2:.0f}" y="{y}" width="{width:.0f}" height="{_BOX_HEIGHT}" rx="6" fill="{fill}" '
        'stroke="#0003"/>'
    )
    return f"<g><title>{escape(words)}</title>{frame}{text}</g>"


def _text(
    x: float, y: float, words: str, *, size: int = 12, ink: str = "#222", anchor: str = "middle", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{ink}" text-anchor="{anchor}"'
    return f"<text {place}{weight}>{escape(words)}</text>"


def _svg(width: float, height: float, parts: Sequence[str], *, title: str) -> str:
    frame = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" aria-label="{escape(title)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {frame} font-family="inherit">{"".join(parts)}</svg>'

"""The document model: the content of a report, a dashboard page or a command's output, as frozen dataclasses.

Code with something to show builds a `Document`; `report.html`, `report.markdown` and `report.terminal` render it, and
`to_json` serialises it. Numbers are formatted before they enter a document (`report.numbers`); the renderer escapes
texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

Kind = Literal["alarm", "warning", "remark"]
Style = Literal["", "dim", "strong", "headline"]
Status = Literal["", "good", "warning", "alarm"]
Side = Literal["left", "right", "wrap"]
ALARM = "ALARM: "
MAX_TEXT_CHARACTERS = 20_000  # of a paragraph; the rest is cut


@dataclass(frozen=True)
class Text:
    """A paragraph.

    words: the paragraph.
    style: its emphasis.
    links: (words, address) of pages that follow it.
    """

    words: str
    style: Style = ""
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Note:
    """A sentence set apart from the text.

    kind: an alarm is shown in red with `ALARM: ` before it, a warning in yellow, a remark in grey.
    words: the sentence.
    """

    kind: Kind
    words: str


@dataclass(frozen=True)
class Items:
    """A bulleted list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """Lines that keep their breaks and spaces: a policy in words, a command, a digest.

    text: the lines.
    language: the programming language, if it is code.
    copied: whether a page that has scripts offers to copy it.
    """

    text: str
    language: str = ""
    copied: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than text.

    text: the content.
    style: "chosen" for the highlighted cell of a row, or a status.
    colour: the number of the action whose colour is shown beside the text.
    remark: a word after the text, as a warning.
    """

    text: str
    style: Literal["", "chosen", "dim", "good", "warning", "alarm"] = ""
    colour: int | None = None
    remark: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows.

    head: the names of the columns; empty for a list of facts, which is a name and a value a row.
    rows: the cells.
    title, note: a heading above and a remark below.
    sides: how columns are aligned, "wrap" for left-aligned prose; by default the first left, the others right, and all
        left if there is no head.
    strong: the numbers of highlighted rows.
    widths: minimum widths in characters in a terminal, where several tables below one another share their columns.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str | Cell, ...], ...]
    title: str = ""
    note: str = ""
    sides: tuple[Side, ...] = ()
    strong: frozenset[int] = frozenset()
    widths: tuple[int, ...] = ()

    def side(self, column: int) -> Side:
        """Return the alignment of a column."""
        if column < len(self.sides):
            return self.sides[column]
        return "right" if column and any(self.head) else "left"


@dataclass(frozen=True)
class IntervalLine:
    """An estimate with its interval.

    label: what is estimated.
    words: the estimate and the interval as text.
    estimate, low, high: where they are drawn; no ends if the interval is empty.
    """

    label: str
    words: str
    estimate: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Intervals:
    """Intervals on one scale.

    rows: the intervals.
    title: a heading above them.
    zero: whether 0, no gain, is marked.
    axis: whether round values are marked below them.
    """

    rows: tuple[IntervalLine, ...]
    title: str = ""
    zero: bool = False
    axis: bool = False


@dataclass(frozen=True)
class Leaf:
    """A leaf of a decision tree.

    words: the action.
    colour: the number of the action.
    share: the share of people in this leaf, if known.
    """

    words: str
    colour: int
    share: float | None = None


@dataclass(frozen=True)
class Branch:
    """A split of a decision tree and its two subtrees."""

    question: str
    yes: Branch | Leaf
    no: Branch | Leaf


@dataclass(frozen=True)
class Tree:
    """A decision tree; wide: whether it may be drawn across the page if it fits."""

    root: Branch | Leaf
    wide: bool = True

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """Return the leaves from left to right."""
        return tuple(_leaves(self.root))

    @property
    def depth(self) -> int:
        """Return the number of splits on the longest path."""
        return _depth(self.root)


def _leaves(node: Branch | Leaf) -> Iterator[Leaf]:
    if isinstance(node, Leaf):
        yield node
    else:
        yield from _leaves(node.yes)
        yield from _leaves(node.no)


def _depth(node: Branch | Leaf) -> int:
    return 0 if isinstance(node, Leaf) else 1 + max(_depth(node.yes), _depth(node.no))


def tree_lines(node: Branch | Leaf, depth: int = 0) -> Iterator[str]:
    """Yield a tree as indented lines of if and else."""
    if isinstance(node, Leaf):
        share = "" if node.share is None else f" ({100 * node.share:.0f} % of people)"
        yield f"{node.words}{share}" if depth else f"always {node.words}{share}"
        return
    for head, child in ((f"if {node.question}:", node.yes), ("else:", node.no)):
        first, *rest = tree_lines(child, depth + 1)
        if isinstance(child, Leaf):
            yield f"{'    ' * depth}{head} {first}"
        else:
            yield from (f"{'    ' * depth}{head}", first, *rest)


@dataclass(frozen=True)
class Point:
    """An analysis on a curve.

    samples: the number of people.
    best: the smallest certified distance so far.
    value: the distance that this analysis certified; None if that cannot be drawn.
    words: the same as text.
    """

    samples: int
    best: float
    value: float | None
    words: str


@dataclass(frozen=True)
class Curve:
    """A certified distance that falls with the number of people towards its goal, on a logarithmic scale.

    points: the analyses.
    goal: the distance to reach; None if the experiment stops by something else.
    expected: after how many people it is expected to be reached, if that is known.
    words: the curve as a sentence.
    """

    points: tuple[Point, ...]
    goal: float | None
    expected: float | None
    words: str


@dataclass(frozen=True)
class Bar:
    """A quantity as a bar.

    label, words: what it is, and how large, as text.
    size: its length, relative to the other bars.
    kind: "done", "guess", "planned" or "plain".
    """

    label: str
    words: str
    size: float
    kind: Literal["done", "guess", "planned", "plain"] = "plain"


@dataclass(frozen=True)
class Bars:
    """Bars on one scale."""

    rows: tuple[Bar, ...]


@dataclass(frozen=True)
class Share:
    """A part of a stacked bar: an action, its share, the number of its colour, and whether it is highlighted."""

    name: str
    share: float
    colour: int
    strong: bool = False


@dataclass(frozen=True)
class Stack:
    """A stacked bar.

    label, words: what it is of, and a remark.
    shares: its parts.
    """

    label: str
    words: str
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class Stacks:
    """Stacked bars, each over the full width."""

    rows: tuple[Stack, ...]


@dataclass(frozen=True)
class Number:
    """A key figure: its name, its value as text, and a remark."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class Numbers:
    """Key figures beside one another."""

    items: tuple[Number, ...]


@dataclass(frozen=True)
class Check:
    """The result of a check.

    status: good, a warning, an alarm, or no judgement.
    title, words: what was checked, and what was found.
    figure: a number that belongs to it.
    remark: the evidence behind it.
    """

    status: Status
    title: str
    words: str
    figure: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Checks:
    """Results of checks."""

    items: tuple[Check, ...]


@dataclass(frozen=True)
class Figure:
    """A picture.

    svg: an SVG image.
    words: what it shows, for readers who do not see it.
    """

    svg: str
    words: str


@dataclass(frozen=True)
class Box:
    """Blocks that are set apart: the answer. It is red if it holds an alarm."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Fold:
    """Blocks that a page shows on demand; id: a name that stays the same when the page is updated."""

    title: str
    blocks: tuple[Block, ...]
    id: str = ""


@dataclass(frozen=True)
class Columns:
    """Blocks side by side where there is room."""

    columns: tuple[tuple[Block, ...], ...]


@dataclass(frozen=True)
class Section:
    """Blocks under a heading.

    title: the heading.
    blocks: the content.
    id: a name that stays the same when the page is updated.
    hidden: whether only screen readers get the heading.
    """

    title: str
    blocks: tuple[Block, ...]
    id: str = ""
    hidden: bool = False


Block = (
    Text | Note | Items | Code | Table | Intervals | Tree | Curve | Bars | Stacks | Numbers | Checks
    | Figure | Box | Fold | Columns | Section
)  # fmt: skip


@dataclass(frozen=True)
class Document:
    """The content of one page, file or command output.

    title: its heading; empty for the output of a command.
    blocks: its content.
    wide: whether it has tables of many columns, for which a page is made wider.
    """

    title: str
    blocks: tuple[Block, ...]
    wide: bool = False


def has_alarm(blocks: Sequence[Block]) -> bool:
    """Return whether an alarm is among the blocks."""
    for one in blocks:
        if isinstance(one, Note):
            if one.kind == "alarm":
                return True
        elif isinstance(one, Box | Section | Fold) and has_alarm(one.blocks):
            return True
    return False


def to_json(value: Any) -> Any:
    """Serialise a document, a block or a part of one to JSON-compatible values; `block` names the record."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, frozenset):
        return sorted(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, tuple):
        return [to_json(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return {"block": type(value).__name__.lower()} | {
        one.name: to_json(getattr(value, one.name)) for one in fields(value)
    }

"""Markers in the documentation: which command makes a table or a picture.

    <!-- table: python -m benchmarks.realizable misfit -->              the one table that the command prints
    <!-- tables: python -m benchmarks.designs growth; clock: time -->   all that it prints: titles, tables, sentences
    …
    <!-- /table -->

    <!-- picture: python -m benchmarks.savings 3; dear: an hour -->     what the command draws, in the line that follows
    ![…](figures/savings.png)

    <!-- kept: fitted once, to trials of seeds below 200 -->            figures that no command makes, and why
    …
    <!-- /kept -->

After the command may stand, each behind a semicolon: `clock: "to 1 %" time`, the columns that a clock or the
machine's memory made, which are remade but never compared; and `dear: six minutes`, so that tests do not run it.
Readers see none of it.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARKER = re.compile(r"^<!-- (table|tables|picture|kept): (.+) -->$", re.MULTILINE)
ENDS = {"table": "<!-- /table -->", "tables": "<!-- /table -->", "kept": "<!-- /kept -->"}
NOTES = ("clock", "dear")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
BAR = re.compile(r"(?<!\\)\|")
RULE = re.compile(r"^\|[\s:|-]+\|$")
PICTURE = re.compile(r"^!\[[^\]]*\]\(([^)]+)\)$", re.MULTILINE)
NUMBER = re.compile(r"^\W*\d")

Table = list[list[str]]


@dataclass(frozen=True)
class Figure:
    """A marked table or picture of a page.

    page: the file.
    place: its number among the marked figures of the page, from 0.
    line: of the marker, from 1.
    kind: table, tables, picture or kept.
    command: what makes it; why there is none, of what is kept.
    clock: columns that differ from run to run.
    dear: how long it takes, in words; empty where it takes seconds.
    span: where its body begins and ends in the page's text; of a picture, that of its line.
    """

    page: Path
    place: int
    line: int
    kind: str
    command: str
    clock: tuple[str, ...]
    dear: str
    span: tuple[int, int]

    @property
    def name(self) -> str:
        """Where it stands and what makes it."""
        return f"{_named(self.page)}:{self.line}: {self.command}"


def pages() -> list[Path]:
    """Every page whose figures are marked."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def read_figures(page: Path) -> list[Figure]:
    """The marked figures of a page, in order; a ValueError names the line of a marker that cannot be understood."""
    text = page.read_text(encoding="utf-8")
    code = [found.span() for found in FENCED.finditer(text)]
    found: list[Figure] = []
    for marker in MARKER.finditer(text):
        if any(start <= marker.start() < end for start, end in code):
            continue
        kind, words = marker[1], marker[2]
        line = text.count("\n", 0, marker.start()) + 1
        where = f"{_named(page)}:{line}"
        command, notes = (words, {}) if kind == "kept" else _read_words(words, where)
        span = _span(text, marker.end(), kind, where)
        clock = tuple(shlex.split(notes.get("clock", "")))
        found.append(Figure(page, len(found), line, kind, command, clock, notes.get("dear", ""), span))
    return found


def _read_words(words: str, where: str) -> tuple[str, dict[str, str]]:
    command, *rest = re.split(r";\s+", words)
    notes: dict[str, str] = {}
    for one in rest:
        name, _, said = one.partition(": ")
        if name not in NOTES or not said:
            raise ValueError(f"{where}: '{one}' should be 'clock: columns' or 'dear: how long'")
        notes[name] = said.strip()
    return command.strip(), notes


def _span(text: str, start: int, kind: str, where: str) -> tuple[int, int]:
    if kind == "picture":
        drawn = PICTURE.match(text, start + 1) or PICTURE.match(text, start + 2)
        if drawn is None:
            raise ValueError(f"{where}: no picture follows its marker")
        return drawn.span()
    end, other = text.find(ENDS[kind], start), MARKER.search(text, start)
    if end < 0 or (other is not None and other.start() < end):
        raise ValueError(f"{where}: no '{ENDS[kind]}' follows its marker")
    return start, end


def fill(text: str, figure: Figure, printed: str) -> str:
    """The page's text with the figure's body made anew; columns stay aligned as they were, where they are as many."""
    start, end = figure.span
    if figure.kind == "table":
        (printed,) = _blocks(printed)
    old = [line for line in text[start:end].splitlines() if RULE.match(line)]
    lines: list[str] = []
    for line in printed.strip("\n").splitlines():
        if RULE.match(line) and old and (rule := old.pop(0)).count("|") == line.count("|"):
            line = rule
        lines.append(line)
    return f"{text[:start]}\n\n" + "\n".join(lines) + f"\n\n{text[end:]}"


def compare(figure: Figure, text: str, printed: str) -> list[str]:
    """What differs between the tables of the page and those that were printed, but for the columns of the clock."""
    old, new = (read_tables(part) for part in (text[figure.span[0] : figure.span[1]], printed))
    if len(old) != len(new):
        return [f"{len(old)} tables on the page, {len(new)} printed"]
    return [fault for one, other in zip(old, new, strict=True) for fault in _compare_tables(one, other, figure.clock)]


def _compare_tables(old: Table, new: Table, clock: tuple[str, ...]) -> list[str]:
    if old[0] != new[0]:
        return [f"columns {old[0]} on the page, {new[0]} printed"]
    if len(old) != len(new):
        return [f"{len(old) - 1} rows on the page, {len(new) - 1} printed"]
    faults: list[str] = []
    for row, other in zip(old[1:], new[1:], strict=True):
        pairs = zip(old[0], row, other, strict=False)
        faults += [
            f"{row[0] or row[1]}, {column}: '{was}' on the page, '{now}' printed"
            for column, was, now in pairs
            if column not in clock and was != now
        ]
    return faults


def read_tables(text: str) -> list[Table]:
    """The Markdown tables of a text, as rows of cells, the heads first."""
    return [
        [[cell.strip() for cell in BAR.split(line)[1:-1]] for line in block.splitlines() if not RULE.match(line)]
        for block in _blocks(text)
    ]


def _blocks(text: str) -> list[str]:
    return [block.strip() for block in re.findall(r"(?:^\|.*(?:\n|\Z))+", text, re.MULTILINE)]


def find_unmarked(page: Path) -> list[str]:
    """Pictures without a command, and tables of figures (half of their cells are numbers) that no marker holds."""
    text = page.read_text(encoding="utf-8")
    for figure in reversed(read_figures(page)):
        text = text[: figure.span[0]] + text[figure.span[1] :]
    text = FENCED.sub("", text)
    found = [f"the picture {name}" for name in PICTURE.findall(text)]
    for head, *rows in read_tables(text):
        cells = [cell for row in rows for cell in row[1:] if cell]
        if sum(bool(NUMBER.match(cell)) for cell in cells) > len(cells) / 2:
            found.append(f"the table of {' | '.join(head)}")
    return [f"{_named(page)}: {words}" for words in found]


def _named(page: Path) -> str:
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name

"""The document model: every block in every rendering, with hostile names, empty tables and long trees."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from html.parser import HTMLParser

import pytest
from rich.console import Console

from pacbandits.report.document import (
    Bar,
    Bars,
    Box,
    Branch,
    Cell,
    Check,
    Checks,
    Code,
    Columns,
    Curve,
    Document,
    Figure,
    Fold,
    IntervalLine,
    Intervals,
    Items,
    Leaf,
    Note,
    Number,
    Numbers,
    Point,
    Section,
    Share,
    Stack,
    Stacks,
    Table,
    Text,
    Tree,
    to_json,
)
from pacbandits.report.html import NOTEBOOK, notebook_style, render_html, render_notebook
from pacbandits.report.markdown import render_markdown
from pacbandits.report.terminal import render_terminal

HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>"
VOID = {"meta", "img"}
POINTS = tuple(Point(100 * i, 0.5 / i, 0.5 / i, f"after {100 * i} people") for i in range(1, 5))


def every_block(name):
    """One of each kind of block, each of which shows this name."""
    return (
        Box((Note("alarm", name), Text(name), Text(name, "headline"))),
        Note("warning", name),
        Items((name, name)),
        Code(name),
        Code(name, copied=True),
        Table((name, "rows"), ((name, "1"), (Cell(name, "chosen", colour=1, remark=name), "2")), title=name, note=name),
        Table((), ((name, name),)),
        Intervals(
            (IntervalLine(name, "1 (0 to 2)", 1.0, 0.0, 2.0), IntervalLine(name, "1 (empty)", 1.0, None, None)),
            name,
            True,
        ),
        Tree(Branch(name, Leaf(name, 0, 0.25), Leaf(name, 9, None))),
        Curve(POINTS, 0.1, 800.0, name),
        Bars((Bar(name, "12", 12.0, "done"), Bar(name, "0", 0.0))),
        Stacks((Stack(name, name, (Share(name, 0.3, 0, strong=True), Share(name, 0.7, 1))),)),
        Numbers((Number(name, name, name),)),
        Checks((Check("good", name, name), Check("alarm", name, name, remark=name), Check("", name, name, "3 %"))),
        Figure("<svg xmlns='http://www.w3.org/2000/svg'/>", name),
        Fold(name, (Text(name),), id="fold"),
        Columns(((Text(name),), (Text(name, "dim"),))),
        Section(name, (Section(name, (Text(name),)),), id="part"),
    )


class Reader(HTMLParser):
    """The elements of a page; fails where one is not closed in order."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name


def terminal(document, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(render_terminal(document))
    return console.file.getvalue()


def test_a_hostile_name_is_only_text_in_every_block():
    document = Document(HOSTILE, every_block(HOSTILE))
    page = render_html(document)
    found = Reader(page)
    assert "<script" not in page
    assert all(not key.startswith("on") for _, attributes in found.elements for key in attributes)
    assert [one["src"][:26] for name, one in found.elements if name == "img"] == ["data:image/svg+xml;base64,"]
    assert unescape(page).count(HOSTILE) > 25
    markdown = render_markdown(document)
    assert "<script" not in re.sub(r"```.*?```", "", markdown, flags=re.DOTALL)
    shown = terminal(Document("a\x1b[2Jb", every_block("a\x1b[2Jb\u202e")))
    assert shown.replace("\n", "").isprintable()
    assert json.loads(json.dumps(to_json(document)))["blocks"][0]["block"] == "box"


def test_pages_are_single_files_that_screen_readers_can_read():
    page = render_html(Document("Title", every_block("name")))
    read = Reader(page)
    assert not re.search(r"https?://(?!www\.w3\.org)|@import|url\(|<link|<script", page)
    for name, attributes in read.elements:
        if name == "th":
            assert attributes["scope"] in ("col", "row")
        if name == "img":
            assert attributes["alt"] == "name"
        if name == "svg" and attributes.get("class") != "lines":
            assert attributes.get("aria-hidden") == "true" or attributes["aria-label"]
    levels = [int(name[1]) for name, _ in read.elements if re.fullmatch("h[1-6]", name)]
    assert levels.count(1) == 1
    assert "prefers-color-scheme: dark" in page
    assert "<title>ALARM: Title" in page


def test_an_empty_table_and_an_empty_document_are_rendered():
    document = Document("Nothing", (Table(("a", "b"), ()), Table((), ()), Items(()), Bars((Bar("a", "0", 0.0),))))
    assert Reader(render_html(document)).elements
    assert "| a | b |" in render_markdown(document)
    assert "Nothing" in terminal(document)
    assert render_markdown(Document("", ())) == "\n"


def deep(depth):
    return (
        Leaf(f"leaf {depth}", depth) if depth == 0 else Branch(f"x ≤ {depth}", deep(depth - 1), Leaf("other", 1, 0.5))
    )


@pytest.mark.parametrize(("depth", "kind"), [(2, "wide"), (60, "long")])
def test_a_long_tree_becomes_an_indented_list(depth, kind):
    document = Document("tree", (Tree(deep(depth)),))
    page = render_html(document)
    assert f'class="tree {kind}"' in page
    assert page.count('class="leaf"') == depth + 1
    assert terminal(document, 400).count("else: other (50 % of people)") == depth
    assert render_markdown(document).count("else: other (50 % of people)") == depth


def test_intervals_are_drawn_on_one_scale_and_an_empty_one_has_no_line():
    block = Intervals((IntervalLine("a", "", 1.0, 0.0, 2.0), IntervalLine("b", "", 3.0, None, None)), zero=True)
    page = render_html(Document("", (block,)))
    assert page.count('class="span"') == 1
    assert page.count('class="zero"') == 2
    assert 'cx="35.00%"' in page
    assert 'cx="95.00%"' in page  # so that the circle is whole in a picture of 6rem


def test_code_with_fences_stays_one_block_in_markdown():
    lines = render_markdown(Document("", (Code("a\n```\n<b>"), Text("after")))).splitlines()
    assert lines == ["````", "a", "```", "<b>", "````", "", "after"]


def test_links_and_images_of_names_stay_text_in_markdown():
    assert "](" not in render_markdown(Document("", (Text("![x](http://elsewhere/a.png)"),)))


def test_alarms_are_marked_wherever_they_are_shown():
    document = Document("T", (Section("s", (Note("alarm", "counts differ"),)),))
    assert '<p class="alarm"><strong>ALARM: </strong>counts differ</p>' in render_html(document)
    assert "**ALARM: counts differ**" in render_markdown(document)
    assert "ALARM: counts differ" in terminal(document)


def test_an_output_of_a_notebook_styles_itself_alone():
    style = notebook_style()
    assert not re.search(r":root|\bbody\b|\bhtml\b|@page", style)
    selectors = re.findall(r"([^{}]+)\{[^{}]*\}", style)
    assert len(selectors) > 100
    for one in (one.strip() for selector in selectors for one in selector.split(",")):
        assert re.search(rf"(^|[\]\w] ){re.escape(NOTEBOOK)}($| )", one), one
    light, dark = ("--paper: #ffffff", "--paper: #13171a")
    for theme, paper in (('="true"]', light), (".vscode-light", light), ('="false"]', dark), (".vscode-dark", dark)):
        (block,) = re.findall(rf"{re.escape(theme)} {re.escape(NOTEBOOK)}[^{{]*\{{([^}}]*)", style)
        assert paper in block


def test_an_output_of_a_notebook_is_whole_and_loads_nothing():
    shown = render_notebook(Document(HOSTILE, (Text(HOSTILE), Table((HOSTILE,), ((HOSTILE,),)))))
    assert "<script" not in shown
    assert "<img" not in shown
    assert not re.search(r"https?:|url\(|@import", shown)
    assert shown.count("<div") == shown.count("</div>")
    assert "<h1>" not in render_notebook(Document("", (Text("words"),)))

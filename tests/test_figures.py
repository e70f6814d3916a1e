"""Figures of the documentation stay true: each has a command, and the cheap ones are made again and compared."""

from __future__ import annotations

import pytest
from benchmarks.figures import check, made_by_commands
from benchmarks.markers import compare, fill, find_unmarked, pages, read_figures

CHEAP_SECONDS = 600  # a minute, and many times that on a machine that is busy
CHEAP = [figure for figure in made_by_commands() if figure.kind != "picture" and not figure.dear]

PAGE = """# A page

<!-- table: python -m benchmarks.some thing; clock: "to 1 %" time; dear: an hour -->

| problem | samples | to 1 % | time |
|---|---:|---|---|
| `a` | 243 | 2 s | 3 s |

<!-- /table -->

<!-- picture: python -m benchmarks.other -->

![a curve](figures/a.png)

<!-- kept: measured once -->

| before | 3 |
|---|---|
| after | 4 |

<!-- /kept -->
"""
PRINTED = """
**A title**

| problem | samples | to 1 % | time |
|---|---|---|---|
| `a` | 230 | 5 s | 6 s |
"""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_every_table_of_figures_and_every_picture_has_its_command(path):
    assert find_unmarked(path) == []


@pytest.mark.slow
@pytest.mark.parametrize("figure", CHEAP, ids=lambda figure: figure.name)
def test_the_command_makes_what_the_page_shows(figure):
    """To the digit. Samples and complexities do not depend on the machine; what a clock tells is left out."""
    assert check(figure, timeout=CHEAP_SECONDS) == []


def test_a_marker_names_the_command_and_what_is_not_compared(page):
    table, picture, kept = read_figures(page)
    assert table.command == "python -m benchmarks.some thing"
    assert (table.clock, table.dear) == (("to 1 %", "time"), "an hour")
    assert (picture.kind, picture.command, picture.dear) == ("picture", "python -m benchmarks.other", "")
    assert (kept.kind, kept.command) == ("kept", "measured once")
    assert [one.line for one in (table, picture, kept)] == [3, 11, 15]


def test_a_digit_that_differs_is_named_and_seconds_are_not(page):
    table = read_figures(page)[0]
    assert compare(table, PAGE, PRINTED) == ["`a`, samples: '243' on the page, '230' printed"]
    assert compare(table, PAGE, PRINTED.replace("230", "243")) == []
    assert compare(table, PAGE, PRINTED.replace("samples", "people"))
    assert compare(table, PAGE, PRINTED + "| `b` | 1 | 1 s | 1 s |\n")
    assert compare(table, PAGE, "nothing") == ["1 tables on the page, 0 printed"]


def test_a_table_made_anew_keeps_its_place_and_its_alignment(page):
    table = read_figures(page)[0]
    page.write_text(fill(PAGE, table, PRINTED), encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert text == PAGE.replace("| 243 | 2 s | 3 s |", "| 230 | 5 s | 6 s |")
    assert compare(read_figures(page)[0], text, PRINTED) == []
    assert fill(text, read_figures(page)[0], PRINTED) == text


def test_an_empty_body_is_filled(page):
    page.write_text("<!-- tables: python -m benchmarks.some thing -->\n\n<!-- /table -->\n", encoding="utf-8")
    (table,) = read_figures(page)
    filled = fill(page.read_text(encoding="utf-8"), table, PRINTED)
    assert filled == f"<!-- tables: python -m benchmarks.some thing -->\n\n{PRINTED.strip()}\n\n<!-- /table -->\n"


@pytest.mark.parametrize(
    "text",
    [
        "<!-- table: python -m benchmarks.some -->\n\n| a | b |\n",
        "<!-- table: python -m benchmarks.some; seconds: time -->\n\n<!-- /table -->\n",
        "<!-- table: python -m benchmarks.some -->\n\n<!-- kept: no -->\n\n<!-- /table -->\n<!-- /kept -->\n",
        "<!-- picture: python -m benchmarks.some -->\n\nno picture\n",
    ],
)
def test_a_marker_that_cannot_be_understood_is_refused_by_its_line(page, text):
    page.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"page.md:1: "):
        read_figures(page)


def test_figures_without_a_command_are_found(page):
    assert find_unmarked(page) == []
    page.write_text(PAGE.replace("<!-- picture: python -m benchmarks.other -->\n\n", ""), encoding="utf-8")
    assert find_unmarked(page) == ["page.md: the picture figures/a.png"]
    page.write_text("| m | τ | words |\n|---|---|---|\n| 8 | 6,445 | 3 |\n| 16 | 15,785 | x |\n", encoding="utf-8")
    assert find_unmarked(page) == ["page.md: the table of m | τ | words"]
    page.write_text("| m | words |\n|---|---|\n| 8 | many |\n\n```\n| 1 | 2 |\n```\n", encoding="utf-8")
    assert find_unmarked(page) == []

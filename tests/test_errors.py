"""Words that are safe to show wherever they come from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.errors import InputError, count_of, nearest, one_line, plain, visible, visible_lines

STRANGE = "a\x1b[2J\x07\r\x7f\x9b31m\u202eb\u200b\u2066\ufeff\ud800"


@pytest.mark.thorough
@given(st.text(st.characters()))
def test_nothing_invisible_is_left(text: str) -> None:
    assert one_line(text).isprintable()
    assert plain(text).isprintable()
    assert len(plain(text)) <= 80
    assert str(InputError(text)).isprintable()
    assert visible(text).replace("\n", "").isprintable()
    assert visible_lines(text).count("\n") == text.count("\n")


def test_what_can_be_seen_stays() -> None:
    for text in ("age ≤ 3", "naïve Ünïcode 漢字 😀", "[red]x[/red]", "a — b"):
        assert plain(text) == one_line(text) == visible(text) == text


def test_codes_are_replaced_one_by_one() -> None:
    assert visible(STRANGE) == "a?[2J????31m?b????"
    assert plain("one\ntwo\u2028three\x85four") == "one two three four"


def test_long_ones_are_cut() -> None:
    assert plain("x" * 1000) == "x" * 79 + "…"
    assert plain(10**5000) == "a int"
    message = str(InputError("the name " + "x" * 10**6 + " is bad; rename it"))
    assert len(message) == 500
    assert message.startswith("the name xx")
    assert message.endswith("is bad; rename it")
    assert len(nearest("b", [f"column {i}" for i in range(10**5)])) < 1000


@pytest.mark.parametrize("raised", [InputError("no"), InputError("a\nb")])
def test_an_error_is_one_line(raised: InputError) -> None:
    assert "\n" not in str(raised)


def test_one_is_not_many() -> None:
    assert [count_of(n, "row") for n in (0, 1, 2, 1000)] == ["0 rows", "1 row", "2 rows", "1,000 rows"]
    assert (count_of(2, "batch"), count_of(1, "batch"), count_of(2, "policy", "policies")) == (
        "2 batches",
        "1 batch",
        "2 policies",
    )

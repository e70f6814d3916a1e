"""Values out of JSON of strangers: each is what it should be, or a sentence names the field."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pacbandits.errors import InputError
from pacbandits.schema import Fields, described, json_text, parse_json, read_json

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    max_leaves=8,
)
READERS = ("whole_number", "number", "number_or_null", "flag", "text", "texts", "items", "numbers", "number_rows")


@pytest.mark.parametrize(
    ("read", "value", "words"),
    [
        ("whole_number", 3000.0003, "must be a whole number, got 3000.0003"),
        ("whole_number", 3.0, "must be a whole number, got 3.0"),
        ("whole_number", True, "must be a whole number, got true"),
        ("whole_number", -1, "must be a whole number of 0 or more, got -1"),
        ("whole_number", 10**400, "got a whole number of more than 20 digits"),
        ("number", "3", "must be a number, got the text '3'"),
        ("number", math.nan, "must be finite, got nan"),
        ("number", 10**400, "must be finite, got a whole number of more than 20 digits"),
        ("flag", 1, "must be true or false, got 1"),
        ("flag", "true", "must be true or false, got the text 'true'"),
        ("text", None, "must be text, got null"),
        ("text", "x" * 10_001, "must be text of at most 10,000 characters, got 10,001"),
        ("text", "\ud800", "holds half a character"),
        ("texts", ["a", 2], "entry 1 of the 'figure' of the file must be text, got 2"),
        ("numbers", [1, None], "entry 1 of the 'figure' of the file must be a number, got null"),
        ("number_rows", [[1], [1, 2]], "must have rows of one length"),
        ("whole_numbers", [0, 1.5], "entry 1 of the 'figure' of the file must be a whole number, got 1.5"),
        ("whole_number_rows", [[1], 2], "row 1 of the 'figure' of the file must be a list, got 2"),
        ("json_object", [], "must be an object, got a list of 0"),
    ],
)
def test_what_does_not_fit_is_named(read: str, value: object, words: str) -> None:
    with pytest.raises(InputError) as error:
        getattr(Fields({"figure": value}, "file"), read)("figure")
    assert "the 'figure' of the file" in str(error.value)
    assert words in str(error.value)


def test_what_fits_comes_back() -> None:
    fields = Fields.read({"n": 3, "x": 2, "none": None, "on": True, "rows": [[1, 2.5]], "words": ["é"]}, of="file")
    assert fields.whole_number("n", least=3, most=3) == 3
    assert fields.number("x") == 2.0
    assert fields.number_or_null("none") is None
    assert fields.flag("on") is True
    assert fields.number_rows("rows") == [(1.0, 2.5)]
    assert fields.texts("words") == ("é",)
    fields.check_known(("n", "x", "none", "on", "rows", "words"))


def test_limits_and_what_is_missing_or_unknown() -> None:
    fields = Fields({"n": 3, "list": [1, 2, 3], "word": "b"}, "file")
    with pytest.raises(InputError, match="between 4 and 5, got 3"):
        fields.whole_number("n", least=4, most=5)
    with pytest.raises(InputError, match="length between 0 and 2, got 3 entries"):
        fields.items("list", most=2)
    with pytest.raises(InputError, match="must be a or c, got the text 'b'"):
        fields.one_of("word", ("a", "c"))
    with pytest.raises(InputError, match="the file lacks 'm'"):
        fields.number("m")
    with pytest.raises(InputError, match="the file says 'word', which means nothing here"):
        fields.check_known(("n", "list"))
    with pytest.raises(InputError, match="the file must be an object, got null"):
        Fields.read(None, of="file")


@pytest.mark.thorough
@given(ANYTHING)
def test_whatever_is_given_there_is_a_value_or_a_sentence(value: object) -> None:
    assert described(value).isprintable()
    for read in READERS:
        with suppress(InputError):
            getattr(Fields({"figure": value}, "file"), read)("figure")


@pytest.mark.thorough
@given(st.dictionaries(st.text(), st.text() | st.floats(allow_nan=False, allow_infinity=False)))
def test_json_can_be_looked_at_and_comes_back(value: dict[str, object]) -> None:
    text = json_text(value, indent=1)
    assert text.replace("\n", "").isprintable()
    assert parse_json(text, name="it") == value == json.loads(text)


def test_what_cannot_be_seen_is_escaped_in_json() -> None:
    strange = "\x1b[2J\x7f\x9b\u202e\u200b\u2028\ud800 é😀\n"
    text = json_text({"remark": strange})
    assert text == '{"remark": "\\u001b[2J\\u007f\\u009b\\u202e\\u200b\\u2028\\ud800 é😀\\n"}'
    assert json.loads(text) == {"remark": strange}


def test_sizes_come_first(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text("[1, 2, 3]")
    assert read_json(path) == [1, 2, 3]
    with pytest.raises(InputError, match="more than 8 bytes"):
        read_json(path, max_bytes=8)
    with pytest.raises(InputError, match="more than 2 values"):
        read_json(path, max_values=2)
    with pytest.raises(InputError, match="not an ordinary file"):
        read_json(tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        read_json(tmp_path / "none.json")
    with pytest.raises(InputError, match="there can be no such file"):
        read_json("a\0b")
    with pytest.raises(InputError, match="not an ordinary file"):
        read_json("/dev/zero")

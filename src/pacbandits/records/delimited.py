"""Tables in text: values apart by commas or tabs, a row a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from pacbandits.errors import InputError, plain
from pacbandits.records.arrow import csv, pa
from pacbandits.records.files import (
    NUMBER_BYTES,
    ROW_BYTES,
    check_columns,
    check_file,
    check_unpacked,
    is_zipped,
    open_text,
)

DELIMITERS = {".csv": ",", ".tsv": "\t"}
MAX_HEADER_BYTES = 2**20
_MISTAKEN_SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'", ",": "commas"}
_BLOCK_BYTES = 2**22  # what pyarrow looks at together; no line may be longer


def read_delimited(path: Path, delimiter: str) -> Any:
    """The table of a file, in which line breaks, NUL bytes and what is not UTF-8 have no place within values."""
    table: Any = csv.read_csv(
        _source(path, delimiter),
        read_options=csv.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
    )
    _check_encoding(table)
    return table


def read_texts(path: Path, delimiter: str) -> Any:
    """The table of a file with every value as the text that stands there; line breaks may stand within quotes."""
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    blocks = csv.ReadOptions(block_size=_BLOCK_BYTES)
    with csv.open_csv(_source(path, delimiter), read_options=blocks, parse_options=parse) as opened:
        names: list[str] = opened.schema.names
    convert = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    return csv.read_csv(_source(path, delimiter), read_options=blocks, parse_options=parse, convert_options=convert)


def read_some(path: Path, delimiter: str, *, columns: Sequence[str], texts: Sequence[str]) -> Any:
    """The named columns of such a table, as `read_delimited` has them, but `texts` hold text whatever it spells."""
    table: Any = csv.read_csv(
        _source(path, delimiter),
        read_options=csv.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            include_columns=list(columns),
            column_types=dict.fromkeys(texts, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    _check_encoding(table)
    return table


def _source(path: Path, delimiter: str) -> Any:
    """What pyarrow reads: the file, or what it unpacks to; its first line can be the names of columns."""
    with open_text(path) as file:
        head = file.read(MAX_HEADER_BYTES)
        _check_header(path, head, delimiter)
        return _unpack(file, head, delimiter, size=check_file(path)) if is_zipped(path) else path


def _check_encoding(table: Any) -> None:
    for field in table.schema:
        if pa.types.is_binary(field.type):
            raise InputError(
                f"column '{plain(field.name)}' must be numbers or text, got bytes that are not UTF-8 (Latin-1?); save "
                "the file as UTF-8"
            )


def check_texts(name: str, texts: list[str]) -> None:
    """Raise when a text holds a line break, which a quote that is never closed brings into it with all that follows."""
    for text in texts:
        if "\n" in text or "\r" in text:
            raise InputError(
                f"column '{plain(name)}' has a line break within '{plain(text)}'; close the quote, or take it out"
            )
        if "\0" in text:
            raise InputError(f"column '{plain(name)}' has a NUL byte within '{plain(text)}'; the file is damaged")


def _check_header(path: Path, head: bytes, delimiter: str) -> None:
    """Raise when the first line, with the names of the columns, cannot be what it should."""
    line, *rest = re.split(rb"[\r\n]", head.lstrip(b"\r\n"), maxsplit=1)
    if len(line) >= MAX_HEADER_BYTES:
        raise InputError(f"{path} has a first line of {MAX_HEADER_BYTES:,} bytes or more; it should name the columns")
    if b"\0" in line:
        raise InputError(f"{path} is not text in UTF-8: there are NUL bytes in its first line (UTF-16?)")
    try:
        names = re.sub(r'"[^"]*"', "", line.decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{path} is not in UTF-8, perhaps in Latin-1; save it as UTF-8") from None
    found = [words for other, words in _MISTAKEN_SEPARATORS.items() if other in names]
    if delimiter not in names and found:
        raise InputError(f"{path} seems to be separated by {found[0]}; use commas (or tabs in .tsv)")
    check_columns(names.count(delimiter) + 1)
    if line and not b"".join(rest).strip(b"\r\n"):
        raise InputError(f"{path} has no rows")


def _unpack(file: BinaryIO, head: bytes, delimiter: str, *, size: int) -> Any:
    """What begins with `head` and goes on in a compressed file, if it is not more than the file's size allows."""
    text, cells, rows = bytearray(), 0, 0
    while head:
        text += head
        ends = head.count(b"\n") + head.count(b"\r")
        cells, rows = cells + ends + head.count(delimiter.encode()), rows + ends
        unpacked = max(len(text), NUMBER_BYTES * cells, ROW_BYTES * rows)
        check_unpacked(unpacked, size=size, remedy="unpack it, and read that")
        head = file.read(_BLOCK_BYTES)
    return pa.BufferReader(pa.py_buffer(text))

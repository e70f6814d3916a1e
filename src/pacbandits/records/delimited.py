"""Tables in text: values apart by commas, tabs or semicolons, a row a line.

Where they are not apart by commas, a comma may stand in numbers: 0,5 is a half if all of its column can be read so, and
no other column has decimal points.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from pacbandits.errors import InputError, count_of, plain
from pacbandits.records.arrow import csv, is_plain_text, pa, pc
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
_ALSO_READ = (";", "\t")  # in the place of commas, where the first line has no comma
_CELL_WITH_DECIMAL_COMMA = re.compile(rb"[\t\n\r] *[+-]?[0-9]+,[0-9]+(?= *[\t\n\r])")
_WITH_DECIMAL_COMMA = r"^\s*[+-]?[0-9]+(,[0-9]+)?([eE][+-]?[0-9]+)?\s*$"
_UNEVEN = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+): ?(.*)")  # as pyarrow says it
_BLOCK_BYTES = 2**22  # what pyarrow looks at together; no line may be longer


def read_delimited(path: Path, delimiter: str) -> Any:
    """The table of a file, in which line breaks, NUL bytes and what is not UTF-8 have no place within values.

    delimiter: what the name of the file promises; of a comma, the first line may know better.
    """
    source, delimiter = _source(path, delimiter)
    parse = csv.ParseOptions(delimiter=delimiter)
    convert = csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    try:
        blocks = csv.ReadOptions(block_size=_BLOCK_BYTES)
        table: Any = csv.read_csv(source, read_options=blocks, parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid as error:
        if _UNEVEN.search(str(error)) is None:
            raise
        line_by_line = csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)  # which counts them
        try:
            csv.read_csv(_source(path, delimiter)[0], read_options=line_by_line, parse_options=parse)
        except pa.ArrowInvalid as counted:
            _refuse_uneven(path, str(counted))
        raise
    _check_encoding(table)
    return table if delimiter == "," else _with_decimal_commas(table)


@contextmanager
def open_delimited(
    path: Path, delimiter: str, *, kinds: Mapping[str, Any], columns: Sequence[str] | None = None
) -> Generator[tuple[Any, str]]:
    """The rows of a file, some at a time, as `read_delimited` has them but for types of columns; and what parts values.

    kinds: the types of columns; of those that are not told, that of the first rows. columns: those to read, if not all.
    """
    with open_text(path) as file:
        apart = _check_header(path, file.read(MAX_HEADER_BYTES), delimiter)
    source: Any = pa.input_stream(str(path), compression="gzip" if is_zipped(path) else None)
    try:
        yield (
            csv.open_csv(
                source,
                read_options=csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
                parse_options=csv.ParseOptions(delimiter=apart),
                convert_options=csv.ConvertOptions(
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    column_types=dict(kinds),
                    include_columns=None if columns is None else list(columns),
                ),
            ),
            apart,
        )
    except pa.ArrowInvalid as error:
        _refuse_uneven(path, str(error))
        raise
    finally:
        source.close()


def decimal_comma(column: Any) -> bool:
    """Whether all text in a column spells numbers, with decimal commas or without."""
    return bool(pc.all(pc.match_substring_regex(column, _WITH_DECIMAL_COMMA)).as_py())


def _refuse_uneven(path: Path, words: str) -> None:
    """Raise the sentence for a line with more or fewer values than there are columns."""
    found = _UNEVEN.search(words)
    if found is None:
        return
    row, columns, values, text = found.groups()
    where = "a line" if row is None else f"line {line_of(path, int(row) - 2)}"
    hint = " a quote in it is never closed;" if text.count('"') % 2 else ""
    raise InputError(
        f"{where} has {count_of(int(values), 'value')}, and the first line names {count_of(int(columns), 'column')}:"
        f" '{plain(text)}';{hint} correct it, or leave it out"
    )


def line_of(path: Path, row: int) -> int:
    """The line of a file on which a row stands, given from 0 after the names of columns; empty lines are no rows."""
    seen = -2  # the names of columns are the row before the first
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            seen += bool(line.strip(b"\r\n"))
            if seen == row:
                return number
    return row + 2  # of a file whose lines end otherwise


def read_texts(path: Path, delimiter: str) -> Any:
    """The table of a file with every value as the text that stands there; line breaks may stand within quotes."""
    source, delimiter = _source(path, delimiter)
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    blocks = csv.ReadOptions(block_size=_BLOCK_BYTES)
    with csv.open_csv(source, read_options=blocks, parse_options=parse) as opened:
        names: list[str] = opened.schema.names
    convert = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    source, _ = _source(path, delimiter)
    return csv.read_csv(source, read_options=blocks, parse_options=parse, convert_options=convert)


def read_some(path: Path, delimiter: str, *, columns: Sequence[str], texts: Sequence[str]) -> Any:
    """The named columns of such a table, as `read_delimited` has them, but `texts` hold text whatever it spells."""
    table, delimiter = _read_some(path, delimiter, columns=columns, texts=texts)
    return table if delimiter == "," else _with_decimal_commas(table)


def read_as_text(path: Path, delimiter: str, name: str) -> Any:
    """A column of such a table as the text that stands there."""
    return _read_some(path, delimiter, columns=[name], texts=[name])[0].column(0).combine_chunks()


def _read_some(path: Path, delimiter: str, *, columns: Sequence[str], texts: Sequence[str]) -> tuple[Any, str]:
    """Columns of a table, and what its values are apart by."""
    source, delimiter = _source(path, delimiter)
    table: Any = csv.read_csv(
        source,
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
    return table, delimiter


def _source(path: Path, delimiter: str) -> tuple[Any, str]:
    """What pyarrow reads: the file, or what it unpacks to; and what its values are apart by."""
    with open_text(path) as file:
        head = file.read(MAX_HEADER_BYTES)
        delimiter = _check_header(path, head, delimiter)
        source = _unpack(file, head, delimiter, size=check_file(path)) if is_zipped(path) else path
    return source, delimiter


def _check_encoding(table: Any) -> None:
    for field in table.schema:
        if pa.types.is_binary(field.type):
            raise InputError(
                f"column '{plain(field.name)}' must be numbers or text, got bytes that are not UTF-8 (Latin-1?); save "
                "the file as UTF-8"
            )


def remarks_on_delimited(path: Path, delimiter: str) -> tuple[str, ...]:
    """What there is to say of how a file that could be read was."""
    with open_text(path) as file:
        head = file.read(MAX_HEADER_BYTES)
        found = _check_header(path, head, delimiter)
    apart = f"values are apart by {_MISTAKEN_SEPARATORS[found]}, as the first line has no commas"
    decimal = "a comma within numbers is a decimal comma (0,5 is a half), unless others have decimal points"
    if found == delimiter:
        return (decimal,) if found != "," and _CELL_WITH_DECIMAL_COMMA.search(head) else ()
    return (f"{apart}; {decimal}",)


def _with_decimal_commas(table: Any) -> Any:
    """The table with text as numbers where it spells such with decimal commas, and nothing has decimal points."""
    if any(pa.types.is_floating(field.type) for field in table.schema):
        return table
    for j, field in enumerate(table.schema):
        column: Any = table.column(j)
        if not is_plain_text(field.type) or column.null_count == len(column):
            continue
        if decimal_comma(column):
            pointed = pc.replace_substring(pc.utf8_trim_whitespace(column), pattern=",", replacement=".")
            table = table.set_column(j, field.name, pointed.cast(pa.float64()))
    return table


def check_texts(name: str, texts: list[str]) -> None:
    """Raise when a text holds a line break, which a quote that is never closed brings into it with all that follows."""
    for text in texts:
        if "\n" in text or "\r" in text:
            raise InputError(
                f"column '{plain(name)}' has a line break within '{plain(text)}'; close the quote, or take it out"
            )
        if "\0" in text:
            raise InputError(f"column '{plain(name)}' has a NUL byte within '{plain(text)}'; the file is damaged")


def _check_header(path: Path, head: bytes, delimiter: str) -> str:
    """What parts the names of the columns in the first line; raise when that cannot be what it should."""
    line, *rest = re.split(rb"[\r\n]", head.lstrip(b"\r\n"), maxsplit=1)
    if not head.strip():
        raise InputError(f"{path} is empty; its first line should name the columns, and each line below be a row")
    if len(line) >= MAX_HEADER_BYTES:
        raise InputError(f"{path} has a first line of {MAX_HEADER_BYTES:,} bytes or more; it should name the columns")
    if b"\0" in line:
        raise InputError(f"{path} is not text in UTF-8: there are NUL bytes in its first line (UTF-16?)")
    try:
        names = re.sub(r'"[^"]*"', "", line.decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{path} is not in UTF-8, perhaps in Latin-1; save it as UTF-8") from None
    found = [words for other, words in _MISTAKEN_SEPARATORS.items() if other in names]
    if delimiter == "," and "," not in names:
        delimiter = max(_ALSO_READ, key=names.count) if any(map(names.count, _ALSO_READ)) else ","
    if delimiter not in names and found:
        raise InputError(f"{path} seems to be separated by {found[0]}; use commas (or tabs in .tsv)")
    check_columns(names.count(delimiter) + 1)
    if line and not b"".join(rest).strip(b"\r\n"):
        raise InputError(f"{path} has no rows below the names of its columns; is it the whole file?")
    return delimiter


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

"""Tables in text files (CSV and relatives), and the limits for files from untrusted sources."""

from __future__ import annotations

import gzip
import re
import stat
import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from pacbandits.errors import InputError, count_of, plain, visible
from pacbandits.records.columns import csv, is_plain_text, pa, pc

# Limits for files from untrusted sources: which are opened, and how much they may unpack to.
#
# The memory for reading is proportional to the size of a file: a compressed one may unpack to `MAX_UNPACKED_RATIO`
# times its size plus `UNPACKED_ALLOWANCE_BYTES`, where every number counts as `NUMBER_BYTES`, and every row as at least
# `ROW_BYTES`. Larger data must be stored without compression.


MAX_UNPACKED_RATIO = 16
UNPACKED_ALLOWANCE_BYTES = 2**27
MAX_TOML_BYTES = 2**20
MAX_COLUMNS = 10_000  # of a table, or features of a log
NUMBER_BYTES = 8  # the memory of a number
ROW_BYTES = 64  # the minimum memory of a row

_UTF8_MARK = b"\xef\xbb\xbf"
_MARKS_OF_OTHERS = (  # longer ones first: UTF-32's begins with UTF-16's
    (b"\xff\xfe\x00\x00", "in UTF-32; save it as UTF-8"),
    (b"\x00\x00\xfe\xff", "in UTF-32; save it as UTF-8"),
    (b"\xff\xfe", "in UTF-16; save it as UTF-8"),
    (b"\xfe\xff", "in UTF-16; save it as UTF-8"),
    (b"\x1f\x8b", "compressed by gzip; let its name end in .gz"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"PAR1", "a Parquet file; let its name end in .parquet"),
)


def check_file(path: Path) -> int:
    """Return the size in bytes of a regular file; raise InputError for folders, pipes and devices."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a path with a null character
        raise InputError(f"no file at {path}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {why(error)}") from None
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"no file at {path}; it is a folder, a pipe or a device: name a file")
    return found.st_size


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Prefix the messages of errors raised within with the path, if they do not name it."""
    try:
        yield
    except InputError as error:
        raise error if visible(str(path)) in str(error) else InputError(f"{path}: {error}") from None
    except MemoryError:
        raise InputError(f"{path} does not fit into memory") from None


def why(error: BaseException) -> str:
    """Return the first line of an error's message."""
    words = str(getattr(error, "strerror", None) or error).strip()
    return plain(words.splitlines()[0]) if words else type(error).__name__


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file of at most MAX_TOML_BYTES."""
    try:
        if path.stat().st_size > MAX_TOML_BYTES:
            raise InputError(f"is too large: more than {MAX_TOML_BYTES:,} bytes")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError("is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not TOML: {error}") from None


def max_unpacked_bytes(size: int) -> int:
    """Return how many bytes a file of that size may unpack to."""
    return MAX_UNPACKED_RATIO * size + UNPACKED_ALLOWANCE_BYTES


def check_unpacked(unpacked: int, *, size: int, remedy: str) -> None:
    """Raise InputError if a file of that size would unpack to more than the limit."""
    most = max_unpacked_bytes(size)
    if unpacked > most:
        raise InputError(
            f"it would unpack from {spell_bytes(size)} to {spell_bytes(unpacked)} or more, and at most "
            f"{spell_bytes(most)} are read from a file of that size; {remedy}"
        )


def check_columns(count: int) -> None:
    """Raise InputError if a table has too many columns."""
    if count > MAX_COLUMNS:
        raise InputError(f"there are {count:,} columns, and at most {MAX_COLUMNS:,} can be read; leave some out")


def spell_bytes(count: int) -> str:
    """Return a number of bytes with a unit."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"


@contextmanager
def open_text(path: Path) -> Generator[BinaryIO]:
    """Open a UTF-8 text file for reading bytes, decompressed if its name ends in .gz, after any byte order mark.

    Raises:
        InputError: If it is in another encoding that can be recognised, or compressed under another name.
        OSError, EOFError, zlib.error: While it is read.
    """
    check_file(path)
    with gzip.open(path, "rb") if is_zipped(path) else path.open("rb") as file:
        head = file.read(4)
        for mark, words in _MARKS_OF_OTHERS:
            if head.startswith(mark):
                raise InputError(f"{path} is {words}")
        file.seek(len(_UTF8_MARK) if head.startswith(_UTF8_MARK) else 0)
        yield cast(BinaryIO, file)


def is_zipped(path: Path) -> bool:
    """Return whether a file's name ends in .gz."""
    return path.name.lower().endswith(".gz")


# Tables in text, delimited by commas, tabs or semicolons. Unless the delimiter is a comma, commas may be decimal
# commas: 0,5 is a half if its whole column can be read so and no column has decimal points.


DELIMITERS = {".csv": ",", ".tsv": "\t"}
MAX_HEADER_BYTES = 2**20
_MISTAKEN_SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'", ",": "commas"}
_ALSO_READ = (";", "\t")  # instead of commas, if the first line has none
_CELL_WITH_DECIMAL_COMMA = re.compile(rb"[\t\n\r] *[+-]?[0-9]+,[0-9]+(?= *[\t\n\r])")
_WITH_DECIMAL_COMMA = r"^\s*[+-]?[0-9]+(,[0-9]+)?([eE][+-]?[0-9]+)?\s*$"
_UNEVEN = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+): ?(.*)")  # the message of pyarrow
_BLOCK_BYTES = 2**22  # read at once by pyarrow; no line may be longer


def read_delimited(path: Path, delimiter: str) -> Any:
    """Return the table of a file, whose values must be UTF-8 without line breaks or NUL bytes.

    delimiter: that of the file's suffix; a comma gives way to the one in the first line.
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
        line_by_line = csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)  # reports line numbers
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
    """Yield a reader of a file's rows in batches, as in `read_delimited` but for column types, and the delimiter.

    kinds: the types of columns; others are inferred from the first rows.
    columns: the columns to read, if not all.
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
    """Return whether all text in a column spells numbers, with or without decimal commas."""
    return bool(pc.all(pc.match_substring_regex(column, _WITH_DECIMAL_COMMA)).as_py())


def _refuse_uneven(path: Path, words: str) -> None:
    """Raise InputError for a line with more or fewer values than there are columns."""
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
    """Return the line of a row, given from 0 after the header; empty lines are not rows."""
    seen = -2  # the header is row -1
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            seen += bool(line.strip(b"\r\n"))
            if seen == row:
                return number
    return row + 2  # for a file with other line ends


def read_texts(path: Path, delimiter: str) -> Any:
    """Return the table of a file with every value as text; line breaks may be quoted."""
    source, delimiter = _source(path, delimiter)
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    blocks = csv.ReadOptions(block_size=_BLOCK_BYTES)
    with csv.open_csv(source, read_options=blocks, parse_options=parse) as opened:
        names: list[str] = opened.schema.names
    convert = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    source, _ = _source(path, delimiter)
    return csv.read_csv(source, read_options=blocks, parse_options=parse, convert_options=convert)


def read_some(path: Path, delimiter: str, *, columns: Sequence[str], texts: Sequence[str]) -> Any:
    """Return the named columns, as `read_delimited` does, but those in `texts` always as text."""
    table, delimiter = _read_some(path, delimiter, columns=columns, texts=texts)
    return table if delimiter == "," else _with_decimal_commas(table)


def read_as_text(path: Path, delimiter: str, name: str) -> Any:
    """Return a column as text."""
    return _read_some(path, delimiter, columns=[name], texts=[name])[0].column(0).combine_chunks()


def _read_some(path: Path, delimiter: str, *, columns: Sequence[str], texts: Sequence[str]) -> tuple[Any, str]:
    """Return columns of a table, and its delimiter."""
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
    """Return the input for pyarrow, the file or its decompressed content, and the delimiter."""
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
    """Return remarks on how a readable file was read: its delimiter and decimal commas."""
    with open_text(path) as file:
        head = file.read(MAX_HEADER_BYTES)
        found = _check_header(path, head, delimiter)
    apart = f"values are apart by {_MISTAKEN_SEPARATORS[found]}, as the first line has no commas"
    decimal = "a comma within numbers is a decimal comma (0,5 is a half), unless others have decimal points"
    if found == delimiter:
        return (decimal,) if found != "," and _CELL_WITH_DECIMAL_COMMA.search(head) else ()
    return (f"{apart}; {decimal}",)


def _with_decimal_commas(table: Any) -> Any:
    """Return the table with text converted to numbers if it uses decimal commas and no column has decimal points."""
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
    """Raise InputError if a text contains a line break (from an unclosed quote) or a NUL byte."""
    for text in texts:
        if "\n" in text or "\r" in text:
            raise InputError(
                f"column '{plain(name)}' has a line break within '{plain(text)}'; close the quote, or take it out"
            )
        if "\0" in text:
            raise InputError(f"column '{plain(name)}' has a NUL byte within '{plain(text)}'; the file is damaged")


def _check_header(path: Path, head: bytes, delimiter: str) -> str:
    """Return the delimiter of the first line; raise InputError if it cannot be the expected one."""
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
    """Return the text that starts with `head` and continues in a compressed file, within the size limit."""
    text, cells, rows = bytearray(), 0, 0
    while head:
        text += head
        ends = head.count(b"\n") + head.count(b"\r")
        cells, rows = cells + ends + head.count(delimiter.encode()), rows + ends
        unpacked = max(len(text), NUMBER_BYTES * cells, ROW_BYTES * rows)
        check_unpacked(unpacked, size=size, remedy="unpack it, and read that")
        head = file.read(_BLOCK_BYTES)
    return pa.BufferReader(pa.py_buffer(text))

"""Tables of units for a policy to act on: read for its features, and written back with its actions.

Columns that the policy does not use may hold anything, and are neither converted nor changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.errors import InputError, nearest, plain
from pacbandits.logs.readers import arrow_table
from pacbandits.logs.reading_options import as_dates
from pacbandits.records import parquet
from pacbandits.records.column_types import (
    DatePart,
    age_feature,
    date_features,
    date_parts,
    dates_in_text,
    numbers_in,
)
from pacbandits.records.columns import Columns, is_number, is_plain_text, is_temporal, is_text, pa, pc, pq
from pacbandits.records.contexts import ID_COLUMN, PHI_COLUMN, Contexts
from pacbandits.records.text_files import (
    DELIMITERS,
    check_columns,
    check_texts,
    is_zipped,
    open_text,
    read_some,
    read_texts,
    why,
)

PARQUET_ENDINGS = (".parquet", ".pq", ".parq")
_LINES_WRITTEN_AT_ONCE = 100_000
_BYTES_COUNTED_AT_ONCE = 2**22
_QUOTED = r'["\r\n]'  # must be quoted, as must the delimiter


@dataclass(frozen=True, eq=False)
class Customers:
    """A table of contexts to act on.

    whole: a pyarrow table of all original columns; those of text files are text.
    asked: the columns in use, numbers as numbers.
    contexts: the contexts of these columns.
    """

    whole: Any
    asked: Columns
    contexts: Contexts

    def __len__(self) -> int:
        return len(self.contexts)

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return self.whole.column_names


@dataclass(frozen=True)
class CustomerFeatures:
    """The columns to read from a table.

    numbers: the features that must be numbers.
    labels: the features that must be labels.
    ids: whether `context_id` is needed.
    phi: whether `phi` is needed.
    dates: columns of dates and times, from which features are computed if the table has them.
    """

    numbers: Sequence[str] = ()
    labels: Sequence[str] = ()
    ids: bool = False
    phi: bool = False
    dates: Sequence[str] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """All features."""
        return (*self.numbers, *self.labels)

    def made_in(self, names: Sequence[str]) -> dict[str, DatePart]:
        """Return the features that are computed from dates in a table with these columns."""
        known = date_parts(self.features, self.dates)
        return {feature: part for feature, part in known.items() if part.column in names or feature not in names}


def read_customers(path: Path, asked: CustomerFeatures) -> Customers:
    """Return a table in Parquet or CSV, with contexts from the columns in use."""
    with parquet.reading(path) as delimiter:
        if delimiter is None:
            return _customers(parquet.read_whole(path), asked)
        whole = read_texts(path, delimiter)
        made = asked.made_in(whole.column_names)
        columns = _check_asked(whole, asked, made)
        _check_quotes(path, whole)
        texts = [name for name in asked.labels if name not in made]
        some = read_some(path, delimiter, columns=columns, texts=texts) if columns else whole
        return _customers(whole, asked, some=some)


def customers_of(frame: object, asked: CustomerFeatures) -> Customers:
    """Return the same for a data frame of any library that exports Arrow streams."""
    return _customers(arrow_table(frame), asked)


def _customers(whole: Any, asked: CustomerFeatures, *, some: Any | None = None) -> Customers:
    """Return a table with contexts; some: the columns in use of a text file, converted to their types.

    Without it, the columns of the table itself are used.
    """
    made = asked.made_in(whole.column_names)
    needed = _check_asked(whole, asked, made)
    columns: Columns = {name: _column(whole if some is None else some, name) for name in needed}
    for name in [*(one for one in asked.numbers if one not in made), *([ID_COLUMN] if asked.ids else [])]:
        columns[name] = _as_numbers(columns[name])
        _check_numbers(columns[name], name, texts=None if some is None else _column(whole, name))
    for name in [one for one in asked.labels if one not in made]:
        _check_labels(columns[name], name)
        if some is not None:
            check_texts(name, columns[name].dictionary.to_pylist())
    used = {name: part.part == "age" for part in made.values() for name in part.columns}
    for name, days in used.items():
        columns[name] = as_dates(columns[name], name) if days else _dates(columns[name], name)
    features = {name: column for name, column in columns.items() if name not in used or name in asked.features}
    for feature, part in made.items():
        if part.part == "age":
            features[feature] = age_feature(part, columns)
            continue
        found = date_features(part.column, columns[part.column])
        if feature not in found:
            kind = plain(columns[part.column].type)
            raise InputError(
                f"column '{plain(part.column)}' holds times of day ({kind}), but the policy uses its {part.part}; "
                "include dates"
            )
        features[feature] = found[feature]
    contexts = Contexts.from_columns(features, n=whole.num_rows)
    return Customers(whole, columns, contexts)


def _as_numbers(column: Any) -> Any:
    """Return a text column of formatted numbers as numbers; other columns unchanged."""
    if not is_text(column.type):
        return column
    labels: list[str | None] = column.dictionary.to_pylist()
    found = numbers_in([label for label in labels if label is not None]) if None not in labels else None
    return column if found is None else pa.array(found.values).take(column.indices)


def _dates(column: Any, name: str) -> Any:
    """Return a column as dates or times, some of them missing; raise InputError if it holds anything else."""
    if is_temporal(column.type) or pa.types.is_null(column.type):
        return column
    remedy = "write it as 2024-01-31 or 2024-01-31 13:30:00"
    if not is_text(column.type):
        raise InputError(f"column '{plain(name)}' must hold dates, got {plain(column.type)}; {remedy}")
    found = dates_in_text(column)
    if found is not None:
        return found
    words: list[str | None] = column.cast(pa.string()).to_pylist()
    row = next((i for i, word in enumerate(words) if word is not None and not _spells_date(word)), 0)
    raise InputError(
        f"column '{plain(name)}' holds '{plain(words[row])}' in row {row + 1:,} below the names, which is not a "
        f"date in the same format as the others; {remedy}"
    )


def _spells_date(word: str) -> bool:
    return dates_in_text(pa.array([word]).dictionary_encode()) is not None


def _check_asked(whole: Any, asked: CustomerFeatures, made: Mapping[str, DatePart]) -> list[str]:
    """Return the columns to read; raise InputError if one is missing."""
    names: list[str] = whole.column_names
    check_columns(len(names))
    if whole.num_rows == 0:
        raise InputError("there are no rows")
    own = [*([ID_COLUMN] if asked.ids else []), *([PHI_COLUMN] if asked.phi else [])]
    wanted = [*asked.features, *own]
    needed = list(dict.fromkeys(one for name in wanted for one in (made[name].columns if name in made else (name,))))
    for name in needed:
        if name not in names:
            what = "which the policy uses"
            if any(part.time == name for part in made.values()):
                what = "the time of each decision, before which the policy counts days"
            raise InputError(f"column '{plain(name)}', {what}, is missing{nearest(name, names)}")
        if names.count(name) > 1:
            raise InputError(f"there are two columns '{plain(name)}', which the policy uses; leave one out")
    return needed


def _check_quotes(path: Path, whole: Any) -> None:
    """Raise InputError if an unclosed quote may have merged rows into one value."""
    if not any(pc.any(pc.match_substring(column, "\n")).as_py() for column in whole.columns):
        return
    quotes = 0
    with open_text(path) as file:
        while block := file.read(_BYTES_COUNTED_AT_ONCE):
            quotes += block.count(b'"')
    if quotes % 2:
        raise InputError("a quote is not closed, so a value extends over several lines; close it, or remove it")


def _column(table: Any, name: str) -> Any:
    """Return a column as one array; text as codes into its labels."""
    column: Any = table.column(name).combine_chunks()
    column.validate(full=True)
    return parquet.sort_labels(column) if is_plain_text(column.type) else column


def _check_numbers(column: Any, name: str, *, texts: Any | None) -> None:
    """Raise InputError unless all are finite numbers. texts: the original text, in a text file."""
    if not is_number(column.type) and column.null_count < len(column):
        if texts is None:
            raise InputError(f"column '{plain(name)}' must hold numbers, got {plain(column.type)}; convert it")
        words: list[str] = texts.cast(pa.string()).to_pylist()
        row = next((i for i, word in enumerate(words) if not _spells_number(word)), 0)
        _refuse(name, row, f"holds '{plain(words[row])}', but must be a number", "correct it, or leave the row out")
    numbers = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    strange = np.isinf(numbers) if name != ID_COLUMN else ~np.isfinite(numbers)
    if strange.any():
        _refuse(name, int(strange.argmax()), "holds no finite number", "fill it in, or leave the row out")


def _check_labels(column: Any, name: str) -> None:
    if not is_text(column.type) and column.null_count < len(column):
        raise InputError(f"column '{plain(name)}' must hold labels, got {plain(column.type)}; convert it to text")


def _refuse(name: str, row: int, words: str, remedy: str) -> None:
    raise InputError(f"column '{plain(name)}' {words} in row {row + 1:,} below the names; {remedy}")


def _spells_number(word: str) -> bool:
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False


def check_ending(path: Path) -> None:
    """Raise InputError unless `write_customers` supports the file's suffix."""
    if is_zipped(path) or path.suffix.lower() not in (*DELIMITERS, *PARQUET_ENDINGS):
        raise InputError(f"'{path}' must end in .csv, .tsv or .parquet")


def write_customers(path: Path, customers: Customers, added: Mapping[str, object]) -> None:
    """Write all original columns, then the added ones (numpy or pyarrow arrays), in the format of the file's suffix."""
    more = {name: pa.array(values) if isinstance(values, np.ndarray) else values for name, values in added.items()}
    delimiter = DELIMITERS.get(path.suffix.lower())
    try:
        if delimiter is None:
            _write_parquet(path, customers, more)
        else:
            arrays = [*customers.whole.columns, *more.values()]
            _write_text(path, [*customers.names, *more], arrays, delimiter)
    except (pa.ArrowException, OSError) as error:
        path.unlink(missing_ok=True)  # half a table could be mistaken for a whole one
        raise InputError(f"cannot write {path}: {why(error)}") from None


def _write_parquet(path: Path, customers: Customers, more: Mapping[str, Any]) -> None:
    """Write Parquet; columns in use have the type they were read as, others of text files are text."""
    whole: Any = customers.whole
    arrays: list[Any] = [
        customers.asked[name] if is_plain_text(kept.type) and name in customers.asked else kept
        for name, kept in zip(customers.names, whole.columns, strict=True)
    ]
    table: Any = pa.Table.from_arrays([*arrays, *more.values()], names=[*customers.names, *more])
    pq.write_table(table, path)


def _write_text(path: Path, names: list[str], arrays: list[Any], delimiter: str) -> None:
    texts = [_as_text(array, name) for name, array in zip(names, arrays, strict=True)]
    heads = [pa.array([name], type=pa.string()) for name in names]
    with path.open("wb") as file:
        file.write(_lines(heads, delimiter))
        for start in range(0, len(texts[-1]), _LINES_WRITTEN_AT_ONCE):
            file.write(_lines([one.slice(start, _LINES_WRITTEN_AT_ONCE) for one in texts], delimiter))


def _as_text(array: Any, name: str) -> Any:
    """Return a column as text; missing values are empty."""
    try:
        return pc.fill_null(array.cast(pa.string()), "")
    except pa.ArrowException:
        words = f"column '{plain(name)}' of {plain(array.type)} cannot be written as text"
        raise InputError(f"{words}; use a file name that ends in .parquet") from None


def _lines(columns: list[Any], delimiter: str) -> bytes:
    """Return text columns as lines of a file, quoted if necessary."""
    cells: list[Any] = []
    for column in columns:
        whole: Any = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        special: Any = pc.match_substring_regex(whole, f"{_QUOTED}|{delimiter}")
        if pc.any(special).as_py():
            inner: Any = pc.replace_substring(whole, '"', '""')
            whole = pc.if_else(special, pc.binary_join_element_wise('"', inner, '"', ""), whole)
        cells.append(whole)
    lines: list[str] = pc.binary_join_element_wise(*cells, delimiter).to_pylist()
    return ("\n".join(lines) + "\n").encode()

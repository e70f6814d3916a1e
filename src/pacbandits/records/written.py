"""Numbers as people write them: 1,200.50 and 1.200,50, 4 %, $12; read where a whole column leaves no doubt of them.

A column of text is one of numbers if all of it is written in one way, and at least one value is not just digits and a
point. Where two ways fit and differ, as for 1,200 (twelve hundred, or a bit more than one), it stays text, and that is
said.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.errors import plain
from pacbandits.records.arrow import Columns, is_text, pa
from pacbandits.records.columns import CellNames

MAX_WRITTEN_CHARACTERS = 40
MAX_COMPARED_LABELS = 10_000  # of a column, beyond which nothing is said of those that hardly differ
_CELL = re.compile(r"([-+−]?)\s?([$€£¥]?)\s?([-+−]?)([0-9][0-9.,'’ \u00a0\u202f]*|[.,][0-9]+)\s?([$€£¥%]?)")
_GROUPING = "'’ \u00a0\u202f"
_PLAIN = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")
# How groups of three digits and what is less than one stand apart, after the words for it.
_WAYS = {
    "1,234.5": re.compile(r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)(?:\.[0-9]+)?"),
    "1.234,5": re.compile(r"(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]*)(?:,[0-9]+)?"),
    "1 234.5": re.compile(r"(?:[0-9]{1,3}(?:['’ \u00a0\u202f][0-9]{3})+|[0-9]*)(?:\.[0-9]+)?"),
    "1 234,5": re.compile(r"(?:[0-9]{1,3}(?:['’ \u00a0\u202f][0-9]{3})+|[0-9]*)(?:,[0-9]+)?"),
}
# What makes a number with a decimal point of it, by what stands for that.
_POINTED = {
    ".": str.maketrans(dict.fromkeys(_GROUPING + ",", "")),
    ",": str.maketrans(dict.fromkeys(_GROUPING + ".", "") | {",": "."}),
}
_WITH_UNIT = re.compile(r"[-+−]?[0-9][0-9.,]* ?([^\W\d_]{1,8})")
_PERCENT = "%"


class Written(NamedTuple):
    """What labels spell.

    values (k,): the numbers.
    words: how they are written.
    """

    values: FloatArray
    words: str


def numbers_in(labels: Sequence[str]) -> Written | None:
    """The numbers that all labels spell in one way, which is not just digits and a point; None where that is open."""
    cells: list[re.Match[str]] = []
    for label in labels:
        found = _cell(label)
        if found is None:
            return None
        cells.append(found)
    if not cells:
        return None
    marks = {mark for one in cells for mark in (one[2], one[5]) if mark}
    percents = sum(one[5] == _PERCENT for one in cells)
    twice = any((one[1] and one[3]) or (one[2] and one[5]) for one in cells)
    if twice or len(marks) > 1 or percents not in (0, len(cells)):
        return None
    digits = [one[4].strip() for one in cells]
    plain_digits = all(_PLAIN.fullmatch(one) for one in digits)
    if not marks and plain_digits:
        return None
    signs = np.array([-1.0 if (one[1] or one[3]) in ("-", "−") else 1.0 for one in cells])
    readings = {
        way: np.array([float(one.translate(_POINTED[way[-2]])) for one in digits])
        for way, form in _WAYS.items()
        if all(form.fullmatch(one) for one in digits)
    }
    if not readings or any((one != next(iter(readings.values()))).any() for one in readings.values()):
        return None
    way, values = next(iter(readings.items()))
    words = "" if plain_digits else f"as in {way}"
    if percents:
        words = f"{words and f'{words}, '}4 % for 0.04"
        values = values / 100.0
    elif marks:
        words = f"{words and f'{words}, '}with {next(iter(marks))} left out"
    return Written(signs * values, words)


def read_written(
    columns: Columns, *, but: Collection[str] = (), coded: Collection[str] = (), cells: CellNames
) -> tuple[str, ...]:
    """Make numbers of the columns of text that spell such, and say so; and of those that may be numbers, or nearly are.

    but: columns that stay as they are. coded: columns of text that their author has made categories. cells: where their
    rows stand.
    """
    remarks: list[str] = []
    for name in [name for name in columns if name not in but and name not in coded and is_text(columns[name].type)]:
        column: Any = columns[name]
        given: list[str | None] = column.dictionary.to_pylist()
        labels = [label for label in given if label is not None]
        if len(labels) < len(given):
            continue
        made = numbers_in(labels)
        if made is not None:
            columns[name] = pa.array(made.values).take(column.indices)
            remarks.append(f"{cells.column(name)} holds numbers that are written {made.words}")
        elif words := _why_text(labels, column, cells):
            remarks.append(f"{cells.column(name)} {words}")
    return tuple(remarks)


def _why_text(labels: Sequence[str], column: Any, cells: CellNames) -> str | None:
    """What to say of text that could be numbers, in part or in two ways, or of labels that hardly differ."""
    if len(labels) > MAX_COMPARED_LABELS:
        return None
    spelt = [_cell(label) is not None for label in labels]
    if all(spelt) and not all(_PLAIN.fullmatch(label.strip().lstrip("+-")) for label in labels):
        example = next(label for label in labels if not _PLAIN.fullmatch(label.strip().lstrip("+-")))
        row = _first_row(column, labels.index(example))
        return (
            f"is taken for labels: numbers such as '{plain(example)}' ({cells.row(row)}) can be read in more than one "
            "way; write them with digits and a decimal point alone, if they are numbers"
        )
    units = {found[1] if (found := _WITH_UNIT.fullmatch(label.strip())) else "" for label in labels}
    if len(labels) > 2 and len(units) == 1 and "" not in units:
        row = _first_row(column, 0)
        return (
            f"is taken for labels: write numbers such as '{plain(labels[0])}' ({cells.row(row)}) without "
            f"'{units.pop()}', if they are to be compared as such"
        )
    if 2 * sum(spelt) > len(labels) and not all(spelt) and sum(spelt) > 2:
        other = spelt.index(False)
        row = _first_row(column, other)
        return (
            f"is taken for labels, as not all are numbers: {cells.row(row)} holds '{plain(labels[other])}'; leave such "
            "cells empty, if the others are numbers"
        )
    twins = hardly_differing(labels)
    if twins is not None:
        one, other = twins
        row = _first_row(column, labels.index(other))
        return (
            f"holds '{plain(one)}' and '{other}' ({cells.row(row)}), which differ in blanks or capitals alone; they "
            "are taken for two"
        )
    return None


def hardly_differing(labels: Sequence[str], *, numbers: bool = False) -> tuple[str, str] | None:
    """Two labels that differ in blanks or capitals alone, or are one number written twice, if there are such.

    numbers: whether to look for numbers, too.
    """
    seen: dict[str, str] = {}
    for label in labels:
        key = " ".join(label.split()).casefold()
        if numbers and re.fullmatch(r"[+-]?[0-9]+(\.0*)?", key):
            key = str(int(float(key))) if len(key) < 16 else key
        if key in seen:
            return seen[key], label
        seen[key] = label
    return None


def _cell(label: str) -> re.Match[str] | None:
    """Sign, mark, sign, digits and mark of what may be a number."""
    return _CELL.fullmatch(label.strip()) if len(label) <= MAX_WRITTEN_CHARACTERS else None


def _first_row(column: Any, code: int) -> int:
    """The first row that has a label."""
    codes: IntArray = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return int((codes == code).argmax())


def is_decimal(label: str) -> bool:
    """Whether a label is a whole number as Python writes it: not 001, and not 0x10."""
    try:
        return str(int(label)) == label
    except ValueError:
        return False

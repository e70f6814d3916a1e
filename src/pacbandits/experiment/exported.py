"""An exported record, read again from its file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.arrays import BoolArray, FloatArray, IntArray
from pacbandits.checks import path_of
from pacbandits.errors import InputError
from pacbandits.experiment.stored_rows import (
    EXPORTED,
    OUTCOME_KINDS,
    AssignmentColumns,
    AssignmentRow,
    Outcomes,
    columns_of,
)
from pacbandits.fields import Json
from pacbandits.records import Log, parquet
from pacbandits.records.arrow import Columns
from pacbandits.records.files import naming
from pacbandits.records.recorded import RECORD, PackedText, has_record, unpack_text


@dataclass(frozen=True, eq=False)
class Record(AssignmentColumns):
    """An exported record: its assignments, as they were hashed, and all else.

    about: what the file says of it.
    entries: sequence, time, kind, body and head of each.
    log: what the file says is the log.
    counted (n,): which rows the file says are part of it.
    marks (n, 16): what stands for the unit of each row.
    rewards, known (n,): as the file's log has them.
    outcomes: by their kind.
    """

    about: Json
    entries: tuple[tuple[int, int, str, str, str], ...]
    log: Log
    counted: BoolArray
    marks: FloatArray
    rewards: FloatArray
    known: IntArray
    outcomes: dict[str, Outcomes]


def has_sealed_record(path: str | Path) -> bool:
    """Whether a file of a log carries the record of an experiment."""
    if Path(path).suffix.lower() not in (".parquet", ".pq", ".parq"):
        return False
    try:
        return has_record(parquet.read_about(path))
    except InputError:
        return False


def read_record(path: str | Path) -> Record:
    """The record in an exported file.

    Raises:
        InputError: When the file holds none, or is damaged.
    """
    with naming(path_of(path)):
        source = parquet.read_table(path)
        table, about = source.columns, source.about
        if not has_record(about):
            raise InputError("the file carries no record of an experiment; export it from one")
        told = about.fields(RECORD, of="record")
        packed = PackedText(_matrix(table, "record_entries").astype(np.int64), told.whole_number("entries_bytes"))
        entries = tuple(
            (int(one[0]), int(one[1]), str(one[2]), str(one[3]), str(one[4])) for one in json.loads(unpack_text(packed))
        )
        outcomes = {
            name: Outcomes(
                _floats(table, f"record_{name}"),
                _numbers(table, f"record_{name}_sequence"),
                _numbers(table, f"record_{name}_at"),
                _numbers(table, f"record_{name}_late"),
            )
            for name in OUTCOME_KINDS
        }
        return Record(
            columns=_assignments(table),
            about=dict(told.given),
            entries=entries,
            log=Log.read(path),
            counted=_numbers(table, "record_counted") > 0,
            marks=_matrix(table, "record_mark"),
            rewards=_floats(table, "reward"),
            known=_numbers(table, "known"),
            outcomes=outcomes,
        )


def _assignments(table: Columns) -> dict[str, Any]:
    """The columns of assignments; one that was added after the file was written has its default."""
    read = {int: _numbers, float: _floats, bytes: _matrix, str: _texts}
    n, out = len(_column(table, "action")), dict[str, Any]()
    for name, how in columns_of(AssignmentRow).items():
        exported = EXPORTED.get(name)
        if name == "features" and exported not in table:
            out[name] = np.zeros((n, 0))
        elif exported is not None:
            absent = exported not in table and how.default is not None
            out[name] = np.full(n, how.default) if absent else read[how.kind](table, exported)
    return out


def _column(table: Columns, name: str) -> Any:
    if name not in table:
        raise InputError(f"the record lacks its column '{name}'; export it again")
    return table[name]


def _numbers(table: Columns, name: str) -> IntArray:
    return np.asarray(_column(table, name).to_numpy(zero_copy_only=False), dtype=np.int64)


def _texts(table: Columns, name: str) -> Any:
    return np.array(_column(table, name).to_pylist(), dtype=np.object_)


def _floats(table: Columns, name: str) -> FloatArray:
    return np.asarray(_column(table, name).to_numpy(zero_copy_only=False), dtype=np.float64)


def _matrix(table: Columns, name: str) -> Any:
    column = _column(table, name)
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(column), -1)

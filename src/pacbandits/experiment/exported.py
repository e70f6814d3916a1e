"""An exported record, read again from its file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pacbandits.arrays import FloatArray, IntArray
from pacbandits.checks import path_of
from pacbandits.errors import InputError
from pacbandits.records import Log, parquet
from pacbandits.records.arrow import Columns
from pacbandits.records.files import naming
from pacbandits.records.recorded import RECORD, PackedText, has_record, unpack_text

Json = dict[str, Any]
KINDS = {"reward": 0, "guardrail": 1}  # of outcomes, as they are hashed


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What came of each row; the number of its record is NEVER where nothing did."""

    values: FloatArray
    sequence: IntArray
    at: IntArray
    late: IntArray


@dataclass(frozen=True, eq=False)
class Record:
    """An exported record.

    about: what the file says of it.
    entries: sequence, time, kind, body and head of each.
    log: what the file says is the log.
    columns: sequence, visits, holdout, at, counted of each row.
    marks, features, propensities: of each row, as they were hashed.
    outcomes: by their kind.
    """

    about: Json
    entries: tuple[tuple[int, int, str, str, str], ...]
    log: Log
    columns: dict[str, IntArray]
    marks: FloatArray
    features: FloatArray
    propensities: FloatArray
    actions: IntArray
    rounds: IntArray
    rewards: FloatArray
    known: IntArray
    outcomes: dict[str, Outcomes]

    def __len__(self) -> int:
        return len(self.actions)


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
        n = len(_numbers(table, "action"))
        outcomes = {
            name: Outcomes(
                _floats(table, f"record_{name}"),
                _numbers(table, f"record_{name}_sequence"),
                _numbers(table, f"record_{name}_at"),
                _numbers(table, f"record_{name}_late"),
            )
            for name in KINDS
        }
        return Record(
            about=dict(told.given),
            entries=entries,
            log=Log.read(path),
            columns={
                name: _numbers(table, f"record_{name}") for name in ("sequence", "visit", "holdout", "at", "counted")
            },
            marks=_matrix(table, "record_mark"),
            features=_matrix(table, "record_features") if "record_features" in table else np.zeros((n, 0)),
            propensities=_matrix(table, "propensities"),
            actions=_numbers(table, "action"),
            rounds=_numbers(table, "round"),
            rewards=_floats(table, "reward"),
            known=_numbers(table, "known"),
            outcomes=outcomes,
        )


def _column(table: Columns, name: str) -> Any:
    if name not in table:
        raise InputError(f"the record lacks its column '{name}'; export it again")
    return table[name]


def _numbers(table: Columns, name: str) -> IntArray:
    return np.asarray(_column(table, name).to_numpy(zero_copy_only=False), dtype=np.int64)


def _floats(table: Columns, name: str) -> FloatArray:
    return np.asarray(_column(table, name).to_numpy(zero_copy_only=False), dtype=np.float64)


def _matrix(table: Columns, name: str) -> Any:
    column = _column(table, name)
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(column), -1)

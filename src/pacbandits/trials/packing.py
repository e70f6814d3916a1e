"""The files of a saved state; what could not be read again is refused before anything is written."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from pacbandits.arrays import FloatArray, plain_number
from pacbandits.errors import InputError, plain
from pacbandits.fields import Json
from pacbandits.json_files import MAX_JSON_BYTES, MAX_JSON_VALUES
from pacbandits.records import Log, parquet
from pacbandits.records.digest import digest, digest_contexts, digest_log
from pacbandits.rewards import RewardModel, can_be_made_again
from pacbandits.trials import stored
from pacbandits.trials.coherence import check_rounds, check_state
from pacbandits.trials.folders import name_table
from pacbandits.trials.trial import Trial, TrialState

KIND = "pacbandits state"
FORMAT = 5
MAX_REPEATS_OF_A_ROW = 2**53  # what a table gives back exactly
MAX_PREDICTION_ROUNDING = 1e-9  # between a model's predictions before and again


@dataclass(frozen=True, eq=False)
class Packed:
    """A state as files. state: what state.json says. tables: the others by their names."""

    state: bytes
    tables: Mapping[str, bytes]


def pack_state(algorithm: Trial, state: TrialState, *, notes: Mapping[str, Any] | None = None) -> Packed:
    """The files of a state; a sentence for one that could not be read again."""
    log, seen = _describe_log(state), digest_contexts(state.contexts)
    described = {
        "kind": KIND,
        "format": FORMAT,
        **stored.describe(algorithm, state),
        "contexts": seen,
        "log": log,
        "notes": dict(notes or {}),
    }
    check_coherent(algorithm, state)
    tables = dict([_table("contexts", seen, state.contexts.write)])
    if state.log is not None and log is not None:
        tables |= [_table("log", log["digest"], state.log.write)]
        if "predictions" in log:
            columns = {"predictions": state.predictions}
            tables |= [_table("predictions", log["predictions"], lambda file: parquet.write(file, columns))]
    try:
        text = json.dumps(described, ensure_ascii=False, allow_nan=False, default=plain_number)
        sealed = f'{{"digest": "{digest([text])}", {text[1:]}\n'.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the state cannot be saved, as something in it has no form in JSON: {plain(error)}") from None
    if len(sealed) > MAX_JSON_BYTES or sum(map(text.count, ",[{")) > MAX_JSON_VALUES:
        raise InputError(
            f"the state is too large to be saved: what is not a table has more than {MAX_JSON_BYTES:,} bytes or "
            f"{MAX_JSON_VALUES:,} values; take a smaller policy class, or keep no state"
        )
    return Packed(sealed, tables)


def check_coherent(algorithm: Trial, state: TrialState) -> None:
    """Raise unless a state fits together."""
    built_in = stored.is_built_in(algorithm)
    try:
        check_rounds(algorithm, state, built_in=built_in)
        check_state(algorithm, state, built_in=built_in)
    except InputError as error:
        raise InputError(f"the state is not one that absorb returned: {error}") from None


def digest_table(log: Log) -> str:
    """Of a log with its remarks, on which no proof rests."""
    return digest([digest_log(log), json.dumps(log.remarks)])


def check_model(model: RewardModel, log: Log, predictions: FloatArray) -> None:
    """Raise unless the user's model, fitted again to all but the last round, predicts that round as it did."""
    last = log.rounds == log.rounds.max()
    if last.all():
        return
    again = model.fit(log.only(~last)).predict(log.only(last).contexts)
    if not np.allclose(again, predictions[last], rtol=0, atol=MAX_PREDICTION_ROUNDING):
        raise InputError(
            "the reward model, fitted again to the same rows, predicts otherwise than before; it must be the same "
            "model, and give the same each time (fix its random_state)"
        )


def _describe_log(state: TrialState) -> Json | None:
    log, predictions = state.log, state.predictions
    if log is None or predictions is None:
        return None
    if log.repeats.max() >= MAX_REPEATS_OF_A_ROW:
        raise InputError(f"a row that occurred {log.repeats.max():.3g} times cannot be saved; at most 2^53 can")
    described: Json = {"rows": len(log), "digest": digest_table(log)}
    if not can_be_made_again(state.model):
        check_model(state.model, log, predictions)
        described["predictions"] = digest([predictions])
    return described


def _table(kind: str, contents: str, write: Callable[[IO[bytes]], None]) -> tuple[str, bytes]:
    """A table by the name that its contents give it, which are known by their digest."""
    file = io.BytesIO()
    write(file)
    return name_table(kind, contents), file.getvalue()

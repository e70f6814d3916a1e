"""The state of a trial in a folder, as JSON and Parquet; nothing in it is run when it is read.

    state.json             what is not a table; written last, with the digests of the tables
    contexts.parquet       what was known of the contexts at the start
    log.parquet            all rounds so far; not there before the first
    predictions.parquet    only of a reward model that cannot be made again from JSON

What follows from the log is computed anew: predictions, and the models by which designs weigh actions. A loaded state
goes on exactly as the saved one would have, given the same random numbers and numerical libraries. Rounds only add
rows, so the tables of a newer state serve an older state.json too: a crash between the two costs one round.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from pacbandits.arrays import FloatArray, plain_number
from pacbandits.checks import instance, path_of
from pacbandits.errors import InputError, plain
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Log, parquet
from pacbandits.records.digest import digest, digest_contexts, digest_log
from pacbandits.rewards import RewardModel, can_be_made_again, predict_by_round
from pacbandits.trials import stored
from pacbandits.trials.stored import Json, Tables
from pacbandits.trials.trial import Trial, TrialState

KIND = "pacbandits state"
FORMAT = 2
STATE, CONTEXTS, LOG, PREDICTIONS = "state.json", "contexts.parquet", "log.parquet", "predictions.parquet"

MAX_REPEATS_OF_A_ROW = 2**53  # what a table gives back exactly
MAX_PREDICTION_ROUNDING = 1e-9  # between a model's predictions before and again


@dataclass(frozen=True, eq=False)
class Saved:
    """What a folder holds. notes: what else was to be kept with the state."""

    algorithm: Trial
    state: TrialState
    notes: Json


def save_state(
    folder: str | Path, algorithm: Trial, state: TrialState, *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write the state of a trial to a folder, in place of the one that is there.

    notes: anything that JSON knows, to be kept with it. A reward model, a policy class without JSON or a trial of the
    user's own is named and not stored: pass it again to `load_state`. Whatever interrupts this, the folder holds the
    old state or the new one.
    """
    folder = path_of(folder, name="folder")
    instance(algorithm, Trial, name="algorithm")
    instance(state, TrialState, name="state", remedy="a trial starts with one, and absorb returns the next")
    described = {
        "kind": KIND,
        "format": FORMAT,
        **stored.describe(algorithm, state),
        "contexts": digest_contexts(state.contexts),
        "log": _describe_log(state),
        "notes": dict(notes or {}),
    }
    text = json.dumps(described, ensure_ascii=False, default=plain_number)
    sealed = f'{{"digest": "{digest([text])}", {text[1:]}\n'
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / CONTEXTS, state.contexts.write)
        if state.log is not None:
            _write(folder / LOG, state.log.write)
        if state.predictions is not None and not can_be_made_again(state.model):
            columns = {"predictions": state.predictions}
            _write(folder / PREDICTIONS, lambda path: parquet.write(path, columns))
        _write(folder / STATE, lambda path: path.write_text(sealed, encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}") from None


def load_state(
    folder: str | Path,
    *,
    model: RewardModel | None = None,
    policies: PolicyClass | None = None,
    algorithm: Trial | None = None,
) -> tuple[Trial, TrialState]:
    """The algorithm and the state that `save_state` wrote.

    model, policies, algorithm: the user's own reward model, policy class or trial, if the state was made with one.
    """
    for own, kind, name in (
        (model, RewardModel, "model"),
        (policies, PolicyClass, "policies"),
        (algorithm, Trial, "algorithm"),
    ):
        if own is not None:
            instance(own, kind, name=name)
    saved = read_state(folder, model=model, policies=policies, algorithm=algorithm)
    return saved.algorithm, saved.state


def read_state(
    folder: str | Path,
    *,
    model: RewardModel | None = None,
    policies: PolicyClass | None = None,
    algorithm: Trial | None = None,
) -> Saved:
    """What `save_state` wrote, with its notes."""
    folder = path_of(folder, name="folder")
    given = _read_json(folder)
    try:
        used = stored.restore_model(given["model"], given=model)
        contexts = _read_contexts(folder, given["contexts"])
        log, predictions = (None, None) if given["log"] is None else _read_log(folder, given["log"], used)
        state = stored.restore(given, Tables(contexts, log, predictions), model=used, policies=policies)
        return Saved(stored.restore_algorithm(given["algorithm"], used, given=algorithm), state, given["notes"])
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise _unusable(folder, f"{STATE} lacks what it should hold ({type(error).__name__}: {plain(error)})") from None


def holds_state(folder: str | Path) -> bool:
    """Whether something was saved there."""
    return (Path(folder) / STATE).is_file()


def read_notes(folder: str | Path) -> tuple[Json, Json]:
    """The notes that a folder holds, and the policy class in JSON, before anything else is read."""
    given = _read_json(Path(folder))
    try:
        return dict(given["notes"]), dict(given["class"])
    except (KeyError, TypeError, ValueError):
        raise _unusable(Path(folder), f"{STATE} lacks what it should hold") from None


def _describe_log(state: TrialState) -> Json | None:
    log, predictions = state.log, state.predictions
    if log is None or predictions is None:
        return None
    if log.repeats.max() >= MAX_REPEATS_OF_A_ROW:
        raise InputError(f"a row that occurred {log.repeats.max():.3g} times cannot be saved; at most 2^53 can")
    described: Json = {"rows": len(log), "digest": digest_log(log)}
    if not can_be_made_again(state.model):
        _check_model(state.model, log, predictions)
        described["predictions"] = digest([predictions])
    return described


def _read_json(folder: Path) -> Json:
    path = folder / STATE
    if not path.is_file():
        raise InputError(f"{folder} holds no saved state: there is no {STATE} in it")
    try:
        text = path.read_text(encoding="utf-8")
        value: Any = json.loads(text)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise _unusable(folder, f"{STATE} is not JSON") from None
    if not isinstance(value, dict) or cast(Json, value).get("kind") != KIND:
        raise InputError(f"{path} is not a saved state of this package; take another folder")
    given = cast(Json, value)
    if given.get("format") != FORMAT:
        raise InputError(f"{path} has format {plain(given.get('format'))}, and this version reads format {FORMAT}")
    seal = given.pop("digest", None)
    if seal != digest([json.dumps(given, ensure_ascii=False)]):
        raise _unusable(folder, f"{STATE} was altered or damaged")
    return given


def _read_contexts(folder: Path, expected: str) -> Contexts:
    try:
        contexts = Contexts.read(folder / CONTEXTS)
    except InputError as error:
        raise _unusable(folder, str(error)) from None
    if digest_contexts(contexts) != expected:
        raise _unusable(folder, f"{CONTEXTS} is not what {STATE} was written with")
    return contexts


def _read_log(folder: Path, described: Json, model: RewardModel) -> tuple[Log, FloatArray]:
    """The log and its predictions, as far as the state goes."""
    rows = int(described["rows"])
    try:
        log = Log.read(folder / LOG)
        stored = parquet.read(folder / PREDICTIONS) if "predictions" in described else {}
        predictions = parquet.pop_matrix(stored, "predictions")
    except InputError as error:
        raise _unusable(folder, str(error)) from None
    if len(log) < rows:
        raise _unusable(folder, f"{LOG} has {len(log)} rows of the {rows} that {STATE} was written with")
    log = log.take(np.arange(rows))
    if digest_log(log) != described["digest"]:
        raise _unusable(folder, f"{LOG} is not what {STATE} was written with")
    if "predictions" not in described:
        return log, predict_by_round(log, model)
    if predictions is None or digest([predictions[:rows]]) != described["predictions"]:
        raise _unusable(folder, f"{PREDICTIONS} is not what {STATE} was written with")
    predictions = predictions[:rows].copy()
    _check_model(model, log, predictions)
    return log, predictions


def _check_model(model: RewardModel, log: Log, predictions: FloatArray) -> None:
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


def _unusable(folder: Path, why: str) -> InputError:
    return InputError(f"{folder} cannot be resumed: {why}; restore it from a copy, or begin anew in another folder")


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name first, so that the name stands for the old contents or the new ones."""
    part = path.with_name(f"{path.name}.part")
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

"""Save the state of a trial in a folder, as JSON and Parquet, and load it; nothing in it is executed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from pacbandits.arrays import FloatArray, floats, plain_number
from pacbandits.checks import instance
from pacbandits.errors import InputError, plain
from pacbandits.policies import class_from_json
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.records import Contexts, Log, parquet
from pacbandits.records.columns import pop_matrix
from pacbandits.records.log import digest, digest_contexts, digest_log
from pacbandits.rewards import RewardModel, can_be_made_again, predict_by_round
from pacbandits.schema import MAX_JSON_BYTES, MAX_JSON_VALUES, Fields, Json, read_json
from pacbandits.trials import state_json as stored
from pacbandits.trials.state_checks import check_replay, check_rounds, check_state
from pacbandits.trials.state_folder import STATE, StateFolder, name_table
from pacbandits.trials.state_json import Refitted, check_described, restore_play, restore_rounds
from pacbandits.trials.trial import Trial, TrialState

# Write the files of a saved state; a state that could not be read again is refused before anything is written.


KIND = "pacbandits state"
FORMAT = 5
MAX_REPEATS_OF_A_ROW = 2**53  # the largest integer that a table returns exactly
MAX_PREDICTION_ROUNDING = 1e-9  # between a model's stored and recomputed predictions


@dataclass(frozen=True, eq=False)
class Packed:
    """The files of a state. state: the contents of state.json. tables: the other files by name."""

    state: bytes
    tables: Mapping[str, bytes]


def pack_state(algorithm: Trial, state: TrialState, *, notes: Mapping[str, Any] | None = None) -> Packed:
    """Return the files of a state; raise InputError for one that could not be read again."""
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
    """Raise unless the parts of a state agree."""
    built_in = stored.is_built_in(algorithm)
    try:
        check_rounds(algorithm, state, built_in=built_in)
        check_state(algorithm, state, built_in=built_in)
    except InputError as error:
        raise InputError(f"the state is not one that absorb returned: {error}") from None


def digest_table(log: Log) -> str:
    """Return the digest of a log with its remarks, which no proof uses."""
    return digest([digest_log(log), json.dumps(log.remarks)])


def check_model(model: RewardModel, log: Log, predictions: FloatArray) -> None:
    """Raise unless the user's model, fitted again to all but the last round, repeats its predictions of that round."""
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
    """Return a table with its file name, which is derived from the digest of its contents."""
    file = io.BytesIO()
    write(file)
    return name_table(kind, contents), file.getvalue()


# Read a state from the files of a folder, and check all its fields.
#
# The digests in state.json reveal damage, not forgery: anyone can compute them, and anyone who can write to the folder
# can write another consistent state. So the check is for consistency only.


MAX_REASON_CHARACTERS = 300
DIGEST_CHARACTERS = 64


@dataclass(frozen=True, eq=False)
class Saved:
    """The contents of a folder. notes: the user's notes, stored with the state."""

    algorithm: Trial
    state: TrialState
    notes: Json


def read_state(
    folder: str | Path | StateFolder,
    *,
    model: RewardModel | None = None,
    policies: PolicyClass | None = None,
    algorithm: Trial | None = None,
) -> Saved:
    """Return what `save_state` wrote, with its notes; the caller should hold the folder's lock, shared or exclusive."""
    folder = StateFolder.at(folder)
    given = _read_json(folder)
    fields = Fields(given, of="state")
    with _reasoned():
        used = stored.restore_model(fields.json_object("model"), given=model)
        made = stored.restore_algorithm(fields.json_object("algorithm"), used, given=algorithm)
        chosen = class_from_json(fields.json_object("class"), policies)
    with _unusable_unless_read(folder), _reasoned():
        contexts = _read_contexts(folder, fields)
        log = None if fields["log"] is None else _read_log(folder, fields)
        state, numbered = restore_rounds(fields, chosen, contexts, log, model=used)
        check_rounds(made, state, built_in=stored.is_built_in(made))
        refitted = Refitted(used)
        predictions = None if log is None else _read_predictions(folder, fields, log, refitted)
    if log is not None and predictions is not None and not can_be_made_again(used):
        check_model(used, log, predictions)
    with _unusable_unless_read(folder), _reasoned():
        state = restore_play(fields, state, numbered, refitted, predictions)
        check_coherent(made, state)
        check_replay(state)
        check_described(fields, made, state, beside=("kind", "format", "contexts", "log", "notes"))
        notes = fields.json_object("notes")
    return Saved(made, state, notes)


def read_notes(folder: StateFolder) -> tuple[Json, Json]:
    """Return the notes of a folder and the policy class in JSON, before anything else is read."""
    fields = Fields(_read_json(folder), of="state")
    with _unusable_unless_read(folder):
        return fields.json_object("notes"), fields.json_object("class")


def _read_json(folder: StateFolder) -> Json:
    path = folder.path / STATE
    if not folder.holds_state():
        raise InputError(f"{folder} holds no saved state: there is no {STATE} in it")
    with _unusable_unless_read(folder):
        value = read_json(folder.file(STATE))
    if not isinstance(value, dict) or cast(Json, value).get("kind") != KIND:
        raise InputError(f"{path} is not a saved state of this package; take another folder")
    given = cast(Json, value)
    if given.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {plain(given.get('format'))}, and this version reads format {FORMAT}, as trials prove "
            "otherwise now; finish it with the version that wrote it"
        )
    seal = given.pop("digest", None)
    if seal != digest([json.dumps(given, ensure_ascii=False)]):
        raise _unusable(folder, f"{STATE} was altered or damaged")
    return given


def _read_contexts(folder: StateFolder, fields: Fields) -> Contexts:
    expected = fields.text("contexts", most=DIGEST_CHARACTERS)
    name = name_table("contexts", expected)
    contexts = Contexts.read(folder.file(name))
    if digest_contexts(contexts) != expected:
        raise InputError(f"{name} is not what {STATE} was written with")
    return contexts


def _read_log(folder: StateFolder, fields: Fields) -> Log:
    """Read the log of the state."""
    described = fields.fields("log", of="log in the state")
    expected, rows = described.text("digest", most=DIGEST_CHARACTERS), described.whole_number("rows", least=1)
    name = name_table("log", expected)
    log = Log.read(folder.file(name))
    if len(log) != rows:
        raise InputError(f"{name} has {len(log)} rows, and {STATE} was written with {rows}")
    if digest_table(log) != expected:
        raise InputError(f"{name} is not what {STATE} was written with")
    return log


def _read_predictions(folder: StateFolder, fields: Fields, log: Log, refitted: Refitted) -> FloatArray:
    """Return the model's predictions before each round, recomputed or as stored."""
    described = fields.fields("log", of="log in the state")
    again = can_be_made_again(refitted.model)
    described.check_known(("rows", "digest") if again else ("rows", "digest", "predictions"))
    if again:
        return predict_by_round(log, refitted)
    expected = described.text("predictions", most=DIGEST_CHARACTERS)
    name = name_table("predictions", expected)
    stored_ones = pop_matrix(parquet.read_table(folder.file(name)).columns, "predictions")
    if stored_ones is None or digest([stored_ones]) != expected:
        raise InputError(f"{name} is not what {STATE} was written with")
    return floats(stored_ones, name="predictions", shape=log.propensities.shape)


@contextmanager
def _unusable_unless_read(folder: StateFolder) -> Generator[None]:
    """Reraise an InputError with the folder's name and the remedy."""
    try:
        yield
    except InputError as error:
        raise _unusable(folder, str(error)) from None


@contextmanager
def _reasoned() -> Generator[None]:
    """Turn any error that invalid content causes into an InputError of one short line."""
    try:
        yield
    except InputError as error:
        raise InputError(plain(error, most=MAX_REASON_CHARACTERS)) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{STATE} lacks what it should hold ({type(error).__name__}: {plain(error)})") from None


def _unusable(folder: StateFolder, why: str) -> InputError:
    return InputError(f"{folder} cannot be resumed: {why}; restore it from a copy, or begin anew in another folder")


# Save the state of a trial in a folder, as JSON and Parquet, and load it; nothing in it is executed.
#
#     state.json                  all that is not a table, and the digests of the tables; replaced last
#     contexts-….parquet          the contexts known at the start; … are the first digits of its digest
#     log-….parquet               all rounds so far; absent before the first
#     predictions-….parquet       only for a reward model that cannot be made again from JSON
#     state.lock                  empty; locked by the process that uses the folder
#
# Values that follow from the log are recomputed: predictions, and the models by which designs weight actions. A loaded
# state continues exactly as the saved one would have, given the same random numbers and numerical libraries. The folder
# always holds either the old state or the new one as a whole (`state_folder`).


def save_state(
    folder: str | Path | StateFolder, algorithm: Trial, state: TrialState, *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write the state of a trial to a folder, replacing the one there.

    notes: any JSON-compatible values, stored with it. A reward model, a policy class without JSON or a trial of the
    user's own is named but not stored: pass it again to `load_state`. If the write is interrupted, the folder holds the
    old state or the new one. Raises InputError while another process or thread uses the folder.
    """
    folder = StateFolder.at(folder)
    instance(algorithm, Trial, name="algorithm")
    instance(state, TrialState, name="state", remedy="a trial starts with one, and absorb returns the next")
    packed = pack_state(algorithm, state, notes=notes)
    with folder.held():
        folder.replace(packed.state, packed.tables)


def load_state(
    folder: str | Path | StateFolder,
    *,
    model: RewardModel | None = None,
    policies: PolicyClass | None = None,
    algorithm: Trial | None = None,
) -> tuple[Trial, TrialState]:
    """Return the algorithm and the state that `save_state` wrote.

    model, policies, algorithm: the user's own reward model, policy class or trial, if the state was made with one.
    """
    for own, kind, name in (
        (model, RewardModel, "model"),
        (algorithm, Trial, "algorithm"),
    ):
        if own is not None:
            instance(own, kind, name=name)
    if policies is not None:
        policies = check_class(policies)
    folder = StateFolder.at(folder)
    with folder.looked_at():
        saved = read_state(folder, model=model, policies=policies, algorithm=algorithm)
    return saved.algorithm, saved.state

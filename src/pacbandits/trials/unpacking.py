"""Read a state from the files of a folder, and check everything that they claim.

The seal of state.json and the digests of tables tell damage. They tell no forgery, as anyone can compute them; whoever
can write to the folder can also write another state that fits together, so no more can be asked than that it does.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pacbandits.arrays import FloatArray, floats
from pacbandits.errors import InputError, plain
from pacbandits.fields import Fields, Json
from pacbandits.json_files import read_json
from pacbandits.policies import class_from_json
from pacbandits.policies.base import PolicyClass
from pacbandits.records import Contexts, Log, parquet
from pacbandits.records.columns import pop_matrix
from pacbandits.records.digest import digest, digest_contexts
from pacbandits.rewards import RewardModel, can_be_made_again, predict_by_round
from pacbandits.trials import stored
from pacbandits.trials.coherence import check_replay, check_rounds
from pacbandits.trials.folders import STATE, StateFolder, name_table
from pacbandits.trials.packing import FORMAT, KIND, check_coherent, check_model, digest_table
from pacbandits.trials.restoring import Refitted, check_described, restore_play, restore_rounds
from pacbandits.trials.trial import Trial, TrialState

MAX_REASON_CHARACTERS = 300
DIGEST_CHARACTERS = 64


@dataclass(frozen=True, eq=False)
class Saved:
    """What a folder holds. notes: what else was to be kept with the state."""

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
    """What `save_state` wrote, with its notes; the folder should be held or looked at."""
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
    """The notes that a folder holds, and the policy class in JSON, before anything else is read."""
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
    """The log of the state."""
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
    """What the model predicted before each round: made again, or as it was stored."""
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
    """Say of a folder what is wrong with it, and what to do."""
    try:
        yield
    except InputError as error:
        raise _unusable(folder, str(error)) from None


@contextmanager
def _reasoned() -> Generator[None]:
    """Whatever nonsense leads to, one line that is not too long."""
    try:
        yield
    except InputError as error:
        raise InputError(plain(error, most=MAX_REASON_CHARACTERS)) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{STATE} lacks what it should hold ({type(error).__name__}: {plain(error)})") from None


def _unusable(folder: StateFolder, why: str) -> InputError:
    return InputError(f"{folder} cannot be resumed: {why}; restore it from a copy, or begin anew in another folder")

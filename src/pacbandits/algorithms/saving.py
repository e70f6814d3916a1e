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

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import numpy as np

from pacbandits.algorithms.coda import Coda, NoisyDesign, Uniform
from pacbandits.algorithms.trial import Exploration, Trial, TrialState
from pacbandits.certificate import Certificate, Named, Naming
from pacbandits.certificate.certificate import digest
from pacbandits.errors import FloatArray, InputError, plain
from pacbandits.estimators.models import (
    Additive,
    CellMeans,
    Either,
    RewardModel,
    model_from_json,
    no_idea,
    predict_by_round,
)
from pacbandits.estimators.regions import Regions
from pacbandits.policies import class_from_json, class_to_json, policy_from_json
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import Finite
from pacbandits.policies.trivial import Trivial
from pacbandits.records import Contexts, Design, Log, Policy, RewardBounds, Sampler, parquet
from pacbandits.records.contexts import WEIGHT_COLUMN

KIND = "pacbandits state"
FORMAT = 2
STATE, CONTEXTS, LOG, PREDICTIONS = "state.json", "contexts.parquet", "log.parquet", "predictions.parquet"
TRIALS: dict[str, type[Trial]] = {kind.name: kind for kind in (Coda, Uniform)}

_MOST_REPEATS = 2**53  # of one row: what a table gives back exactly
_SAME_PREDICTION = 1e-9

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Saved:
    """What a folder holds. notes: what else was to be kept with the state."""

    algorithm: Trial
    state: TrialState
    notes: Json


def save_state(
    folder: str | Path, algorithm: Trial, state: TrialState, *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write a state of coda or uniform to a folder, in place of the one that is there.

    notes: anything that JSON knows, to be kept with it. A reward model of the user's own is named and not stored: pass
    it again to `load_state`. Whatever interrupts this, the folder holds the old state or the new one.
    """
    folder = Path(folder)
    described = {"kind": KIND, "format": FORMAT} | _describe(algorithm, state) | {"notes": dict(notes or {})}
    text = json.dumps(described, ensure_ascii=False, default=_number)
    sealed = f'{{"digest": "{_sha(text)}", {text[1:]}\n'
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / CONTEXTS, state.contexts.write)
        if state.log is not None:
            _write(folder / LOG, state.log.write)
        if state.predictions is not None and not _can_be_made_again(state.model):
            columns = {"predictions": state.predictions}
            _write(folder / PREDICTIONS, lambda path: parquet.write(path, columns))
        _write(folder / STATE, lambda path: path.write_text(sealed, encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}") from None


def load_state(folder: str | Path, *, model: RewardModel | None = None) -> tuple[Trial, TrialState]:
    """The algorithm and the state that `save_state` wrote; `model` is the user's own reward model, if there was one."""
    saved = read_state(folder, model=model)
    return saved.algorithm, saved.state


def read_state(folder: str | Path, *, model: RewardModel | None = None) -> Saved:
    """What `save_state` wrote, with its notes."""
    folder = Path(folder)
    given = _read_json(folder)
    try:
        return _restore(folder, given, model)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise _unusable(folder, f"{STATE} lacks what it should hold ({type(error).__name__}: {plain(error)})") from None


def holds_state(folder: str | Path) -> bool:
    """Whether something was saved there."""
    return (Path(folder) / STATE).is_file()


def class_in_full(policies: PolicyClass) -> Json:
    """A policy class in JSON with all that changes what its oracles say, and its policies in words."""
    described = class_to_json(policies)
    if isinstance(policies, Finite):
        described["names"] = None if policies.names is None else list(policies.names)
    if isinstance(policies, Trivial):
        described["resolution"] = policies.resolution
    return described


def _class_of(described: Json) -> PolicyClass:
    made = class_from_json(described)
    if isinstance(made, Finite):
        return Finite(made.table, n_actions=made.n_actions, names=described["names"])
    return replace(made, resolution=described["resolution"]) if isinstance(made, Trivial) else made


def _describe(algorithm: Trial, state: TrialState) -> Json:
    """All of a state but its tables, which are named by their digests."""
    if type(algorithm) is not TRIALS.get(algorithm.name):
        raise InputError(f"only states of {' and '.join(TRIALS)} can be saved, not of {type(algorithm).__name__}")
    policies = _Policies()
    return {
        "algorithm": _options(algorithm),
        "class": class_in_full(state.policies),
        "model": state.model.to_json(),
        "contexts": _digest_contexts(state.contexts),
        "log": _describe_log(state),
        "round_number": state.round_number,
        "samples": state.samples,
        "oracle_calls": state.oracle_calls,
        "finished": bool(state.finished),
        "history": [dict(figures) for figures in state.history],
        "scales": list(state.scales),
        "policy": policies.number(state.policy),
        "leader": None if state.leader is None else policies.number(state.leader),
        "named": [{"policy": policies.number(one.policy), **asdict(one.naming)} for one in state.named],
        "pool": [policies.number(policy) for policy in state.pool],
        "current": _describe_current(state, policies),
        "played": _describe_played(state, policies),
        "certificate": None if state.certificate is None else state.certificate.to_json(),
        "policies": [policy.to_json() for policy in policies.all],
    }


def _options(algorithm: Trial) -> Json:
    """The algorithm by its name and options; of a model of its own only that it has one."""
    options = {field.name: getattr(algorithm, field.name) for field in fields(algorithm)}
    given = options.pop("model") is not None
    return {"name": algorithm.name, "model": given, **options, "rewards": asdict(algorithm.rewards)}


def _describe_log(state: TrialState) -> Json | None:
    log, predictions = state.log, state.predictions
    if log is None or predictions is None:
        return None
    if log.repeats.max() >= _MOST_REPEATS:
        raise InputError(f"a row that occurred {log.repeats.max():.3g} times cannot be saved; at most 2^53 can")
    described: Json = {"rows": len(log), "digest": digest(log)}
    if not _can_be_made_again(state.model):
        _check_model(state.model, log, predictions)
        described["predictions"] = _sha(predictions)
    return described


def _describe_current(state: TrialState, policies: _Policies) -> Json | None:
    current = state.current
    if current is None:
        return None
    if not state.played or state.played[-1][0] is not current.sampler:
        raise InputError("the state is not one that absorb returned: it plays otherwise than it last played")
    return {
        "price": current.price,
        "since": current.since,
        "pool": [policies.number(policy) for policy in current.pool],
        "oracle_calls": current.oracle_calls,
    }


def _describe_played(state: TrialState, policies: _Policies) -> list[Json]:
    """Every sampler in turn, with how often it was used; a noisy design by the rows of the log its model is of."""
    before = [0, *accumulate(samples for _, samples in state.played)]
    out: list[Json] = []
    for (sampler, samples), since in zip(state.played, before, strict=False):
        design = sampler.design if isinstance(sampler, NoisyDesign) else sampler
        if not isinstance(design, Design):
            raise InputError(f"a state that was played by a {type(sampler).__name__} cannot be saved")
        out.append(
            {
                "samples": samples,
                "rows": _rows_of(state.log, since) if isinstance(sampler, NoisyDesign) else None,
                "support": [policies.number(policy) for policy in design.support],
                "weights": design.weights.tolist(),
                "reference": policies.number(design.reference),
                "floor": design.floor,
                "smoothing": design.smoothing,
            }
        )
    return out


def _rows_of(log: Log | None, samples: int) -> int:
    """How many rows of the log its first so many interactions are."""
    return 0 if log is None else int(np.searchsorted(np.cumsum(log.repeats), samples, side="right"))


def _restore(folder: Path, given: Json, model: RewardModel | None) -> Saved:
    model = _model_of(given["model"], model)
    policies = [policy_from_json(policy) for policy in given["policies"]]
    log, predictions = (None, None) if given["log"] is None else _read_log(folder, given["log"], model)
    played = tuple((_sampler_of(value, policies, log, model), int(value["samples"])) for value in given["played"])
    (policy,) = _some(policies, [given["policy"]])
    certificate = None if given["certificate"] is None else Certificate.from_json(given["certificate"])
    state = TrialState(
        _class_of(given["class"]),
        _read_contexts(folder, given["contexts"]),
        policy,
        round_number=given["round_number"],
        samples=given["samples"],
        oracle_calls=given["oracle_calls"],
        finished=given["finished"],
        history=tuple(given["history"]),
        model=model,
        log=log,
        predictions=predictions,
        scales=tuple(given["scales"]),
        pool=_some(policies, given["pool"]),
        current=None if given["current"] is None else _exploration_of(given["current"], policies, played[-1][0]),
        played=played,
        leader=next(iter(_some(policies, [] if given["leader"] is None else [given["leader"]])), None),
        named=tuple(Named(policies[one["policy"]], Naming(one["round"], one["number"])) for one in given["named"]),
        certificate=None if certificate is None else replace(certificate, policy=policy),
    )
    return Saved(_algorithm_of(given["algorithm"], model), state, given["notes"])


def _algorithm_of(described: Json, model: RewardModel) -> Trial:
    options = dict(described)
    kind = TRIALS[options.pop("name")]
    options["rewards"] = RewardBounds(**options["rewards"])
    options["model"] = model if options["model"] else None
    return kind(**options)


def _model_of(described: Json, given: RewardModel | None) -> RewardModel:
    if given is None:
        try:
            return model_from_json(described)
        except InputError:
            raise InputError(
                f"the state was made with a reward model of your own, {plain(described)}, which is not stored; "
                "pass it again as model=…"
            ) from None
    if json.loads(json.dumps(given.to_json(), default=_number)) != described:
        raise InputError(
            f"the state was made with the reward model {plain(described)}, not {plain(given.to_json())}; pass the same"
        )
    return given


def _exploration_of(described: Json, policies: list[Policy], sampler: Sampler) -> Exploration:
    return Exploration(
        sampler,
        described["price"],
        described["since"],
        pool=_some(policies, described["pool"]),
        oracle_calls=described["oracle_calls"],
    )


def _sampler_of(described: Json, policies: list[Policy], log: Log | None, model: RewardModel) -> Sampler:
    (reference,) = _some(policies, [described["reference"]])
    design = Design(
        _some(policies, described["support"]),
        np.array(described["weights"], dtype=np.float64),
        reference,
        floor=described["floor"],
        smoothing=described["smoothing"],
    )
    rows: int | None = described["rows"]
    if rows is None:
        return design
    if log is None or rows == 0:
        return NoisyDesign(design, no_idea(design.n_actions))
    return NoisyDesign(design, model.fit(log.take(np.arange(rows))))


def _some(policies: list[Policy], numbers: list[int]) -> tuple[Policy, ...]:
    return tuple(policies[number] for number in numbers)


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
    if seal != _sha(json.dumps(given, ensure_ascii=False)):
        raise _unusable(folder, f"{STATE} was altered or damaged")
    return given


def _read_contexts(folder: Path, expected: str) -> Contexts:
    try:
        table = parquet.read(folder / CONTEXTS)
        weights = parquet.pop_floats(dict(table), WEIGHT_COLUMN)
        contexts = Contexts.from_columns(table, n=len(next(iter(table.values()))))
    except InputError as error:
        raise _unusable(folder, str(error)) from None
    if weights is not None:
        # They were divided by their sum before; doing so again would change their last bits.
        weights.setflags(write=False)
        object.__setattr__(contexts, "weights", weights)
    if _digest_contexts(contexts) != expected:
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
    if digest(log) != described["digest"]:
        raise _unusable(folder, f"{LOG} is not what {STATE} was written with")
    if "predictions" not in described:
        return log, predict_by_round(log, model)
    if predictions is None or _sha(predictions[:rows]) != described["predictions"]:
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
    if not np.allclose(again, predictions[last], rtol=0, atol=_SAME_PREDICTION):
        raise InputError(
            "the reward model, fitted again to the same rows, predicts otherwise than before; it must be the same "
            "model, and give the same each time (fix its random_state)"
        )


class _Policies:
    """Policies by number, each described once, as designs and the pool share most of theirs."""

    def __init__(self) -> None:
        self.all: list[Policy] = []
        self._numbers: dict[int, int] = {}

    def number(self, policy: Policy) -> int:
        if id(policy) not in self._numbers:
            self._numbers[id(policy)] = len(self.all)
            self.all.append(policy)
        return self._numbers[id(policy)]


def _can_be_made_again(model: RewardModel) -> bool:
    return isinstance(model, CellMeans | Additive | Regions | Either)


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


def _digest_contexts(contexts: Contexts) -> str:
    ids = np.empty(0) if contexts.ids is None else contexts.ids
    phi = () if contexts.phi is None else contexts.phi.blocks()
    return _sha(repr((contexts.names, contexts.categories)), contexts.features, ids, contexts.weights, *phi)


def _sha(*parts: str | np.ndarray[Any, Any]) -> str:
    """SHA-256 of texts and arrays."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part.encode() if isinstance(part, str) else str(part.shape).encode())
        if not isinstance(part, str):
            sha.update(np.ascontiguousarray(part).tobytes())
    return sha.hexdigest()


def _number(value: object) -> object:
    """A number of numpy's as one of Python's."""
    if isinstance(value, np.generic):
        return cast(object, value.item())
    raise TypeError(f"{type(value).__name__} has no form in JSON")

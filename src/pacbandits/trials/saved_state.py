"""Save a trial in one file, and load it: what it started with, and the plan and rows of each round.

The file is an SQLite database with one table. Entry 0 holds the algorithm, the policy class and the contexts; entry n
holds the plan of round n and its rows, or the rows alone of a round of a pilot. Nothing in it is executed. Predictions,
leaders and certificates are not stored: loading replays the rounds, `start` and then `absorb`, with the stored plans,
so that no design is solved again. The figures of each round are compared with those that the replay finds; they differ
after a change of the reward model or of the numerical libraries. The digest of an entry covers its contents and the
digest before it. It reveals damage, not forgery: anyone who can write to the file can write the file of another trial.

SQLite replaces entries in one transaction and locks the file: a process that is killed leaves the old entries or the
new ones, and no lock.
"""

from __future__ import annotations

import dataclasses
import io
import math
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pacbandits.arrays import as_read, plain_number
from pacbandits.certificate.certificate import CountedPilot
from pacbandits.certificate.worth import constant_action
from pacbandits.checks import instance, path_of
from pacbandits.errors import InputError, nearest, plain
from pacbandits.policies import class_from_json, class_to_json, policy_from_json
from pacbandits.policies.base import PolicyClass, check_class
from pacbandits.records import Contexts, Design, Log, Policy, RewardBounds, Sampler
from pacbandits.records.log import digest
from pacbandits.rewards import RewardModel, can_be_made_again, model_from_json
from pacbandits.schema import Fields, Json, json_text, newer_format, parse_json
from pacbandits.trials.coda import Coda, NoisyDesign, Uniform
from pacbandits.trials.pilot_rows import ArrangedPilot, add_pilot, check_pilot
from pacbandits.trials.protocol import Details
from pacbandits.trials.trial import Exploration, Trial, TrialPlan, TrialState

APPLICATION, FORMAT = int.from_bytes(b"pacb"), 6
TABLE = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, rows BLOB NOT NULL, digest TEXT NOT NULL)"
)
LOCK_PATIENCE_SECONDS = 2.0  # time for others to save or load
MAX_REASON_CHARACTERS = 300
MAX_REPEATS_OF_A_ROW = 2**53  # the largest integer that a table returns exactly
MAX_PREDICTION_ROUNDING = 1e-9  # between a model's predictions and those of its second fit to the same rows
MAX_FIGURE_ROUNDING = 1e-6  # of replayed figures, relative and absolute
TRIALS: dict[str, type[Trial]] = {kind.name: kind for kind in (Coda, Uniform)}

Table = TypeVar("Table", Contexts, Log)


def save_state(
    path: str | Path, algorithm: Trial, state: TrialState, *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write the state of a trial to a file, replacing the one there.

    notes: any JSON-compatible values, stored with it. A reward model, a policy class without JSON or a trial of the
    user's own is named but not stored: pass it again to `load_state`. If the write is interrupted, the file holds the
    old state or the new one. Raises InputError while another process or thread uses the file.
    """
    path = path_of(path)
    instance(algorithm, Trial, name="algorithm")
    instance(state, TrialState, name="state", remedy="a trial starts with one, and absorb returns the next")
    entries = entries_of(algorithm, state, notes=notes)
    with StateFile.held(path) as file:
        file.replace(entries)


def load_state(
    path: str | Path,
    *,
    model: RewardModel | None = None,
    policies: PolicyClass | None = None,
    algorithm: Trial | None = None,
) -> tuple[Trial, TrialState]:
    """Return the algorithm and the state that `save_state` wrote.

    model, policies, algorithm: the user's own reward model, policy class or trial, if the state was made with one.
    """
    for own, kind, name in ((model, RewardModel, "model"), (algorithm, Trial, "algorithm")):
        if own is not None:
            instance(own, kind, name=name)
    if policies is not None:
        policies = check_class(policies)
    path = path_of(path)
    with StateFile.looked_at(path) as file:
        entries = file.entries()
    if not entries:
        raise InputError(f"{path} holds no saved state: it is empty")
    start = read_start(path, entries[0])
    with _reasoned():
        trial = _trial_from_json(start.json_object("algorithm"), given=algorithm, model=model)
        chosen = class_from_json(start["class"], policies)
    with usable(path):
        state = trial.start(chosen, read_rows(Contexts, entries[0]))
        return trial, replay(trial, state, entries[1:])


# The file.


class StoredRound(NamedTuple):
    """An entry of a file.

    body: JSON.
    rows: a Parquet file of the contexts, or of the log of a round.
    """

    body: str
    rows: bytes


@dataclass(frozen=True, eq=False)
class StateFile:
    """An open file of a trial; use it by `held` or `looked_at`."""

    path: Path
    connection: sqlite3.Connection

    @classmethod
    @contextmanager
    def held(cls, path: Path, *, patience_seconds: float = LOCK_PATIENCE_SECONDS) -> Generator[StateFile]:
        """Open a file to write to it, and lock it until the end of the block; it is created if needed."""
        with ExitStack() as stack:
            with _attempt(path):
                c = stack.enter_context(_connected(path, "rwc", patience_seconds))
                c.execute("PRAGMA locking_mode = EXCLUSIVE")  # keeps the lock of the first transaction
                c.execute("PRAGMA synchronous = EXTRA")  # a state that was saved survives a loss of power
                c.execute("BEGIN EXCLUSIVE")
                file = cls(path, c)
                with c:
                    if file._is_new():
                        c.execute(TABLE)
                        c.execute(f"PRAGMA application_id = {APPLICATION}")
                        c.execute(f"PRAGMA user_version = {FORMAT}")
            yield file

    @classmethod
    @contextmanager
    def looked_at(cls, path: Path, *, patience_seconds: float = LOCK_PATIENCE_SECONDS) -> Generator[StateFile]:
        """Open a file to read it."""
        with ExitStack() as stack:
            with _attempt(path):
                if not path.exists():
                    raise InputError(f"{path} holds no saved state: there is no such file")
                c = stack.enter_context(_connected(path, "rw", patience_seconds))  # sqlite falls back to reading alone
            yield cls(path, c)

    def entries(self) -> list[StoredRound]:
        """Return the entries in order, none for a new file; raise InputError for a damaged or foreign file."""
        found, head = list[StoredRound](), ""
        with _attempt(self.path):
            query = "SELECT number, body, rows, digest FROM entries ORDER BY number"
            for number, body, rows, seal in () if self._is_new() else self.connection.execute(query):
                whole = number == len(found) and isinstance(body, str) and isinstance(rows, bytes)
                head = digest([head, body, rows]) if whole else ""
                if not whole or seal != head:
                    raise _unusable(self.path, f"its entry {len(found)} was altered or damaged")
                found.append(StoredRound(body, rows))
        return found

    def replace(self, entries: Sequence[StoredRound], *, first: int = 0) -> None:
        """Replace the entries from the number `first` on, in one transaction; the file must be held."""
        with _attempt(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            with self.connection as c:
                before = c.execute("SELECT digest FROM entries WHERE number = ?", (first - 1,)).fetchone()
                head = before[0] if first else ""
                c.execute("DELETE FROM entries WHERE number >= ?", (first,))
                for number, (body, rows) in enumerate(entries, first):
                    head = digest([head, body, rows])
                    c.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (number, body, rows, head))

    def _is_new(self) -> bool:
        """Return whether there is nothing in the file; raise InputError unless it is of this package and format."""
        schema = [sql for (sql,) in self.connection.execute("SELECT sql FROM sqlite_master")]
        if not schema:
            return True
        (application,), (version,) = (
            self.connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
        )
        if application != APPLICATION:
            raise _foreign(self.path)
        if version > FORMAT:
            raise newer_format(f"{self.path}", version, latest=FORMAT)
        if version < FORMAT:
            raise InputError(
                f"{self.path} has format {version}, and this version reads format {FORMAT}; finish it with the version "
                "that wrote it, or begin anew in another file"
            )
        if schema != [TABLE]:
            raise _unusable(self.path, "its table was altered")
        return False


def _connected(path: Path, mode: str, patience_seconds: float) -> closing[sqlite3.Connection]:
    """Open a database; mode: rw, or rwc to create it."""
    try:
        path.lstat()
    except FileNotFoundError:
        if mode == "rwc":
            path.parent.mkdir(parents=True, exist_ok=True)
    except ValueError:  # a path with a null character
        raise InputError(f"cannot use {path}: there can be no such file") from None
    if path.is_dir() and (path / "state.json").exists():
        raise InputError(
            f"{path} is a folder with a state of an earlier version, and a state is one file now; finish it with the "
            "version that wrote it, or begin anew in a file"
        )
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is a folder, a pipe or a device; name a file")
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=patience_seconds))


@contextmanager
def _attempt(path: Path) -> Generator[None]:
    """Turn an error of SQLite or the operating system into an InputError that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name in ("SQLITE_BUSY", "SQLITE_LOCKED"):
            raise InputError(
                f"{path} is in use: another process or thread runs, saves or loads a trial there; wait until it has "
                "ended, or take another file"
            ) from None
        if name == "SQLITE_NOTADB":
            raise _foreign(path) from None
        if isinstance(error, sqlite3.OperationalError):
            raise InputError(f"cannot use {path}: {plain(error)}") from None
        raise _unusable(path, plain(error)) from None
    except OSError as error:
        raise InputError(f"cannot use {path}: {error.strerror or error}") from None


def _foreign(path: Path) -> InputError:
    return InputError(f"{path} is not a saved state of this package; take another file")


def _unusable(path: Path, why: str) -> InputError:
    return InputError(f"{path} cannot be resumed: {why}; restore it from a copy, or begin anew in another file")


@contextmanager
def usable(path: Path) -> Generator[None]:
    """Turn any error that the contents of a file cause into an InputError of one line that names it."""
    try:
        with _reasoned():
            yield
    except InputError as error:
        raise _unusable(path, str(error)) from None


@contextmanager
def _reasoned() -> Generator[None]:
    """Turn any error that invalid content causes into an InputError of one short line."""
    try:
        yield
    except InputError as error:
        raise InputError(plain(error, most=MAX_REASON_CHARACTERS)) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise InputError(f"it lacks what it should hold ({type(error).__name__}: {plain(error)})") from None


# The entries of a state.


def entries_of(
    algorithm: Trial, state: TrialState, *, first: int = 0, notes: Mapping[str, Any] | None = None
) -> list[StoredRound]:
    """Return the entries of a state from the number `first` on; raise InputError if they could not be read again.

    notes: stored in entry 0.
    """
    if len(state.plans) != state.round_number:
        raise InputError("the state is not one that absorb returned: the plans of its rounds are missing")
    if state.log is not None and state.log.repeats.max() >= MAX_REPEATS_OF_A_ROW:
        raise InputError(f"a row that occurred {state.log.repeats.max():.3g} times cannot be saved; at most 2^53 can")
    _check_model(state)
    found = list[StoredRound]()
    for number in range(first, state.round_number + 1):
        file = io.BytesIO()
        if number == 0:
            body = {
                "algorithm": describe_algorithm(algorithm),
                "class": class_to_json(state.policies),
                "notes": dict(notes or {}),
            }
            state.contexts.write(file)
        else:
            assert state.log is not None
            body = _describe_round(state, number)
            state.log.only(state.log.rounds == number - 1).write(file)
        try:
            text = json_text(body, default=plain_number)
            parse_json(text, name="the state")
        except InputError as error:
            raise InputError(f"the state cannot be saved: {error}; take a smaller policy class, or no file") from None
        except (TypeError, ValueError, RecursionError) as error:
            words = "the state cannot be saved, as something in it has no form in JSON"
            raise InputError(f"{words}: {plain(error)}") from None
        found.append(StoredRound(text, file.getvalue()))
    return found


def _check_model(state: TrialState) -> None:
    """Raise unless a model of the user's own, fitted again before the last round, repeats its predictions of it."""
    log, predictions = state.log, state.predictions
    if log is None or predictions is None or state.round_number < 2 or can_be_made_again(state.model):
        return
    last = log.rounds == log.rounds.max()
    again = state.model.fit(log.only(~last)).predict(log.only(last).contexts)
    if not np.allclose(again, predictions[last], rtol=0, atol=MAX_PREDICTION_ROUNDING):
        raise InputError(
            "the reward model, fitted again to the same rows, predicts otherwise than before; it must be the same "
            "model, and give the same each time (fix its random_state)"
        )


def _describe_round(state: TrialState, number: int) -> Json:
    """Serialise the plan and the figures of a round; a sampler or pool of the round before is None."""
    begun = 0 if state.pilot is None else state.pilot.rounds
    if state.pilot is not None and number <= begun:
        return {"pilot": state.pilot.to_json(), "figures": _numbers(state.history[number - 1])}
    plan = state.plans[number - 1]
    now, before = plan.exploration, state.plans[number - 2].exploration if number > begun + 1 else None
    design = None if before is not None and before.sampler is now.sampler else _design_of(now.sampler)
    pool = None if before is not None and before.pool is now.pool else now.pool
    some = () if design is None else (design.reference, *design.support)
    policies = {id(one): one for one in (*some, *(pool or ()))}
    places = {key: place for place, key in enumerate(policies)}
    body: Json = {
        "samples": plan.samples,
        "oracle_calls": plan.oracle_calls,
        "details": dict(plan.details),
        "scale": plan.scale,
        "price": now.price,
        "since": now.since,
        "policies": [one.to_json() for one in policies.values()],
        "pool": None if pool is None else [places[id(one)] for one in pool],
        "design": None,
        "figures": _numbers(state.history[number - 1]),
    }
    if design is not None:
        body["design"] = {
            "support": [places[id(one)] for one in design.support],
            "weights": design.weights.tolist(),
            "reference": places[id(design.reference)],
            "floor": design.floor,
            "smoothing": design.smoothing,
            "even_share": design.even_share,
            "noisy": isinstance(now.sampler, NoisyDesign),
        }
    return body


def _design_of(sampler: Sampler) -> Design:
    design = sampler.design if isinstance(sampler, NoisyDesign) else sampler
    if not isinstance(design, Design):
        raise InputError(
            f"a state that was played by a {type(sampler).__name__} cannot be saved, as files describe nothing but "
            "designs (pacbandits.Design)"
        )
    return design


def _numbers(figures: Details) -> dict[str, float | int]:
    return {name: value for name, value in figures.items() if not isinstance(value, str)}


# The state of entries.


def read_start(path: Path, entry: StoredRound) -> Fields:
    """Return the fields of entry 0."""
    with usable(path):
        return Fields.read(parse_json(entry.body, name="its entry 0"), of="start")


def read_rows(kind: type[Table], entry: StoredRound) -> Table:
    """Return the contexts or the log of an entry."""
    path = None
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rows.parquet")
            path.write_bytes(entry.rows)
            return kind.read(path)
    except InputError as error:
        raise InputError(str(error).replace(str(path), "a table in it")) from None
    except OSError as error:
        raise InputError(f"a table in it cannot be unpacked: {plain(error.strerror or error)}") from None


def replay(
    algorithm: Trial,
    state: TrialState,
    rounds: Sequence[StoredRound],
    *,
    check: Callable[[TrialPlan, Log], None] | None = None,
) -> TrialState:
    """Return the state after these rounds.

    state: the starting one. check: is called with the plan and the log of each round before it is absorbed; rounds of
    a pilot, which come first, had no plan.
    """
    state, begun = _replay_pilot(algorithm, state, rounds)
    for number, entry in enumerate(rounds[begun:], begun + 1):
        given = Fields.read(parse_json(entry.body, name=f"its entry {number}"), of=f"round {number}")
        if state.finished:
            raise InputError(f"it has a round {number}, but the trial was over before")
        plan, log = _plan_of(given, algorithm, state), read_rows(Log, entry)
        if check is not None:
            check(plan, log)
        try:
            state = algorithm.absorb(state, plan, log)
        except InputError as error:
            raise InputError(f"round {number} does not come out as before: {error}") from None
        _check_figures(given, state, number)
    return state


def _replay_pilot(algorithm: Trial, state: TrialState, rounds: Sequence[StoredRound]) -> tuple[TrialState, int]:
    """Return the state after the rounds of a pilot, with which a trial may have begun, and their number."""
    bodies = [Fields.read(parse_json(entry.body, name="an entry"), of="round") for entry in rounds]
    begun = next((number for number, body in enumerate(bodies) if "pilot" not in body), len(bodies))
    if begun == 0:
        return state, 0
    record, log = CountedPilot.from_json(bodies[0]["pilot"]), read_rows(Log, rounds[0])
    for entry in rounds[1:begun]:
        log = log.followed_by(read_rows(Log, entry))
    if (record.rounds, record.rows) != (begun, len(log)) or not np.array_equal(np.unique(log.rounds), np.arange(begun)):
        raise InputError("it lacks rows of the pilot that it began with")
    log = check_pilot(log, state.policies, state.contexts)
    state = add_pilot(algorithm, state, ArrangedPilot(log, record))
    for number, body in enumerate(bodies[:begun], 1):
        _check_figures(body, state, number)
    return state, begun


def _check_figures(given: Fields, state: TrialState, number: int) -> None:
    """Raise unless the figures of a round are those of its entry."""
    before, now = given.json_object("figures"), _numbers(state.history[number - 1])
    for name in before | now:
        then, found = (float(of[name]) if name in of else math.nan for of in (before, now))
        if not math.isclose(then, found, rel_tol=MAX_FIGURE_ROUNDING, abs_tol=MAX_FIGURE_ROUNDING):
            raise InputError(
                f"round {number} does not come out as before: its {plain(name)} was {then:.9g}, and is {found:.9g} "
                "(a reward model that is another or differs from fit to fit can be the cause, or other versions of "
                "the numerical libraries)"
            )


def _plan_of(given: Fields, algorithm: Trial, state: TrialState) -> TrialPlan:
    """Return the plan of the next round; a model that weights actions is fitted to the rows before the round."""
    policies = [policy_from_json(one, state.policies) for one in given.items("policies")]
    closed = is_built_in(algorithm) and state.policies.checks_membership
    for one in policies:
        for_all = algorithm.improve_on is not None and constant_action(one) is not None  # control, or a candidate
        if one.n_actions != state.policies.n_actions or (closed and not (for_all or state.policies.has(one))):
            raise InputError(f"the {given.of} holds a policy that is not of its class")

    def pick(fields: Fields, name: str) -> tuple[Policy, ...]:
        return tuple(policies[place] for place in fields.whole_numbers(name, most=len(policies) - 1))

    now = state.current
    if now is None and None in (given["design"], given["pool"]):
        raise InputError(f"the {given.of} goes on with the design of a round before, and there is none")
    pool = now.pool if now is not None and given["pool"] is None else pick(given, "pool")
    if now is not None and given["design"] is None:
        sampler = now.sampler
    else:
        told = given.fields("design", of=f"design of {given.of}")
        support = pick(told, "support")
        design = Design(
            support,
            np.array(told.numbers("weights", shortest=len(support), longest=len(support)), dtype=np.float64),
            policies[told.whole_number("reference", most=len(policies) - 1)],
            floor=told.number("floor"),
            smoothing=told.number("smoothing"),
            even_share=told.number("even_share"),
        )
        sampler = NoisyDesign(design, state.fitted) if told.flag("noisy") else design
    details = given.json_object("details")
    if not all(type(value) in (int, float, str) for value in details.values()):
        raise InputError(f"the details of the {given.of} must be numbers or texts")
    return TrialPlan(
        round_number=state.round_number + 1,
        epsilon=algorithm.epsilon,
        sampler=sampler,
        samples=given.whole_number("samples", least=1),
        oracle_calls=given.whole_number("oracle_calls"),
        details=details,
        exploration=Exploration(
            sampler, given.number("price"), given.whole_number("since", most=state.samples), pool=pool
        ),
        scale=given.number("scale"),
    )


# The algorithm as JSON, and back.


def describe_algorithm(algorithm: Trial) -> Json:
    """Serialise the algorithm's name, options and reward model; raise InputError if they have no form in JSON."""
    if algorithm.name in TRIALS and not is_built_in(algorithm):
        raise InputError(
            f"the state of {type(algorithm).__name__} cannot be kept while it is called '{algorithm.name}', as a "
            "built-in trial is: it would be taken for that one; give it a name of its own"
        )
    options = {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)}
    model = None if algorithm.model is None else algorithm.model.to_json()
    try:
        return as_read({"name": algorithm.name, **options, "model": model, "rewards": asdict(algorithm.rewards)})
    except (TypeError, ValueError):
        raise InputError(
            f"the state of {algorithm.name} cannot be kept, as its options have no form in JSON: {plain(options)}"
        ) from None


def is_built_in(algorithm: Trial) -> bool:
    """Return whether a trial can be made again from its name."""
    return type(algorithm) is TRIALS.get(algorithm.name)


def _trial_from_json(described: Json, *, given: Trial | None, model: RewardModel | None) -> Trial:
    """Return the described algorithm; given, model: the user's own, which must match the description."""
    fields = Fields(described, of="algorithm")
    name, stored = fields.text("name"), fields["model"]
    if model is not None and as_read(model.to_json()) != stored:
        raise InputError(
            f"the state was made with the reward model {plain(stored)}, not {plain(model.to_json())}; pass the same"
        )
    if given is not None:
        own = describe_algorithm(given)
        if own["name"] != name:
            raise InputError(f"the state was made by '{plain(name)}', not by '{plain(own['name'])}'; pass the same")
        for option in {**described, **own}:
            before, now = described.get(option), own.get(option)
            if before != now:
                words = f"the state was made by '{plain(name)}' with {plain(option)} = {plain(before)}"
                raise InputError(f"{words}, not {plain(now)}; pass the same")
        return given
    if name not in TRIALS:
        raise InputError(
            f"the state was made by '{plain(name)}', an algorithm of your own{nearest(name, TRIALS)}; pass it again as "
            "algorithm=…"
        )
    if stored is not None and model is None:
        try:
            model = model_from_json(stored)
        except InputError:
            raise InputError(
                f"the state was made with a reward model of your own, {plain(stored)}, which is not stored; pass it "
                "again as model=…"
            ) from None
    bounds = fields.fields("rewards", of="rewards of the algorithm")
    rewards = RewardBounds(bounds.number("second_moment"), bounds.flag("in_unit"), bounds.number_or_null("proxy"))
    others = {option: value for option, value in described.items() if option not in ("name", "model", "rewards")}
    try:
        return TRIALS[name](**others, rewards=rewards, model=model)
    except TypeError:
        raise InputError(f"the options of the algorithm are not those of {name}") from None

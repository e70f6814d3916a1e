"""A folder of results: a row per run, measurements of cases, refusals, failures and a description.

    runs.parquet    all rows, in the order of their keys
    parts/          rows of a command that goes on, or was killed; they count, and the next command puts them together
    suite.json      suites, commands and environments
    facts.json      of each case
    misfits.json    who refused which case, and why
    failed.json     runs that ended in an error, which the next command tries again

Files are replaced as a whole, so whatever ends a command leaves the folder as it was before or after the last file.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from pacbandits.benchmark.cases import Case, Entry, Role, Task
from pacbandits.benchmark.descriptions import Description
from pacbandits.benchmark.facts import CaseFacts
from pacbandits.benchmark.rows import Row
from pacbandits.benchmark.tables import bytes_of, join, read_table, rows_of, table_of, without_lists
from pacbandits.checks import path_of
from pacbandits.errors import InputError
from pacbandits.fields import Fields, Json
from pacbandits.json_files import json_text, read_json
from pacbandits.records.files import naming
from pacbandits.trials.disk import PART, Disk, put_whole
from pacbandits.trials.locks import LOCK_PATIENCE_SECONDS, held_alone

RUNS, PARTS, SUITE, FACTS = "runs.parquet", "parts", "suite.json", "facts.json"
MISFITS, FAILED, LOCK = "misfits.json", "failed.json", "bench.lock"
OWN = (RUNS, PARTS, SUITE, FACTS, MISFITS, FAILED, LOCK)

Made = TypeVar("Made")


@dataclass(frozen=True)
class Misfit:
    """An algorithm that refused a case.

    suite, case: which.
    algorithm: its spec.
    words: why, in its own words.
    """

    suite: str
    case: str
    algorithm: str
    words: str


@dataclass(frozen=True)
class Failure:
    """A run that ended in an error of ours, or the measurement of a case: then suite and algorithm are empty.

    suite, case, algorithm, seed: which.
    words: the last line of the traceback.
    """

    suite: str
    case: str
    algorithm: str
    seed: int
    words: str


def task_of(row: Row) -> Task:
    """What was asked of a row; `playing.play` gives the row again, but for the clock."""
    case = Case(
        row.case, row.problem, row.epsilon, row.delta, row.most, row.policies, row.growth, certified=row.certified
    )
    return Task(row.suite, case, Entry(row.entry, row.algorithm, cast(Role, row.role)), row.seed)


@dataclass(frozen=True, eq=False)
class Results:
    """The folder of results at a path.

    path: where it is.
    disk: what writes to it.
    patience_seconds: for how long one waits when another command uses it.
    """

    path: Path
    disk: Disk = field(default_factory=Disk)
    patience_seconds: float = LOCK_PATIENCE_SECONDS

    @classmethod
    def at(cls, folder: str | Path) -> Results:
        """The folder of that name."""
        return cls(path_of(folder, name="folder"))

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep other commands from the folder, which is made unless it is there; a sentence where others use it."""
        with ExitStack() as stack:
            with self._attempt():
                self._check_ours()
                (self.path / PARTS).mkdir(parents=True, exist_ok=True)
                words = "another command plays a benchmark into it"
                lock = held_alone(self.path / LOCK, patience_seconds=self.patience_seconds, in_use=words)
                stack.enter_context(lock)
                for place in (self.path, self.path / PARTS):  # what a command that was killed has begun to write
                    for one in [one for one in place.iterdir() if PART.fullmatch(one.name)]:
                        self.disk.remove(one)
            yield

    def empty(self) -> None:
        """Remove all results; the folder must be held."""
        with self._attempt():
            for name in OWN:
                if name not in (PARTS, LOCK):
                    self.disk.remove(self.path / name)
            shutil.rmtree(self.path / PARTS)
            (self.path / PARTS).mkdir()

    def table(self) -> Any:
        """All rows, as an Arrow table; also while a command adds to them."""
        # Parts first: those that vanish meanwhile are in the whole table, which is read last.
        found = [table for path in self._parts() if (table := _if_there(path)) is not None]
        whole = _if_there(self.path / RUNS)
        return join(found if whole is None else [whole, *found])

    def asked(self) -> list[Row]:
        """All rows without their lists, which takes little memory."""
        return rows_of(without_lists(self.table()))

    def add(self, rows: Sequence[Row]) -> None:
        """Keep some more rows."""
        if rows:
            self._put(f"{PARTS}/{secrets.token_hex(8)}.parquet", bytes_of(table_of(rows)))

    def compact(self) -> None:
        """Put all rows into one file; the folder must be held."""
        parts = self._parts()
        if parts:
            self._put(RUNS, bytes_of(self.table()))
            with self._attempt():
                self.disk.flush_folder(self.path)
                for path in parts:
                    self.disk.remove(path)

    def describe(self, description: Description) -> None:
        """Write suite.json."""
        self._put(SUITE, description.to_json())

    def put_facts(self, facts: Iterable[CaseFacts]) -> None:
        """Write facts.json."""
        self._put(FACTS, {"facts": [one.to_json() for one in sorted(facts, key=lambda one: one.case)]})

    def put_misfits(self, misfits: Iterable[Misfit]) -> None:
        """Write misfits.json."""
        self._put(MISFITS, {"misfits": sorted(map(asdict, misfits), key=_by_name)})

    def put_failures(self, failures: Iterable[Failure]) -> None:
        """Write failed.json."""
        self._put(FAILED, {"failed": sorted(map(asdict, failures), key=_by_name)})

    def _put(self, name: str, value: Json | bytes) -> None:
        """Replace a file as a whole."""
        data = value if isinstance(value, bytes) else (json_text(value, indent=2) + "\n").encode()
        with self._attempt():
            put_whole(self.disk, self.path / name, data)

    @contextmanager
    def _attempt(self) -> Generator[None]:
        """Say in a sentence what the system will not let one do."""
        try:
            yield
        except OSError as error:
            raise InputError(f"cannot write to {self.path}: {error.strerror or error}") from None

    def _parts(self) -> list[Path]:
        return sorted((self.path / PARTS).glob("*.parquet"))

    def _check_ours(self) -> None:
        """Raise where the path is no folder, or one that holds other things."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise InputError(f"{self.path} is a file; name a folder for results")
        names = sorted(one.name for one in self.path.iterdir() if not PART.fullmatch(one.name))
        if (self.path / SUITE).exists() or set(names) <= set(OWN):
            return
        other = next(name for name in names if name not in OWN)
        raise InputError(f"{self.path} holds other things ('{other}'); take a new folder for results")


def read_rows(folder: str | Path) -> list[Row]:
    """All runs of a folder, in the order of suite, case, algorithm and seed.

    Raises:
        InputError: When there are none, or the folder holds something else; it says which.
    """
    rows = rows_of(_existing(folder).table())
    if not rows:
        raise InputError(f"{folder} holds no runs yet; play some: pacbandits bench quick --out {folder}")
    return rows


def read_description(folder: str | Path) -> Description:
    """Which suites were played into a folder, by which commands."""
    path = _existing(folder).path / SUITE
    with naming(path):
        return Description.from_json(read_json(path))


def read_facts(folder: str | Path) -> list[CaseFacts]:
    """What theory says of the cases in a folder; nothing of those that it does not know yet."""
    return _listed(folder, FACTS, "facts", CaseFacts.from_json)


def read_misfits(folder: str | Path) -> list[Misfit]:
    """Which algorithms refused which cases."""
    return _listed(folder, MISFITS, "misfits", lambda one: Misfit(**_which(one, of="misfit")))


def read_failures(folder: str | Path) -> list[Failure]:
    """Which runs ended in an error."""

    def failure(value: object) -> Failure:
        given = Fields.read(value, of="failure")
        rest = {name: one for name, one in given.given.items() if name != "seed"}
        return Failure(**_which(rest, of="failure"), seed=given.whole_number("seed"))

    return _listed(folder, FAILED, "failed", failure)


def _by_name(one: Json) -> tuple[object, ...]:
    return tuple(one.get(name) for name in ("suite", "case", "algorithm", "seed"))


def _which(value: object, *, of: str) -> dict[str, str]:
    given, names = Fields.read(value, of=of), ("suite", "case", "algorithm", "words")
    given.check_known(names)
    return {name: given.text(name) for name in names}


def _listed(folder: str | Path, name: str, key: str, make: Callable[[object], Made]) -> list[Made]:
    """What a file of a folder lists; nothing where there is no such file."""
    path = _existing(folder).path / name
    if not path.exists():
        return []
    with naming(path):
        given = Fields.read(read_json(path), of=f"file of {key}")
        given.check_known((key,))
        return [make(one) for one in given.items(key)]


def _existing(folder: str | Path) -> Results:
    """The folder of results of that name, if it is one."""
    found = Results.at(folder)
    if not found.path.is_dir():
        raise InputError(f"there is no folder {folder}; make one: pacbandits bench quick --out {folder}")
    if not any((found.path / name).exists() for name in (SUITE, RUNS)):
        raise InputError(f"{folder} holds no results of a benchmark; name the folder of pacbandits bench --out")
    return found


def _if_there(path: Path) -> Any | None:
    """The table in a file that may have been put together with others by now."""
    if not path.exists():
        return None
    try:
        return read_table(path)
    except InputError as error:
        with suppress(OSError):
            if not path.exists():
                return None
        raise InputError(f"{error}; remove that file, and its runs are played again") from None

"""A folder of results: a row per run, measurements of cases, refusals, failures and a description.

    runs.parquet    all rows, sorted by key
    parts/          rows of a running or killed command; they count, and the next command merges them
    suite.json      suites, commands and environments
    facts.json      measurements of each case
    misfits.json    algorithms that refused a case, and why
    failed.json     runs that ended in an error, which the next command tries again

Files are replaced atomically: a command that is killed leaves the folder as it was before or after the last file.
"""

from __future__ import annotations

import math
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, TypeVar, cast

from pacbandits.benchmark.atomic_files import LOCK_PATIENCE_SECONDS, PART, Disk, held_alone, put_whole
from pacbandits.benchmark.cases import (
    Case,
    Entry,
    Role,
    Row,
    Task,
    bytes_of,
    join,
    read_table,
    rows_of,
    table_of,
    without_lists,
)
from pacbandits.benchmark.suites import Suite
from pacbandits.checks import path_of
from pacbandits.complexity import Complexity
from pacbandits.complexity.measure import TooLongError, measure_in_time
from pacbandits.errors import InputError
from pacbandits.problems import Problem
from pacbandits.records.text_files import naming
from pacbandits.schema import Fields, Json, format_text, json_text, read_format, read_json, text
from pacbandits.version import __version__

# Measure a case: ρ of the best design and of uniform exploration, and sample-complexity bounds.


PATIENCE_SECONDS = 300.0  # for the measurement of one case
_INFINITE = "Infinity"  # in JSON


@dataclass(frozen=True)
class CaseFacts:
    """Measurements of a case. Missing ones are None, and `words` says why.

    case: the name of the case.
    problem, policies, epsilon, delta: of the case.
    n_contexts, n_actions: their numbers.
    n_policies: |Π|, for a class that can be listed.
    log_size: log|Π|, or an upper bound on it.
    law: of rewards around their means: Gaussian, Bernoulli or other.
    min_gap: the smallest gap of a policy that is not the best.
    rho_lower, rho_upper: a bracket on ρ, the complexity of the case for the best design, at ε.
    uniform_lower, uniform_upper: a bracket on the same quantity for uniform exploration.
    sigma_lower, sigma_upper, sigma_uniform_lower, sigma_uniform_upper: the same with actions weighted by their noise.
    lower_bound: on the samples of any algorithm; None where it is not a theorem.
    union_price, union_price_uniform: samples by a union bound over the class, for the best design and the uniform one.
    minimax_bound: samples that suffice for any problem of this size, with constant 1.
    seconds: the time of the measurement.
    words: why numbers are missing; empty if they are not.
    """

    case: str
    problem: str
    policies: str
    epsilon: float
    delta: float
    n_contexts: int
    n_actions: int
    n_policies: int | None
    log_size: float
    law: str | None = None
    min_gap: float | None = None
    rho_lower: float | None = None
    rho_upper: float | None = None
    uniform_lower: float | None = None
    uniform_upper: float | None = None
    sigma_lower: float | None = None
    sigma_upper: float | None = None
    sigma_uniform_lower: float | None = None
    sigma_uniform_upper: float | None = None
    lower_bound: float | None = None
    union_price: float | None = None
    union_price_uniform: float | None = None
    minimax_bound: float | None = None
    seconds: float = 0.0
    words: str = ""

    @property
    def uniform_over_best(self) -> tuple[float, float] | None:
        """A bracket on uniform exploration's ρ over the optimum's; None if unknown."""
        return _ratio(self.uniform_lower, self.uniform_upper, self.rho_lower, self.rho_upper)

    @property
    def sigma_uniform_over_best(self) -> tuple[float, float] | None:
        """The same for ρ_σ, with actions weighted by their noise."""
        return _ratio(self.sigma_uniform_lower, self.sigma_uniform_upper, self.sigma_lower, self.sigma_upper)

    def is_of(self, case: Case) -> bool:
        """Whether these are measurements of that very case, and not of another with its name."""
        asked = (case.name, case.problem, case.policies, case.epsilon, case.delta)
        return asked == (self.case, self.problem, self.policies, self.epsilon, self.delta)

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values; the ratios are for other readers."""
        own = {name: _plain(value) for name, value in asdict(self).items()}
        ratios = {"uniform_over_best": self.uniform_over_best, "sigma_uniform_over_best": self.sigma_uniform_over_best}
        return own | {name: None if pair is None else [_plain(x) for x in pair] for name, pair in ratios.items()}

    @classmethod
    def from_json(cls, value: object) -> CaseFacts:
        """Read what `to_json` wrote."""
        given = Fields.read(value, of="facts of a case")
        known = [field.name for field in fields(cls)]
        given.check_known([*known, "uniform_over_best", "sigma_uniform_over_best"])
        made: dict[str, Any] = {name: given.text(name) for name in ("case", "problem", "policies", "words")}
        made |= {name: given.whole_number(name, least=1) for name in ("n_contexts", "n_actions")}
        made |= {name: given.number(name, least=0) for name in ("epsilon", "delta", "log_size", "seconds")}
        made["n_policies"] = None if given["n_policies"] is None else given.whole_number("n_policies")
        made["law"] = None if given["law"] is None else given.text("law")
        rest = [name for name in known if name not in made]
        made |= {name: math.inf if given[name] == _INFINITE else given.number_or_null(name) for name in rest}
        return cls(**made)


def find_facts(case: Case, *, patience_seconds: float = PATIENCE_SECONDS) -> CaseFacts:
    """Measure a case; return its sizes alone if that takes longer than `patience_seconds` or is impossible."""
    problem, epsilon, delta = case.load(), case.epsilon, case.delta
    try:
        found = measure_in_time(patience_seconds, problem, problem.policies, epsilon=epsilon, delta=delta)
    except TooLongError:
        return _sizes(case, problem, words=f"to measure it takes more than {patience_seconds:,.0f} s")
    except InputError as error:
        return _sizes(case, problem, words=str(error))
    return _measured(case, problem, found)


def _sizes(case: Case, problem: Problem, *, words: str = "", **numbers: Any) -> CaseFacts:
    policies = problem.policies
    return CaseFacts(
        case.name,
        case.problem,
        case.policies,
        case.epsilon,
        case.delta,
        n_contexts=len(problem.population),
        n_actions=policies.n_actions,
        n_policies=numbers.pop("n_policies", None),
        log_size=policies.log_size,
        words=words,
        **numbers,
    )


def _measured(case: Case, problem: Problem, found: Complexity) -> CaseFacts:
    notes = [found.notes[name] for name in ("lower_bound",) if found.lower_bound is None and name in found.notes]
    return _sizes(
        case,
        problem,
        words=" ".join(notes),
        n_policies=found.n_policies,
        law=found.law.value,
        min_gap=found.min_gap,
        rho_lower=found.rho.lower,
        rho_upper=found.rho.upper,
        uniform_lower=found.rho.uniform_lower,
        uniform_upper=found.rho.uniform,
        sigma_lower=found.rho_sigma.lower,
        sigma_upper=found.rho_sigma.upper,
        sigma_uniform_lower=found.rho_sigma.uniform_lower,
        sigma_uniform_upper=found.rho_sigma.uniform,
        lower_bound=found.lower_bound,
        union_price=found.union_price,
        union_price_uniform=found.union_price_uniform,
        minimax_bound=found.minimax_bound,
        seconds=found.seconds,
    )


def _ratio(
    low: float | None, high: float | None, least: float | None, most: float | None
) -> tuple[float, float] | None:
    """Return the ends of [low, high] / [least, most]."""
    if low is None or high is None or least is None or most is None or not 0 < least <= most < math.inf:
        return None
    return low / most, high / least


def _plain(value: Any) -> Any:
    return _INFINITE if value == math.inf else value


# The description of a folder of results: suites, commands and environments.


FORMAT = 1  # of the folder (docs/stability.md)
MAX_SESSIONS = 1_000  # recorded at most
PACKAGES = ("numpy", "scipy", "numba", "pyarrow")
Key = tuple[str, str, str, int]  # of a task
ROLES: tuple[Role, ...] = ("default", "tuned")


def environment() -> dict[str, str]:
    """Return the versions and hardware that wall times depend on, without anything that identifies the machine."""
    return {
        "pacbandits": __version__,
        "Python": platform.python_version(),
        **{name: version_of(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count() or 1),
    }


@dataclass(frozen=True)
class Selection:
    """The runs that a command was asked to play.

    suite: its name.
    cases, entries: of the suite, by name and by spec.
    seeds: the number of runs of each.
    """

    suite: str
    cases: tuple[str, ...]
    entries: tuple[str, ...]
    seeds: int

    @classmethod
    def of(cls, suite: Suite) -> Selection:
        """Return the selection of a suite, which may be a part of the full one."""
        return cls(
            suite.name, tuple(one.name for one in suite.cases), tuple(one.spec for one in suite.entries), suite.seeds
        )

    def within(self, whole: Suite) -> Suite:
        """Return the selected part of a suite."""
        return replace(
            whole,
            cases=tuple(one for one in whole.cases if one.name in self.cases),
            entries=tuple(one for one in whole.entries if one.spec in self.entries),
            seeds=self.seeds,
        )


@dataclass(frozen=True)
class BenchmarkSession:
    """A command that played runs into the folder.

    command: as typed; of the folder only the last name.
    began: when, in UTC.
    environment: where it ran, by `environment`.
    runs: the number played; 0 for one that was killed, whose runs are there all the same.
    seconds: its duration.
    peak_memory_bytes: of its largest process; None if the system does not report it.
    asked: its selection; None if that was not recorded.
    """

    command: str
    began: str
    environment: Mapping[str, str]
    runs: int = 0
    seconds: float = 0.0
    peak_memory_bytes: int | None = None
    asked: Selection | None = None


@dataclass(frozen=True)
class Description:
    """The description of a folder of results.

    version: of the package that played; the same for all runs of a folder.
    suites: by name, as they were last played.
    sessions: the commands, in order.
    """

    version: str = __version__
    suites: Mapping[str, Suite] = field(default_factory=dict[str, Suite])
    sessions: tuple[BenchmarkSession, ...] = ()

    def with_suite(self, suite: Suite) -> Description:
        """Return the same with a suite, merged with the cases, entries and seeds that earlier commands played."""
        before = self.suites.get(suite.name, suite)
        whole = replace(
            suite,
            cases=tuple({one.name: one for one in (*before.cases, *suite.cases)}.values()),
            entries=tuple({one.spec: one for one in (*before.entries, *suite.entries)}.values()),
            seeds=max(suite.seeds, before.seeds),
        )
        return replace(self, suites={**self.suites, suite.name: whole})

    def with_session(self, session: BenchmarkSession) -> Description:
        """Return the same after one more command."""
        return replace(self, sessions=(*self.sessions, session)[-MAX_SESSIONS:])

    def wanted(self) -> frozenset[Key]:
        """Return the keys of all runs that the commands were asked to play."""
        asked = [one.asked for one in self.sessions if one.asked is not None and one.asked.suite in self.suites]
        known = bool(asked) and len(asked) == len(self.sessions)
        parts = [one.within(self.suites[one.suite]) for one in asked] if known else self.suites.values()
        return frozenset(task.key for part in parts for task in part.tasks())

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {
            "format": format_text("benchmark", FORMAT),
            "version": self.version,
            "suites": [asdict(suite) for suite in self.suites.values()],
            "sessions": [asdict(session) for session in self.sessions],
        }

    @classmethod
    def from_json(cls, value: object) -> Description:
        """Read what `to_json` wrote."""
        given = Fields.read(value, of="description of results")
        read_format(given.given, "benchmark", latest=FORMAT)
        given.check_known(("format", "version", "suites", "sessions"))
        suites = [_suite(Fields.read(one, of="suite")) for one in given.items("suites")]
        sessions = [_session(Fields.read(one, of="session")) for one in given.items("sessions", most=MAX_SESSIONS)]
        return cls(given.text("version"), {suite.name: suite for suite in suites}, tuple(sessions))


def case_of(given: Fields) -> Case:
    """Return a case from its fields."""
    return Case(
        given.text("name"),
        given.text("problem"),
        given.number("epsilon"),
        given.number("delta"),
        given.whole_number("most", least=1),
        given.text("policies"),
        given.number("growth"),
        given.flag("certified"),
    )


def _suite(given: Fields) -> Suite:
    later = ("tuned_on_dear", "screened")  # without them, neither is done
    given.check_known(("name", "description", "cases", "entries", "seeds", "dear", "dear_seeds", *later))
    cases = tuple(case_of(Fields.read(one, of="case")) for one in given.items("cases"))
    entries = tuple(_entry(Fields.read(one, of="entry")) for one in given.items("entries"))
    return Suite(
        given.text("name"),
        given.text("description"),
        cases,
        entries,
        given.whole_number("seeds"),
        given.texts("dear"),
        given.whole_number("dear_seeds"),
        *(given.flag(name) if name in given.given else False for name in later),
    )


def _entry(given: Fields) -> Entry:
    given.check_known(("name", "spec", "role"))
    return Entry(given.text("name"), given.text("spec"), cast(Role, given.one_of("role", ROLES)))


def _session(given: Fields) -> BenchmarkSession:
    where = given.json_object("environment")
    return BenchmarkSession(
        given.text("command"),
        given.text("began"),
        {name: text(value, name=f"the environment's '{name}'") for name, value in where.items()},
        given.whole_number("runs"),
        given.number("seconds", least=0),
        None if given["peak_memory_bytes"] is None else given.whole_number("peak_memory_bytes"),
        None if given.given.get("asked") is None else _selection(given.fields("asked", of="selection")),
    )


def _selection(given: Fields) -> Selection:
    given.check_known(("suite", "cases", "entries", "seeds"))
    return Selection(given.text("suite"), given.texts("cases"), given.texts("entries"), given.whole_number("seeds"))


RUNS, PARTS, SUITE, FACTS = "runs.parquet", "parts", "suite.json", "facts.json"
MISFITS, FAILED, LOCK = "misfits.json", "failed.json", "bench.lock"
OWN = (RUNS, PARTS, SUITE, FACTS, MISFITS, FAILED, LOCK)

Made = TypeVar("Made")


@dataclass(frozen=True)
class Misfit:
    """An algorithm that refused a case.

    suite, case: which.
    algorithm: its spec.
    words: why, as its message says.
    """

    suite: str
    case: str
    algorithm: str
    words: str


@dataclass(frozen=True)
class Failure:
    """A run, or the measurement of a case (with empty suite and algorithm), that ended in an error of ours.

    suite, case, algorithm, seed: which.
    words: the last line of the traceback.
    """

    suite: str
    case: str
    algorithm: str
    seed: int
    words: str


def task_of(row: Row) -> Task:
    """Return the task of a row; `runs.play` reproduces the row from it, except for wall times."""
    case = Case(
        row.case, row.problem, row.epsilon, row.delta, row.most, row.policies, row.growth, certified=row.certified
    )
    return Task(row.suite, case, Entry(row.entry, row.algorithm, cast(Role, row.role)), row.seed)


@dataclass(frozen=True, eq=False)
class Results:
    """The folder of results at a path.

    path: its path.
    disk: writes to it.
    patience_seconds: how long to wait while another command uses it.
    """

    path: Path
    disk: Disk = field(default_factory=Disk)
    patience_seconds: float = LOCK_PATIENCE_SECONDS

    @classmethod
    def at(cls, folder: str | Path) -> Results:
        """Return the folder at a path."""
        return cls(path_of(folder, name="folder"))

    @contextmanager
    def held(self) -> Generator[None]:
        """Lock the folder exclusively, creating it if needed; raise InputError if others use it."""
        with ExitStack() as stack:
            with self._attempt():
                self._check_ours()
                (self.path / PARTS).mkdir(parents=True, exist_ok=True)
                words = "another command plays a benchmark into it"
                lock = held_alone(self.path / LOCK, patience_seconds=self.patience_seconds, in_use=words)
                stack.enter_context(lock)
                for place in (self.path, self.path / PARTS):  # incomplete files of a command that was killed
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
        """Return all rows as an Arrow table; also while a command adds to them."""
        # Parts first: those that vanish meanwhile are in the merged table, which is read last.
        found = [table for path in self._parts() if (table := _if_there(path)) is not None]
        whole = _if_there(self.path / RUNS)
        return join(found if whole is None else [whole, *found])

    def asked(self) -> list[Row]:
        """Return all rows without their lists, which takes little memory."""
        return rows_of(without_lists(self.table()))

    def add(self, rows: Sequence[Row]) -> None:
        """Save more rows."""
        if rows:
            self._put(f"{PARTS}/{secrets.token_hex(8)}.parquet", bytes_of(table_of(rows)))

    def compact(self) -> None:
        """Merge all rows into one file; the folder must be held."""
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
        """Replace a file atomically."""
        data = value if isinstance(value, bytes) else (json_text(value, indent=2) + "\n").encode()
        with self._attempt():
            put_whole(self.disk, self.path / name, data)

    @contextmanager
    def _attempt(self) -> Generator[None]:
        """Turn an error of the operating system into an InputError that names the folder."""
        try:
            yield
        except OSError as error:
            raise InputError(f"cannot write to {self.path}: {error.strerror or error}") from None

    def _parts(self) -> list[Path]:
        return sorted((self.path / PARTS).glob("*.parquet"))

    def _check_ours(self) -> None:
        """Raise if the path is not a folder, or one that holds other things."""
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
    """Return all runs of a folder, sorted by suite, case, algorithm and seed.

    Raises:
        InputError: If there are none, or the folder holds something else; the message says which.
    """
    rows = rows_of(_existing(folder).table())
    if not rows:
        raise InputError(f"{folder} holds no runs yet; play some: pacbandits bench quick --out {folder}")
    return rows


def read_description(folder: str | Path) -> Description:
    """Return the suites and commands that were played into a folder."""
    path = _existing(folder).path / SUITE
    with naming(path):
        return Description.from_json(read_json(path))


def read_facts(folder: str | Path) -> list[CaseFacts]:
    """Return the measurements of the cases in a folder, as far as they are done."""
    return _listed(folder, FACTS, "facts", CaseFacts.from_json)


def read_misfits(folder: str | Path) -> list[Misfit]:
    """Return the algorithms that refused a case."""
    return _listed(folder, MISFITS, "misfits", lambda one: Misfit(**_which(one, of="misfit")))


def read_failures(folder: str | Path) -> list[Failure]:
    """Return the runs that ended in an error."""

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
    """Return the entries of a file in a folder; none if there is no such file."""
    path = _existing(folder).path / name
    if not path.exists():
        return []
    with naming(path):
        given = Fields.read(read_json(path), of=f"file of {key}")
        given.check_known((key,))
        return [make(one) for one in given.items(key)]


def _existing(folder: str | Path) -> Results:
    """Return the folder of results of that name; raise InputError if it is not one."""
    found = Results.at(folder)
    if not found.path.is_dir():
        raise InputError(f"there is no folder {folder}; make one: pacbandits bench quick --out {folder}")
    if not any((found.path / name).exists() for name in (SUITE, RUNS)):
        raise InputError(f"{folder} holds no results of a benchmark; name the folder of pacbandits bench --out")
    return found


def _if_there(path: Path) -> Any | None:
    """Read the table in a file; None if the file has been merged with others meanwhile."""
    if not path.exists():
        return None
    try:
        return read_table(path)
    except InputError as error:
        with suppress(OSError):
            if not path.exists():
                return None
        raise InputError(f"{error}; remove that file, and its runs are played again") from None

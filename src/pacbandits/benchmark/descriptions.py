"""The description of a folder of results: suites, commands and environments."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version as version_of
from typing import cast

from pacbandits.benchmark.cases import Case, Entry, Role
from pacbandits.benchmark.suites import Suite
from pacbandits.errors import InputError
from pacbandits.fields import Fields, Json, text
from pacbandits.version import __version__

FORMAT = "pacbandits benchmark 1"
MAX_SESSIONS = 1_000  # that are told of
PACKAGES = ("numpy", "scipy", "numba", "pyarrow")
Key = tuple[str, str, str, int]  # of a task
ROLES: tuple[Role, ...] = ("default", "tuned")


def environment() -> dict[str, str]:
    """What a clock depends on, and nothing that tells whose machine it is."""
    return {
        "pacbandits": __version__,
        "Python": platform.python_version(),
        **{name: version_of(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count() or 1),
    }


@dataclass(frozen=True)
class Selection:
    """What a command was asked to play.

    suite: its name.
    cases, entries: of it, by name and by spec.
    seeds: how many runs of each.
    """

    suite: str
    cases: tuple[str, ...]
    entries: tuple[str, ...]
    seeds: int

    @classmethod
    def of(cls, suite: Suite) -> Selection:
        """That of a suite, which may be a part of the one by its name."""
        return cls(
            suite.name, tuple(one.name for one in suite.cases), tuple(one.spec for one in suite.entries), suite.seeds
        )

    def within(self, whole: Suite) -> Suite:
        """The part of a suite that was asked for."""
        return replace(
            whole,
            cases=tuple(one for one in whole.cases if one.name in self.cases),
            entries=tuple(one for one in whole.entries if one.spec in self.entries),
            seeds=self.seeds,
        )


@dataclass(frozen=True)
class BenchmarkSession:
    """A command that played runs into the folder.

    command: as it was typed; of the folder, the last name.
    began: when, in UTC.
    environment: where, by `environment`.
    runs: how many it played; 0 of one that was killed, whose runs are there all the same.
    seconds: it took.
    peak_memory_bytes: of its largest process; None where the system does not tell.
    asked: what it was to play; None where that was not written down.
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
    """What a folder of results is.

    version: of the package that played; all runs of a folder are of one.
    suites: by name, as they were last played.
    sessions: the commands, in order.
    """

    version: str = __version__
    suites: Mapping[str, Suite] = field(default_factory=dict[str, Suite])
    sessions: tuple[BenchmarkSession, ...] = ()

    def with_suite(self, suite: Suite) -> Description:
        """The same with a suite, of which earlier commands may have played other cases and entries, or more seeds."""
        before = self.suites.get(suite.name, suite)
        whole = replace(
            suite,
            cases=tuple({one.name: one for one in (*before.cases, *suite.cases)}.values()),
            entries=tuple({one.spec: one for one in (*before.entries, *suite.entries)}.values()),
            seeds=max(suite.seeds, before.seeds),
        )
        return replace(self, suites={**self.suites, suite.name: whole})

    def with_session(self, session: BenchmarkSession) -> Description:
        """The same after one more command."""
        return replace(self, sessions=(*self.sessions, session)[-MAX_SESSIONS:])

    def wanted(self) -> frozenset[Key]:
        """The keys of all runs that the commands were asked to play."""
        asked = [one.asked for one in self.sessions if one.asked is not None and one.asked.suite in self.suites]
        known = bool(asked) and len(asked) == len(self.sessions)
        parts = [one.within(self.suites[one.suite]) for one in asked] if known else self.suites.values()
        return frozenset(task.key for part in parts for task in part.tasks())

    def to_json(self) -> Json:
        """Serialise to JSON-compatible values."""
        return {
            "format": FORMAT,
            "version": self.version,
            "suites": [asdict(suite) for suite in self.suites.values()],
            "sessions": [asdict(session) for session in self.sessions],
        }

    @classmethod
    def from_json(cls, value: object) -> Description:
        """Read what `to_json` wrote."""
        given = Fields.read(value, of="description of results")
        if given.given.get("format") != FORMAT:
            raise InputError(f"this describes no results of a benchmark: its format must be '{FORMAT}'")
        given.check_known(("format", "version", "suites", "sessions"))
        suites = [_suite(Fields.read(one, of="suite")) for one in given.items("suites")]
        sessions = [_session(Fields.read(one, of="session")) for one in given.items("sessions", most=MAX_SESSIONS)]
        return cls(given.text("version"), {suite.name: suite for suite in suites}, tuple(sessions))


def case_of(given: Fields) -> Case:
    """A case from its fields."""
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
    given.check_known(("name", "description", "cases", "entries", "seeds", "dear", "dear_seeds"))
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

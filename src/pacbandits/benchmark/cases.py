"""Cases of a benchmark (a problem with ε, δ and a budget) and entries (an algorithm with its options)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pacbandits.errors import InputError, plain
from pacbandits.policies.base import PolicyClass
from pacbandits.policies.finite import Finite
from pacbandits.problems import Problem, load_policies_for, load_problem
from pacbandits.records.columns import is_list, pa
from pacbandits.records.parquet import read_whole, reading, write

Role = Literal["default", "tuned"]

SHUFFLE_SEED = 20


@dataclass(frozen=True)
class Case:
    """A problem, with accuracy and budget.

    name: its name in tables.
    problem: the spec of the problem.
    epsilon, delta: how close to the best, and the probability of being wrong.
    most: the largest number of interactions of a run.
    policies: the spec of a policy class, if not the problem's own.
    growth: of the grid on which rivals play and answers are evaluated.
    certified: whether certificates are made; they need rewards in [0, 1].
    """

    name: str
    problem: str
    epsilon: float
    delta: float
    most: int
    policies: str = ""
    growth: float = 0.05
    certified: bool = True

    def load(self) -> Problem:
        """Load the problem with the policy class to search; a list of policies is shuffled with a fixed seed.

        Among tied policies the first is chosen, and in some problems the first is the best.
        """
        problem = load_problem(self.problem)
        policies = load_policies_for(self.policies, problem) if self.policies else problem.policies
        return replace(problem, policies=_shuffled(policies))


def _shuffled(policies: PolicyClass) -> PolicyClass:
    if not isinstance(policies, Finite):
        return policies
    order: list[int] = np.random.default_rng(SHUFFLE_SEED).permutation(len(policies)).tolist()
    names = None if policies.names is None else [policies.names[i] for i in order]
    return Finite(policies.table[order], n_actions=policies.n_actions, names=names)


@dataclass(frozen=True)
class Entry:
    """An algorithm in a table.

    name: its name in the table; entries of one name are one algorithm with different options.
    spec: the algorithm, `name:key=value,…`.
    role: published defaults, or tuned.
    """

    name: str
    spec: str
    role: Role = "default"


@dataclass(frozen=True)
class Task:
    """One run.

    suite: the name of its suite.
    case: the problem.
    entry: the algorithm.
    seed: of all random numbers.
    """

    suite: str
    case: Case
    entry: Entry
    seed: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """The key that identifies a run."""
        return self.suite, self.case.name, self.entry.spec, self.seed


# The result of one run as a row of a table.


@dataclass(frozen=True)
class Row:
    """The result of one run.

    suite, case, problem, policies, epsilon, delta, most, growth, certified: of the `Case`.
    entry, algorithm, role: of the `Entry`.
    seed: of all random numbers.
    version: of this package.

    samples, rounds, oracle_calls: their numbers.
    points: the numbers of interactions at which the answer was evaluated, rising.
    gaps: there, max V − V of the policy that it would answer, by the truth.
    leader_gaps: the same for the best policy by the certificate's own estimates; empty without certificates.
    regrets: there, the reward lost so far against the best policy, in expectation over actions and rewards.
    certified_at: the number of interactions at which our certificate accepted; None if it did not.
    certified_gap: the gap of the certified policy.
    own_at: the number at which the algorithm stopped by its own proof; None if it did not, or has none.
    own_gap: the gap of its answer then.
    stopped: why the run ended: certified, most, refused (the next round would have exceeded the budget), done.
    seconds: the time of the algorithm to choose and learn.
    seconds_certifying: the time of our certificate.
    decision_microseconds: the time of one decision, for one context, at the end.
    """

    suite: str
    case: str
    problem: str
    policies: str
    epsilon: float
    delta: float
    most: int
    growth: float
    certified: bool
    entry: str
    algorithm: str
    role: str
    seed: int
    version: str
    samples: int
    rounds: int
    oracle_calls: int
    points: tuple[int, ...]
    gaps: tuple[float, ...]
    leader_gaps: tuple[float, ...]
    regrets: tuple[float, ...]
    certified_at: int | None
    certified_gap: float | None
    own_at: int | None
    own_gap: float | None
    stopped: str
    seconds: float
    seconds_certifying: float
    decision_microseconds: float

    def to_json(self) -> dict[str, Any]:
        """Return every column by its name."""
        return asdict(self)


COLUMNS = tuple(field.name for field in fields(Row))


# Rows as a Parquet table: one column per field, lists as lists, missing values as nulls.


KEY_COLUMNS = ("suite", "case", "algorithm", "seed")
_KINDS: dict[str, Any] = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "int | None": pa.int64(),
    "float | None": pa.float64(),
    "tuple[int, ...]": pa.list_(pa.int64()),
    "tuple[float, ...]": pa.list_(pa.float64()),
}
_KIND_OF = {field.name: _KINDS[str(field.type)] for field in fields(Row)}
_NULLABLE = frozenset(field.name for field in fields(Row) if str(field.type).endswith("None"))


def table_of(rows: Iterable[Row]) -> Any:
    """Return an Arrow table of rows."""
    listed = list(rows)
    columns = {name: pa.array([getattr(row, name) for row in listed], type=kind) for name, kind in _KIND_OF.items()}
    return pa.table(columns)


def bytes_of(table: Any) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    made = BytesIO()
    write(made, dict(zip(table.column_names, table.columns, strict=True)))
    return made.getvalue()


def read_table(path: Path) -> Any:
    """Read the table in a file; raise InputError unless it holds runs of a benchmark."""
    with reading(path):
        table: Any = read_whole(path)
        _check(table)
        return table


def join(tables: Sequence[Any]) -> Any:
    """Return the rows of all tables sorted by key; of rows with one key the first."""
    if not tables:
        return table_of(())
    whole: Any = pa.concat_tables(tables)
    order = sorted(range(whole.num_rows), key=(keys := keys_of(whole)).__getitem__)  # a stable sort
    kept = [row for place, row in enumerate(order) if place == 0 or keys[row] != keys[order[place - 1]]]
    return whole.take(pa.array(kept, type=pa.int64())).combine_chunks()


def keys_of(table: Any) -> list[tuple[str, str, str, int]]:
    """Return the keys of a table's rows, as `Task.key`."""
    return list(zip(*(table.column(name).to_pylist() for name in KEY_COLUMNS), strict=True))


def rows_of(table: Any) -> list[Row]:
    """Return the rows of a table."""
    columns = [_values(table.column(name)) for name in COLUMNS]
    return [Row(*values) for values in zip(*columns, strict=True)]


def without_lists(table: Any) -> Any:
    """Return the table with empty lists: the inputs of its rows without the curves."""
    count, columns = table.num_rows, dict(zip(table.column_names, table.columns, strict=True))
    empty: Any = {name: pa.array([[]] * count, type=kind) for name, kind in _KIND_OF.items() if is_list(kind)}
    return pa.table(columns | empty)


def _values(column: Any) -> list[Any]:
    """Return the values of a column; each list as a tuple, many times faster than Arrow makes lists."""
    if not is_list(column.type):
        return column.to_pylist()
    array: Any = column.combine_chunks()
    chunks: list[Any] = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    out: list[Any] = []
    for chunk in chunks:
        ends: list[int] = chunk.offsets.to_numpy().tolist()
        start = ends[0] if ends else 0
        inside: list[Any] = chunk.flatten().to_numpy(zero_copy_only=False).tolist()
        out += [tuple(inside[a - start : b - start]) for a, b in pairwise(ends)]
    return out


def _check(table: Any) -> None:
    """Raise unless a table has the columns of rows, with valid types and lengths."""
    found = tuple(table.column_names)
    if found != COLUMNS:
        lacking = [name for name in COLUMNS if name not in found]
        other = [name for name in found if name not in COLUMNS]
        words = f"lacks the column '{lacking[0]}'" if lacking else "has its columns in another order"
        words = words if lacking or not other else f"has a column '{plain(other[0])}'"
        raise InputError(f"it {words}, so it holds no runs of this version's benchmarks")
    for name, kind in _KIND_OF.items():
        column: Any = table.column(name)
        if column.type != kind:
            raise InputError(f"its column '{name}' must be {kind}, got {plain(column.type)}; it is damaged")
        if name not in _NULLABLE and (column.null_count or _null_items(column)):
            raise InputError(f"its column '{name}' lacks values; it is damaged")
    lengths = {name: _lengths(table.column(name)) for name, kind in _KIND_OF.items() if is_list(kind)}
    leaders = lengths.pop("leader_gaps")
    wrong = any(counts != lengths["points"] for counts in lengths.values())
    if wrong or any(one not in (0, all_) for one, all_ in zip(leaders, lengths["points"], strict=True)):
        raise InputError("a row of it has lists of different lengths; it is damaged")


def _lengths(column: Any) -> list[int]:
    return [length for chunk in column.chunks for length in chunk.value_lengths().to_pylist()]


def _null_items(column: Any) -> bool:
    return is_list(column.type) and any(chunk.flatten().null_count for chunk in column.chunks)

"""Files of states with nonsense in them, sealed or not: a sentence, or the state that was saved; never anything else.

What is changed at random is the structure: values for others of their type or of another, entries taken away, doubled
and swapped, parts put in the place of others; and bytes and columns of tables, and bytes of the file.
"""

from __future__ import annotations

import copy
import io
import json
import math
import random
import resource
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pacbandits import load_state, save_state
from pacbandits.errors import InputError
from pacbandits.records.log import digest_contexts, digest_log
from pacbandits.trials.saved_state import MAX_FIGURE_ROUNDING, StateFile, StoredRound, entries_of
from tests.trials.saving_cases import FINITE, TREES, beginning, led

MANY = 1000  # files of a kind
MAX_SECONDS = 30
MAX_EXTRA_KILOBYTES = 2**20

DEEP = {"kind": "either"}
for _ in range(60):
    DEEP = {"kind": "either", "models": [DEEP]}
ODD = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        7,
        3.5,
        -0.5,
        1e-320,
        1e308,
        -1e308,
        math.nan,
        math.inf,
        2**31,
        2**53,
        2**63,
        10**40,
    ),
    *("", "x", "0", "\x1b[2J\x07", "ä\u202e" * 2000, "coda", "uniform", "table", "tree", "linear", "e" * 64),
    *(
        [],
        {},
        [[]],
        [0] * 500,
        [None],
        ["x"],
        [1e9] * 3,
        DEEP,
        {"kind": "table"},
        {"kind": "trivial", "n_actions": 10**9},
    ),
    {"kind": "either"},
    {"kind": "trivial", "n_actions": 10**4, "n_contexts": 10**4},
    {"kind": "table", "name": "\n", "n_actions": 10**8, "actions": [0]},
)


def places(value, path=()):
    """Every path that leads to something within a value."""
    if path:
        yield path
    for name, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places(inner, (*path, name))


def inside(value, path):
    for name in path:
        value = value[name]
    return value


def tweaked(value, rng):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, -value, 2 * value, value * 10**6, float(value), value + 0.5])
    if isinstance(value, float):
        whole = int(value) if math.isfinite(value) else 0
        return rng.choice([value * 1.5, -value, value * 1e200, value * 1e-200, value + 1, 0.0, whole])
    if isinstance(value, str):
        return rng.choice([value + "x", value[1:], value.upper(), value * 50])
    if isinstance(value, list):
        if not value:
            return [0]
        changes = [value[1:], value[:-1], [*value, value[0]], value[::-1], rng.sample(value, len(value)), value * 3]
        return rng.choice(changes)
    if isinstance(value, dict) and value:
        name = rng.choice(list(value))
        rest = {other: inner for other, inner in value.items() if other != name}
        return rng.choice([rest, rest | {name + "s": value[name]}, value | {"more": 1}])
    return rng.choice(ODD)


def mutated(given, rng):
    """The same with one to three changes."""
    given = copy.deepcopy(given)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        every = [path for path in places(given) if path[0] != "notes"]
        path = rng.choice([one for one in every if one[0] == rng.choice(every)[0]] or every)
        target, how = inside(given, path[:-1]), rng.random()
        if how < 0.5:
            target[path[-1]] = tweaked(target[path[-1]], rng)
        elif how < 0.8:
            target[path[-1]] = copy.deepcopy(rng.choice(ODD))
        elif how < 0.9:
            target[path[-1]] = copy.deepcopy(inside(given, rng.choice(every)))
        else:
            del target[path[-1]]
    return given


# Of a certificate: what only `verify` can tell, which computes it again, and the class, of which only the size counts.
FREE = ("policy", "words", "experts", "expert_share", "remarks", "assumptions", "class_digest")


def facts(algorithm, state):
    """What a proof rests on, and where the trial stands.

    Not how it counts its efforts, what it said of past rounds, and which policies of its class it explored by: all that
    could as well have been otherwise.
    """
    told = json.dumps(
        [
            [algorithm.name, algorithm.epsilon, algorithm.delta],
            [state.round_number, state.samples, state.finished, state.scales],
            [digest_contexts(state.contexts), digest_log(state.log), state.model.to_json(), state.policies.log_size],
            [state.missing, None if state.leaders is None else [state.leaders.turns, state.leaders.sizes]],
            [samples for _, samples in state.played],
            {name: value for name, value in state.certificate.to_json().items() if name not in FREE},
        ],
        default=float,
    )
    return json.loads(told)


def alike(found, before):
    """Whether facts are the same, their figures to the rounding that loading permits between two machines."""
    if isinstance(before, float) and isinstance(found, float):
        return math.isclose(found, before, rel_tol=MAX_FIGURE_ROUNDING, abs_tol=MAX_FIGURE_ROUNDING)
    if type(before) is not type(found) or not isinstance(before, list | dict):
        return found == before
    if isinstance(before, dict):
        return found.keys() == before.keys() and all(alike(found[name], before[name]) for name in before)
    return len(found) == len(before) and all(map(alike, found, before))


class Spoilt:
    """A file with a state in it, to be spoilt and put right again."""

    def __init__(self, path, algorithm, state):
        save_state(path, algorithm, state)
        self.path, self.before, self.whole = path, facts(algorithm, state), path.read_bytes()
        self.entries = entries_of(algorithm, state)
        load_state(path)
        self.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.refused = 0

    def put(self, number, entry):
        """Write another entry, with digests that fit."""
        self.path.write_bytes(self.whole)
        with StateFile.held(self.path) as file:
            file.replace([*self.entries[:number], entry, *self.entries[number + 1 :]])

    def check(self, what, *, same=True):
        """Load, and be told in a sentence that it cannot be, or get the state that was saved."""
        started = time.process_time()  # of this process alone, as others may keep it waiting
        try:
            found = facts(*load_state(self.path))
        except InputError as error:
            words = str(error)
            self.refused += 1
            assert words.isprintable() and len(words) < 600, (what, words)  # noqa: PT018
        else:
            assert not same or alike(found, self.before), what
        assert time.process_time() - started < MAX_SECONDS, what
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.memory
        assert grown < MAX_EXTRA_KILOBYTES, what


def base_of(name):
    """A state with leaders, with designs that weigh actions by models, or on trees; and its algorithm."""
    if name == "led":
        return led()
    algorithm, states = beginning(FINITE if name == "listed" else TREES, rounds=2)
    return algorithm, states[-1]


def spoil_json(file, seeds):
    for seed in seeds:
        rng = random.Random(seed)
        number = rng.randrange(len(file.entries))
        changed = mutated(json.loads(file.entries[number].body), rng)
        file.put(number, StoredRound(json.dumps(changed), file.entries[number].rows))
        file.check(seed)


def junk_in(data, rng, some):
    """The same with some of its bytes put in, or in the place of others."""
    start = rng.choice([rng.randrange(len(data)), len(data) - 1 - rng.randrange(min(len(data), 600))])
    junk = rng.choice(some)
    return data[:start] + junk + data[start + rng.choice([0, len(junk), 5, 40, len(data)]) :]


def spoil_text(file, seeds):
    """The letters themselves."""
    for seed in seeds:
        rng = random.Random(seed)
        number = rng.randrange(len(file.entries))
        some = ["", "\x00", "\u202e", "[" * 5000, '"\\ud800"', "1" * 6000, "}", '{"a":']
        body, rows = file.entries[number]
        file.put(number, StoredRound(junk_in(body, rng, some), rows))
        file.check(seed)


def spoil_rows(file, seeds):
    """The bytes of a table."""
    for seed in seeds:
        rng = random.Random(seed)
        number = rng.randrange(len(file.entries))
        body, rows = file.entries[number]
        file.put(
            number, StoredRound(body, junk_in(rows, rng, [b"", b"\x00", b"\xff" * 4, rng.randbytes(3), rows[:50]]))
        )
        file.check(seed, same=False)


def spoil_bytes(file, seeds):
    """The bytes of the file, whose digests then do not fit."""
    for seed in seeds:
        rng = random.Random(seed)
        some = [b"", b"\x00", b"\xff" * 4, rng.randbytes(3), file.whole[:50]]
        file.path.write_bytes(junk_in(file.whole, rng, some))
        file.check(seed)


COLUMNS = (
    lambda column: pa.array(["x"] * len(column)),
    lambda column: pa.array([None] * len(column)),
    lambda column: pa.array([math.nan] * len(column)),
    lambda column: pa.array([1e308] * len(column)),
    lambda column: pa.array([-1] * len(column)),
    lambda column: pa.array([2**62] * len(column)),
    lambda column: pa.array([[]] * len(column), type=pa.list_(pa.float64())),
    lambda column: pa.array([[[1.0]]] * len(column)),
    lambda column: pa.array([{"a": 1}] * len(column)),
    lambda column: pa.array([b"\xff"] * len(column)),
    lambda column: pa.nulls(len(column)),
    lambda column: column.slice(0, 1).take(pa.array([0] * len(column))),
    lambda column: column.take(pa.array(range(len(column) - 1, -1, -1))),
)


def spoil_columns(file, seeds):
    for seed in seeds:
        rng = random.Random(seed)
        entry = rng.randrange(len(file.entries))
        body, rows = file.entries[entry]
        whole = pq.read_table(io.BytesIO(rows))
        number = rng.randrange(whole.num_columns)
        name = whole.column_names[number]
        how = rng.random()
        if how < 0.6:
            changed = whole.set_column(number, name, rng.choice(COLUMNS)(whole.column(number).combine_chunks()))
        elif how < 0.7 and whole.num_columns > 1:
            changed = whole.remove_column(number)
        elif how < 0.8:
            changed = whole.append_column(rng.choice(["more", "propensity", "phi", "\x1b[2J"]), whole.column(number))
        elif how < 0.9:
            changed = whole.slice(0, rng.randrange(len(whole)))
        else:
            changed = pa.concat_tables([whole, whole.slice(0, 1)])
        table = io.BytesIO()
        pq.write_table(changed, table)
        file.put(entry, StoredRound(body, table.getvalue()))
        file.check(seed, same=False)


SPOILS = {
    "json": (spoil_json, 36),
    "text": (spoil_text, 8),
    "rows": (spoil_rows, 8),
    "bytes": (spoil_bytes, 8),
    "columns": (spoil_columns, 8),
}


@pytest.mark.thorough
@pytest.mark.parametrize("base", ["led", *(pytest.param(base, marks=pytest.mark.slow) for base in ("listed", "trees"))])
def test_nonsense_is_refused(base, tmp_path):
    file = Spoilt(tmp_path / "trial", *base_of(base))
    seed = int(np.sum([ord(letter) for letter in base]))
    for spoil, count in SPOILS.values():
        spoil(file, range(seed * 1000, seed * 1000 + count))
    assert file.refused > 0.7 * sum(count for _, count in SPOILS.values())


@pytest.mark.slow
@pytest.mark.parametrize("how", SPOILS)
@pytest.mark.parametrize("base", ["led", "listed", "trees"])
def test_much_nonsense_is_refused(base, how, tmp_path):
    file = Spoilt(tmp_path / "trial", *base_of(base))
    SPOILS[how][0](file, range(MANY))
    assert file.refused > 0.6 * MANY
